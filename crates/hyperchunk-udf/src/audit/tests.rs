use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("hyperchunk-audit-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn lines_are_appended_and_the_log_is_bounded() {
    let dir = scratch("rotate");
    let setting = Setting { file: dir.join("log"), max_bytes: 1000 };
    let line = [b'x'; 99].into_iter().chain(*b"\n").collect::<Vec<_>>();
    for _ in 0..37 {
        append(&setting, &line).unwrap();
    }
    let old = std::fs::read(dir.join("log.1")).unwrap();
    let new = std::fs::read(&setting.file).unwrap();
    assert_eq!((old.len(), new.len()), (1000, 700));
    assert_eq!(std::fs::metadata(&setting.file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_no_file_is_no_log() {
    let dir = scratch("kinds");
    std::os::unix::fs::symlink(dir.join("elsewhere"), dir.join("link")).unwrap();
    for path in [dir.join("link"), dir.clone(), dir.join("none").join("log"), PathBuf::from("/dev/null")] {
        assert!(append(&Setting { file: path.clone(), max_bytes: 1 << 20 }, b"x\n").is_err(), "{path:?}");
    }
    assert!(!dir.join("elsewhere").exists());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_line_is_one_object_whatever_the_names_are() {
    let error = Error::new(ErrorKind::Refused, "no\nno");
    let event = Event {
        file: "a\n\"b\".h5",
        dataset: &"/x\u{202e}".repeat(5000),
        record: RecordDigest([0xab; 16]),
        signer: None,
        profile: Some("untrusted"),
        language: "lua",
        error: Some(&error),
    };
    let line = event.line("2030-01-01T00:00:00Z");
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    assert!(line.len() < 10_000);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    // A relative path is useless to readers of the log.
    let whole = std::env::current_dir().unwrap().join("a\n\"b\".h5").display().to_string();
    assert_eq!((&value["verdict"], &value["file"]), (&"refused".into(), &whole.into()));
    assert_eq!((absolute("/a.h5"), absolute("s3://b/a.h5")), ("/a.h5".into(), "s3://b/a.h5".into()));
    assert_eq!(value["record"], "ab".repeat(16));
}

#[test]
fn settings() {
    let read = |text: &str| read_setting(text);
    assert_eq!(read("version = 1\nenabled = false").unwrap(), None);
    let setting =
        read("version = 1\nenabled = true\nfile = \"/var/log/h.jsonl\"\nmax_mib = 2").unwrap().unwrap();
    assert_eq!(setting, Setting { file: "/var/log/h.jsonl".into(), max_bytes: 2 << 20 });
    for bad in
        ["", "version = 2\nenabled = true", "version = 1\nenabled = true\nfile = \"log\"", "enabled = 1", "["]
    {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn one_file_writes_so_many_lines() {
    let numbers = |file: &'static str| {
        (0..MAX_FILE_EVENTS + 3)
            .map(|n| {
                let dataset = format!("/{file}/{n}");
                count_event(&Event {
                    file,
                    dataset: &dataset,
                    record: RecordDigest([1; 16]),
                    signer: None,
                    profile: None,
                    language: "lua",
                    error: None,
                })
            })
            .collect::<Vec<_>>()
    };
    let expected: Vec<_> = (1..=MAX_FILE_EVENTS + 3).collect();
    assert_eq!(numbers("many.h5"), expected);
    // Logged events are not logged again, and another file has its own lines.
    assert_eq!(numbers("many.h5"), vec![0; MAX_FILE_EVENTS + 3]);
    assert_eq!(numbers("other.h5"), expected);
}
