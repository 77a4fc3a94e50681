//! Checks of virtual datasets. libhdf5 opens their sources itself: it reads the last commit of a store, treats a
//! store without a commit as a missing source, which would read as fill values, and would write to the files in
//! which the store's data are.

use super::super::api::P;
use super::super::failure::{Outcome, refuse};
use super::super::slot::{PropertyList, Slot};
use super::describe::{self, GET_DAPL, GET_DCPL};
use super::{OpenStore, Store, open_here, open_store, paths};
use crate::symbols::Hid;
use crate::virtual_sources::{VIRTUAL, places, text};
use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// The sources of a virtual dataset.
pub(in crate::vol) struct Sources(BTreeSet<VirtualSource>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct VirtualSource {
    /// The possible paths of its file; `None` for the virtual dataset's own file.
    files: Option<Vec<PathBuf>>,
    dataset: CString,
}

impl Sources {
    /// Returns the sources of a lower dataset, if it is virtual.
    pub(in crate::vol) fn from_dataset(slot: &'static Slot, under: P, vol: Hid) -> Option<Self> {
        let plist = PropertyList { slot, id: describe::ask(slot, under, vol, GET_DCPL).ok()? };
        let mut count = 0;
        // SAFETY: a list of our own, a live place.
        let known = unsafe {
            (slot.api.plist_layout)(plist.id) == VIRTUAL
                && (slot.api.plist_virtuals)(plist.id, &raw mut count) >= 0
        };
        if !known {
            return None;
        }
        let dapl = PropertyList { slot, id: describe::ask(slot, under, vol, GET_DAPL).ok()? };
        // SAFETY: a list of our own, a buffer of the size that is passed.
        let prefix = text(&|to, size| unsafe { (slot.api.plist_virtual_prefix)(dapl.id, to, size) });
        let own = open_store::file_name(slot, under, vol, super::super::object::DATASET).ok()?;
        let own = PathBuf::from(OsString::from_vec(own));
        let folder = own.parent().unwrap_or(&own);
        let mut all = BTreeSet::new();
        for number in 0..count {
            // SAFETY: as above.
            let file = text(&|to, size| unsafe { (slot.api.plist_virtual_file)(plist.id, number, to, size) });
            // SAFETY: as above.
            let dataset =
                text(&|to, size| unsafe { (slot.api.plist_virtual_dataset)(plist.id, number, to, size) });
            let (Some(file), Some(dataset)) = (file, dataset) else { continue };
            let files = (file != ".").then(|| places(folder, prefix.as_deref(), Path::new(&file)));
            let dataset = CString::new(dataset.into_vec()).unwrap_or_default();
            all.insert(VirtualSource { files, dataset });
        }
        Some(Sources(all))
    }

    /// Fails if a source is in a store that waits for its first commit, or was changed by this process since the
    /// last one; if the virtual dataset is written, also if a source's data are in a store. `file` is the store
    /// of the virtual dataset.
    pub(in crate::vol) fn check(
        &self,
        slot: &'static Slot,
        file: Option<&Arc<OpenStore>>,
        writes: bool,
    ) -> Outcome<()> {
        for source in &self.0 {
            let Some(files) = &source.files else {
                if let Some(file) = file.filter(|file| file.store.writer.is_some()) {
                    source.check(slot, &file.store, writes)?;
                }
                continue;
            };
            for path in files {
                if paths::is_waiting(path)? {
                    refuse!(
                        "a source of this virtual dataset, {}, is a sharded store that is not committed: close it first",
                        path.display()
                    )
                }
                if writes && paths::is_store(path) {
                    return source.refuse_writes(path);
                }
                if let Some(store) = paths::open_for_writing(slot, &absolute(path)) {
                    source.check(slot, &store, writes)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the path by which this process knows a file.
fn absolute(path: &Path) -> PathBuf {
    let given = CString::new(path.as_os_str().as_encoded_bytes()).ok();
    given.and_then(|given| paths::absolute(&given)).unwrap_or_else(|| path.to_owned())
}

impl VirtualSource {
    /// Checks the source in a store that this process writes.
    fn check(&self, slot: &'static Slot, store: &Store, writes: bool) -> Outcome<()> {
        let changed = if self.dataset.to_bytes().contains(&b'%') {
            // The name stands for many datasets, of which any may have been changed.
            if writes {
                return self.refuse_writes(&store.path);
            }
            let datasets = store.datasets.lock().unwrap_or_else(PoisonError::into_inner).clone();
            datasets
                .values()
                .try_fold(false, |any, shared| Ok::<_, hyperchunk::Error>(any || shared.is_changed()?))?
        } else {
            match open_here::dataset(slot, store, &self.dataset)? {
                Some(_) if writes => return self.refuse_writes(&store.path),
                Some(shared) => shared.is_changed()?,
                None => false,
            }
        };
        if changed {
            refuse!(
                "cannot read the virtual dataset: expected committed sources, got {} of {}, which was changed since the last commit; close that file first, or read the source itself",
                self.dataset.to_string_lossy(),
                store.path.display()
            )
        }
        Ok(())
    }

    fn refuse_writes(&self, path: &Path) -> Outcome<()> {
        refuse!(
            "cannot write through the virtual dataset: its source {} is in the sharded store {}; write to the source itself",
            self.dataset.to_string_lossy(),
            path.display()
        )
    }
}
