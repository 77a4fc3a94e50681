//! Garbage collection: deletes unreachable epochs, hidden logs and leftovers of stopped processes.
//!
//! Old data may still be in use: a program that opened the file before the last commit reads the
//! epoch of that time. Therefore recently changed files are kept, and everything that the newest
//! epochs need. Files that a running program may still be writing are kept for at least ten minutes,
//! even if the grace period is shorter.

use crate::Session;
use crate::format::manifest::{manifest_name, parse_epoch_number};
use crate::location::bucket::parts;
use crate::location::process;
use crate::location::site::LogName;
use crate::location::site::{Folder as _, Site};
use crate::{BegunUpload, Bucket, Log, Manifest, WriterId, arrow_files, commit, log_path, store_folder};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Age below which files are kept that a program may be making at this moment: an empty log, an
/// incomplete epoch, a new skeleton, the log of a compaction on another machine.
const MIN_UNFINISHED_AGE: Duration = Duration::from_secs(600);

/// Options of garbage collection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VacuumOptions {
    /// Number of the newest epochs to keep, at least one.
    pub epochs: usize,
    /// Age below which files are kept.
    pub grace: Duration,
    /// Report what would be deleted, without deleting it.
    pub dry: bool,
    /// In an object store: age above which unfinished uploads are aborted. Writers that are still
    /// at work fail if their upload is aborted. `None` aborts no uploads.
    pub uploads: Option<Duration>,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        Self { epochs: 1, grace: Duration::from_secs(3600), dry: false, uploads: None }
    }
}

/// Result of garbage collection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Deleted files and aborted uploads; with [`VacuumOptions::dry`], nothing is deleted yet.
    pub files: Vec<PathBuf>,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Number of files that are kept only because they changed recently: within the grace period,
    /// and at least within 10 minutes for files that a program may be making at this moment.
    pub young: usize,
    /// Unfinished uploads to an object store that are kept: their writers are at work, or were
    /// stopped.
    pub uploads: Vec<BegunUpload>,
}

/// Files that are unreachable.
#[derive(Debug, Default)]
struct Garbage {
    /// Names of manifests.
    epochs: Vec<String>,
    /// Names of incomplete manifests, which a commit may be writing.
    incomplete: Vec<String>,
    writers: Vec<WriterId>,
    /// Writers that may be at work.
    unfinished: Vec<WriterId>,
}

/// Deletes everything that is no longer reachable.
///
/// # Errors
/// NotFound if nothing was ever committed; Corrupt, before anything is deleted, if a log that the
/// newest epoch needs is missing or incomplete; Io. Files deleted before the error stay deleted.
pub fn vacuum<'a>(site: impl Into<Site<'a>>, options: &VacuumOptions) -> Result<VacuumReport> {
    let site = site.into();
    loop {
        let (newest, _) = commit::newest(site)?;
        let newest = newest.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed")
                .file(site.operations().path().display())
        })?;
        check_logs(site, &newest)?;
        let garbage = find_garbage(site, &newest, options)?;
        // An epoch that was committed in the meantime may need files that this one does not.
        if Manifest::newest(site)?.is_none_or(|now| now.number != newest.number) {
            continue;
        }
        return match site.bucket() {
            Some(bucket) => in_bucket(bucket, &garbage, options),
            None => on_this_machine(site.operations().path(), &garbage, options),
        };
    }
}

/// Fails if a log of the newest epoch is missing or too short, since then only earlier epochs may
/// be readable.
fn check_logs(site: Site<'_>, newest: &Manifest) -> Result<()> {
    let sizes = site.map_concurrently(&newest.logs, |log| {
        Log::open_for_reads(LogName::from((site, log.writer))).map(|opened| opened.file_size())
    });
    for (log, size) in newest.logs.iter().zip(sizes) {
        let found = match size {
            Ok(size) if size >= log.length => continue,
            Ok(size) => format!("{size} bytes"),
            Err(error) if error.is_of_reading() && error.kind() != ErrorKind::NotFound => return Err(error),
            Err(error) => error.message().to_owned(),
        };
        let message = format!(
            "cannot delete anything: expected a log of {} bytes, which epoch {} needs, got: {found}; earlier epochs may be the \
             only ones that are whole (`hyperchunk.open(FILE, epoch=N)`); put the log back, or copy what an earlier epoch has",
            log.length, newest.number
        );
        let place = LogName::from((site, log.writer)).path();
        return Err(Error::corrupt(message).file(place.display()));
    }
    Ok(())
}

fn find_garbage(site: Site<'_>, newest: &Arc<Manifest>, options: &VacuumOptions) -> Result<Garbage> {
    let numbers = Manifest::numbers(site)?;
    let mut garbage = Garbage::default();
    let mut kept: HashSet<u64> = HashSet::from([newest.number]);
    let mut epochs = vec![Arc::clone(newest)];
    // Writers at work will be merged against the epoch that they started from.
    let waiting = commit::waiting(site, Some(newest))?;
    kept.extend(waiting.iter().map(|log| log.header.base));
    for number in numbers.iter().rev().filter(|number| **number != newest.number) {
        match Manifest::epoch(site, *number) {
            Ok(epoch) if epochs.len() < options.epochs.max(1) || kept.contains(number) => epochs.push(epoch),
            Ok(_) => garbage.epochs.push(manifest_name(*number)),
            // Its commit was stopped.
            Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::Corrupt) => {
                garbage.incomplete.push(manifest_name(*number));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let needed: HashSet<WriterId> =
        epochs.iter().flat_map(|epoch| epoch.logs.iter().map(|log| log.writer)).collect();
    for writer in commit::writers(site)?.into_iter().filter(|writer| !needed.contains(writer)) {
        if newest.hidden.contains(&writer) {
            garbage.writers.push(writer);
            continue;
        }
        match Log::peek((site, writer)) {
            Ok((header, ..)) if header.session == Session::compaction() => {
                match process::is_running(header.place, header.process) {
                    Some(true) => {}
                    Some(false) => garbage.writers.push(writer),
                    None => garbage.unfinished.push(writer),
                }
            }
            Err(error) if error.kind() == ErrorKind::Truncated => garbage.unfinished.push(writer),
            _ => {}
        }
    }
    Ok(garbage)
}

/// Deletes epochs, and all objects of writers' logs.
fn in_bucket(bucket: &Bucket, garbage: &Garbage, options: &VacuumOptions) -> Result<VacuumReport> {
    let mut vacuumed = VacuumReport::default();
    let all = bucket.list_objects()?;
    let changed: HashMap<&str, SystemTime> =
        all.iter().map(|listed| (&*listed.name, listed.modified)).collect();
    for listed in &all {
        let writer = parts::parse_writer(&listed.name);
        let of = |writers: &[WriterId]| writer.is_some_and(|writer| writers.contains(&writer));
        let is_unfinished = of(&garbage.unfinished) || garbage.incomplete.contains(&listed.name);
        if !is_unfinished && !of(&garbage.writers) && !garbage.epochs.contains(&listed.name) {
            continue;
        }
        let grace = if is_unfinished { options.grace.max(MIN_UNFINISHED_AGE) } else { options.grace };
        // The age of an epoch counts from the next one: writers that are not visible yet may have
        // started from it.
        let next =
            parse_epoch_number(&listed.name).and_then(|number| changed.get(&*manifest_name(number + 1)));
        let last = next.copied().unwrap_or(listed.modified);
        if last.elapsed().unwrap_or_default() < grace {
            vacuumed.young += 1;
            continue;
        }
        if !options.dry {
            bucket.delete(&listed.name)?;
        }
        vacuumed.bytes += listed.size;
        vacuumed.files.push(bucket.place(&listed.name));
    }
    for begun in bucket.uploads()? {
        if options.uploads.is_none_or(|most| begun.age < most) {
            vacuumed.uploads.push(begun);
            continue;
        }
        if !options.dry {
            bucket.abort(&begun)?;
        }
        vacuumed.files.push(bucket.place(&parts::part_name(begun.writer, begun.from)));
    }
    Ok(vacuumed)
}

fn on_this_machine(path: &Path, garbage: &Garbage, options: &VacuumOptions) -> Result<VacuumReport> {
    let in_folder = |name: &String| store_folder(path).join(name);
    let of_writer = |writer: &WriterId| {
        let fragments = arrow_files::find_fragments(path, *writer);
        [log_path(path, *writer)].into_iter().chain(fragments)
    };
    let mut gone: Vec<(PathBuf, Duration)> = Vec::new();
    let files = garbage.epochs.iter().map(in_folder).chain(garbage.writers.iter().flat_map(of_writer));
    gone.extend(files.map(|file| (file, options.grace)));
    let unfinished =
        garbage.incomplete.iter().map(in_folder).chain(garbage.unfinished.iter().flat_map(of_writer));
    let unfinished = unfinished.chain(temporaries(path)?);
    gone.extend(unfinished.map(|file| (file, options.grace.max(MIN_UNFINISHED_AGE))));
    let mut vacuumed = VacuumReport::default();
    let age = |file: &Path| fs::metadata(file).and_then(|it| it.modified()).ok()?.elapsed().ok();
    for (file, grace) in gone {
        let Ok(metadata) = fs::metadata(&file) else { continue };
        // The age of an epoch counts from the next one: writers that are not visible yet may have
        // started from it.
        let number = file.file_name().and_then(|name| name.to_str()).and_then(parse_epoch_number);
        let last = number.map_or_else(|| file.clone(), |number| Manifest::path(path, number + 1));
        if age(&last).or_else(|| age(&file)).unwrap_or_default() < grace {
            vacuumed.young += 1;
            continue;
        }
        if !options.dry {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let message = format!("cannot delete {}: {error}", file.display());
                    return Err(Error::new(ErrorKind::Io, message));
                }
                _ => {}
            }
        }
        vacuumed.bytes += metadata.len();
        vacuumed.files.push(file);
    }
    Ok(vacuumed)
}

/// Returns new skeletons whose writing was interrupted before they were renamed.
fn temporaries(path: &Path) -> Result<Vec<PathBuf>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read {}: {error}", folder.display()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let id = entry.file_name().to_str().and_then(|file| {
            WriterId::from_hex(file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".new")?)
        });
        if id.is_some() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns whether a store has only its newest epoch; used for messages.
///
/// # Errors
/// Io.
pub fn has_no_garbage(path: &Path) -> Result<bool> {
    let path = &*crate::real_file(path);
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let files =
        fs::read_dir(store_folder(path)).map_or(0, |entries| entries.flatten().filter(is_file).count());
    let newest = Manifest::newest(path)?;
    Ok(newest.is_none_or(|newest| files <= newest.logs.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{CommitOptions, commit};
    use crate::tests::{Folder, options};
    use crate::{Definition, LogWriter, Mode, WriterOptions};
    use hyperchunk::write::Sync;
    use hyperchunk_format::model::{ByteOrder, Datatype};

    fn write(path: &Path, mode: Mode, value: u8) -> LogWriter {
        let writer = LogWriter::create(path, &WriterOptions { mode, ..options() }).unwrap();
        let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![4]);
        let dataset = writer.define(&definition).unwrap();
        writer.write_box(dataset, &[0], &[4], &[value; 4]).unwrap();
        writer
    }

    fn commits(path: &Path) -> u64 {
        let options = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
        commit(path, &options).unwrap().unwrap().manifest.number
    }

    fn make_old(file: &Path) {
        let time = SystemTime::now() - 2 * MIN_UNFINISHED_AGE;
        fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }

    fn now() -> VacuumOptions {
        VacuumOptions { grace: Duration::ZERO, ..VacuumOptions::default() }
    }

    #[test]
    #[cfg_attr(windows, ignore = "on Windows, the end of a process is not noticed")]
    fn what_nobody_sees_goes_and_the_newest_epoch_stays_whole() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        assert_eq!(vacuum(&path, &now()).unwrap_err().kind(), ErrorKind::NotFound);
        let old = write(&path, Mode::Join, 1);
        old.close().unwrap();
        commits(&path);
        let joined = write(&path, Mode::Join, 2);
        let anew = write(&path, Mode::Truncate, 3);
        anew.close().unwrap();
        commits(&path);
        let more = write(&path, Mode::Join, 4);
        more.close().unwrap();
        commits(&path);
        fs::write(log_path(&path, WriterId([1; 16])), b"HCL").unwrap();
        let temporary = folder.0.join(format!("a.h5.{}.new", WriterId([2; 16])));
        fs::write(&temporary, b"x").unwrap();
        // Someone may be making them.
        let unfinished = [log_path(&path, WriterId([1; 16])), temporary.clone()];
        let kept = vacuum(&path, &VacuumOptions { dry: true, ..now() }).unwrap();
        assert!(kept.young == 2 && !kept.files.iter().any(|file| unfinished.contains(file)), "{kept:?}");
        unfinished.iter().for_each(|file| make_old(file));
        fs::write(folder.0.join("a.h5.mine.new"), b"x").unwrap();
        let all = vacuum(&path, &VacuumOptions { dry: true, ..now() }).unwrap();
        assert!(temporary.exists());
        assert_eq!(vacuum(&path, &VacuumOptions::default()).unwrap().young, all.files.len());
        let done = vacuum(&path, &now()).unwrap();
        assert_eq!(done, all);
        // The epoch that the open writer started from is kept, with the log that it needs.
        assert!(Manifest::epoch(&path, 1).is_ok() && old.log().exists());
        assert!(Manifest::epoch(&path, 2).is_err() && !temporary.exists());
        assert!(!log_path(&path, WriterId([1; 16])).exists() && anew.log().exists());
        assert!(folder.0.join("a.h5.mine.new").exists());
        joined.close().unwrap();
        // The writer's file no longer exists. The log and its epoch are kept until the log is moved
        // away.
        let refused = commit(&path, &CommitOptions::default()).unwrap_err();
        assert!(refused.to_string().contains("begun anew after epoch 1"), "{refused}");
        assert!(vacuum(&path, &now()).unwrap().files.is_empty() && old.log().exists());
        fs::rename(joined.log(), folder.0.join("joined.log")).unwrap();
        write(&path, Mode::Join, 2).close().unwrap();
        assert_eq!(commits(&path), 4);
        let done = vacuum(&path, &now()).unwrap();
        assert_eq!(done.files.len(), 3, "{done:?}");
        assert!(!old.log().exists() && has_no_garbage(&path).unwrap());
        let newest = Manifest::newest(&path).unwrap().unwrap();
        assert!(newest.logs.iter().all(|log| log_path(&path, log.writer).exists()));
        assert_eq!(write(&path, Mode::Join, 5).close().map(|_| commits(&path)).unwrap(), 5);
        assert_eq!(vacuum(&path, &VacuumOptions { epochs: 2, ..now() }).unwrap().files, [] as [PathBuf; 0]);
    }

    #[test]
    fn nothing_goes_if_the_newest_epoch_lacks_a_log() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let logs: Vec<PathBuf> = [Mode::Join, Mode::Truncate]
            .into_iter()
            .zip(1..)
            .map(|(mode, value)| {
                let writer = write(&path, mode, value);
                writer.close().unwrap();
                commits(&path);
                writer.log().to_owned()
            })
            .collect();
        let whole = fs::read(&logs[1]).unwrap();
        for bytes in [None, Some(&whole[..whole.len() - 8])] {
            fs::remove_file(&logs[1]).unwrap();
            if let Some(bytes) = bytes {
                fs::write(&logs[1], bytes).unwrap();
            } else {
                let error = vacuum(&path, &now()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                fs::write(&logs[1], b"").unwrap();
            }
            let error = vacuum(&path, &now()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let name = logs[1].file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{error}");
            assert!(logs[0].exists() && Manifest::epoch(&path, 1).is_ok());
        }
        fs::write(&logs[1], &whole).unwrap();
        assert_eq!(vacuum(&path, &now()).unwrap().files.len(), 2);
        assert!(!logs[0].exists());
    }

    #[test]
    #[cfg_attr(windows, ignore = "on Windows, the end of a process is not noticed")]
    fn the_log_of_a_compaction_at_work_stays() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        write(&path, Mode::Join, 1).close().unwrap();
        commits(&path);
        let session = Session::compaction();
        let at_work = LogWriter::create(&path, &WriterOptions { session, ..options() }).unwrap();
        at_work.close().unwrap();
        assert_eq!(vacuum(&path, &now()).unwrap(), VacuumReport::default());
        assert!(at_work.log().exists());
        // As if its process had ended, or had been on another machine.
        let other = |process: u32, place: u64| {
            let writer = WriterId::new();
            let header = crate::LogHeader { writer, process, place, ..at_work.header().clone() };
            fs::write(log_path(&path, writer), header.encode()).unwrap();
            log_path(&path, writer)
        };
        let ended = other(u32::MAX, at_work.header().place);
        let elsewhere = other(1, at_work.header().place ^ 1);
        assert_eq!(vacuum(&path, &now()).unwrap().files, [ended]);
        make_old(&elsewhere);
        assert_eq!(vacuum(&path, &now()).unwrap().files, [elsewhere]);
    }

    #[test]
    #[cfg_attr(windows, ignore = "on Windows, a writer does not notice that its log was deleted")]
    fn a_writer_whose_log_is_gone_is_told_so() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        for replaced in [false, true] {
            let writer = write(&path, Mode::Join, 1);
            let ticket = writer.flush().unwrap();
            fs::remove_file(writer.log()).unwrap();
            if replaced {
                fs::write(writer.log(), b"x").unwrap();
            }
            assert_eq!(writer.flush().unwrap(), ticket, "nothing new");
            let error = writer.close().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("deleted or replaced it"), "{error}");
            assert!(writer.close().is_err());
            fs::remove_file(writer.log()).unwrap_or_default();
        }
    }
}
