//! Statistics of collections: gathered once for each file, so that queries skip files without matches.

use super::answer::read_parts;
use super::rows::Bounds;
use super::zonemap::check_numeric;
use super::{Elements, Predicate};
use crate::{Extreme, Hyperslab, Statistics};
use hyperchunk::collection::{Collection, FileStatistics, Member};
use hyperchunk::index::Identity;
use hyperchunk::internal::spread;
use hyperchunk::model::{Datatype, Name};
use hyperchunk::{Error, ErrorKind, OpenOptions, Result, io};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of remote files that are read at a time. Of each, one part is in memory.
const MAX_FILES_AT_ONCE: usize = 16;

/// Computes the statistics of datasets in the files for which they are not known yet; reads the values once.
/// `progress` gets the number of finished files and the total.
///
/// # Errors
/// NotFound for a path without a dataset; Unsupported for datasets that are not joined, whose elements are
/// not plain numbers, or whose values are not in the file; Changed if a file is not the version that was
/// collected; errors of reading. After an error, the collection is unchanged.
pub fn gather(
    collection: &mut Collection,
    paths: &[Vec<u8>],
    options: &OpenOptions,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<()> {
    let files = collection.files().len();
    let mut known: Vec<Vec<Option<FileStatistics>>> = Vec::new();
    if !paths.is_empty() {
        let first = collection.open(0, options)?;
        for path in paths {
            check(collection, path, &first).map_err(|error| error.object(Name::from(&**path)))?;
            let found = collection.variable(path)?.file_statistics(files)?;
            known.push(found.unwrap_or_else(|| vec![None; files]));
        }
    }
    let lacks = |file: usize| -> Vec<usize> {
        let unknown = |statistics: &Vec<Option<FileStatistics>>| matches!(statistics.get(file), Some(None));
        known.iter().enumerate().filter(|(_, known)| unknown(known)).map(|(place, _)| place).collect()
    };
    let work: Vec<(usize, Vec<usize>)> = (0..files).map(|file| (file, lacks(file))).collect();
    let work: Vec<(usize, Vec<usize>)> = work.into_iter().filter(|(_, lacks)| !lacks.is_empty()).collect();
    let is_remote = collection.files().iter().any(|file| io::local_path(&file.name).is_none());
    let threads = if is_remote { MAX_FILES_AT_ONCE } else { options.thread_count() };
    let found: Mutex<Vec<(usize, usize, FileStatistics)>> = Mutex::new(Vec::new());
    let done = AtomicUsize::new(0);
    spread(
        threads.min(work.len()).max(1),
        work.iter(),
        || (),
        |(), (file, lacks)| {
            let wanted: Vec<&[u8]> =
                lacks.iter().filter_map(|place| paths.get(*place)).map(|path| &**path).collect();
            let statistics = read_file_statistics(&collection.member(*file)?, &wanted, options)?;
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(lacks.iter().zip(statistics).map(|(place, statistics)| (*place, *file, statistics)));
            drop(found);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, work.len());
            Ok(())
        },
    )?;
    for (place, file, statistics) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(slot) = known.get_mut(place).and_then(|known| known.get_mut(file)) {
            *slot = Some(statistics);
        }
    }
    if known.iter().flatten().any(Option::is_none) {
        return Err(Error::new(ErrorKind::Io, "interrupted"));
    }
    let mut changed = collection.clone();
    for (path, statistics) in paths.iter().zip(&known) {
        changed.set_statistics(path, statistics)?;
    }
    *collection = changed;
    Ok(())
}

/// Checks that statistics of a dataset can be stored in the collection.
fn check(collection: &Collection, path: &[u8], first: &hyperchunk::File) -> Result<()> {
    if collection.variable(path)?.axis.is_none() {
        let message = "cannot keep statistics of this dataset: expected one that is joined, got one of the first file alone";
        return Err(Error::unsupported(message));
    }
    check_numeric(&first.root()?.group()?.get(path)?.dataset()?)
}

/// Computes the statistics of datasets of one file.
fn read_file_statistics(
    member: &Member,
    paths: &[&[u8]],
    options: &OpenOptions,
) -> Result<Vec<FileStatistics>> {
    let file = member.open(options)?;
    let root = file.root()?.group()?;
    let mut found = Vec::new();
    for path in paths {
        let dataset = root.get(path)?.dataset()?;
        // Values in other files, and those of live datasets, may change while the file stays as it is.
        check_numeric(&dataset).map_err(|error| dataset.with_context(error))?;
        let elements = Elements::from_datatype(dataset.datatype())?;
        let all = Hyperslab::new(vec![0; dataset.dims().len()], dataset.dims());
        let mut statistics = Statistics::NONE;
        if !all.count.contains(&0) {
            read_parts(&dataset, &all, elements.size(), &mut |_, bytes| {
                statistics.merge(&elements.statistics(bytes));
            })?;
        }
        found.push(to_file_statistics(&statistics));
    }
    // A local file may have been written to in the meantime.
    if Identity::now(&**file.source()) != Identity::from_source(&**file.source()) {
        let message = "the file is not the version that was collected: collect it again";
        return Err(file.with_context(Error::new(ErrorKind::Changed, message)));
    }
    Ok(found)
}

fn to_file_statistics(statistics: &Statistics) -> FileStatistics {
    let bits = |(value, _): (Extreme, u64)| match value {
        Extreme::Float(value) => value.to_bits(),
        Extreme::Signed(value) => value.cast_unsigned(),
        Extreme::Unsigned(value) => value,
    };
    let bounds = statistics.min.map(bits).zip(statistics.max.map(bits));
    FileStatistics { count: statistics.count, nan: statistics.nan, bounds }
}

/// Returns bounds of a file's elements, which have this datatype; `None` if the statistics do not fit it.
///
/// # Errors
/// Unsupported for datatypes that are not plain numbers.
pub fn bounds(kept: &FileStatistics, datatype: &Datatype) -> Result<Option<Bounds>> {
    let elements = Elements::from_datatype(datatype)?;
    Ok(Bounds::from_statistics(&statistics(kept, elements), elements))
}

/// Returns the statistics of a file's elements as numbers.
fn statistics(kept: &FileStatistics, elements: Elements) -> Statistics {
    let value = |bits: u64| (elements.extreme(bits), 0);
    let FileStatistics { count, nan, bounds } = *kept;
    let (min, max) = (bounds.map(|(low, _)| value(low)), bounds.map(|(_, high)| value(high)));
    Statistics { count, nan, min, max, ..Statistics::NONE }
}

impl Predicate {
    /// Returns whether a file with `count` elements of a datatype may have matches: true if there are no
    /// statistics of it, or if they are of another number of elements.
    ///
    /// # Errors
    /// Unsupported for datatypes that are not plain numbers.
    pub fn may_match(&self, kept: Option<&FileStatistics>, count: u64, datatype: &Datatype) -> Result<bool> {
        let elements = Elements::from_datatype(datatype)?;
        let Some(kept) = kept.filter(|kept| kept.count == count) else { return Ok(true) };
        let statistics = statistics(kept, elements);
        if count > 0 && Bounds::from_statistics(&statistics, elements).is_none() {
            return Ok(true);
        }
        Ok(self.judge(&statistics, elements.size()).yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::model::ByteOrder;

    #[test]
    fn statistics_of_other_elements_rule_out_nothing() {
        let predicate: Predicate = "value > 100".parse().unwrap();
        let byte = Datatype::integer(1, true, ByteOrder::Little);
        let kept = |count, nan, bounds| FileStatistics { count, nan, bounds };
        let may = |kept: Option<&FileStatistics>| predicate.may_match(kept, 5, &byte).unwrap();
        assert!(!may(Some(&kept(5, 0, Some((1, 100))))));
        assert!(may(Some(&kept(5, 0, Some((1, 101))))));
        assert!(may(None));
        // Of fewer elements; not of bytes; with NaNs among integers; in the wrong order.
        assert!(may(Some(&kept(4, 0, Some((1, 100))))));
        assert!(may(Some(&kept(5, 0, Some((1, 1.0_f64.to_bits()))))));
        assert!(may(Some(&kept(5, 1, Some((1, 100))))));
        assert!(may(Some(&kept(5, 0, Some((100, 1))))));
        let float = Datatype::ieee(8, ByteOrder::Big);
        let may = |kept: &FileStatistics| predicate.may_match(Some(kept), 5, &float).unwrap();
        assert!(!may(&kept(5, 5, None)));
        assert!(may(&kept(5, 0, Some((f64::NAN.to_bits(), 1.0_f64.to_bits())))));
        assert!(!may(&kept(5, 1, Some((1.0_f64.to_bits(), 2.0_f64.to_bits())))));
    }
}
