//! Opening and fetching, from a server that does it right and one that does not.

mod server;

use super::*;
use crate::ErrorKind;
use server::{Answer, Request, Server};
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

/// A range of a slice.
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
    assert_eq!(remote.counters().now(), [4, 1000 + 1000 + 58_000 + 200, 0, 2]);
    let log = server.log();
    assert!(log.iter().all(|request| request.path == "/d/a%20b.h5?x=1"), "{log:?}");
    assert!(log[1..].iter().all(|request| request.headers["if-match"] == "\"one\""));
    let mut buffer = vec![0; 30_000];
    source.read_at(60_000, &mut buffer).unwrap();
    assert_eq!(buffer, bytes[60_000..90_000]);
    assert_eq!(source.read_at(99_999, &mut [0; 2]).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(fetch_one(&source, 0..100_001).unwrap_err().kind(), ErrorKind::Truncated);
}

/// Opens with one script of answers for opening, then reads with another; says what came of it.
#[track_caller]
fn check(opening: &[Answer], reading: &[Answer], expected: &str) {
    let bytes = pattern(5000);
    let (opening, reading) = (opening.to_vec(), reading.to_vec());
    let (first, more) = (opening.clone(), reading.clone());
    let server = Server::new(bytes.clone(), move |request: &Request| {
        let (list, place) = match request.number.checked_sub(opening.len()) {
            Some(place) => (&reading, place),
            None => (&opening, request.number),
        };
        list.get(place).or(list.last()).cloned().unwrap_or(Answer::Right)
    });
    let options = RemoteOptions { retries: 2, ..options() };
    let found = match open(&server.url("x.h5"), &options) {
        Ok(source) => match fetch_one(&source, 2000..3000) {
            Ok(landed) if landed == bytes[2000..3000] => {
                format!("right {:?}", source.remote().unwrap().counters().now())
            }
            Ok(_) => "WRONG BYTES".into(),
            Err(error) => format!("{:?} {error}", error.kind()),
        },
        Err(error) => format!("open: {:?} {error}", error.kind()),
    };
    assert!(found.starts_with(expected), "{first:?} {more:?}: {found}");
}

#[test]
fn faults_that_pass() {
    use Answer::*;
    for fault in [
        Status(503, "", ""),
        Status(500, "", ""),
        Status(429, "", ""),
        Reset,
        Short,
        Long,
        WrongRange,
        ShortRange,
    ] {
        check(&[Right], &[fault.clone(), Right], "right [3, ");
        check(&[fault, Right], &[Right], "right [3, ");
    }
    check(&[Right], &[Whole, Right], "right [3, ");
    check(&[Right], &[Status(400, "", "<Code>RequestTimeout</Code>"), Right], "right [3, ");
    check(&[Right], &[Stall, Right], "right [3, ");
    check(&[Silence, Right], &[Right], "right [3, ");
}

#[test]
fn faults_that_stay() {
    use Answer::*;
    check(&[Right], &[Status(503, "", "")], "Io the server is busy or broken (status 503); repeated 2 times");
    check(&[Right], &[Reset], "Io the connection broke");
    check(&[Right], &[Short], "Io the connection broke");
    check(&[Right], &[WrongRange], "Io the server answered with bytes 2001 to 3001 instead");
    check(&[Right], &[Stall], "Io the server sent nothing for 0.4 s");
    check(&[Right], &[Rewritten], "Changed the object was written since it was opened");
    check(&[Right], &[Status(416, "", "")], "Changed ");
    check(&[Right], &[Status(404, "", "")], "NotFound the object is no longer there");
    check(&[Right], &[Whole], "Io the server answered with the whole object instead of a range; repeated 2");
    check(
        &[Right],
        &[Status(503, "retry-after: 100\r\n", "")],
        "Io the server is busy or broken (status 503); the server asks",
    );
    let denied = "<Error><Code>AccessDenied</Code><Message>No.</Message><Secret>s</Secret></Error>";
    check(
        &[Status(403, "", denied)],
        &[],
        "open: Io the store refused (status 403): AccessDenied: No.: for a public",
    );
    check(
        &[Status(400, "", "<Code>ExpiredToken</Code>")],
        &[],
        "open: Io the store refused (status 400): ExpiredToken: the cred",
    );
    check(&[Status(404, "", "")], &[], "open: NotFound there is no such object (file http://127.0.0.1");
    check(
        &[Status(301, "x-amz-bucket-region: eu-x\r\n", "")],
        &[],
        "open: Io the bucket is in another region: set `region` (eu-x)",
    );
}

#[test]
fn whole_objects_instead_of_ranges() {
    let bytes = pattern(5000);
    let server = Server::new(bytes.clone(), |_| Answer::Whole);
    let source = open(&server.url("x"), &options()).unwrap();
    assert_eq!((source.size(), source.remote().unwrap().head()), (5000, Bytes::from(bytes.clone())));
    assert_eq!(fetch_one(&source, 4000..5000).unwrap(), bytes[4000..]);
    assert_eq!(server.log().len(), 1);
    let server = Server::new(pattern(9 << 20), |_| Answer::Whole);
    let error = open(&server.url("x"), &options()).unwrap_err().to_string();
    assert!(error.contains("ignores ranges"), "{error}");
}

#[test]
fn small_and_empty_objects() {
    for (length, answer) in [(10, Answer::Right), (10, Answer::Whole), (0, Answer::Right), (0, Answer::Whole)]
    {
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
fn versions_without_strong_etags() {
    let modified = Some("Sat, 01 Aug 2026 10:00:00 GMT");
    for (etag, modified, expected) in [
        (None, modified, ErrorKind::Changed),
        (Some("W/\"w\""), modified, ErrorKind::Changed),
        (Some("\"\""), modified, ErrorKind::Changed),
    ] {
        let bytes = pattern(5000);
        let server =
            Server::with_marks(bytes.clone(), etag, modified, |request: &Request| match request.number {
                2 => Answer::Rewritten,
                _ => Answer::Right,
            });
        let source = open(&server.url("x"), &options()).unwrap();
        assert_eq!(fetch_one(&source, 2000..3000).unwrap(), bytes[2000..3000]);
        let log = server.log();
        assert!(!log[1].headers.contains_key("if-match"), "{etag:?}");
        assert_eq!(fetch_one(&source, 2000..3000).unwrap_err().kind(), expected, "{etag:?}");
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
        Err(crate::Error::invalid("enough"))
    });
    assert_eq!((landed, result.unwrap_err().message()), (1, "enough"));
}

/// An S3 server that is none: it looks at the request alone.
#[test]
fn regions_are_found() {
    let server = Server::new(pattern(5000), |request: &Request| {
        match request.headers["authorization"].contains("/eu-x/s3/") {
            true => Answer::Right,
            false => Answer::Status(301, "x-amz-bucket-region: eu-x\r\n", ""),
        }
    });
    let endpoint = format!("http://{}", server.address);
    let given = [("endpoint", endpoint.as_str()), ("key", "k"), ("secret", "s"), ("region", "us-east-1")];
    let options = RemoteOptions { store: given.map(|(a, b)| (a.into(), b.into())).to_vec(), ..options() };
    let source = open("s3://bucket/a b", &options).unwrap();
    assert_eq!(source.remote().unwrap().counters().now(), [2, 1000, 0, 2]);
    fetch_one(&source, 2000..3000).unwrap();
    assert!(server.log().iter().all(|request| request.path == "/bucket/a%20b"), "{:?}", server.log());
}

/// Where requests for other stores go, and what they carry.
#[test]
fn other_stores() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let endpoint = format!("http://{}", server.address);
    for (url, given, path, authorization) in [
        ("s3://bucket/k/l", "anonymous=true", "/bucket/k/l", None),
        ("gs://bucket/k/l", "anonymous=true", "/bucket/k%2Fl", None),
        ("gs://bucket/k", "token=t", "/bucket/k", Some("Bearer t")),
        ("az://box/k/l", "anonymous=true account=a", "/box/k/l", None),
        ("az://box/k", "token=t account=a", "/box/k", Some("Bearer t")),
    ] {
        let mut options = options();
        options.store.push(("endpoint".into(), endpoint.clone()));
        options.store.extend(
            given.split(' ').filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())),
        );
        let source = open(url, &options).unwrap();
        assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000], "{url}");
        let request = server.log().pop().unwrap();
        assert_eq!(request.path, path, "{url}");
        assert_eq!(request.headers.get("authorization").map(String::as_str), authorization, "{url}");
        assert_eq!(request.headers["if-match"], "\"one\"");
    }
}

#[test]
fn passwords_and_tokens_are_sent_and_not_shown() {
    let server = Server::new(pattern(5000), |request: &Request| match request.path.contains("denied") {
        true => Answer::Status(403, "", "secret"),
        false => Answer::Right,
    });
    let with_password = |path: &str| format!("http://me:secret@{}/{path}?sig=secret", server.address);
    let source = open(&with_password("x"), &options()).unwrap();
    let request = server.log().pop().unwrap();
    assert_eq!(
        (request.headers["authorization"].as_str(), request.path.as_str()),
        ("Basic bWU6c2VjcmV0", "/x?sig=secret")
    );
    let mut bearer = options();
    bearer.store.push(("token".into(), "secret".into()));
    drop(open(&server.url("x"), &bearer).unwrap());
    assert_eq!(server.log().pop().unwrap().headers["authorization"], "Bearer secret");
    let identity = source.remote().unwrap().identity().to_owned();
    let missing =
        open("http://me:secret@127.0.0.1:1/x?sig=secret", &RemoteOptions { retries: 0, ..options() });
    let denied = open(&with_password("denied"), &options());
    let file = crate::File::open_url(
        &with_password("x"),
        &crate::OpenOptions { remote: options(), ..Default::default() },
    );
    for text in [
        format!("{source:?}"),
        identity,
        missing.unwrap_err().to_string(),
        denied.unwrap_err().to_string(),
        file.unwrap_err().to_string(),
    ] {
        assert!(!text.contains("secret") && text.contains("http://127.0.0.1"), "{text}");
    }
}

#[test]
fn siblings_are_opened_beside() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let source = open(&server.url("d/x.h5"), &options()).unwrap();
    let sibling = source.remote().unwrap().sibling("../e/y z.h5").unwrap().unwrap();
    assert_eq!(sibling.size(), 5000);
    assert_eq!(server.log().pop().unwrap().path, "/e/y%20z.h5");
    assert!(source.remote().unwrap().sibling("/etc/passwd").unwrap().is_err());
    assert_eq!(server.log().len(), 2);
}

/// Requests, from several threads at once, of which three in ten go wrong in some way.
#[test]
fn no_wrong_bytes() {
    let bytes = Arc::new(pattern(1 << 20));
    let server = Server::new(bytes.to_vec(), |request: &Request| {
        use Answer::*;
        let dice = (request.number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let faults = [
            Status(503, "", ""),
            Status(429, "retry-after: 0\r\n", ""),
            Status(500, "", ""),
            Reset,
            Short,
            Long,
            WrongRange,
            ShortRange,
        ];
        let fault = usize::try_from(dice % 1000 / 37).unwrap();
        if request.number == 0 { Right } else { faults.get(fault).cloned().unwrap_or(Right) }
    });
    let options =
        RemoteOptions { concurrency: 16, timeout: Duration::from_secs(5), retries: 20, ..options() };
    let source = open(&server.url("x"), &options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (source, bytes) = (&source, &bytes);
            scope.spawn(move || {
                let start = |place: u64| (thread * 7919 + place * 104_729) % (1 << 20) / 2 + 1000;
                let ranges: Vec<_> =
                    (0..500).map(|place| start(place)..start(place) + 1 + place * 7).collect();
                let landed = fetch(source, &ranges).unwrap();
                for (range, landed) in ranges.iter().zip(landed) {
                    assert_eq!(landed, part(bytes, range), "{range:?}");
                }
            });
        }
    });
    let [requests, _, retries, rounds] = source.remote().unwrap().counters().now();
    assert_eq!((requests - retries, rounds), (2001, 5));
    assert!(retries > 400, "{retries}");
}

/// The caller may be a task of a runtime itself.
#[test]
fn within_a_runtime() {
    let server = Server::new(pattern(5000), |_| Answer::Right);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let got = runtime
        .block_on(async { fetch_one(&open(&server.url("x"), &options()).unwrap(), 2000..3000).unwrap() });
    assert_eq!(got, pattern(5000)[2000..3000]);
}

/// As Python's `multiprocessing` does: the child goes on with what the parent opened.
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

/// An archive that hands out signed URLs of a store.
#[test]
fn redirects_are_followed_once() {
    let store = Server::new(pattern(5000), |request: &Request| match request.number {
        2 => Answer::Status(403, "", "expired"),
        _ => Answer::Right,
    });
    let location: &'static str = format!("location: {}\r\n", store.url("signed?sig=1")).leak();
    let archive = Server::new(Vec::new(), move |_| Answer::Status(302, location, ""));
    let mut options = options();
    options.store.push(("token".into(), "secret".into()));
    let source = open(&archive.url("x.h5"), &options).unwrap();
    for _ in 0..3 {
        assert_eq!(fetch_one(&source, 2000..3000).unwrap(), pattern(5000)[2000..3000]);
    }
    // For opening, and when the signature had run out.
    assert_eq!(archive.log().len(), 2);
    assert!(archive.log().iter().all(|request| request.headers["authorization"] == "Bearer secret"));
    assert_eq!(store.log().len(), 5);
    assert!(store.log().iter().all(|request| !request.headers.contains_key("authorization")));
    let counted = source.remote().unwrap().counters().now();
    assert_eq!(counted, [4, 4000, 0, 4]);
}
