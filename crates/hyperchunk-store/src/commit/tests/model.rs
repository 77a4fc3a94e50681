//! Random writers, and writers stopped at random points, compared with a model.

use super::*;

/// Expected state of a dataset: for each element all writes to it, the topmost last.
struct Model {
    dims: Vec<u64>,
    cells: HashMap<Vec<u64>, Vec<(u64, WriterId, u8)>>,
}

impl Model {
    fn put(&mut self, slab: &Hyperslab, epoch: u64, writer: WriterId, values: &[u8]) {
        for (at, value) in values.iter().enumerate() {
            let mut rest = at as u64;
            let mut place = vec![0; slab.start.len()];
            for axis in (0..place.len()).rev() {
                place[axis] = slab.start[axis] + rest % slab.count[axis];
                rest /= slab.count[axis];
            }
            self.cells.entry(place).or_default().push((epoch, writer, *value));
        }
    }

    fn clip(&mut self, dims: &[u64], gone: impl Fn(u64, WriterId) -> bool) {
        for (place, cell) in &mut self.cells {
            if place.iter().zip(dims).any(|(at, dim)| at >= dim) {
                cell.retain(|(epoch, writer, _)| !gone(*epoch, *writer));
            }
        }
    }

    fn values(&self, fill: u8) -> Vec<u8> {
        let count: u64 = self.dims.iter().product();
        let value = |at: u64| {
            let mut rest = at;
            let mut place = vec![0; self.dims.len()];
            for axis in (0..place.len()).rev() {
                place[axis] = rest % self.dims[axis];
                rest /= self.dims[axis];
            }
            self.cells.get(&place).and_then(|cell| cell.last()).map_or(fill, |(_, _, value)| *value)
        };
        (0..count).map(value).collect()
    }
}

/// Returns the seeds to test: `HYPERCHUNK_SEEDS` of them, or the default number.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let wanted = std::env::var("HYPERCHUNK_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    0..wanted.unwrap_or(usual)
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

enum Operation {
    Box(Hyperslab, Vec<u8>),
    Clip(Vec<u64>),
}

/// Performs random operations of several writers of one epoch, and adds them to the model. Returns
/// the conflicts: different values that two writers of equal priority left in one place, the lower
/// writer first; and writers with data outside the extent, and the last writer that set a smaller one, unless it has a higher priority.
fn round(
    path: &Path,
    definition: &Definition,
    model: &mut Model,
    random: &mut Random,
    epoch: u64,
) -> Vec<(WriterId, WriterId)> {
    let rank = definition.dims.len();
    let mut all: Vec<(i32, WriterId, Vec<u64>, Vec<Operation>)> = Vec::new();
    let before = model.dims.clone();
    let writers: Vec<LogWriter> = (0..1 + random.below(3))
        .map(|_| {
            let priority = i32::try_from(random.below(2)).unwrap();
            LogWriter::create(path, &WriterOptions { priority, ..options() }).unwrap()
        })
        .collect();
    for writer in &writers {
        let number = writer.define(definition).unwrap();
        let mut dims = before.clone();
        let mut did = Vec::new();
        for _ in 0..random.below(8) {
            match random.below(6) {
                0 => {
                    let new: Vec<u64> = (0..rank).map(|_| random.below(12)).collect();
                    writer.set_extent(number, &new).unwrap();
                    let clip =
                        new.iter().zip(&dims).map(|(new, old)| if new < old { *new } else { u64::MAX });
                    did.push(Operation::Clip(clip.collect()));
                    dims = new;
                }
                1 if dims.iter().all(|dim| *dim > 0) => {
                    let offset: Vec<u64> = dims.iter().map(|dim| random.below(*dim) / 3 * 3).collect();
                    let count = 3_usize.pow(u32::try_from(rank).unwrap());
                    let values: Vec<u8> =
                        (0..count).map(|_| u8::try_from(random.below(250)).unwrap()).collect();
                    let mut encoder = Encoder::default();
                    let (encoded, mask) = encoder.encode(&definition.pipeline, &values).unwrap();
                    writer.write_chunk(number, &offset, mask, encoded).unwrap();
                    did.push(Operation::Box(Hyperslab::new(offset, vec![3; rank]), values));
                }
                _ if dims.iter().all(|dim| *dim > 0) => {
                    let start: Vec<u64> = dims.iter().map(|dim| random.below(*dim)).collect();
                    let count: Vec<u64> =
                        dims.iter().zip(&start).map(|(dim, start)| 1 + random.below(dim - start)).collect();
                    let slab = Hyperslab::new(start, count);
                    let values: Vec<u8> = (0..slab.elements().unwrap())
                        .map(|_| u8::try_from(random.below(250)).unwrap())
                        .collect();
                    writer.write_box(number, &slab.start, &slab.count, &values).unwrap();
                    did.push(Operation::Box(slab, values));
                }
                _ => {}
            }
        }
        all.push((writer.header().priority, writer.id(), dims, did));
        writer.close().unwrap();
    }
    // In order of priority, and of creation.
    all.sort_by_key(|(priority, ..)| *priority);
    let (mut grown, mut shrunk) = (before.clone(), before.clone());
    for (_, writer, last, did) in &all {
        for done in did {
            match done {
                Operation::Box(slab, values) => model.put(slab, epoch, *writer, values),
                Operation::Clip(dims) => model.clip(dims, |of, by| of < epoch || by == *writer),
            }
        }
        for axis in 0..rank {
            grown[axis] = grown[axis].max(last[axis]);
            if last[axis] < before[axis] {
                shrunk[axis] = shrunk[axis].min(last[axis]);
            }
        }
    }
    let ends = before.iter().zip(grown).zip(shrunk);
    model.dims = ends.map(|((before, grown), shrunk)| if grown > *before { grown } else { shrunk }).collect();
    // Data outside the extent of the epoch are lost, except in chunks across its edge, as in HDF5.
    let dims = model.dims.clone();
    let exceeds = |last: &[u64]| last.iter().zip(&dims).any(|(last, dim)| last > dim);
    let changes = |did: &[Operation]| did.iter().any(|done| matches!(done, Operation::Clip(_)));
    let smaller = all.iter().rfind(|(_, _, last, did)| !exceeds(last) && changes(did));
    let kept = smaller.map_or(WriterId::default(), |(_, writer, ..)| *writer);
    let mut cut = Vec::new();
    for (priority, writer, last, _) in &all {
        if exceeds(last) {
            let inside = |place: &[u64], dims: &[u64]| place.iter().zip(dims).all(|(at, dim)| at < dim);
            let is_lost = model.cells.iter().any(|(place, cell)| {
                let own = cell.iter().any(|(of, by, _)| *of == epoch && by == writer);
                own && inside(place, last) && !inside(place, &dims)
            });
            if is_lost && smaller.is_none_or(|(deciding, ..)| deciding <= priority) {
                cut.push((*writer, kept));
            }
            model.clip(&dims, |of, by| of == epoch && by == *writer);
        }
    }
    // The final visible data of each writer.
    let mut conflicts = std::collections::BTreeSet::new();
    for (place, cell) in &model.cells {
        if place.iter().zip(&dims).any(|(at, dim)| at >= dim) {
            continue;
        }
        let mut left: HashMap<WriterId, u8> = HashMap::new();
        left.extend(cell.iter().filter(|(of, ..)| *of == epoch).map(|(_, writer, value)| (*writer, *value)));
        let rank = |writer: &WriterId| all.iter().position(|(_, by, ..)| by == writer);
        let priority = |writer: &WriterId| rank(writer).map(|rank| all[rank].0);
        for (one, value) in &left {
            for (other, second) in &left {
                if rank(one) < rank(other) && value != second && priority(one) == priority(other) {
                    conflicts.insert((*one, *other));
                }
            }
        }
    }
    cut.extend(conflicts);
    cut.sort_unstable();
    cut
}

#[test]
fn random_writers_against_a_model() {
    let folder = Folder::new();
    for seed in seeds(60) {
        let mut random = Random(seed);
        let path = folder.0.join(format!("{seed}.h5"));
        let dims: Vec<u64> = (0..1 + random.below(3)).map(|_| random.below(12)).collect();
        let mut definition = bytes("/a", &dims);
        let fill = u8::try_from(random.below(2)).unwrap();
        definition.fill.value = FillWhen::User(vec![fill]);
        if random.below(2) == 0 {
            let chunk = definition.chunk.clone().unwrap();
            let target = Target { datatype: &byte(), chunk: &chunk, fill: &FillWhen::Default };
            definition.pipeline = preset("deflate", &target).unwrap();
        }
        let id = definition.id().unwrap();
        let mut model = Model { dims, cells: HashMap::new() };
        let mut epochs = Vec::new();
        for epoch in 1..=5 {
            let conflicts = round(&path, &definition, &mut model, &mut random, epoch);
            let manifest = done(&path);
            let mut found: Vec<_> =
                manifest.conflicts.iter().map(|found| (found.other, found.kept)).collect();
            found.sort_unstable();
            assert_eq!(found, conflicts, "seed {seed}, round {epoch}: {:?}", manifest.conflicts);
            assert_eq!(manifest.dataset(&id).unwrap().extent, model.dims, "seed {seed}, epoch {epoch}");
            epochs.push((manifest.number, model.values(fill)));
            if random.below(4) == 0 {
                let some = CompactOptions { memory: 50, sync: Sync::Never, ..CompactOptions::default() };
                let made = compact::compact(&path, &some).unwrap();
                epochs.extend(made.map(|made| (made.manifest.number, model.values(fill))));
            }
            for (number, expected) in &epochs {
                let manifest = Manifest::epoch(&path, *number).unwrap();
                let at = format!("seed {seed}, epoch {number} after round {epoch}");
                assert_eq!(&read(&path, &manifest, &id), expected, "{at}");
                assert_eq!(&engine(&path, *number, "a"), expected, "{at}, our reader");
                queries::ask(&path, *number, expected, fill, &mut |below| random.below(below));
            }
            let newest = &epochs.last().unwrap().1;
            let out = folder.0.join(format!("{seed}.packed.h5"));
            let pack = PackOptions { replace: true, sync: Sync::Never, ..PackOptions::default() };
            pack::pack(&path, &out, &pack).unwrap();
            assert_eq!(&native(&out, "a").unwrap(), newest, "seed {seed}, round {epoch}, packed");
            if marked(&path, "a").len() > 1 {
                assert_eq!(&native(&path, "a").unwrap(), newest, "seed {seed}, round {epoch}, linked");
            }
        }
    }
}

#[test]
fn logs_that_are_cut_anywhere_give_no_wrong_bytes_and_keep_what_was_committed() {
    let folder = Folder::new();
    let definition = bytes("/a", &[1000]);
    let id = definition.id().unwrap();
    for seed in seeds(40) {
        let mut random = Random(1000 + seed);
        let path = folder.0.join(format!("{seed}.h5"));
        let first = writer(&path);
        let number = first.define(&definition).unwrap();
        first.write_box(number, &[0], &[1000], &[1; 1000]).unwrap();
        first.close().unwrap();
        let committed = done(&path);
        let killed = writer(&path);
        let number = killed.define(&definition).unwrap();
        for _ in 0..random.below(30) {
            let start = random.below(900);
            killed.write_box(number, &[start], &[100], &[2; 100]).unwrap();
            if random.below(5) == 0 {
                killed.flush().unwrap();
            }
        }
        killed.read_at(0, &mut [0]).unwrap();
        let length = fs::metadata(killed.log()).unwrap().len();
        let log = fs::File::options().write(true).open(killed.log()).unwrap();
        log.set_len(random.below(length)).unwrap();
        if random.below(3) == 0 {
            // Garbage at the torn end.
            let end = log.metadata().unwrap().len();
            hyperchunk::internal::positioned::write_all_at(&log, end.saturating_sub(150), &[0xa5; 300])
                .unwrap();
        }
        let made = commit(&path, &CommitOptions { salvage: true, ..never() });
        let manifest = made.unwrap().map_or_else(|| Arc::clone(&committed), |made| made.manifest);
        let values = read(&path, &manifest, &id);
        assert!(values.iter().all(|value| [1, 2].contains(value)), "seed {seed}");
        assert_eq!(read(&path, &Manifest::epoch(&path, 1).unwrap(), &id), vec![1; 1000], "seed {seed}");
    }
}
