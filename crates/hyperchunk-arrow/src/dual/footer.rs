//! The Arrow footer, which encloses the headers of the HDF5 objects that it describes and depends on their
//! checksums.
//!
//! - The FlatBuffers table of a column (`Field`) begins with a word that is the checksum of the header of the
//!   column's dataset.
//! - The file's last four bytes, `ROW1`, are the checksum of the header of the columns' group.
//! - Each group above it has a pair in the schema's metadata that begins with the checksum of the group's
//!   header.
//!
//! A program that changes one of these headers changes its checksum, which makes the footer invalid for every
//! Arrow reader.

use super::flat::{FlatBuffer, Slot, u16_at, u32_at};
use super::metadata;
use crate::{Error, Result};
use arrow_ipc::MetadataVersion;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_schema::{Field, Schema};
use hyperchunk::write::{FormatBytes, NodeId, Offsets, Plan, SealedObject, SecondFormat};
use std::sync::{Mutex, PoisonError};

/// The magic number at the start of a file, which a stream follows.
pub(super) const MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// The magic number at the end of a file.
pub(super) const ENDING: &[u8; 6] = b"ARROW1";

/// The `Field` table of a column without its first word, and the vtable that this word points to. `remainder`
/// is the table's position modulo 8.
#[derive(Debug, Clone)]
struct Description {
    vtable: Vec<u8>,
    behind: Vec<u8>,
    remainder: u64,
}

/// A row group in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) metadata: u64,
    pub(super) body: u64,
}

/// The contents of the footer at the next commit.
#[derive(Debug, Clone, Default)]
pub(super) struct FooterState {
    /// Columns and their datasets.
    pub(super) columns: Vec<(NodeId, Field)>,
    /// The metadata of the schema.
    pub(super) metadata: Vec<(String, String)>,
    pub(super) blocks: Vec<Block>,
    /// The groups above the columns' group, from the root on, and their paths.
    pub(super) above: Vec<(NodeId, String)>,
    /// The group of the columns, and its path.
    pub(super) group: (Option<NodeId>, String),
    /// Number of commits.
    pub(super) generation: u64,
}

/// The writer of footers.
#[derive(Debug, Default)]
pub(super) struct Footer {
    state: Mutex<FooterState>,
    /// Set by `plan`, and taken by `fill`.
    draft: Mutex<Option<Draft>>,
}

/// A footer whose addresses are not final.
#[derive(Debug)]
struct Draft {
    state: FooterState,
    descriptions: Vec<Description>,
    /// The bytes before the first header.
    front: FlatBuffer,
    /// The positions of the offsets to columns, and of their vtables.
    columns: Vec<(usize, usize)>,
    /// The positions of the offsets to groups, and of their vtables.
    above: Vec<(usize, usize)>,
    /// The position of the file's size.
    end: usize,
}

/// Number of digits of numbers that are filled in later.
const DIGIT_COUNT: usize = 20;
/// Returns the bytes after the checksum of a group's header: offsets to the key and the value, and both texts.
fn encode_pair(key: &str, value: &str) -> Vec<u8> {
    let mut flat = FlatBuffer { bytes: vec![0; 12] };
    let key_at = flat.text(key);
    let value_at = flat.text(value);
    let linked = flat.set_offset(4, key_at).and_then(|()| flat.set_offset(8, value_at));
    debug_assert!(linked.is_ok());
    flat.bytes.resize(flat.bytes.len().next_multiple_of(4), 0);
    flat.bytes.split_off(4)
}

impl Footer {
    pub(super) fn set_state(&self, state: FooterState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl Draft {
    fn new(state: FooterState) -> Result<Self> {
        let descriptions: Vec<Description> =
            state.columns.iter().map(|(_, field)| Description::new(field)).collect::<Result<_>>()?;
        let mut front = FlatBuffer::new();
        let slots = [Slot::I16(0, MetadataVersion::V5.0), Slot::Offset(1), Slot::Offset(3), Slot::Offset(4)];
        let (footer, offsets) = front.table(&slots);
        front.root(footer)?;
        let [schema_offset, blocks_offset, pairs_offset] = offsets[..] else {
            return Err(Error::invalid("a footer without its parts"));
        };
        let mut blocks = Vec::with_capacity(24 * state.blocks.len());
        let too_large = |_| Error::limit("an Arrow file of 2^63 bytes");
        for block in &state.blocks {
            blocks.extend(i64::try_from(block.offset).map_err(too_large)?.to_le_bytes());
            blocks.extend(i32::try_from(block.metadata).map_err(too_large)?.to_le_bytes());
            blocks.extend([0; 4]);
            blocks.extend(i64::try_from(block.body).map_err(too_large)?.to_le_bytes());
        }
        let at = front.structs(state.blocks.len(), &blocks);
        front.set_offset(blocks_offset, at)?;
        let pairs = [
            (metadata::DUAL.to_owned(), metadata::VERSION.to_owned()),
            (metadata::GROUP.to_owned(), state.group.1.clone()),
            (metadata::GENERATION.to_owned(), state.generation.to_string()),
            (metadata::END.to_owned(), "0".repeat(DIGIT_COUNT)),
        ];
        let at = front.pairs(&pairs)?;
        // The last written text, without its terminating zero.
        let end = front.bytes.len() - 1 - DIGIT_COUNT;
        front.set_offset(pairs_offset, at)?;
        let (schema, offsets) = front.table(&[Slot::Offset(1), Slot::Offset(2)]);
        front.set_offset(schema_offset, schema)?;
        let [fields_offset, pairs_offset] = offsets[..] else {
            return Err(Error::invalid("a schema without its parts"));
        };
        let fields = front.offset_vector(descriptions.len());
        front.set_offset(fields_offset, fields)?;
        let pairs = front.offset_vector(state.metadata.len() + state.above.len());
        front.set_offset(pairs_offset, pairs)?;
        for (number, pair) in state.metadata.iter().enumerate() {
            let table = front.pair(pair)?;
            front.set_offset(pairs + 4 + 4 * number, table)?;
        }
        let mut vtable = |bytes: &[u8], offset: usize| {
            front.bytes.resize(front.bytes.len().next_multiple_of(2), 0);
            let at = front.bytes.len();
            front.bytes.extend_from_slice(bytes);
            (offset, at)
        };
        let columns = descriptions
            .iter()
            .enumerate()
            .map(|(number, description)| vtable(&description.vtable, fields + 4 + 4 * number))
            .collect();
        // The vtable of a pair: two offsets.
        let pair: Vec<u8> = [8_u16, 12, 4, 8].into_iter().flat_map(u16::to_le_bytes).collect();
        let first = pairs + 4 + 4 * state.metadata.len();
        let above = (0..state.above.len()).map(|number| vtable(&pair, first + 4 * number)).collect();
        front.bytes.resize(front.bytes.len().next_multiple_of(8), 0);
        Ok(Self { state, descriptions, front, columns, above, end })
    }

    /// Returns the bytes after the checksums of groups.
    fn bytes_after_groups(&self) -> impl Iterator<Item = Vec<u8>> {
        let above = self.state.above.iter().enumerate();
        above.map(|(number, (_, path))| encode_pair(&format!("{}{number}", metadata::ABOVE), path))
    }
}

impl Description {
    /// Makes a description from arrow-ipc's encoding of a field.
    fn new(field: &Field) -> Result<Self> {
        let schema = Schema::new(vec![field.clone()]);
        let mut encoder = IpcSchemaEncoder::new();
        let built = encoder.schema_to_fb(&schema);
        let bytes = built.finished_data();
        let wrong = || Error::invalid("arrow-ipc encoded a field in an unknown way");
        let schema = u32_at(bytes, 0)?;
        let fields = follow(bytes, schema, 1)?.ok_or_else(wrong)?;
        let table = fields + 4 + u32_at(bytes, fields + 4)?;
        let vtable = find_vtable(bytes, table)?;
        let length = u16_at(bytes, vtable)?;
        let vtable = bytes.get(vtable..).and_then(|rest| rest.get(..length)).ok_or_else(wrong)?;
        let behind = bytes.get(table + 4..).ok_or_else(wrong)?;
        let behind = behind.to_vec();
        Ok(Self { vtable: vtable.to_vec(), behind, remainder: (table % 8) as u64 })
    }
}

/// Returns the position of a table's vtable.
fn find_vtable(bytes: &[u8], table: usize) -> Result<usize> {
    let back = u32_at(bytes, table)?;
    let back = u32::try_from(back).unwrap_or(0).cast_signed();
    let table = i64::try_from(table).ok();
    table
        .and_then(|table| usize::try_from(table - i64::from(back)).ok())
        .ok_or_else(|| Error::corrupt("a vtable before the start of the Arrow metadata"))
}

/// Returns the target of a table's offset, if it is present.
fn follow(bytes: &[u8], table: usize, number: usize) -> Result<Option<usize>> {
    let vtable = find_vtable(bytes, table)?;
    let place = 4 + 2 * number;
    if place + 2 > u16_at(bytes, vtable)? {
        return Ok(None);
    }
    let field = u16_at(bytes, vtable + place)?;
    let at = table + field;
    Ok(if field == 0 { None } else { Some(at + u32_at(bytes, at)?) })
}

impl SecondFormat for Footer {
    fn plan(&self) -> Result<Plan> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let group = state.group.0.ok_or_else(|| Error::invalid("a footer without a group"))?;
        let draft = Draft::new(state)?;
        let columns = draft.state.columns.iter().zip(&draft.descriptions);
        let mut sealed: Vec<SealedObject> = columns
            .map(|((object, _), description)| SealedObject {
                object: *object,
                remainder: description.remainder,
                behind: description.behind.len() as u64,
            })
            .collect();
        for ((object, _), behind) in draft.state.above.iter().zip(draft.bytes_after_groups()) {
            sealed.push(SealedObject { object: *object, remainder: 0, behind: behind.len() as u64 });
        }
        // The file ends after this checksum, with the last four bytes of the magic number.
        sealed.push(SealedObject { object: group, remainder: 4, behind: 0 });
        let front = draft.front.bytes.len() as u64;
        *self.draft.lock().unwrap_or_else(PoisonError::into_inner) = Some(draft);
        Ok(Plan { front, sealed })
    }

    fn fill(&self, places: &Offsets) -> Result<FormatBytes> {
        let draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner).take();
        let draft = draft.ok_or_else(|| Error::invalid("a footer that was not planned"))?;
        let mut front = draft.front.clone();
        let too_large = |_| Error::limit("Arrow metadata of 2 GiB");
        // The distance from the start of the front to a checksum.
        let at = |checksum: &u64| usize::try_from(checksum.wrapping_sub(places.front)).map_err(too_large);
        let mut sealed = Vec::new();
        let mut checksums = places.checksums.iter();
        let mut tie = |offsets: &[(usize, usize)], behind: Vec<Vec<u8>>, front: &mut FlatBuffer| {
            for ((offset, vtable), behind) in offsets.iter().zip(behind) {
                let checksum =
                    checksums.next().ok_or_else(|| Error::invalid("fewer checksums than tables"))?;
                let table = at(checksum)?;
                front.set_offset(*offset, table)?;
                let back =
                    table.checked_sub(*vtable).ok_or_else(|| Error::invalid("a table before its vtable"))?;
                sealed.push((i32::try_from(back).map_err(too_large)?.to_le_bytes(), behind));
            }
            Ok::<_, Error>(())
        };
        let columns = draft.descriptions.iter().map(|description| description.behind.clone()).collect();
        tie(&draft.columns, columns, &mut front)?;
        tie(&draft.above, draft.bytes_after_groups().collect(), &mut front)?;
        let end = format!("{:0width$}", places.end, width = DIGIT_COUNT);
        if let Some(place) = front.bytes.get_mut(draft.end..).and_then(|rest| rest.get_mut(..DIGIT_COUNT)) {
            place.copy_from_slice(end.as_bytes());
        }
        let length = places.end.wrapping_sub(places.front + 10);
        let length = i32::try_from(length).map_err(too_large)?.to_le_bytes();
        let [a, b, c, d, e, f] = *ENDING;
        sealed.push(([c, d, e, f], Vec::new()));
        let mut ending = [0, 0, 0, 0, a, b];
        ending[..4].copy_from_slice(&length);
        Ok(FormatBytes { front: front.bytes, sealed, ending })
    }
}
