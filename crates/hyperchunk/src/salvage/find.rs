//! Objects of a damaged file: first objects that links point to, then objects that a scan found.

use super::check::ObjectCheck;
use super::extents::Extents;
use super::report::{Loss, SalvagedObject};
use super::{LOST_AND_FOUND, report::Condition};
use crate::{Dataset, ErrorKind, File, Object, Result};
use hyperchunk_format::model::{Link, LinkTarget, Name, ObjectKind};
use hyperchunk_format::parse::group;
use std::collections::{HashMap, HashSet};

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 1024;

/// An object whose header is undamaged.
#[derive(Debug)]
pub(super) struct FoundObject {
    pub(super) object: Object,
    pub(super) dataset: Option<Dataset>,
    /// The path in the new file.
    pub(super) path: Vec<u8>,
    /// A group's undamaged links.
    pub(super) links: Vec<Link>,
    /// A group's lost links: the reason of each loss.
    pub(super) lost_links: Vec<String>,
    /// True if no link leads to the object from the root group.
    pub(super) orphan: bool,
}

/// All objects of the file that are known.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    pub(super) objects: Vec<FoundObject>,
    pub(super) lost: Vec<SalvagedObject>,
    /// Indices in `objects` by address.
    numbers: HashMap<u64, usize>,
    /// Addresses of the objects that cannot be read.
    damaged: HashSet<u64>,
}

impl KnownObjects {
    /// Returns whether a link, or the object that it points to, is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        !self.lost.is_empty() || self.objects.iter().any(|object| !object.lost_links.is_empty())
    }

    pub(super) fn has(&self, address: u64) -> bool {
        self.numbers.contains_key(&address) || self.damaged.contains(&address)
    }

    /// Adds an object and the undamaged objects below it.
    pub(super) fn walk(&mut self, file: &File, start: Object, path: &[u8], orphan: bool) -> Result<()> {
        if self.has(start.address()) {
            return Ok(());
        }
        let Some(first) = self.add(start, path.to_vec(), orphan)? else { return Ok(()) };
        let mut open = vec![(first, 0)];
        while let Some((group, next)) = open.last_mut() {
            let item = &self.objects[*group];
            let Some(link) = item.links.get(*next) else {
                open.pop();
                continue;
            };
            *next += 1;
            let LinkTarget::Hard(address) = link.target else { continue };
            if self.numbers.contains_key(&address) {
                continue;
            }
            let group = *group;
            let mut path = item.path.clone();
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(link.name.as_bytes());
            if self.damaged.contains(&address) {
                self.lose(path, address, None, "its object header is damaged");
                continue;
            }
            if open.len() >= MAX_DEPTH {
                let message = format!("links below a depth of {MAX_DEPTH} are not followed");
                self.objects[group].lost_links.push(message);
                open.pop();
                continue;
            }
            let shown = Name::from(&*path).to_string();
            match file.object(address) {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => self.lose(path, address, None, &error.to_string()),
                Ok(object) => {
                    let is_group = object.kind() == ObjectKind::Group;
                    if let Some(number) = self.add(object.named(&shown), path, orphan)?
                        && is_group
                    {
                        open.push((number, 0));
                    }
                }
            }
        }
        Ok(())
    }

    fn lose(&mut self, path: Vec<u8>, address: u64, kind: Option<ObjectKind>, reason: &str) {
        self.damaged.insert(address);
        let mut lost = SalvagedObject::new(Name::from(&*path), Some(address), kind);
        lost.condition = Condition::Lost;
        lost.reason = Some(reason.to_owned());
        self.lost.push(lost);
    }

    fn add(&mut self, object: Object, path: Vec<u8>, orphan: bool) -> Result<Option<usize>> {
        let address = object.address();
        let mut found =
            FoundObject { object, dataset: None, path, links: Vec::new(), lost_links: Vec::new(), orphan };
        let opened = match found.object.kind() {
            ObjectKind::Group => {
                let links = found.object.parse(group::surviving);
                links.map(|(links, errors)| {
                    found.links = links;
                    found.lost_links = errors.iter().map(ToString::to_string).collect();
                })
            }
            ObjectKind::Dataset => found.object.dataset().map(|dataset| found.dataset = Some(dataset)),
            ObjectKind::Datatype => found.object.datatype().map(drop),
        };
        match opened {
            Err(error) if error.is_of_reading() => Err(error),
            // A group whose links cannot be read still has its attributes.
            Err(error) if found.object.kind() == ObjectKind::Group && error.kind() != ErrorKind::Limit => {
                found.lost_links.push(error.to_string());
                Ok(Some(self.keep(address, found)))
            }
            Err(error) => {
                self.lose(found.path, address, Some(found.object.kind()), &error.to_string());
                Ok(None)
            }
            Ok(()) => Ok(Some(self.keep(address, found))),
        }
    }

    fn keep(&mut self, address: u64, found: FoundObject) -> usize {
        self.numbers.insert(address, self.objects.len());
        self.objects.push(found);
        self.objects.len() - 1
    }

    /// Adds objects that a scan found, and the objects below them; first those that no group among them links
    /// to.
    pub(super) fn adopt(&mut self, file: &File, orphans: Vec<Object>) -> Result<()> {
        let mut below = HashSet::new();
        for object in orphans.iter().filter(|object| object.kind() == ObjectKind::Group) {
            if let Ok((links, _)) = object.parse(group::surviving) {
                below.extend(links.iter().filter_map(|link| match link.target {
                    LinkTarget::Hard(address) if address != object.address() => Some(address),
                    _ => None,
                }));
            }
        }
        let (inner, tops): (Vec<Object>, Vec<Object>) =
            orphans.into_iter().partition(|object| below.contains(&object.address()));
        // In a cycle of groups, each object is linked by another, so `tops` has none of them.
        for object in tops.into_iter().chain(inner) {
            let path = format!("/{LOST_AND_FOUND}/{:#x}", object.address());
            self.walk(file, object.named(&path), path.as_bytes(), true)?;
        }
        Ok(())
    }

    /// Removes orphans whose data overlap other objects, as their space was reused; appends the checks of the
    /// remaining ones.
    pub(super) fn drop_overlapping(
        &mut self,
        first: usize,
        orphans: &[ObjectCheck],
        extents: &Extents,
        checks: &mut Vec<ObjectCheck>,
        notes: &mut Vec<String>,
    ) {
        let mut dropped = 0;
        for (object, checked) in self.objects.split_off(first).into_iter().zip(orphans) {
            if checked.extents.iter().any(|range| extents.overlaps(range)) {
                dropped += 1;
                continue;
            }
            self.objects.push(object);
            checks.push(checked.clone());
        }
        if dropped > 0 {
            notes.push(format!(
                "{dropped} objects without a link are omitted: their space has been reused by other objects"
            ));
        }
    }

    /// Returns the losses of a group's links.
    pub(super) fn losses(object: &FoundObject) -> Vec<Loss> {
        let lost = object.lost_links.iter();
        lost.map(|reason| Loss { name: "links".into(), reason: reason.clone() }).collect()
    }
}
