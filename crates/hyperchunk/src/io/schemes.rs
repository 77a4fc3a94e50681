//! URL schemes registered by crates above this one.

use super::{RemoteOptions, Source};
use crate::Result;
use std::sync::{Arc, OnceLock};

/// Function that opens a URL.
pub type Opener = fn(&str, &RemoteOptions) -> Result<Arc<dyn Source>>;

static KNOWN: OnceLock<(&[&str], Opener)> = OnceLock::new();

/// Sets the function that opens URLs of these schemes, given in lower case. Later calls have no effect.
pub fn set_schemes(schemes: &'static [&'static str], open: Opener) {
    KNOWN.get_or_init(|| (schemes, open));
}

/// Opens a URL of a registered scheme; `None` for all others.
pub(super) fn open(url: &str, options: &RemoteOptions) -> Option<Result<Arc<dyn Source>>> {
    let (schemes, open) = KNOWN.get()?;
    let scheme = url.split_once("://")?.0.to_ascii_lowercase();
    schemes.contains(&scheme.as_str()).then(|| open(url, options))
}
