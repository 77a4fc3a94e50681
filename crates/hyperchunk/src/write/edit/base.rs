//! State of an object before the edit.

use crate::{Error, Result};
use hyperchunk_format::encode::object_header::{HeaderOptions, Message};
use hyperchunk_format::model::{ObjectHeader, RawMessage};
use hyperchunk_format::parse::extents::Extent;
use hyperchunk_format::parse::message as kinds;
use std::sync::Arc;

/// Parts of an object that have changed and are encoded again by each commit. The others keep the messages of
/// the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplacedParts {
    pub(crate) attributes: bool,
    pub(crate) comment: bool,
    /// Links of a group, or extent and layout of a dataset.
    pub(crate) content: bool,
}

/// An object of the file before the edit.
#[derive(Debug)]
pub(crate) struct BaseObject {
    pub(crate) header: Arc<ObjectHeader>,
    pub(crate) replaced: ReplacedParts,
    /// True once the attributes are loaded into the tree.
    pub(crate) has_attributes: bool,
    /// Addresses of the committed datatypes that the attributes used before the edit.
    pub(crate) attribute_types: Vec<u64>,
    /// Extents of the dense attributes, and of the chunk index or dense links, until a commit replaces them.
    pub(crate) attribute_extents: Vec<Extent>,
    pub(crate) content_extents: Vec<Extent>,
}

impl BaseObject {
    /// Creates the state of an object from its header.
    pub(super) fn new(header: Arc<ObjectHeader>) -> Self {
        Self {
            header,
            replaced: ReplacedParts::default(),
            has_attributes: false,
            attribute_types: Vec::new(),
            attribute_extents: Vec::new(),
            content_extents: Vec::new(),
        }
    }

    /// Returns the extents of the structures that a commit replaces.
    pub(crate) fn replaced_extents(&self, replaced: ReplacedParts) -> impl Iterator<Item = Extent> + '_ {
        let attributes = self.attribute_extents.iter().filter(move |_| replaced.attributes);
        attributes.chain(self.content_extents.iter().filter(move |_| replaced.content)).copied()
    }

    /// Removes the extents that a commit has replaced.
    pub(super) fn forget_extents(&mut self, replaced: ReplacedParts) {
        if replaced.attributes {
            self.attribute_extents.clear();
        }
        if replaced.content {
            self.content_extents.clear();
        }
    }

    /// Returns the fields of the header besides its messages.
    pub(crate) fn options(&self) -> HeaderOptions {
        HeaderOptions {
            times: self.header.times,
            attribute_order_tracked: self.header.attribute_order_tracked,
            attribute_order_indexed: self.header.attribute_order_indexed,
        }
    }

    /// Returns the parts that a commit encodes again. `touched` is true for a dataset that has changed since
    /// the last commit.
    pub(crate) fn replaced(&self, touched: bool) -> ReplacedParts {
        // A version 1 header becomes version 2, which needs a message with the number of attributes.
        let attributes = self.replaced.attributes || self.header.version == 1;
        ReplacedParts { attributes, content: self.replaced.content || touched, ..self.replaced }
    }

    /// Checks that attributes that will be replaced have been loaded; otherwise they would be lost.
    ///
    /// # Errors
    /// Invalid if they have not been loaded.
    pub(crate) fn check_attributes(&self, replaced: ReplacedParts) -> Result<()> {
        let is_attribute = |raw: &RawMessage| matches!(raw.kind, kinds::ATTRIBUTE | kinds::ATTRIBUTE_INFO);
        if replaced.attributes && !self.has_attributes && self.header.messages.iter().any(is_attribute) {
            return Err(Error::invalid("attributes to be replaced have not been loaded"));
        }
        Ok(())
    }

    /// Returns the messages that are kept unchanged.
    pub(crate) fn messages(&self, replaced: ReplacedParts) -> Vec<Message> {
        let stays = |raw: &&RawMessage| match raw.kind {
            kinds::ATTRIBUTE | kinds::ATTRIBUTE_INFO => !replaced.attributes,
            kinds::COMMENT => !replaced.comment,
            kinds::LINK | kinds::LINK_INFO | kinds::GROUP_INFO | kinds::SYMBOL_TABLE => !replaced.content,
            kinds::DATASPACE | kinds::LAYOUT => !replaced.content,
            _ => true,
        };
        let whole = |raw: &RawMessage| Message {
            kind: raw.kind,
            flags: raw.flags,
            creation_order: raw.creation_order,
            data: raw.data.to_vec(),
        };
        self.header.messages.iter().filter(stays).map(whole).collect()
    }
}
