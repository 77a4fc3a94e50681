//! Cycle check: detects inputs that depend on a dataset that is being read.
//!
//! HDF5 does not support reading a dataset while it is being read: both reads share one state, and one of
//! them writes outside its buffer. A live dataset is recognised by its filter. A virtual one has no filter,
//! and a chunk in HDF5's cache is read without calling any filter, so a virtual dataset is followed to its
//! sources.

use super::external_inputs::ExternalInputs;
use super::legacy;
use super::locate::is_client_data_for;
use super::locate::is_computed;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::virtual_sources::{VIRTUAL, places, text};
use crate::{Result, fail};
use hyperchunk_udf::host::ActiveEvaluation;
use hyperchunk_udf::stub::{LiveId, RecordDigest};
use std::collections::BTreeSet;
use std::ffi::{CString, OsString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Maximum nesting depth of virtual datasets.
const MAX_DEPTH: usize = 16;
/// Maximum number of sources examined for one input.
const MAX_SOURCES: usize = 1 << 16;

/// A live dataset that is an input or a source of one.
#[derive(Clone, Debug)]
pub(super) enum LiveDataset {
    /// The client data of its filter.
    Words(Vec<u32>),
    /// The identity of a dataset of HDF5-UDF.
    Legacy(LiveId),
}

/// Fails if this thread is computing one of these datasets.
pub(super) fn check(found: &[LiveDataset]) -> Result<()> {
    found.iter().try_for_each(|live| {
        ActiveEvaluation::check(|id| match live {
            LiveDataset::Words(words) => is_client_data_for(words, id),
            LiveDataset::Legacy(known) => *known == id,
        })
    })
}

/// Returns the live datasets that reading `dataset` reads directly, without their own inputs. Fails if it
/// would read files from which inputs are not allowed.
pub(super) fn live_in(
    library: &'static Library,
    dataset: Hid,
    outside: &ExternalInputs,
) -> Result<Vec<LiveDataset>> {
    let mut walk = Walk { library, outside, found: Vec::new(), remaining_sources: MAX_SOURCES };
    walk.dataset(dataset, 0)?;
    Ok(walk.found)
}

struct Walk<'a> {
    library: &'static Library,
    outside: &'a ExternalInputs,
    found: Vec<LiveDataset>,
    remaining_sources: usize,
}

impl Walk<'_> {
    fn dataset(&mut self, dataset: Hid, depth: usize) -> Result<()> {
        let library = self.library;
        let plist = library.create_plist(dataset)?;
        self.outside.check_object(dataset)?;
        self.outside.check_raw(dataset, plist.id)?;
        let filter = library.live_filter(plist.id).filter(|_| is_computed(library, dataset, plist.id));
        match filter {
            Some(words) if words.is_empty() => {
                let payload = legacy::payload(library, dataset)?;
                self.found.extend(
                    payload.map(|bytes| LiveDataset::Legacy(LiveId(RecordDigest::compute(&bytes).0))),
                );
            }
            Some(words) => self.found.push(LiveDataset::Words(words)),
            None => {}
        }
        // SAFETY: an open list.
        if unsafe { (library.f.plist_layout)(plist.id) } != VIRTUAL {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            fail!(Limit, "virtual datasets are nested more than {MAX_DEPTH} levels deep")
        }
        let file = library.object_file(dataset)?;
        for (name, source) in self.sources(plist.id)? {
            let source = c_name(&source)?;
            if name == "." {
                self.source(file.id, &source, depth)?;
                continue;
            }
            // libhdf5 uses the first file that it can open.
            let mut is_open = false;
            for place in self.places(dataset, &file, Path::new(&name)).iter().filter(|place| place.exists()) {
                if !is_open {
                    self.outside.check(place)?;
                }
                if !place.is_file() {
                    continue;
                }
                let Ok(path) = CString::new(place.as_os_str().as_bytes()) else { continue };
                // A file that cannot be opened here cannot be opened by libhdf5 either.
                if let Ok(other) = self.open(&file, &path) {
                    is_open = true;
                    self.source(other.id, &source, depth)?;
                }
            }
        }
        Ok(())
    }

    /// Visits a source. A missing one is skipped: it reads as fill values.
    fn source(&mut self, file: Hid, name: &CString, depth: usize) -> Result<()> {
        match self.library.open_dataset(file, name) {
            Ok(source) => self.dataset(source.id, depth + 1),
            Err(_) => Ok(()),
        }
    }

    /// Returns the files and datasets that are the sources of a virtual dataset.
    fn sources(&mut self, plist: Hid) -> Result<BTreeSet<(OsString, String)>> {
        let named = named(self.library, plist, &mut self.remaining_sources)?;
        let plain = |(file, name): (OsString, OsString)| {
            Ok((unescaped(file)?, unescaped(name)?.to_string_lossy().into_owned()))
        };
        named.into_iter().map(plain).collect()
    }

    /// Returns the paths at which libhdf5 may look for a source file.
    fn places(&self, dataset: Hid, file: &Handle, name: &Path) -> Vec<PathBuf> {
        let library = self.library;
        let path = library.object_name(file.id, library.f.file_name);
        let path = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path));
        // The path may be a link, and the working directory may have changed since the file was opened.
        let real = super::plan::on_disk(library, file).and_then(|disk| disk.path());
        let own = library.dataset_access_plist(dataset);
        let prefix = own.ok().and_then(|list| {
            // SAFETY: an open list, and a buffer of the size that is passed.
            text(&|to, size| unsafe { (library.f.plist_virtual_prefix)(list.id, to, size) })
        });
        let folders = [Some(path.clone()), path.canonicalize().ok(), real];
        let folders = folders.iter().flatten().filter_map(|path| path.parent());
        folders.flat_map(|folder| places(folder, prefix.as_deref(), name)).collect()
    }

    /// Opens another file as libhdf5 does for a virtual dataset: with the access properties of that dataset's
    /// own file.
    fn open(&self, like: &Handle, path: &CString) -> Result<Handle> {
        const WEAK: i32 = 1;
        let plist = self.library.access_plist(like.id)?;
        // SAFETY: an open list that is ours.
        unsafe { (self.library.f.plist_set_close_degree)(plist.id, WEAK) };
        self.library.open_file_with(path, 0, plist.id)
    }
}

/// Returns the files and datasets that a virtual dataset names as its sources, as stored. `left` is the
/// remaining budget of sources, from which their number is subtracted.
pub(super) fn named(
    library: &'static Library,
    plist: Hid,
    left: &mut usize,
) -> Result<BTreeSet<(OsString, OsString)>> {
    let f = &library.f;
    if is_absent(f.plist_virtual_count as *const c_void) {
        fail!(
            Unsupported,
            "cannot list the sources of a virtual dataset: this statically linked program lacks H5Pget_virtual_count"
        )
    }
    let mut count = 0;
    // SAFETY: an open list and a live integer.
    if unsafe { (f.plist_virtual_count)(plist, &raw mut count) } < 0 {
        fail!(Invalid, "cannot read the names of the sources of a virtual dataset")
    }
    if count > *left {
        fail!(Limit, "it is a virtual dataset of more than {MAX_SOURCES} sources")
    }
    *left -= count;
    let mut sources = BTreeSet::new();
    for number in 0..count {
        // SAFETY: an open list, and a buffer of the size that is passed.
        let file = text(&|to, size| unsafe { (f.plist_virtual_file)(plist, number, to, size) });
        // SAFETY: as above.
        let name = text(&|to, size| unsafe { (f.plist_virtual_dataset)(plist, number, to, size) });
        let (Some(file), Some(name)) = (file, name.filter(|name| name.to_str().is_some())) else {
            fail!(Invalid, "cannot read the names of the sources of a virtual dataset")
        };
        sources.insert((file, name));
    }
    Ok(sources)
}

/// Replaces `%%` by `%` in a name. Fails for a name with `%b`, which stands for many files or datasets.
pub(super) fn unescaped(name: OsString) -> Result<OsString> {
    let Some(text) = name.to_str().filter(|text| text.contains('%')) else { return Ok(name) };
    let parts: Vec<&str> = text.split("%%").collect();
    if parts.iter().any(|part| part.contains("%b")) {
        fail!(
            Unsupported,
            "it is a virtual dataset whose sources are numbered (%b), which a live dataset can read only through hyperchunk.open"
        )
    }
    Ok(parts.join("%").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_sources_are_told_from_others() {
        let check = |name: &str| unescaped(name.into()).ok().map(|name| name.into_string().unwrap());
        assert_eq!(check("a.h5").as_deref(), Some("a.h5"));
        assert_eq!(check("50%%b").as_deref(), Some("50%b"));
        assert_eq!(check("a%b"), None);
        assert_eq!(check("%%%b"), None);
        assert_eq!(check("100%").as_deref(), Some("100%"));
    }
}
