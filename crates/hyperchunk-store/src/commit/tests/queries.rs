//! Queries compared with plain reads.

use super::*;
use crate::Extreme;
use crate::query::Queries as _;
use crate::query::{Predicate, RankBy};

/// Returns the indices and values in a box for which `holds` is true.
fn plain(values: &[u8], dims: &[u64], slab: &Hyperslab, holds: &dyn Fn(u8) -> bool) -> Vec<(Vec<u64>, u8)> {
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate().filter(|(_, value)| holds(**value)) {
        let mut rest = at as u64;
        let mut index = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            index[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        let within = index.iter().zip(&slab.start).zip(&slab.count);
        if within.into_iter().all(|((at, start), count)| (*start..start + count).contains(at)) {
            found.push((index, *value));
        }
    }
    found
}

fn open_dataset(file: &File) -> hyperchunk::Dataset {
    file.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap()
}

/// Runs many queries on an epoch and compares the answers with a read of everything.
#[track_caller]
pub(super) fn ask(path: &Path, epoch: u64, values: &[u8], fill: u8, random: &mut dyn FnMut(u64) -> u64) {
    let file = File::open_epoch(path, epoch).unwrap();
    let dataset = open_dataset(&file);
    let dims = dataset.dims().to_vec();
    let (some, more) = (u8::try_from(random(250)).unwrap(), u8::try_from(random(250)).unwrap());
    let mut slab = Hyperslab::default();
    for dim in &dims {
        let start = random(dim + 1);
        slab.start.push(start);
        slab.count.push(random(dim - start + 1));
    }
    type Condition = Box<dyn Fn(u8) -> bool>;
    let asked: [(String, Condition); 5] = [
        (format!("value > {some}"), Box::new(move |value| value > some)),
        (
            format!("value == {fill} or value == {some}"),
            Box::new(move |value| value == fill || value == some),
        ),
        (format!("{some} < value <= {more}"), Box::new(move |value| some < value && value <= more)),
        (format!("not value >= {some}.5"), Box::new(move |value| value <= some)),
        ("value < 0 or isnan(value)".to_owned(), Box::new(|_| false)),
    ];
    for (text, holds) in asked {
        let predicate: Predicate = text.parse().unwrap();
        for part in [None, Some(&slab)] {
            let answer = dataset.query(&predicate, part).unwrap();
            let mut matches = dataset.matches(&predicate, &answer).unwrap();
            let mut found = Vec::new();
            while let Some(more) = matches.next().unwrap() {
                let rank = dims.len().max(1);
                found.extend(more.indices.chunks(rank).map(<[u64]>::to_vec).zip(more.values.iter().copied()));
            }
            found.sort();
            let all = Hyperslab::new(vec![0; dims.len()], dims.clone());
            let expected = plain(values, &dims, part.unwrap_or(&all), &holds);
            assert_eq!(found, expected, "{text} in {part:?}: {answer:?}");
            assert_eq!(matches.bytes_scanned(), answer.bytes_candidate);
            assert!(answer.bytes_candidate <= answer.total, "{answer:?}");
            assert!(!text.contains("isnan") || answer.bytes_candidate == answer.unknown, "{answer:?}");
        }
    }
    let highest = dataset.top(2, RankBy::Max, None).unwrap().zones;
    let lowest = dataset.top(2, RankBy::Min, None).unwrap().zones;
    for (zones, above) in [(highest, true), (lowest, false)] {
        let Some(first) = zones.first() else {
            assert!(values.iter().all(|value| *value == fill));
            continue;
        };
        let Extreme::Unsigned(value) = first.value else { panic!("{first:?}") };
        let index = first.index.as_ref().unwrap();
        let at = index.iter().zip(&dims).fold(0, |at, (index, dim)| at * dim + index);
        assert_eq!(u64::from(values[usize::try_from(at).unwrap()]), value, "{first:?}");
        let better = |other: u8| if above { u64::from(other) > value } else { u64::from(other) < value };
        assert!(values.iter().all(|other| *other == fill || !better(*other)), "{first:?}");
        if let [first, second] = &*zones {
            assert!(if above {
                first.value.as_f64() >= second.value.as_f64()
            } else {
                first.value.as_f64() <= second.value.as_f64()
            });
        }
    }
}

#[test]
fn large_records_are_asked_zone_by_zone() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let dims = [40_u64, 300, 400];
    let mut definition = bytes("/a", &dims);
    definition.fill.value = FillWhen::User(vec![7]);
    definition.chunk = None;
    let mut values = vec![7_u8; 4_800_000];
    let mut state = 5_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    for epoch in 1..=2 {
        let writer = writer(&path);
        let number = writer.define(&definition).unwrap();
        for turn in 0..3 {
            // Slow waves, so that zones differ; the last writes are many boxes of one record.
            let step = if turn == 2 { 3 } else { 1 };
            let rows = 10 + random(20);
            let start = random(dims[0] - rows);
            let slabs: Vec<Hyperslab> = (0..rows)
                .step_by(step)
                .map(|row| Hyperslab::new([start + row, 0, 0], [1, 300, 400]))
                .collect();
            let slabs = if turn == 2 { slabs } else { vec![Hyperslab::new([start, 0, 0], [rows, 300, 400])] };
            let peak = random(240);
            let mut written = Vec::new();
            for slab in &slabs {
                for row in slab.start[0]..slab.start[0] + slab.count[0] {
                    let value = u8::try_from((peak + row * 3) % 250).unwrap();
                    let from = usize::try_from(row * 120_000).unwrap();
                    values[from..from + 120_000].fill(value);
                    values[from + 77] = value / 2;
                    written.extend_from_slice(&values[from..from + 120_000]);
                }
            }
            writer.write_boxes(number, &slabs, &written).unwrap();
        }
        writer.close().unwrap();
        let manifest = done(&path);
        if epoch == 2 {
            ask(&path, manifest.number, &values, 7, &mut random);
        }
        let file = File::open_epoch(&path, epoch).unwrap();
        let dataset = open_dataset(&file);
        let answer =
            dataset.query(&format!("value == {}", values[20 * 120_000]).parse().unwrap(), None).unwrap();
        assert!(answer.bytes_candidate < answer.total, "{answer:?}");
        assert_eq!(answer.unknown, 0);
    }
}
