//! Opening and fetching, from a correct server and from faulty ones.

mod faults;
mod heads;
mod server;
mod stores;

use super::*;
use crate::ErrorKind;
use server::{Answer, Server};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn options() -> RemoteOptions {
    RemoteOptions {
        store: vec![("proxy_excludes".into(), "*".into())],
        timeout: Duration::from_millis(400),
        retry_timeout: Duration::from_secs(20),
        first_read: 1000,
        read_ahead: 0,
        ..RemoteOptions::default()
    }
}

fn fetch(source: &Arc<dyn Source>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let mut landed = vec![None; ranges.len()];
    source.remote().unwrap().fetch(ranges, &mut |place, bytes| {
        assert!(landed[place].replace(bytes).is_none(), "{place} landed twice");
        Ok(())
    })?;
    Ok(landed.into_iter().map(Option::unwrap).collect())
}

fn fetch_one(source: &Arc<dyn Source>, range: Range<u64>) -> Result<Bytes> {
    fetch(source, std::slice::from_ref(&range)).map(|mut landed| landed.remove(0))
}

/// Returns a range of a slice.
fn part(bytes: &[u8], range: &Range<u64>) -> Vec<u8> {
    bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
}

#[test]
fn opens_and_fetches() {
    let bytes = pattern(100_000);
    let server = Server::new(bytes.clone(), |_| Answer::Right);
    let source = open(&server.url("d/a%20b.h5?x=1"), &options()).unwrap();
    let remote = source.remote().unwrap();
    assert_eq!((source.size(), &remote.head()[..]), (100_000, &bytes[..1000]));
    assert_eq!(remote.counters().now(), [1, 1000, 0, 1]);
    let ranges = [5..10, 99_000..100_000, 7..7, 2_000..60_000, 900..1100];
    let landed = fetch(&source, &ranges).unwrap();
    for (range, landed) in ranges.iter().zip(landed) {
        assert_eq!(landed, part(&bytes, range));
    }
    assert_eq!(remote.counters().now(), [4, 1000 + 1000 + 58_000 + 100, 0, 2]);
    let log = server.log();
    assert!(log.iter().all(|request| request.path == "/d/a%20b.h5?x=1"), "{log:?}");
    assert!(log[1..].iter().all(|request| request.headers["if-match"] == "\"one\""));
    let mut buffer = vec![0; 30_000];
    source.read_at(60_000, &mut buffer).unwrap();
    assert_eq!(buffer, bytes[60_000..90_000]);
    assert_eq!(source.read_at(99_999, &mut [0; 2]).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(fetch_one(&source, 0..100_001).unwrap_err().kind(), ErrorKind::Truncated);
}

#[test]
fn small_and_empty_objects() {
    let answers = [Answer::Right, Answer::Whole, Answer::Unsized];
    for (length, answer) in answers.into_iter().flat_map(|answer| [(10, answer.clone()), (0, answer)]) {
        let bytes = pattern(length);
        let (script, label) = (answer.clone(), format!("{length} {answer:?}"));
        let server = Server::new(bytes.clone(), move |_| script.clone());
        let source = open(&server.url("x"), &options()).unwrap();
        assert_eq!(
            (source.size(), source.remote().unwrap().head()),
            (length as u64, Bytes::from(bytes)),
            "{label}"
        );
    }
}

#[test]
fn many_at_once_and_no_more() {
    let bytes = pattern(200_000);
    let server = Server::new(bytes.clone(), |_| Answer::Slow(Duration::from_millis(50)));
    let options = RemoteOptions { concurrency: 8, timeout: Duration::from_secs(5), ..options() };
    let source = open(&server.url("x"), &options).unwrap();
    let ranges: Vec<_> = (0..32).map(|place| 2000 + place * 5000..4000 + place * 5000).collect();
    let started = Instant::now();
    fetch(&source, &ranges).unwrap();
    assert_eq!(server.most_at_once(), 8);
    assert!(started.elapsed() < Duration::from_millis(1200), "{:?}", started.elapsed());
    let latency = source.remote().unwrap().cost().latency;
    assert!((45..200).contains(&latency.as_millis()), "{latency:?}");
}

#[test]
fn an_error_of_the_caller_ends_it() {
    let server = Server::new(pattern(200_000), |_| Answer::Right);
    let source = open(&server.url("x"), &options()).unwrap();
    let ranges: Vec<_> = (0..32).map(|place| 2000 + place * 5000..4000 + place * 5000).collect();
    let mut landed = 0;
    let result = source.remote().unwrap().fetch(&ranges, &mut |_, _| {
        landed += 1;
        Err(Error::invalid("enough"))
    });
    assert_eq!((landed, result.unwrap_err().message()), (1, "enough"));
}

/// The caller may itself be a task of a runtime.
#[test]
fn within_a_runtime() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let got = runtime
        .block_on(async { fetch_one(&open(&server.url("x"), &options()).unwrap(), 2000..3000).unwrap() });
    assert_eq!(got, pattern(5000)[2000..3000]);
}

/// The caller presses Ctrl-C while the server sends nothing.
#[test]
fn waiting_can_be_interrupted() {
    thread_local!(static PRESSED: Cell<bool> = const { Cell::new(false) });
    crate::io::set_interrupt(|| PRESSED.get());
    let server = Server::new(pattern(5000), |_| Answer::Silence);
    let options = RemoteOptions { timeout: Duration::from_secs(60), ..options() };
    PRESSED.set(true);
    let started = Instant::now();
    let error = open(&server.url("x"), &options).unwrap_err();
    PRESSED.set(false);
    assert_eq!(error.message(), "interrupted");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

/// As Python's `multiprocessing` does: the child continues with the sources that the parent opened.
#[cfg(unix)]
#[test]
fn after_a_fork() {
    let server = Server::new(pattern(100_000), |_| Answer::Right);
    let source = open(&server.url("x"), &options()).unwrap();
    let works = || {
        let again = open(&server.url("y"), &options()).unwrap();
        let ranges = [2000..3000, 50_000..60_000];
        [&source, &again].into_iter().all(|source| {
            let landed = fetch(source, &ranges).unwrap();
            ranges.iter().zip(landed).all(|(range, landed)| landed == part(&pattern(100_000), range))
        })
    };
    assert!(works());
    // SAFETY: the child runs code of this crate alone, with a runtime of its own, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both are plain system calls; the first ends a child that hangs.
        unsafe {
            libc::alarm(20);
            libc::_exit(i32::from(!works()));
        }
    }
    assert!(works());
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's status");
}
