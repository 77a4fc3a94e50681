//! Writers of one sharded store, killed at random times, and logs truncated at random places: committed
//! data are correct, all flushed data are there, and every epoch stays unchanged.
//!
//! `HYPERCHUNK_KILLS=1000 cargo test --release -p hyperchunk-store --test store_killed -- --nocapture` kills
//! 1,000 of them.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::Sync;
use hyperchunk::{File, OpenOptions};
use hyperchunk_store::commit::{CommitOptions, commit};
use hyperchunk_store::{Definition, KnownStore, LogWriter, Segments, WriterOptions, create, log_path};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CHILD: &str = "HYPERCHUNK_STORE_CHILD";
const WRITERS: u64 = 4;
/// Elements of each dataset.
const LENGTH: u64 = 1 << 18;

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Returns the value of a written element: never 0.
fn value(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn bytes(start: u64, count: u64) -> Vec<u8> {
    (start..start + count).flat_map(|index| value(index).to_le_bytes()).collect()
}

fn definition(name: &str) -> Definition {
    Definition::new(name, Datatype::integer(8, false, ByteOrder::Little), vec![LENGTH])
}

const NAMES: [&str; 2] = ["/large", "/small"];

/// Writes until it is killed, and reports the flushed data.
fn child(path: &Path, seed: u64) {
    let mut options = WriterOptions::default();
    (options.sync, options.statistics) = (Sync::Never, seed.is_multiple_of(2));
    options.checksum = !seed.is_multiple_of(5);
    options.segments = if seed & 4 == 0 { Segments::Arrow } else { Segments::Log };
    options.memory = (cfg!(target_os = "linux") && seed.is_multiple_of(7)).then_some(1 << 20);
    options.known = Some(KnownStore::default()).filter(|_| seed.is_multiple_of(3));
    let writer = LogWriter::create(path, &options).unwrap();
    let datasets: Vec<u32> = NAMES.iter().map(|name| writer.define(&definition(name)).unwrap()).collect();
    let mut random = Random(seed * 77 + 1);
    let mut out = std::io::stdout();
    let mut done = Vec::new();
    loop {
        let small = random.next(3) != 0;
        let most = if small { 40 } else { 30_000 };
        let start = random.next(LENGTH - 1);
        let count = (1 + random.next(most)).min(LENGTH - start);
        writer.write_box(datasets[usize::from(small)], &[start], &[count], &bytes(start, count)).unwrap();
        done.push((usize::from(small), start, count));
        if random.next(20) == 0 {
            writer.flush().unwrap();
            let text: String =
                done.drain(..).map(|(set, start, count)| format!("{set} {start} {count}\n")).collect();
            // The parent may be gone.
            if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                std::process::exit(0);
            }
        }
    }
}

fn start(path: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["children_write_until_they_are_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{seed} {}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn children_write_until_they_are_killed() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let (seed, path) = given.split_once(' ').unwrap();
    child(Path::new(path), seed.parse().unwrap());
}

fn read(file: &File, name: &str) -> Vec<u64> {
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let mut out = vec![0; LENGTH as usize * 8];
    dataset.read(&Selection::All, &mut out).unwrap();
    out.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

/// Checks that every element has its value or was never written.
fn check(values: &[u64]) -> usize {
    let wrong = (0..).zip(values).filter(|(index, found)| **found != 0 && **found != value(*index)).count();
    assert_eq!(wrong, 0, "{wrong} elements are wrong");
    values.iter().filter(|value| **value != 0).count()
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        hyperchunk_store::register();
        let base =
            if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let path = base.join(format!("hyperchunk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn killed_writers_lose_nothing_that_was_flushed_and_invent_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let kills: u64 = std::env::var("HYPERCHUNK_KILLS").map_or(40, |kills| kills.parse().unwrap());
    let mut random = Random(std::process::id().into());
    let folder = Folder::new("store-killed");
    let (mut epochs, mut records, mut salvaged) = (0, 0, 0);
    let mut killed = 0;
    while killed < kills {
        let path = folder.0.join(format!("{killed}.h5"));
        create(&path, &NAMES.map(definition), None, false, Sync::Never).unwrap();
        let mut before: Vec<(u64, Vec<Vec<u64>>)> = Vec::new();
        let mut promised: Vec<(usize, u64, u64)> = Vec::new();
        for _round in 0..3 {
            let mut children: Vec<Child> =
                (0..WRITERS).map(|_| start(&path, random.next(1 << 30) + 1)).collect();
            std::thread::sleep(Duration::from_millis(20 + random.next(60)));
            let mut options = CommitOptions::default();
            options.sync = Sync::Never;
            if random.next(2) == 0 {
                // While they write.
                options.flushed = true;
                drop(commit(&path, &options).unwrap());
            }
            for child in &mut children {
                std::thread::sleep(Duration::from_millis(random.next(8)));
                child.kill().unwrap();
                for line in BufReader::new(child.stdout.take().unwrap()).lines() {
                    let line = line.unwrap();
                    let mut words = line.split(' ').map(str::parse::<u64>);
                    if let (Some(Ok(set)), Some(Ok(start)), Some(Ok(count)), None) =
                        (words.next(), words.next(), words.next(), words.next())
                    {
                        promised.push((set as usize, start, count));
                    }
                }
                child.wait().unwrap();
                killed += 1;
            }
            options.salvage = true;
            let Some(made) = commit(&path, &options).unwrap() else { continue };
            assert!(made.manifest.conflicts.is_empty(), "{:?}", made.manifest.conflicts);
            epochs += 1;
            salvaged += made.manifest.logs.iter().filter(|log| log.salvaged).count();
            let file = File::open(&path, &OpenOptions::default()).unwrap();
            let values: Vec<Vec<u64>> = NAMES.iter().map(|name| read(&file, name)).collect();
            assert!(values.iter().map(|values| check(values)).sum::<usize>() > 0 || promised.is_empty());
            for (set, start, count) in &promised {
                let range = *start as usize..(start + count) as usize;
                assert!(values[*set][range].iter().all(|value| *value != 0), "what was flushed is not there");
            }
            records = records.max(promised.len());
            before.push((made.manifest.number, values));
        }
        for (number, values) in &before {
            let file = File::open_epoch(&path, *number).unwrap();
            for (name, values) in NAMES.iter().zip(values) {
                assert_eq!(&read(&file, name), values, "epoch {number} is not as it was");
            }
        }
        drop(std::fs::remove_dir_all(format!("{}.d", path.display())));
        drop(std::fs::remove_file(&path));
    }
    println!(
        "{killed} writers killed, {epochs} epochs right, {salvaged} logs salvaged, up to {records} flushed writes each"
    );
    assert!(epochs > 0);
}

#[test]
fn a_log_that_is_cut_behind_an_epoch_costs_that_epoch_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let folder = Folder::new("store-cut");
    let mut random = Random(99);
    for number in 0..20 {
        let path = folder.0.join(format!("{number}.h5"));
        let writers: Vec<LogWriter> =
            (0..3).map(|_| LogWriter::create(&path, &WriterOptions::default()).unwrap()).collect();
        let mut write = |count: u64| {
            for writer in &writers {
                for _ in 0..count {
                    let small = random.next(2) as usize;
                    let data = writer.define(&definition(NAMES[small])).unwrap();
                    let start = random.next(LENGTH - 20_000);
                    let length = 1 + random.next(if small == 1 { 50 } else { 20_000 });
                    writer.write_box(data, &[start], &[length], &bytes(start, length)).unwrap();
                }
                writer.flush().unwrap();
            }
        };
        write(5);
        let mut options = CommitOptions::default();
        (options.sync, options.flushed) = (Sync::Never, true);
        let first = commit(&path, &options).unwrap().unwrap();
        let read_all = |file: &File| NAMES.map(|name| read(file, name));
        let before = read_all(&File::open(&path, &OpenOptions::default()).unwrap());
        write(5);
        drop(writers);
        for log in &first.manifest.logs {
            let name = log_path(&path, log.writer);
            let file = std::fs::File::options().write(true).open(&name).unwrap();
            let behind = file.metadata().unwrap().len() - log.length;
            file.set_len(log.length + random.next(behind + 1)).unwrap();
        }
        assert_eq!(read_all(&File::open(&path, &OpenOptions::default()).unwrap()), before);
        options.salvage = true;
        drop(commit(&path, &options).unwrap());
        let after = read_all(&File::open(&path, &OpenOptions::default()).unwrap());
        for (before, after) in before.iter().zip(&after) {
            check(after);
            assert!(before.iter().zip(after).all(|(before, after)| *before == 0 || before == after));
        }
        assert_eq!(read_all(&File::open_epoch(&path, first.manifest.number).unwrap()), before);
    }
}

#[test]
fn reads_of_parts_are_parts_of_the_whole() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let folder = Folder::new("store-parts");
    let path = folder.0.join("a.h5");
    let writer = LogWriter::create(&path, &WriterOptions::default()).unwrap();
    let data = writer.define(&definition("/large")).unwrap();
    for start in (0..LENGTH - 100).step_by(1000) {
        writer.write_box(data, &[start], &[100], &bytes(start, 100)).unwrap();
    }
    writer.close().unwrap();
    commit(&path, &CommitOptions::default()).unwrap().unwrap();
    let file = File::open(&path, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(b"/large").unwrap().dataset().unwrap();
    let whole = read(&file, "/large");
    for start in [0, 50, 99, 100, 999, 1000, 5050] {
        let mut out = vec![0; 300 * 8];
        dataset.read(&Selection::Axes(vec![Axis::range(start..start + 300)]), &mut out).unwrap();
        let found: Vec<u64> = out.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        assert_eq!(found, whole[start as usize..start as usize + 300]);
    }
}
