//! Check of a commit before it completes: parses the object headers that it writes. A defect in their
//! encoding thus causes an error, not a damaged file.

use super::super::commit::Structure;
use super::super::sink::Sink;
use super::super::writer::Inner;
use super::structures::EncodedObject;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::ObjectHeader;
use hyperchunk_format::parse::object_header;
use hyperchunk_format::{Fuel, Image, Limits, Sizes, View};
use std::borrow::Cow;

const SIZES: Sizes = Sizes { address: 8, length: 8 };

/// Bytes of the file after the commit, by HDF5 address.
struct WrittenView<'a> {
    sink: &'a dyn Sink,
    structure: &'a Structure,
    size: u64,
}

impl View for WrittenView<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size);
        end.ok_or_else(|| Error::new(ErrorKind::Truncated, "past the end of the written bytes").at(offset))?;
        let from = offset.checked_sub(self.structure.start).and_then(|from| usize::try_from(from).ok());
        let new = from.and_then(|from| self.structure.region.get(from..)?.get(..length));
        if let Some(new) = new {
            return Ok(Cow::Borrowed(new));
        }
        let mut bytes = vec![0; length];
        self.sink.read_at(offset, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }
}

impl Inner {
    /// Checks that the headers of a commit, which are written but not yet valid, can be parsed and have the
    /// expected numbers of messages and links.
    pub(super) fn check_written(&self, structure: &Structure, encoded: &[EncodedObject]) -> Result<()> {
        let parts = encoded.iter().flat_map(|object| object.parts.iter().chain([&object.header]));
        let ends = parts.map(|(address, bytes)| address.saturating_add(bytes.len() as u64));
        let size = ends.fold(structure.start.saturating_add(structure.region.len() as u64), u64::max);
        let view = WrittenView { sink: &*self.sink, structure, size };
        let limits = Limits::default();
        let read = |address: u64| -> Result<ObjectHeader> {
            let fuel = Fuel::new(&limits);
            object_header::parse(Image::new(&view, 0, SIZES, &limits, &fuel), address)
                .map_err(|error| failed(address, error.message()))
        };
        for place in &structure.places {
            read(structure.start.saturating_add(place.start).saturating_add(place.header))?;
        }
        for object in encoded {
            let header = read(object.header.0)?;
            let (found, links) = (header.messages.len(), header.reference_count);
            if (found, links) != (object.messages, object.links) {
                let expected = format!("{} messages and {} links", object.messages, object.links);
                return Err(failed(object.header.0, &format!("{expected}, got {found} and {links}")));
            }
        }
        Ok(())
    }
}

fn failed(address: u64, why: &str) -> Error {
    Error::invalid(format!(
        "cannot commit the changes: a written object header cannot be read correctly: {why}; the file is in the state of \
         the last commit; please report this with the changes that you made"
    ))
    .at(address)
}
