//! Observers of data while they are written, and pages of their results.
//!
//! The engine runs no analysis functions. It notifies an observer of each write once the data are
//! in the log, and stores the observer's output: pages of results, and the analyses that produced
//! them.
//!
//! **Invariant:** nothing that an observer does or fails to do changes the written data.

use crate::format::analysis_values::{MAX_RESULT_BYTES, Pairs};
use crate::format::varint::{Out, blob, extents, number};
use crate::{Hyperslab, LogWriter};
use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;
use std::fmt;

/// Maximum length in bytes of the reason why there are no results.
pub const MAX_REASON_BYTES: usize = 1000;

/// A completed write.
#[derive(Debug, Clone, Copy)]
pub struct WriteEvent<'a> {
    /// Number of the dataset.
    pub dataset: u32,
    /// Boxes that were written; for appended rows, counted from the writer's first appended row.
    pub boxes: &'a [Hyperslab],
    /// True for appended rows.
    pub appended: bool,
    /// Elements, box by box, in the dataset's datatype; `None` for a chunk in its stored form.
    pub bytes: Option<&'a [u8]>,
}

/// Observer of a writer's data. It may add pages ([`LogWriter::put_page`]).
pub trait Observer: fmt::Debug + Send + Sync {
    /// Handles a completed write, whose data are in the log.
    ///
    /// # Errors
    /// Returned to the caller of the write. The data are written nevertheless.
    fn wrote(&self, writer: &LogWriter, seen: &WriteEvent<'_>) -> Result<()>;

    /// Called before the writer writes an index, the last one if `closing`.
    ///
    /// # Errors
    /// Io.
    fn flush(&self, writer: &LogWriter, closing: bool) -> Result<()>;
}

/// Identity of an analysis: half of the SHA-256 of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AnalysisId(pub [u8; 16]);

impl fmt::Display for AnalysisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Result of an analysis for one box.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The box; for appended rows, counted from the writer's first appended row.
    pub slab: Hyperslab,
    /// True for appended rows.
    pub appended: bool,
    /// The results, or the reason for their absence.
    pub found: std::result::Result<Pairs, String>,
}

/// A page of results of an analysis of a dataset.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// The analysis.
    pub analysis: AnalysisId,
    /// True if the writer wrote an index after this page: together with the pages since the
    /// previous one with this flag, it forms a group.
    pub ends: bool,
    /// Merged results of the whole group, if the function can merge two results.
    pub merged: Option<Pairs>,
    /// Results of each box.
    pub entries: Vec<Entry>,
}

/// An analysis of a dataset, stored in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The analysis.
    pub analysis: AnalysisId,
    /// Its signed record; empty if it is to stop.
    pub record: Vec<u8>,
}

impl Entry {
    /// Returns its approximate encoded size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let found = match &self.found {
            Ok(pairs) => pairs.encode().len(),
            Err(reason) => reason.len(),
        };
        found + 16 + 20 * self.slab.start.len()
    }
}

impl Findings {
    /// Returns the bounding box of all boxes.
    #[must_use]
    pub fn bounding_box(&self) -> Option<Hyperslab> {
        let (first, rest) = self.entries.split_first()?;
        let mut around = first.slab.clone();
        for entry in rest {
            let sides = entry.slab.start.iter().zip(&entry.slab.count);
            for ((start, count), (other, many)) in around.start.iter_mut().zip(&mut around.count).zip(sides) {
                let end = start.saturating_add(*count).max(other.saturating_add(*many));
                *start = (*start).min(*other);
                *count = end - *start;
            }
        }
        Some(around)
    }

    /// Encodes the page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.bytes(&self.analysis.0);
        out.u8(u8::from(self.merged.is_some()) | u8::from(self.ends) << 1);
        if let Some(merged) = &self.merged {
            out.blob(&merged.encode());
        }
        out.number(self.entries.len() as u64);
        for entry in &self.entries {
            out.u8(u8::from(entry.found.is_err()) | u8::from(entry.appended) << 1);
            out.numbers(&entry.slab.start);
            out.numbers(&entry.slab.count);
            match &entry.found {
                Ok(pairs) => out.blob(&pairs.encode()),
                Err(reason) => out.blob(reason.as_bytes()),
            }
        }
        out.0
    }

    /// Decodes a page of a dataset of the given rank.
    ///
    /// # Errors
    /// Corrupt or Limit.
    pub fn decode(bytes: &[u8], rank: usize) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "page of results", 0);
        let (analysis, flags) = (AnalysisId(cursor.array()?), cursor.u8()?);
        if flags > 3 {
            return Err(cursor.error(format!("unknown flags {flags:#x}")));
        }
        let merged = if flags & 1 == 0 { None } else { Some(Pairs::decode(read_limited(&mut cursor)?)?) };
        let many = number(&mut cursor)?;
        if many > crate::MAX_PAGE_ENTRIES {
            return Err(cursor.error(format!("a page of {many} entries")));
        }
        let mut entries = Vec::new();
        for _ in 0..many {
            let flags = cursor.u8()?;
            let slab = Hyperslab::new(extents(&mut cursor)?, extents(&mut cursor)?);
            if flags > 3 || slab.start.len() != rank {
                return Err(cursor.error(format!("an entry of {} dimensions", slab.start.len())));
            }
            slab.check(rank)?;
            let bytes = read_limited(&mut cursor)?;
            let found = if flags & 1 == 0 {
                Ok(Pairs::decode(bytes)?)
            } else {
                Err(String::from_utf8_lossy(bytes.get(..MAX_REASON_BYTES).unwrap_or(bytes)).into_owned())
            };
            entries.push(Entry { slab, appended: flags & 2 != 0, found });
        }
        if cursor.left() > 0 {
            return Err(cursor.error(format!("{} bytes after the last entry", cursor.left())));
        }
        Ok(Self { analysis, ends: flags & 2 != 0, merged, entries })
    }
}

impl Announcement {
    /// Encodes the announcement.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&self.analysis.0[..], &self.record].concat()
    }

    /// Decodes an announcement. The record is not examined.
    ///
    /// # Errors
    /// Corrupt.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((id, record)) = bytes.split_first_chunk() else {
            return Err(Error::corrupt("the page of an analysis is too short for its identity"));
        };
        Ok(Self { analysis: AnalysisId(*id), record: record.to_vec() })
    }
}

/// Reads a blob, and refuses one longer than the limit for results.
fn read_limited<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let bytes = blob(cursor)?;
    if bytes.len() > MAX_RESULT_BYTES {
        return Err(Error::limit(format!("results of {} bytes, more than {MAX_RESULT_BYTES}", bytes.len())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

    use super::*;
    use crate::admin::compact::{CompactOptions, compact};
    use crate::commit::{CommitOptions, commit};
    use crate::format::analysis_values::{Number, Value};
    use crate::observe::results;
    use crate::tests::{Folder, options};
    use crate::{Definition, Manifest, Segments, WriterOptions};
    use hyperchunk::{File, OpenOptions};
    use hyperchunk_format::model::{ByteOrder, Datatype};
    use hyperchunk_format::select::Selection;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    fn sample() -> Findings {
        let pairs = |value| Pairs([("max".to_owned(), Value::Number(Number::Double(value)))].into());
        let entry = |start: u64, found| Entry {
            slab: Hyperslab::new([start, 0], [5, 7]),
            appended: start > 5,
            found,
        };
        Findings {
            analysis: AnalysisId([7; 16]),
            ends: true,
            merged: Some(pairs(3.0)),
            entries: vec![
                entry(0, Ok(pairs(3.0))),
                entry(5, Err("no".into())),
                entry(10, Ok(Pairs::default())),
            ],
        }
    }

    #[test]
    fn findings_come_back_and_damage_is_seen() {
        let findings = sample();
        let bytes = findings.encode();
        assert_eq!(Findings::decode(&bytes, 2).unwrap(), findings);
        assert!(Findings::decode(&bytes, 3).is_err());
        for at in 0..bytes.len() {
            assert!(Findings::decode(&bytes[..at], 2).is_err(), "{at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            // Damage may result in another valid page or an error, but in nothing else.
            drop(Findings::decode(&damaged, 2));
        }
        assert!(Findings::decode(&[&bytes[..], &[0]].concat(), 2).is_err());
        let announced = Announcement { analysis: AnalysisId([1; 16]), record: b"{}".to_vec() };
        assert_eq!(Announcement::decode(&announced.encode()).unwrap(), announced);
        assert!(Announcement::decode(&[0; 15]).is_err());
    }

    /// Computes the sum of the bytes of each box, and fails for a box that begins with 99.
    #[derive(Debug, Default)]
    struct Sums(Mutex<Vec<(u32, Findings)>>);

    impl Observer for Sums {
        fn wrote(&self, writer: &LogWriter, seen: &WriteEvent<'_>) -> Result<()> {
            let mut all = self.0.lock().unwrap();
            if !all.iter().any(|(dataset, _)| *dataset == seen.dataset) {
                writer.announce(seen.dataset, AnalysisId([9; 16]), b"record")?;
                let findings = Findings { analysis: AnalysisId([9; 16]), ends: true, ..Findings::default() };
                all.push((seen.dataset, findings));
            }
            let (_, findings) = all.iter_mut().find(|(dataset, _)| *dataset == seen.dataset).unwrap();
            let mut at = 0;
            for slab in seen.boxes {
                let many = slab.elements()? as usize;
                let found = match seen.bytes.map(|bytes| &bytes[at..at + many]) {
                    Some([99, ..]) | None => Err("no".to_owned()),
                    Some(bytes) => {
                        let sum = bytes.iter().map(|byte| i64::from(*byte)).sum();
                        Ok(Pairs([("sum".to_owned(), Value::Number(Number::Signed(sum)))].into()))
                    }
                };
                at += many;
                findings.entries.push(Entry { slab: slab.clone(), appended: seen.appended, found });
            }
            if seen.bytes.is_some_and(|bytes| bytes[0] == 98) {
                Err(Error::invalid("raised"))
            } else {
                Ok(())
            }
        }

        fn flush(&self, writer: &LogWriter, _: bool) -> Result<()> {
            for (dataset, findings) in &mut *self.0.lock().unwrap() {
                if !findings.entries.is_empty() {
                    writer.put_findings(*dataset, findings)?;
                    findings.entries.clear();
                }
            }
            Ok(())
        }
    }

    /// Returns the boxes of the results in an epoch with their sums; `None` for a failure.
    fn found(path: &Path, dataset: &str) -> Vec<(Vec<u64>, Vec<u64>, Option<i64>)> {
        let manifest = Manifest::newest(path).unwrap().unwrap();
        let all = results::results(path, &manifest, dataset.as_bytes()).unwrap();
        let found = all.iter().flat_map(|all| &all.groups).flat_map(|group| &group.found);
        let sum = |pairs: &Pairs| match pairs.0.get("sum") {
            Some(Value::Number(Number::Signed(sum))) => *sum,
            other => panic!("{other:?}"),
        };
        let row = |found: &results::AnalysisResult| {
            (found.slab.start.clone(), found.slab.count.clone(), found.found.as_ref().ok().map(sum))
        };
        found.map(row).collect()
    }

    #[test]
    fn what_an_observer_finds_is_read_where_the_data_are() {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let byte = Datatype::integer(1, false, ByteOrder::Little);
        let plain = Definition::new("/plain", byte.clone(), vec![100, 10]);
        let mut rows = Definition::new("/rows", byte.clone(), vec![0, 2]);
        (rows.max, rows.chunk) = (vec![None, Some(2)], Some(vec![8, 2]));
        let mut chunked = Definition::new("/chunked", byte, vec![4, 4]);
        chunked.chunk = Some(vec![2, 2]);
        for segments in [Segments::Log, Segments::Arrow] {
            for value in [1_u8, 3] {
                let options = WriterOptions { segments, ..options() };
                let writer = LogWriter::create(&path, &options).unwrap();
                writer.observe(Arc::new(Sums::default())).unwrap();
                assert!(writer.observe(Arc::new(Sums::default())).is_err());
                let [plain, rows, chunked] =
                    [&plain, &rows, &chunked].map(|definition| writer.define(definition).unwrap());
                writer.write_box(plain, &[5, 0], &[2, 10], &[value; 20]).unwrap();
                let boxes = [
                    Hyperslab::new([50, 3], [1, 2]),
                    Hyperslab::new([60, 0], [0, 9]),
                    Hyperslab::new([70, 3], [3, 1]),
                ];
                writer.write_boxes(plain, &boxes, &[99, 1, value, value, value]).unwrap();
                assert!(writer.write_box(plain, &[0, 0], &[1, 1], &[98]).is_err());
                writer.append(rows, &[value; 6]).unwrap();
                writer.flush().unwrap();
                writer.append(rows, &[value; 4]).unwrap();
                writer.write_chunk(chunked, &[2, 0], 0, &[7; 4]).unwrap();
                writer.close().unwrap();
            }
            commit(&path, &CommitOptions::default()).unwrap();
        }
        let check = || {
            let plain = found(&path, "/plain");
            let expected = |value: i64| {
                [
                    (vec![5, 0], vec![2, 10], Some(20 * value)),
                    (vec![50, 3], vec![1, 2], None),
                    (vec![70, 3], vec![3, 1], Some(3 * value)),
                    (vec![0, 0], vec![1, 1], Some(98)),
                ]
            };
            assert_eq!(plain.len(), 16);
            for value in [1, 3] {
                let many = expected(value).map(|row| plain.iter().filter(|found| **found == row).count());
                assert_eq!(many, [2, 4, 2, 4]);
            }
            // Each writer's rows are at their final place, after the previous writer's rows.
            let file = File::open(&path, &OpenOptions::default()).unwrap();
            let dataset = file.root().unwrap().group().unwrap().get(b"/rows").unwrap().dataset().unwrap();
            let mut bytes = vec![0; 40];
            dataset.read(&Selection::All, &mut bytes).unwrap();
            let mut rows = found(&path, "/rows");
            rows.sort();
            assert_eq!(rows.iter().map(|row| row.1[0]).sum::<u64>(), 20);
            let mut next = 0;
            for (start, count, sum) in rows {
                assert_eq!((start[0], count[1]), (next, 2));
                next += count[0];
                let range = start[0] as usize * 2..next as usize * 2;
                assert_eq!(sum, Some(bytes[range].iter().map(|byte| i64::from(*byte)).sum()));
            }
            assert_eq!(found(&path, "/chunked"), vec![(vec![2, 0], vec![2, 2], None); 4]);
            let manifest = Manifest::newest(&path).unwrap().unwrap();
            let known = results::analyses(&path, &manifest).unwrap();
            let [known] = known.as_slice() else { panic!("{known:?}") };
            assert_eq!(
                (known.analysis, &*known.record, known.runs),
                (AnalysisId([9; 16]), &b"record"[..], true)
            );
            assert_eq!(known.datasets.len(), 3);
        };
        check();
        // Compaction leaves one log instead of four.
        compact(&path, &CompactOptions::default()).unwrap().unwrap();
        check();
        let writer = LogWriter::create(&path, &options()).unwrap();
        for definition in [&plain, &rows, &chunked] {
            writer.announce(writer.define(definition).unwrap(), AnalysisId([9; 16]), &[]).unwrap();
        }
        writer.close().unwrap();
        commit(&path, &CommitOptions::default()).unwrap();
        let manifest = Manifest::newest(&path).unwrap().unwrap();
        let known = results::analyses(&path, &manifest).unwrap();
        assert_eq!((known.len(), known[0].runs, &*known[0].record), (1, false, &b"record"[..]));
        // A manifest that names the same page many times.
        let mut damaged = Manifest::clone(&Manifest::newest(&path).unwrap().unwrap());
        for part in damaged.datasets.iter_mut().flat_map(|stored| &mut stored.parts) {
            part.written.pages = part.written.pages.iter().cycle().take(1 << 19).cloned().collect();
        }
        for error in [
            results::results(&path, &damaged, b"/plain").unwrap_err(),
            results::analyses(&path, &damaged).unwrap_err(),
        ] {
            assert!(error.to_string().contains("pages that have more bytes"), "{error}");
        }
        assert!(!found(&path, "/plain").is_empty());
    }
}
