//! What is there instead of object stores in builds without them.

use super::{RemoteOptions, Source};
use crate::{Error, Result};
use std::sync::Arc;

pub(super) fn open(name: &str, _options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    let scheme = name.split("://").next().unwrap_or("");
    let message = format!("this build opens no `{scheme}` URLs: it was made without the feature `cloud`");
    Err(Error::unsupported(message))
}

pub(super) fn open_known(
    _name: &str,
    _options: &RemoteOptions,
    _size: u64,
    _etag: &str,
) -> Option<Result<Arc<dyn Source>>> {
    None
}
