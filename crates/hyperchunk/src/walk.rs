//! Walking all objects of a file, each once.

use crate::{File, Object, Result};
use hyperchunk_format::model::{Link, LinkTarget, ObjectKind};
use std::collections::HashMap;
use std::sync::Arc;

/// How deep groups may nest. Deeper ones are shown, but not entered.
const DEPTH: usize = 1024;

/// A link that the walk met, or the root.
#[derive(Debug)]
pub struct Visit<'a> {
    /// The path, `/` for the root.
    pub path: &'a [u8],
    /// The link; `None` for the root.
    pub link: Option<&'a Link>,
    /// What the walk found.
    pub found: Found<'a>,
}

/// The names of the objects that were met, each below that of its group: a path for each would grow with the square of the
/// depth.
#[derive(Debug)]
struct Names {
    places: HashMap<u64, usize>,
    /// For each object its group's place, and where its name starts in `text`; it ends where the next starts.
    names: Vec<(usize, usize)>,
    text: Vec<u8>,
}

impl Names {
    /// With the object where the walk starts, at place 0.
    fn new(address: u64, path: &[u8]) -> Self {
        Self { places: HashMap::from([(address, 0)]), names: vec![(0, 0)], text: path.to_vec() }
    }

    /// Adds an object; its place.
    fn add(&mut self, address: u64, group: usize, name: &[u8]) -> usize {
        let place = self.names.len();
        self.places.insert(address, place);
        self.names.push((group, self.text.len()));
        self.text.extend_from_slice(name);
        place
    }

    /// The path of an object, if it was met.
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
    /// The path of the object whose header is at an address, if a hard link leads there: the first that a walk meets.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Vec<u8>> {
        self.0.find(address)
    }
}

/// What a link leads to.
#[derive(Debug)]
pub enum Found<'a> {
    /// An object met for the first time.
    Object(&'a Object),
    /// An object met before, at this path.
    Again(&'a [u8]),
    /// A link that is not followed: soft, external or user-defined.
    Link,
    /// An object that cannot be read.
    Broken(crate::Error),
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Go on, into the group.
    Enter,
    /// Go on, but not into the group.
    Skip,
    /// End the walk.
    Stop,
}

impl File {
    /// Visits the objects below `start`, itself first: depth first, links by name, each object once. Only hard links are
    /// followed. Groups whose links cannot be read are visited a second time, as broken.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn walk(
        &self,
        start: &Object,
        path: &[u8],
        visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
    ) -> Result<()> {
        self.walk_names(start, path, visit).map(drop)
    }

    /// The paths of all objects. The file is walked once.
    ///
    /// # Errors
    /// Those of reading; groups that are damaged lead nowhere.
    pub fn paths(&self) -> Result<Arc<Paths>> {
        if let Some(known) = self.0.paths.get() {
            return Ok(Arc::clone(known));
        }
        let names = self.walk_names(&self.root()?, b"/", &mut |visit| match visit.found {
            Found::Broken(error) if error.is_of_reading() => Err(error),
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
        // The groups that the walk is in, each with its place among the names, where its path ends, and the links that are
        // left.
        let mut open: Vec<(usize, usize, std::vec::IntoIter<Link>)> = Vec::new();
        let mut path = path.to_vec();
        let enter = |open: &mut Vec<_>,
                     visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
                     (place, path): (usize, &[u8]),
                     object: &Object| {
            match object.group().and_then(|group| group.links()) {
                Ok(links) => open.push((place, path.len(), links.into_iter())),
                Err(error) => {
                    visit(Visit { path, link: None, found: Found::Broken(error) })?;
                }
            }
            Ok::<_, crate::Error>(())
        };
        match visit(Visit { path: &path, link: None, found: Found::Object(start) })? {
            Next::Enter if start.kind() == ObjectKind::Group => {
                enter(&mut open, visit, (0, &path), start)?;
            }
            _ => return Ok(names),
        }
        while let Some((parent, length, links)) = open.last_mut() {
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
                match visit(visited(Found::Link))? {
                    Next::Stop => return Ok(names),
                    _ => continue,
                }
            };
            if let Some(first) = names.find(address) {
                match visit(visited(Found::Again(&first)))? {
                    Next::Stop => return Ok(names),
                    _ => continue,
                }
            }
            let place = names.add(address, *parent, link.name.as_bytes());
            let next = match self.object(address) {
                Ok(object) => {
                    let object = object.named(&String::from_utf8_lossy(&path));
                    let next = visit(visited(Found::Object(&object)))?;
                    if next == Next::Enter && object.kind() == ObjectKind::Group && open.len() < DEPTH {
                        enter(&mut open, visit, (place, &path), &object)?;
                    }
                    next
                }
                Err(error) => visit(visited(Found::Broken(error)))?,
            };
            if next == Next::Stop {
                break;
            }
        }
        Ok(names)
    }
}
