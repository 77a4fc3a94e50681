//! Overhead of a log over a plain file: the same bytes are written to each in turn, on one core, open and
//! close included. `cargo run --release -p hyperchunk-store --example store_overhead [FOLDER]`
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a measurement prints, and ends where it cannot go on"
)]

use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::write::Sync;
use hyperchunk_store::{Definition, KnownStore, LogWriter, WriterOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 15;

fn ours(
    path: &Path,
    parts: &[(u64, u64, Vec<u8>)],
    datasets: u64,
    checksum: bool,
    statistics: bool,
    size: u16,
) {
    let mut options = WriterOptions::default();
    (options.checksum, options.statistics, options.sync) = (checksum, statistics, Sync::Never);
    options.known = Some(KnownStore::default());
    let writer = LogWriter::create(path, &options).expect("a log");
    let kind = if size == 4 {
        Datatype::ieee(4, ByteOrder::Little)
    } else {
        Datatype::integer(1, false, ByteOrder::Little)
    };
    let numbers: Vec<u32> = (0..datasets)
        .map(|number| {
            writer
                .define(&Definition::new(format!("/{number}"), kind.clone(), vec![1 << 40]))
                .expect("a dataset")
        })
        .collect();
    for (dataset, start, bytes) in parts {
        let count = bytes.len() as u64 / u64::from(size);
        writer.write_box(numbers[*dataset as usize], &[*start], &[count], bytes).expect("a write");
    }
    writer.close().expect("a ticket");
}

fn raw(path: &Path, parts: &[(u64, u64, Vec<u8>)]) {
    let mut file = std::fs::File::create_new(path).expect("a file");
    for (_, _, bytes) in parts {
        file.write_all(bytes).expect("a write");
    }
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let folder = Path::new(&folder).join(format!("overhead-{}", std::process::id()));
    let floats: Vec<u8> = (0..2_000_000_u32)
        .flat_map(|at| ((at.wrapping_mul(2_654_435_761) >> 8) as f32).to_le_bytes())
        .collect();
    let vpic: Vec<_> = (0..8).map(|dataset| (dataset, 0, floats.clone())).collect();
    let bytes = (1 << 20) + 10;
    let interleaved: Vec<_> =
        (0..24).map(|at| (at / 6, at % 6 * 4 * bytes as u64, floats[..bytes].to_vec())).collect();
    for (name, parts, datasets, size) in [("vpic", vpic, 8, 4), ("interleaved", interleaved, 4, 1)] {
        let mut ratios = vec![Vec::new(); 3];
        for _ in 0..ROUNDS {
            std::fs::create_dir_all(folder.join("a.h5.d")).expect("a folder");
            let clock = Instant::now();
            raw(&folder.join("raw"), &parts);
            let floor = clock.elapsed().as_secs_f64();
            for (case, ratios) in ratios.iter_mut().enumerate() {
                let clock = Instant::now();
                ours(&folder.join("a.h5"), &parts, datasets, case > 0, case > 1, size);
                ratios.push(clock.elapsed().as_secs_f64() / floor);
                std::fs::remove_dir_all(folder.join("a.h5.d")).expect("gone");
                std::fs::create_dir_all(folder.join("a.h5.d")).expect("a folder");
            }
            std::fs::remove_dir_all(&folder).expect("gone");
        }
        let medians: Vec<String> = ratios
            .iter_mut()
            .map(|ratios| {
                ratios.sort_by(f64::total_cmp);
                format!("{:.3} [{:.2}..{:.2}]", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1])
            })
            .collect();
        println!("{name}: plain {}, checksum {}, statistics {}", medians[0], medians[1], medians[2]);
    }
}
