//! Transactions of an edit: changes that are committed together, or undone.

use super::super::chunks::Data;
use super::super::space::SpaceState;
use super::super::tree::{DatasetNode, GroupNode, Node, NodeId, NodeKind};
use super::super::writer::Writer;
use super::load::dataset;
use crate::{Error, Object, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Writer {
    /// Begins a transaction. [`Writer::end`] commits its changes as one commit, and [`Writer::rollback`]
    /// undoes them. Earlier changes are committed first.
    ///
    /// # Errors
    /// Unsupported for a file that is not edited; Invalid if a transaction is open; as [`Writer::flush`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-begin.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.begin()?;
    /// file.create_group(NodeId::ROOT, b"made", false)?;
    /// file.end()?;
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn begin(&self) -> Result<()> {
        let Some(edit) = &self.0.edit else {
            return Err(self.0.named(Error::unsupported(
                "cannot begin a transaction: expected an existing file, got a new one; close it, and open it with \
                 mode \"r+\"",
            )));
        };
        self.flush()?;
        let mut open = edit.transaction.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_some() {
            return Err(self.open_transaction("begin a transaction"));
        }
        *open = Some(self.0.space.state());
        Ok(())
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// Invalid if no transaction is open; as [`Writer::flush`]. The transaction then stays open
    /// ([`Writer::is_in_transaction`]), unless its commit is valid and only could not be written to the file
    /// yet.
    pub fn end(&self) -> Result<()> {
        let state = self.take_transaction()?;
        self.flush().inspect_err(|_| {
            // A commit that is complete in the journal is valid.
            let is_committed = *self.0.commits() == Some(self.changes());
            if let Some(edit) = self.0.edit.as_ref().filter(|_| !is_committed) {
                *edit.transaction.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            }
        })
    }

    /// Returns whether a transaction is open.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        let edit = self.0.edit.as_ref();
        edit.is_some_and(|edit| edit.transaction.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// Undoes a transaction: restores the state at its beginning. Objects that were created in it can no
    /// longer be used. No other thread may use the file during the call.
    ///
    /// # Errors
    /// Invalid if no transaction is open; the errors of the file, after which the writer is closed. If the
    /// journal could not be deleted, [`Writer::close`] tries again.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::write::{CreateOptions, NodeId, Writer};
    ///
    /// let path = std::env::temp_dir().join("hyperchunk-rollback.h5");
    /// std::fs::copy("examples/scene.h5", &path).unwrap();
    /// let file = Writer::edit(&path, &CreateOptions::default())?;
    /// file.begin()?;
    /// file.unlink(NodeId::ROOT, b"temperature")?;
    /// file.rollback()?;
    /// assert_eq!(file.names(NodeId::ROOT)?.len(), 6);
    /// file.close()?;
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn rollback(&self) -> Result<()> {
        let _in_use = self.0.open()?;
        let state = self.take_transaction()?;
        let mut last = self.0.commits();
        let undone = self.undo(state);
        if undone.is_err() {
            // Later calls must not commit the changes.
            self.0.gate.refuse();
            // A journal that is complete on disk in spite of an error must be deleted.
            self.0.discard_failed.store(self.0.sink.discard().is_err(), Ordering::Release);
            self.0.sink.release();
        }
        undone.map_err(|error| self.0.named(error))?;
        self.0.changed();
        *last = Some(self.changes());
        Ok(())
    }

    fn take_transaction(&self) -> Result<SpaceState> {
        let edit = self.0.edit.as_ref();
        let state =
            edit.and_then(|edit| edit.transaction.lock().unwrap_or_else(PoisonError::into_inner).take());
        state.ok_or_else(|| self.0.named(Error::invalid("no transaction is open")))
    }

    /// Checks that no transaction is open; `what` is the operation in the error message.
    pub(in super::super) fn check_no_transaction(&self, what: &str) -> Result<()> {
        if self.is_in_transaction() { Err(self.open_transaction(what)) } else { Ok(()) }
    }

    fn open_transaction(&self, what: &str) -> Error {
        self.0.named(Error::invalid(format!("cannot {what}: a transaction is open; its end commits it")))
    }

    fn undo(&self, state: SpaceState) -> Result<()> {
        let Some(edit) = &self.0.edit else { return Ok(()) };
        self.0.sink.discard()?;
        let mut datasets: Vec<(NodeId, Arc<DatasetNode>)> = Vec::new();
        {
            let mut tree = self.0.tree_mut();
            let mut known = edit.known.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = tree.changed();
            for (number, node) in tree.nodes.iter_mut().enumerate() {
                let id = NodeId(number);
                if let NodeKind::Dataset(dataset) = &node.kind
                    && let Data::Chunked(chunks) = &dataset.data
                {
                    chunks.forget_all_waiting(&self.0);
                }
                let is_stored = node.base.is_some() || !node.blocks.is_empty();
                let Some(address) = node.pinned.filter(|_| is_stored) else {
                    if changed.contains(&id) && !matches!(node.kind, NodeKind::Unread { .. }) {
                        *node = Node::new(NodeKind::Group(GroupNode::default()), false);
                        (node.dirty, node.removed) = (false, true);
                    }
                    continue;
                };
                if node.removed {
                    continue;
                }
                known.insert(address, id);
                if changed.contains(&id) {
                    if let NodeKind::Dataset(dataset) = &node.kind {
                        datasets.push((id, Arc::clone(dataset)));
                    }
                    *node = Node::new(NodeKind::Unread { address }, false);
                    node.dirty = false;
                }
            }
        }
        // The cache may have bytes that commits since the opening of the file have replaced.
        edit.base.forget_structure();
        for (id, kept) in datasets {
            self.load(id)?;
            self.load_old_attributes(id)?;
            self.0.restore_dataset(id, kept)?;
        }
        self.0.heap.forget();
        edit.has_looked.store(false, Ordering::Release);
        self.0.space.restore(state);
        drop(self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.load_content(NodeId::ROOT)
    }
}

impl super::super::writer::Inner {
    /// Restores extent and data of the last commit in a dataset that is in use.
    fn restore_dataset(&self, id: NodeId, kept: Arc<DatasetNode>) -> Result<()> {
        let Some(edit) = &self.edit else { return Ok(()) };
        let header = self.tree().node(id)?.base.as_ref().map(|base| Arc::clone(&base.header));
        let header = header.ok_or_else(|| Error::invalid("the object has not been loaded"))?;
        let (old, index) =
            dataset(&Object::from_header(&edit.base, header)?.dataset()?, self.options.oldest)?;
        *kept.dataspace.write().unwrap_or_else(PoisonError::into_inner) = old.dataspace();
        kept.touched.store(false, Ordering::Release);
        match (&kept.data, &old.data) {
            (Data::Chunked(kept), Data::Chunked(old)) => kept.replace(old),
            (Data::Contiguous { address: kept, .. }, Data::Contiguous { address: old, .. }) => {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) =
                    *old.lock().unwrap_or_else(PoisonError::into_inner);
            }
            (Data::Compact(kept), Data::Compact(old)) => {
                old.read()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone_into(&mut kept.write().unwrap_or_else(PoisonError::into_inner));
            }
            _ => {}
        }
        let mut tree = self.tree_mut();
        let node = tree.node_mut(id)?;
        node.kind = NodeKind::Dataset(kept);
        if let Some(base) = &mut node.base {
            base.content_extents = index;
        }
        Ok(())
    }
}
