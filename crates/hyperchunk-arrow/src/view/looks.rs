//! A table as somebody wants its columns to look.

use super::table::{Column, Table};
use crate::Result;
use crate::types::{Cells, ColumnType, Compounds, Enums, Half, Look, Strings};
use arrow_schema::{Field, Schema};

/// The beginning of keys that Arrow itself has.
const ARROWS: &str = "ARROW:";

impl Table {
    /// The same table with its columns as in a schema, where that is only another way to look at them. Columns that cannot
    /// look so stay as they are, all of them where the schema has not as many.
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
    /// The same table with another look.
    ///
    /// # Errors
    /// Unsupported if a column cannot look so.
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
    // Of several, that which also says that it is the same.
    let found = fits.max_by_key(|made| made.field().extension_type_name() == wanted.extension_type_name())?;
    Some(with_more(found, field))
}

/// A column with what the metadata of another say that its own do not.
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

/// All ways to look at data.
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
