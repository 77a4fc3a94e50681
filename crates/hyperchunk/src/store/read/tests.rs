use crate::Dataset;
use crate::file::{File, OpenOptions};
use crate::store::commit::{CommitOptions, commit};
use crate::store::tests::{Folder, options};
use crate::store::{Definition, LogWriter, Slab, WriterOptions};
use crate::write::Sync;
use hyperchunk_format::codec::{Encoder, Target, preset};
use hyperchunk_format::model::{ByteOrder, Datatype, FillValue, FillWhen};
use hyperchunk_format::select::{Axis, Blocks, Choice};
use std::path::Path;

/// Numbers that are the same in each run.
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

/// What was done to a dataset, and when.
enum Step {
    /// A box, and the first of its values, which go up by one.
    Write(Slab, u16),
    Extent(Vec<u64>),
}

/// The value of an element: that of the last write which no later extent clips.
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

fn values(slab: &Slab, first: u16) -> Vec<u8> {
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

fn choices(random: &mut Random, dims: &[u64]) -> Vec<Choice> {
    let rank = dims.len();
    let mut choices = vec![Choice::All];
    if dims.contains(&0) {
        return choices;
    }
    for _ in 0..2 {
        let axes = |random: &mut Random, kind: u64| -> Choice {
            Choice::Axes(
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
    choices.push(Choice::Points { rank, coordinates: coordinates.collect() });
    let mut corners = Vec::new();
    for _ in 0..3 {
        let ranges: Vec<(u64, u64)> = dims.iter().map(|dim| random.range(*dim)).collect();
        corners.extend(ranges.iter().map(|(start, _)| *start));
        corners.extend(ranges.iter().map(|(_, end)| end - 1));
    }
    choices.push(Choice::Blocks(Blocks::new(rank, &corners).unwrap()));
    choices
}

/// The elements of a choice, in its order.
fn elements(choice: &Choice, dims: &[u64]) -> Vec<Vec<u64>> {
    let runs = hyperchunk_format::select::runs(choice, dims).unwrap();
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

/// Everything that can be read is as the steps say.
fn check(read: impl Fn(&Choice, &mut [u8]), steps: &[&[Step]], dims: &[u64], fill: u16, random: &mut Random) {
    for choice in choices(random, dims) {
        let expected: Vec<u16> =
            elements(&choice, dims).iter().map(|element| expected(steps, dims, fill, element)).collect();
        let mut found = vec![0xa5; 2 * expected.len()];
        read(&choice, &mut found);
        let found: Vec<u16> = found.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        assert_eq!(found, expected, "{choice:?} of {dims:?}");
    }
}

/// Does random things to a dataset; returns them.
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
                if new != dims {
                    steps.push(Step::Extent(new));
                }
            }
            _ if dims.contains(&0) => {}
            (2..=4, Some(chunk)) => {
                let offset: Vec<u64> = dims
                    .iter()
                    .zip(chunk)
                    .map(|(dim, chunk)| random.below(dim.div_ceil(*chunk)) * chunk)
                    .collect();
                let slab = Slab::new(offset.clone(), chunk.clone());
                let values = values(&slab, first);
                let (bytes, mask) = match random.below(3) {
                    // The last filter is left out, as the mask says.
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
                    let slab = Slab::new(starts, counts);
                    let first = first.wrapping_add(turn as u16 * 7);
                    bytes.extend(values(&slab, first));
                    boxes.push(slab.clone());
                    steps.push(Step::Write(slab, first));
                }
                writer.write_boxes(number, &boxes, &bytes).unwrap();
            }
            (6, _) => {
                // A loop.
                let width = 1 + random.below(2);
                for turn in 0..dims[0] / 2 {
                    let mut slab = Slab::new(vec![0; dims.len()], dims.clone());
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
                let slab = Slab::new(starts, counts);
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
    for seed in 0..if cfg!(debug_assertions) { 60 } else { 600 } {
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
                    // The writer sees the epochs before, and what it wrote itself.
                    let mut seen: Vec<&[Step]> = steps.iter().map(Vec::as_slice).collect();
                    seen.push(&own);
                    let into = |choice: &Choice, out: &mut [u8]| writer.read(number, choice, out).unwrap();
                    let dims = writer.dataset(number).unwrap().dims;
                    check(into, &seen, &dims, fill, &mut random);
                }
                writer.close().unwrap();
                done.push(((priority, writer.id()), own));
            }
            done.sort_by_key(|(rank, _)| *rank);
            steps.extend(done.into_iter().map(|(_, own)| own));
            let seen: Vec<&[Step]> = steps.iter().map(Vec::as_slice).collect();
            let Some(made) = commit(&path, &never()).unwrap() else { continue };
            let dims = made.manifest.datasets[0].extent.clone();
            let read = dataset(&path, "a");
            assert_eq!(read.dims(), dims, "seed {seed}");
            assert_eq!(read.chunked().map(|chunked| &chunked.dims), definition.chunk.as_ref());
            assert_eq!(read.pipeline().len(), definition.pipeline.len());
            let into = |choice: &Choice, out: &mut [u8]| {
                read.read(choice, out).unwrap_or_else(|error| panic!("seed {seed}, epoch {epoch}: {error}"));
            };
            check(into, &seen, &dims, fill, &mut random);
        }
    }
}
