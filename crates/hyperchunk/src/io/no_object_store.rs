//! Stand-in for `object_store` in builds without the feature `cloud`: every call is an error.

use super::upload::{CreateOutcome, ListedObject, Upload};
use super::{Remote, RemoteOptions, Source};
use crate::{Error, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

pub(super) fn open(name: &str, _options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    Err(lacking(name))
}

pub(super) fn start_upload(name: &str, _options: &RemoteOptions, _replace: bool) -> Result<Arc<dyn Upload>> {
    Err(lacking(name))
}

pub(super) fn list(name: &str, _options: &RemoteOptions) -> Result<Vec<ListedObject>> {
    Err(lacking(name))
}

pub(super) fn put(name: &str, _options: &RemoteOptions, _bytes: Vec<u8>) -> Result<()> {
    Err(lacking(name))
}

pub(super) fn put_new(name: &str, _options: &RemoteOptions, _bytes: Vec<u8>) -> Result<CreateOutcome> {
    Err(lacking(name))
}

pub(super) fn delete(name: &str, _options: &RemoteOptions) -> Result<()> {
    Err(lacking(name))
}

pub(super) fn abort_upload(name: &str, _options: &RemoteOptions, _id: &str) -> Result<()> {
    Err(lacking(name))
}

fn lacking(name: &str) -> Error {
    let scheme = name.split("://").next().unwrap_or("");
    Error::unsupported(format!(
        "this build cannot open `{scheme}` URLs: it was compiled without the feature `cloud`"
    ))
}

pub(super) fn fetch_many(
    _wanted: &[(&dyn Remote, &[Range<u64>])],
    _land: &mut dyn FnMut(usize, usize, Bytes) -> Result<()>,
) -> Result<()> {
    Err(Error::unsupported("this build cannot open URLs: it was compiled without the feature `cloud`"))
}

pub(super) fn open_known(
    _name: &str,
    _options: &RemoteOptions,
    _size: u64,
    _etag: &str,
) -> Option<Result<Arc<dyn Source>>> {
    None
}
