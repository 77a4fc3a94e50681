//! Tables with other conversion options.

use super::imported_columns::{restore_again, restored_type};
use super::table::{Column, Table};
use crate::Result;
use crate::types::{Cells, ColumnType, Compounds, ConversionOptions, Enums, Half, Strings};
use arrow_schema::{Field, Schema};

/// The prefix of Arrow's own metadata keys.
const ARROW_KEY_PREFIX: &str = "ARROW:";

impl Table {
    /// Converts the columns to the types of a schema, if conversion options allow it. Columns for which that
    /// is not possible stay unchanged; all of them do if the number of columns differs.
    #[must_use]
    pub fn with_schema(&self, wanted: &Schema) -> Self {
        if wanted.fields().len() != self.0.columns.len() {
            return self.clone();
        }
        let columns = self.0.columns.iter().zip(wanted.fields()).map(|(column, wanted)| {
            let kind = with_schema(column, wanted).unwrap_or_else(|| column.kind.clone());
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
    pub fn with_conversion(&self, conversion: &ConversionOptions) -> Result<Self> {
        let columns = self.0.columns.iter().map(|column| {
            let kind = &column.kind;
            let made = ColumnType::new(kind.field().name(), kind.datatype(), kind.cell(), conversion)?;
            Ok(Column { kind: restore_again(with_more(made, kind.field()), column), ..*column })
        });
        Ok(self.with_columns(columns.collect::<Result<_>>()?))
    }
}

fn with_schema(column: &Column, wanted: &Field) -> Option<ColumnType> {
    let kind = &column.kind;
    let field = kind.field();
    if field.data_type() == wanted.data_type()
        && (plain(wanted) || field.extension_type_name() == wanted.extension_type_name())
    {
        return None;
    }
    let made = all_conversions().filter_map(|conversion| {
        ColumnType::new(field.name(), kind.datatype(), kind.cell(), &conversion).ok()
    });
    // Values of an imported type mean nothing as those of the stored one.
    let fits = made.filter(|made| {
        made.field().data_type() == wanted.data_type()
            && restored_type(made.field(), field.data_type()).is_none()
    });
    // Prefer the one with the same extension type.
    let found = fits.max_by_key(|made| made.field().extension_type_name() == wanted.extension_type_name())?;
    Some(restore_again(with_more(found, field), column))
}

/// Adds another field's metadata that a column lacks.
fn with_more(kind: ColumnType, other: &Field) -> ColumnType {
    let known = kind.field().metadata();
    let more = other
        .metadata()
        .iter()
        .filter(|(key, _)| !known.contains_key(key) && !key.starts_with(ARROW_KEY_PREFIX));
    let more: Vec<(String, String)> = more.map(|(key, value)| (key.clone(), value.clone())).collect();
    kind.with_metadata(more)
}

fn plain(field: &Field) -> bool {
    field.extension_type_name().is_none()
}

/// Returns all combinations of conversion options.
fn all_conversions() -> impl Iterator<Item = ConversionOptions> {
    let cells = [Cells::Tensor, Cells::List].into_iter();
    let with_strings =
        cells.flat_map(|cells| [Strings::Text, Strings::Stored].map(|strings| (cells, strings)));
    let with_halves = with_strings
        .flat_map(|(cells, strings)| [Half::Float16, Half::Float32].map(|half| (cells, strings, half)));
    with_halves.flat_map(|(cells, strings, half)| {
        [Enums::Values, Enums::Dictionary].map(|enums| ConversionOptions {
            cells,
            strings,
            half,
            enums,
            compounds: Compounds::Columns,
        })
    })
}
