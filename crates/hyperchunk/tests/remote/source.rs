//! In-memory source whose reads are requests: it counts them, delivers them in any order, and can be made
//! to fail.

use bytes::Bytes;
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The source.
#[derive(Debug)]
pub struct Requests {
    bytes: Bytes,
    identity: String,
    options: RemoteOptions,
    pub counters: Counters,
    /// Number of requests until all further ones fail.
    pub left: AtomicI64,
    /// Files beside it.
    pub siblings: Vec<(String, Bytes)>,
}

impl Requests {
    pub fn new(bytes: impl Into<Bytes>, identity: &str, options: RemoteOptions) -> Self {
        Self {
            bytes: bytes.into(),
            identity: identity.to_owned(),
            options,
            counters: Counters::default(),
            left: AtomicI64::new(i64::MAX),
            siblings: Vec::new(),
        }
    }

    fn get(&self, range: &Range<u64>) -> Result<Bytes> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(Error::new(ErrorKind::Io, "no more requests"));
        }
        let place = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert!(range.start < range.end, "an empty request");
        assert!(place.end <= self.bytes.len(), "a request beyond the end of the file");
        Ok(self.bytes.slice(place))
    }
}

impl Source for Requests {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.copy_from_slice(&self.get(&(offset..offset + buffer.len() as u64))?);
        Ok(())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for Requests {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        self.counters.rounds.fetch_add(1, Ordering::Relaxed);
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        // An arbitrary order.
        order.sort_by_key(|place| place.wrapping_mul(0x9e37_79b9) % 101);
        order.into_iter().try_for_each(|place| land(place, self.get(&ranges[place])?))
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        RequestCost::default()
    }

    fn sibling(&self, name: &str) -> Option<Result<Arc<dyn Source>>> {
        let found = self.siblings.iter().find(|(known, _)| known == name);
        let missing = || Error::new(ErrorKind::NotFound, format!("no file `{name}`"));
        Some(found.ok_or_else(missing).map(|(name, bytes)| {
            let identity = format!("{} {name}", self.identity);
            Arc::new(Self::new(bytes.clone(), &identity, self.options.clone())) as Arc<dyn Source>
        }))
    }
}
