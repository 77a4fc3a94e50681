//! Changes of links by path: moving, removing, and creating groups and links.

use super::tree::{NewLink, NodeId};
use super::writer::Writer;
use crate::similar_names::similar;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Name, ObjectKind};
use hyperchunk_format::printable;

/// Maximum number of soft links on a path.
const MAX_SOFT_LINKS: usize = 16;

/// Location of a link: a group and a name in it.
#[derive(Debug, Clone)]
pub struct LinkPlace {
    /// Group of the link.
    pub group: NodeId,
    /// Name of the link, which need not exist.
    pub name: Name,
    /// Groups on the path from the root to `group`; the last one is `group`.
    ancestors: Vec<NodeId>,
}

/// Handling of an existing link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingLink {
    /// Fails.
    Refuse,
    /// Removes the link.
    Replace,
}

fn shown(path: &[u8]) -> String {
    printable::escape(&String::from_utf8_lossy(path), 2000)
}

/// Returns the names of a path.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

fn absolute(path: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names(path) {
        all.push(b'/');
        all.extend_from_slice(name);
    }
    if all.is_empty() { b"/".to_vec() } else { all }
}

impl Writer {
    /// Finds the location of a link by its path from the root. With `parents`, creates missing groups on the
    /// path.
    ///
    /// # Errors
    /// Invalid for the root; NotFound, with the missing name, or if the path leads to another file.
    pub fn place(&self, path: &[u8], parents: bool) -> Result<LinkPlace> {
        let found = self.find_place(path, parents);
        found.map_err(|error| self.0.named(error))
    }

    fn find_place(&self, path: &[u8], parents: bool) -> Result<LinkPlace> {
        let mut all: Vec<&[u8]> = names(path).collect();
        let Some(name) = all.pop() else {
            let message = "cannot name a link `/`: expected the path of a link, got the root group, which has none; give a \
                           path below it, such as /NAME";
            return Err(Error::invalid(message));
        };
        let mut ancestors = vec![NodeId::ROOT];
        self.follow(&mut ancestors, &all, parents, &mut { MAX_SOFT_LINKS })?;
        let group = *ancestors.last().unwrap_or(&NodeId::ROOT);
        if self.kind(group)? != ObjectKind::Group {
            return Err(no_group(&all.join(&b"/"[..])));
        }
        Ok(LinkPlace { group, name: Name::from(name), ancestors })
    }

    /// Follows a path from the last of `ancestors`, and adds the objects on the path to them.
    fn follow(
        &self,
        ancestors: &mut Vec<NodeId>,
        path: &[&[u8]],
        parents: bool,
        budget: &mut usize,
    ) -> Result<()> {
        for (number, name) in path.iter().enumerate() {
            let at = *ancestors.last().unwrap_or(&NodeId::ROOT);
            if self.kind(at)? != ObjectKind::Group {
                return Err(no_group(&path[..number].join(&b"/"[..])));
            }
            match self.find(at, name)? {
                Some(NewLink::Hard(id)) => ancestors.push(id),
                Some(NewLink::Soft(to)) => {
                    *budget = budget.checked_sub(1).ok_or_else(|| {
                        let message =
                            format!("cannot follow {}: too many soft links, or a cycle of them", shown(name));
                        Error::new(ErrorKind::NotFound, message)
                    })?;
                    if to.as_bytes().starts_with(b"/") {
                        ancestors.truncate(1);
                    }
                    let to: Vec<&[u8]> = names(to.as_bytes()).collect();
                    self.follow(ancestors, &to, false, budget)?;
                }
                Some(NewLink::External { file, .. }) => {
                    let message = format!(
                        "cannot follow {}: it leads to the file {file}; use that file and the path in it",
                        shown(name)
                    );
                    return Err(Error::new(ErrorKind::NotFound, message));
                }
                Some(NewLink::User { .. }) => {
                    let message =
                        format!("cannot follow {}: only its application can follow the link", shown(name));
                    return Err(Error::new(ErrorKind::NotFound, message));
                }
                None if parents => ancestors.push(self.create_group(at, name, self.tracks_order(at)?)?),
                None => return Err(self.missing(at, name)),
            }
        }
        Ok(())
    }

    /// Returns the object at a path from the root.
    ///
    /// # Errors
    /// NotFound, with the missing name and similar names, or if the path leads to another file.
    pub fn object(&self, path: &[u8]) -> Result<NodeId> {
        let mut ancestors = vec![NodeId::ROOT];
        let all: Vec<&[u8]> = names(path).collect();
        let found = self.follow(&mut ancestors, &all, false, &mut { MAX_SOFT_LINKS });
        found.map_err(|error| self.0.named(error))?;
        Ok(*ancestors.last().unwrap_or(&NodeId::ROOT))
    }

    /// Returns the error for a name that does not exist in a group.
    fn missing(&self, group: NodeId, name: &[u8]) -> Error {
        let all = self.names(group).unwrap_or_default();
        let path = self.find_path(group).ok().flatten().unwrap_or_default();
        Error::new(
            ErrorKind::NotFound,
            format!("no link `{}` in {}{}", shown(name), shown(&path), similar(name, &all, "the group")),
        )
    }

    /// Returns the error for an attribute that an object does not have.
    #[must_use]
    pub fn missing_attribute(&self, object: NodeId, name: &[u8]) -> Error {
        self.0.named(missing_attribute(name, &self.attribute_names(object).unwrap_or_default()))
    }

    /// Removes an existing link at a location, if it may be replaced.
    ///
    /// # Errors
    /// Exists if the name exists and may not be replaced; the errors of [`Writer::unlink`].
    pub fn make_room(&self, place: &LinkPlace, existing: ExistingLink) -> Result<()> {
        if self.find(place.group, place.name.as_bytes())?.is_none() {
            return Ok(());
        }
        if existing == ExistingLink::Refuse {
            let path = self.find_path(place.group)?.unwrap_or_default();
            let path = absolute(&[&path, &b"/"[..], place.name.as_bytes()].concat());
            let message = format!("{} exists; --overwrite replaces it", shown(&path));
            return Err(self.0.named(Error::new(ErrorKind::Exists, message)));
        }
        self.unlink(place.group, place.name.as_bytes())
    }

    /// Checks that replacing the link at `place` would not delete the object at `path`.
    ///
    /// # Errors
    /// Invalid if the object at `place` is the one at `path`, or an ancestor of it; NotFound if `path` does
    /// not exist.
    pub fn check_not_replaced(&self, path: &[u8], place: &LinkPlace) -> Result<()> {
        let Some(NewLink::Hard(id)) = self.find(place.group, place.name.as_bytes())? else { return Ok(()) };
        let mut ancestors = vec![NodeId::ROOT];
        let all: Vec<&[u8]> = names(path).collect();
        let followed = self.follow(&mut ancestors, &all, false, &mut { MAX_SOFT_LINKS });
        followed.map_err(|error| self.0.named(error))?;
        if ancestors.contains(&id) {
            let message =
                format!("cannot replace {}: it is, or contains, the copied object", shown(&absolute(path)));
            return Err(self.0.named(Error::invalid(message)));
        }
        Ok(())
    }

    /// Moves a link from one path to another. The object does not change: references, other hard links, and
    /// soft links to those stay valid.
    ///
    /// # Errors
    /// NotFound if `old` does not exist; Exists if `new` exists and may not be replaced; Invalid if a group
    /// would be moved into itself.
    pub fn rename(&self, old: &[u8], new: &LinkPlace, existing: ExistingLink) -> Result<()> {
        let from = self.place(old, false)?;
        let target = self.find(from.group, from.name.as_bytes())?;
        let target = target.ok_or_else(|| self.0.named(self.missing(from.group, from.name.as_bytes())))?;
        if (from.group, &from.name) == (new.group, &new.name) {
            return Ok(());
        }
        if matches!(target, NewLink::Hard(id) if new.ancestors.contains(&id)) {
            let message = format!("cannot move {}: the new location is inside of it", shown(&absolute(old)));
            return Err(self.0.named(Error::invalid(message)));
        }
        if existing == ExistingLink::Replace
            && let Some(NewLink::Hard(id)) = self.find(new.group, new.name.as_bytes())?
            && from.ancestors.contains(&id)
        {
            let message =
                format!("cannot move {}: it is inside of the object to be replaced", shown(&absolute(old)));
            return Err(self.0.named(Error::invalid(message)));
        }
        self.make_room(new, existing)?;
        // The new link is created first, so that the object always has one.
        self.link(new.group, new.name.as_bytes(), target)?;
        self.unlink(from.group, from.name.as_bytes())
    }

    /// Removes the link at a path. An object is deleted with its last link.
    ///
    /// # Errors
    /// NotFound if the link does not exist; Invalid for a group, unless `groups` is true.
    pub fn remove(&self, path: &[u8], groups: bool) -> Result<()> {
        let place = self.place(path, false)?;
        match self.find(place.group, place.name.as_bytes())? {
            None => return Err(self.0.named(self.missing(place.group, place.name.as_bytes()))),
            Some(NewLink::Hard(id)) if !groups && self.kind(id)? == ObjectKind::Group => {
                let message = format!(
                    "cannot remove {}: it is a group; --recursive removes it with its members",
                    shown(&absolute(path))
                );
                return Err(self.0.named(Error::invalid(message)));
            }
            Some(_) => {}
        }
        self.unlink(place.group, place.name.as_bytes())
    }

    /// Creates a group at a path. With `parents`, also creates missing groups on the path, and returns an
    /// existing group.
    ///
    /// # Errors
    /// Exists if the path exists, unless `parents` is true and the object is a group.
    pub fn make_group(&self, path: &[u8], parents: bool) -> Result<NodeId> {
        let place = self.place(path, parents)?;
        if parents
            && let Some(NewLink::Hard(id)) = self.find(place.group, place.name.as_bytes())?
            && self.kind(id)? == ObjectKind::Group
        {
            return Ok(id);
        }
        if self.find(place.group, place.name.as_bytes())?.is_some() {
            let message = format!("{} exists", shown(&absolute(path)));
            return Err(self.0.named(Error::new(ErrorKind::Exists, message)));
        }
        self.create_group(place.group, place.name.as_bytes(), false)
    }
}

/// Returns the error for an attribute that an object does not have; `all` are the names of its attributes.
#[must_use]
pub fn missing_attribute(name: &[u8], all: &[Name]) -> Error {
    let message = format!("no attribute `{}`{}", shown(name), similar(name, all, "the object"));
    Error::new(ErrorKind::NotFound, message)
}

fn no_group(path: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} is not a group", shown(&absolute(path))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{CreateOptions, MemorySink};
    use std::sync::Arc;

    fn file() -> Writer {
        let writer =
            Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default()).unwrap();
        writer.make_group(b"/a/b/c", true).unwrap();
        writer.link(NodeId::ROOT, b"soft", NewLink::Soft("/a/b".into())).unwrap();
        writer
    }

    #[test]
    fn moves() {
        let writer = file();
        let to = |path: &[u8]| writer.place(path, false).unwrap();
        let error = |old: &[u8], new: &[u8], existing| {
            writer.rename(old, &to(new), existing).unwrap_err().to_string()
        };
        assert!(error(b"/a", b"/a/b/x", ExistingLink::Refuse).contains("inside of it"));
        assert!(error(b"/a", b"/soft/x", ExistingLink::Refuse).contains("inside of it"));
        assert!(error(b"/a/b/c", b"/a", ExistingLink::Replace).contains("inside of the object"));
        assert!(error(b"/a/b/c", b"/soft", ExistingLink::Refuse).contains("/soft exists"));
        writer.rename(b"/a/b/c", &to(b"/soft"), ExistingLink::Replace).unwrap();
        assert_eq!(writer.kind(writer.object(b"/soft").unwrap()).unwrap(), ObjectKind::Group);
        assert!(writer.names(writer.object(b"/a/b").unwrap()).unwrap().is_empty());
        writer.rename(b"/soft", &to(b"/soft"), ExistingLink::Refuse).unwrap();
    }

    #[test]
    fn missing_names_are_told_with_similar_ones() {
        let writer = file();
        let error = |path: &[u8]| writer.object(path).unwrap_err().to_string();
        assert!(
            error(b"/sofd/x").contains("no link `sofd` in /; did you mean `soft`?"),
            "{}",
            error(b"/sofd/x")
        );
        assert!(error(b"/a/b/c/d").contains("the group has none"));
        assert!(writer.remove(b"/a", false).unwrap_err().to_string().contains("--recursive"));
        assert!(writer.remove(b"/", true).is_err());
        writer.remove(b"/a", true).unwrap();
        assert!(error(b"/soft").contains("no link `a`"));
    }
}
