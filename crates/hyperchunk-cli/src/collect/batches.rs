//! Collecting in batches, so that an interrupted `hyperchunk collect` continues where it stopped.

use hyperchunk::collection::{CollectOptions, Collection};
use hyperchunk::{Error, OpenOptions, Result, io};
use hyperchunk_store::query::collected;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Number of files after which the finished part is kept.
const BATCH_FILES: usize = 1000;

/// Collects files. After each batch, the finished part is stored in `partial`, from which a repeated call
/// continues. Returns the collection, and whether `partial` exists. `progress` gets the number of finished
/// files.
pub(super) fn collect(
    names: &[String],
    options: &OpenOptions,
    how: &CollectOptions,
    statistics: &[Vec<u8>],
    partial: &Path,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<(Collection, bool)> {
    let (mut made, mut done) = (Collection::open_part(partial, options)?, 0);
    let mut is_kept = made.is_some();
    if let Some(found) = &made {
        done = finished(found, names, how, options, partial)?;
    }
    while made.is_none() || done < names.len() {
        let batch = names.get(done..).unwrap_or_default();
        let batch = batch.get(..BATCH_FILES).unwrap_or(batch);
        let before = done;
        let report = |count: usize| progress(before + count);
        let mut collection = match made.take() {
            None => Collection::collect(batch, options, how, &report)?,
            Some(mut collection) => {
                collection.append(batch, options, how, &report)?;
                collection
            }
        };
        collected::gather(&mut collection, statistics, options, &|_, _| ())?;
        done += batch.len();
        if done < names.len() {
            collection.save_part(partial, is_kept)?;
            is_kept = true;
        }
        made = Some(collection);
    }
    let made = made.ok_or_else(|| Error::invalid("cannot make a collection of no files"))?;
    Ok((made, is_kept))
}

/// Appends to an error the advice to delete an unusable finished part.
fn delete(error: Error, partial: &Path) -> Error {
    let message = format!("{}; delete {} to begin again", error.message(), partial.display());
    error.with_message(message)
}

/// Returns the number of files in a finished part, including files that were left out.
fn finished(
    made: &Collection,
    names: &[String],
    how: &CollectOptions,
    options: &OpenOptions,
    partial: &Path,
) -> Result<usize> {
    let refuse = |what: String| delete(Error::invalid(format!("cannot go on: {what}")), partial);
    if how.concat.as_ref().is_some_and(|concat| concat != made.concat()) {
        return Err(refuse(format!("the finished files are joined along {}", made.concat())));
    }
    let mut left_out: HashMap<PathBuf, usize> = HashMap::new();
    for skipped in made.skipped() {
        if !how.skip {
            return Err(refuse(format!("{} was left out, as `--on-mismatch skip` asked", skipped.name)));
        }
        *left_out.entry(absolute(&skipped.name)).or_default() += 1;
    }
    let mut waiting = made.files().iter().map(|file| absolute(&file.name)).peekable();
    let mut done = 0;
    for name in names.iter().map(|name| absolute(name)) {
        if waiting.next_if_eq(&name).is_none() {
            match left_out.get_mut(&name).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => break,
            }
        }
        done += 1;
    }
    if waiting.peek().is_some() || left_out.values().any(|count| *count > 0) {
        return Err(refuse(
            "the finished files are not the ones that are collected now, in their order".into(),
        ));
    }
    for (place, file) in made.files().iter().enumerate() {
        // A change of a remote file is noticed when it is read.
        if io::local_path(&file.name).is_some() {
            made.open(place, options).map_err(|error| delete(error, partial))?;
        }
    }
    Ok(done)
}

/// Returns the absolute path of a local file, or the URL.
fn absolute(name: &str) -> PathBuf {
    let path = io::local_path(name).and_then(|path| std::path::absolute(path).ok());
    path.unwrap_or_else(|| name.into())
}
