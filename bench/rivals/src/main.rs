//! Speed of Rust readers of HDF5, in one process and one loop: `rivals FOLDER ROUNDS [JOB…]`.
//!
//! Built and run from the root of the repository:
//!
//! ```sh
//! cargo build --release --manifest-path bench/rivals/Cargo.toml
//! .venv/bin/python bench/reading.py --rivals bench/rivals/target/release/rivals
//! ```
//!
//! `bench/reading.py` makes the folder: `data.h5`, `many.h5` and `corners.json`. The output is JSON: job →
//! reader → seconds of each round, or a string with the reason why there are none. A round runs each reader
//! once, every other round in reverse order; a warm-up round is not counted. Every answer is compared with
//! libhdf5's, and other data go through the processors' caches before each turn, so that no reader profits
//! from the previous one.
//!
//! Each reader does the job in the fastest of its documented ways, with one thread per processor if it has
//! threads. A job starts with opening the file, which for hidefix includes making its index through libhdf5;
//! "ready" excludes that. Closing the file counts, freeing the answer does not.

mod jobs;
mod readers;

use jobs::{Answer, Input, Job, Result};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

/// Bytes that go through the caches before each turn.
const SWEEP_BYTES: usize = 64 << 20;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), Some(rounds)) = (arguments.next(), arguments.next()) else {
        return Err("rivals FOLDER ROUNDS [JOB…]".into());
    };
    let rounds = rounds.to_str().and_then(|rounds| rounds.parse().ok()).ok_or("ROUNDS is a number")?;
    let wanted: Vec<_> = arguments.collect();
    let processors = std::thread::available_parallelism()?;
    // SAFETY: no other thread has been started.
    unsafe { std::env::set_var("RUST_HDF5_IO_THREADS", processors.to_string()) };
    let input = Input::open(PathBuf::from(folder))?;
    let mut report = Map::new();
    for (name, job) in jobs::JOBS {
        if !wanted.is_empty() && !wanted.iter().any(|job| job == name) {
            continue;
        }
        let expected = readers::libhdf5::expected(&input, job)?;
        report.insert(name.to_owned(), Value::Object(compare(&input, job, &expected, rounds)));
    }
    println!("{}", Value::Object(report));
    Ok(())
}

/// Returns the seconds that each reader takes for a job, round by round.
fn compare(input: &Input, job: Job, expected: &Answer, rounds: usize) -> Map<String, Value> {
    let mut results: Vec<(&str, std::result::Result<Vec<f64>, String>)> =
        readers::ALL.iter().map(|(name, _)| (*name, Ok(Vec::new()))).collect();
    for round in 0..=rounds {
        let mut turns: Vec<_> = readers::ALL.iter().zip(&mut results).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for ((_, reader), (_, result)) in turns {
            let Ok(seconds) = result else { continue };
            match once(*reader, input, job, expected) {
                Ok(_) if round == 0 => {}
                Ok(elapsed) => seconds.push(elapsed),
                Err(error) => *result = Err(error.to_string()),
            }
        }
    }
    results
        .into_iter()
        .map(|(name, result)| (name.to_owned(), result.map_or_else(Value::from, |all| json!(all))))
        .collect()
}

/// Does a job once; returns the seconds.
fn once(reader: readers::Reader, input: &Input, job: Job, expected: &Answer) -> Result<f64> {
    let task = reader(input, job)?;
    black_box(vec![1_u8; SWEEP_BYTES].iter().map(|byte| u64::from(*byte)).sum::<u64>());
    let start = Instant::now();
    let answer = task()?;
    let elapsed = start.elapsed().as_secs_f64();
    answer.check(expected)?;
    Ok(elapsed)
}
