//! Scan of a file's bytes for object headers.

use super::extents::Extents;
use super::find::KnownObjects;
use super::holes;
use crate::io::Source;
use crate::{File, Object, OpenOptions, Result};
use hyperchunk_format::model::ObjectKind;
use std::path::Path;
use std::sync::Arc;

/// Number of bytes read at a time.
const STEP_BYTES: usize = 1 << 20;
/// Number of bytes by which a candidate for an object header is recognized.
const PREFIX_BYTES: usize = 24;
/// Maximum number of structures visited while one candidate is parsed.
const CANDIDATE_VISITS: u64 = 1 << 14;
/// Maximum number of candidates in one file.
const MAX_CANDIDATES: u64 = 1 << 20;
/// Maximum number of bytes in the first blocks of all candidates, as a multiple of the file's size.
const MAX_PASSES: u64 = 16;
/// Maximum size in bytes of the first block of a version 1 header.
const MAX_V1_BYTES: u32 = 1 << 20;
/// Largest type of a header message in the specification.
const LAST_MESSAGE_TYPE: u8 = 0x18;

/// Objects that a scan found, and notes about it.
pub(super) struct ScanResult {
    pub(super) objects: Vec<Object>,
    pub(super) notes: Vec<String>,
}

/// Finds objects that no link leads to. Skips the data of known objects, since an HDF5 file may be stored
/// inside a dataset.
pub(super) fn orphans(
    source: &Arc<dyn Source>,
    path: &Path,
    file: &File,
    options: &OpenOptions,
    found: &KnownObjects,
    extents: &Extents,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ScanResult> {
    let mut limited = options.clone();
    limited.limits.visits = CANDIDATE_VISITS;
    let probe = File::assume(Arc::clone(source), path, &limited, file.superblock().clone())?;
    let base = file.superblock().base;
    let mut scanned = ScanResult { objects: Vec::new(), notes: Vec::new() };
    let mut bytes_left = source.size().saturating_mul(MAX_PASSES).saturating_add(64 << 20);
    let mut candidates_left = MAX_CANDIDATES;
    let mut buffer = vec![0; STEP_BYTES + PREFIX_BYTES];
    let mut at = base;
    while at < source.size() {
        // Skips known data and holes. A header may begin with zeros inside a hole, just before its end.
        if let Some(end) = at.checked_sub(base).and_then(|address| extents.end_at(address)) {
            at = base.saturating_add(end);
            continue;
        }
        let data = holes::next_data(&**source, at).start;
        if data > at.saturating_add(PREFIX_BYTES as u64) {
            at = data.min(source.size()).saturating_sub(PREFIX_BYTES as u64);
            if data >= source.size() {
                break;
            }
        }
        let length = usize::try_from(source.size() - at).unwrap_or(usize::MAX).min(buffer.len());
        let Some(bytes) = buffer.get_mut(..length) else { break };
        source.read_at(at, bytes)?;
        for (offset, prefix) in bytes.windows(PREFIX_BYTES).enumerate().take(STEP_BYTES) {
            let address = at - base + offset as u64;
            let Some(length) = candidate(prefix) else { continue };
            if found.has(address) || extents.overlaps(&(address..address + 1)) {
                continue;
            }
            let left = bytes_left.checked_sub(length.min(source.size())).zip(candidates_left.checked_sub(1));
            let Some(left) = left else {
                scanned.notes.push(format!(
                    "the scan for objects stopped at offset {}: the file has too many bytes that look like headers",
                    at + offset as u64
                ));
                return Ok(scanned);
            };
            (bytes_left, candidates_left) = left;
            if is_object(&probe, address)? {
                scanned.objects.push(file.object(address)?);
            }
        }
        progress(STEP_BYTES as u64);
        at += STEP_BYTES as u64;
    }
    Ok(scanned)
}

/// Returns the size of the first block if `prefix` may be the start of an object header.
fn candidate(prefix: &[u8]) -> Option<u64> {
    if prefix.starts_with(b"OHDR") {
        let flags = *prefix.get(5)?;
        let start = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
        let width = 1 << (flags & 3);
        let field = prefix.get(start..(start + width).min(prefix.len())).unwrap_or_default();
        return Some(field.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte)));
    }
    // Version 1: version, reserved byte, number of messages, references, size, padding; then the first
    // message's type, size, flags and reserved bytes. Headers are not always aligned.
    let [1, 0, count, more, r0, r1, 0, 0, l0, l1, l2, 0, 0, 0, 0, 0, kind, 0, m0, m1, _, 0, 0, 0] = *prefix
    else {
        return None;
    };
    let length = u32::from_le_bytes([l0, l1, l2, 0]);
    let message = u32::from(u16::from_le_bytes([m0, m1]));
    let plausible = (count, more) != (0, 0)
        && (r0, r1) != (0, 0)
        && (8..=MAX_V1_BYTES).contains(&length)
        && length.is_multiple_of(8)
        && message.is_multiple_of(8)
        && message + 8 <= length
        && kind <= LAST_MESSAGE_TYPE;
    plausible.then_some(length.into())
}

/// Returns whether there is an object with valid messages at an address.
fn is_object(probe: &File, address: u64) -> Result<bool> {
    let opened = probe.object(address).and_then(|object| match object.kind() {
        ObjectKind::Group => Ok(()),
        ObjectKind::Dataset => object.dataset().map(drop),
        ObjectKind::Datatype => object.datatype().map(drop),
    });
    match opened {
        Err(error) if error.is_of_reading() => Err(error),
        opened => Ok(opened.is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_judged_by_their_start() {
        let mut version_2 = [0; PREFIX_BYTES];
        version_2[..8].copy_from_slice(b"OHDR\x02\x00\x78\x00");
        assert_eq!(candidate(&version_2), Some(0x78));
        let mut version_1 = [0; PREFIX_BYTES];
        version_1[..20].copy_from_slice(&[1, 0, 4, 0, 1, 0, 0, 0, 0x18, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0x28, 0]);
        assert_eq!(candidate(&version_1), Some(0x118));
        for (place, byte) in [(0, 2), (2, 0), (13, 1), (16, 0x19), (18, 1), (19, 2)] {
            let mut other = version_1;
            other[place] = byte;
            assert_eq!(candidate(&other), None, "{place}");
        }
    }
}
