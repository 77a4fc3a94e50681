use super::*;
use crate::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Writer};
use crate::{File, OpenOptions};
use hyperchunk_format::codec::{Decoder, Target, preset};
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype, FillWhen};
use std::path::PathBuf;

const SIZE: usize = 4;

/// Assembles the elements of a box from its stored pieces.
fn assembled(found: &StoredBox) -> Vec<u8> {
    let total: u64 = found.shape.iter().product();
    let mut out = vec![0xee; usize::try_from(total).unwrap() * SIZE];
    let mut seen = 0;
    for piece in &found.pieces {
        let elements = |extent: &[u64]| usize::try_from(extent.iter().product::<u64>()).unwrap();
        let bytes = match &piece.range {
            Some(range) => {
                let mut stored = vec![0; usize::try_from(range.end - range.start).unwrap()];
                found.source.read_at(range.start, &mut stored).unwrap();
                let size = elements(&found.extent) * SIZE;
                Decoder::default().decode(&found.pipeline, piece.mask, &stored, size).unwrap().to_vec()
            }
            None => found.fill.clone().unwrap_or(vec![0; SIZE]).repeat(elements(&found.extent)),
        };
        let mut at = vec![0; piece.count.len()];
        let place = |start: &[u64], at: &[u64], extent: &[u64]| {
            let places = start.iter().zip(at).zip(extent);
            let place = places.fold(0, |place, ((start, at), extent)| place * extent + start + at);
            usize::try_from(place).unwrap() * SIZE
        };
        for _ in 0..elements(&piece.count) {
            let from = place(&piece.from, &at, &found.extent);
            let to = place(&piece.to, &at, &found.shape);
            out[to..to + SIZE].copy_from_slice(&bytes[from..from + SIZE]);
            seen += 1;
            for axis in (0..at.len()).rev() {
                at[axis] += 1;
                if at[axis] < piece.count[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
    assert_eq!(seen, total, "each element once");
    out
}

/// Checks that the stored pieces of a box give the elements that a read gives.
fn check(dataset: &Dataset, selection: &Selection) {
    let Some(found) = dataset.stored_box(selection).unwrap() else { panic!("{selection:?} is a box") };
    assert_eq!(found.shape, selection.shape(dataset.dims()));
    let mut expected = vec![0; usize::try_from(selection.count(dataset.dims()).unwrap()).unwrap() * SIZE];
    dataset.read(selection, &mut expected).unwrap();
    assert_eq!(assembled(&found), expected, "{selection:?}");
    let ranges = found.pieces.iter().map(|piece| piece.range.clone()).enumerate();
    let stored: Vec<(usize, Range<u64>)> =
        ranges.filter_map(|(number, range)| Some((number, range?))).collect();
    let mut read: Vec<Vec<u8>> = stored
        .iter()
        .map(|(_, range)| vec![0xee; usize::try_from(range.end - range.start).unwrap()])
        .collect();
    let places = stored.iter().zip(&mut read).map(|((number, _), to)| (*number, to.as_mut_slice()));
    dataset.read_pieces(&found, places.collect()).unwrap();
    for ((_, range), read) in stored.iter().zip(&read) {
        let mut expected = vec![0; read.len()];
        found.source.read_at(range.start, &mut expected).unwrap();
        assert_eq!(*read, expected);
    }
    for (number, bytes) in [(found.pieces.len(), 4), (0, 1)] {
        let mut to = vec![0; bytes];
        let refused = dataset.read_pieces(&found, vec![(number, &mut to)]);
        assert!(refused.is_err(), "{number} {bytes}");
    }
}

fn parts(ranges: &[Range<u64>]) -> Selection {
    Selection::Axes(ranges.iter().cloned().map(Axis::range).collect())
}

struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn boxes_of_every_layout() {
    let path = std::env::temp_dir().join(format!("hyperchunk-boxes-{}.h5", std::process::id()));
    let made = TemporaryFile(path.clone());
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let (datatype, dims) = (Datatype::integer(4, true, ByteOrder::Little), [7, 10, 9]);
    let space = || Dataspace::Simple { dims: dims.to_vec(), max: dims.map(Some).to_vec() };
    let data: Vec<u8> = (0..630_i32).flat_map(i32::to_le_bytes).collect();
    let options = |layout| DatasetOptions::new(datatype.clone(), space()).with_layout(layout);
    let chunk = vec![3, 4, 5];
    let target = Target { datatype: &datatype, chunk: &chunk, fill: &FillWhen::Default };
    for name in ["none", "deflate", "snappy", "fast"] {
        let pipeline = preset(name, &target).unwrap();
        let options = options(NewLayout::Chunked(chunk.clone())).with_pipeline(pipeline);
        let dataset = file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap();
        dataset.write(&Selection::All, &data).unwrap();
    }
    for (name, layout) in [("contiguous", NewLayout::Contiguous), ("compact", NewLayout::Compact)] {
        let dataset = file.create_dataset(NodeId::ROOT, name.as_bytes(), options(layout)).unwrap();
        dataset.write(&Selection::All, &data).unwrap();
    }
    let sparse = options(NewLayout::Chunked(chunk.clone()));
    let sparse = file.create_dataset(NodeId::ROOT, b"sparse", sparse).unwrap();
    sparse.write(&parts(&[3..6, 4..8, 0..5]), &data[..240]).unwrap();
    file.create_dataset(NodeId::ROOT, b"never", options(NewLayout::Contiguous)).unwrap();
    let scalar = DatasetOptions::new(datatype.clone(), Dataspace::Scalar);
    let scalar = file.create_dataset(NodeId::ROOT, b"scalar", scalar).unwrap();
    scalar.write(&Selection::All, &data[40..44]).unwrap();
    file.close().unwrap();

    let file = File::open(&made.0, &OpenOptions::default()).unwrap();
    let group = file.root().unwrap().group().unwrap();
    let dataset = |name: &str| group.get(name.as_bytes()).unwrap().dataset().unwrap();
    let some = [
        parts(&[0..7, 0..10, 0..9]),
        parts(&[2..5, 0..10, 0..9]),
        parts(&[2..3, 3..9, 0..9]),
        parts(&[6..7, 9..10, 8..9]),
        parts(&[1..1, 3..9, 0..9]),
        Selection::All,
    ];
    for name in ["none", "deflate", "snappy", "fast", "contiguous", "sparse", "never"] {
        some.iter().for_each(|selection| check(&dataset(name), selection));
    }
    let inner = parts(&[1..6, 3..9, 2..8]);
    for name in ["none", "deflate", "snappy", "fast", "sparse"] {
        check(&dataset(name), &inner);
    }
    let none = |name: &str, selection: &Selection| dataset(name).stored_box(selection).unwrap().is_none();
    assert!(none("contiguous", &inner), "short rows");
    assert!(none("compact", &Selection::All), "in the header");
    assert!(none(
        "none",
        &Selection::Axes(vec![Axis::steps(0, 2, 3), Axis::range(0..10), Axis::range(0..9)])
    ));
    assert!(none("none", &Selection::Points { rank: 3, coordinates: vec![1, 2, 3] }));
    assert!(dataset("none").stored_box(&parts(&[0..8, 0..10, 0..9])).is_err());
    if let Some(found) = dataset("scalar").stored_box(&Selection::All).unwrap() {
        assert_eq!(assembled(&found), data[40..44]);
    }
}

#[test]
fn long_rows() {
    let path = std::env::temp_dir().join(format!("hyperchunk-rows-{}.h5", std::process::id()));
    let made = TemporaryFile(path.clone());
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let dims = vec![4, 300_000];
    let space = Dataspace::Simple { max: dims.iter().copied().map(Some).collect(), dims };
    let options = DatasetOptions::new(Datatype::integer(4, true, ByteOrder::Little), space);
    let dataset =
        file.create_dataset(NodeId::ROOT, b"d", options.with_layout(NewLayout::Contiguous)).unwrap();
    let data: Vec<u8> = (0..1_200_000_i32).flat_map(i32::to_le_bytes).collect();
    dataset.write(&Selection::All, &data).unwrap();
    file.close().unwrap();
    let file = File::open(&made.0, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
    check(&dataset, &Selection::All);
    check(&dataset, &parts(&[1..3, 100..290_000]));
    check(&dataset, &parts(&[2..3, 100..101]));
    assert!(dataset.stored_box(&parts(&[1..3, 100..200])).unwrap().is_none());
}
