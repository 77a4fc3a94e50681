use crate::commit::{CommitOptions, commit};
use crate::format::varint::Out;
use crate::tests::{Folder, options};
use crate::{Definition, Hyperslab, LogWriter, Manifest, PackedPieces, WriterOptions, store_folder};
use hyperchunk::pack::{Input, PackOptions, PackPlan};
use hyperchunk::write::Sync;
use hyperchunk::{Dataset, ErrorKind, ExternalPolicy, Limits};
use hyperchunk::{File, OpenOptions};
use hyperchunk_format::Cursor;
use hyperchunk_format::codec::{Encoder, Target, preset};
use hyperchunk_format::model::{ByteOrder, Datatype, FillValue, FillWhen};
use hyperchunk_format::select::{Axis, Blocks, Selection};
use std::path::Path;
use std::sync::Arc;

mod remote;

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    fn range(&mut self, extent: u64) -> (u64, u64) {
        let start = self.below(extent);
        (start, start + 1 + self.below(extent - start))
    }
}

/// An operation on a dataset.
enum Step {
    /// A box, and the first of its consecutive values.
    Write(Hyperslab, u16),
    /// The dimensions to which an extent clips.
    Extent(Vec<u64>),
}

/// Options for reading as libhdf5 does.
fn native_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.ignore_stores = true;
    options
}

/// Returns the expected value of an element, from the last write that no later extent clips.
fn expected(steps: &[&[Step]], extent: &[u64], fill: u16, element: &[u64]) -> u16 {
    let mut dims = extent.to_vec();
    for step in steps.iter().flat_map(|steps| *steps).rev() {
        match step {
            Step::Extent(extent) => {
                dims.iter_mut().zip(extent).for_each(|(dim, new)| *dim = (*dim).min(*new))
            }
            Step::Write(slab, first) => {
                let inside = element.iter().zip(&slab.start).zip(&slab.count);
                let inside =
                    inside.into_iter().all(|((at, start), count)| at >= start && at - start < *count);
                if inside && element.iter().zip(&dims).all(|(at, dim)| at < dim) {
                    let mut number = 0;
                    for ((at, start), count) in element.iter().zip(&slab.start).zip(&slab.count) {
                        number = number * count + (at - start);
                    }
                    return first.wrapping_add(number as u16);
                }
            }
        }
    }
    fill
}

fn values(slab: &Hyperslab, first: u16) -> Vec<u8> {
    let count = slab.elements().unwrap() as u16;
    (0..count).flat_map(|number| first.wrapping_add(number).to_le_bytes()).collect()
}

fn never() -> CommitOptions {
    CommitOptions { sync: Sync::Never, ..CommitOptions::default() }
}

fn dataset(path: &Path, name: &str) -> Dataset {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap()
}

fn choices(random: &mut Random, dims: &[u64]) -> Vec<Selection> {
    let rank = dims.len();
    let mut choices = vec![Selection::All];
    if dims.contains(&0) {
        return choices;
    }
    for _ in 0..2 {
        let axes = |random: &mut Random, kind: u64| -> Selection {
            Selection::Axes(
                dims.iter()
                    .map(|dim| {
                        let (start, end) = random.range(*dim);
                        match (kind, random.below(3)) {
                            (0, _) | (_, 0) => Axis::range(start..end),
                            (1, _) | (_, 1) => {
                                let step = 1 + random.below(3);
                                Axis::steps(start, step, (end - start).div_ceil(step))
                            }
                            _ => Axis::List((0..1 + random.below(6)).map(|_| random.below(*dim)).collect()),
                        }
                    })
                    .collect(),
            )
        };
        choices.extend([axes(random, 0), axes(random, 1), axes(random, 2)]);
    }
    let coordinates = (0..10).flat_map(|_| dims.iter().map(|dim| random.below(*dim)).collect::<Vec<u64>>());
    choices.push(Selection::Points { rank, coordinates: coordinates.collect() });
    let mut corners = Vec::new();
    for _ in 0..3 {
        let ranges: Vec<(u64, u64)> = dims.iter().map(|dim| random.range(*dim)).collect();
        corners.extend(ranges.iter().map(|(start, _)| *start));
        corners.extend(ranges.iter().map(|(_, end)| end - 1));
    }
    choices.push(Selection::Blocks(Blocks::new(rank, &corners).unwrap()));
    choices
}

/// Returns the indices of a selection's elements, in order.
fn elements(selection: &Selection, dims: &[u64]) -> Vec<Vec<u64>> {
    let runs = hyperchunk_format::select::runs(selection, dims).unwrap();
    let numbers = runs.flat_map(|(first, count)| first..first + count);
    numbers
        .map(|mut number| {
            let mut element = vec![0; dims.len()];
            for (at, dim) in element.iter_mut().zip(dims).rev() {
                (*at, number) = (number % dim, number / dim);
            }
            element
        })
        .collect()
}

/// Compares reads of many selections with the expected values.
fn check(
    read: impl Fn(&Selection, &mut [u8]),
    steps: &[&[Step]],
    dims: &[u64],
    fill: u16,
    random: &mut Random,
) {
    for selection in choices(random, dims) {
        let expected: Vec<u16> =
            elements(&selection, dims).iter().map(|element| expected(steps, dims, fill, element)).collect();
        let mut found = vec![0xa5; 2 * expected.len()];
        read(&selection, &mut found);
        let found: Vec<u16> = found.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        assert_eq!(found, expected, "{selection:?} of {dims:?}");
    }
}

/// Performs random operations on a dataset; returns them.
fn random_steps(
    writer: &LogWriter,
    number: u32,
    definition: &Definition,
    extents: bool,
    random: &mut Random,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut encoder = Encoder::default();
    for _ in 0..1 + random.below(12) {
        let dims = writer.dataset(number).unwrap().dims;
        let first = random.below(60_000) as u16;
        match (random.below(10), &definition.chunk) {
            (0..=1, _) if extents => {
                let new: Vec<u64> = dims.iter().map(|_| random.below(18)).collect();
                writer.set_extent(number, &new).unwrap();
                // Growth clips nothing, not even the elements of a chunk outside the extent, as in
                // HDF5.
                let clip = dims.iter().zip(&new).map(|(old, new)| if new < old { *new } else { u64::MAX });
                if new != dims {
                    steps.push(Step::Extent(clip.collect()));
                }
            }
            _ if dims.contains(&0) => {}
            (2..=4, Some(chunk)) => {
                let offset: Vec<u64> = dims
                    .iter()
                    .zip(chunk)
                    .map(|(dim, chunk)| random.below(dim.div_ceil(*chunk)) * chunk)
                    .collect();
                let slab = Hyperslab::new(offset.clone(), chunk.clone());
                let values = values(&slab, first);
                let (bytes, mask) = match random.below(3) {
                    // The last filter is skipped, according to the mask.
                    0 => {
                        let shuffled = encoder.encode(&definition.pipeline[..1], &values).unwrap().0.to_vec();
                        (shuffled, 2)
                    }
                    _ => {
                        let (bytes, mask) = encoder.encode(&definition.pipeline, &values).unwrap();
                        (bytes.to_vec(), mask)
                    }
                };
                writer.write_chunk(number, &offset, mask, &bytes).unwrap();
                steps.push(Step::Write(slab, first));
            }
            (5, _) => {
                let mut bytes = Vec::new();
                let mut boxes = Vec::new();
                for turn in 0..1 + random.below(4) {
                    let ranges: Vec<(u64, u64)> = dims.iter().map(|dim| random.range(*dim)).collect();
                    let starts: Vec<u64> = ranges.iter().map(|range| range.0).collect();
                    let counts: Vec<u64> = ranges.iter().map(|range| range.1 - range.0).collect();
                    let slab = Hyperslab::new(starts, counts);
                    let first = first.wrapping_add(turn as u16 * 7);
                    bytes.extend(values(&slab, first));
                    boxes.push(slab.clone());
                    steps.push(Step::Write(slab, first));
                }
                writer.write_boxes(number, &boxes, &bytes).unwrap();
            }
            (6, _) => {
                // Writes in a loop.
                let width = 1 + random.below(2);
                for turn in 0..dims[0] / 2 {
                    let mut slab = Hyperslab::new(vec![0; dims.len()], dims.clone());
                    slab.start[0] = turn * 2;
                    slab.count[0] = width;
                    let first = first.wrapping_add(turn as u16);
                    writer.write_box(number, &slab.start, &slab.count, &values(&slab, first)).unwrap();
                    steps.push(Step::Write(slab, first));
                }
            }
            _ => {
                let ranges: Vec<(u64, u64)> = dims.iter().map(|dim| random.range(*dim)).collect();
                let starts: Vec<u64> = ranges.iter().map(|range| range.0).collect();
                let counts: Vec<u64> = ranges.iter().map(|range| range.1 - range.0).collect();
                let slab = Hyperslab::new(starts, counts);
                writer.write_box(number, &slab.start, &slab.count, &values(&slab, first)).unwrap();
                steps.push(Step::Write(slab, first));
            }
        }
        if random.below(8) == 0 {
            writer.flush().unwrap();
        }
    }
    steps
}

fn random_definition(random: &mut Random) -> Definition {
    let rank = 1 + random.below(3) as usize;
    let dims: Vec<u64> = (0..rank).map(|_| 1 + random.below(14)).collect();
    let datatype = Datatype::integer(2, false, ByteOrder::Little);
    let mut definition = Definition::new("/a", datatype.clone(), dims);
    if random.below(3) > 0 {
        let chunk: Vec<u64> = (0..rank).map(|_| 1 + random.below(6)).collect();
        definition.max = vec![None; rank];
        let fill = FillWhen::Undefined;
        let target = Target { datatype: &datatype, chunk: &chunk, fill: &fill };
        definition.pipeline = preset("deflate", &target).unwrap();
        assert_eq!(definition.pipeline.len(), 2, "shuffle and deflate");
        definition.chunk = Some(chunk);
    }
    if random.below(2) == 0 {
        let value = FillWhen::User(4711_u16.to_le_bytes().to_vec());
        definition.fill = FillValue { value, ..FillValue::default() };
    }
    definition
}

#[test]
fn what_many_writers_wrote_in_many_epochs_is_read() {
    for seed in 0..if cfg!(debug_assertions) { 200 } else { 600 } {
        let mut random = Random(seed);
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let definition = random_definition(&mut random);
        let fill = if matches!(definition.fill.value, FillWhen::User(_)) { 4711 } else { 0 };
        let mut steps: Vec<Vec<Step>> = Vec::new();
        for epoch in 1..=3 {
            let many = random.below(2) == 0;
            let mut done = Vec::new();
            for _ in 0..if many { 1 + random.below(4) } else { 1 } {
                let priority = random.below(3) as i32;
                let writer = LogWriter::create(&path, &WriterOptions { priority, ..options() }).unwrap();
                let number = writer.define(&definition).unwrap();
                let extents = !many && definition.chunk.is_some();
                let mut own = Vec::new();
                for _ in 0..2 {
                    own.extend(random_steps(&writer, number, &definition, extents, &mut random));
                    // The writer sees the earlier epochs and its own data.
                    let mut seen: Vec<&[Step]> = steps.iter().map(Vec::as_slice).collect();
                    seen.push(&own);
                    let into =
                        |selection: &Selection, out: &mut [u8]| writer.read(number, selection, out).unwrap();
                    let dims = writer.dataset(number).unwrap().dims;
                    check(into, &seen, &dims, fill, &mut random);
                }
                writer.close().unwrap();
                done.push((priority, own));
            }
            // Of equal ones, the writer that was created last covers the others.
            done.sort_by_key(|(priority, _)| *priority);
            steps.extend(done.into_iter().map(|(_, own)| own));
            let seen: Vec<&[Step]> = steps.iter().map(Vec::as_slice).collect();
            let Some(made) = commit(&path, &never()).unwrap() else { continue };
            let dims = made.manifest.datasets[0].extent.clone();
            let read = dataset(&path, "a");
            assert_eq!(read.dims(), dims, "seed {seed}");
            assert_eq!(read.chunked().map(|chunked| &chunked.dims), definition.chunk.as_ref());
            assert_eq!(read.pipeline().len(), definition.pipeline.len());
            let into = |selection: &Selection, out: &mut [u8]| {
                read.read(selection, out)
                    .unwrap_or_else(|error| panic!("seed {seed}, epoch {epoch}: {error}"));
            };
            check(into, &seen, &dims, fill, &mut random);
        }
    }
}

fn all(dataset: &Dataset) -> hyperchunk::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(dataset.elements()? * dataset.datatype().size).unwrap()];
    dataset.read(&Selection::All, &mut bytes).map(|()| bytes)
}

/// Makes a store with a two-dimensional dataset `a` of bytes in large and small pieces, boxes and
/// chunks; also returns its log and its values.
fn small_and_large(folder: &Folder) -> (std::path::PathBuf, std::path::PathBuf, Vec<u8>) {
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let datatype = Datatype::integer(1, false, ByteOrder::Little);
    let mut definition = Definition::new("/a", datatype.clone(), vec![800, 1000]);
    definition.chunk = Some(vec![100, 100]);
    let fill = FillWhen::Undefined;
    let target = Target { datatype: &datatype, chunk: &[100, 100], fill: &fill };
    definition.pipeline = preset("deflate", &target).unwrap();
    let number = writer.define(&definition).unwrap();
    let mut model = vec![0; 800_000];
    let mut put = |slab: &Hyperslab, bytes: &[u8]| {
        let width = slab.count[1] as usize;
        for (row, bytes) in bytes.chunks(width).enumerate() {
            let start = (slab.start[0] as usize + row) * 1000 + slab.start[1] as usize;
            model[start..start + width].copy_from_slice(bytes);
        }
    };
    let bytes = |count: u64, first: u64| -> Vec<u8> {
        (0..count).map(|at| ((at * at + first) % 251 % 7 * 30) as u8).collect()
    };
    let large = [
        Hyperslab::new([0, 0], [300, 1000]),
        Hyperslab::new([300, 10], [400, 900]),
        Hyperslab::new([350, 5], [310, 990]),
    ];
    for slab in large {
        let bytes = bytes(slab.elements().unwrap(), 3);
        writer.write_box(number, &slab.start, &slab.count, &bytes).unwrap();
        put(&slab, &bytes);
    }
    for row in 0..40 {
        let slab = Hyperslab::new([700 + row, 7 * row], [1, 100 + row]);
        let bytes = bytes(100 + row, row);
        writer.write_box(number, &slab.start, &slab.count, &bytes).unwrap();
        put(&slab, &bytes);
    }
    let many: Vec<Hyperslab> = (0..30).map(|at| Hyperslab::new([750 + at, 3 * at], [1, 50])).collect();
    let values = bytes(1500, 9);
    writer.write_boxes(number, &many, &values).unwrap();
    many.iter().zip(values.chunks(50)).for_each(|(slab, bytes)| put(slab, bytes));
    let mut encoder = Encoder::default();
    let values = bytes(10_000, 1);
    let (stored, mask) = encoder.encode(&definition.pipeline, &values).unwrap();
    writer.write_chunk(number, &[100, 200], mask, stored).unwrap();
    put(&Hyperslab::new([100, 200], [100, 100]), &values);
    writer.close().unwrap();
    commit(&path, &never()).unwrap().unwrap();
    (path, writer.log().to_owned(), model)
}

#[test]
fn large_pieces_are_read_in_part() {
    let folder = Folder::new();
    let (path, _, model) = small_and_large(&folder);
    let dataset = dataset(&path, "a");
    assert_eq!(all(&dataset).unwrap(), model);
    let dims = [800, 1000];
    let pick = |index: u64| Axis::range(index..index + 1);
    let choices = [
        Selection::Axes(vec![Axis::range(0..800), pick(500)]),
        Selection::Axes(vec![Axis::steps(0, 7, 110), Axis::steps(3, 90, 11)]),
        Selection::Axes(vec![Axis::range(20..790), Axis::range(1..999)]),
        Selection::Axes(vec![Axis::List((0..800).rev().collect()), Axis::range(0..1000)]),
        Selection::Axes(vec![Axis::range(0..800), Axis::List((0..1000).collect())]),
        Selection::Points { rank: 2, coordinates: (0..4000).map(|at| at * 7919 % 800).collect() },
        Selection::Blocks(Blocks::new(2, &[1, 1, 500, 700, 400, 600, 799, 999]).unwrap()),
    ];
    let float = Datatype::ieee(4, ByteOrder::Big);
    for selection in choices {
        let expected: Vec<u8> = elements(&selection, &dims)
            .iter()
            .map(|element| model[(element[0] * 1000 + element[1]) as usize])
            .collect();
        let mut found = vec![0xa5; expected.len()];
        dataset.read(&selection, &mut found).unwrap();
        assert!(found == expected, "{selection:?}");
        let mut found = vec![0xa5; 4 * expected.len()];
        dataset.read_as(&selection, &float, &mut found).unwrap();
        let same = found
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_be_bytes(*bytes))
            .eq(expected.iter().map(|byte| f32::from(*byte)));
        assert!(same, "{selection:?} as numbers");
    }
}

#[test]
fn a_flipped_byte_is_an_error_or_not_seen() {
    let folder = Folder::new();
    let (path, log, model) = small_and_large(&folder);
    let whole = std::fs::read(&log).unwrap();
    let manifest = Manifest::epoch(&path, 1).unwrap();
    let pieces: Vec<_> = manifest.datasets[0].parts[0].written.pieces.iter().collect();
    // Covered data are read partially, or not at all.
    let step = if cfg!(debug_assertions) { whole.len() / 60 } else { whole.len() / 1000 };
    let mut errors = 0;
    let heads = pieces.iter().map(|piece| piece.head as usize + 20);
    for at in (0..whole.len()).step_by(step).chain(heads).chain(whole.len() - 3000..whole.len() - 2900) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::remove_file(&log).unwrap();
        std::fs::write(&log, &damaged).unwrap();
        match all(&dataset(&path, "a")) {
            Ok(values) => assert!(values == model, "byte {at}"),
            Err(error) => {
                errors += 1;
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
                assert!(
                    text.contains(".log") && text.contains("object a,") && error.offset().is_some(),
                    "{text}"
                );
            }
        }
    }
    assert!(errors > 30, "{errors}");
    // Shorter than the committed length.
    std::fs::remove_file(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(all(&dataset(&path, "a")).unwrap_err().kind(), ErrorKind::Truncated);
    std::fs::remove_file(&log).unwrap();
    let error = all(&dataset(&path, "a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn what_is_not_committed_can_be_opened_and_not_read() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![6]);
    let write = |value: u8| {
        let writer = LogWriter::create(&path, &options()).unwrap();
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[0], &[3], &[value; 3]).unwrap();
        writer.close().unwrap();
        commit(&path, &never()).unwrap().unwrap();
    };
    write(1);
    write(2);
    // Any epoch can be opened, regardless of the current file.
    for (epoch, value) in [(1, 1), (2, 2)] {
        let file = File::open_epoch(&path, epoch).unwrap();
        let old = file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap();
        assert_eq!(old.store().unwrap().epoch, epoch);
        assert_eq!(all(&old).unwrap(), [value, value, value, 0, 0, 0]);
    }
    assert_eq!(File::open_epoch(&path, 3).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(all(&dataset(&path, "a")).unwrap(), [2, 2, 2, 0, 0, 0]);
    assert!(dataset(&path, "a").chunks().is_err());
    // Opening other files is forbidden.
    let mut options = OpenOptions::default();
    options.external = ExternalPolicy::Never;
    let file = File::open(&path, &options).unwrap();
    let alone = file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap();
    assert_eq!((alone.dims(), all(&alone).unwrap_err().kind()), (&[6][..], ErrorKind::Invalid));
    // Without the folder only the shape is available; without the manifest, linked data are
    // available.
    let linked = |path: &Path| {
        let file = File::open(path, &native_options()).unwrap();
        let found = file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap();
        found.external().len() > 1
    };
    std::fs::remove_file(Manifest::path(&path, 2)).unwrap();
    if linked(&path) {
        assert_eq!(all(&dataset(&path, "a")).unwrap(), [2, 2, 2, 0, 0, 0]);
    }
    std::fs::remove_dir_all(store_folder(&path)).unwrap();
    let gone = dataset(&path, "a");
    assert_eq!((gone.dims(), all(&gone).unwrap_err().kind()), (&[6][..], ErrorKind::NotFound));
}

#[test]
fn manifests_that_lie_cost_little() {
    let folder = Folder::new();
    let (path, _, _) = small_and_large(&folder);
    let manifest = Manifest::epoch(&path, 1).unwrap();
    // 2^28 pieces at one place.
    let mut out = Out::default();
    [2, 1, 1 << 1].iter().for_each(|number| out.number(*number));
    [0, 0, 800, 1000, 128, 800_000, 5, 128].iter().for_each(|number| out.difference(*number));
    out.number(1 << 28);
    (0..8).for_each(|_| out.difference(0));
    let mut lies = (*manifest).clone();
    lies.datasets[0].parts[0].written.pieces =
        PackedPieces::decode(&mut Cursor::new(&out.0, "test", 0)).unwrap();
    std::fs::write(Manifest::path(&path, 1), lies.encode().unwrap()).unwrap();
    let mut limits = Limits::default();
    (limits.visits, limits.metadata_bytes) = (1 << 20, 1 << 20);
    let mut options = OpenOptions::default();
    options.limits = limits;
    let open = || {
        let file = File::open(&path, &options).unwrap();
        file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset()
    };
    assert_eq!(all(&open().unwrap()).unwrap_err().kind(), ErrorKind::Limit);
    let body = manifest.encode().unwrap();
    let body = &body[..body.len() - 16];
    let image = manifest.image.len() + 200;
    let mut random = Random(3);
    for _ in 0..if cfg!(debug_assertions) { 300 } else { 5000 } {
        let mut bytes = body.to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below((body.len() - image) as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let checksum = crate::format::id::hash(&bytes);
        bytes.extend(checksum);
        std::fs::write(Manifest::path(&path, 1), &bytes).unwrap();
        let Ok(dataset) = open() else { continue };
        let axes = dataset.dims().iter().map(|dim| Axis::range(0..(*dim).min(900))).collect();
        let selection = Selection::Axes(axes);
        let Ok(count) = selection.count(dataset.dims()) else { continue };
        let mut values = vec![0; usize::try_from(count * dataset.datatype().size).unwrap()];
        drop(dataset.read(&selection, &mut values));
        drop(dataset.written_chunks());
    }
}

#[test]
fn a_million_pieces_of_a_loop_are_looked_through_quickly() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &options()).unwrap();
    let count = if cfg!(debug_assertions) { 20_000 } else { 1_000_000_u64 };
    let definition = Definition::new("/a", Datatype::integer(2, false, ByteOrder::Little), vec![count * 40]);
    let number = writer.define(&definition).unwrap();
    let value = |at: u64| (at as u16).to_le_bytes().repeat(10);
    (0..count).for_each(|at| writer.write_box(number, &[at * 40], &[10], &value(at)).unwrap());
    let check = |read: &dyn Fn(&Selection, &mut [u8])| {
        for at in (0..count).step_by(997) {
            let mut found = [0xa5; 24];
            read(&Selection::Axes(vec![Axis::range(at * 40..at * 40 + 12)]), &mut found);
            assert_eq!(found[..20], value(at));
            assert_eq!(found[20..], [0; 4]);
        }
        let mut found = vec![0xa5; usize::try_from(count * 20).unwrap()];
        let blocks = Axis::Range { start: 0, stride: 40, count, block: 10 };
        read(&Selection::Axes(vec![blocks]), &mut found);
        assert!(found.chunks(20).enumerate().all(|(at, found)| found == value(at as u64)));
    };
    check(&|selection, out| writer.read(number, selection, out).unwrap());
    writer.close().unwrap();
    commit(&path, &never()).unwrap().unwrap();
    let dataset = dataset(&path, "a");
    check(&|selection, out| dataset.read(selection, out).unwrap());
}

#[test]
#[cfg_attr(windows, ignore = "Windows does not delete folders whose files are open")]
fn a_store_is_packed_into_a_file() {
    let folder = Folder::new();
    let (path, _, model) = small_and_large(&folder);
    let out = folder.0.join("packed.h5");
    let file = File::open(&path, &OpenOptions::default()).unwrap();
    let input = Input { file, into: String::new() };
    let packing = PackPlan::new(vec![input], PackOptions::default()).unwrap();
    packing.write(&out, &|_| ()).unwrap();
    std::fs::remove_dir_all(store_folder(&path)).unwrap();
    let packed = dataset(&out, "a");
    assert!(packed.store().is_none() && packed.external().is_empty());
    assert_eq!(all(&packed).unwrap(), model);
}
