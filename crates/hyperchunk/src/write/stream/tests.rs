use super::*;
use crate::io::upload::PartCallback;
use crate::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Writer};
use crate::{File, OpenOptions};
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype};
use hyperchunk_format::select::{Axis, Selection};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const PART: u64 = 5 * MIB;

/// A store that keeps its parts, after a delay.
#[derive(Debug, Default)]
struct Store(Mutex<UploadState>, Condvar);

#[derive(Debug, Default)]
struct UploadState {
    parts: BTreeMap<usize, Vec<u8>>,
    object: Option<Vec<u8>>,
    aborted: usize,
    under_way: u64,
    most: u64,
    /// The part that cannot be sent.
    fails: Option<usize>,
    /// Parts wait while this is set.
    closed: bool,
}

#[derive(Debug)]
struct TestUpload(Arc<Store>);

impl Upload for TestUpload {
    fn send(&self, number: usize, bytes: Vec<u8>, done: PartCallback) {
        let store = Arc::clone(&self.0);
        {
            let mut kept = locked(&store.0);
            kept.under_way += bytes.len() as u64;
            kept.most = kept.most.max(kept.under_way);
        }
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(3 * (number as u64 % 4)));
            let mut kept = locked(&store.0);
            while kept.closed {
                kept = store.1.wait(kept).unwrap();
            }
            kept.under_way -= bytes.len() as u64;
            let result = match kept.fails {
                Some(fails) if fails == number => Err(Error::new(ErrorKind::Io, "no room")),
                _ => Ok(()),
            };
            assert!(kept.parts.insert(number, bytes).is_none(), "part {number} comes twice");
            drop(kept);
            done(result);
        });
    }

    fn complete(&self, parts: usize, size: u64) -> Result<StoredObject> {
        let mut kept = locked(&self.0.0);
        assert!(kept.parts.keys().copied().eq(0..parts) && kept.object.is_none());
        let object = std::mem::take(&mut kept.parts).into_values().collect::<Vec<_>>().concat();
        assert_eq!(object.len() as u64, size);
        kept.object = Some(object);
        Ok(StoredObject { size, etag: Some("\"one\"".into()) })
    }

    fn abort(&self) {
        locked(&self.0.0).aborted += 1;
    }
}

fn started(at_once: usize) -> (Arc<Store>, Writer) {
    let store = Arc::<Store>::default();
    let mut sink = StreamSink::new(Arc::new(TestUpload(Arc::clone(&store))), "s3://b/k", PART, at_once, 2048);
    sink.hopeless = Duration::from_millis(300);
    (store, Writer::create_in(Arc::new(sink), Some("s3://b/k"), &CreateOptions::default()).unwrap())
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn space(rows: u64, columns: u64) -> Dataspace {
    Dataspace::Simple { dims: vec![rows, columns], max: vec![Some(rows), Some(columns)] }
}

fn bytes() -> Datatype {
    Datatype::integer(1, false, ByteOrder::Little)
}

fn rows(range: std::ops::Range<u64>) -> Selection {
    Selection::Axes(vec![Axis::range(range), Axis::range(0..MIB)])
}

fn read(store: &Store, path: &str) -> Vec<u8> {
    let object = locked(&store.0).object.clone().unwrap();
    let file = File::from_bytes(object, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(path.as_bytes()).unwrap().dataset().unwrap();
    let mut found = vec![0; usize::try_from(dataset.dims().iter().product::<u64>()).unwrap()];
    dataset.read(&Selection::All, &mut found).unwrap();
    found
}

/// Makes a dataset with chunks of 1 MiB.
fn chunks(file: &Writer, name: &str, rows: u64) -> crate::write::DatasetWriter {
    let options =
        DatasetOptions::new(bytes(), space(rows, MIB)).with_layout(NewLayout::Chunked(vec![1, MIB]));
    file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap()
}

#[test]
fn many_threads_stream_a_file() {
    let (store, file) = started(3);
    let data = pattern(60 << 20, 0);
    let dataset = chunks(&file, "d", 60);
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (dataset, data) = (&dataset, &data);
            scope.spawn(move || {
                for row in (thread..60).step_by(6) {
                    let start = usize::try_from(row * MIB).unwrap();
                    dataset.write_chunk(&[row, 0], &data[start..start + (1 << 20)], 0).unwrap();
                }
            });
        }
    });
    let other = chunks(&file, "other", 3);
    other.write(&Selection::All, &data[..3 << 20]).unwrap();
    assert!(file.stored().is_none());
    file.close().unwrap();
    file.close().unwrap();
    assert_eq!(read(&store, "d"), data);
    assert_eq!(read(&store, "other"), data[..3 << 20]);
    let stored = file.stored().unwrap();
    assert_eq!(stored.size, locked(&store.0).object.as_ref().unwrap().len() as u64);
    drop((dataset, other, file));
    let kept = locked(&store.0);
    assert!(kept.most <= 3 * PART, "{} bytes under way", kept.most);
    assert_eq!(kept.aborted, 0);
}

#[test]
fn small_files_and_structure_that_leads_to_addresses() {
    let (store, file) = started(3);
    let dataset = chunks(&file, "d", 1);
    let group = file.create_group(NodeId::ROOT, b"g", false).unwrap();
    let addresses = [dataset.id(), group].map(|id| file.address(id).unwrap());
    dataset.write(&Selection::All, &pattern(1 << 20, 5)).unwrap();
    file.close().unwrap();
    assert_eq!(read(&store, "d"), pattern(1 << 20, 5));
    let object = locked(&store.0).object.clone().unwrap();
    let file = File::from_bytes(object, &OpenOptions::default()).unwrap();
    assert!(addresses.iter().all(|address| file.object(*address).is_ok()));
}

#[test]
fn what_was_sent_is_gone() {
    let (store, file) = started(2);
    let data = pattern(30 << 20, 1);
    let options = DatasetOptions::new(bytes(), space(30, MIB));
    let whole = file.create_dataset(NodeId::ROOT, b"whole", options).unwrap();
    whole.write(&rows(0..30), &data).unwrap();
    let error = whole.write(&rows(8..9), &data[..1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("have been sent (in part 2 of the object)"), "{error}");
    // The first part stays until the end.
    whole.write(&rows(0..1), &data[..1 << 20]).unwrap();
    let dataset = chunks(&file, "d", 7);
    dataset.write(&rows(0..7), &data[..7 << 20]).unwrap();
    assert_eq!(dataset.read_chunk(&[0, 0]).unwrap_err().kind(), ErrorKind::Unsupported);
    dataset.write_chunk(&[0, 0], &data[9 << 20..10 << 20], 0).unwrap();
    file.flush().unwrap();
    let mut expected = data[..7 << 20].to_vec();
    expected[..1 << 20].copy_from_slice(&data[9 << 20..10 << 20]);
    assert_eq!((read(&store, "whole"), read(&store, "d")), (data.clone(), expected));
    let error = dataset.write_chunk(&[0, 0], &data[..1 << 20], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("by an earlier flush"), "{error}");
    assert!(file.create_group(NodeId::ROOT, b"late", false).is_ok());
    assert_eq!(file.flush().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(file.close().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_is_never_written_is_zeros() {
    let (store, file) = started(2);
    let options = DatasetOptions::new(bytes(), space(40, MIB));
    let whole = file.create_dataset(NodeId::ROOT, b"whole", options).unwrap();
    let one = pattern(1 << 20, 2);
    whole.write(&rows(7..8), &one).unwrap();
    whole.write(&rows(33..34), &one).unwrap();
    // Memory is full of parts that lack bytes, which no thread writes.
    let error = whole.write(&rows(20..21), &one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("in the order of the file"), "{error}");
    // The earliest part always gets memory.
    whole.write(&rows(5..7), &[0; 2 << 20]).unwrap();
    file.close().unwrap();
    let mut expected = vec![0; 40 << 20];
    for row in [7, 33] {
        expected[row << 20..(row + 1) << 20].copy_from_slice(&one);
    }
    assert_eq!(read(&store, "whole"), expected);
}

#[test]
fn writers_wait_for_the_network() {
    let (store, file) = started(2);
    locked(&store.0).closed = true;
    let dataset = chunks(&file, "d", 40);
    let data = pattern(40 << 20, 3);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| dataset.write(&rows(0..40), &data));
        let end = Instant::now() + Duration::from_secs(60);
        while locked(&store.0).most < 2 * PART && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        // More would be sent now.
        std::thread::sleep(Duration::from_millis(300));
        let (most, waits) = (locked(&store.0).most, !writes.is_finished());
        // A failure before this would leave the writer waiting for ever.
        locked(&store.0).closed = false;
        store.1.notify_all();
        writes.join().unwrap().unwrap();
        assert_eq!((most, waits), (2 * PART, true));
    });
    file.close().unwrap();
    assert_eq!(read(&store, "d"), data);
}

#[test]
fn failures_leave_nothing() {
    for fails in [0, 3, 8] {
        let (store, file) = started(3);
        locked(&store.0).fails = Some(fails);
        let dataset = chunks(&file, "d", 40);
        let written = dataset.write(&rows(0..40), &pattern(40 << 20, 4));
        let closed = file.close().unwrap_err();
        assert!(closed.to_string().contains("no room"), "{fails}: {closed}");
        assert!(fails == 0 || fails == 8 || written.is_err());
        assert_eq!(file.close().unwrap_err().kind(), ErrorKind::Io, "it does not work the second time");
        drop((dataset, file));
        let kept = locked(&store.0);
        assert_eq!((kept.aborted, kept.object.is_none()), (1, true));
    }
    let (store, file) = started(3);
    chunks(&file, "d", 4).write(&rows(0..4), &pattern(4 << 20, 4)).unwrap();
    file.discard().unwrap();
    assert!(file.close().is_ok() && locked(&store.0).aborted == 1);
    drop(file);
    assert_eq!(locked(&store.0).aborted, 1);
}
