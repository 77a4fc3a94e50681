//! Writers killed at random times: a file that opens is correct, and `recover` restores every complete
//! chunk.
//!
//! `HYPERCHUNK_KILLS=500 cargo test --release -p hyperchunk --test killed -- --nocapture` kills 500 of
//! them.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

use hyperchunk::model::{ByteOrder, Dataspace, Datatype, Filter};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, NewLayout, NodeId, Sync, Writer, recover,
};
use hyperchunk::{ErrorKind, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Elements of a chunk, chunks of each dataset, writers in the child.
const CHUNK: u64 = 3000;
const CHUNKS: u64 = 40;
const WRITERS: u64 = 3;
const CHILD: &str = "HYPERCHUNK_KILLED_CHILD";

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

/// Returns the contents of a chunk in a generation; any mixture of generations is detected.
fn content(chunk: u64, generation: u64) -> Vec<u8> {
    let mut random = Random(chunk * 1_000_003 + generation + 1);
    let first = (generation * 1000 + chunk) as u32;
    std::iter::once(first)
        .chain((1..CHUNK).map(|_| random.next(1 << 20) as u32))
        .flat_map(u32::to_le_bytes)
        .collect()
}

fn dataset(file: &Writer, name: &str, filters: &[u16]) -> DatasetWriter {
    let dataspace = Dataspace::Simple { dims: vec![CHUNK * CHUNKS], max: vec![None] };
    let filter = |id: &u16| Filter {
        id: *id,
        optional: true,
        name: None,
        parameters: vec![if *id == 2 { 4 } else { 1 }],
    };
    let options = DatasetOptions::new(Datatype::integer(4, false, ByteOrder::Little), dataspace)
        .with_layout(NewLayout::Chunked(vec![CHUNK]))
        .with_pipeline(filters.iter().map(filter).collect());
    file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap()
}

const NAMES: [(&str, &[u16]); 2] = [("plain", &[]), ("deflated", &[2, 1])];

/// Writes until it is killed, and reports the started and completed writes.
fn child(path: &Path) {
    let options = CreateOptions::default();
    let options = {
        let mut options = options;
        options.sync = Sync::Never;
        options
    };
    let file = Writer::create(path, &options).unwrap();
    let datasets: Vec<DatasetWriter> =
        NAMES.iter().map(|(name, filters)| dataset(&file, name, filters)).collect();
    let out = Mutex::new(std::io::stdout());
    let say = |text: String| {
        let mut out = out.lock().unwrap();
        // The parent may be gone.
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (datasets, say, file) = (&datasets, &say, &file);
            scope.spawn(move || {
                let mut random = Random(u64::from(std::process::id()) * 77 + writer + 1);
                for generation in 1..2000 {
                    // Each chunk has one writer, so that the order of its generations is known.
                    let chunk = random.next(CHUNKS / WRITERS) * WRITERS + writer;
                    let which = random.next(2) as usize;
                    say(format!("begin {which} {chunk} {generation}\n"));
                    let selection = Selection::Axes(vec![Axis::range(chunk * CHUNK..(chunk + 1) * CHUNK)]);
                    datasets[which].write(&selection, &content(chunk, generation)).unwrap();
                    say(format!("done {which} {chunk} {generation}\n"));
                    if random.next(60) == 0 {
                        file.flush().unwrap();
                    }
                }
            });
        }
    });
    file.close().unwrap();
    say("closed\n".to_owned());
}

/// Returns every chunk of a file with its generation; 0 for one that was never written.
fn generations(path: &Path) -> Vec<(usize, u64, u64)> {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    let root = file.root().unwrap().group().unwrap();
    let mut found = Vec::new();
    for (which, (name, _)) in NAMES.iter().enumerate() {
        let Ok(object) = root.get(name.as_bytes()) else { continue };
        let dataset = object.dataset().unwrap();
        for chunk in 0..CHUNKS {
            let mut bytes = vec![0; CHUNK as usize * 4];
            let selection = Selection::Axes(vec![Axis::range(chunk * CHUNK..(chunk + 1) * CHUNK)]);
            dataset.read(&selection, &mut bytes).unwrap();
            let first = u64::from(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
            if first == 0 {
                assert!(bytes.iter().all(|byte| *byte == 0), "half a chunk in {}", path.display());
            } else {
                assert_eq!(first % 1000, chunk);
                assert!(bytes == content(chunk, first / 1000), "chunk {chunk} of {name} is a mixture");
            }
            found.push((which, chunk, first / 1000));
        }
    }
    found
}

/// Kills one writer after a while; returns the number of complete chunks.
fn kill_one(path: &Path, after: Duration) -> usize {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["a_writer", "--exact", "--nocapture", "--include-ignored"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let (mut begun, mut done, mut closed) =
            (std::collections::HashMap::new(), std::collections::HashMap::new(), false);
        for line in lines.lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let (Some(which), Some(chunk), Some(generation)) = (number(1), number(2), number(3)) else {
                closed |= line == "closed";
                continue;
            };
            let to = if words[0] == "begin" { &mut begun } else { &mut done };
            to.insert((which as usize, chunk), generation);
        }
        (begun, done, closed)
    });
    let start = Instant::now();
    while start.elapsed() < after && writer.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(writer.kill());
    writer.wait().unwrap();
    let (begun, done, closed) = reader.join().unwrap();

    let check = |at_least: &std::collections::HashMap<(usize, u64), u64>| {
        for (which, chunk, generation) in generations(path) {
            let key = (which, chunk);
            let most = begun.get(&key).copied().unwrap_or(0);
            let least = at_least.get(&key).copied().unwrap_or(0);
            assert!(
                (least..=most).contains(&generation),
                "chunk {chunk} of {}: generation {generation}, {least} was complete, {most} begun",
                NAMES[which].0
            );
        }
    };
    if path.exists() {
        // A committed state: older, but correct.
        check(&std::collections::HashMap::new());
    }
    let journal = path.with_extension("h5.journal");
    let anything = path.exists() || path.with_extension("h5.partial").exists();
    if journal.exists() && !anything {
        assert_eq!(recover(path).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(done.is_empty());
    } else if journal.exists() {
        let found = recover(path).unwrap();
        assert!(found.lost.is_empty(), "{:?}", found.lost);
        check(&done);
    } else {
        assert!(
            closed || !path.with_extension("h5.partial").exists(),
            "an unfinished file without a journal"
        );
        assert_eq!(path.exists(), closed);
    }
    for rest in [path.to_owned(), journal, path.with_extension("h5.partial")] {
        drop(std::fs::remove_file(rest));
    }
    done.len()
}

#[test]
#[ignore = "the writer that the other test kills"]
fn a_writer() {
    if let Some(path) = std::env::var_os(CHILD) {
        child(Path::new(&path));
    }
}

#[test]
fn killed_writers_lose_nothing_that_was_complete() {
    let kills: u64 = std::env::var("HYPERCHUNK_KILLS").map_or(12, |count| count.parse().unwrap());
    let folder = std::env::temp_dir().join(format!("hyperchunk-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut random = Random(u64::from(std::process::id()) | 1);
    let mut chunks = 0;
    for number in 0..kills {
        let after = Duration::from_micros(random.next(400_000));
        chunks += kill_one(&folder.join(format!("{number}.h5")), after);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(chunks > 0, "no writer got anywhere");
    #[allow(clippy::print_stderr, reason = "what was measured")]
    {
        eprintln!("{kills} writers killed, {chunks} chunks were complete, all of them got back");
    }
}
