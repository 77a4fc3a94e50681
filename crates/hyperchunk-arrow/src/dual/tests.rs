#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers")]

use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float64Array, Int32Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{DataType, Field, Schema};
use hyperchunk::select::Selection;
use hyperchunk::write::{MemorySink, Sink};
use hyperchunk::{ErrorKind, File, OpenOptions, Result};
use std::io::Cursor;
use std::sync::{Arc, Mutex};

/// Makes rows `first..first + count`: numbers, and rows of two numbers.
fn rows(first: i32, count: i32) -> RecordBatch {
    let numbers: Int32Array = (first..first + count).collect();
    let pairs: Float64Array = (2 * first..2 * (first + count)).map(f64::from).collect();
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    let pairs = FixedSizeListArray::new(item, 2, Arc::new(pairs), None);
    let columns: Vec<(&str, ArrayRef)> = vec![("number", Arc::new(numbers)), ("pair", Arc::new(pairs))];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), false)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Returns the number of rows of an Arrow file, if they have the written values.
fn as_arrow(bytes: &[u8]) -> Option<i32> {
    let reader = FileReader::try_new(Cursor::new(bytes), None).ok()?;
    count(reader)
}

fn count(
    batches: impl Iterator<Item = std::result::Result<RecordBatch, arrow_schema::ArrowError>>,
) -> Option<i32> {
    let mut next = 0;
    for batch in batches {
        let batch = batch.ok()?;
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        let pairs = batch.column(1).as_fixed_size_list();
        for row in 0..batch.num_rows() {
            assert_eq!(numbers.value(row), next);
            let pair = pairs.value(row);
            let pair = pair.as_primitive::<Float64Type>();
            assert_eq!((pair.value(0), pair.value(1)), (f64::from(2 * next), f64::from(2 * next + 1)));
            next += 1;
        }
    }
    Some(next)
}

/// Returns the number of rows of an HDF5 file, if they have the written values.
fn as_hdf5(bytes: &[u8], group: &str) -> Result<i32> {
    let file = File::from_bytes(bytes, &OpenOptions::default())?;
    let group = file.root()?.group()?.get(group.as_bytes())?.group()?;
    let numbers = group.get(b"number")?.dataset()?;
    let pairs = group.get(b"pair")?.dataset()?;
    let count = numbers.dims()[0];
    assert_eq!(pairs.dims(), [count, 2]);
    let mut stored = vec![0; count as usize * 4];
    numbers.read(&Selection::All, &mut stored)?;
    let expected: Vec<u8> = (0..count as i32).flat_map(i32::to_le_bytes).collect();
    assert_eq!(stored, expected);
    let mut stored = vec![0; count as usize * 16];
    pairs.read(&Selection::All, &mut stored)?;
    let expected: Vec<u8> = (0..2 * count).flat_map(|n| (n as f64).to_le_bytes()).collect();
    assert_eq!(stored, expected);
    Ok(count as i32)
}

/// Reads the stream after the first eight bytes.
fn as_stream(bytes: &[u8]) -> Option<i32> {
    count(StreamReader::try_new(Cursor::new(&bytes[8..]), None).ok()?)
}

/// An operation on a file.
#[derive(Debug, Clone)]
enum Operation {
    Wrote(u64, Vec<u8>),
    Cut(u64),
    Published(u64),
}

/// A sink that records operations.
#[derive(Debug, Default)]
struct Log(MemorySink, Mutex<Vec<Operation>>);

impl Sink for Log {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.lock().unwrap().push(Operation::Wrote(offset, bytes.to_vec()));
        self.0.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn cut(&self, size: u64) -> Result<()> {
        self.1.lock().unwrap().push(Operation::Cut(size));
        self.0.cut(size)
    }
    fn publish(&self, size: u64) -> Result<()> {
        self.1.lock().unwrap().push(Operation::Published(size));
        self.0.publish(size)
    }
}

fn check(group: &str, row_group: Option<u64>, growable: bool, appends: &[i32]) {
    let mut options = DualOptions::default();
    (options.group, options.row_group, options.growable) = (group.into(), row_group, growable);
    let log = Arc::new(Log::default());
    let schema = rows(0, 0).schema();
    let file = DualWriter::create_in(Arc::<Log>::clone(&log), None, &schema, &options).unwrap();
    let (mut total, mut states) = (0, vec![0]);
    for (number, count) in appends.iter().enumerate() {
        file.append(&rows(total, *count)).unwrap();
        total += count;
        assert_eq!(file.rows(), total as u64);
        if number % 2 == 1 {
            file.flush().unwrap();
            states.push(total);
            let bytes = log.0.bytes();
            assert_eq!(as_arrow(&bytes), Some(total), "{group} {row_group:?} {appends:?}");
            assert_eq!(as_stream(&bytes), Some(total), "{group} {row_group:?} {appends:?}");
            assert_eq!(as_hdf5(&bytes, group).unwrap(), total);
        }
    }
    file.close().unwrap();
    states.push(total);
    let bytes = log.0.bytes();
    assert_eq!(
        (as_arrow(&bytes), as_stream(&bytes)),
        (Some(total), Some(total)),
        "{row_group:?} {appends:?}"
    );
    assert_eq!(as_hdf5(&bytes, group).unwrap(), total);
    // A killed process leaves a prefix of these.
    let (mut bytes, mut published) = (Vec::new(), false);
    let done = log.1.lock().unwrap().clone();
    for (step, done) in done.iter().enumerate() {
        match done {
            Operation::Wrote(offset, part) => {
                let end = *offset as usize + part.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset as usize..end].copy_from_slice(part);
            }
            Operation::Cut(size) => bytes.truncate(*size as usize),
            Operation::Published(size) => {
                bytes.resize(bytes.len().max(*size as usize), 0);
                published = true;
            }
        }
        if published {
            let hdf5 = as_hdf5(&bytes, group).unwrap();
            assert!(states.contains(&hdf5), "{hdf5} after {step}");
            if let Some(arrow) = as_arrow(&bytes) {
                assert_eq!(arrow, hdf5, "after {step}");
            }
        }
    }
}

#[test]
fn both_sides_are_the_same_whatever_was_done_last() {
    for group in ["/", "/a", "/a/b/c/d/e"] {
        check(group, None, false, &[]);
        check(group, None, false, &[10]);
        check(group, None, false, &[0, 5, 7, 100]);
    }
    for growable in [false, true] {
        check("/", Some(7), growable, &[10, 3, 1, 1, 1, 0, 20, 6]);
        check("/g", Some(1), growable, &[1, 2, 3]);
        check("/g", Some(100), growable, &[1, 2, 3, 4, 100, 200]);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let made = |field: Field| {
        let sink = Arc::new(MemorySink::default());
        DualWriter::create_in(sink, None, &Schema::new(vec![field]), &DualOptions::default())
    };
    for data_type in
        [DataType::Utf8, DataType::Boolean, DataType::Null, DataType::new_list(DataType::Int8, false)]
    {
        let error = made(Field::new("this one", data_type, true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("this one"), "{error}");
    }
    assert!(made(Field::new("a/b", DataType::Int8, false)).is_err());
    let file = made(Field::new("a", DataType::Int32, true)).unwrap();
    let batch = |array: Int32Array| {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(array)]).unwrap()
    };
    let error = file.append(&batch(Int32Array::from(vec![Some(1), None]))).unwrap_err();
    assert!(error.to_string().contains("null"), "{error}");
    file.append(&batch(Int32Array::from(vec![Some(1), None]).slice(0, 1))).unwrap();
    assert!(file.append(&rows(0, 1)).is_err());
    let two = Schema::new(vec![Field::new("a", DataType::Int8, false); 2]);
    let sink = Arc::new(MemorySink::default());
    assert!(DualWriter::create_in(sink, None, &two, &DualOptions::default()).is_err());
    file.close().unwrap();
    assert!(file.append(&batch(Int32Array::from(vec![1]))).is_err());
}

#[test]
fn a_damaged_file_is_never_taken_for_another() {
    let sink = Arc::new(MemorySink::default());
    let schema = rows(0, 0).schema();
    let options = DualOptions { row_group: Some(4), ..DualOptions::default() };
    let file = DualWriter::create_in(Arc::<MemorySink>::clone(&sink), None, &schema, &options).unwrap();
    file.append(&rows(0, 10)).unwrap();
    file.close().unwrap();
    let bytes = sink.bytes();
    let folder = std::env::temp_dir().join(format!("hyperchunk-dual-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.h5");
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(super::check(&path).unwrap().problems, Vec::<String>::new());
    let mut seed = 1_u64;
    for round in 0..400 {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let mut damaged = bytes.clone();
        // Damage the structure, or the messages in front.
        let from = if round % 4 == 0 { 0 } else { bytes.len() - 2500 };
        let at = from + (seed >> 33) as usize % (bytes.len() - from).min(2500);
        damaged[at] ^= 1 << (seed >> 8 & 7);
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(checked) = super::check(&path)
            && checked.is_current()
        {
            assert_eq!(checked.rows, 10);
        }
        drop(fix(&path, &FixOptions::default()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
