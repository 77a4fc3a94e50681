//! Tests of the program, over a folder and over another instance of itself.

#[cfg(test)]
mod proxy {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A running proxy, which stops with the test.
    struct Proxy {
        child: Child,
        address: String,
    }

    impl Proxy {
        fn start(arguments: &[&str]) -> Self {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hyperchunk-s3proxy"));
            let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            Self { child, address: line.trim().to_owned() }
        }

        fn set(&self, query: &str) {
            assert_eq!(self.get(&format!("/__set?{query}"), "").unwrap().status, 200);
        }

        /// Sends a request on a new connection.
        fn get(&self, target: &str, headers: &str) -> std::io::Result<Answer> {
            ask(&mut self.connect(), "GET", target, headers)
        }

        fn connect(&self) -> BufReader<TcpStream> {
            let stream = TcpStream::connect(&self.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            BufReader::new(stream)
        }

        fn stats(&self) -> String {
            String::from_utf8(self.get("/__stats", "").unwrap().body).unwrap()
        }
    }

    impl Drop for Proxy {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    struct Answer {
        status: u16,
        head: String,
        body: Vec<u8>,
    }

    impl Answer {
        fn header(&self, name: &str) -> Option<&str> {
            let found = self
                .head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(n, _)| n.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value)
        }
    }

    fn ask(
        stream: &mut BufReader<TcpStream>,
        method: &str,
        target: &str,
        headers: &str,
    ) -> std::io::Result<Answer> {
        write!(stream.get_mut(), "{method} {target} HTTP/1.1\r\nHost: here\r\n{headers}\r\n")?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status =
            head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or(std::io::ErrorKind::InvalidData)?;
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.header("content-length").and_then(|s| s.parse().ok()).unwrap_or(0);
        answer.body.resize(if method == "HEAD" { 0 } else { length }, 0);
        stream.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    const RANGE: &str = "Range: bytes=1000-2999\r\n";

    fn data() -> Vec<u8> {
        (0..1_000_000_u32).map(|n| (n.wrapping_mul(n) / 7).to_le_bytes()[0]).collect()
    }

    /// Makes a folder with one object, `bucket/a`.
    fn folder(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(folder.join("bucket")).unwrap();
        std::fs::write(folder.join("bucket/a"), data()).unwrap();
        folder
    }

    /// Starts a file server, and a proxy for it.
    fn pair(name: &str, more: &[&str]) -> (Proxy, Proxy) {
        let folder = folder(name);
        let folder = folder.to_str().unwrap();
        let server = Proxy::start(&["--folder", folder]);
        let arguments = [&["--upstream", server.address.as_str(), "--folder", folder], more].concat();
        let proxy = Proxy::start(&arguments);
        (server, proxy)
    }

    #[test]
    fn passes_on_and_counts() {
        let (_server, proxy) = pair("passes", &[]);
        let mut stream = proxy.connect();
        for _ in 0..3 {
            let answer = ask(&mut stream, "GET", "/bucket/a", RANGE).unwrap();
            assert_eq!(
                (answer.status, answer.header("content-range")),
                (206, Some("bytes 1000-2999/1000000"))
            );
            assert!(answer.body == data()[1000..3000]);
        }
        let whole = ask(&mut stream, "GET", "/bucket/a", "").unwrap();
        assert!(whole.status == 200 && whole.body == data());
        let head = ask(&mut stream, "HEAD", "/bucket/a", "").unwrap();
        assert_eq!(head.header("content-length"), Some("1000000"));
        let etag = head.header("etag").unwrap();
        assert_eq!(proxy.get("/bucket/a", &format!("If-Match: {etag}\r\n")).unwrap().status, 200);
        assert_eq!(proxy.get("/bucket/a", "If-Match: \"old\"\r\n").unwrap().status, 412);
        assert_eq!(proxy.get("/bucket/b", "").unwrap().status, 404);
        let stats = proxy.stats();
        assert!(stats.contains(r#""requests":8,"gets":7,"heads":1,"#), "{stats}");
        assert!(stats.contains(r#""max_in_flight":1,"connections":4,"chain":8,"faulty":0"#), "{stats}");
        proxy.get("/__reset", "").unwrap();
        assert!(proxy.stats().contains(r#""requests":0,"#));
        assert_eq!(proxy.get("/__set?nothing=1", "").unwrap().status, 400);
    }

    #[test]
    fn latency_and_bandwidth() {
        let (_server, proxy) = pair("slow", &["--latency", "60ms"]);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| proxy.get("/bucket/a", RANGE).unwrap());
            }
        });
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(60), "{took:?}");
        let stats = proxy.stats();
        assert!(stats.contains(r#""max_in_flight":8,"connections":8,"chain":1,"#), "{stats}");
        proxy.set("latency=0&bandwidth=10"); // a body of 1 MB takes 100 ms
        let start = Instant::now();
        assert!(proxy.get("/bucket/a", "").unwrap().body == data());
        let took = start.elapsed();
        assert!((95..2000).contains(&took.as_millis()), "{took:?}");
    }

    #[test]
    fn answers_that_refuse() {
        let (_server, proxy) = pair("refuse", &["--retry-after", "7"]);
        let cases =
            [("500", 500), ("503", 503), ("429", 429), ("expired", 400), ("denied", 403), ("gone", 404)];
        for (name, status) in cases {
            proxy.set(&format!("script={name},{name}"));
            let mut stream = proxy.connect();
            assert_eq!(ask(&mut stream, "GET", "/bucket/a", RANGE).unwrap().status, status);
            assert_eq!(ask(&mut stream, "HEAD", "/bucket/a", "").unwrap().status, status);
            // The connection stays open.
            assert_eq!(ask(&mut stream, "GET", "/bucket/a", RANGE).unwrap().status, 206);
        }
        proxy.set("script=429");
        assert_eq!(proxy.get("/bucket/a", "").unwrap().header("retry-after"), Some("7"));
        proxy.set("script=changed");
        assert_eq!(proxy.get("/bucket/a", "If-Match: \"x\"\r\n").unwrap().status, 412);
        assert!(proxy.stats().contains(r#""faulty":14"#), "{}", proxy.stats());
    }

    #[test]
    fn answers_that_break_off() {
        let (_server, proxy) = pair("break", &["--stall", "100ms"]);
        for name in ["reset-head", "reset-body", "close-body", "stall-head", "stall-body", "garbage"] {
            proxy.set(&format!("script={name}"));
            assert!(proxy.get("/bucket/a", RANGE).is_err(), "{name}");
            assert!(proxy.get("/bucket/a", RANGE).unwrap().body == data()[1000..3000], "{name}");
        }
        proxy.set("script=trickle");
        let start = Instant::now();
        assert!(proxy.get("/bucket/a", RANGE).is_err());
        assert!(start.elapsed() >= Duration::from_millis(100));
    }

    #[test]
    fn answers_that_are_wrong() {
        let (_server, proxy) = pair("wrong", &[]);
        let get = |script: &str| {
            proxy.set(&format!("script={script}"));
            proxy.get("/bucket/a", RANGE).unwrap()
        };
        let right = &data()[1000..3000];
        let short = get("short");
        assert!(short.status == 206 && short.body == right[..1000]);
        let shifted = get("shifted");
        assert_eq!(shifted.header("content-range"), Some("bytes 1001-3000/1000000"));
        assert!(shifted.body.len() == 2000 && shifted.body != right);
        let no_range = get("no-range");
        assert!(
            no_range.status == 206 && no_range.header("content-range").is_none() && no_range.body != right
        );
        let whole = get("whole");
        assert!(whole.status == 200 && whole.body == data());
        let changed = get("changed");
        assert!(
            changed.header("etag") == Some("\"another\"")
                && changed.body.len() == 2000
                && changed.body != right
        );
    }

    #[test]
    fn says_what_is_wrong_with_its_arguments() {
        for (arguments, message) in [
            (&["--upstream"][..], "needs a value"),
            (&[], "needs --upstream or --folder"),
            (&["--folder", ".", "--faults", "x"], "no fault x"),
            (&["--folder", ".", "--colour", "x"], "no setting colour"),
        ] {
            let done =
                Command::new(env!("CARGO_BIN_EXE_hyperchunk-s3proxy")).args(arguments).output().unwrap();
            let said = String::from_utf8(done.stderr).unwrap();
            assert!(!done.status.success() && said.contains(message), "{said}");
        }
    }
}
