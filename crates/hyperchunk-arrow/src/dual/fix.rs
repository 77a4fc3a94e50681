//! Adding Arrow footers to existing files.

use super::batch::{self, BodyRange, CONTINUATION};
use super::check::{CheckReport, Hdf5Column, check, part};
use super::columns::{
    ALIGNMENT_BYTES, PAGE_ALIGNED_BYTES, PAGE_BYTES, attributes, conversion, layout_row_group, schema_message,
};
use super::footer::{Block, Footer, FooterState, MAGIC};
use super::metadata::GROUP;
use crate::types::ColumnType;
use crate::{Error, Result};
use arrow_schema::{Field, Metadata, Schema};
use hyperchunk::model::{LinkTarget, ObjectKind};
use hyperchunk::pack::{Chunking, Filtering, Input, PackOptions, PackPlan};
use hyperchunk::write::{CreateOptions, NewLink, NodeId, Writer};
use hyperchunk::{Dataset, File, Object, OpenOptions, output};
use std::collections::HashSet;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

/// Options of [`fix`] and [`fix_to`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FixOptions {
    /// The group of the columns; by default the group that the file's schema names, or the root group.
    pub group: Option<String>,
    /// The columns, in their order; by default all datasets of the group that can be columns.
    pub columns: Option<Vec<String>>,
    /// Replace an existing file when making a copy.
    pub replace: bool,
}

/// The result of adding a footer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FixReport {
    /// The state of the file afterwards.
    pub checked: CheckReport,
    /// Datasets that are not columns, with the reasons.
    pub notes: Vec<String>,
    /// True if the file was written to.
    pub changed: bool,
}

/// Adds an Arrow footer to a file, in place, with its present datasets as columns. Data keep their addresses,
/// except misaligned values, which are copied to the end of the file. If this process is killed, the HDF5
/// side is unchanged.
///
/// # Errors
/// Unsupported if the file has to be copied ([`fix_to`]); as [`Writer::adopt`].
pub fn fix(path: impl AsRef<Path>, options: &FixOptions) -> Result<FixReport> {
    let path = path.as_ref();
    fixed(path, options).map_err(|error| error.file(path.display()))
}

/// Copies a file to a dual file. `total` gets the number of bytes to copy, then `progress` gets the number of
/// bytes of each copied part.
///
/// # Errors
/// Errors of copying ([`PackPlan::write`]); as [`fix`].
pub fn fix_to(
    path: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &FixOptions,
    total: &dyn Fn(u64),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<FixReport> {
    let (path, out) = (path.as_ref(), out.as_ref());
    output::accept(out, &[output::Kind::Hdf5, output::Kind::Table])?;
    output::check(out, options.replace, &[path])?;
    hyperchunk_store::register();
    let file = File::open(path, &OpenOptions::default())?;
    let packing = planned(&file, path, options).map_err(|error| error.file(path.display()))?;
    total(packing.total());
    packing.write(out, progress)?;
    fix(out, options)
}

/// Plans a copy in which columns are contiguous, after a user block with room for the Arrow schema.
fn planned(file: &File, path: &Path, options: &FixOptions) -> Result<PackPlan> {
    let group_path = find_group(file, path, options)?;
    let group = file.root()?.group()?.get(group_path.as_bytes())?;
    let mut pack = PackOptions::default();
    pack.replace = options.replace;
    let (mut fields, mut big) = (Vec::new(), false);
    for (name, dataset) in datasets(&group, options)? {
        let Some((_, cell)) = dataset.dims().split_first() else { continue };
        let column = ColumnType::new(&name, dataset.datatype(), cell, &conversion());
        let Some(column) = column.ok().filter(|column| column.zero_copy().is_some()) else { continue };
        let rule = format!("{}/{name}", group_path.trim_end_matches('/'));
        pack.chunk_rules.push((rule.clone(), Chunking::Contiguous));
        pack.filter_rules.push((rule, Filtering::None));
        big |= dataset.elements().unwrap_or(0).saturating_mul(dataset.datatype().size) >= PAGE_ALIGNED_BYTES;
        fields.push((**column.field()).clone());
    }
    let nothing = BodyRange { offset: 0, length: 0 };
    let types: Vec<_> = fields.iter().map(|field| (field.data_type(), nothing)).collect();
    let message = batch::message(0, &types, 0, 0)?.len();
    let schema = schema_message(&dual_schema(fields.clone(), &group_path))?.len();
    let needed = (MAGIC.len() + schema + message + 64) as u64;
    pack.user_block = Some(needed.max(PAGE_BYTES).next_power_of_two());
    (pack.lasting, pack.alignment) = (true, if big { PAGE_BYTES } else { ALIGNMENT_BYTES });
    PackPlan::new(vec![Input { file: file.clone(), into: String::new() }], pack)
}

fn dual_schema(fields: Vec<Field>, group: &str) -> Schema {
    Schema::new_with_metadata(
        fields,
        [(GROUP.to_owned(), group.to_owned())].into_iter().collect::<Metadata>(),
    )
}

/// Returns the path of the columns' group.
fn find_group(file: &File, path: &Path, options: &FixOptions) -> Result<String> {
    if let Some(group) = &options.group {
        return Ok(group.clone());
    }
    Ok(read_user_block(file, path)?.0.unwrap_or_else(|| "/".into()))
}

/// Returns the group and the columns in the schema of the user block.
fn read_user_block(file: &File, path: &Path) -> Result<(Option<String>, HashSet<String>)> {
    let base = file.superblock().base.min(1 << 26);
    if base < 512 {
        return Ok((None, HashSet::new()));
    }
    let mut opened = open(path)?;
    let front = part(&mut opened, 0, base)?;
    let message = front.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&CONTINUATION));
    let message =
        message.and_then(|rest| rest.get(4..)).and_then(|rest| arrow_ipc::root_as_message(rest).ok());
    let schema = message.as_ref().and_then(arrow_ipc::Message::header_as_schema);
    let pairs = schema.and_then(|schema| schema.custom_metadata());
    let pair = pairs.iter().flatten().find(|pair| pair.key() == Some(GROUP));
    let fields = schema.and_then(|schema| schema.fields()).into_iter().flatten();
    let names = fields.filter_map(|field| field.name()).map(str::to_owned).collect();
    Ok((pair.and_then(|pair| pair.value()).map(str::to_owned), names))
}

fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path)
        .map_err(|error| Error::new(hyperchunk::ErrorKind::Io, format!("cannot open the file: {error}")))
}

/// Returns the requested datasets of a group, or all.
fn datasets(group: &Object, options: &FixOptions) -> Result<Vec<(String, Dataset)>> {
    let inside = group.group()?;
    if let Some(names) = &options.columns {
        let found = names.iter().map(|name| Ok((name.clone(), inside.get(name.as_bytes())?.dataset()?)));
        return found.collect();
    }
    let mut links = inside.links()?;
    if inside.tracks_order()? {
        links.sort_by_key(|link| link.creation_order);
    }
    let mut found = Vec::new();
    for link in links {
        let LinkTarget::Hard(address) = link.target else { continue };
        let object = group.file().object(address)?;
        let Some(name) = link.name.as_str().filter(|_| object.kind() == ObjectKind::Dataset) else {
            continue;
        };
        found.push((name.to_owned(), object.dataset()?));
    }
    Ok(found)
}

/// Returns the columns of a group, and notes about datasets that are not columns.
fn columns(
    group: &Object,
    options: &FixOptions,
    old: &HashSet<String>,
) -> Result<(Vec<Hdf5Column>, Vec<String>)> {
    let (mut columns, mut notes) = (Vec::new(), Vec::new());
    for (name, dataset) in datasets(group, options)? {
        match Hdf5Column::new(&name, dataset) {
            Ok(column) => columns.push(column),
            Err(error) if options.columns.is_none() => notes.push(error.message().to_owned()),
            Err(error) => return Err(error),
        }
    }
    // A dataset with several names is one column, under the name that it had before.
    if options.columns.is_none() {
        columns.sort_by_key(|column| !old.contains(column.field.name()));
        let mut seen = HashSet::new();
        columns.retain(|column| {
            let first = seen.insert(column.dataset.object().address());
            if !first {
                notes.push(format!("dataset {:?} is a column by another name", column.field.name()));
            }
            first
        });
    }
    // A new dataset becomes a column if it has as many rows as the previous columns.
    let known = |column: &Hdf5Column| old.contains(column.field.name());
    let rows = columns.iter().find(|column| known(column)).map(Hdf5Column::rows);
    if let Some(rows) = rows.filter(|_| options.columns.is_none()) {
        columns.retain(|column| {
            let stays = known(column) || column.rows() == rows;
            if !stays {
                let (name, others) = (column.field.name(), column.rows());
                notes.push(format!("dataset {name:?} is no Arrow column: it has {others} rows, not {rows}"));
            }
            stays
        });
    }
    let Some(rows) = columns.first().map(Hdf5Column::rows) else {
        let notes = if notes.is_empty() { "it has no datasets".to_owned() } else { notes.join("; ") };
        return Err(Error::unsupported(format!("no dataset of the group can be an Arrow column: {notes}")));
    };
    if let Some(other) = columns.iter().find(|column| column.rows() != rows) {
        let (first, other_name) = (columns[0].field.name(), other.field.name());
        let message = format!(
            "datasets {first:?} and {other_name:?} have {rows} and {} rows: choose the columns (--columns)",
            other.rows()
        );
        return Err(Error::unsupported(message));
    }
    Ok((columns, notes))
}

/// Returns the error for a file that needs a copy.
fn needs_copy(what: String) -> Error {
    Error::unsupported(format!("{what}: write a copy instead (-o)"))
}

fn fixed(path: &Path, options: &FixOptions) -> Result<FixReport> {
    let before = check(path)?;
    if before.is_current() && options.group.is_none() && options.columns.is_none() {
        return Ok(FixReport { checked: before, ..FixReport::default() });
    }
    hyperchunk_store::register();
    let file = File::open(path, &OpenOptions::default())?;
    let base = file.superblock().base;
    if base < 512 {
        return Err(needs_copy("the file has no user block, which the Arrow header needs".into()));
    }
    let mut bytes = open(path)?;
    let front = part(&mut bytes, 0, base.min(1 << 26))?;
    if !front.starts_with(MAGIC) && front.iter().any(|byte| *byte != 0) {
        return Err(needs_copy("the user block contains other data".into()));
    }
    let group_path = find_group(&file, path, options)?;
    let names: Vec<&str> = group_path.split('/').filter(|name| !name.is_empty()).collect();
    let shown = format!("/{}", names.join("/"));
    let group = file.root()?.group()?.get(shown.as_bytes())?;
    let (mut columns, notes) = columns(&group, options, &read_user_block(&file, path)?.1)?;
    let rows = columns.first().map_or(0, Hdf5Column::rows);
    let chunks: HashSet<u64> = columns.iter().filter_map(|column| column.chunk).collect();
    let height = match chunks.len() {
        0 => rows,
        1 => chunks.into_iter().next().unwrap_or(rows),
        _ => return Err(needs_copy("columns have chunks of different heights".into())),
    };
    let fields = columns.iter().map(|column| column.described(&column.field));
    let fields: Vec<Field> = fields.collect::<Result<_>>()?;
    let anew = columns.iter().map(|column| column.dataset.object().address()).collect();
    let mut lasting = CreateOptions::default();
    lasting.lasting = true;
    let (writer, adopted) = Writer::adopt(&file, &anew, &lasting)?;
    let ids = columns.iter().map(|column| adopted.get(&column.dataset.object().address()).copied());
    let ids: Option<Vec<NodeId>> = ids.collect();
    let ids = ids.ok_or_else(|| Error::invalid("a column's dataset was not adopted by the writer"))?;
    if ids.iter().collect::<HashSet<_>>().len() < ids.len() {
        return Err(needs_copy("two columns are one dataset".into()));
    }
    // A byte after the footer makes the file invalid for Arrow's readers until the commit.
    writer.write_reserved(writer.size(), &mut [IoSlice::new(&[0])])?;
    for (column, id) in columns.iter_mut().zip(&ids) {
        align(&writer, column, *id, base)?;
    }
    let groups = places(&columns, rows, height, base, &mut bytes, &dual_schema(fields.clone(), &shown))?;
    for (at, message) in groups.written {
        if at < base {
            writer.write_user_block(at, &message)?;
        } else {
            writer.write_reserved(at - base, &mut [IoSlice::new(&message)])?;
        }
    }
    let (mut at, mut above) = (NodeId::ROOT, Vec::new());
    let mut so_far = String::from("/");
    for name in names {
        above.push((at, so_far.clone()));
        let Some(NewLink::Hard(next)) = writer.find(at, name.as_bytes())? else {
            return Err(needs_copy(format!("{shown} is not reached by hard links")));
        };
        at = next;
        so_far = format!("{}/{name}", so_far.trim_end_matches('/'));
    }
    let footer = Arc::new(Footer::default());
    footer.set_state(FooterState {
        columns: ids.into_iter().zip(fields).collect(),
        metadata: attributes(&group)?,
        blocks: groups.blocks,
        above,
        group: (Some(at), shown),
        generation: before.generation.unwrap_or(0) + 1,
    });
    writer.set_second_format(footer);
    drop((columns, file));
    writer.close()?;
    let checked = check(path)?;
    match checked.problems.first() {
        None => Ok(FixReport { checked, notes, changed: true }),
        Some(problem) => Err(Error::invalid(format!("the new Arrow side is invalid: {problem}"))),
    }
}

/// Copies misaligned values to newly allocated, aligned space.
fn align(writer: &Writer, column: &mut Hdf5Column, id: NodeId, base: u64) -> Result<()> {
    let rows = column.rows();
    let height = column.chunk.unwrap_or(rows);
    let size = height.checked_mul(column.row_size).ok_or_else(|| Error::limit("a chunk of 2^64 bytes"))?;
    let dataset = writer.dataset(id)?;
    let rank = column.dataset.dims().len();
    let mut buffer = Vec::new();
    for (start, number) in column.starts.iter_mut().zip(0..) {
        if (*start + base).is_multiple_of(column.alignment.max(8)) {
            continue;
        }
        let place =
            writer.reserve(size, if size >= PAGE_ALIGNED_BYTES { PAGE_BYTES } else { ALIGNMENT_BYTES })?;
        let mut at = 0;
        while at < size {
            buffer.resize(usize::try_from((size - at).min(4 << 20)).unwrap_or(0), 0);
            writer.read_reserved(*start + at, &mut buffer)?;
            writer.write_reserved(place + at, &mut [IoSlice::new(&buffer)])?;
            at += buffer.len() as u64;
        }
        let mut offset = vec![0; rank];
        match (column.chunk, offset.first_mut()) {
            (Some(chunk), Some(first)) => {
                *first = number * chunk;
                dataset.place_chunk(&offset, place)?;
            }
            _ => dataset.place(place)?,
        }
        *start = place;
    }
    Ok(())
}

/// The locations of the messages of row groups.
struct Groups {
    blocks: Vec<Block>,
    /// Bytes to write, with their offsets in the file.
    written: Vec<(u64, Vec<u8>)>,
}

/// Plans the row groups and their messages. A group with the layout of a dual file keeps the position of its
/// message; other messages are put into the user block.
fn places(
    columns: &[Hdf5Column],
    rows: u64,
    height: u64,
    base: u64,
    bytes: &mut std::fs::File,
    schema: &Schema,
) -> Result<Groups> {
    let nothing = BodyRange { offset: 0, length: 0 };
    let types: Vec<_> = columns.iter().map(|column| (column.field.data_type(), nothing)).collect();
    let length = (batch::message(0, &types, 0, 0)?.len() as u64).next_multiple_of(ALIGNMENT_BYTES);
    let count = if rows == 0 { 0 } else { rows.div_ceil(height.max(1)) };
    let sizes: Vec<u64> = columns.iter().map(|column| column.row_size).collect();
    let mut groups = Groups { blocks: Vec::new(), written: Vec::new() };
    let too_small = || {
        needs_copy(format!(
            "the user block of {base} bytes has no room for the messages of {count} row groups"
        ))
    };
    let front = schema_message(schema)?;
    let all = count.checked_mul(length).ok_or_else(too_small)?;
    let mut next = MAGIC.len() as u64;
    groups.written.push((0, MAGIC.to_vec()));
    if next + (front.len() as u64) <= base {
        groups.written.push((next, front.clone()));
        next += front.len() as u64;
    }
    let mut own = 0;
    for number in 0..count {
        let first = number * height;
        let some = height.min(rows - first);
        let starts: Option<Vec<u64>> = columns.iter().map(|column| column.place(first, some)).collect();
        let starts =
            starts.ok_or_else(|| needs_copy("a row group is not contiguous in each column".into()))?;
        let ends = starts.iter().zip(&sizes).map(|(start, size)| start + some * size);
        let end = (base + ends.max().unwrap_or(0)).next_multiple_of(8);
        let offset = match before(&starts, &sizes, height.max(some), length, base, bytes)? {
            Some(offset) => {
                own += 1;
                offset
            }
            None => {
                let offset = next.next_multiple_of(8);
                next = offset + length;
                if next > base {
                    return Err(too_small());
                }
                offset
            }
        };
        let body = offset + length;
        let placed = columns.iter().zip(&starts).map(|(column, start)| {
            let place =
                BodyRange { offset: (start + base).saturating_sub(body), length: some * column.row_size };
            (column.field.data_type(), place)
        });
        let placed: Vec<_> = placed.collect();
        let message = batch::message(some, &placed, end - body, usize::try_from(length).unwrap_or(0))?;
        groups.written.push((offset, message));
        groups.blocks.push(Block { offset, metadata: length, body: end - body });
    }
    debug_assert!(own * length <= all);
    Ok(groups)
}

/// Returns the address of the message before a row group's values, if the group has the layout of a dual
/// file.
fn before(
    starts: &[u64],
    sizes: &[u64],
    room: u64,
    length: u64,
    base: u64,
    bytes: &mut std::fs::File,
) -> Result<Option<u64>> {
    let (laid, _) = layout_row_group(sizes, room, 2 * length)?;
    let Some(begin) = starts.first().zip(laid.first()).and_then(|(start, laid)| start.checked_sub(*laid))
    else {
        return Ok(None);
    };
    if starts.iter().zip(&laid).any(|(start, laid)| begin + laid != *start) {
        return Ok(None);
    }
    // Values that `align` has just copied have no message before them.
    let found = part(bytes, base + begin, 4).ok();
    Ok((found == Some(CONTINUATION.to_vec())).then_some(base + begin))
}
