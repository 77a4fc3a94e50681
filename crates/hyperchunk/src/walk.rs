//! Traversal of all objects of a file, each visited once.

use crate::io::interrupt;
use crate::{File, Object, Result};
use hyperchunk_format::model::{Link, LinkTarget, ObjectKind};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum nesting depth of groups. Deeper ones are visited, but not entered.
const MAX_DEPTH: usize = 1024;

/// A visited link, or the root.
#[derive(Debug)]
pub struct Visit<'a> {
    /// The path, `/` for the root.
    pub path: &'a [u8],
    /// The link; `None` for the root.
    pub link: Option<&'a Link>,
    /// The link's target.
    pub found: VisitedItem<'a>,
}

/// Table of the objects found, with their names relative to their groups: full paths would take memory that
/// grows with the square of the depth.
#[derive(Debug)]
struct Names {
    places: HashMap<u64, usize>,
    /// For each object the index of its group in this table, and the start of its name in `text`. The name
    /// ends where the next one starts.
    names: Vec<(usize, usize)>,
    text: Vec<u8>,
}

impl Names {
    /// Creates the table with the starting object at index 0.
    fn new(address: u64, path: &[u8]) -> Self {
        Self { places: HashMap::from([(address, 0)]), names: vec![(0, 0)], text: path.to_vec() }
    }

    /// Adds an object; returns its index.
    fn add(&mut self, address: u64, group: usize, name: &[u8]) -> usize {
        let place = self.names.len();
        self.places.insert(address, place);
        self.names.push((group, self.text.len()));
        self.text.extend_from_slice(name);
        place
    }

    /// Returns the path of an object, if it was found.
    fn find(&self, address: u64) -> Option<Vec<u8>> {
        let mut place = *self.places.get(&address)?;
        let mut parts = Vec::new();
        loop {
            let (group, start) = self.names[place];
            let end = self.names.get(place + 1).map_or(self.text.len(), |(_, start)| *start);
            parts.push(&self.text[start..end]);
            if place == 0 {
                break;
            }
            place = group;
        }
        let root = parts.pop().unwrap_or_default();
        let mut path = root.to_vec();
        for part in parts.iter().rev() {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        Some(path)
    }
}

/// The paths of a file's objects.
#[derive(Debug)]
pub struct Paths(Names);

impl Paths {
    /// Returns the path of the object whose header is at an address: the path on which the traversal first
    /// found it. `None` if no hard link points there.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Vec<u8>> {
        self.0.find(address)
    }
}

/// Target of a link.
#[derive(Debug)]
pub enum VisitedItem<'a> {
    /// An object found for the first time.
    Object(&'a Object),
    /// An object found before, at this path.
    Again(&'a [u8]),
    /// A link that is not followed: soft, external or user-defined.
    Link,
    /// An object that cannot be read.
    Broken(crate::Error),
}

/// Continuation of the traversal after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Continues, with the contents of the object if it is a group.
    Enter,
    /// Continues, without the contents of the group.
    Skip,
    /// Ends the traversal.
    Stop,
}

impl File {
    /// Visits the objects below `start`, itself first: depth first, links by name, each object once. Only
    /// hard links are followed. Groups whose links cannot be read are visited a second time, as broken.
    ///
    /// # Errors
    /// The errors of `visit`; Io if it is cancelled ([`crate::io::with_interrupt`]).
    pub fn walk(
        &self,
        start: &Object,
        path: &[u8],
        visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
    ) -> Result<()> {
        self.walk_names(start, path, visit).map(drop)
    }

    /// Returns the paths of all objects. The file is traversed once.
    ///
    /// # Errors
    /// The errors of reading; damaged groups count as empty.
    pub fn paths(&self) -> Result<Arc<Paths>> {
        if let Some(known) = self.0.paths.get() {
            return Ok(Arc::clone(known));
        }
        let names = self.walk_names(&self.root()?, b"/", &mut |visit| match visit.found {
            VisitedItem::Broken(error) if error.is_of_reading() => Err(error),
            _ => Ok(Next::Enter),
        })?;
        Ok(Arc::clone(self.0.paths.get_or_init(|| Arc::new(Paths(names)))))
    }

    fn walk_names(
        &self,
        start: &Object,
        path: &[u8],
        visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
    ) -> Result<Names> {
        let mut names = Names::new(start.address(), path);
        // The groups on the current path, each with its index in `names`, the length of its path, and the
        // remaining links.
        let mut open: Vec<(usize, usize, std::vec::IntoIter<Link>)> = Vec::new();
        let mut path = path.to_vec();
        let enter = |open: &mut Vec<_>,
                     visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
                     (place, path): (usize, &[u8]),
                     object: &Object| {
            match object.group().and_then(|group| group.links()) {
                Ok(links) => open.push((place, path.len(), links.into_iter())),
                Err(error) => {
                    visit(Visit { path, link: None, found: VisitedItem::Broken(error) })?;
                }
            }
            Ok::<_, crate::Error>(())
        };
        match visit(Visit { path: &path, link: None, found: VisitedItem::Object(start) })? {
            Next::Enter if start.kind() == ObjectKind::Group => {
                enter(&mut open, visit, (0, &path), start)?;
            }
            _ => return Ok(names),
        }
        let ask = interrupt::current_interrupt();
        while let Some((parent, length, links)) = open.last_mut() {
            interrupt::check(ask.as_ref())?;
            let Some(link) = links.next() else {
                open.pop();
                continue;
            };
            path.truncate(*length);
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(link.name.as_bytes());
            let visited = |found| Visit { path: &path, link: Some(&link), found };
            let LinkTarget::Hard(address) = link.target else {
                match visit(visited(VisitedItem::Link))? {
                    Next::Stop => return Ok(names),
                    _ => continue,
                }
            };
            if let Some(first) = names.find(address) {
                match visit(visited(VisitedItem::Again(&first)))? {
                    Next::Stop => return Ok(names),
                    _ => continue,
                }
            }
            let place = names.add(address, *parent, link.name.as_bytes());
            let next = match self.object(address) {
                Ok(object) => {
                    let object = object.named(&String::from_utf8_lossy(&path));
                    let next = visit(visited(VisitedItem::Object(&object)))?;
                    if next == Next::Enter && object.kind() == ObjectKind::Group && open.len() < MAX_DEPTH {
                        enter(&mut open, visit, (place, &path), &object)?;
                    }
                    next
                }
                Err(error) => visit(visited(VisitedItem::Broken(error)))?,
            };
            if next == Next::Stop {
                break;
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_walk_ends_with_the_visit_that_was_interrupted() {
        let file = File::open("examples/scene.h5", &crate::OpenOptions::default()).unwrap();
        let root = file.root().unwrap();
        for last in 1..4 {
            let visits = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&visits);
            let ask: interrupt::Ask = Arc::new(move || seen.load(Ordering::Relaxed) >= last);
            let walked = interrupt::with_interrupt(Some(ask), || {
                file.walk(&root, b"/", &mut |_| {
                    visits.fetch_add(1, Ordering::Relaxed);
                    Ok(Next::Enter)
                })
            });
            assert_eq!(walked.unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(visits.load(Ordering::Relaxed), last);
        }
    }
}
