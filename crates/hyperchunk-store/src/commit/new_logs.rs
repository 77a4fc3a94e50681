//! Content of a log that is not committed yet, as a commit needs it.

use crate::location::site::{LogName, Site};
use crate::read::scan_log::{Log, LogEnd};
use crate::{DatasetId, DatasetWrites, Definition, LogHeader, LogPart, Ticket, WriterId};
use hyperchunk::{Error, Result};
use std::collections::{HashMap, HashSet};

/// New content of a log. The log is closed again, since there may be more logs than the limit on
/// open files.
pub(super) struct NewLog {
    pub(super) header: LogHeader,
    pub(super) finished: bool,
    pub(super) salvaged: bool,
    pub(super) length: u64,
    pub(super) trailer: u64,
    pub(super) hidden: Vec<WriterId>,
    pub(super) image: Option<Vec<u8>>,
    /// The image that was committed before.
    pub(super) before: Option<Vec<u8>>,
    pub(super) written: Vec<(u32, DatasetWrites)>,
    /// The previously committed part of the log.
    pub(super) known: Option<LogPart>,
    /// Its datasets, by number.
    pub(super) definitions: Vec<(DatasetId, Definition)>,
    /// Number of each dataset, and the index of its writes in `written`.
    pub(super) numbers: HashMap<DatasetId, (u32, Option<usize>)>,
}

impl NewLog {
    pub(super) fn writer(&self) -> WriterId {
        self.header.writer
    }

    /// Returns the datasets that it wrote elements to.
    pub(super) fn wrote(&self) -> HashSet<DatasetId> {
        let with_elements =
            |place: usize| self.written.get(place).is_some_and(|(_, written)| !written.is_empty());
        let of = self.numbers.iter().filter(|(_, (_, place))| place.is_some_and(with_elements));
        of.map(|(id, _)| *id).collect()
    }
}

/// Reads the new content of a log; `None` if it has none.
pub(super) fn open(
    site: Site<'_>,
    writer: WriterId,
    ticket: Option<&Ticket>,
    ending: LogEnd,
    known: Option<LogPart>,
) -> Result<Option<NewLog>> {
    let name = LogName::from((site, writer));
    let log = match (ticket, ending) {
        (None, LogEnd::Unfinished) => Log::salvage(name, known.map_or(0, |known| known.length))?,
        _ => Log::open(name, ticket, known.map_or(0, |known| known.trailer))?,
    };
    let finished = log.ending == LogEnd::Finished;
    if known.is_some_and(|known| known.length >= log.length && known.finished == finished) {
        return Ok(None);
    }
    read_new_log(name, log, known).map(Some).map_err(|error| error.file(name.path().display()))
}

/// Reads the content of an open log, with its definitions.
pub(super) fn read_new_log(name: LogName<'_>, log: Log, known: Option<LogPart>) -> Result<NewLog> {
    let count = u32::try_from(log.defined.len()).map_err(|_| Error::limit("2^32 datasets"))?;
    let definitions = (0..count).map(|number| log.definition(number)).collect::<Result<Vec<_>>>()?;
    let places: HashMap<u32, usize> =
        log.written.iter().enumerate().map(|(place, (number, _))| (*number, place)).collect();
    let numbers = definitions.iter().zip(0..);
    let numbers = numbers.map(|((id, _), number)| (*id, (number, places.get(&number).copied()))).collect();
    let image = log.read_image()?;
    let before = match known.filter(|known| known.trailer > 0 && image.is_some()) {
        Some(known) => match log.ticket(known.trailer)? {
            Some(ticket) => Log::open(name, Some(&ticket), known.trailer)?.read_image()?,
            None => None,
        },
        None => None,
    };
    Ok(NewLog {
        finished: log.ending == LogEnd::Finished,
        salvaged: log.salvaged,
        length: log.length,
        trailer: log.trailer,
        image,
        before,
        known,
        definitions,
        numbers,
        header: log.header,
        hidden: log.hidden,
        written: log.written,
    })
}
