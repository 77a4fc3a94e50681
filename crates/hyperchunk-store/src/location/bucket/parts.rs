//! A log in several consecutive objects, separated by flushes of its writer.
//!
//! The first has the name of any log. Each further name contains the offset in the log at which the
//! object begins, so it is found from the total size of the previous ones.

use crate::WriterId;
use crate::format::header::{TRAILER_BYTES, Trailer};
use crate::location::site::log_name;
use bytes::{Bytes, BytesMut};
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source, ends_before};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Returns the name of the part of a writer's log that begins at `from`.
#[must_use]
pub(crate) fn part_name(writer: WriterId, from: u64) -> String {
    if from == 0 { log_name(writer) } else { format!("{writer}.{from}.log") }
}

/// Parses the name of a part other than the first: the writer, and the offset in its log.
#[must_use]
fn parse_part_name(name: &str) -> Option<(WriterId, u64)> {
    let (writer, from) = name.strip_suffix(".log")?.split_once('.')?;
    let found = (WriterId::from_hex(writer)?, from.parse().ok()?);
    (part_name(found.0, found.1) == name).then_some(found)
}

/// Returns the writer of a log, or of a part of one, from its name.
#[must_use]
pub(crate) fn parse_writer(name: &str) -> Option<WriterId> {
    let first = || WriterId::from_hex(name.strip_suffix(".log")?);
    parse_part_name(name).map(|(writer, _)| writer).or_else(first)
}

/// Joins a log whose first part is open with further parts, until it has `wanted` bytes, or all
/// existing ones.
pub(crate) fn join(
    first: Arc<dyn Source>,
    writer: WriterId,
    wanted: Option<u64>,
    open: &dyn Fn(&str) -> Result<Arc<dyn Source>>,
) -> Result<Arc<dyn Source>> {
    let mut end = first.size();
    let mut parts = vec![(0, first)];
    loop {
        let more = match (wanted, parts.last()) {
            (Some(wanted), _) => end < wanted,
            (None, Some((_, last))) => may_continue(&**last)?,
            (None, None) => false,
        };
        if !more {
            break;
        }
        match open(&part_name(writer, end)) {
            Ok(part) if part.size() > 0 => {
                let size = part.size();
                parts.push((end, part));
                end = end.checked_add(size).ok_or_else(|| Error::limit("a log of 2^64 bytes or more"))?;
            }
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    if parts.len() == 1
        && let Some((_, only)) = parts.pop()
    {
        return Ok(only);
    }
    let identities: Vec<&str> =
        parts.iter().filter_map(|(_, part)| part.remote()).map(|part| part.identity()).collect();
    let identity = identities.join(" + ");
    Ok(Arc::new(Parts { parts, end, identity }))
}

/// Returns whether the writer may have continued after a part.
fn may_continue(part: &dyn Source) -> Result<bool> {
    let Some(at) = part.size().checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let mut bytes = [0; TRAILER_BYTES];
    part.read_at(at, &mut bytes)?;
    Ok(Trailer::decode(&bytes).is_some_and(|trailer| !trailer.closed))
}

/// A log of several parts.
#[derive(Debug)]
struct Parts {
    /// Each part with its offset.
    parts: Vec<(u64, Arc<dyn Source>)>,
    end: u64,
    identity: String,
}

impl Parts {
    /// Splits a range into ranges of parts, with the position of each in the range.
    fn split(&self, range: &Range<u64>) -> Result<Vec<(usize, Range<u64>, usize)>> {
        if range.start > range.end || range.end > self.end {
            let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            return Err(ends_before(self.end, range.start, length));
        }
        let first = self.parts.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let mut found = Vec::new();
        for (number, (start, part)) in self.parts.iter().enumerate().skip(first) {
            let (from, to) = (range.start.max(*start), range.end.min(start + part.size()));
            if from < to {
                let place =
                    usize::try_from(from - range.start).map_err(|_| Error::limit("larger than memory"))?;
                found.push((number, from - start..to - start, place));
            }
            if to >= range.end {
                break;
            }
        }
        Ok(found)
    }
}

impl Source for Parts {
    fn size(&self) -> u64 {
        self.end
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        let end = end.ok_or_else(|| ends_before(self.end, offset, buffer.len()))?;
        for (number, range, place) in self.split(&(offset..end))? {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let part = self.parts.get(number).zip(buffer.get_mut(place..place.saturating_add(length)));
            let ((_, part), buffer) = part.ok_or_else(|| Error::invalid("a part outside its log"))?;
            part.read_at(range.start, buffer)?;
        }
        Ok(())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        self.parts.iter().all(|(_, part)| part.remote().is_some()).then_some(self)
    }
}

impl Parts {
    fn first(&self) -> Option<&dyn Remote> {
        self.parts.first()?.1.remote()
    }
}

impl Remote for Parts {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        // Group the ranges by part; ranges in several parts are assembled when all of their bytes
        // have arrived.
        let mut wanted: Vec<Vec<(Range<u64>, usize, usize)>> = vec![Vec::new(); self.parts.len()];
        let mut waiting: HashMap<usize, (BytesMut, usize)> = HashMap::new();
        for (number, range) in ranges.iter().enumerate() {
            let split = self.split(range)?;
            if split.is_empty() {
                land(number, Bytes::new())?;
            }
            if split.len() > 1 {
                let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                waiting.insert(number, (BytesMut::zeroed(length), split.len()));
            }
            for (part, range, place) in split {
                if let Some(wanted) = wanted.get_mut(part) {
                    wanted.push((range, number, place));
                }
            }
        }
        for (wanted, (_, part)) in wanted.iter().zip(&self.parts).filter(|(wanted, _)| !wanted.is_empty()) {
            let remote = part.remote().ok_or_else(|| Error::invalid("a part that is not remote"))?;
            let of_part: Vec<Range<u64>> = wanted.iter().map(|(range, ..)| range.clone()).collect();
            remote.fetch(&of_part, &mut |at, bytes| {
                let Some((range, number, place)) = wanted.get(at) else { return Ok(()) };
                let Some((whole, left)) = waiting.get_mut(number) else { return land(*number, bytes) };
                let to = whole.get_mut(*place..place.saturating_add(bytes.len()));
                match to.filter(|to| to.len() as u64 == range.end - range.start) {
                    Some(to) => to.copy_from_slice(&bytes),
                    None => {
                        return Err(Error::invalid(format!(
                            "got {} bytes for the range {range:?}",
                            bytes.len()
                        )));
                    }
                }
                *left -= 1;
                if *left > 0 {
                    return Ok(());
                }
                match waiting.remove(number) {
                    Some((whole, _)) => land(*number, whole.freeze()),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn counters(&self) -> &Counters {
        static NONE: std::sync::LazyLock<Counters> = std::sync::LazyLock::new(Counters::default);
        self.first().map_or(&NONE, |first| first.counters())
    }

    fn options(&self) -> &RemoteOptions {
        static DEFAULT: std::sync::LazyLock<RemoteOptions> = std::sync::LazyLock::new(RemoteOptions::default);
        self.first().map_or(&DEFAULT, |first| first.options())
    }

    fn cost(&self) -> RequestCost {
        self.first().map_or_else(RequestCost::default, |first| first.cost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::io::Memory;

    fn part(bytes: Range<u8>) -> Arc<dyn Source> {
        Arc::new(Memory::new(bytes.collect::<Vec<u8>>()))
    }

    #[test]
    fn names_lead_back() {
        let writer = WriterId([0xab; 16]);
        assert_eq!(parse_part_name(&part_name(writer, 77)), Some((writer, 77)));
        assert_eq!(parse_part_name(&part_name(writer, 0)), None, "the first is a log");
        assert_eq!([0, 77].map(|from| parse_writer(&part_name(writer, from))), [Some(writer); 2]);
        assert_eq!(WriterId::from_hex(part_name(writer, 77).strip_suffix(".log").unwrap()), None);
        for name in
            ["ab.7.log", "x", &format!("{writer}.07.log"), &format!("{writer}.0.log"), &format!("{writer}.7")]
        {
            assert_eq!(parse_part_name(name), None, "{name}");
        }
    }

    #[test]
    fn parts_are_one_log() {
        let writer = WriterId([1; 16]);
        let open = |name: &str| match parse_part_name(name) {
            Some((_, 10)) => Ok(part(10..13)),
            Some((_, 13)) => Ok(part(13..20)),
            _ => Err(Error::new(ErrorKind::NotFound, "no")),
        };
        // As many parts as needed, and no more.
        for (wanted, size) in [(0, 10), (10, 10), (11, 13), (13, 13), (14, 20), (20, 20), (21, 20)] {
            let log = join(part(0..10), writer, Some(wanted), &open).unwrap();
            assert_eq!(log.size(), size, "{wanted}");
            for start in 0..=size {
                for end in start..=size {
                    let mut out = vec![0; usize::try_from(end - start).unwrap()];
                    log.read_at(start, &mut out).unwrap();
                    assert!(
                        out.iter().zip(start..end).all(|(found, at)| u64::from(*found) == at),
                        "{start}..{end}"
                    );
                }
            }
            assert_eq!(log.read_at(size, &mut [0]).unwrap_err().kind(), ErrorKind::Truncated);
        }
        // Without a trailer, no part follows.
        assert_eq!(join(part(0..10), writer, None, &open).unwrap().size(), 10);
    }
}
