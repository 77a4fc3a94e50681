//! Tables with other conversion options.

use super::table::{Column, Table};
use crate::Result;
use crate::types::{Cells, ColumnType, Compounds, Enums, Half, Look, Strings};
use arrow_schema::{Field, Schema};

/// The prefix of Arrow's own metadata keys.
const ARROWS: &str = "ARROW:";

impl Table {
    /// Converts the columns to the types of a schema, if conversion options allow it. Columns for which that
    /// is not possible stay unchanged; all of them do if the number of columns differs.
    #[must_use]
    pub fn looking_as(&self, wanted: &Schema) -> Self {
        if wanted.fields().len() != self.0.columns.len() {
            return self.clone();
        }
        let columns = self.0.columns.iter().zip(wanted.fields()).map(|(column, wanted)| {
            let kind = looking_as(&column.kind, wanted).unwrap_or_else(|| column.kind.clone());
            Column { kind, ..*column }
        });
        self.with_columns(columns.collect())
    }
}

impl Table {
    /// Returns the table with other conversion options.
    ///
    /// # Errors
    /// Unsupported if they do not apply to a column.
    pub fn with_look(&self, look: &Look) -> Result<Self> {
        let columns = self.0.columns.iter().map(|column| {
            let kind = &column.kind;
            let made = ColumnType::new(kind.field().name(), kind.datatype(), kind.cell(), look)?;
            Ok(Column { kind: with_more(made, kind.field()), ..*column })
        });
        Ok(self.with_columns(columns.collect::<Result<_>>()?))
    }
}

fn looking_as(kind: &ColumnType, wanted: &Field) -> Option<ColumnType> {
    let field = kind.field();
    if field.data_type() == wanted.data_type()
        && (plain(wanted) || field.extension_type_name() == wanted.extension_type_name())
    {
        return None;
    }
    let made =
        looks().filter_map(|look| ColumnType::new(field.name(), kind.datatype(), kind.cell(), &look).ok());
    let fits = made.filter(|made| made.field().data_type() == wanted.data_type());
    // Prefer the one with the same extension type.
    let found = fits.max_by_key(|made| made.field().extension_type_name() == wanted.extension_type_name())?;
    Some(with_more(found, field))
}

/// Adds another field's metadata that a column lacks.
fn with_more(kind: ColumnType, other: &Field) -> ColumnType {
    let known = kind.field().metadata();
    let more =
        other.metadata().iter().filter(|(key, _)| !known.contains_key(key) && !key.starts_with(ARROWS));
    let more: Vec<(String, String)> = more.map(|(key, value)| (key.clone(), value.clone())).collect();
    kind.with_metadata(more)
}

fn plain(field: &Field) -> bool {
    field.extension_type_name().is_none()
}

/// Returns all combinations of conversion options.
fn looks() -> impl Iterator<Item = Look> {
    let cells = [Cells::Tensor, Cells::List].into_iter();
    let with_strings =
        cells.flat_map(|cells| [Strings::Text, Strings::Stored].map(|strings| (cells, strings)));
    let with_halves = with_strings
        .flat_map(|(cells, strings)| [Half::Float16, Half::Float32].map(|half| (cells, strings, half)));
    with_halves.flat_map(|(cells, strings, half)| {
        [Enums::Values, Enums::Dictionary].map(|enums| Look {
            cells,
            strings,
            half,
            enums,
            compounds: Compounds::Columns,
        })
    })
}
