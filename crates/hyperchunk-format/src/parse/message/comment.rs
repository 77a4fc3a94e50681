//! Object comments. Source: specification §IV.A.2.n, "Object Comment".

use crate::Cursor;
use crate::model::Name;

/// Reads the comment, up to the first NUL.
#[must_use]
pub fn parse(cursor: &Cursor<'_>) -> Name {
    cursor.rest().split(|byte| *byte == 0).next().unwrap_or_default().into()
}
