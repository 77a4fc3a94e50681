//! Structure ahead of time: of files over a network, all objects of a level at once.

use crate::file::File;
use crate::io::{Reach, metadata_cache_bytes, rounds};
use crate::object::Object;
use crate::{Error, Result};
use hyperchunk_format::model::{Attribute, Class, Datatype, LinkTarget, ObjectKind};
use std::collections::{BTreeSet, HashMap};

/// How many groups deep [`File::prefetch`] goes.
const DEPTH: u32 = 1024;

/// What is looked at ahead of time, by the object's address.
enum Ahead {
    /// It, and what lies below it; how many groups deep it is.
    Object(u64, u32),
    /// The attributes of an object that is at hand.
    Attributes(u64),
}

impl File {
    /// Whether its reads are requests over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.0.source.remote().is_some()
    }

    /// Looks at all objects below `start`, their links and, if `attributes`, their attributes, so that all of it is at hand
    /// when it is asked for; `depth` groups deep at most. One round trip for what lies side by side. Does nothing for files
    /// of this machine. What cannot be read is passed over: asking for it will say why. It ends when
    /// it has fetched a quarter of what the process keeps.
    ///
    /// # Errors
    /// If something cannot be fetched.
    pub fn prefetch(&self, start: &Object, attributes: bool, depth: Option<u32>) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        // By which group each object was named first; a job that runs again names the same.
        let mut named = HashMap::from([(start.address(), u64::MAX)]);
        let deepest = depth.unwrap_or(DEPTH).min(DEPTH);
        // More than the process keeps would be gone before it is asked for.
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
            // Two links of one group may lead to one object.
            below.sort_unstable();
            below.dedup();
            let below = below.into_iter().map(|address| Ahead::Object(address, depth + 1));
            // Whoever waits for an attribute's strings keeps nobody else waiting.
            Ok(((), attributes.then_some(Ahead::Attributes(address)).into_iter().chain(below).collect()))
        })
        .map(drop)
    }

    /// What was asked of the network so far: requests, bytes, repeated requests, round trips in sequence. `None` for files of
    /// this machine.
    #[must_use]
    pub fn counters(&self) -> Option<[u64; 4]> {
        self.0.source.remote().map(|remote| remote.counters().now())
    }

    /// Loads what stored elements of sequences and strings of any length name in the global heap, together.
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
        // What is wrong with one is told when it is looked up.
        rounds::together(addresses, |address| self.heap_collection(*address).map(drop)).map(drop)
    }

    /// Opens the objects that paths lead to, together. `whole` of them are datasets that will be read from the first element to
    /// the last: the more there are, the more is fetched of what lies around their structure, which may save round trips.
    ///
    /// # Errors
    /// If something cannot be fetched; what is wrong with one path is its own result.
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
    /// Reads its attributes and the strings that they name.
    fn touch_attributes(&self) -> Result<()> {
        let all = self.each_attribute()?;
        let mut lacking = None;
        for attribute in all.into_iter().filter_map(|(_, attribute)| attribute.ok()) {
            // Each is touched, so that all that is lacking is asked for at once.
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
