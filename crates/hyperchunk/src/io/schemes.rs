//! URLs of schemes that this crate does not know, opened by crates above it.

use super::{RemoteOptions, Source};
use crate::Result;
use std::sync::{Arc, OnceLock};

/// Opens what a URL names.
pub type Opener = fn(&str, &RemoteOptions) -> Result<Arc<dyn Source>>;

static KNOWN: OnceLock<(&[&str], Opener)> = OnceLock::new();

/// Sets what opens URLs of these schemes, which are in lower case. Set once for the process.
pub fn set_schemes(schemes: &'static [&'static str], open: Opener) {
    // Whoever came first stays.
    KNOWN.get_or_init(|| (schemes, open));
}

/// Opens a URL of such a scheme; `None` for all others.
pub(super) fn open(url: &str, options: &RemoteOptions) -> Option<Result<Arc<dyn Source>>> {
    let (schemes, open) = KNOWN.get()?;
    let scheme = url.split_once("://")?.0.to_ascii_lowercase();
    schemes.contains(&scheme.as_str()).then(|| open(url, options))
}
