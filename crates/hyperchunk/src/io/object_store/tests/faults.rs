//! Faulty servers.

use super::server::{Answer, Request, Server};
use super::*;

/// Opens with one script of answers, reads with another, and compares the outcome.
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
        // An opener has the bytes that it needs before those that are too many, or notices them.
        let opened = if fault == Long { "right [" } else { "right [3, " };
        check(&[fault, Right], &[Right], opened);
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
    // A date, by the clock of the server; then one from a server that sends no date of its own.
    let date = "date: Sat, 01 Aug 2026 10:00:00 GMT\r\nretry-after: Sat, 01 Aug 2026 10:01:40 GMT\r\n";
    check(
        &[Right],
        &[Status(503, date, "")],
        "Io the server is busy or broken (status 503); the server asks to wait 100 s",
    );
    let far = "retry-after: Friday, 31-Dec-60 23:59:59 GMT\r\n";
    check(
        &[Right],
        &[Status(429, far, "")],
        "Io the server is busy or broken (status 429); the server asks to wait 1",
    );
    // A date in the past is ignored.
    let past = "retry-after: Sat Aug  1 10:00:00 2020\r\n";
    check(
        &[Right],
        &[Status(503, past, "")],
        "Io the server is busy or broken (status 503); repeated 2 times",
    );
    let denied = "<Error><Code>AccessDenied</Code><Message>No.</Message><Secret>s</Secret></Error>";
    check(
        &[Status(403, "", denied)],
        &[],
        "open: Io the store refused (status 403): AccessDenied: No.: the request had no credentials",
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
    for answer in [Answer::Whole, Answer::Unsized] {
        // Of different lengths, so that the second server's body arrives in many pieces.
        for length in [5000, 8 << 20] {
            let (bytes, script) = (pattern(length), answer.clone());
            let server = Server::new(bytes.clone(), move |_| script.clone());
            let source = open(&server.url("x"), &options()).unwrap();
            assert_eq!(source.size(), length as u64, "{answer:?}");
            let end = length as u64;
            assert_eq!(fetch_one(&source, 4000..end).unwrap(), bytes[4000..], "{answer:?}");
            assert_eq!(server.log().len(), 1, "{answer:?}");
        }
        let script = answer.clone();
        let server = Server::new(pattern(9 << 20), move |_| script.clone());
        let error = open(&server.url("x"), &options()).unwrap_err().to_string();
        assert!(error.contains("ignores ranges"), "{answer:?}: {error}");
        assert_eq!(server.log().len(), 1, "{answer:?}");
    }
}

#[test]
fn objects_that_are_sent_encoded() {
    use Answer::*;
    let encoded = "open: Unsupported cannot read parts of the object: expected its own bytes, got compressed ones \
                   (Content-Encoding: deflate)";
    check(&[Status(200, "content-encoding: deflate\r\n", "xyz")], &[], encoded);
    let part = "content-encoding: deflate\r\ncontent-range: bytes 0-2/3\r\n";
    check(&[Status(206, part, "xyz")], &[], encoded);
    // The bytes are plain in spite of the header.
    let plain: &'static str = "content-encoding: gzip\r\n";
    let server = Server::new(Vec::new(), move |_| Status(200, plain, "xyz"));
    assert_eq!(open(&server.url("x"), &options()).unwrap().size(), 3);
}

#[test]
fn ranges_without_a_size_or_a_place() {
    use Answer::*;
    let no_size = Status(206, "content-range: bytes 0-2/*\r\n", "abc");
    let expected = "open: Io cannot read the object: expected its size in the server's answer, got `Content-Range: \
                    bytes 0-2/*`";
    check(&[no_size], &[], expected);
    let no_range = Status(206, "", "abc");
    let message = "Io the server sent a part of the object without its range (status 206 without Content-Range); \
                   repeated 2 times";
    check(&[Right], std::slice::from_ref(&no_range), message);
    let one = std::slice::from_ref(&no_range);
    check(one, one, &format!("open: {message}"));
    let wrong = Status(206, "content-range: bytes x\r\n", "abc");
    let expected = "open: Io the server sent an invalid range, `Content-Range: bytes x`; repeated 2 times";
    let one = std::slice::from_ref(&wrong);
    check(one, one, expected);
    let expected = "open: Io the server answered with bytes 1 to 1001 of 5000 instead of the requested ones";
    check(&[WrongRange], &[WrongRange], expected);
}

#[test]
fn a_range_that_misses_in_one_of_many_answers() {
    let bytes = pattern(5000);
    let server = Server::new(bytes.clone(), |request: &Request| match request.number {
        1..=4 => Answer::Status(206, "", "abc"),
        _ => Answer::Right,
    });
    let source = open(&server.url("x.h5"), &options()).unwrap();
    assert_eq!(fetch_one(&source, 2000..3000).unwrap(), bytes[2000..3000]);
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

/// Requests from several threads at once, of which three in ten go wrong in some way.
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
