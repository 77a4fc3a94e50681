//! Cost of reading a sharded store: compared with reading the same bytes of the logs, and inside a writing
//! process.
//!
//! `cargo run --release -p hyperchunk-store --example store_read [FOLDER]`
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a measurement prints, and ends where it cannot go on"
)]

use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::Sync;
use hyperchunk::{Dataset, File, OpenOptions, Result};
use hyperchunk_store::commit::{CommitOptions, commit};
use hyperchunk_store::{Definition, LogWriter, WriterOptions};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Number of measurements of each case, in turns.
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    hyperchunk_store::register();
    let folder = std::env::args()
        .nth(1)
        .map_or_else(|| PathBuf::from("/dev/shm/hyperchunk-store-read"), PathBuf::from);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).map_err(io)?;
    records(&folder.join("records.h5"))?;
    small(&folder.join("small.h5"))?;
    own(&folder.join("own.h5"))?;
    fs::remove_dir_all(&folder).map_err(io)
}

fn io(error: std::io::Error) -> hyperchunk::Error {
    hyperchunk::Error::new(hyperchunk::ErrorKind::Io, error.to_string())
}

fn options(checksum: bool) -> WriterOptions {
    let mut options = WriterOptions::default();
    (options.sync, options.checksum) = (Sync::Never, checksum);
    options
}

fn committed(path: &Path) -> Result<()> {
    let mut options = CommitOptions::default();
    options.sync = Sync::Never;
    commit(path, &options).map(drop)
}

fn dataset(path: &Path, threads: usize) -> Result<Dataset> {
    let mut options = OpenOptions::default();
    options.threads = threads;
    File::open(path, &options)?.root()?.group()?.get(b"a")?.dataset()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// 256 MiB in 32 records of 4 writers.
fn records(path: &Path) -> Result<()> {
    const RECORD_BYTES: usize = 8 << 20;
    for checksum in [true, false] {
        drop(fs::remove_dir_all(hyperchunk_store::store_folder(path)));
        drop(fs::remove_file(path));
        let definition = Definition::new("/a", Datatype::ieee(4, ByteOrder::Little), vec![64 << 20]);
        let bytes: Vec<u8> = (0..RECORD_BYTES).map(|at| ((at * at) >> 7) as u8).collect();
        for writer in 0..4 {
            let log = LogWriter::create(path, &options(checksum))?;
            let number = log.define(&definition)?;
            for record in 0..8 {
                log.write_box(number, &[(record * 4 + writer) << 21], &[2 << 20], &bytes)?;
            }
            log.close()?;
        }
        committed(path)?;
        let logs: Vec<PathBuf> = fs::read_dir(hyperchunk_store::store_folder(path))
            .map_err(io)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        let mut out = vec![1_u8; 256 << 20];
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for (log, out) in logs.iter().zip(out.chunks_mut(64 << 20)) {
                let mut log = fs::File::open(log).map_err(io)?;
                out.chunks_mut(1 << 20).try_for_each(|part| log.read_exact(part)).map_err(io)?;
            }
            times[0].push(start.elapsed().as_secs_f64());
            for threads in [1, 2] {
                let start = Instant::now();
                dataset(path, threads)?.read(&Selection::All, &mut out)?;
                times[threads].push(start.elapsed().as_secs_f64());
            }
            assert!(out.chunks(RECORD_BYTES).all(|record| record == bytes));
        }
        let ratio =
            |threads: usize| median(times[threads].iter().zip(&times[0]).map(|(a, b)| a / b).collect());
        println!(
            "256 MiB in 32 records, checksums {checksum}: pread {:.1} ms; open and read, 1 thread x{:.2}, 2 threads x{:.2}",
            1e3 * median(times[0].clone()),
            ratio(1),
            ratio(2)
        );
    }
    Ok(())
}

/// Many small records: irregular ones, and a loop.
fn small(path: &Path) -> Result<()> {
    let count = 200_000_u64;
    let definition = Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![count * 200]);
    for writer in 0..4 {
        let log = LogWriter::create(path, &options(true))?;
        let number = log.define(&definition)?;
        for at in (writer..count).step_by(4) {
            let size = 100 + at * 7919 % 91;
            log.write_box(number, &[at * 200], &[size], &[at as u8; 200][..size as usize])?;
        }
        log.close()?;
    }
    let start = Instant::now();
    committed(path)?;
    println!(
        "200,000 irregular records of 145 bytes: committed in {:.0} ms",
        1e3 * start.elapsed().as_secs_f64()
    );
    let start = Instant::now();
    let opened = dataset(path, 0)?;
    let mut one = [0; 16];
    opened.read(&Selection::Axes(vec![Axis::range(0..16)]), &mut one)?;
    println!("  opened, first read: {:.1} ms", 1e3 * start.elapsed().as_secs_f64());
    let mut all = vec![0; (count * 200) as usize];
    let start = Instant::now();
    opened.read(&Selection::All, &mut all)?;
    println!("  all, 40 MB: {:.0} ms", 1e3 * start.elapsed().as_secs_f64());
    let start = Instant::now();
    for at in 0..10_000 {
        let from = at * 7919 * 200 % (count * 200 - 16);
        opened.read(&Selection::Axes(vec![Axis::range(from..from + 16)]), &mut one)?;
    }
    println!("  16 bytes anywhere: {:.1} us", 1e6 * start.elapsed().as_secs_f64() / 1e4);
    Ok(())
}

/// 20,000 records of 1 KiB, read in the process that wrote them.
fn own(path: &Path) -> Result<()> {
    let log = LogWriter::create(path, &options(true))?;
    let definition =
        Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), vec![20_000 << 10]);
    let number = log.define(&definition)?;
    let mut place = 1_u64;
    for at in 0..20_000_u64 {
        place = (place + 7919) % 20_000;
        log.write_box(number, &[place << 10], &[1 << 10], &[at as u8; 1 << 10])?;
    }
    let mut out = [0; 1 << 10];
    let start = Instant::now();
    log.read(number, &Selection::Axes(vec![Axis::range(0..1 << 10)]), &mut out)?;
    let first = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for at in 0..20_000_u64 {
        let from = at * 6007 % 20_000 * 1024 + at % 2 * 512;
        let end = (from + 1024).min(20_000 << 10);
        log.read(number, &Selection::Axes(vec![Axis::range(from..end)]), &mut out[..(end - from) as usize])?;
    }
    let each = start.elapsed().as_secs_f64() / 2e4;
    println!(
        "20,000 own records of 1 KiB: first read {:.0} us, each read of 1 KiB {:.2} us",
        1e6 * first,
        1e6 * each
    );
    let start = Instant::now();
    for at in 0..5_000_u64 {
        let from = at * 6007 % 20_000 * 1024;
        log.write_box(number, &[from], &[1 << 10], &out)?;
        log.read(number, &Selection::Axes(vec![Axis::range(from..from + 1024)]), &mut out)?;
    }
    println!("  written and read in turns: {:.2} us a pair", 1e6 * start.elapsed().as_secs_f64() / 5e3);
    log.close().map(drop)
}
