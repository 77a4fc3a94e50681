//! Replay of the fuzz targets over their corpus and damaged copies of it.

use crate::CpuTime;
use crate::blocks::Map;
use crate::dice::Dice;
use crate::memory;
use crate::mutate::{Seed, mutant};
use crate::targets::{TARGETS, codec_input, collection, sidecar};
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of one target for one input, for a slow build on a busy machine.
const TIME: Duration = Duration::from_secs(10);

fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(corpus_folder()).expect("the corpus");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 30, "only {} files", files.len());
    files
}

fn run(name: &str, input: &[u8], only: impl Fn(&str) -> bool) {
    for (target, run) in TARGETS.iter().filter(|(target, _)| only(target)) {
        let start = CpuTime::now();
        run(input);
        assert!(start.elapsed() < TIME, "{name}: {target} took {:?}", start.elapsed());
    }
}

/// Returns whether a target takes a whole file.
fn reads_files(target: &str) -> bool {
    let raw = [
        "datatype",
        "dataspace",
        "layout",
        "pipeline",
        "fill_value",
        "link",
        "attribute",
        "small",
        "selection",
    ];
    !raw.contains(&target) && !["reference", "codec", "sidecar", "collection"].contains(&target)
}

/// Extracts the messages of all objects of a file, and its chunks as inputs for the codecs.
fn parts(file: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut messages, mut chunks) = (Vec::new(), Vec::new());
    let mut options = OpenOptions::default();
    options.allow_truncated = true;
    options.ignore_locks = true;
    let Ok(file) = File::from_bytes(file, &options) else { return (messages, chunks) };
    let Ok(root) = file.root() else { return (messages, chunks) };
    let walked = file.walk(&root, b"/", &mut |visit| {
        if let VisitedItem::Object(object) = visit.found {
            for message in object.header().messages.iter().filter(|message| message.data.len() < 1000) {
                messages.push([&[0], &message.data[..]].concat());
            }
            if let Ok(dataset) = object.dataset() {
                let first = dataset.chunks().unwrap_or_default().into_iter().next();
                let size = dataset.chunked().map_or(0, |chunked| {
                    chunked
                        .dims
                        .iter()
                        .fold(chunked.element_size, |product, dim| product.saturating_mul(*dim))
                });
                let stored = first.and_then(|chunk| dataset.read_chunk_raw(&chunk).ok());
                if let (Some(filter), Some(stored)) = (dataset.pipeline().last(), stored) {
                    chunks.extend(codec_input(filter, size.min(1 << 20) as usize, &stored));
                }
            }
        }
        Ok(Next::Enter)
    });
    drop(walked);
    messages.sort();
    messages.dedup();
    (messages, chunks)
}

#[test]
fn corpus_replays() {
    let _alone = crate::alone();
    for (name, file) in corpus() {
        run(&name, &file, reads_files);
        let (messages, chunks) = parts(&file);
        messages
            .iter()
            .for_each(|message| run(&name, message, |target| !reads_files(target) && target != "codec"));
        chunks.iter().for_each(|chunk| run(&name, chunk, |target| target == "codec"));
    }
}

#[test]
fn damaged_messages_and_chunks() {
    let _alone = crate::alone();
    let mut dice = Dice::new(7);
    let (mut messages, mut chunks) = (Vec::new(), Vec::new());
    for (_, file) in corpus() {
        let (more, chunk) = parts(&file);
        messages.extend(more);
        chunks.extend(chunk);
    }
    messages.sort();
    messages.dedup();
    for (inputs, rounds, codecs) in [(&messages, 8, false), (&chunks, 40, true)] {
        for input in inputs {
            for _ in 0..rounds {
                let mut damaged = input.clone();
                for _ in 0..=dice.below(3) {
                    let at = dice.below(damaged.len());
                    damaged[at] = match dice.below(4) {
                        0 => 0xff,
                        1 => 0,
                        2 => damaged[at] ^ 1 << dice.below(8),
                        _ => dice.next() as u8,
                    };
                }
                if dice.one_in(8) {
                    damaged.truncate(dice.below(damaged.len()));
                }
                run("a damaged part", &damaged, |target| {
                    !reads_files(target) && (target == "codec") == codecs
                });
            }
        }
    }
}

#[test]
fn damaged_files() {
    let _alone = crate::alone();
    let seeds: Vec<Seed> = corpus()
        .into_iter()
        .map(|(name, bytes)| {
            let map = Map::new(&bytes, &[]);
            Seed { name, bytes, map }
        })
        .collect();
    for number in 0..600 {
        let seed = &seeds[number % seeds.len()];
        let file = mutant(seed, &seeds, number as u64);
        run(&format!("{} {number}", seed.name), &file, reads_files);
    }
}

/// Returns a copy with up to three bytes changed after `start`, now and then cut short.
fn damaged(input: &[u8], start: usize, dice: &mut Dice) -> Vec<u8> {
    let mut damaged = input.to_vec();
    for _ in 0..=dice.below(3) {
        let at = start + dice.below(damaged.len() - start);
        damaged[at] = match dice.below(5) {
            0 => 0xff,
            1 => 0,
            2 => damaged[at].wrapping_add(1),
            3 => damaged[at] ^ 1 << dice.below(8),
            _ => dice.next() as u8,
        };
    }
    if dice.one_in(20) {
        damaged.truncate(start + dice.below(damaged.len() - start));
    }
    damaged
}

/// Collections of the corpus's files: intact, and damaged with correct digests. With `HYPERCHUNK_KEEP=FOLDER` they are
/// kept.
#[test]
fn collections_replay() {
    let _alone = crate::alone();
    let mut dice = Dice::new(12);
    let (mut made, mut accepted) = (0, 0);
    for (name, _) in corpus() {
        let Some(input) = collection::input(&corpus_folder().join(&name)) else { continue };
        made += 1;
        if let Some(folder) = std::env::var_os("HYPERCHUNK_KEEP") {
            std::fs::write(Path::new(&folder).join(format!("{name}.hcx")), &input).unwrap();
        }
        let sound = collection::read(&input).unwrap_or_else(|| panic!("{name}: its collection is refused"));
        assert_eq!(sound.files().len(), 2, "{name}");
        for _ in 0..200 {
            let damaged = damaged(&input, 0, &mut dice);
            let before = memory::reset();
            let begun = CpuTime::now();
            accepted += usize::from(collection::read(&damaged).is_some());
            let (peak, _) = memory::peaks();
            assert!(begun.elapsed() < TIME, "{name}: {:?}", begun.elapsed());
            let most = damaged.len() * 20 + (8 << 20);
            assert!(peak - before < most, "{name}: {} bytes, {most} are justified", peak - before);
        }
    }
    // Damage reaches the readers of sections and indexes.
    assert!(made > 20 && accepted > made * 10, "{made} made, {accepted} accepted");
}

/// Sidecar indexes: intact, and damaged with correct digests. With `HYPERCHUNK_KEEP=FOLDER` they are kept.
#[test]
fn indexes_replay() {
    let _alone = crate::alone();
    let inputs: Vec<_> =
        corpus().into_iter().filter_map(|(name, file)| Some((name, sidecar::input(&file)?, file))).collect();
    assert!(inputs.len() > 30, "only {} indexes", inputs.len());
    let mut dice = Dice::new(11);
    let (mut opened, mut wrong) = (0, 0);
    for (name, input, file) in &inputs {
        if let Some(folder) = std::env::var_os("HYPERCHUNK_KEEP") {
            std::fs::write(Path::new(&folder).join(format!("{name}.sidecar")), input).unwrap();
        }
        let sound = sidecar::read(input).unwrap_or_else(|| panic!("{name}: its index is refused"));
        assert!(sound.objects > 0, "{name}");
        let start = sidecar::start(input);
        for _ in 0..60 {
            let damaged = damaged(input, start, &mut dice);
            let before = memory::reset();
            let begun = CpuTime::now();
            let summary = sidecar::read(&damaged);
            let (peak, _) = memory::peaks();
            assert!(begun.elapsed() < TIME, "{name}: {:?}", begun.elapsed());
            let declared = summary.as_ref().map_or(0, |summary| summary.declared as usize);
            let most = (file.len() + damaged.len()) * 10 + declared + (8 << 20);
            assert!(peak - before < most, "{name}: {} bytes, {most} are justified", peak - before);
            opened += usize::from(summary.is_some());
            wrong += usize::from(summary.is_some_and(|summary| !summary.errors.is_empty()));
        }
    }
    // Damage reaches the readers of sections and tables.
    assert!(opened > inputs.len() * 10 && wrong > inputs.len(), "{opened} opened, {wrong} with errors");
}

/// Checksums are found and repaired; otherwise damage would never get past them.
#[test]
fn checksums_are_repaired() {
    let _alone = crate::alone();
    let mut blocks = 0;
    for (name, file) in corpus() {
        let map = Map::new(&file, &[]);
        blocks += map.blocks.len();
        for block in &map.blocks {
            let mut damaged = file.clone();
            // Neither the signature nor the bytes that determine the length.
            damaged[block.start + 4] ^= 1;
            damaged[block.sum] ^= 1;
            map.repair(&mut damaged, &file);
            assert_ne!(damaged[block.sum..block.sum + 4], file[block.sum..block.sum + 4], "{name}");
            damaged[block.start + 4] ^= 1;
            block.repair(&mut damaged);
            assert_eq!(damaged[block.start..block.end], file[block.start..block.end], "{name}");
        }
    }
    assert!(blocks > 300, "only {blocks} blocks");
}
