//! Walking all objects of a file, each once.

use crate::{File, Object, Result};
use hyperchunk_format::model::{Link, LinkTarget, ObjectKind};
use std::collections::HashMap;

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
        let mut seen: HashMap<u64, Vec<u8>> = HashMap::from([(start.address(), path.to_vec())]);
        // The groups that the walk is in, each with its path and the links that are left.
        let mut open: Vec<(Vec<u8>, std::vec::IntoIter<Link>)> = Vec::new();
        let enter = |open: &mut Vec<_>,
                     visit: &mut dyn FnMut(Visit<'_>) -> Result<Next>,
                     path: Vec<u8>,
                     object: &Object| {
            match object.group().and_then(|group| group.links()) {
                Ok(links) => open.push((path, links.into_iter())),
                Err(error) => {
                    visit(Visit { path: &path, link: None, found: Found::Broken(error) })?;
                }
            }
            Ok::<_, crate::Error>(())
        };
        match visit(Visit { path, link: None, found: Found::Object(start) })? {
            Next::Enter if start.kind() == ObjectKind::Group => {
                enter(&mut open, visit, path.to_vec(), start)?
            }
            _ => return Ok(()),
        }
        while let Some((parent, links)) = open.last_mut() {
            let Some(link) = links.next() else {
                open.pop();
                continue;
            };
            let mut path = parent.clone();
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(link.name.as_bytes());
            let LinkTarget::Hard(address) = link.target else {
                match visit(Visit { path: &path, link: Some(&link), found: Found::Link })? {
                    Next::Stop => return Ok(()),
                    _ => continue,
                }
            };
            let next = match seen.get(&address) {
                Some(first) => visit(Visit { path: &path, link: Some(&link), found: Found::Again(first) })?,
                None => {
                    seen.insert(address, path.clone());
                    match self.object(address) {
                        Ok(object) => {
                            let object = object.named(&String::from_utf8_lossy(&path));
                            let next = visit(Visit {
                                path: &path,
                                link: Some(&link),
                                found: Found::Object(&object),
                            })?;
                            if next == Next::Enter && object.kind() == ObjectKind::Group && open.len() < DEPTH
                            {
                                enter(&mut open, visit, path, &object)?;
                            }
                            next
                        }
                        Err(error) => {
                            visit(Visit { path: &path, link: Some(&link), found: Found::Broken(error) })?
                        }
                    }
                }
            };
            if next == Next::Stop {
                break;
            }
        }
        Ok(())
    }
}
