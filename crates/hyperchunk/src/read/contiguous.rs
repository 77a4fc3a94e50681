//! Contiguous data: in the file, in the object header (compact), or in external files.

use super::fetch::{Part, Parts, Scratch};
use super::output::Output;
use super::workers::spread;
use crate::dataset::Dataset;
use crate::external::read_raw;
use crate::io::Source;
use crate::{Error, Result};
use hyperchunk_format::model::Layout;
use hyperchunk_format::select::{Selection, runs};
use std::sync::Arc;

/// Maximum number of bytes that one thread reads at a time.
const MAX_JOB_BYTES: u64 = 4 << 20;
/// Maximum gap in bytes between selected elements that are read together.
const MAX_GAP_BYTES: u64 = 4 << 10;
/// Size in bytes from which a run is read by itself, directly into the output, and not joined with others.
const MIN_DIRECT_BYTES: u64 = 32 << 10;

/// Source of contiguous data.
pub(super) enum Bytes<'a> {
    /// The object header.
    Memory(&'a [u8]),
    /// The file, from this offset on.
    File(&'a Dataset, u64),
    /// External files: each one's start and length in the data, the file, and the offset in it.
    External(Vec<(u64, u64, Arc<dyn Source>, u64)>),
}

/// A part of a read: consecutive runs that are read at once.
struct Job {
    /// The offset and length of the bytes to read.
    offset: u64,
    length: u64,
    /// The first run: its index in the output, and its number of elements.
    first: (usize, usize),
    /// The other runs: offset in the job's bytes, index in the output, number of elements.
    others: Vec<(u64, usize, usize)>,
}

/// Reads a selection of a compact or contiguous dataset.
pub(super) fn read(dataset: &Dataset, selection: &Selection, output: &Output<'_>) -> Result<()> {
    let Some(bytes) = locate(dataset)? else {
        let fill = dataset.unwritten()?;
        let count = selection.count(dataset.dims())?;
        // SAFETY: this thread is alone.
        return unsafe { output.fill(0, to_usize(count)?, fill.as_deref()) };
    };
    let threads = dataset.threads_for(output.bytes() / 4);
    spread(threads, Jobs::new(dataset, selection, output)?, Vec::new, |scratch: &mut Vec<u8>, job| {
        let job = job?;
        if job.others.is_empty() && output.is_copy() {
            let (target, count) = job.first;
            // SAFETY: jobs have disjoint targets.
            return bytes.read(job.offset, unsafe { output.direct(target, count) }?);
        }
        crate::room::resize(scratch, to_usize(job.length)?)?;
        bytes.read(job.offset, scratch)?;
        job.scatter(output, scratch)
    })
}

/// Lists the parts of the file that a selection of a contiguous dataset needs. Data that are not in the file
/// itself are read at once.
pub(super) fn plan<'a>(
    dataset: &'a Dataset,
    selection: &Selection,
    output: &'a Output<'a>,
    parts: &mut Parts<'a>,
) -> Result<()> {
    let Some(Bytes::File(_, start)) = locate(dataset)? else { return read(dataset, selection, output) };
    let source = &dataset.object().file().0.source;
    for job in Jobs::new(dataset, selection, output)? {
        let job = job?;
        let range = start + job.offset..start + job.offset + job.length;
        let work = move |bytes: &[u8], _: &mut Scratch| job.scatter(output, bytes);
        parts.add(source, Part { range, work: Box::new(work) });
    }
    Ok(())
}

impl Job {
    /// Copies the elements of a job into the output; `stored` are its bytes.
    fn scatter(&self, output: &Output<'_>, stored: &[u8]) -> Result<()> {
        let (target, count) = self.first;
        for (from, target, count) in std::iter::once(&(0, target, count)).chain(&self.others) {
            let from = to_usize(*from)?;
            let run = from.checked_add(count * output.stored_size).and_then(|end| stored.get(from..end));
            // SAFETY: jobs have disjoint targets, and each is of one thread.
            unsafe { output.put(*target, run.ok_or_else(|| Error::invalid("a run is outside its job"))?) }?;
        }
        Ok(())
    }
}

/// Finds the data; `None` if no space is allocated for them.
pub(super) fn locate(dataset: &Dataset) -> Result<Option<Bytes<'_>>> {
    let needed = dataset.elements()?.checked_mul(dataset.datatype().size);
    let needed = needed.ok_or_else(|| Error::limit("more than 2^64 bytes"))?;
    let too_small =
        |size: u64| Error::corrupt(format!("the dataset has {size} bytes of data, expected {needed}"));
    match dataset.layout() {
        Layout::Compact { data } if (data.len() as u64) < needed => Err(too_small(data.len() as u64)),
        Layout::Compact { data } => Ok(Some(Bytes::Memory(data))),
        _ if !dataset.external().is_empty() => external(dataset, needed).map(Some),
        Layout::Contiguous { size: Some(size), address: Some(_) } if *size < needed => Err(too_small(*size)),
        Layout::Contiguous { address: Some(address), .. } => {
            let file = dataset.object().file();
            let offset = file.superblock().base.checked_add(*address);
            let end = offset.and_then(|offset| offset.checked_add(needed)).filter(|end| *end <= file.size());
            match (offset, end) {
                (Some(offset), Some(_)) => Ok(Some(Bytes::File(dataset, offset))),
                _ => Err(crate::io::ends_before(file.size(), offset.unwrap_or(*address), to_usize(needed)?)),
            }
        }
        _ => Ok(None),
    }
}

fn external(dataset: &Dataset, needed: u64) -> Result<Bytes<'_>> {
    let file = dataset.object().file();
    let mut parts = Vec::new();
    let mut start = 0_u64;
    for part in dataset.external() {
        if start >= needed {
            break;
        }
        let length = part.size.unwrap_or(u64::MAX).min(needed - start);
        parts.push((start, length, file.0.external.open_raw(file, &part.name)?, part.offset));
        start += length;
    }
    if start < needed {
        return Err(Error::corrupt(format!(
            "the external files have {start} bytes of data, expected {needed}"
        )));
    }
    Ok(Bytes::External(parts))
}

impl Bytes<'_> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::Memory(bytes) => {
                let start = to_usize(offset)?;
                let part = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(part.ok_or_else(|| Error::corrupt("the compact data are too short"))?);
                Ok(())
            }
            Self::File(dataset, start) => dataset.object().file().0.source.read_at(start + offset, buffer),
            Self::External(parts) => {
                let end = offset + buffer.len() as u64;
                for (start, length, file, at) in parts {
                    let (from, to) = (offset.max(*start), end.min(start + length));
                    if from < to {
                        let place = to_usize(from - offset)?..to_usize(to - offset)?;
                        let at = at
                            .checked_add(from - start)
                            .ok_or_else(|| Error::corrupt("an offset past 2^64 - 1"))?;
                        read_raw(file.as_ref(), at, &mut buffer[place])?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Iterator that converts runs to jobs: long runs are cut, short ones that are close together are joined.
struct Jobs<R> {
    runs: R,
    /// The rest of a run: first byte and number of bytes.
    pending: Option<(u64, u64)>,
    target: usize,
    size: u64,
}

impl<'a> Jobs<Box<dyn Iterator<Item = (u64, u64)> + Send + 'a>> {
    fn new(dataset: &'a Dataset, selection: &'a Selection, output: &Output<'_>) -> Result<Self> {
        let runs = Box::new(runs(selection, dataset.dims())?);
        Ok(Self { runs, pending: None, target: 0, size: output.stored_size as u64 })
    }
}

impl<R: Iterator<Item = (u64, u64)>> Jobs<R> {
    fn next_run(&mut self) -> Option<(u64, u64)> {
        self.pending
            .take()
            .or_else(|| self.runs.next().map(|(first, count)| (first * self.size, count * self.size)))
    }

    fn build(&mut self, (offset, bytes): (u64, u64)) -> Result<Job> {
        let piece = MAX_JOB_BYTES.max(self.size) / self.size * self.size;
        let length = bytes.min(piece);
        let first = (self.target, to_usize(length / self.size)?);
        self.target += first.1;
        let mut job = Job { offset, length, first, others: Vec::new() };
        if length < bytes {
            self.pending = Some((offset + length, bytes - length));
        }
        if length >= MIN_DIRECT_BYTES {
            return Ok(job);
        }
        while let Some((start, bytes)) = self.next_run() {
            let end = job.offset + job.length;
            let fits = start >= end && start - end <= MAX_GAP_BYTES && start - job.offset + bytes <= piece;
            if !fits || bytes >= MIN_DIRECT_BYTES {
                self.pending = Some((start, bytes));
                break;
            }
            let count = to_usize(bytes / self.size)?;
            job.others.push((start - job.offset, self.target, count));
            job.length = start - job.offset + bytes;
            self.target += count;
        }
        Ok(job)
    }
}

impl<R: Iterator<Item = (u64, u64)>> Iterator for Jobs<R> {
    type Item = Result<Job>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.next_run()?;
        Some(self.build(run))
    }
}

/// Converts a count in the file to one in memory.
fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::limit("larger than the address space"))
}
