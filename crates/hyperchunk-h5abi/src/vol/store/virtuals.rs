//! Checks of virtual datasets: libhdf5 opens their sources itself, and treats an uncommitted store as a
//! missing source, which would read as fill values.

use super::super::api::P;
use super::super::failure::{Outcome, refuse};
use super::super::slot::{PropertyList, Slot};
use super::describe::{self, GET_DAPL, GET_DCPL};
use super::{open_store, paths};
use crate::symbols::Hid;
use crate::virtual_sources::{VIRTUAL, places, text};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The possible paths of the sources of a virtual dataset.
pub(in crate::vol) struct Sources(BTreeSet<PathBuf>);

impl Sources {
    /// Returns the paths for a lower dataset, if it is virtual.
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
            let name = text(&|to, size| unsafe { (slot.api.plist_virtual_file)(plist.id, number, to, size) });
            let Some(name) = name.filter(|name| name.as_os_str() != ".") else { continue };
            all.extend(places(folder, prefix.as_deref(), Path::new(&name)));
        }
        Some(Sources(all))
    }

    /// Fails if one of the sources is a store that waits for its first commit.
    pub(in crate::vol) fn check(&self) -> Outcome<()> {
        for path in &self.0 {
            if paths::is_waiting(path)? {
                refuse!(
                    "a source of this virtual dataset, {}, is a sharded store that is not committed: close it first",
                    path.display()
                )
            }
        }
        Ok(())
    }
}
