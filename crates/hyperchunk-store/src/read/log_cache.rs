//! Cache of the open logs of an epoch, with a limit on their number.

use crate::location::site::{LogName, Site, SiteBuf};
use crate::{Log, Manifest};
use hyperchunk::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of open logs.
const MAX_OPEN_LOGS: usize = 256;

/// The logs of an epoch.
#[derive(Debug)]
pub(crate) struct LogCache<'m> {
    site: SiteBuf,
    manifest: &'m Manifest,
    open: Mutex<HashMap<u32, Arc<Log>>>,
}

impl<'m> LogCache<'m> {
    pub(crate) fn new<'a>(site: impl Into<Site<'a>>, manifest: &'m Manifest) -> Self {
        Self { site: site.into().into(), manifest, open: Mutex::default() }
    }

    /// Returns a log by its number in the manifest.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<Log>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = open.get(&number) {
            return Ok(Arc::clone(log));
        }
        let known = self.manifest.logs.get(number as usize);
        let known = known.ok_or_else(|| Error::corrupt(format!("no log of number {number}")))?;
        let name = LogName::from((self.site.site(), known.writer));
        let log = Arc::new(Log::open_for_reads(name)?);
        if log.writer() != known.writer {
            return Err(Error::corrupt("the header of the log has another writer than its file name")
                .file(name.path().display()));
        }
        if open.len() >= MAX_OPEN_LOGS {
            // Logs that are in use stay open until they are dropped.
            open.clear();
        }
        open.insert(number, Arc::clone(&log));
        Ok(log)
    }
}
