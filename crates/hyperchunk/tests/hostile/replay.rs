//! The fuzz targets over their corpus, and over damaged copies of it.

use crate::blocks::Map;
use crate::dice::Dice;
use crate::mutate::{Seed, mutant};
use crate::targets::{TARGETS, codec_input};
use hyperchunk::walk::{Found, Next};
use hyperchunk::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that one target may take for one input, in a slow build on a busy machine.
const TIME: Duration = Duration::from_secs(10);

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = std::fs::read_dir(folder).expect("the corpus");
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
        let start = Instant::now();
        run(input);
        assert!(start.elapsed() < TIME, "{name}: {target} took {:?}", start.elapsed());
    }
}

/// Whether a target takes a whole file.
fn of_files(target: &str) -> bool {
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
    !raw.contains(&target) && target != "reference" && target != "codec"
}

/// The messages of all objects of a file, and its chunks as inputs for the codecs.
fn parts(file: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut messages, mut chunks) = (Vec::new(), Vec::new());
    let mut options = OpenOptions::default();
    options.allow_truncated = true;
    options.ignore_locks = true;
    let Ok(file) = File::from_bytes(file, &options) else { return (messages, chunks) };
    let Ok(root) = file.root() else { return (messages, chunks) };
    let walked = file.walk(&root, b"/", &mut |visit| {
        if let Found::Object(object) = visit.found {
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
        run(&name, &file, of_files);
        let (messages, chunks) = parts(&file);
        messages
            .iter()
            .for_each(|message| run(&name, message, |target| !of_files(target) && target != "codec"));
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
                run("a damaged part", &damaged, |target| !of_files(target) && (target == "codec") == codecs);
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
        run(&format!("{} {number}", seed.name), &file, of_files);
    }
}

/// Checksums are found and made right again: else damage would never get past them.
#[test]
fn checksums_are_repaired() {
    let _alone = crate::alone();
    let mut blocks = 0;
    for (name, file) in corpus() {
        let map = Map::new(&file, &[]);
        blocks += map.blocks.len();
        for block in &map.blocks {
            let mut damaged = file.clone();
            // Not the signature, nor what the length depends on.
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
