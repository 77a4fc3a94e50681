//! Edits under failures: at each operation of the disk, and with every loss that a power failure may cause.

use super::failing_disk::{Disk, DiskHandle, SECTOR_BYTES};
use super::redo::{Content, LeftRedo};
use super::*;
use crate::io::Source as _;
use crate::write::options::{DatasetOptions, NewLayout};
use crate::write::sink::MemorySink;
use hyperchunk_format::model::{Attribute, ByteOrder, CharacterSet, Dataspace, Datatype};
use hyperchunk_format::select::Selection;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of losses tried for each interruption.
const LOSSES: u64 = 12;

fn numbers(value: u8, count: usize) -> Vec<u8> {
    vec![value; count]
}

fn attribute(value: u8, size: usize) -> Attribute {
    Attribute {
        name: "a".into(),
        charset: CharacterSet::Ascii,
        datatype: Datatype::integer(1, false, ByteOrder::Little),
        committed: None,
        dataspace: Dataspace::Simple { dims: vec![size as u64], max: vec![Some(size as u64)] },
        data: numbers(value, size),
        creation_order: None,
    }
}

fn space(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().map(|_| None).collect() }
}

/// Makes the file before the edits.
fn old() -> Vec<u8> {
    old_with(&CreateOptions::default())
}

fn old_with(options: &CreateOptions) -> Vec<u8> {
    let sink = Arc::new(MemorySink::default());
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, options).unwrap();
    let byte = || Datatype::integer(1, false, ByteOrder::Little);
    let fixed = Dataspace::Simple { dims: vec![3000], max: vec![Some(3000)] };
    let contiguous = file.create_dataset(NodeId::ROOT, b"c", DatasetOptions::new(byte(), fixed)).unwrap();
    contiguous.write(&Selection::All, &numbers(1, 3000)).unwrap();
    let options = DatasetOptions::new(byte(), space(&[900])).with_layout(NewLayout::Chunked(vec![300]));
    let chunked = file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    chunked.write(&Selection::All, &numbers(1, 900)).unwrap();
    file.set_attribute(NodeId::ROOT, attribute(1, 10)).unwrap();
    file.close().unwrap();
    sink.bytes()
}

/// Makes a file whose root was edited: the first edit of a header moves it, and the superblock changes, too.
fn moved() -> Vec<u8> {
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().file.durable = old();
    let writer = edit_in(&disk, &old()).unwrap();
    for value in [2, 1] {
        writer.set_attribute(NodeId::ROOT, attribute(value, 10)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    disk.lock().unwrap().file.now()
}

/// Sets everything to a value, and commits.
fn change(writer: &Writer, value: u8) -> Result<()> {
    set_all(writer, value)?;
    writer.flush()
}

fn set_all(writer: &Writer, value: u8) -> Result<()> {
    let find = |name: &[u8]| match writer.find(NodeId::ROOT, name)? {
        Some(super::super::NewLink::Hard(id)) => writer.dataset(id),
        _ => Err(Error::invalid("no such dataset")),
    };
    find(b"c")?.write(&Selection::All, &numbers(value, 3000))?;
    find(b"d")?.write(&Selection::All, &numbers(value, 900))?;
    writer.set_attribute(NodeId::ROOT, attribute(value, 10 + 100 * usize::from(value)))
}

/// Returns the value that everything in a file has.
fn value(bytes: &[u8]) -> u8 {
    let file = File::from_bytes(bytes.to_vec(), &OpenOptions::default()).unwrap();
    let root = file.root().unwrap();
    let mut found = root.attribute(b"a").unwrap().unwrap().data;
    for (name, size) in [(&b"c"[..], 3000), (b"d", 900)] {
        let dataset = root.group().unwrap().get(name).unwrap().dataset().unwrap();
        let mut bytes = vec![0; size];
        dataset.read(&Selection::All, &mut bytes).unwrap();
        found.extend(bytes);
    }
    assert!(found.iter().all(|byte| *byte == found[0]), "a commit is visible in part");
    found[0]
}

/// Returns the value of the attribute in a file.
fn attribute_value(bytes: &[u8]) -> u8 {
    let file = File::from_bytes(bytes.to_vec(), &OpenOptions::default()).unwrap();
    file.root().unwrap().attribute(b"a").unwrap().unwrap().data[0]
}

fn edit_in(disk: &Arc<Mutex<Disk>>, before: &[u8]) -> Result<Writer> {
    edit_with(disk, before, &CreateOptions::default())
}

fn edit_with(disk: &Arc<Mutex<Disk>>, before: &[u8], options: &CreateOptions) -> Result<Writer> {
    let file = Arc::new(DiskHandle(Arc::clone(disk), false));
    let journal = Box::new(DiskHandle(Arc::clone(disk), true));
    let base = File::from_bytes(before.to_vec(), &OpenOptions::default())?;
    begin(file, journal, base, ("a.h5", OnlyEdit::default()), options)
}

/// Returns the kind of a file in the place of a journal.
fn content(journal: &[u8]) -> Content {
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().journal.durable = journal.to_vec();
    Content::of(&DiskHandle(disk, true), journal.len() as u64).unwrap()
}

/// Completes an interrupted commit, if there is one, and returns the bytes of the file.
fn settled(file: Vec<u8>, journal: Vec<u8>) -> Vec<u8> {
    let size = journal.len() as u64;
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().file.durable = file;
    disk.lock().unwrap().journal.durable = journal;
    let (file, journal) = (DiskHandle(Arc::clone(&disk), false), DiskHandle(Arc::clone(&disk), true));
    if let Some(left) = LeftRedo::read(&journal, size).unwrap() {
        let length = disk.lock().unwrap().file.now().len() as u64;
        left.apply(&file, length).unwrap();
    }
    disk.lock().unwrap().file.now()
}

/// Returns what a reader that cannot write the file reads: its bytes with the journal's.
fn read_with_journal(file: &[u8], journal: &[u8]) -> Vec<u8> {
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().journal.durable = journal.to_vec();
    let found = DiskHandle(disk, true);
    let Some(left) = LeftRedo::read(&found, journal.len() as u64).unwrap() else {
        return file.to_vec();
    };
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("hyperchunk-redo-{}-{number}", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let opened = crate::io::LocalFile::open(&path);
    std::fs::remove_file(&path).unwrap();
    let source = left.waiting().unwrap().unwrap().over(opened.unwrap()).unwrap();
    let mut bytes = vec![0; usize::try_from(source.size()).unwrap()];
    source.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_commit_is_all_or_nothing_whatever_fails() {
    let disk = all_or_nothing(&old(), &CreateOptions::default(), EVERYTHING);
    assert!(disk.journal.durable.is_empty());
    assert!(!disk.applied.is_empty());
}

#[test]
fn a_commit_within_a_sector_needs_no_journal() {
    let set = |writer: &Writer, value| {
        writer.set_attribute(NodeId::ROOT, attribute(value, 10))?;
        writer.flush()
    };
    let disk = all_or_nothing(&moved(), &CreateOptions::default(), (set, attribute_value));
    assert!(disk.applied.is_empty() && disk.journal.durable.is_empty());
    // One for each commit, and one for the empty journal.
    assert_eq!(disk.syncs, 3 + 1);
}

#[test]
fn a_small_commit_waits_three_times_for_the_disk() {
    let set = |writer: &Writer, value| {
        writer.set_attribute(NodeId::ROOT, attribute(value, 10 + 100 * usize::from(value)))?;
        writer.flush()
    };
    let disk = all_or_nothing(&old(), &CreateOptions::default(), (set, attribute_value));
    assert!(!disk.applied.is_empty());
    // For each of three commits one for the journal and one for the file; one for the empty journal.
    assert_eq!(disk.syncs, 3 * 2 + 1);
    let options = CreateOptions { sync: crate::write::Sync::Never, ..CreateOptions::default() };
    // Without waits, nothing is gained by new bytes in the journal.
    all_or_nothing(&old(), &options, (set, attribute_value));
}

#[test]
fn new_bytes_are_in_the_journal_or_in_the_file() {
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().file.durable = numbers(1, 4096);
    let (file, journal) =
        (Arc::new(DiskHandle(Arc::clone(&disk), false)), DiskHandle(Arc::clone(&disk), true));
    let sink = sink::EditSink::new(file, Redo::new(Box::new(journal)), 4096, (true, OnlyEdit::default()));
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        sink.read_at(offset, &mut bytes).unwrap();
        bytes
    };
    let syncs = || disk.lock().unwrap().syncs;
    // A small number of new bytes is only in the journal until the commit.
    sink.write_at(4096, &numbers(2, 100)).unwrap();
    sink.write_at(0, &numbers(3, 600)).unwrap();
    assert_eq!(read(4000, 196), [numbers(1, 96), numbers(2, 100)].concat());
    assert_eq!(disk.lock().unwrap().file.now().len(), 4096);
    // Others that replace a part of them in the meantime are newer.
    sink.write_at(4146, &numbers(4, 100_000)).unwrap();
    assert_eq!(read(4096, 100), [numbers(2, 50), numbers(4, 50)].concat());
    sink.publish(104_146).unwrap();
    sink.settle().unwrap();
    assert_eq!(syncs(), 2);
    let expected = [numbers(3, 600), numbers(1, 3496), numbers(2, 50), numbers(4, 100_000)].concat();
    assert!(disk.lock().unwrap().file.durable == expected);
    // If the rest of the commit is in one sector, its new bytes are written and synced before it.
    sink.write_at(104_146, &numbers(5, 10)).unwrap();
    sink.write_at(8, &numbers(5, 10)).unwrap();
    sink.publish(104_156).unwrap();
    sink.settle().unwrap();
    // The third is for the emptied journal.
    assert_eq!(syncs(), 2 + 3);
    assert_eq!(disk.lock().unwrap().file.durable.len(), 104_156);
    // The same holds after many bytes, which are not copied to the journal.
    sink.write_at(104_156, &numbers(6, 40_000)).unwrap();
    assert_eq!(disk.lock().unwrap().file.now().len(), 144_156);
    sink.write_at(144_156, &numbers(7, 10)).unwrap();
    sink.write_at(0, &numbers(7, 600)).unwrap();
    sink.publish(144_166).unwrap();
    sink.settle().unwrap();
    assert_eq!(syncs(), 5 + 3);
    assert_eq!(disk.lock().unwrap().file.durable[144_150..], [numbers(6, 6), numbers(7, 10)].concat());
}

#[test]
fn a_guarded_commit_is_all_or_nothing_for_other_programs_too() {
    for oldest in [LibVersion::V18, LibVersion::V110] {
        let options = CreateOptions { oldest, newest: oldest, ..CreateOptions::default() };
        let before = old_with(&options);
        assert_eq!(before[8], if oldest == LibVersion::V18 { 2 } else { 3 });
        all_or_nothing(&before, &CreateOptions { guard: true, ..options }, EVERYTHING);
    }
}

/// Returns whether libhdf5 refuses to open a file.
fn is_guarded(bytes: &[u8]) -> bool {
    bytes[8] > 3 || (bytes[8] == 3 && bytes[11] & 1 != 0)
}

#[test]
fn bytes_between_the_pieces_of_a_sector_are_not_written() {
    let check = |pieces: &[(u64, usize)], needs_journal: bool| {
        let disk = Arc::new(Mutex::new(Disk::default()));
        disk.lock().unwrap().file.durable = numbers(1, 1024);
        let (file, journal) = (DiskHandle(Arc::clone(&disk), false), DiskHandle(Arc::clone(&disk), true));
        let mut redo = Redo::new(Box::new(journal));
        for (start, length) in pieces {
            redo.write(*start, &numbers(7, *length)).unwrap();
        }
        redo.complete(&file, 0, 0).unwrap();
        assert_eq!(disk.lock().unwrap().journal_is_complete(), needs_journal, "{pieces:?}");
        // Another thread writes to free space between them.
        Sink::write_at(&file, 8, &[9, 9]).unwrap();
        redo.apply(&file).unwrap();
        assert_eq!(disk.lock().unwrap().file.now()[8..10], [9, 9], "{pieces:?}");
    };
    check(&[(0, 4), (20, 4)], true);
    check(&[(0, 4), (4, 4)], false);
    check(&[(510, 4)], true);
}

#[test]
fn the_journal_of_an_earlier_commit_does_not_come_back() {
    // The first commit needs the journal, the others are within a sector.
    let set = |writer: &Writer, value: u8| {
        if value == 2 {
            let Some(super::super::NewLink::Hard(id)) = writer.find(NodeId::ROOT, b"c")? else {
                return Err(Error::invalid("no such dataset"));
            };
            writer.dataset(id)?.write(&Selection::All, &numbers(7, 3000))?;
        }
        writer.set_attribute(NodeId::ROOT, attribute(value, 10))?;
        writer.flush()
    };
    let disk = all_or_nothing(&moved(), &CreateOptions::default(), (set, attribute_value));
    assert!(!disk.applied.is_empty());
}

/// A change to a value, which it commits, and a look at the value in a file.
type Change = (fn(&Writer, u8) -> Result<()>, fn(&[u8]) -> u8);
const EVERYTHING: Change = (change, value);

/// Checks three commits after each operation of the disk. Returns the disk after all of them.
fn all_or_nothing(before: &[u8], options: &CreateOptions, (change, value): Change) -> Disk {
    let (mut refused, mut contents) = (0, [0; 3]);
    let run = |left: Option<u64>| {
        let disk = Arc::new(Mutex::new(Disk { left, ..Disk::default() }));
        disk.lock().unwrap().file.durable = before.to_vec();
        let mut committed = 1;
        let _ = edit_with(&disk, before, options).and_then(|writer| {
            for value in 2..5 {
                change(&writer, value)?;
                committed = value;
            }
            writer.close()
        });
        (disk, committed)
    };
    let (disk, committed) = run(None);
    assert_eq!((committed, value(&disk.lock().unwrap().file.now())), (4, 4));
    let steps = disk.lock().unwrap().done;
    assert_eq!(disk.lock().unwrap().unaligned, 0, "a kill would leave torn sectors");
    assert!(steps >= 6, "{steps}");
    for left in 0..steps {
        let (disk, committed) = run(Some(left));
        let disk = disk.lock().unwrap();
        for loss in 0..LOSSES {
            let mut state = left * 1000 + loss + 1;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Also: nothing is lost, all is lost.
                match loss {
                    0 => true,
                    1 => false,
                    _ => state >> 63 == 0,
                }
            };
            let file = disk.file.after_loss(&mut random);
            let journal = match loss {
                // A new journal has its length, and none of its bytes.
                2 if disk.journal.durable.is_empty() => vec![0; disk.journal.now().len()],
                _ => disk.journal.after_loss(&mut random),
            };
            let content = content(&journal);
            contents[content as usize] += 1;
            if content == Content::Other {
                // Its end is lost, too, so that it could be a file of the user's, which stays.
                let (start, rest) = journal.split_at(64);
                assert!(start.iter().all(|byte| *byte == 0) && rest.iter().any(|byte| *byte != 0));
            }
            if content != Content::Journal {
                // Nothing of a commit is in the file before its journal is synced.
                assert!(!is_guarded(&file), "after {left} operations");
                assert!([committed, committed + 1].contains(&value(&file)), "after {left} operations");
            }
            if is_guarded(&file) {
                refused += 1;
            } else if options.guard {
                // Another program reads a whole commit.
                assert!([committed, committed + 1].contains(&value(&file)), "after {left} operations");
            }
            let read = read_with_journal(&file, &journal);
            let file = settled(file, journal);
            assert!(!is_guarded(&file), "after {left} operations");
            let found = value(&file);
            assert_eq!(value(&read), found, "after {left} operations");
            assert!(
                found == committed || found == committed + 1,
                "after {left} operations: {committed} was committed, {found} is there"
            );
        }
    }
    assert_eq!(refused > 0, options.guard);
    assert!(contents[Content::Remnant as usize] > 0, "{contents:?}");
    std::mem::take(&mut *disk.lock().unwrap())
}

/// The file as it is on the disk, for reading.
#[derive(Debug)]
struct OnDisk(Arc<Mutex<Disk>>);

impl crate::io::Source for OnDisk {
    fn size(&self) -> u64 {
        self.0.lock().unwrap().file.now().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        DiskHandle(Arc::clone(&self.0), false).read(offset, buffer);
        Ok(())
    }
}

/// Sets everything to a value in a transaction; returns the last committed value, and false if that is in doubt.
fn transact(writer: &Writer, value: u8, committed: u8) -> (u8, bool) {
    if writer.begin().is_err() {
        return (committed, true);
    }
    let changed = set_all(writer, value).is_ok();
    if changed && writer.end().is_ok() {
        return (value, true);
    }
    if !writer.is_in_transaction() {
        assert!(changed);
        return (value, true);
    }
    (committed, writer.rollback().is_ok())
}

#[test]
fn transactions_that_fail_are_undone_or_committed_and_the_file_is_edited_further() {
    let before = old();
    let run = |failing: Range<u64>| {
        let disk = Arc::new(Mutex::new(Disk { failing, ..Disk::default() }));
        disk.lock().unwrap().file.durable.clone_from(&before);
        let base = File::from_source(Arc::new(OnDisk(Arc::clone(&disk))), None, &OpenOptions::default());
        let (file, journal) = (DiskHandle(Arc::clone(&disk), false), DiskHandle(Arc::clone(&disk), true));
        let (names, options) = (("a.h5", OnlyEdit::default()), CreateOptions::default());
        let writer = begin(Arc::new(file), Box::new(journal), base.unwrap(), names, &options).unwrap();
        let (mut committed, mut known) = (1, true);
        for value in 2..6 {
            if known {
                (committed, known) = transact(&writer, value, committed);
            }
        }
        let closed = (0..40).any(|_| writer.close().is_ok());
        (disk, committed, closed)
    };
    let steps = run(0..0).0.lock().unwrap().done;
    let mut counts = [0; 2];
    for length in [1, 2, 5, 20, steps] {
        for first in 1..=steps {
            let (disk, committed, closed) = run(first..first + length);
            let disk = disk.lock().unwrap();
            let found = value(&settled(disk.file.now(), disk.journal.now()));
            // Unless the journal could not be deleted, which is an error.
            assert!(
                found == committed || (!closed && found == committed + 1),
                "operations {first} to {} failed: {committed} is known, {found} there",
                first + length - 1
            );
            assert!(!closed || value(&disk.file.now()) == committed);
            counts[usize::from(closed)] += 1;
        }
    }
    assert!(counts[1] > 2 * counts[0], "{counts:?}");
}

#[test]
fn a_kill_between_two_writes_leaves_whole_sectors() {
    for (start, length) in [(144, 3_000_000_u64), (0, 2 << 20), (4095, 5000), (513, 1)] {
        let disk = Arc::new(Mutex::new(Disk::default()));
        let (file, journal) = (DiskHandle(Arc::clone(&disk), false), DiskHandle(Arc::clone(&disk), true));
        let mut redo = Redo::new(Box::new(journal)).always();
        redo.write(start, &numbers(7, usize::try_from(length).unwrap())).unwrap();
        redo.complete(&file, 0, 0).unwrap();
        redo.apply(&file).unwrap();
        let disk = disk.lock().unwrap();
        assert_eq!(disk.unaligned, 0);
        assert_eq!(disk.applied.iter().map(|(_, length)| length).sum::<u64>(), length);
        let ends = disk.applied.iter().map(|(start, length)| start + length);
        assert!(ends.rev().skip(1).all(|end| end % SECTOR_BYTES as u64 == 0), "{:?}", disk.applied);
    }
}

#[test]
fn a_journal_is_not_applied_to_a_file_that_was_changed() {
    let before = old();
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().file.durable.clone_from(&before);
    let writer = edit_in(&disk, &before).unwrap();
    let steps = {
        change(&writer, 2).unwrap();
        disk.lock().unwrap().done
    };
    // Interrupted after the journal was complete.
    let journal = (0..steps).rev().find_map(|left| {
        let disk = Arc::new(Mutex::new(Disk { left: Some(left), ..Disk::default() }));
        disk.lock().unwrap().file.durable.clone_from(&before);
        let _ = edit_in(&disk, &before).and_then(|writer| change(&writer, 2));
        let disk = disk.lock().unwrap();
        let journal = disk.journal.durable.clone();
        (!journal.is_empty() && disk.file.now().starts_with(&before)).then(|| (journal, disk.file.now()))
    });
    let (journal, mut file) = journal.unwrap();
    assert_eq!(value(&settled(file.clone(), journal.clone())), 2);
    file[10] ^= 1;
    let size = journal.len() as u64;
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().file.durable = file;
    disk.lock().unwrap().journal.durable = journal;
    let (file, journal) = (DiskHandle(Arc::clone(&disk), false), DiskHandle(disk, true));
    let left = LeftRedo::read(&journal, size).unwrap().unwrap();
    assert_eq!(left.apply(&file, 1 << 20).unwrap_err().kind(), ErrorKind::Changed);
    // A file that lost the commit's new data, to a backup for example.
    assert_eq!(left.apply(&file, before.len() as u64).unwrap_err().kind(), ErrorKind::Changed);
}

/// Makes a file whose edit was interrupted when its journal, which replaces byte 10, was complete.
fn interrupted(folder: &Path) -> std::path::PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join("a.h5");
    std::fs::write(&path, old()).unwrap();
    let sink = LocalSink::editable(&path, super::super::Sync::Commit, crate::io::Locking::Default).unwrap();
    let journal =
        journal_file::LocalJournal::new(&path, path.metadata().unwrap(), super::super::Sync::Commit).unwrap();
    let mut redo = Redo::new(Box::new(journal)).always();
    redo.write(10, &[77]).unwrap();
    redo.complete(&sink, 0, 0).unwrap();
    sink.release();
    path
}

#[test]
fn whoever_opens_a_file_completes_its_edit() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-{}", std::process::id()));
    let path = interrupted(&folder);
    let link = folder.join("link.h5");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &link).unwrap();
    #[cfg(not(unix))]
    let link = {
        drop(link);
        path.clone()
    };
    assert!(settle(&link).unwrap());
    assert_eq!(std::fs::read(&path).unwrap()[10], 77);
    assert!(!redo_path(&path).exists());
    assert!(!settle(&path).unwrap());
    // An incomplete journal is dropped.
    std::fs::write(redo_path(&path), [&b"Hyperchunk redo1"[..], &[0; 48], b"a part of it"].concat()).unwrap();
    assert!(settle(&path).unwrap());
    assert_eq!(std::fs::read(&path).unwrap()[10], 77);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_with_a_journals_name_that_is_none_stays() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-none-{}", std::process::id()));
    let path = interrupted(&folder);
    let journal = redo_path(&path);
    let zeros = vec![0; 100_000];
    let picture = [&zeros[..], b"a white pixel"].concat();
    let complete = std::fs::read(&journal).unwrap();
    // A power failure took all but the end of a journal.
    let beheaded = [&zeros[..64], &complete[complete.len() - 64..]].concat();
    let short = [0; 10];
    let remnants = [&b""[..], b"Hyper", &zeros, &short, &beheaded];
    for thesis in [&b"thesis"[..], b"Hyperchunk is a library", b"Hyperchunk redo1 is a file format", &picture]
        .into_iter()
        .chain(remnants)
    {
        std::fs::write(&journal, thesis).unwrap();
        assert!(settle_to_read(&path).unwrap().is_none());
        assert_eq!(std::fs::read(&journal).unwrap(), thesis);
        // The place is needed for editing, and remains of a journal may go.
        match settle(&path) {
            Ok(dropped) => assert!(dropped && remnants.contains(&thesis) && !journal.exists()),
            Err(error) => {
                assert!(!remnants.contains(&thesis), "{error}");
                assert_eq!(
                    (error.kind(), std::fs::read(&journal).unwrap()),
                    (ErrorKind::Exists, thesis.into())
                );
            }
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), old());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg(unix)]
fn a_second_name_of_a_journal_keeps_its_bytes() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-names-{}", std::process::id()));
    let path = interrupted(&folder);
    let (journal, second) = (redo_path(&path), folder.join("second"));
    std::fs::hard_link(&journal, &second).unwrap();
    let bytes = std::fs::read(&second).unwrap();
    assert!(settle(&path).unwrap());
    assert!(!journal.exists());
    assert_eq!(std::fs::read(&second).unwrap(), bytes);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg(unix)]
fn a_journal_in_another_users_folder_does_not_count() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-folder-{}", std::process::id()));
    let path = interrupted(&folder);
    let journal = redo_path(&path);
    let is_root = chown(&folder, Some(12_345), None).is_ok() && chown(&journal, Some(12_345), None).is_ok();
    if is_root {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!settle(&path).unwrap());
        chown(&journal, Some(0), None).unwrap();
    }
    // Others could write to it.
    std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(!settle(&path).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), old());
    std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(settle(&path).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg(unix)]
fn test_the_journal_of_a_file_that_is_gone_prevents_a_new_one_unless_another_user_made_it() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-gone-{}", std::process::id()));
    let path = interrupted(&folder);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let journal = redo_path(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(settle_to_replace(&path).unwrap_err().kind(), ErrorKind::Exists);
    // Only root may give files away.
    if chown(&journal, Some(12_345), None).is_ok() {
        settle_to_replace(&path).unwrap();
    }
    assert!(journal.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg(unix)]
fn a_journal_that_another_user_made_does_not_count() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-other-{}", std::process::id()));
    let path = interrupted(&folder);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let journal = redo_path(&path);
    // Only root may give files away; without it, the rule has no other user.
    if std::os::unix::fs::chown(&journal, Some(12_345), None).is_ok() {
        assert!(!settle(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), old());
        std::os::unix::fs::chown(&journal, Some(0), None).unwrap();
    }
    assert!(settle(&path).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_external_link_leads_to_the_completed_edit() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-redo-link-{}", std::process::id()));
    let path = interrupted(&folder);
    let from = folder.join("from.h5");
    let file = Writer::create(&from, &CreateOptions::default()).unwrap();
    let target = super::super::NewLink::External { file: "a.h5".into(), path: "c".into() };
    file.link(NodeId::ROOT, b"link", target).unwrap();
    file.close().unwrap();
    let file = File::open(&from, &OpenOptions::default()).unwrap();
    // The edited byte is of the signature's superblock, so that the file is refused when the edit is complete.
    let refused = file.root().unwrap().group().unwrap().get(b"link").unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap()[10], 77, "{refused}");
    assert!(!redo_path(&path).exists());
    // Windows deletes no open file.
    assert!(std::fs::remove_dir_all(folder).is_ok() || cfg!(windows));
}
