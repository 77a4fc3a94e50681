//! First bytes of an object that arrive while the reader continues.

use super::server::{Answer, Request, Server};
use super::*;

/// First bytes that an opener waits for, and those that arrive meanwhile.
const FIRST: u64 = 1000;
const AHEAD: u64 = 49_000;
/// Time between them.
const PAUSE: Duration = Duration::from_secs(4);

fn ahead() -> RemoteOptions {
    let timeout = Duration::from_secs(20);
    RemoteOptions { first_read: FIRST, read_ahead: AHEAD, retries: 2, timeout, ..options() }
}

/// Returns a server whose first answer is given.
fn server(bytes: &[u8], first: Answer) -> Server {
    Server::new(
        bytes.to_vec(),
        move |request: &Request| {
            if request.number == 0 { first.clone() } else { Answer::Right }
        },
    )
}

/// Opens an object of 100,000 bytes and fetches ranges; returns the ranges of all requests.
#[track_caller]
fn check(first: Answer, ranges: &[Range<u64>]) -> Vec<String> {
    let bytes = pattern(100_000);
    let server = server(&bytes, first.clone());
    let mut ahead = ahead();
    if first == Answer::Stall {
        ahead.timeout = options().timeout;
    }
    let source = open(&server.url("x"), &ahead).unwrap();
    for (range, landed) in ranges.iter().zip(fetch(&source, ranges).unwrap()) {
        assert_eq!(landed, part(&bytes, range), "{range:?}");
    }
    assert_eq!(source.remote().unwrap().counters().now()[2], 0, "a request was repeated");
    server.log().iter().map(|request| request.headers["range"].clone()).collect()
}

#[test]
fn the_opener_waits_for_the_first_bytes_only() {
    let bytes = pattern(100_000);
    let server = server(&bytes, Answer::Drip(PAUSE));
    let started = Instant::now();
    let source = open(&server.url("x"), &ahead()).unwrap();
    assert_eq!(fetch_one(&source, 10..900).unwrap(), bytes[10..900]);
    assert!(started.elapsed() < PAUSE, "{:?}", started.elapsed());
    assert_eq!(fetch_one(&source, 900..40_000).unwrap(), bytes[900..40_000]);
    assert!(started.elapsed() >= PAUSE);
    assert_eq!(source.remote().unwrap().counters().now(), [1, 50_000, 0, 1]);
}

#[test]
fn what_arrives_is_not_requested_again() {
    let opening = "bytes=0-49999".to_owned();
    let drip = || Answer::Drip(PAUSE);
    let near = [20_000..30_000, 5..5, 0..50_000];
    assert_eq!(check(drip(), &near), std::slice::from_ref(&opening));
    let both = [40_000..60_000, 1..2, 70_000..70_001];
    let mut found = check(drip(), &both);
    found.sort();
    assert_eq!(found, [opening, "bytes=50000-59999".into(), "bytes=70000-70000".into()]);
}

#[test]
fn a_body_that_ends_early_is_no_error() {
    for fault in [Answer::Short, Answer::Stall] {
        // Half of it arrives.
        let (near, both) = (0..20_000, 30_000..60_000);
        assert_eq!(check(fault.clone(), std::slice::from_ref(&near)).len(), 1, "{fault:?}");
        let found = check(fault.clone(), &[30_000..30_100, 100..200]);
        assert_eq!(found[1..], ["bytes=30000-30099"], "{fault:?}");
        let mut found = check(fault.clone(), std::slice::from_ref(&both));
        found.sort();
        // What should have arrived is requested together with the rest, or after it.
        assert_eq!(found[1], "bytes=30000-59999", "{fault:?}");
        assert!(found[2..].iter().all(|range| range == "bytes=50000-59999"), "{fault:?} {found:?}");
    }
}

#[test]
fn other_bytes_stop_what_arrives() {
    let bytes = pattern(100_000);
    let server = server(&bytes, Answer::Stall);
    let source = open(&server.url("x"), &ahead()).unwrap();
    assert_eq!(fetch_one(&source, 60_000..60_010).unwrap(), bytes[60_000..60_010]);
    assert_eq!(fetch_one(&source, 30_000..30_010).unwrap(), bytes[30_000..30_010]);
    assert_eq!(source.remote().unwrap().counters().now()[0], 3);
    assert_eq!(server.log()[2].headers["if-match"], "\"one\"");
}

#[test]
fn whole_objects_of_servers_without_ranges() {
    let bytes = pattern(100_000);
    let server = server(&bytes, Answer::Whole);
    let source = open(&server.url("x"), &ahead()).unwrap();
    assert_eq!(fetch_one(&source, 90_000..100_000).unwrap(), bytes[90_000..]);
    assert_eq!(server.log().len(), 1);
}

#[test]
fn memory_for_what_arrives_is_bounded() {
    let server = server(&pattern(100_000), Answer::Right);
    let options = RemoteOptions { read_ahead: 65 << 20, ..ahead() };
    open(&server.url("x"), &options).unwrap();
    assert_eq!(server.log()[0].headers["range"], "bytes=0-999");
}
