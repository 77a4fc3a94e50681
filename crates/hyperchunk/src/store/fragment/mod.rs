//! Fragments: rows of a store that lie in Arrow IPC files.
//!
//! A writer with [`Segments::Arrow`](super::Segments) keeps a file beside its log for each *table*, the datasets of one group
//! with equally many rows. Whole rows go there, column by column; everything else goes to the log, and so does what says which
//! rows are where. A piece in a fragment is one of its writer's log whose place has the bit [`FRAGMENT`] set: nothing but what
//! opens files must know of them. The fragment's name follows from the dataset's definition and the writer.

mod flat;
mod growing;
mod ipc;
mod joined;
mod seen;

pub(super) use growing::{Segment, Table};
pub(super) use ipc::Field;
pub(super) use joined::Joined;
pub use joined::WriterBytes;
pub use seen::{Fragment, FragmentBatch, Fragments, fragments};

use super::id::hash;
use super::{Definition, WriterId, folder_of};
use std::path::{Path, PathBuf};

/// Set in the place of a piece that lies in a fragment.
pub(super) const FRAGMENT: u64 = 1 << 62;
/// The lower bits of such a place are one in the file. Those between tell tables of one writer apart, so that no two pieces of a
/// writer are at the same place; whoever reads knows the table by the dataset.
const BITS: u32 = 48;
/// The folder of all tables.
const TABLES: &str = "tables";
/// Longer names of tables are cut off.
const LONGEST: usize = 160;

/// Whether a place is in a fragment.
pub(super) fn is_in(offset: u64) -> bool {
    offset & FRAGMENT != 0
}

/// The place in a fragment that a piece's place means.
pub(super) fn inside(offset: u64) -> u64 {
    offset & ((1 << BITS) - 1)
}

/// A place in the fragment of a writer's table.
pub(super) fn place(table: usize, offset: u64) -> u64 {
    (table as u64) << BITS & (FRAGMENT - 1) | inside(offset)
}

/// What the table of a dataset is called: its group and how many rows it can have. `None` for a dataset that cannot be a column.
pub(super) fn table_of(definition: &Definition) -> Option<String> {
    let most = definition.max.first()?;
    let cut = definition.path.iter().rposition(|byte| *byte == b'/')?;
    let rows = most.map_or_else(|| "unlimited".to_owned(), |rows| rows.to_string());
    Some(format!("{}@{rows}", escaped(&definition.path[..cut])))
}

/// The path of a group, as a name of a folder: no two groups have the same.
fn escaped(group: &[u8]) -> String {
    let mut name = String::new();
    for byte in group.strip_prefix(b"/").unwrap_or(group) {
        match byte {
            b'/' => name.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(*byte)),
            b'.' if !name.is_empty() => name.push('.'),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    if name.len() > LONGEST {
        let digest = hash(group).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        name.truncate(LONGEST / 2);
        name.push('~');
        name.push_str(&digest);
    }
    name
}

/// The name of the fragment of a writer that rows of a dataset lie in, in the store's folder.
pub(super) fn name_of(definition: &Definition, writer: WriterId) -> Option<String> {
    Some(file_of(&table_of(definition)?, writer))
}

/// The name of the fragment of a writer for a table, in the store's folder.
pub(super) fn file_of(table: &str, writer: WriterId) -> String {
    format!("{TABLES}/{table}/{writer}.arrow")
}

/// The fragments of a writer that are there.
pub(super) fn all_of(path: &Path, writer: WriterId) -> Vec<PathBuf> {
    let Ok(tables) = std::fs::read_dir(folder_of(path).join(TABLES)) else { return Vec::new() };
    let names = tables.flatten().map(|table| table.path().join(format!("{writer}.arrow")));
    names.filter(|name| name.is_file()).collect()
}

#[cfg(test)]
mod tests;
