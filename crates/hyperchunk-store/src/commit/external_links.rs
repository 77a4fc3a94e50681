//! Links from a skeleton to the data in logs, with which plain libhdf5 reads the datasets of a store.
//!
//! HDF5 can keep the data of a dataset in external files: a list of segments in row-major order.
//! Raw elements in logs form such a list, so plain libhdf5 reads them in place. A list holds only
//! about 2,700 segments, because it must fit into one message of 64 KiB, and it cannot express
//! elements that were never written. Such datasets become virtual datasets, with one source for
//! each block of a log. Filtered chunks cannot be linked, since they are not plain elements.

use super::merged_file::{Merge, SkeletonDataset};
use super::overlap::{layers, rows};
use super::virtual_blocks::blocks;
use super::whole_files::StoreFiles;
use crate::arrow_files;
use crate::format::fragment_offset::{inside, is_in};
use crate::format::manifest::StoredDataset;
use crate::format::stamp::Stamp;
use crate::location::site::Site;
use crate::{DatasetId, Definition, Hyperslab, Manifest, Marker, PieceForm, store_folder};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, File, Result};
use hyperchunk_format::model::{ExternalFile, Name, VirtualMapping};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

/// Number of segments that fit into the message of 64 KiB, with the marker.
const MAX_SEGMENTS: usize = 2700;
/// Number of segments above which linking is abandoned.
const MAX_CANDIDATE_SEGMENTS: usize = 1 << 16;
/// Maximum number of blocks in a skeleton, of all datasets together: each takes about 500 bytes,
/// and each epoch has a skeleton.
const MAX_BLOCKS_PER_FILE: usize = 1 << 14;
/// Offset past the end of any log; libhdf5 reads zeros there.
const ZEROS_OFFSET: u64 = 1 << 40;

/// Form of the names by which segments refer to logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Linking {
    /// Absolute paths: readable from any folder, until the store is moved.
    #[default]
    Absolute,
    /// Relative to the file's folder: the store may be moved, but libhdf5 looks there only with
    /// `HDF5_EXTFILE_PREFIX='${ORIGIN}'`.
    Relative,
    /// No links: reading without the store is an error.
    Never,
}

/// Reason why a dataset cannot be linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnlinkedReason {
    /// Linking was not requested.
    NotWanted,
    /// The dataset has no elements.
    Empty,
    /// Some of its data are stored as chunks, which may have been filtered.
    Chunks,
    /// Some of its data are fields of elements.
    Fields,
    /// Some of its elements were never written, and its fill value is not zero.
    FillValue,
    /// There are too many segments.
    Segments,
    /// The logs are in an object store.
    ObjectStore,
    /// A log with data of it is missing, or shorter than when it was committed.
    ShortLog,
}

impl fmt::Display for UnlinkedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWanted => "not asked for",
            Self::Empty => "it has no elements",
            Self::Chunks => "chunks in it went through filters",
            Self::Fields => {
                "fields of its elements were written one by one: hyperchunk store compact puts them together"
            }
            Self::FillValue => "elements were never written, and the fill value is not zero",
            Self::Segments => "more pieces than external files or virtual datasets can describe",
            Self::ShortLog => {
                "a file with its data is missing or cut off: restore it from a copy (hyperchunk store verify names it), then run hyperchunk store link"
            }
            Self::ObjectStore => "the logs are in an object store, which plain HDF5 does not read",
        })
    }
}

/// Result of linking: for each dataset its path, and its number of segments or the reason why it is
/// not linked.
pub type Links = Vec<(Vec<u8>, std::result::Result<usize, UnlinkedReason>)>;

/// Segments of logs, by their offset in the dataset in bytes; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct LinkedSegments(pub(crate) BTreeMap<u64, LinkedSegment>);

/// A segment: its end in the dataset, its log, and its offset in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkedSegment {
    pub(crate) end: u64,
    pub(crate) log: u32,
    pub(crate) offset: u64,
}

impl LinkedSegments {
    /// Inserts a segment in place of the parts of existing ones that it covers.
    fn insert(&mut self, mut start: u64, mut segment: LinkedSegment) {
        if segment.end <= start {
            return;
        }
        let before = self.0.range_mut(..start).next_back();
        if let Some((first, before)) = before
            && before.end >= start
        {
            let (first, old) = (*first, *before);
            before.end = start;
            if old.end > segment.end {
                let rest = LinkedSegment { offset: old.offset + (segment.end - first), ..old };
                self.0.insert(segment.end, rest);
            }
            if old.log == segment.log && old.offset + (start - first) == segment.offset {
                // The new segment continues the previous one.
                segment.offset = old.offset;
                start = first;
            }
        }
        let covered: Vec<u64> = self.0.range(start..segment.end).map(|(first, _)| *first).collect();
        for first in covered {
            if let Some(old) = self.0.remove(&first)
                && old.end > segment.end
            {
                let rest = LinkedSegment { offset: old.offset + (segment.end - first), ..old };
                self.0.insert(segment.end, rest);
            }
        }
        if let Some(after) = self.0.get(&segment.end).copied()
            && after.log == segment.log
            && segment.offset + (segment.end - start) == after.offset
        {
            self.0.remove(&segment.end);
            segment.end = after.end;
        }
        self.0.insert(start, segment);
    }
}

/// Returns the external files of a dataset. `name` returns the file name of a log or of a fragment.
pub(crate) fn segments(
    stored: &StoredDataset,
    name: &dyn Fn(u32, Option<&Definition>) -> Option<Name>,
) -> Result<std::result::Result<Vec<ExternalFile>, UnlinkedReason>> {
    let total = dataset_bytes(stored)?;
    let segments = match linked_segments(stored)? {
        Ok(segments) => segments,
        Err(why) => return Ok(Err(why)),
    };
    let mut files = Vec::new();
    let mut at = 0;
    let file = |log, offset, size| {
        let definition = is_in(offset).then_some(&stored.definition);
        let name = name(log, definition).ok_or_else(|| Error::corrupt(format!("no log of number {log}")))?;
        let offset = if is_in(offset) { inside(offset) } else { offset };
        Ok::<_, Error>(ExternalFile { name, offset, size: Some(size) })
    };
    let end = (total, LinkedSegment { end: total, log: 0, offset: 0 });
    for (start, segment) in segments.0.into_iter().chain([end]) {
        if start > at {
            if !fills_with_zeros(stored) {
                return Ok(Err(UnlinkedReason::FillValue));
            }
            // Unwritten elements refer past the end of a log that the dataset refers to anyway.
            let log = stored.parts.first().map_or(0, |part| part.log);
            files.push(file(log, ZEROS_OFFSET, start - at)?);
        }
        if segment.end > start {
            files.push(file(segment.log, segment.offset, segment.end - start)?);
        }
        at = segment.end;
    }
    Ok(if files.len() < MAX_SEGMENTS { Ok(files) } else { Err(UnlinkedReason::Segments) })
}

/// Returns the size of a dataset in bytes.
pub(crate) fn dataset_bytes(stored: &StoredDataset) -> Result<u64> {
    let all = Hyperslab::new(vec![0; stored.extent.len()], stored.extent.clone());
    let total = all.elements()?.checked_mul(stored.definition.element_size());
    total.ok_or_else(|| Error::limit("a dataset of 2^64 bytes"))
}

/// Returns the segments of logs that a dataset consists of.
pub(crate) fn linked_segments(
    stored: &StoredDataset,
) -> Result<std::result::Result<LinkedSegments, UnlinkedReason>> {
    if dataset_bytes(stored)? == 0 {
        return Ok(Err(UnlinkedReason::Empty));
    }
    let size = stored.definition.element_size();
    let all = Hyperslab::new(vec![0; stored.extent.len()], stored.extent.clone());
    let mut segments = LinkedSegments::default();
    for layer in layers(stored) {
        match layer.piece.form {
            PieceForm::Raw => {}
            PieceForm::Chunk { .. } => return Ok(Err(UnlinkedReason::Chunks)),
            PieceForm::Fields { .. } => return Ok(Err(UnlinkedReason::Fields)),
        }
        let log = stored.parts.get(layer.part).map_or(0, |part| part.log);
        for (to, from, length) in rows(&layer.seen, &all, &layer.piece.slab) {
            let (start, from, length) = (to * size, from * size, length * size);
            segments
                .insert(start, LinkedSegment { end: start + length, log, offset: layer.piece.offset + from });
            if segments.0.len() > MAX_CANDIDATE_SEGMENTS {
                return Ok(Err(UnlinkedReason::Segments));
            }
        }
    }
    Ok(Ok(segments))
}

/// Returns whether elements that were never written read as zeros.
pub(crate) fn fills_with_zeros(stored: &StoredDataset) -> bool {
    stored.definition.unwritten().is_none_or(|value| value.iter().all(|byte| *byte == 0))
}

/// Returns the file name by which segments refer to the log of a writer, or to its fragment with
/// rows of a dataset.
pub(crate) fn log_name(
    path: &Path,
    linking: Linking,
    writer: crate::WriterId,
    rows: Option<&Definition>,
) -> Result<Name> {
    let folder = store_folder(path);
    let file = match rows {
        Some(definition) => arrow_files::fragment_name(definition, writer)
            .ok_or_else(|| Error::corrupt("rows of a dataset that belongs to no table"))?,
        None => format!("{writer}.log"),
    };
    if linking == Linking::Relative {
        let folder = folder.file_name().map(PathBuf::from).unwrap_or_default();
        let mut name = hyperchunk::os::path_to_bytes(&folder);
        // All systems take this separator.
        name.push(b'/');
        name.extend(file.as_bytes());
        return Ok(Name::from(name.as_slice()));
    }
    let folder =
        std::path::absolute(&folder).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    Ok(to_name(&folder.join(file)))
}

fn to_name(path: &Path) -> Name {
    Name::from(hyperchunk::os::path_to_bytes(path).as_slice())
}

/// Returns the stubs of the datasets of an epoch, and which of them are linked. `paths` has their
/// paths in the skeleton. `made` is the number of an epoch that is being made, of whose own logs the lengths
/// are known.
pub(crate) fn shown(
    site: Site<'_>,
    manifest: &Manifest,
    (linking, made): (Linking, Option<u64>),
    paths: &[(DatasetId, Vec<u8>)],
) -> Result<(HashMap<DatasetId, SkeletonDataset>, Links)> {
    // Cached, since a log may have many segments.
    let logs: RefCell<HashMap<u32, Option<Name>>> = RefCell::default();
    let name = |log: u32, rows: Option<&Definition>| {
        let named = || log_name(site.local()?, linking, manifest.logs.get(log as usize)?.writer, rows).ok();
        if rows.is_some() { named() } else { logs.borrow_mut().entry(log).or_insert_with(named).clone() }
    };
    let mut all = HashMap::new();
    let mut links = Vec::new();
    let mut room = MAX_BLOCKS_PER_FILE;
    let mut files = site.local().map(|path| StoreFiles::new(path, manifest, made));
    for (id, path) in paths {
        let Some(stored) = manifest.dataset(id) else { continue };
        let found = match linking {
            Linking::Never => Err(UnlinkedReason::NotWanted),
            _ if site.bucket().is_some() => Err(UnlinkedReason::ObjectStore),
            _ => match files.as_mut().map_or(Ok(None), |files| files.check(stored))? {
                Some(reason) => Err(reason),
                None => segments(stored, &name)?,
            },
        };
        let blocks = match found {
            Err(
                UnlinkedReason::Segments
                | UnlinkedReason::FillValue
                | UnlinkedReason::Chunks
                | UnlinkedReason::Fields,
            ) if !stored.extent.is_empty() => blocks(stored, room, &name)?.ok(),
            _ => None,
        };
        let count = match &blocks {
            Some(blocks) => {
                room -= blocks.len();
                Ok(blocks.len())
            }
            None => found.as_ref().map(Vec::len).map_err(|why| *why),
        };
        links.push((path.clone(), count));
        let (datatype, dims) = (stored.definition.datatype.clone(), stored.extent.clone());
        let fill = stored.definition.fill.value.clone();
        all.insert(
            *id,
            SkeletonDataset { datatype, dims, segments: found.ok(), blocks, fill, definition: None },
        );
    }
    Ok((all, links))
}

/// Links a committed store again, or removes its links. Replaces the file at its path and makes no
/// epoch. Needed when a store was moved.
///
/// # Errors
/// NotFound if nothing was committed; errors of reading and writing.
pub fn link(path: &Path, linking: Linking, sync: Sync) -> Result<Links> {
    let path = &*hyperchunk::output::target(path)?;
    let manifest = Manifest::newest(path)?;
    let manifest = manifest.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed")
            .file(path.display())
    })?;
    // Includes changes made to the file since the commit.
    let file = match crate::commit::skeleton_state(path.into(), &manifest)? {
        crate::commit::SkeletonState::Foreign => {
            return Err(crate::commit::foreign_file(path.into(), "link"));
        }
        _ => crate::commit::skeleton(path.into(), &manifest, true)?,
    };
    let mut merge = Merge::new(Some(&file), &[])?;
    let (all, links) = shown(path.into(), &manifest, (linking, None), &merge.datasets())?;
    let image = merge.write(Stamp::of(&manifest), &all)?;
    Site::from(path).operations().replace(&image, None, sync)?;
    Ok(links)
}

/// State of the links of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkReport {
    /// Number of datasets that plain libhdf5 can read.
    pub linked: usize,
    /// Number of datasets that only programs with support for stores can read.
    pub unlinked: usize,
    /// Linked logs that do not exist: the store was moved, or files of it were deleted.
    pub missing: Vec<String>,
}

impl LinkReport {
    /// Examines the links of the file at `path`.
    ///
    /// # Errors
    /// Errors of reading it.
    pub fn examine(path: &Path) -> Result<Self> {
        let path = &*crate::real_file(path);
        let file = File::open(path, &crate::commit::skeleton_options())?;
        let mut found = Self::default();
        let mut names: BTreeMap<Name, ()> = BTreeMap::new();
        for (_, marker, dataset) in Marker::find_all(&file)? {
            if let Some(blocks) = dataset.mappings().last() {
                found.linked += 1;
                names.extend(logs_of_blocks(&file, marker, blocks)?);
                continue;
            }
            match dataset.external().split_last() {
                Some((_, [])) | None => found.unlinked += 1,
                Some((_, segments)) => {
                    found.linked += 1;
                    names.extend(segments.iter().map(|segment| (segment.name.clone(), ())));
                }
            }
        }
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        for name in names.keys() {
            // Joining an absolute name leaves it unchanged.
            if !folder.join(name.to_string()).exists() {
                found.missing.push(name.to_string());
            }
        }
        Ok(found)
    }
}

/// Returns the logs that contain the blocks of a dataset. `last` is a mapping to the last block.
fn logs_of_blocks(
    file: &File,
    marker: Marker,
    last: &VirtualMapping,
) -> Result<impl Iterator<Item = (Name, ())> + use<>> {
    let last = last.dataset.parts.first().and_then(|name| name.as_str()?.rsplit('/').next()?.parse().ok());
    let mut names = BTreeMap::new();
    let root = file.root()?.group()?;
    for number in 0..=last.unwrap_or(0_usize) {
        let dataset = root.get(marker.block(number).as_bytes())?.dataset()?;
        names.extend(dataset.external().iter().map(|segment| (segment.name.clone(), ())));
    }
    Ok(names.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_segments_cut_earlier_ones_and_neighbours_are_merged() {
        let mut segments = LinkedSegments::default();
        let mut model: Vec<Option<(u32, u64)>> = vec![None; 200];
        let mut state = 5_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..2000 {
            let (start, length) = (random(180), 1 + random(20));
            let log = u32::try_from(random(2)).unwrap();
            // Often adjacent in the log as well.
            let offset = if random(2) == 0 { start } else { random(1000) };
            segments.insert(start, LinkedSegment { end: start + length, log, offset });
            for at in 0..length {
                model[usize::try_from(start + at).unwrap()] = Some((log, offset + at));
            }
            let mut found = vec![None; 200];
            let mut last: Option<(u64, LinkedSegment)> = None;
            for (start, segment) in &segments.0 {
                if let Some((first, last)) = last {
                    assert!(last.end <= *start, "round {round}");
                    let goes_on = last.end == *start
                        && last.log == segment.log
                        && last.offset + (start - first) == segment.offset;
                    assert!(!goes_on, "round {round}: neighbours");
                }
                for at in *start..segment.end {
                    found[usize::try_from(at).unwrap()] = Some((segment.log, segment.offset + (at - start)));
                }
                last = Some((*start, *segment));
            }
            assert_eq!(found, model, "round {round}");
        }
    }
}
