//! Virtual datasets: libhdf5 opens their sources by itself, and takes one whose file is not committed for one that is not
//! there. Its part would read as fill values.

use super::super::api::P;
use super::super::failure::{Outcome, refuse};
use super::super::slot::{PropertyList, Slot};
use super::describe::{self, GET_DAPL, GET_DCPL};
use super::{opened, paths};
use crate::symbols::Hid;
use std::collections::BTreeSet;
use std::ffi::{OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// `H5D_VIRTUAL`.
const VIRTUAL: c_int = 3;

/// Where the sources of a virtual dataset may be.
pub(in crate::vol) struct Sources(BTreeSet<PathBuf>);

/// What a function writes that takes a buffer and its size and answers the length.
fn text(ask: &dyn Fn(*mut c_char, usize) -> isize) -> Option<PathBuf> {
    let length = usize::try_from(ask(std::ptr::null_mut(), 0)).ok().filter(|length| *length > 0)?;
    let mut bytes = vec![0_u8; length.saturating_add(1)];
    ask(bytes.as_mut_ptr().cast(), bytes.len());
    bytes.truncate(length);
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

impl Sources {
    /// Those of a lower dataset, if it is a virtual one.
    pub(in crate::vol) fn of(slot: &'static Slot, under: P, vol: Hid) -> Option<Self> {
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
        // SAFETY: a list of our own, a buffer of the size that is told.
        let prefix = text(&|to, size| unsafe { (slot.api.plist_virtual_prefix)(dapl.id, to, size) });
        let prefix = std::env::var_os("HDF5_VDS_PREFIX").map(PathBuf::from).or(prefix);
        let own = opened::file_of(slot, under, vol, super::super::object::DATASET).ok()?;
        let own = PathBuf::from(OsString::from_vec(own));
        let folder = own.parent().unwrap_or(&own);
        let mut all = BTreeSet::new();
        for number in 0..count {
            // SAFETY: as above.
            let name = text(&|to, size| unsafe { (slot.api.plist_virtual_file)(plist.id, number, to, size) });
            let Some(name) = name.filter(|name| name.as_os_str() != ".") else { continue };
            all.extend(prefix.iter().map(|prefix| prefix.join(&name)));
            all.insert(folder.join(&name));
            if let Some(last) = name.file_name() {
                all.insert(folder.join(last));
            }
            all.insert(name);
        }
        Some(Sources(all))
    }

    /// Refuses if one of them waits for a commit.
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
