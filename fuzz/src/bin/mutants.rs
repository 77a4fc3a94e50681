//! Reads many damaged files and watches that nothing panics, takes long, or takes much memory.
//!
//!     mutants [--count N] [--first N] [--largest BYTES] [--save FOLDER] SEEDS…
//!     mutants --make [--count N] [--first N] [--largest BYTES] [--save FOLDER] SEEDS…
//!     mutants --show BYTES FILES…
//!
//! The second form only saves the mutants, for other readers. The third reads files as they are, and prints where pieces of
//! memory of that size or larger were allocated.
//! SEEDS are files or folders of them. Mutant number N is always the same for the same seeds. A child process does the
//! reading, so that an abort or a hang costs one mutant; mutants that fail are saved. The last lines are a table.

use hyperchunk::{File, OpenOptions};
use hyperchunk_fuzz::blocks::Map;
use hyperchunk_fuzz::memory::{self, CountingAllocator};
use hyperchunk_fuzz::mutate::{Seed, mutant};
use hyperchunk_fuzz::targets::whole::{self, Bounds};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

/// The time a file may take.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The memory a file may take: so many times its size, what it declares as output, and this: bzip2 alone has 3.6 MB of tables.
const MAX_MEMORY_FACTOR: usize = 10;
const EXTRA_BYTES: usize = 4 << 20;
/// Datasets are read up to this size, and up to this sum.
const BOUNDS: Bounds = Bounds { dataset: 64 << 20, total: 256 << 20 };

#[derive(Debug, Clone)]
struct Options {
    count: u64,
    first: u64,
    largest: u64,
    save: PathBuf,
    make: bool,
    show: Option<u64>,
    worker: bool,
    seeds: Vec<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        count: 20_000,
        first: 0,
        largest: 256 << 10,
        save: "target/mutants".into(),
        make: false,
        show: None,
        worker: false,
        seeds: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|value| value.parse().ok());
            value.ok_or_else(|| format!("{argument} needs a number"))
        };
        match argument.as_str() {
            "--count" => options.count = number()?,
            "--first" => options.first = number()?,
            "--largest" => options.largest = number()?,
            "--show" => options.show = Some(number()?),
            "--make" => options.make = true,
            "--save" => options.save = arguments.next().ok_or("--save needs a folder")?.into(),
            "--worker" => options.worker = true,
            other if other.starts_with('-') => return Err(format!("{other} is no option")),
            seed => options.seeds.push(seed.into()),
        }
    }
    if options.seeds.is_empty() { Err("no seeds".into()) } else { Ok(options) }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("mutants: {error}");
            return ExitCode::from(2);
        }
    };
    if options.worker {
        work(&options);
        return ExitCode::SUCCESS;
    }
    if let Some(largest) = options.show {
        for path in files(&options.seeds, options.largest) {
            show(&path, usize::try_from(largest).unwrap_or(usize::MAX));
        }
        return ExitCode::SUCCESS;
    }
    if options.make {
        let seeds = seeds(&options);
        for number in options.first..options.first + options.count {
            println!("{}", save(&options, &seeds, number).display());
        }
        return ExitCode::SUCCESS;
    }
    if supervise(&options) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All files below some folders, in order.
fn files(roots: &[PathBuf], largest: u64) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left: Vec<PathBuf> = roots.to_vec();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        } else if path.metadata().is_ok_and(|metadata| metadata.len() <= largest && metadata.len() > 0) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn seeds(options: &Options) -> Vec<Seed> {
    files(&options.seeds, options.largest).iter().filter_map(|path| seed(path)).collect()
}

/// A seed, if it is one that can be opened.
fn seed(path: &Path) -> Option<Seed> {
    let bytes = std::fs::read(path).ok()?;
    let mut open = OpenOptions::default();
    open.ignore_locks = true;
    open.allow_truncated = true;
    let file = File::from_bytes(&bytes[..], &open).ok()?;
    let base = usize::try_from(file.superblock().base).ok()?;
    let mut headers = Vec::new();
    let walked = file.root().and_then(|root| {
        file.walk(&root, b"/", &mut |visit| {
            if let hyperchunk::walk::VisitedItem::Object(object) = visit.found {
                headers.push(base.saturating_add(usize::try_from(object.address()).unwrap_or(0)));
            }
            Ok(if headers.len() < 500 { hyperchunk::walk::Next::Enter } else { hyperchunk::walk::Next::Stop })
        })
    });
    drop(walked);
    let map = Map::new(&bytes, &headers);
    Some(Seed { name: path.display().to_string(), bytes, map })
}

fn make(seeds: &[Seed], number: u64) -> (&Seed, Vec<u8>) {
    let seed = &seeds[(number % seeds.len() as u64) as usize];
    (seed, mutant(seed, seeds, number))
}

fn save(options: &Options, seeds: &[Seed], number: u64) -> PathBuf {
    let (_, bytes) = make(seeds, number);
    let path = options.save.join(format!("{number}.h5"));
    let saved = std::fs::create_dir_all(&options.save).and_then(|()| std::fs::write(&path, bytes));
    if let Err(error) = saved {
        eprintln!("mutants: cannot save {}: {error}", path.display());
    }
    path
}

/// Reads a file as it is; prints what that took, and where pieces of memory of that size were allocated.
fn show(path: &Path, largest: usize) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let before = memory::reset();
    let start = Instant::now();
    memory::show_from(largest);
    let summary = whole::read(&bytes, BOUNDS);
    memory::show_from(usize::MAX);
    let (peak, _) = memory::peaks();
    let size = bytes.len();
    println!("{}: {size} bytes, {:?}, peak {}, {summary:?}", path.display(), start.elapsed(), peak - before);
}

/// Reads mutants, one line a mutant to standard output when it starts and one when it is done.
fn work(options: &Options) {
    let seeds = seeds(options);
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| {
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    say(format!("ready {}\n", seeds.len()));
    for number in options.first..options.first + options.count {
        let (_, bytes) = make(&seeds, number);
        say(format!("start {number} {}\n", bytes.len()));
        let before = memory::reset();
        let start = Instant::now();
        let read = std::panic::catch_unwind(|| whole::read(&bytes, BOUNDS));
        let time = start.elapsed();
        let (peak, largest) = memory::peaks();
        let Ok(summary) = read else {
            say(format!("panic {number}\n"));
            continue;
        };
        let errors: Vec<String> = summary
            .errors
            .iter()
            .map(|(kind, count)| format!("{}:{count}", kind.replace(' ', "-")))
            .collect();
        say(format!(
            "done {number} {} {} {} {largest} {} {} {}\n",
            bytes.len(),
            time.as_micros(),
            peak - before,
            summary.declared,
            summary.values,
            errors.join(",")
        ));
    }
}

/// What all mutants came to.
#[derive(Debug, Default)]
struct Table {
    read: u64,
    whole: u64,
    values: u64,
    errors: BTreeMap<String, u64>,
    bad: BTreeMap<&'static str, Vec<String>>,
    times: Vec<u64>,
    /// Memory beyond declared output, in hundredths of the file's size.
    memory: Vec<u64>,
    slowest: (u64, u64),
}

fn supervise(options: &Options) -> bool {
    let mut table = Table::default();
    let start = Instant::now();
    let end = options.first + options.count;
    let mut next = options.first;
    let mut seeds_count = 0;
    while next < end {
        let (mut child, lines) = spawn(options, next, end - next);
        let mut running: Option<(u64, u64)> = None;
        loop {
            let limit =
                if running.is_some() { MAX_TIME + Duration::from_secs(2) } else { Duration::from_secs(900) };
            let line = lines.recv_timeout(limit);
            let words: Vec<&str> = line.as_deref().unwrap_or_default().split(' ').collect();
            match (&line, words.as_slice()) {
                (Ok(_), ["ready", count]) => seeds_count = count.parse().unwrap_or(0),
                (Ok(_), ["start", number, size]) => {
                    running = number.parse().ok().zip(size.parse().ok());
                }
                (Ok(_), ["panic", number]) => {
                    running = None;
                    next = number.parse::<u64>().unwrap_or(next) + 1;
                    table.add_bad(options, "panic", number);
                }
                (Ok(_), ["done", number, rest @ ..]) => {
                    running = None;
                    next = number.parse::<u64>().unwrap_or(next) + 1;
                    table.add(options, number, rest);
                }
                (Ok(_), _) => {}
                (Err(reason), _) => {
                    let _ = child.kill();
                    let status = child.wait();
                    if let Some((number, _)) = running {
                        next = number + 1;
                        let why = if *reason == RecvTimeoutError::Timeout { "hang" } else { "abort" };
                        table.add_bad(options, why, &number.to_string());
                    } else if !status.is_ok_and(|status| status.success()) {
                        eprintln!("mutants: the child failed between mutants");
                        return false;
                    }
                    break;
                }
            }
        }
    }
    table.print(seeds_count, start.elapsed());
    table.bad.is_empty()
}

fn spawn(options: &Options, first: u64, count: u64) -> (Child, Receiver<String>) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--worker", "--first", &first.to_string(), "--count", &count.to_string()]);
    command.args(["--largest", &options.largest.to_string()]).args(&options.seeds);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a child process");
    let (sender, lines) = channel();
    let output = child.stdout.take().expect("its output");
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    (child, lines)
}

impl Table {
    fn add_bad(&mut self, options: &Options, why: &'static str, number: &str) {
        self.bad.entry(why).or_default().push(number.to_owned());
        let mut make = Command::new(std::env::current_exe().expect("this program"));
        make.args(["--make", "--first", number, "--count", "1", "--save"])
            .arg(&options.save)
            .args(["--largest", &options.largest.to_string()]);
        let made = make.args(&options.seeds).output();
        let path =
            made.map(|made| String::from_utf8_lossy(&made.stdout).trim().to_owned()).unwrap_or_default();
        eprintln!("mutants: {why}: {path}");
    }

    fn add(&mut self, options: &Options, number: &str, rest: &[&str]) {
        let [size, micros, peak, largest, declared, values, errors] = rest else { return };
        let of = |word: &str| word.parse::<u64>().unwrap_or(u64::MAX);
        let (size, micros, peak, declared) = (of(size), of(micros), of(peak), of(declared));
        self.read += 1;
        self.values += of(values);
        if errors.is_empty() {
            self.whole += 1;
        }
        for error in errors.split(',').filter(|error| !error.is_empty()) {
            let (kind, _) = error.split_once(':').unwrap_or((error, ""));
            *self.errors.entry(kind.to_owned()).or_default() += 1;
        }
        self.times.push(micros);
        self.slowest = self.slowest.max((micros, of(number)));
        let beyond = peak.saturating_sub(declared);
        self.memory.push(beyond.saturating_sub(EXTRA_BYTES as u64) * 100 / size.max(1));
        if Duration::from_micros(micros) > MAX_TIME {
            self.add_bad(options, "slow", number);
        }
        if beyond > size * MAX_MEMORY_FACTOR as u64 + EXTRA_BYTES as u64 {
            eprintln!(
                "mutants: {number}: {size} bytes, peak {peak}, declared {declared}, largest piece {largest}"
            );
            self.add_bad(options, "memory", number);
        }
    }

    fn print(&mut self, seeds: u64, time: Duration) {
        let quantile = |numbers: &mut Vec<u64>, of_thousand: usize| {
            numbers.sort_unstable();
            numbers.get((numbers.len().saturating_sub(1)) * of_thousand / 1000).copied().unwrap_or(0)
        };
        println!("seeds                      {seeds}");
        let unread = ["panic", "abort", "hang"].map(|why| self.bad.get(why).map_or(0, Vec::len));
        println!("mutants                    {}", self.read + unread.iter().sum::<usize>() as u64);
        println!("read without any error     {}", self.whole);
        println!("datasets and attributes    {}", self.values);
        for (kind, count) in &self.errors {
            println!("mutants with an error      {count} {kind}");
        }
        let [half, most, nearly, all] = [500, 990, 999, 1000].map(|part| quantile(&mut self.times, part));
        println!(
            "time in ms                 median {:.2}, 99 % {:.1}, 99.9 % {:.1}, most {:.1} (mutant {})",
            half as f64 / 1e3,
            most as f64 / 1e3,
            nearly as f64 / 1e3,
            all as f64 / 1e3,
            self.slowest.1
        );
        let [half, most, nearly, all] = [500, 990, 999, 1000].map(|part| quantile(&mut self.memory, part));
        println!(
            "memory beyond output and {} MiB, times the file: median {:.2}, 99 % {:.2}, 99.9 % {:.2}, most {:.2}",
            EXTRA_BYTES >> 20,
            half as f64 / 1e2,
            most as f64 / 1e2,
            nearly as f64 / 1e2,
            all as f64 / 1e2
        );
        for why in ["panic", "abort", "hang", "slow", "memory"] {
            let bad = self.bad.get(why).map_or(&[][..], Vec::as_slice);
            println!("{why:<26} {}{}{}", bad.len(), if bad.is_empty() { "" } else { ": " }, bad.join(" "));
        }
        println!("{:.0} s in all", time.as_secs_f64());
    }
}
