//! Objects that are written in one request, listed and deleted, as a substitute for a folder of files.

use super::failure::Failure;
use super::fetch;
use super::location::{Kind, Location};
use super::process::Process;
use super::settings::Settings;
use super::upload::To;
use super::wire::Tally;
use super::{connection, with_region};
use crate::io::RemoteOptions;
use crate::io::upload::{CreateOutcome, ListedObject};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs an operation on an object on the process's runtime.
fn ask<T, F>(url: &str, options: &RemoteOptions, run: impl Fn(To) -> F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    ask_at(&Location::parse(url)?, options, run)
}

/// Runs an operation at a location on the process's runtime.
fn ask_at<T, F>(location: &Location, options: &RemoteOptions, run: impl Fn(To) -> F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let asked = || {
        if location.kind == Kind::Http {
            return Err(Error::unsupported("cannot write to or list a web server"));
        }
        let settings = Settings::new(location, &options.store, std::env::vars())?;
        let connection = Arc::new(connection(location, options, settings));
        let (process, tally) = (Process::get()?, Arc::<Tally>::default());
        let options = Arc::new(options.clone());
        with_region(process, &connection, &tally, || {
            let to = To::new(process.store(&connection)?, location, &options, &tally)?;
            fetch::wait(process, run(to))
        })
    };
    asked().map_err(|error| error.file(location.shown()))
}

/// Lists the objects directly below a name, or in a bucket, if the URL has no key.
///
/// # Errors
/// Invalid for an invalid URL or settings; Unsupported for web servers; Io.
pub(in crate::io) fn list(url: &str, options: &RemoteOptions) -> Result<Vec<ListedObject>> {
    let found = ask_at(&Location::parse_folder(url)?, options, |to| async move {
        let to = to.listing();
        to.repeat(0, || to.store.objects.list_with_delimiter(Some(&to.path))).await
    })?;
    let listed = found.objects.into_iter().filter_map(|object| {
        let name = object.location.filename()?.to_owned();
        Some(ListedObject { name, size: object.size, modified: object.last_modified.into() })
    });
    Ok(listed.collect())
}

/// Writes an object in one request and replaces an existing one.
///
/// # Errors
/// As [`list`].
pub(in crate::io) fn put(url: &str, options: &RemoteOptions, bytes: Vec<u8>) -> Result<()> {
    let bytes = Bytes::from(bytes);
    ask(url, options, |to| {
        let payload = PutPayload::from(bytes.clone());
        async move {
            let request = || to.store.objects.put(&to.path, payload.clone());
            to.repeat(payload.content_length(), request).await.map(drop)
        }
    })
}

/// Writes an object in one request, unless it exists.
///
/// # Errors
/// As [`list`]; Unsupported if the store refuses such a condition.
pub(in crate::io) fn put_new(url: &str, options: &RemoteOptions, bytes: Vec<u8>) -> Result<CreateOutcome> {
    let bytes = Bytes::from(bytes);
    ask(url, options, |to| {
        let payload = PutPayload::from(bytes.clone());
        async move {
            let (started, mut repeated) = (Instant::now(), 0);
            loop {
                let request = || {
                    let create = PutOptions::from(PutMode::Create);
                    to.store.objects.put_opts(&to.path, payload.clone(), create)
                };
                let (failure, seen) = match to.attempt(payload.content_length(), repeated, &request).await {
                    Ok(_) => return Ok(CreateOutcome::New),
                    Err(failed) => failed,
                };
                match seen.status {
                    // An earlier attempt may have succeeded, with a response that was lost.
                    Some(304 | 412) => {
                        return Ok(if repeated > 0 { CreateOutcome::Unsure } else { CreateOutcome::There });
                    }
                    Some(400 | 405 | 501) if !matches!(failure, Failure::Passing { .. }) => {
                        let message = "the store does not support conditional writes of new objects (If-None-Match), \
                                       so commits are not possible there";
                        return Err(Error::unsupported(message));
                    }
                    _ => to.next_attempt(failure, started, Duration::ZERO, &mut repeated).await?,
                }
            }
        }
    })
}

/// Deletes an object if it exists.
///
/// # Errors
/// As [`list`].
pub(in crate::io) fn delete(url: &str, options: &RemoteOptions) -> Result<()> {
    let done =
        ask(url, options, |to| async move { to.repeat(0, || to.store.objects.delete(&to.path)).await });
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Aborts an unfinished upload.
///
/// # Errors
/// As [`list`].
pub(in crate::io) fn abort_upload(url: &str, options: &RemoteOptions, id: &str) -> Result<()> {
    let done = ask(url, options, |to| {
        let id = id.to_owned();
        async move { to.repeat(0, || to.multipart.abort_multipart(&to.path, &id)).await }
    });
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
