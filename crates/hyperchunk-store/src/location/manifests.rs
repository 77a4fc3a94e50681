//! Manifests at their location: listing, reading and publishing epochs.

use super::site::Site;
use crate::format::manifest::{Manifest, manifest_name, parse_epoch_number};
use hyperchunk::{ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 34;

impl Manifest {
    /// Reads the newest epoch of the store of a file; `None` if nothing was ever committed.
    ///
    /// # Errors
    /// Io; Unsupported for a manifest of a later version.
    pub fn newest<'a>(site: impl Into<Site<'a>>) -> Result<Option<Arc<Self>>> {
        let site = site.into();
        let mut numbers = Self::numbers(site)?;
        while let Some(number) = numbers.pop() {
            match Self::epoch(site, number) {
                Ok(manifest) => return Ok(Some(manifest)),
                // The commit was stopped while writing it, so this epoch does not exist.
                Err(error) if matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the numbers of all manifests, complete or not, in order.
    ///
    /// # Errors
    /// Io.
    pub fn numbers<'a>(site: impl Into<Site<'a>>) -> Result<Vec<u64>> {
        let names = site.into().operations().list()?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_epoch_number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads an epoch by its number.
    ///
    /// # Errors
    /// NotFound if it does not exist; Truncated if its commit was stopped; Corrupt; Io.
    pub fn epoch<'a>(site: impl Into<Site<'a>>, number: u64) -> Result<Arc<Self>> {
        let (site, name) = (site.into(), manifest_name(number));
        let bytes = site.operations().read(&name, MAX_MANIFEST_BYTES)?;
        Self::decode(&bytes)
            .map(Arc::new)
            .map_err(|error| error.file(site.operations().place(&name).display()))
    }

    /// Returns the path of the manifest of an epoch.
    #[must_use]
    pub fn path<'a>(site: impl Into<Site<'a>>, number: u64) -> PathBuf {
        site.into().operations().place(&manifest_name(number))
    }

    /// Writes the manifest as an epoch, unless its number is taken. Returns whether it was written.
    ///
    /// # Errors
    /// Io.
    pub fn publish<'a>(&self, site: impl Into<Site<'a>>, sync: bool) -> Result<bool> {
        site.into().operations().create(&manifest_name(self.number), &self.encode()?, sync)
    }
}
