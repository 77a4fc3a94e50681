//! Content of objects: links, attributes, comments and times.

use super::journal::Entry;
use super::message_limits;
use super::options::CreateOptions;
use super::tree::{NewLink, NodeId, NodeKind, Tree};
use super::writer::{Undo, Writer, on_node};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Attribute, CharacterSet, Name, ObjectKind};

impl Writer {
    /// Returns the kind of an object.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn kind(&self, id: NodeId) -> Result<ObjectKind> {
        self.load(id).map_err(|error| self.0.named(error))?;
        Ok(match &self.0.tree().node(id)?.kind {
            NodeKind::Group(_) => ObjectKind::Group,
            NodeKind::Dataset(_) => ObjectKind::Dataset,
            NodeKind::Datatype(_) => ObjectKind::Datatype,
            NodeKind::Kept { kind, .. } => *kind,
            NodeKind::Unread { .. } => return Err(Error::invalid("the object has not been loaded")),
        })
    }

    /// Returns the target of a link; `None` if the group has no such link.
    ///
    /// # Errors
    /// Invalid if the object is not a group.
    pub fn find(&self, group: NodeId, name: &[u8]) -> Result<Option<NewLink>> {
        self.load_content(group).map_err(|error| self.0.named(error))?;
        Ok(self.0.tree().group(group)?.links.get(name).map(|link| link.target.clone()))
    }

    /// Returns the names of a group's links: in creation order if it is tracked, otherwise sorted.
    ///
    /// # Errors
    /// Invalid if the object is not a group.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-names.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// assert_eq!(file.names(NodeId::ROOT)?.len(), 6);
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn names(&self, group: NodeId) -> Result<Vec<Name>> {
        self.load_content(group).map_err(|error| self.0.named(error))?;
        let tree = self.0.tree();
        let track_order = tree.node(group)?.track_order;
        let mut links: Vec<_> = tree.group(group)?.links.iter().collect();
        if track_order {
            links.sort_by_key(|(_, link)| link.order);
        }
        Ok(links.into_iter().map(|(name, _)| name.clone()).collect())
    }

    /// Creates a link.
    ///
    /// # Errors
    /// Exists if the name exists; Invalid for an invalid name, and for a path or a file name that is empty or
    /// has a NUL.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, MemorySink, NewLink, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// file.link(NodeId::ROOT, b"latest", NewLink::Soft("/runs/first".into()))?;
    /// assert_eq!(file.names(NodeId::ROOT)?.len(), 1);
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn link(&self, group: NodeId, name: &[u8], target: NewLink) -> Result<()> {
        self.load_content(group)?;
        self.load_for_change(group)?;
        if let NewLink::Hard(id) = target {
            self.load_for_change(id)?;
        }
        self.change(|tree, done| {
            message_limits::link(name, &target)?;
            tree.link(group, name, target.clone())?;
            let name = Name::from(name);
            done.push(Entry::Link { group, name: name.clone(), target });
            let undo = move |tree: &mut Tree| drop(tree.unlink_last(group, name.as_bytes()));
            Ok(((), Box::new(undo) as Undo))
        })
    }

    /// Removes a link. An object without links is not in the file.
    ///
    /// # Errors
    /// NotFound if the link does not exist.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-unlink.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.unlink(NodeId::ROOT, b"latest")?;
    /// file.close()?;
    /// assert_eq!(File::open(&path, &OpenOptions::default())?.root()?.group()?.len()?, 5);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn unlink(&self, group: NodeId, name: &[u8]) -> Result<()> {
        if let Some(target) = self.find(group, name)? {
            self.load_for_change(group)?;
            if let NewLink::Hard(id) = target {
                self.load_for_change(id)?;
            }
        }
        self.change(|tree, done| {
            let old = tree.group(group)?.links.get(name).cloned();
            tree.unlink(group, name)?;
            let name = Name::from(name);
            done.push(Entry::Unlink { group, name: name.clone() });
            let undo = move |tree: &mut Tree| drop(old.map(|old| tree.link_again(group, name, old)));
            Ok(((), Box::new(undo) as Undo))
        })
    }

    /// Sets an attribute. If it exists, it is replaced, and its creation order stays the same. The field
    /// `creation_order` is ignored.
    ///
    /// # Errors
    /// Invalid for an empty name, or data whose size does not match the datatype and the extent.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{Attribute, ByteOrder, CharacterSet, Dataspace, Datatype};
    /// use hyperchunk::write::{CreateOptions, MemorySink, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let attribute = Attribute {
    ///     name: "version".into(),
    ///     charset: CharacterSet::Ascii,
    ///     datatype: Datatype::integer(1, false, ByteOrder::Little),
    ///     committed: None,
    ///     dataspace: Dataspace::Scalar,
    ///     data: vec![3],
    ///     creation_order: None,
    /// };
    /// file.set_attribute(NodeId::ROOT, attribute)?;
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn set_attribute(&self, object: NodeId, attribute: Attribute) -> Result<()> {
        self.put_attribute(object, attribute, false)
    }

    /// Sets an attribute. If it exists, it is deleted first, so that the new one is the last in creation
    /// order, as with libhdf5. If the object has no more numbers for the creation order, the order stays the
    /// same.
    ///
    /// # Errors
    /// As [`Writer::set_attribute`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-replace.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// let title = file.attribute(NodeId::ROOT, b"title")?.unwrap();
    /// file.replace_attribute(NodeId::ROOT, title)?;
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn replace_attribute(&self, object: NodeId, attribute: Attribute) -> Result<()> {
        self.put_attribute(object, attribute, true)
    }

    fn put_attribute(&self, object: NodeId, attribute: Attribute, last: bool) -> Result<()> {
        let CreateOptions { oldest, newest, .. } = self.0.options;
        let age = message_limits::attribute(&attribute, oldest, newest)
            .map_err(|error| self.0.named(error.object(&attribute.name)))?;
        self.load_for_change(object)?;
        self.load_attributes(object)?;
        self.load_replaced_type(object, attribute.name.as_bytes(), attribute.committed)?;
        self.0.notice(age, || format!("the datatype of the attribute {}", attribute.name));
        if self.0.journal.is_some() && attribute.datatype.has_vlen() {
            self.0.heap.flush(&self.0.space, &*self.0.sink, self.0.edit.is_some())?;
            self.0.front_heap.flush(&self.0.space, &*self.0.sink, self.0.edit.is_some())?;
        }
        self.change(|tree, done| {
            let name = attribute.name.clone();
            let node = tree.node(object)?;
            let (old, next) = (node.attributes.get(&name).cloned(), node.next_attribute);
            let full = message_limits::attribute_order(node, false);
            if old.is_none() {
                full?;
            } else if last && full.is_ok() {
                tree.node_mut(object)?.attributes.remove(&name);
                done.push(Entry::NoAttribute { object, name: name.clone() });
            }
            if let Err(error) = tree.set_attribute(object, attribute.clone()) {
                tree.node_mut(object)?.attributes.extend(old.map(|old| (name, old)));
                return Err(error);
            }
            tree.use_datatype(attribute.committed.filter(|_| self.0.edit.is_some()));
            done.push(Entry::Attribute { object, attribute });
            let undo = on_node(object, move |node| {
                node.attributes.remove(&name);
                node.attributes.extend(old.map(|old| (name, old)));
                node.next_attribute = next;
            });
            Ok(((), undo))
        })
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// NotFound if the attribute does not exist.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-delete.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.delete_attribute(NodeId::ROOT, b"title")?;
    /// assert!(file.attribute(NodeId::ROOT, b"title")?.is_none());
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn delete_attribute(&self, object: NodeId, name: &[u8]) -> Result<()> {
        self.load_for_change(object)?;
        self.load_attributes(object)?;
        self.load_replaced_type(object, name, None)?;
        self.change(|tree, done| {
            let node = tree.node_mut(object)?;
            let removed = node.attributes.remove(name);
            if removed.is_some() {
                node.replace(|replaced| replaced.attributes = true);
            }
            let name = Name::from(name);
            let removed =
                removed.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no attribute {name}")))?;
            done.push(Entry::NoAttribute { object, name: name.clone() });
            Ok(((), on_node(object, move |node| drop(node.attributes.insert(name, removed)))))
        })
    }

    /// Renames an attribute. Its creation order stays the same.
    ///
    /// # Errors
    /// NotFound if the attribute does not exist; Exists if the new name exists; Invalid for an invalid name.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-rename.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.rename_attribute(NodeId::ROOT, b"title", "name".into())?;
    /// assert!(file.attribute(NodeId::ROOT, b"name")?.is_some());
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn rename_attribute(&self, object: NodeId, name: &[u8], new: Name) -> Result<()> {
        self.load_for_change(object)?;
        self.load_attributes(object)?;
        self.change(|tree, done| {
            let attributes = &mut tree.node_mut(object)?.attributes;
            if attributes.contains_key(&new) {
                return Err(Error::new(ErrorKind::Exists, format!("attribute {new} exists")));
            }
            let name = Name::from(name);
            let missing = || Error::new(ErrorKind::NotFound, format!("no attribute {name}"));
            let old = attributes.remove(&name).ok_or_else(missing)?;
            let order = old.creation_order;
            let charset = if new.as_bytes().is_ascii() { old.charset } else { CharacterSet::Utf8 };
            let renamed = Attribute { name: new.clone(), charset, ..old.clone() };
            if let Err(error) = tree.set_attribute(object, renamed.clone()) {
                tree.node_mut(object)?.attributes.insert(name, old);
                return Err(error);
            }
            let node = tree.node_mut(object)?;
            node.next_attribute = node.next_attribute.saturating_sub(1);
            if let Some(attribute) = node.attributes.get_mut(&new) {
                attribute.creation_order = order;
            }
            done.push(Entry::NoAttribute { object, name: name.clone() });
            done.push(Entry::Attribute { object, attribute: renamed });
            let undo = on_node(object, move |node| {
                node.attributes.remove(&new);
                node.attributes.insert(name, old);
            });
            Ok(((), undo))
        })
    }

    /// Returns an attribute; `None` if it does not exist.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file.
    pub fn attribute(&self, object: NodeId, name: &[u8]) -> Result<Option<Attribute>> {
        self.load_attributes(object).map_err(|error| self.0.named(error))?;
        Ok(self.0.tree().node(object)?.attributes.get(name).cloned())
    }

    /// Sets an object's comment. `None` or an empty comment removes it.
    ///
    /// # Errors
    /// Invalid if the object belongs to another file, or the comment has a NUL.
    pub fn set_comment(&self, object: NodeId, comment: Option<Name>) -> Result<()> {
        let comment = comment.filter(|comment| !comment.as_bytes().is_empty());
        message_limits::comment(comment.as_ref()).map_err(|error| self.0.named(error))?;
        self.load_for_change(object)?;
        self.change(|tree, done| {
            let node = tree.node_mut(object)?;
            node.replace(|replaced| replaced.comment = true);
            let old = std::mem::replace(&mut node.comment, comment.clone());
            done.push(Entry::Comment { object, comment });
            Ok(((), on_node(object, move |node| node.comment = old)))
        })
    }

    /// Makes an object store its access, change, modification and birth times, and sets them to the time of
    /// this call.
    ///
    /// # Errors
    /// Invalid if the file is closed, or the object belongs to another file; Unsupported if the object
    /// existed before the edit, or has an address already ([`Writer::address`]).
    pub fn track_times(&self, object: NodeId) -> Result<()> {
        self.load(object)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // HDF5 stores the seconds of object headers in 32 bits.
        let now = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        self.change(|tree, _| {
            let node = tree.node_mut(object)?;
            if node.base.is_some() || (node.pinned.is_some() && node.made.is_none()) {
                // With times, the header would be larger than the space reserved for it.
                return Err(Error::unsupported(
                    "cannot track the times of the object: that is fixed when an object is created; call this before its \
                     address is used, by a reference for example",
                ));
            }
            let old = node.made.replace(now);
            Ok(((), on_node(object, move |node| node.made = old)))
        })
    }
}
