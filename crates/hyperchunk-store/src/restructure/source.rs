//! Source of a layout, and the detection of changes to it.

use super::Request;
use crate::{Manifest, StoredDataset};
use hyperchunk::{Dataset, Error, ErrorKind, File, OpenOptions, Result};
use hyperchunk_format::model::{Class, Layout};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use twox_hash::XxHash3_128;

/// Number of samples of a file that are hashed to distinguish it from another of the same size and
/// time.
const SAMPLE_COUNT: u64 = 64;
/// Size of a sample in bytes.
const SAMPLE_BYTES: u64 = 4096;
/// Age of a file below which another change might not alter its time stamp.
const MIN_SETTLED_AGE: Duration = Duration::from_millis(40);
/// The same, for time stamps in whole seconds.
const MIN_SETTLED_AGE_WHOLE_SECONDS: Duration = Duration::from_millis(2100);

/// The source dataset of a layout.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    pub(super) dataset: Dataset,
    pub(super) identity: String,
}

impl Source {
    /// Opens the dataset of a request in the file at a path or URL.
    pub(super) fn open(name: &str, request: &Request, options: &OpenOptions) -> Result<Self> {
        let mut options = options.clone();
        options.ignore_layouts = true;
        options.epoch = request.epoch;
        crate::register();
        let file = File::open_url(name, &options)?;
        let dataset = file.root()?.named("/").group()?.get(request.dataset.as_bytes())?.dataset()?;
        check(&dataset).map_err(|error| dataset.with_context(error))?;
        if dataset.store().is_none() {
            settle(&file)?;
        }
        let identity = identity(&dataset)?;
        Ok(Self { file, dataset, identity })
    }

    /// Fails if the file changed since it was opened. Epochs of a store never change.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        if self.dataset.store().is_some() || is_same(&self.file)? {
            return Ok(());
        }
        let message = "the file was written to while it was restructured: start again";
        Err(self.dataset.with_context(Error::new(ErrorKind::Changed, message)))
    }
}

/// Checks that the dataset can have other layouts.
fn check(dataset: &Dataset) -> Result<()> {
    let datatype = dataset.datatype();
    if datatype.any(&mut |part| {
        matches!(part.class, Class::Reference(_) | Class::Vlen { .. } | Class::VlenString { .. })
    }) {
        return Err(Error::unsupported(
            "elements that refer to other places of the file cannot be restructured",
        ));
    }
    if dataset.is_live() {
        return Err(Error::unsupported("a live dataset cannot be restructured: its values are computed"));
    }
    match dataset.layout() {
        _ if dataset.store().is_some() => Ok(()),
        Layout::Virtual { .. } => Err(Error::unsupported(
            "a virtual dataset cannot be restructured: its values may change without its file; restructure its sources",
        )),
        _ if !dataset.external().is_empty() => Err(Error::unsupported(
            "data in external files cannot be restructured: they may change without the file",
        )),
        _ => Ok(()),
    }
}

/// Returns the identity of a dataset's contents: equal identities mean equal values.
pub(super) fn identity(dataset: &Dataset) -> Result<String> {
    if let Some((manifest, stored)) = crate::sharded(dataset).and_then(|sharded| sharded.stored()) {
        return Ok(store_identity(manifest, stored));
    }
    let file = dataset.object().file();
    let Some(version) = quick(file) else {
        return Err(dataset.with_context(Error::unsupported(
            "the version of the file cannot be determined, so changes of it would go unnoticed",
        )));
    };
    if file.is_remote() {
        return Ok(version);
    }
    Ok(format!("{version}:{:032x}", sampled(file)?))
}

/// Returns the identity of a dataset of an epoch, from its parts. Other epochs with the same parts
/// have the same values.
fn store_identity(manifest: &Manifest, stored: &StoredDataset) -> String {
    let mut bytes = manifest.store.0.to_vec();
    bytes.extend(stored.id.0);
    stored.extent.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    for part in &stored.parts {
        let log = manifest.logs.get(part.log as usize);
        bytes.extend(log.map(|log| log.writer.0).unwrap_or_default());
        bytes.extend(part.epoch.to_le_bytes());
        bytes.extend(part.written.pieces.len().to_le_bytes());
    }
    format!("store:{:032x}", XxHash3_128::oneshot(&bytes))
}

/// Returns the part of a file's identity that needs no reading.
pub(super) fn quick(file: &File) -> Option<String> {
    let version = file.source().version()?;
    Some(format!("file:{}:{version}", file.size()))
}

/// Returns whether a local file still has the size and the time that it was opened with.
pub(super) fn is_same(file: &File) -> Result<bool> {
    let Some(on_disk) = file.on_disk() else { return Ok(true) };
    let now = hyperchunk::io::now(on_disk);
    let now = now.ok_or_else(|| {
        file.with_context(Error::new(ErrorKind::Io, "cannot read the metadata of the file"))
    })?;
    Ok(now.0 == file.size() && Some(now.1) == file.source().version())
}

/// Returns a hash of samples of a file, which distinguishes files of the same size and time.
fn sampled(file: &File) -> Result<u128> {
    let size = file.size();
    let mut bytes = Vec::new();
    let mut read = |start: u64, end: u64| -> Result<()> {
        let old = bytes.len();
        bytes.resize(old + usize::try_from(end - start).unwrap_or(0), 0);
        file.source().read_at(start, &mut bytes[old..])
    };
    if size <= SAMPLE_COUNT * SAMPLE_BYTES {
        read(0, size)?;
    } else {
        for number in 0..SAMPLE_COUNT {
            let start = u128::from(size - SAMPLE_BYTES) * u128::from(number) / u128::from(SAMPLE_COUNT - 1);
            let start = u64::try_from(start).unwrap_or(0);
            read(start, start + SAMPLE_BYTES)?;
        }
    }
    Ok(XxHash3_128::oneshot(&bytes))
}

/// Waits until a further change of the file would alter its time stamp.
fn settle(file: &File) -> Result<()> {
    let Some(modified) = file.on_disk().and_then(|file| file.metadata().ok()?.modified().ok()) else {
        return Ok(());
    };
    let whole = modified.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == 0);
    let wanted = if whole { MIN_SETTLED_AGE_WHOLE_SECONDS } else { MIN_SETTLED_AGE };
    if let Ok(age) = modified.elapsed()
        && age < wanted
    {
        std::thread::sleep(wanted - age);
    }
    if is_same(file)? {
        return Ok(());
    }
    Err(file.with_context(Error::new(
        ErrorKind::Changed,
        "another program writes to the file: restructure it when that is done",
    )))
}

/// Returns the path of the file next to which the layouts are stored. Another user's link is an error.
pub(super) fn beside(name: &str) -> Result<PathBuf> {
    if hyperchunk::io::local_path(name).is_none() {
        let message = "a file over a network has no folder for layouts: name a new file (output)";
        return Err(Error::invalid(message).file(hyperchunk::io::without_secrets(name)));
    }
    hyperchunk::output::target(Path::new(name.strip_prefix("file://").unwrap_or(name)))
}
