#![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

use crate::admin::compact::{CompactOptions, compact};
use crate::commit::external_links;
use crate::commit::{CommitOptions, commit};
use crate::tests::{Folder, options};
use crate::{Definition, Hyperslab, Log, LogWriter, PieceForm};
use hyperchunk::write::Sync;
use hyperchunk::{Dataset, ErrorKind};
use hyperchunk::{File, OpenOptions};
use hyperchunk_format::model::{ByteOrder, Class, Datatype, FillValue, FillWhen, Member};
use hyperchunk_format::select::{Axis, Selection};
use std::path::Path;

/// Size of an element in bytes; there are gaps between its members.
const SIZE: usize = 24;
const RANGES: [std::ops::Range<u64>; 5] = [0..4, 8..16, 16..18, 8..18, 20..24];

fn compound() -> Datatype {
    let number = |size| Datatype::integer(size, false, ByteOrder::Little);
    let members = [("a", 0, number(4)), ("b", 8, number(8)), ("c", 16, number(2)), ("d", 20, number(4))];
    let members = members.map(|(name, offset, datatype)| Member { name: name.into(), offset, datatype });
    Datatype { class: Class::Compound { members: members.into() }, size: SIZE as u64 }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(250) as u8).collect()
    }
}

const DIMS: [usize; 2] = [13, 11];

fn definition(chunked: bool) -> Definition {
    let mut definition = Definition::new("/a", compound(), DIMS.map(|dim| dim as u64).to_vec());
    definition.fill = FillValue { value: FillWhen::User((100..124).collect()), ..FillValue::default() };
    definition.chunk = chunked.then(|| vec![4, 5]);
    definition
}

fn dataset(path: &Path) -> Dataset {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap()
}

/// Expected content of a dataset.
struct Model(Vec<u8>);

impl Model {
    fn new() -> Self {
        Self((100..124).collect::<Vec<u8>>().repeat(DIMS[0] * DIMS[1]))
    }

    fn put(&mut self, slab: &Hyperslab, range: &std::ops::Range<u64>, bytes: &[u8]) {
        let range = range.start as usize..range.end as usize;
        let mut parts = bytes.chunks_exact(range.len());
        for row in slab.start[0]..slab.start[0] + slab.count[0] {
            for column in slab.start[1]..slab.start[1] + slab.count[1] {
                let at = (row as usize * DIMS[1] + column as usize) * SIZE;
                self.0[at + range.start..at + range.end].copy_from_slice(parts.next().unwrap());
            }
        }
    }

    fn elements(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
        numbers.into_iter().flat_map(|at| &self.0[at * SIZE..(at + 1) * SIZE]).copied().collect()
    }

    /// Compares reads of several selections with the model.
    fn check(&self, random: &mut Random, read: &dyn Fn(&Selection, &mut [u8])) {
        let compare = |selection: Selection, numbers: Vec<usize>| {
            let mut out = vec![7; numbers.len() * SIZE];
            read(&selection, &mut out);
            assert!(out == self.elements(numbers), "{selection:?}");
        };
        compare(Selection::All, (0..DIMS[0] * DIMS[1]).collect());
        for _ in 0..3 {
            let (row, column) = (random.below(DIMS[0]), random.below(DIMS[1]));
            let (rows, columns) = (random.below(DIMS[0] - row) + 1, random.below(DIMS[1] - column) + 1);
            let (step, many) = (2, columns.div_ceil(2));
            let axes = vec![
                Axis::range(row as u64..(row + rows) as u64),
                Axis::steps(column as u64, step, many as u64),
            ];
            let numbers = (row..row + rows)
                .flat_map(|row| (0..many).map(move |at| row * DIMS[1] + column + 2 * at))
                .collect();
            compare(Selection::Axes(axes), numbers);
            let points: Vec<usize> = (0..9).map(|_| random.below(DIMS[0] * DIMS[1])).collect();
            let coordinates = points.iter().flat_map(|at| [at / DIMS[1], at % DIMS[1]]);
            let coordinates = coordinates.map(|at| at as u64).collect();
            compare(Selection::Points { rank: 2, coordinates }, points);
        }
    }
}

fn slab(random: &mut Random) -> Hyperslab {
    let start = DIMS.map(|dim| random.below(dim));
    let count = [0, 1].map(|axis| 1 + random.below(DIMS[axis] - start[axis]));
    Hyperslab::new(start.map(|at| at as u64), count.map(|at| at as u64))
}

#[test]
fn fields_lie_over_what_is_below() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let mut model = Model::new();
        for session in 0..3 {
            let writer = LogWriter::create(&path, &options()).unwrap();
            let number = writer.define(&definition(seed % 2 == 0)).unwrap();
            for _ in 0..12 {
                let slab = slab(&mut random);
                let elements = slab.elements().unwrap() as usize;
                match random.below(6) {
                    0 => {
                        let bytes = random.bytes(elements * SIZE);
                        writer.write_boxes(number, std::slice::from_ref(&slab), &bytes).unwrap();
                        model.put(&slab, &(0..SIZE as u64), &bytes);
                    }
                    1 => {
                        writer.flush().unwrap();
                    }
                    2 if seed % 2 == 0 => {
                        // A chunk, without filters.
                        let offset = [random.below(3) * 4, random.below(2) * 5];
                        let bytes = random.bytes(20 * SIZE);
                        writer.write_chunk(number, &offset.map(|at| at as u64), 0, &bytes).unwrap();
                        model.put(
                            &Hyperslab::new(offset.map(|at| at as u64), [4, 5]),
                            &(0..SIZE as u64),
                            &bytes,
                        );
                    }
                    _ => {
                        let range = RANGES[random.below(RANGES.len())].clone();
                        let bytes = random.bytes(elements * (range.end - range.start) as usize);
                        let boxes = std::slice::from_ref(&slab);
                        writer.write_fields(number, boxes, range.clone(), &bytes).unwrap();
                        model.put(&slab, &range, &bytes);
                    }
                }
                if random.below(3) == 0 {
                    model.check(&mut random, &|selection, out| writer.read(number, selection, out).unwrap());
                }
            }
            let own = writer.written(number).unwrap();
            if session == 2 && seed % 3 == 0 {
                // As after a kill: read the batches only.
                writer.flush().unwrap();
                let salvaged = Log::salvage(writer.log(), 0).unwrap();
                assert!(salvaged.written[0].1.pieces.iter().eq(own.pieces.iter()));
            }
            writer.close().unwrap();
            let never = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
            let made = commit(&path, &never).unwrap().unwrap();
            assert!(made.links.iter().all(|(_, links)| links.is_ok()), "{:?}", made.links);
            let read = dataset(&path);
            model.check(&mut random, &|selection, out| read.read(selection, out).unwrap());
        }
        let compacting = CompactOptions { sync: Sync::Never, ..CompactOptions::default() };
        compact(&path, &compacting).unwrap();
        let read = dataset(&path);
        model.check(&mut random, &|selection, out| read.read(selection, out).unwrap());
        let manifest = crate::Manifest::newest(&*path).unwrap().unwrap();
        let pieces = manifest.datasets.iter().flat_map(|stored| &stored.parts);
        assert!(pieces.flat_map(|part| part.written.pieces.iter()).all(|piece| !piece.form.is_fields()));
    }
}

#[test]
fn writers_of_different_fields_agree_and_those_of_the_same_do_not() {
    let all = || vec![Hyperslab::new([0, 0], [13, 11])];
    let elements = DIMS[0] * DIMS[1];
    // Fields and values that two writers write, and whether they conflict.
    let cases = [
        (0..4, 1, 8..16, 2, false),
        (8..18, 1, 0..4, 2, false),
        (8..16, 1, 8..16, 1, false),
        (8..16, 1, 8..16, 2, true),
        (8..18, 1, 16..18, 2, true),
        (8..18, 1, 16..18, 1, false),
        (0..SIZE as u64, 1, 16..18, 2, true),
        (0..SIZE as u64, 1, 16..18, 1, false),
    ];
    for (one, first, other, second, conflict) in cases {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let writers = [&(); 2].map(|_| LogWriter::create(&path, &options()).unwrap());
        for (writer, (range, value)) in writers.iter().zip([(&one, first), (&other, second)]) {
            let number = writer.define(&definition(false)).unwrap();
            let bytes = vec![value; elements * (range.end - range.start) as usize];
            writer.write_fields(number, &all(), range.clone(), &bytes).unwrap();
            // Over its own data.
            writer.write_fields(number, &all(), range.clone(), &bytes).unwrap();
            writer.close().unwrap();
        }
        let never = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
        let made = commit(&path, &never).unwrap().unwrap();
        assert_eq!(!made.manifest.conflicts.is_empty(), conflict, "{one:?} {other:?}");
        if !conflict {
            let mut model = Model::new();
            for (range, value) in [(&one, first), (&other, second)] {
                model.put(&all()[0], range, &vec![value; elements * (range.end - range.start) as usize]);
            }
            let read = dataset(&path);
            model.check(&mut Random(1), &|selection, out| read.read(selection, out).unwrap());
        }
    }
}

#[test]
fn only_whole_members_are_fields() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let number = writer.define(&definition(false)).unwrap();
    let one = [Hyperslab::new([0, 0], [1, 1])];
    for range in [0..3, 1..4, 4..8, 0..16, 12..18, 18..20, 20..25, 3..3] {
        let bytes = vec![0; (range.end - range.start) as usize];
        let error = writer.write_fields(number, &one, range.clone(), &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{range:?}");
    }
    assert!(writer.write_fields(number, &one, 0..4, &[0; 5]).is_err());
    assert!(writer.write_fields(number, &[Hyperslab::new([13, 0], [1, 1])], 0..4, &[0; 4]).is_err());
    writer.write_fields(number, &one, 0..24, &[1; 24]).unwrap();
    assert!(writer.written(number).unwrap().pieces.iter().all(|piece| piece.form == PieceForm::Raw));
    let numbers = Definition::new("/b", Datatype::integer(8, false, ByteOrder::Little), vec![3]);
    let number = writer.define(&numbers).unwrap();
    assert!(writer.write_fields(number, &[Hyperslab::new([0], [1])], 0..4, &[0; 4]).is_err());
    assert!(external_links::UnlinkedReason::Fields.to_string().contains("compact"));
}
