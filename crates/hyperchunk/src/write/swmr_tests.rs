//! Every state that a flush in SWMR mode leaves a file in can be read.

use super::*;
use crate::{File, OpenOptions, Result};
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype, Filter};
use hyperchunk_format::select::{Axis, Selection};
use std::sync::{Arc, Mutex};

/// A file in memory that records its writes.
#[derive(Debug, Default)]
struct RecordingSink(MemorySink, Mutex<Vec<(u64, Vec<u8>)>>);

impl Sink for RecordingSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.lock().unwrap().push((offset, bytes.to_vec()));
        self.0.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn cut(&self, size: u64) -> Result<()> {
        self.0.cut(size)
    }

    fn publish(&self, size: u64) -> Result<()> {
        self.0.publish(size)
    }
}

/// Returns the number of rows of a dataset; each must have its own number.
fn rows(file: &[u8], name: &str) -> usize {
    let options = OpenOptions { swmr: true, ..OpenOptions::default() };
    let file = File::from_bytes(file, &options).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let count = usize::try_from(dataset.dims()[0]).unwrap();
    let mut bytes = vec![0; count * 4];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    let expected: Vec<u8> = (1..=count).flat_map(|row| u32::try_from(row).unwrap().to_le_bytes()).collect();
    assert!(bytes == expected, "{name}: {count} rows");
    count
}

#[test]
fn a_reader_may_come_between_any_two_writes() {
    let sink = Arc::new(RecordingSink::default());
    let mut options = CreateOptions::default();
    (options.oldest, options.newest) = (LibVersion::V200, LibVersion::V200);
    let file = Writer::create_in(Arc::clone(&sink) as Arc<dyn Sink>, None, &options).unwrap();
    let int = Datatype::integer(4, false, ByteOrder::Little);
    let make = |name: &str, max: Option<u64>, chunk: u64, filters: Vec<Filter>| {
        let space = Dataspace::Simple { dims: vec![0], max: vec![max] };
        let options = DatasetOptions { pipeline: filters, ..DatasetOptions::new(int.clone(), space) };
        file.create_dataset(
            NodeId::ROOT,
            name.as_bytes(),
            options.with_layout(NewLayout::Chunked(vec![chunk])),
        )
        .unwrap()
    };
    let shuffle = Filter { id: 2, optional: false, name: None, parameters: vec![4] };
    let datasets = [
        ("array", make("array", None, 1, Vec::new())),
        ("parts", make("parts", None, 3, vec![shuffle])),
        ("fixed", make("fixed", Some(5000), 2, Vec::new())),
    ];
    file.begin_swmr().unwrap();
    assert!(file.is_swmr());
    let mut image = sink.0.bytes();
    sink.1.lock().unwrap().clear();
    let mut seen = [0; 3];
    let mut total = 0_u32;
    for step in [1_u32, 1, 2, 3, 1, 40, 1, 100, 1, 1, 700, 1, 1500, 1] {
        for (_, dataset) in &datasets {
            dataset.resize(&[u64::from(total + step)]).unwrap();
            let values: Vec<u8> = (total + 1..=total + step).flat_map(u32::to_le_bytes).collect();
            let rows = Axis::range(total.into()..(total + step).into());
            dataset.write(&Selection::Axes(vec![rows]), &values).unwrap();
        }
        total += step;
        file.flush().unwrap();
        for (at, bytes) in std::mem::take(&mut *sink.1.lock().unwrap()) {
            let at = usize::try_from(at).unwrap();
            image.resize(image.len().max(at + bytes.len()), 0);
            image[at..at + bytes.len()].copy_from_slice(&bytes);
            // Chunks are not seen before their index.
            if bytes.len() < 16 && step > 3 {
                continue;
            }
            for ((name, _), seen) in datasets.iter().zip(&mut seen) {
                let now = rows(&image, name);
                assert!(now >= *seen, "{name} became shorter");
                *seen = now;
            }
        }
        assert_eq!(seen, [total as usize; 3]);
    }
    file.close().unwrap();
    let closed = sink.0.bytes();
    let plain = File::from_bytes(&closed[..], &OpenOptions::default()).unwrap();
    assert!(!plain.is_written());
    for (name, _) in &datasets {
        assert_eq!(rows(&closed, name), total as usize);
    }
}
