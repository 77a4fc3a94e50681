//! Check whether a dataset's data are complete and can be decoded.

use super::divide::{Division, Region, halves, merged};
use super::find::FoundObject;
use super::live;
use super::report::{Condition, Evidence, MissingPart};
use crate::io::interrupt;
use crate::read::read_stored;
use crate::storage::Marker;
use crate::{Dataset, Error, ErrorKind, Result};
use hyperchunk_format::codec::Decoder;
use hyperchunk_format::model::{Chunk, Chunked, Dataspace, Filter, Layout};
use hyperchunk_format::parse::chunk_index::{self, ChunkMap};
use std::collections::HashSet;
use std::ops::Range;

/// Maximum number of look-ups in a damaged chunk index.
const MAX_LOOKUPS: u32 = 4096;
/// Filters with a checksum: deflate (Adler-32) and Fletcher-32.
const CHECKSUM_FILTERS: [u16; 2] = [1, 3];

/// Result of checking one object.
#[derive(Debug, Clone)]
pub(super) struct ObjectCheck {
    pub(super) condition: Condition,
    pub(super) evidence: Option<Evidence>,
    pub(super) reason: Option<String>,
    pub(super) missing: Vec<MissingPart>,
    /// Undamaged chunks of an incomplete dataset.
    pub(super) chunks: Vec<Chunk>,
    /// Undamaged rows of an incomplete contiguous dataset.
    pub(super) rows: Option<Rows>,
    /// Boxes of undamaged elements of an incomplete dataset whose elements refer to heaps or objects.
    pub(super) boxes: Vec<Region>,
    /// Ranges of the object's data in the file.
    pub(super) extents: Vec<Range<u64>>,
}

/// First rows (indices of the slowest axis) of a contiguous dataset.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) address: u64,
    pub(super) count: u64,
    /// Size of a row.
    pub(super) bytes: u64,
}

impl ObjectCheck {
    pub(super) fn whole(evidence: Option<Evidence>, extents: Vec<Range<u64>>) -> Self {
        Self {
            condition: Condition::Whole,
            evidence,
            reason: None,
            missing: Vec::new(),
            chunks: Vec::new(),
            rows: None,
            boxes: Vec::new(),
            extents,
        }
    }

    pub(super) fn lost(reason: impl ToString) -> Self {
        Self { condition: Condition::Lost, reason: Some(reason.to_string()), ..Self::whole(None, Vec::new()) }
    }
}

/// Checks an object's data.
///
/// # Errors
/// Errors of reading the file. Damage is no error but part of the result.
pub(super) fn check(object: &FoundObject, progress: &(dyn Fn(u64) + Sync)) -> Result<ObjectCheck> {
    let Some(dataset) = &object.dataset else { return Ok(ObjectCheck::whole(None, Vec::new())) };
    match data(dataset, progress) {
        Err(error) if error.is_of_reading() => Err(error),
        Err(error) => Ok(ObjectCheck::lost(error)),
        Ok(checked) => Ok(checked),
    }
}

fn data(dataset: &Dataset, progress: &(dyn Fn(u64) + Sync)) -> Result<ObjectCheck> {
    if Marker::from_dataset(dataset).is_some() {
        let message = "its data are in the files of a sharded store: see `hyperchunk store recover`";
        return Ok(ObjectCheck::lost(message));
    }
    if *dataset.dataspace() == Dataspace::Null {
        return Ok(ObjectCheck::whole(None, Vec::new()));
    }
    if !dataset.external().is_empty() {
        return external(dataset);
    }
    match dataset.layout() {
        Layout::Virtual { .. } => Ok(ObjectCheck::whole(None, Vec::new())),
        Layout::Compact { .. } => {
            if !is_flat(dataset) {
                return Division::new(dataset, progress).all(Vec::new());
            }
            let checksum = dataset.object().header().version > 1;
            let evidence = if checksum { Evidence::Checksum } else { Evidence::Unchecked };
            progress(dataset.elements()?.saturating_mul(dataset.datatype().size));
            Ok(ObjectCheck::whole(Some(evidence), Vec::new()))
        }
        Layout::Contiguous { address: None, .. } => Ok(ObjectCheck::whole(None, Vec::new())),
        Layout::Contiguous { address: Some(address), .. } => contiguous(dataset, *address, progress),
        Layout::Chunked(chunked) => chunks(dataset, chunked, progress),
    }
}

/// Checks the size of a dataset in external files. The files are not read. HDF5 rejects a dataset that is
/// larger than their reserved sizes.
fn external(dataset: &Dataset) -> Result<ObjectCheck> {
    let size = dataset.elements()?.checked_mul(dataset.datatype().size);
    let mut room = Some(0_u64);
    for part in dataset.external() {
        room = room.zip(part.size).map(|(room, size)| room.saturating_add(size));
    }
    match room {
        Some(room) if size.is_none_or(|size| size > room) => {
            let extent = dataset.dims();
            Ok(ObjectCheck::lost(format!(
                "its extent {extent:?} does not fit into the {room} bytes of its external files"
            )))
        }
        _ => Ok(ObjectCheck::whole(None, Vec::new())),
    }
}

/// Returns whether the elements contain all values: they refer neither to heaps nor to other objects.
pub(super) fn is_flat(dataset: &Dataset) -> bool {
    !dataset.datatype().has_vlen() && !dataset.datatype().has_reference()
}

fn contiguous(dataset: &Dataset, address: u64, progress: &(dyn Fn(u64) + Sync)) -> Result<ObjectCheck> {
    let file = dataset.object().file();
    let base = file.superblock().base;
    let size = dataset.elements()?.checked_mul(dataset.datatype().size);
    let size = size.ok_or_else(|| Error::limit("the dataset has more than 2^64 - 1 bytes"))?;
    let left = file.size().saturating_sub(base.saturating_add(address));
    let extents = std::iter::once(address..address.saturating_add(size.min(left))).collect();
    if size <= left {
        if !is_flat(dataset) {
            return Division::new(dataset, progress).all(extents);
        }
        progress(size);
        return Ok(ObjectCheck::whole(Some(Evidence::Unchecked), extents));
    }
    let reason = format!("the file ends after {left} of its {size} bytes");
    let mut checked = ObjectCheck::lost(reason);
    let dims = dataset.dims();
    let row = dims.iter().skip(1).fold(dataset.datatype().size, |size, dim| size.saturating_mul(*dim));
    let rows = left.checked_div(row).unwrap_or(0);
    if let Some((first, others)) = dims.split_first()
        && rows > 0
    {
        let others = || others.iter().map(|dim| 0..*dim);
        let missing: Region = std::iter::once(rows..*first).chain(others()).collect();
        if !is_flat(dataset) {
            let mut division = Division::new(dataset, progress);
            division.lose(missing, checked.reason.unwrap_or_default());
            division.divide(std::iter::once(0..rows).chain(others()).collect())?;
            return Ok(division.finish(extents));
        }
        checked.rows = Some(Rows { address, count: rows, bytes: row });
        checked.missing = merged(vec![missing]);
        checked.condition = Condition::Incomplete;
        checked.evidence = Some(Evidence::Unchecked);
    }
    Ok(ObjectCheck { extents, ..checked })
}

fn chunks(dataset: &Dataset, chunked: &Chunked, progress: &(dyn Fn(u64) + Sync)) -> Result<ObjectCheck> {
    let mut missing: Vec<Region> = Vec::new();
    let mut reason = None;
    let listed = match dataset.chunks() {
        Err(error) if error.is_of_reading() => return Err(error),
        Err(error) => {
            reason = Some(error.to_string());
            surviving(dataset, chunked, &mut missing)?
        }
        Ok(chunks) => chunks,
    };
    if dataset.is_live()
        && let Err(error) = live::record(dataset)
    {
        if error.is_of_reading() {
            return Err(error);
        }
        let extents = listed.iter().map(|chunk| chunk.address..chunk.address.saturating_add(chunk.size));
        return Ok(ObjectCheck { extents: extents.collect(), ..ObjectCheck::lost(error) });
    }
    let doubtful = overlapping(&listed);
    let mut evidence = Evidence::Checksum;
    let mut whole = Vec::with_capacity(listed.len());
    let mut check = ChunkCheck::new(dataset, chunked)?;
    let ask = interrupt::current_interrupt();
    for chunk in listed {
        interrupt::check(ask.as_ref())?;
        let tried = match doubtful.contains(&chunk.address) {
            true => Err(Error::corrupt("two chunks share bytes of the file").at(chunk.address)),
            false => check.chunk(&chunk),
        };
        progress(check.bytes as u64);
        match tried {
            Err(error) if error.is_of_reading() && error.kind() != ErrorKind::Io => return Err(error),
            Err(error) => {
                reason.get_or_insert_with(|| format!("chunk {:?}: {error}", chunk.scaled));
                missing.push(chunk.scaled.iter().map(|place| *place..place.saturating_add(1)).collect());
            }
            Ok(found) => {
                evidence = evidence.min(found);
                whole.push(chunk);
            }
        }
    }
    let base_extents = whole.iter().map(|chunk| chunk.address..chunk.address.saturating_add(chunk.size));
    let extents: Vec<Range<u64>> = base_extents.collect();
    let evidence = (!whole.is_empty()).then_some(evidence);
    if !is_flat(dataset) {
        let mut division = Division::new(dataset, progress);
        for one in missing {
            let reason = reason.clone().unwrap_or_default();
            division.lose(elements(dataset, chunked, &one), reason);
        }
        for chunk in &whole {
            let one: Region = chunk.scaled.iter().map(|place| *place..place.saturating_add(1)).collect();
            division.divide(elements(dataset, chunked, &one))?;
        }
        return Ok(division.finish(extents));
    }
    let Some(reason) = reason else { return Ok(ObjectCheck::whole(evidence, extents)) };
    if whole.is_empty() {
        return Ok(ObjectCheck { extents, ..ObjectCheck::lost(reason) });
    }
    Ok(ObjectCheck {
        condition: Condition::Incomplete,
        reason: Some(reason),
        missing: merged(missing.iter().map(|one| elements(dataset, chunked, one)).collect()),
        chunks: whole,
        ..ObjectCheck::whole(evidence, extents)
    })
}

/// Converts a box of chunk coordinates to the box of its elements.
fn elements(dataset: &Dataset, chunked: &Chunked, chunks: &[Range<u64>]) -> Region {
    let axes = chunks.iter().zip(&chunked.dims).zip(dataset.dims());
    axes.map(|((range, chunk), dim)| {
        let start = range.start.saturating_mul(*chunk).min(*dim);
        start..range.end.saturating_mul(*chunk).min(*dim)
    })
    .collect()
}

/// Returns the addresses of chunks that overlap others. In an undamaged file there are none; a version 1
/// index has no checksum that would detect the damage.
fn overlapping(chunks: &[Chunk]) -> HashSet<u64> {
    let mut ranges: Vec<(u64, u64)> = chunks.iter().map(|chunk| (chunk.address, chunk.size)).collect();
    ranges.sort_unstable();
    let mut found = HashSet::new();
    let mut reach: Option<(u64, u64)> = None;
    for (address, size) in ranges {
        let end = address.saturating_add(size);
        match reach {
            Some((owner, until)) if address < until => {
                found.extend([owner, address]);
                reach = Some(if end > until { (address, end) } else { (owner, until) });
            }
            _ => reach = Some((address, end)),
        }
    }
    found
}

/// Finds the chunks that a damaged index still contains, by bisecting the grid of chunks. Adds the boxes of
/// chunks that cannot be looked up to `missing`.
fn surviving(dataset: &Dataset, chunked: &Chunked, missing: &mut Vec<Region>) -> Result<Vec<Chunk>> {
    let grid = dataset.dims().iter().zip(&chunked.dims).map(|(dim, chunk)| 0..dim.div_ceil((*chunk).max(1)));
    let max = match dataset.dataspace() {
        Dataspace::Simple { max, .. } => max.as_slice(),
        _ => &[],
    };
    let filtered = !dataset.pipeline().is_empty();
    let map = ChunkMap { chunked, dims: dataset.dims(), max, filtered };
    let mut open: Vec<Region> = vec![grid.collect()];
    let mut found = Vec::new();
    let mut lookups = MAX_LOOKUPS;
    while let Some(region) = open.pop() {
        if region.iter().any(Range::is_empty) {
            continue;
        }
        let Some(left) = lookups.checked_sub(1) else {
            missing.push(region);
            continue;
        };
        lookups = left;
        match dataset.object().parse(|image, _| chunk_index::within(image, &map, &region)) {
            Err(error) if error.is_of_reading() => return Err(error),
            Ok(chunks) => found.extend(chunks),
            Err(_) => match halves(&region) {
                Some((low, high)) => open.extend([high, low]),
                None => missing.push(region),
            },
        }
    }
    Ok(found)
}

/// Checker of a dataset's chunks, with buffers that are reused.
struct ChunkCheck<'d> {
    dataset: &'d Dataset,
    chunked: &'d Chunked,
    /// Size of a decoded chunk.
    whole: usize,
    decoder: Decoder,
    stored: Vec<u8>,
    /// Number of bytes of the last chunk, decoded.
    bytes: usize,
}

impl<'d> ChunkCheck<'d> {
    fn new(dataset: &'d Dataset, chunked: &'d Chunked) -> Result<Self> {
        let size = chunked.dims.iter().try_fold(chunked.element_size, |size, dim| size.checked_mul(*dim));
        let most = dataset.object().file().options().limits.chunk_bytes;
        let size = size.filter(|size| *size <= most).and_then(|size| usize::try_from(size).ok());
        let whole = size.ok_or_else(|| Error::limit("the chunks exceed the limit `chunk_bytes`"))?;
        let (decoder, stored) = (Decoder::default(), Vec::new());
        Ok(Self { dataset, chunked, whole, decoder, stored, bytes: 0 })
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<Evidence> {
        let dataset = self.dataset;
        self.bytes = 0;
        read_stored(dataset, chunk, &mut self.stored)?;
        if dataset.is_live() {
            // Without the filter, the chunk holds values.
            return match chunk.filter_mask {
                0 => live::chunk(dataset, &self.stored).map_err(|error| error.at(chunk.address)),
                _ => Ok(Evidence::Unchecked),
            };
        }
        let filters = self.filters(chunk);
        let used =
            |(number, _): &(u32, &Filter)| chunk.filter_mask.checked_shr(*number).unwrap_or(0) & 1 == 0;
        let used: Vec<u16> = (0..).zip(filters).filter(used).map(|(_, filter)| filter.id).collect();
        let inside = self.chunked.elements_inside(&chunk.scaled, dataset.dims());
        let least = usize::try_from(inside.saturating_mul(self.chunked.element_size)).unwrap_or(self.whole);
        let least = least.min(self.whole);
        let decoded = self.decoder.decode_padded(filters, chunk.filter_mask, &self.stored, self.whole, least);
        match decoded {
            Ok(bytes) => self.bytes = bytes.len(),
            // Without its filter, the chunk can still be copied in its stored form.
            Err(error) if error.kind() == ErrorKind::MissingFilter && is_flat(dataset) => {
                return Ok(Evidence::Unchecked);
            }
            Err(error) => return Err(error.within("chunk").at(chunk.address)),
        }
        Ok(match used.as_slice() {
            [] => Evidence::Unchecked,
            used if used.iter().any(|id| CHECKSUM_FILTERS.contains(id)) => Evidence::Checksum,
            _ => Evidence::Decoded,
        })
    }

    /// Returns the filters of a chunk: partial edge chunks may be stored unfiltered.
    fn filters(&self, chunk: &Chunk) -> &'d [Filter] {
        let offset: Vec<u64> = chunk
            .scaled
            .iter()
            .zip(&self.chunked.dims)
            .map(|(place, dim)| place.saturating_mul(*dim))
            .collect();
        crate::pack::copy::filters(self.dataset, self.chunked, &offset)
    }
}
