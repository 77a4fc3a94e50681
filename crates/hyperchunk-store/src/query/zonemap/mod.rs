//! Statistics of the datasets of an HDF5 file, in a small file next to it: `FILE.hczones`. The
//! format: `docs/formats/sidecar.md`.

mod analyze;
mod layout;

pub(super) use analyze::check_numeric;
pub use analyze::{AnalyzeReport, analyze};

use super::{Elements, Zone, ZoneMap, ZoneRequest};
use crate::{Hyperslab, Statistics, split_range};
use hyperchunk::companion::{self, Trust};
use hyperchunk::index::Identity;
use hyperchunk::internal::contents;
use hyperchunk::io::LocalFile;
use hyperchunk::output::Output;
use hyperchunk::{Dataset, Error, ErrorKind, File, Limits, Result};
use layout::{Head, Section};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Suffix of the name of a file of statistics.
pub const SUFFIX: &str = ".hczones";

/// The statistics of a file's datasets.
#[derive(Debug)]
pub struct Zonemap {
    bytes: Vec<u8>,
    head: Head,
    name: String,
}

/// Regular grid of a dataset's zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    extent: Vec<u64>,
    block: Vec<u64>,
}

impl Grid {
    /// Returns the number of boxes along each axis.
    fn counts(&self) -> Vec<u64> {
        self.extent.iter().zip(&self.block).map(|(extent, block)| extent.div_ceil(*block)).collect()
    }

    /// Returns the number of boxes; `None` if it does not fit into 64 bits.
    fn places(&self) -> Option<u64> {
        self.counts().iter().try_fold(1_u64, |places, count| places.checked_mul(*count))
    }

    /// Returns a box by its number in row-major order.
    fn slab(&self, mut number: u64) -> Hyperslab {
        let counts = self.counts();
        let mut slab = Hyperslab::new(vec![0; counts.len()], self.block.clone());
        for axis in (0..counts.len()).rev() {
            let at = number % counts[axis].max(1);
            number /= counts[axis].max(1);
            slab.start[axis] = at.saturating_mul(self.block[axis]);
            slab.count[axis] = self.block[axis].min(self.extent[axis].saturating_sub(slab.start[axis]));
        }
        slab
    }
}

impl Grid {
    /// Calls `each` with few boxes that together cover the zones `from..to`.
    fn slabs(&self, from: u64, to: u64, mut each: impl FnMut(&Hyperslab)) {
        let counts = self.counts();
        let mut places = Vec::new();
        split_range(&Hyperslab::new(vec![0; counts.len()], counts), from, to - from, &mut places);
        for mut slab in places {
            for axis in 0..slab.start.len() {
                let (block, extent) = (self.block[axis], self.extent[axis]);
                let end = slab.start[axis].saturating_add(slab.count[axis]).saturating_mul(block).min(extent);
                slab.start[axis] = slab.start[axis].saturating_mul(block);
                slab.count[axis] = end.saturating_sub(slab.start[axis]);
            }
            each(&slab);
        }
    }
}

impl Zonemap {
    /// Decodes statistics. `name` is for messages.
    ///
    /// # Errors
    /// Invalid if the bytes are not statistics; Corrupt, Truncated or Unsupported if they are
    /// damaged or of a later version.
    pub fn open(bytes: Vec<u8>, name: &str) -> Result<Self> {
        let head = layout::parse(&bytes).map_err(|error| error.file(name))?;
        Ok(Self { bytes, head, name: name.to_owned() })
    }

    /// Reads a file of statistics.
    ///
    /// # Errors
    /// As [`Zonemap::open`]; NotFound or Io from the system.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        Self::from_file(&LocalFile::open(path).map_err(|error| error.file(&name))?, &name)
    }

    fn from_file(file: &LocalFile, name: &str) -> Result<Self> {
        Self::open(layout::ZONES.read(file).map_err(|error| error.file(name))?, name)
    }

    /// Returns the path of a file's statistics.
    #[must_use]
    pub fn place(file: &File) -> Option<PathBuf> {
        let path = file.path()?;
        if file.source().remote().is_none() {
            let mut name = path.as_os_str().to_owned();
            name.push(SUFFIX);
            return Some(PathBuf::from(name));
        }
        let cached = hyperchunk::index::cached(&path.to_string_lossy())?;
        Some(cached.with_extension(SUFFIX.trim_start_matches('.')))
    }

    /// Reads the statistics of a file, if there are any.
    ///
    /// # Errors
    /// Changed if they describe another version of the file; as [`Zonemap::read`].
    pub fn find(file: &File) -> Result<Option<Self>> {
        let Some(path) = Self::place(file) else { return Ok(None) };
        let opened = match (file.source().remote(), file.path()) {
            (None, Some(of)) => Trust::of(&**file.source(), of).open(&path, 0),
            _ => hyperchunk::index::open_cached(&path),
        };
        let Some(opened) = companion::counted("a file of statistics", opened) else { return Ok(None) };
        let found = Self::from_file(&opened, &path.display().to_string())?;
        if !found.matches_file(file, &opened, &path)? {
            let message = "the statistics are of another version of the file: make them again with `hyperchunk analyze`";
            return Err(Error::new(ErrorKind::Changed, message).file(&found.name));
        }
        Ok(Some(found))
    }

    /// Returns whether the statistics describe a file, both as it was when it was opened and as it is now.
    /// If its version is another one, the digest of its contents decides.
    fn matches_file(&self, file: &File, opened: &LocalFile, path: &Path) -> Result<bool> {
        let source = &**file.source();
        let (known, digest) = self.head.identity.parts();
        let size = self.head.identity.size;
        let is_known = |now: &Identity| now.size == size && now.version == known;
        if [Identity::from_source(source), Identity::now(source)]
            .iter()
            .all(|now| now.as_ref().is_some_and(is_known))
        {
            return Ok(true);
        }
        let Some(digest) = digest.filter(|_| source.size() == size) else { return Ok(false) };
        let Some((version, _)) = contents::of(source)?.filter(|(_, found)| found == digest) else {
            return Ok(false);
        };
        // Saves other processes from reading the contents. A failure is ignored: it costs only time.
        if companion::is_own(opened) {
            drop(self.renew(&version.with_contents(digest), path, file.path()));
        }
        Ok(true)
    }

    /// Writes the statistics again, for this version of the file.
    fn renew(&self, version: &Identity, path: &Path, of: Option<&Path>) -> Result<()> {
        let mut output = Output::create(path, true)?;
        let written = output.write_all(&layout::with_identity(&self.bytes, version)?);
        written.map_err(|error| Error::new(ErrorKind::Io, format!("cannot write {}: {error}", self.name)))?;
        output.tighten(of.unwrap_or(Path::new("")));
        output.finish()
    }

    /// Returns the paths of the datasets with statistics.
    #[must_use]
    pub fn datasets(&self) -> Vec<&[u8]> {
        self.head.sections.iter().map(|section| &*section.path).collect()
    }

    /// Returns whether it has statistics of a dataset.
    pub(crate) fn has(&self, dataset: &Dataset) -> bool {
        self.section(dataset).is_some()
    }

    fn section(&self, dataset: &Dataset) -> Option<&Section> {
        let address = dataset.object().address();
        self.head.sections.iter().find(|section| section.object == address)
    }

    /// Decodes the statistics of a dataset's zones, each with its number.
    fn zones(&self, section: &Section, limits: &Limits) -> Result<Vec<(u64, Statistics)>> {
        section.zones(&self.bytes, limits).map_err(|error| error.file(&self.name))
    }
}

/// Returns the zone map of a part of the dataset from the statistics next to its file.
pub(super) fn zoned_beside(dataset: &Dataset, ask: &ZoneRequest<'_>) -> Result<ZoneMap> {
    let missing =
        || Error::unsupported("there are no statistics of this dataset: `hyperchunk analyze` computes them");
    let map = Zonemap::find(dataset.object().file())?.ok_or_else(missing)?;
    let section = map.section(dataset).ok_or_else(missing)?;
    if section.grid.extent != dataset.dims() {
        let message = format!("the statistics are of another extent, {:?}", section.grid.extent);
        return Err(Error::corrupt(message).file(&map.name));
    }
    let bytes_scanned = map.head.length.saturating_add(section.stored());
    let mut out = ZoneMap { zones: Vec::new(), bare: Vec::new(), bytes_scanned, disjoint: true };
    let zones = map.zones(section, ask.limits)?;
    let mut next = 0;
    let mut bare = |from: u64, to: u64| {
        if ask.bare && from < to {
            section.grid.slabs(from, to, |slab| out.bare.extend(slab.intersection(ask.wanted)));
        }
    };
    for (number, statistics) in &zones {
        bare(next, *number);
        next = number + 1;
        let slab = section.grid.slab(*number);
        if slab.elements()? != statistics.count {
            let message =
                format!("statistics of {} elements for a box of {:?}", statistics.count, slab.count);
            return Err(Error::corrupt(message).file(&map.name));
        }
        let Some(seen) = slab.intersection(ask.wanted).filter(|_| (ask.keep)(statistics)) else {
            continue;
        };
        let whole = seen == slab;
        out.zones.push(Zone { seen: vec![seen], statistics: Some(*statistics), whole, origin: None });
    }
    bare(next, section.grid.places().unwrap_or(next));
    Ok(out)
}

/// Chooses the grid of a dataset's zones: its chunks, or boxes.
fn grid(dataset: &Dataset, elements: Elements) -> Grid {
    let extent = dataset.dims().to_vec();
    if let Some(chunked) = dataset.chunked() {
        return Grid { extent, block: chunked.dims.clone() };
    }
    // Boxes of whole rows, of about one MiB.
    let mut block = vec![1; extent.len()];
    let mut left = (1_u64 << 20) / elements.size() as u64;
    for (block, extent) in block.iter_mut().zip(&extent).rev() {
        *block = (*extent).min(left).max(1);
        left /= (*extent).max(1);
        if left == 0 {
            break;
        }
    }
    Grid { extent, block }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_follow_each_other_are_few_boxes() {
        let grid = Grid { extent: vec![7, 9, 4], block: vec![2, 4, 3] };
        let places = grid.places().unwrap();
        let elements = |slab: &Hyperslab| slab.elements().unwrap();
        for from in 0..places {
            for to in from + 1..=places {
                let (mut found, mut many) = (0, 0);
                let wanted: Vec<Hyperslab> = (from..to).map(|number| grid.slab(number)).collect();
                grid.slabs(from, to, |slab| {
                    let inside = wanted.iter().filter_map(|one| one.intersection(slab));
                    assert_eq!(inside.map(|slab| elements(&slab)).sum::<u64>(), elements(slab));
                    (many, found) = (many + 1, found + elements(slab));
                });
                assert_eq!(found, wanted.iter().map(elements).sum::<u64>());
                assert!(many <= 5);
            }
        }
        let large = Grid { extent: vec![1 << 40, 1 << 20], block: vec![1, 1] };
        let mut many = 0;
        large.slabs(5, 1 << 59, |_| many += 1);
        assert!(many <= 3);
    }
}
