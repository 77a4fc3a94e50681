#![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

use super::*;
use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::write::Sync;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of this test alone, on tmpfs if possible.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        register();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("hyperchunk-store-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(super) fn options() -> WriterOptions {
    WriterOptions {
        sync: Sync::Never,
        session: Session::default(),
        statistics: true,
        ..WriterOptions::default()
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 % 251) as u8).collect()
}

/// Writes some of everything, large and small, with two flushes.
fn write(writer: &LogWriter) -> u32 {
    let mut definition =
        Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![1000, 1000]);
    definition.max = vec![None, Some(1000)];
    definition.chunk = Some(vec![100, 100]);
    let a = writer.define(&definition).unwrap();
    assert_eq!(writer.define(&definition).unwrap(), a);
    for row in 0..100 {
        writer.write_box(a, &[row, 0], &[1, 1000], &bytes(1000)).unwrap();
    }
    writer.write_box(a, &[500, 0], &[400, 1000], &bytes(400_000)).unwrap();
    writer.flush().unwrap();
    writer.write_chunk(a, &[200, 100], 1, &bytes(77)).unwrap();
    writer.set_extent(a, &[1200, 900]).unwrap();
    let two = [Hyperslab::new([1100, 3], [2, 2]), Hyperslab::new([1199, 899], [1, 1])];
    writer.write_boxes(a, &two, &bytes(5)).unwrap();
    writer.put_image(&bytes(100_000)).unwrap();
    a
}

#[test]
fn a_log_comes_back_by_its_index_and_by_its_batches() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let a = write(&writer);
    let own = writer.written(a).unwrap();
    let ticket = writer.close().unwrap();
    assert!(writer.write_box(a, &[0, 0], &[1, 1], &[1]).is_err());
    let log = Log::open(writer.log(), Some(&ticket), 0).unwrap();
    assert_eq!(log.ending, LogEnd::Finished);
    assert_eq!(Ticket::from_bytes(&ticket.to_bytes()).unwrap(), ticket);
    let salvaged = Log::salvage(writer.log(), 0).unwrap();
    assert_eq!(salvaged.defined, log.defined);
    assert_eq!(salvaged.image, log.image);
    assert_eq!(salvaged.length, log.length);
    assert_eq!(log.read_image().unwrap().unwrap(), bytes(100_000));
    let pieces: Vec<Piece> = own.pieces.iter().collect();
    assert_eq!(pieces.len(), 104);
    for log in [&log, &salvaged] {
        let (number, written) = &log.written[0];
        assert_eq!((*number, &written.extents), (a, &own.extents));
        assert!(written.pieces.iter().eq(pieces.iter().cloned()));
        let statistics = written.statistics.unwrap();
        assert_eq!((statistics.count, statistics.nan), (500_005, 0));
        for piece in &pieces {
            let mut found = vec![0; piece.length as usize];
            log.read_at(piece.offset, &mut found).unwrap();
            if piece.slab.count != [1, 1] {
                assert_eq!(found, bytes(found.len()));
            }
        }
    }
    assert!(log.verify().unwrap() > 500_000);
    let (id, definition) = log.definition(a).unwrap();
    assert_eq!(id, definition.id().unwrap());
    // Only the writes after the first flush.
    let first = salvaged.written[0].1.pieces.len();
    let later = Log::open(writer.log(), None, 0).unwrap();
    assert_eq!(later.written[0].1.pieces.len(), first);
}

#[test]
fn a_log_that_is_cut_anywhere_gives_back_what_is_whole_and_nothing_else() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let a = write(&writer);
    let all: Vec<Piece> = writer.written(a).unwrap().pieces.iter().collect();
    writer.close().unwrap();
    let whole = std::fs::read(writer.log()).unwrap();
    let cut_at = folder.0.join("cut.log");
    for cut in (0..whole.len()).step_by(whole.len() / 400).chain(whole.len() - 200..whole.len()) {
        std::fs::write(&cut_at, &whole[..cut]).unwrap();
        match Log::salvage(&cut_at, 0) {
            Ok(log) => {
                for (_, written) in &log.written {
                    assert!(written.pieces.iter().all(|piece| all.contains(&piece)), "cut at {cut}");
                    assert!(written.pieces.iter().all(|piece| piece.offset + piece.length <= cut as u64));
                }
                assert!(log.length <= cut as u64);
                assert_ne!(log.ending, LogEnd::Finished);
            }
            Err(error) => assert!(cut < 128, "cut at {cut}: {error}"),
        }
        assert!(Log::open(&cut_at, None, 0).is_ok_and(|log| log.ending != LogEnd::Finished) || cut < 128);
    }
    for at in (128..whole.len()).step_by(997) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&cut_at, &damaged).unwrap();
        let log = Log::salvage(&cut_at, 0).unwrap();
        for (_, written) in &log.written {
            assert!(
                written
                    .pieces
                    .iter()
                    .all(|piece| { !(piece.offset..piece.offset + piece.length).contains(&(at as u64)) })
            );
        }
    }
}

#[test]
fn a_manifest_comes_back_and_a_torn_one_is_no_epoch() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let a = write(&writer);
    writer.close().unwrap();
    let log = Log::open(writer.log(), None, 0).unwrap();
    let (id, definition) = log.definition(a).unwrap();
    let mut manifest = Manifest { store: StoreId::new(), number: 1, time: 5, ..Manifest::default() };
    manifest.logs.push(LogPart {
        writer: log.writer(),
        length: log.length,
        trailer: log.trailer,
        epoch: 1,
        finished: true,
        salvaged: false,
        priority: -1,
    });
    let written = log.written[0].1.clone();
    manifest.datasets.push(StoredDataset {
        id,
        definition,
        extent: vec![1200, 900],
        parts: vec![Part { log: 0, epoch: 1, written }],
    });
    manifest.conflicts.push(Conflict {
        path: b"/a".to_vec(),
        slab: Hyperslab::new([1], [2]),
        what: "elements".to_owned(),
        kept: log.writer(),
        other: WriterId::new(),
    });
    manifest.image = bytes(1000);
    manifest.renumber();
    assert_eq!(Manifest::newest(&path).unwrap(), None);
    assert!(manifest.publish(&path, true).unwrap());
    assert!(!manifest.publish(&path, true).unwrap());
    assert_eq!(*Manifest::newest(&path).unwrap().unwrap(), manifest);
    let bytes = manifest.encode().unwrap();
    std::fs::write(Manifest::path(&path, 2), &bytes[..bytes.len() - 1]).unwrap();
    std::fs::write(Manifest::path(&path, 3), b"").unwrap();
    assert_eq!(Manifest::newest(&path).unwrap().unwrap().number, 1);
    assert_eq!(Manifest::numbers(&path).unwrap(), [1, 2, 3]);
}

#[test]
fn a_million_strided_writes_are_a_small_index() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let options = WriterOptions { statistics: false, ..options() };
    let writer = LogWriter::create(&path, &options).unwrap();
    let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![1 << 40]);
    let a = writer.define(&definition).unwrap();
    let count = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    for at in 0..count {
        writer.write_box(a, &[at * 40], &[10], &[at as u8; 10]).unwrap();
    }
    writer.close().unwrap();
    let log = Log::open(writer.log(), None, 0).unwrap();
    let written = &log.written[0].1;
    assert_eq!(written.pieces.len(), count);
    assert!(written.pieces.entries() < 10, "{} entries", written.pieces.entries());
}
