//! Report of a writer to the committing process, which saves reading the log.

use crate::Ticket;
use crate::format::header::{HEADER_BYTES, LogHeader, TRAILER_BYTES, Trailer};
use crate::format::id::hash;
use hyperchunk::{Error, Result};

/// A ticket with the content that it refers to: the header of the log, and its only index.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The ticket.
    pub ticket: Ticket,
    pub(crate) header: LogHeader,
    pub(crate) trailer: Trailer,
    pub(crate) index: Vec<u8>,
}

impl Report {
    /// Encodes the report; the encoding begins with the ticket.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.ticket.to_bytes().to_vec();
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.trailer.encode());
        bytes.extend_from_slice(&self.index);
        bytes
    }

    /// Decodes a report; `None` if the bytes are only a ticket.
    ///
    /// # Errors
    /// Invalid or Corrupt if they are neither.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Self>> {
        let Some((ticket, rest)) = bytes.split_at_checked(Ticket::ENCODED_BYTES) else {
            return Err(Error::invalid(format!(
                "expected a ticket or a report, got {} bytes; a ticket has {}",
                bytes.len(),
                Ticket::ENCODED_BYTES
            )));
        };
        let ticket = Ticket::from_bytes(ticket)?;
        if rest.is_empty() {
            return Ok(None);
        }
        let wrong = || Error::corrupt("the report of a writer is damaged");
        let (header, rest) = rest.split_at_checked(HEADER_BYTES).ok_or_else(wrong)?;
        let (trailer, index) = rest.split_at_checked(TRAILER_BYTES).ok_or_else(wrong)?;
        let header = LogHeader::decode(header)?;
        let right = hash(trailer) == ticket.hash && header.writer == ticket.writer;
        let trailer = Trailer::decode(trailer).filter(|trailer| right && hash(index) == trailer.hash);
        let trailer = trailer.ok_or_else(wrong)?;
        Ok(Some(Self { ticket, header, trailer, index: index.to_vec() }))
    }
}
