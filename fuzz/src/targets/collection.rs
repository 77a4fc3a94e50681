//! Collections: many files as one. No file that a collection names is opened.

use super::sidecar::{HEAD_SIZE_AT, HEADER_BYTES, WHOLE_SIZE_AT, copy, plain, seal};
use hyperchunk::collection::{CollectOptions, Collection, Concat, FileStatistics};
use hyperchunk::{Limits, OpenOptions};
use std::io::Read as _;
use std::path::Path;

/// A collection whose length and digest are made right: damage is what a stranger might have written on purpose.
pub fn collection(data: &[u8]) {
    drop(read(data));
}

/// Parses a collection, and checks what its readers rely on; `None` if it is refused.
pub fn read(data: &[u8]) -> Option<Collection> {
    let mut data = data.to_vec();
    seal(&mut data);
    let limits = Limits::default();
    let found = Collection::parse(data.into(), &limits).ok()?;
    for variable in found.variables() {
        let rows = if variable.axis.is_some() { found.files().len() } else { 0 };
        assert_eq!(variable.lengths.len(), rows);
        assert!(variable.lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length)).is_some());
        let statistics = variable.file_statistics(found.files().len()).expect("checked statistics");
        assert!(statistics.is_none_or(|statistics| statistics.len() == found.files().len()));
        assert!(variable.units.keys().all(|file| *file < found.files().len() as u64));
    }
    for number in 0..found.files().len().min(16) {
        if let Some(index) = found.member(number).ok().and_then(|member| member.index(&limits).ok()) {
            drop(index.bytes(0, 64));
            drop(index.chunks(0, &[2, 3], u64::MAX));
        }
    }
    assert!(found.member(found.files().len()).is_err());
    // What is accepted can be written, and is then the same.
    let again = Collection::parse(found.encode().ok()?.into(), &limits).ok()?;
    assert_eq!(again.files(), found.files());
    assert_eq!(again.variables(), found.variables());
    Some(found)
}

/// A collection of a file, twice, as an input for the target; `None` if the file cannot be joined with itself. Its
/// sections are stored as they are, so that damage is not just damage of what was compressed.
#[must_use]
pub fn input(file: &Path) -> Option<Vec<u8>> {
    let mut options = OpenOptions::default();
    options.threads = 1;
    let mut how = CollectOptions::default();
    how.concat = Some(Concat::FirstAxis);
    let names = vec![file.to_str()?.to_owned(); 2];
    let mut built = Collection::collect(&names, &options, &how, &|_| ()).ok()?;
    let statistics = [Some(FileStatistics { count: 3, nan: 1, bounds: Some((1, 9)) }), None];
    if let Some(path) = built.variables().first().map(|variable| variable.path.clone()) {
        built.set_statistics(&path, &statistics).ok()?;
    }
    let built = built.encode().ok()?;
    let length = u32::from_le_bytes(built.get(HEAD_SIZE_AT..WHOLE_SIZE_AT)?.try_into().ok()?) as usize;
    let (mut old, mut rest) = built.get(HEADER_BYTES..)?.split_at_checked(length)?;
    let (mut head, mut stored) = (Vec::new(), Vec::new());
    // How the files are joined, and the number of sections; each has a packed and an unpacked size.
    copy(&mut old, &mut head)?;
    for _ in 0..copy(&mut old, &mut head)? {
        let packed = copy(&mut old, &mut Vec::new())?;
        let (section, after) = rest.split_at_checked(usize::try_from(packed).ok()?)?;
        let mut bytes = Vec::new();
        zstd::stream::read::Decoder::new(section).ok()?.read_to_end(&mut bytes).ok()?;
        let plain = plain(&bytes)?;
        super::sidecar::put(&mut head, plain.len() as u64);
        stored.extend_from_slice(&plain);
        rest = after;
        copy(&mut old, &mut head)?;
    }
    let mut input = built.get(..HEADER_BYTES)?.to_vec();
    input[HEAD_SIZE_AT..WHOLE_SIZE_AT].copy_from_slice(&u32::try_from(head.len()).ok()?.to_le_bytes());
    input.extend_from_slice(&head);
    input.extend_from_slice(&stored);
    input.extend_from_slice(rest);
    seal(&mut input);
    Some(input)
}
