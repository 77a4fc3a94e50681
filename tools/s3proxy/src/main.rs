//! A proxy for an S3 server (or a folder) that simulates a network's latency, bandwidth and faults, and counts.
//!
//! ```text
//! hyperchunk-s3proxy --listen 127.0.0.1:0 --upstream 127.0.0.1:9000 [--folder DIR] [--latency 25ms] [--bandwidth 80]
//!                    [--faults 503:0.1,reset-body:0.05] [--script ok,429] [--stall 30s] [--retry-after 0] [--seed 1]
//!                    [--until-stdin-ends]
//! ```
//!
//! It prints the address on which it listens. `--folder` holds the objects as files, `BUCKET/KEY`: for the
//! fault `whole`, and, without `--upstream`, for a plain web server with ranges and ETags. While it runs:
//!
//! | path | action |
//! |---|---|
//! | `/__set?latency=25ms&bandwidth=80&faults=…` | changes settings: the options above, without dashes in front |
//! | `/__stats` | counts since the last reset; `chain` is the number of round trips in sequence |
//! | `/__log` | every request since the last reset |
//! | `/__reset` | clears the counts and the log |

mod control;
mod fault;
mod files;
mod http;
mod relay;
mod stats;

use control::ProxyState;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// Parsed command line.
#[derive(Default)]
struct Arguments {
    listen: String,
    upstream: Option<String>,
    folder: Option<PathBuf>,
    until_stdin_ends: bool,
    settings: Vec<(String, String)>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut found = Arguments { listen: "127.0.0.1:0".to_owned(), ..Arguments::default() };
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").ok_or_else(|| format!("not an option: {word}"))?;
        if name == "until-stdin-ends" {
            found.until_stdin_ends = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match name {
            "listen" => found.listen = value,
            "upstream" => found.upstream = Some(value),
            "folder" => found.folder = Some(value.into()),
            _ => found.settings.push((name.to_owned(), value)),
        }
    }
    if found.upstream.is_none() && found.folder.is_none() {
        return Err("needs --upstream or --folder".to_owned());
    }
    Ok(found)
}

#[expect(clippy::print_stdout, reason = "whoever started it needs the address")]
fn run() -> Result<(), String> {
    let arguments = arguments(std::env::args().skip(1))?;
    let shared = Arc::new(ProxyState::new(arguments.upstream, arguments.folder));
    shared.set(&arguments.settings)?;
    let listener = TcpListener::bind(&arguments.listen).map_err(|e| format!("{}: {e}", arguments.listen))?;
    println!("{}", listener.local_addr().map_err(|e| e.to_string())?);
    if arguments.until_stdin_ends {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0)
        });
    }
    // A thread for each connection; a thread whose connection has ended waits for another, since a
    // new thread would cost time to a client that makes several connections at once.
    let (clients, waiting) = mpsc::channel::<TcpStream>();
    let (waiting, idle) = (Arc::new(Mutex::new(waiting)), Arc::new(AtomicUsize::new(0)));
    for client in listener.incoming().flatten() {
        let (shared, waiting, free) = (Arc::clone(&shared), Arc::clone(&waiting), Arc::clone(&idle));
        if idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |idle| idle.checked_sub(1)).is_ok() {
            clients.send(client).map_err(|error| error.to_string())?;
            continue;
        }
        // A failing client or server ends only this connection.
        std::thread::spawn(move || {
            let mut next = Some(client);
            while let Some(client) = next {
                relay::serve(client, &shared);
                free.fetch_add(1, Ordering::SeqCst);
                next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
            }
        });
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a command says why it stops")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("hyperchunk-s3proxy: {message}");
            ExitCode::FAILURE
        }
    }
}
