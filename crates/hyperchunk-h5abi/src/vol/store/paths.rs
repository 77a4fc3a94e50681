//! Stores by path: whether a file is a store, its placeholder before the first commit, and the stores that
//! this process has open.

use super::super::slot::Slot;
use super::Store;
use hyperchunk::index::IndexOption;
use hyperchunk::io::Locking;
use hyperchunk::write::{CreateOptions, MemorySink, Sink, Writer};
use hyperchunk::{File, OpenOptions};
use hyperchunk_store::{
    MARKER, Manifest, STAMPED_WITHIN_BYTES, commit, has_store, hold_alone, read_epoch, real_file,
};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Stores with a writer of this process, by library and path.
type Table = HashMap<(usize, PathBuf), Weak<Store>>;

fn table() -> &'static Mutex<Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    TABLE.get_or_init(Mutex::default)
}

/// Returns the store at a path that this process writes to. A store inherited through a fork belongs to the
/// parent.
pub(super) fn open_for_writing(slot: &Slot, path: &Path) -> Option<Arc<Store>> {
    let table = table().lock().unwrap_or_else(PoisonError::into_inner);
    let store = table.get(&(slot.library.base(), path.to_owned()))?.upgrade()?;
    store.writer.as_ref().is_some_and(|writer| writer.is_of_this_process()).then_some(store)
}

/// Returns whether this process writes any store.
pub(super) fn writes_any(slot: &Slot) -> bool {
    let table = table().lock().unwrap_or_else(PoisonError::into_inner);
    table.iter().any(|((library, _), store)| *library == slot.library.base() && store.strong_count() > 0)
}

pub(super) fn remember(store: &Arc<Store>) {
    let mut table = table().lock().unwrap_or_else(PoisonError::into_inner);
    table.retain(|_, store| store.strong_count() > 0);
    table.insert((store.slot.library.base(), store.path.clone()), Arc::downgrade(store));
}

/// Stores that this process reads, with the base address of their library.
fn readers() -> &'static Mutex<Vec<(usize, Weak<Store>)>> {
    static READERS: Mutex<Vec<(usize, Weak<Store>)>> = Mutex::new(Vec::new());
    &READERS
}

pub(super) fn remember_reader(store: &Arc<Store>) {
    let mut readers = readers().lock().unwrap_or_else(PoisonError::into_inner);
    readers.retain(|(_, store)| store.strong_count() > 0);
    readers.push((store.slot.library.base(), Arc::downgrade(store)));
}

/// Returns whether this process has the store at a path open for reading.
pub(super) fn is_read(slot: &Slot, path: &Path) -> bool {
    let readers = readers().lock().unwrap_or_else(PoisonError::into_inner);
    let own = readers.iter().filter(|(base, _)| *base == slot.library.base());
    own.filter_map(|(_, store)| store.upgrade()).any(|store| store.path == path)
}

/// Removes a store that is being closed.
pub(super) fn remove_writer(store: &Store) {
    let mut table = table().lock().unwrap_or_else(PoisonError::into_inner);
    table.remove(&(store.slot.library.base(), store.path.clone()));
}

/// Removes the entries of a library that closes.
pub(in crate::vol) fn forget(slot: &Slot) {
    let mut table = table().lock().unwrap_or_else(PoisonError::into_inner);
    table.retain(|(base, _), _| *base != slot.library.base());
    drop(table);
    let mut readers = readers().lock().unwrap_or_else(PoisonError::into_inner);
    readers.retain(|(base, _)| *base != slot.library.base());
}

/// Returns the absolute path of a name that HDF5 passes, with links resolved: a store belongs to the file
/// itself.
pub(super) fn absolute(name: &CStr) -> Option<PathBuf> {
    let path = real_file(&std::path::absolute(OsStr::from_bytes(name.to_bytes())).ok()?);
    let (folder, file) = (path.parent()?, path.file_name()?);
    Some(fs::canonicalize(folder).map_or_else(|_| path.clone(), |folder| folder.join(file)))
}

/// Returns whether there is a store at a path: an HDF5 file with a folder of logs.
pub(in crate::vol) fn is_store(path: &Path) -> bool {
    has_store(path) && fs::metadata(path).is_ok_and(|file| file.is_file())
}

/// Returns whether there is a store at a name that HDF5 passes.
pub(in crate::vol) fn is_store_named(name: &CStr) -> bool {
    absolute(name).is_some_and(|path| is_store(&path))
}

/// Returns whether the file at a path is the skeleton of a store, judging by its stamp or its markers.
pub(super) fn is_skeleton(path: &Path) -> bool {
    let mut options = OpenOptions::default();
    (options.ignore_stores, options.index) = (true, IndexOption::Never);
    // libhdf5 may have it open in this process.
    options.locking = Locking::Never;
    let mut start = Vec::new();
    let mut read = || fs::File::open(path)?.take(STAMPED_WITHIN_BYTES as u64).read_to_end(&mut start);
    read().is_ok()
        && File::open(path, &options).is_ok_and(|file| matches!(read_epoch(&start, &file), Ok(Some(_))))
}

/// Returns whether a file without a folder of logs is a store's file under another name. Writes to it would
/// go into the skeleton that both names share, and be lost with the next commit.
pub(super) fn is_hard_link(path: &Path) -> bool {
    let several = fs::metadata(path).is_ok_and(|file| file.is_file() && file.nlink() > 1);
    several && is_skeleton(path)
}

/// Returns the contents of a store's file, if it has the group [`MARKER`], with the sources of virtual
/// datasets by which plain HDF5 reads the logs.
pub(super) fn contents_with_marker(path: &Path) -> hyperchunk::Result<Option<Vec<u8>>> {
    let mut options = OpenOptions::default();
    (options.ignore_stores, options.index) = (true, IndexOption::Never);
    // libhdf5 may have it open in this process.
    options.locking = Locking::Never;
    let Ok(file) = File::open(path, &options) else { return Ok(None) };
    if file.root()?.group()?.link(MARKER.trim_matches('/').as_bytes())?.is_none() {
        return Ok(None);
    }
    let read = fs::read(path);
    read.map(Some).map_err(|error| {
        let message = format!("cannot read the file of a store: {error}");
        hyperchunk::Error::new(hyperchunk::ErrorKind::Io, message).file(path.display())
    })
}

/// Returns the placeholder file at the path of a store before its first commit: an empty HDF5 file, identical
/// from every writer, so that it can be recognised. It is HDF5 because netCDF-C checks a file's first bytes.
fn placeholder() -> hyperchunk::Result<&'static [u8]> {
    static PLACEHOLDER: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(placeholder) = PLACEHOLDER.get() {
        return Ok(placeholder);
    }
    let sink = Arc::new(MemorySink::default());
    let writer = Writer::create_in(Arc::clone(&sink) as Arc<dyn Sink>, None, &CreateOptions::default())?;
    writer.close()?;
    Ok(PLACEHOLDER.get_or_init(|| sink.bytes()))
}

/// Returns whether the file at a path is the placeholder.
pub(super) fn is_placeholder(path: &Path) -> hyperchunk::Result<bool> {
    let placeholder = placeholder()?;
    let as_long = fs::metadata(path).is_ok_and(|file| file.len() == placeholder.len() as u64);
    Ok(as_long && fs::read(path).is_ok_and(|bytes| bytes == placeholder))
}

/// Returns whether the store at a path waits for its first commit.
pub(super) fn is_waiting(path: &Path) -> hyperchunk::Result<bool> {
    Ok(is_store(path)
        && is_placeholder(path)?
        && !commit::waiting(path, Manifest::newest(path)?.as_deref())?.is_empty())
}

/// Replaces the file at a path by the placeholder, unless another process has done so already.
pub(super) fn publish_placeholder(path: &Path) -> hyperchunk::Result<()> {
    if is_placeholder(path)? {
        return Ok(());
    }
    let _held = hold_alone(path)?;
    hyperchunk::output::write_over_locked(path, placeholder().unwrap_or_default())
}
