//! Tables of a server on the same machine: contiguous columns are mapped directly from the file, and not
//! sent.

use super::table::protocol_error;
use crate::flight::Query;
use crate::flight::names::version;
use crate::view::Table;
use arrow_schema::SchemaRef;
use hyperchunk::index::IndexOption;
use hyperchunk::io::LocalFile;
use hyperchunk::{ExternalPolicy, File, OpenOptions, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Local {
    path: PathBuf,
    /// The file's version as reported by the server.
    version: String,
}

impl Local {
    /// Parses the server's description of a table, if each of its columns is contiguous in a file.
    pub(super) fn new(about: &Value, schema: &SchemaRef) -> Option<Self> {
        let local = about.get("local")?;
        let columns = local.get("columns")?.as_object()?;
        if !schema.fields().iter().all(|field| columns.contains_key(field.name())) {
            return None;
        }
        let path = PathBuf::from(local.get("path")?.as_str()?);
        Some(Self { path, version: about.get("version")?.as_str()?.to_owned() })
    }

    /// Opens the table. `None` with a predicate or an epoch, for another version or schema, and after any error.
    pub(super) fn table(&self, query: &Query, schema: &SchemaRef) -> Option<Table> {
        // The server evaluates predicates; an epoch of a store is more than one file.
        if query.predicate.is_some() || query.epoch.is_some() {
            return None;
        }
        let table = self.open(query).ok()?;
        (table.schema() == *schema).then_some(table)
    }

    fn open(&self, query: &Query) -> Result<Table> {
        let file = LocalFile::open(&self.path)?;
        if version(&file) != self.version {
            return Err(protocol_error(&"the local file's version is not the server's"));
        }
        let mut options = OpenOptions::default();
        options.external = ExternalPolicy::Never;
        options.index = IndexOption::Never;
        hyperchunk_store::register();
        let file = File::from_source(Arc::new(file), Some(self.path.clone()), &options)?;
        query.select_rows(&Table::from_object(&query.object(&file)?, &query.options())?)
    }
}
