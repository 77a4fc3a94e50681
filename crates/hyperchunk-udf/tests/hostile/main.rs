//! Hostile texts of live datasets: the corpus of the fuzz targets, and damaged copies of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub,
    reason = "a test may fail and say so; what is included is written for a crate of its own"
)]

#[allow(dead_code, reason = "other targets use more of it")]
#[path = "../../../../fuzz/src/dice.rs"]
mod dice;
#[path = "../../../../fuzz/src/texts.rs"]
mod texts;

use dice::Dice;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of damaged copies of each file.
const COPY_COUNT: u64 = 400;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus_texts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |p: std::path::PathBuf| {
        (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(p).unwrap())
    };
    files.into_iter().map(read).collect()
}

/// Returns a damaged copy: bytes changed, removed, doubled, and pieces of other files.
fn damaged(original: &[u8], all: &[(String, Vec<u8>)], dice: &mut Dice) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "(",
        ")",
        "+",
        "**",
        "where(",
        ",",
        "nan",
        "1e999",
        "-",
        "int8(",
        "\0",
        "{",
        "}",
        "string(*)",
        "=",
        "not ",
    ];
    let mut bytes = original.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 if at < bytes.len() => bytes[at] = dice.next() as u8,
            1 => drop(bytes.drain(at..(at + dice.below(8)).min(bytes.len()))),
            2 => drop(bytes.splice(at..at, dice.pick(&WORDS).unwrap().bytes())),
            3 => {
                let other = &dice.pick(all).unwrap().1;
                let from = dice.below(other.len() + 1);
                let piece = other[from..(from + dice.below(24)).min(other.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            _ => {
                let piece = bytes[at..(at + dice.below(16)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
    bytes
}

#[test]
fn saved_and_damaged_texts() {
    let all = corpus();
    assert!(all.len() > 10);
    for (name, target) in texts::TEXTS {
        for (number, (file, original)) in all.iter().enumerate() {
            let mut dice = Dice::new(number as u64);
            target(original);
            for _ in 0..COPY_COUNT {
                let bytes = damaged(original, &all, &mut dice);
                let start = Instant::now();
                target(&bytes);
                assert!(start.elapsed() < Duration::from_secs(10), "{name} of a damaged {file}: {bytes:?}");
            }
        }
    }
}
