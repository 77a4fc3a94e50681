//! Prefetching of the structure of files over a network: all objects of a level of the hierarchy at once.

use crate::file::File;
use crate::io::{Reach, metadata_cache_bytes, rounds};
use crate::object::Object;
use crate::{Error, Result};
use hyperchunk_format::model::{Attribute, Class, Datatype, LinkTarget, ObjectKind};
use std::collections::{BTreeSet, HashMap};

/// Maximum depth of groups for [`File::prefetch`].
const MAX_DEPTH: u32 = 1024;

/// A prefetching job, with the object's address.
enum Ahead {
    /// An object and everything below it, with its depth.
    Object(u64, u32),
    /// The attributes of an object that is already loaded.
    Attributes(u64),
}

impl File {
    /// Returns whether its reads are requests over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.0.source.remote().is_some()
    }

    /// Prefetches all objects below `start`, their links and, if `attributes`, their attributes, at most
    /// `depth` groups deep. Each level costs one round trip. Does nothing for local files. Objects that
    /// cannot be read are skipped: the error is reported when they are used. Stops when it has fetched a
    /// quarter of the metadata cache's capacity.
    ///
    /// # Errors
    /// If something cannot be fetched.
    pub fn prefetch(&self, start: &Object, attributes: bool, depth: Option<u32>) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        // The group that first linked to each object; a job that runs again gets the same answer.
        let mut named = HashMap::from([(start.address(), u64::MAX)]);
        let deepest = depth.unwrap_or(MAX_DEPTH).min(MAX_DEPTH);
        // More would be evicted from the cache before it is used.
        let fetched = || self.counters().map_or(0, |[_, bytes, ..]| bytes);
        let most = fetched().saturating_add(metadata_cache_bytes() as u64 / 4);
        let jobs = [Ahead::Object(start.address(), 0)];
        rounds::growing(jobs, Reach::All, |job| {
            if fetched() > most {
                return Ok(((), Vec::new()));
            }
            let (address, depth) = match job {
                Ahead::Attributes(address) => {
                    self.object(*address)?.touch_attributes()?;
                    return Ok(((), Vec::new()));
                }
                Ahead::Object(address, depth) => (*address, *depth),
            };
            let object = self.object(address)?;
            let mut below = Vec::new();
            match object.kind() {
                ObjectKind::Dataset => drop(object.dataset()?),
                ObjectKind::Group if depth < deepest => {
                    let links = object.group()?.links()?;
                    let hard = links.iter().filter_map(|link| match link.target {
                        LinkTarget::Hard(address) => Some(address),
                        _ => None,
                    });
                    below.extend(hard.filter(|child| *named.entry(*child).or_insert(address) == address));
                }
                _ => {}
            }
            // Two links of one group may point to one object.
            below.sort_unstable();
            below.dedup();
            let below = below.into_iter().map(|address| Ahead::Object(address, depth + 1));
            // A separate job, so that waiting for an attribute's strings delays no other job.
            Ok(((), attributes.then_some(Ahead::Attributes(address)).into_iter().chain(below).collect()))
        })
        .map(drop)
    }

    /// Returns the counters of network requests: requests, bytes, repeated requests, round trips in
    /// sequence. `None` for local files.
    #[must_use]
    pub fn counters(&self) -> Option<[u64; 4]> {
        self.0.source.remote().map(|remote| remote.counters().now())
    }

    /// Loads, together, the collections of the global heap that stored variable-length elements refer to.
    ///
    /// # Errors
    /// If something cannot be fetched.
    pub fn load_heaps(&self, elements: &[u8]) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        let sizes = self.superblock().sizes;
        let addresses = elements.chunks_exact(self.handle_size()).filter_map(|element| {
            let mut cursor = hyperchunk_format::Cursor::new(element, "sequence", 0);
            let count = cursor.u32().ok()?;
            cursor.address(sizes).ok()?.filter(|address| count != 0 && *address != 0)
        });
        let addresses: BTreeSet<u64> = addresses.collect();
        // Errors are reported when the element is looked up.
        rounds::together(addresses, |address| self.heap_collection(*address).map(drop)).map(drop)
    }

    /// Opens the objects at some paths, together. `whole` of them are datasets that will be read completely:
    /// the higher this number, the more bytes around their structure are fetched, which may save round trips.
    ///
    /// # Errors
    /// If something cannot be fetched; an error of one path is in its own result.
    pub fn open_many(&self, start: &Object, paths: &[&[u8]], whole: usize) -> Result<Vec<Result<Object>>> {
        let reach = if whole > 1 { Reach::Paths(whole as u64) } else { Reach::Path };
        rounds::growing(paths, reach, |path| {
            let object = start.group()?.get(path)?;
            if object.kind() == ObjectKind::Dataset {
                object.dataset()?;
            }
            Ok((object, Vec::new()))
        })
    }
}

impl Object {
    /// Reads its attributes and the strings that they refer to, to have them in the cache.
    fn touch_attributes(&self) -> Result<()> {
        let all = self.each_attribute()?;
        let mut lacking = None;
        for attribute in all.into_iter().filter_map(|(_, attribute)| attribute.ok()) {
            // All attributes are touched, so that all missing bytes are requested at once.
            if let Err(error) = self.touch(&attribute) {
                lacking = Some(error);
            }
        }
        lacking.filter(Error::is_need).map_or(Ok(()), Err)
    }

    fn touch(&self, attribute: &Attribute) -> Result<()> {
        let Class::VlenString { .. } = attribute.datatype.class else { return Ok(()) };
        let byte = Datatype { size: 1, class: Class::Opaque { tag: Default::default() } };
        let mut sequences = self.file().sequences();
        for element in attribute.data.chunks_exact(self.file().handle_size()) {
            sequences.get(element, &byte).map(drop)?;
        }
        Ok(())
    }
}
