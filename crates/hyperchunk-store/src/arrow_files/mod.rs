//! Fragments: rows of a store in Arrow IPC files.
//!
//! A writer with [`Segments::Arrow`](super::Segments) has a file next to its log for each *table*,
//! the datasets of one group with the same maximum number of rows. Whole rows go there, column by
//! column; everything else goes to the log, including records of the rows' locations. A piece in a
//! fragment belongs to its writer's log, with a bit
//! ([`fragment_offset`](crate::format::fragment_offset)) set in its offset: only code that opens files
//! has to tell pieces in fragments from pieces in the log. The fragment's name follows from the dataset's
//! definition and the writer.

mod flatbuffer;
mod ipc;
mod joined_source;
mod table_reader;
mod table_writer;

pub(crate) use ipc::Field;
pub(crate) use joined_source::JoinedSource;
pub use joined_source::WriterBytes;
pub use table_reader::{Fragment, FragmentBatch, Fragments, fragments};
pub(crate) use table_writer::{Segment, Table};

use super::{Definition, WriterId, store_folder};
use crate::format::id::hash;
use std::path::{Path, PathBuf};

/// Folder of all tables.
const TABLES: &str = "tables";
/// Length above which names of tables are shortened.
const MAX_TABLE_NAME_BYTES: usize = 160;

/// Returns the name of a dataset's table: its group, and its maximum number of rows. `None` for a
/// dataset that cannot be a column.
pub(crate) fn table_name(definition: &Definition) -> Option<String> {
    let most = definition.max.first()?;
    let cut = definition.path.iter().rposition(|byte| *byte == b'/')?;
    let rows = most.map_or_else(|| "unlimited".to_owned(), |rows| rows.to_string());
    Some(format!("{}@{rows}", escaped(&definition.path[..cut])))
}

/// Returns the path of a group as a unique name of a folder.
fn escaped(group: &[u8]) -> String {
    let mut name = String::new();
    for byte in group.strip_prefix(b"/").unwrap_or(group) {
        match byte {
            b'/' => name.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(*byte)),
            // No leading dot: the folder would be hidden.
            b'.' if !name.is_empty() => name.push('.'),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    if name.len() > MAX_TABLE_NAME_BYTES {
        let digest = hash(group).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        name.truncate(MAX_TABLE_NAME_BYTES / 2);
        name.push('~');
        name.push_str(&digest);
    }
    name
}

/// Returns the name, in the store's folder, of a writer's fragment with rows of a dataset.
pub(crate) fn fragment_name(definition: &Definition, writer: WriterId) -> Option<String> {
    Some(table_file_name(&table_name(definition)?, writer))
}

/// Returns the name of the fragment of a writer for a table, in the store's folder.
pub(crate) fn table_file_name(table: &str, writer: WriterId) -> String {
    format!("{TABLES}/{table}/{writer}.arrow")
}

/// Returns the existing fragments of a writer.
pub(crate) fn find_fragments(path: &Path, writer: WriterId) -> Vec<PathBuf> {
    let Ok(tables) = std::fs::read_dir(store_folder(path).join(TABLES)) else { return Vec::new() };
    let names = tables.flatten().map(|table| table.path().join(format!("{writer}.arrow")));
    names.filter(|name| name.is_file()).collect()
}

#[cfg(test)]
mod tests;
