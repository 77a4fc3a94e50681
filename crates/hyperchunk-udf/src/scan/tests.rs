use super::*;
use crate::error::ErrorKind;

/// Scans `source` and compares its names, separated by `|`, or part of its error after a `!`.
pub(super) fn check(scan: impl Fn(&str) -> Result<Scan>, source: &str, expected: &str) {
    match (scan(source), expected.strip_prefix('!')) {
        (Ok(scan), None) => assert_eq!(scan.names.join("|"), expected, "in {source}"),
        (Err(e), Some(part)) => {
            assert_eq!(e.kind(), ErrorKind::Syntax, "{e} in {source}");
            assert!(e.to_string().contains(part), "{e} has no {part:?} in {source}");
        }
        (result, _) => panic!("{result:?} is not {expected} in {source}"),
    }
}

/// Scans `count` sources of random pieces; each must give names or an error.
pub(super) fn soup(scan: impl Fn(&str) -> Result<Scan>, pieces: &[&str], count: usize) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..count {
        let mut source = String::new();
        for _ in 0..random(40) {
            match random(6) {
                0 => source.push(char::from(u8::try_from(random(128)).unwrap())),
                1 => source.push(char::from_u32(u32::try_from(random(0xd000)).unwrap()).unwrap()),
                _ => source.push_str(pieces[random(pieces.len())]),
            }
        }
        let _ = scan(&source);
    }
}

#[test]
fn needs_are_what_is_called() {
    for (backend, source, seed, clock) in [
        (Backend::Lua, "function dynamic_dataset() local x = lib.seed() end", true, false),
        (Backend::Lua, "function dynamic_dataset() local x = lib['clock'] end", false, true),
        (
            Backend::Lua,
            "function dynamic_dataset() seed, lib.clocks = other.seed() end -- lib.clock()",
            false,
            false,
        ),
        (Backend::Cpp, "void dynamic_dataset() { lib.clock() + lib . seed(); }", true, true),
        (Backend::Wasm, "void dynamic_dataset() { \"lib.seed()\"; }", false, false),
    ] {
        let found = scan(backend, source, None).unwrap();
        assert_eq!((found.seed, found.clock), (seed, clock), "{source}");
    }
}

#[test]
fn sources_that_are_not_text_are_refused() {
    let kind = |backend, source: &str| scan(backend, source, None).unwrap_err().kind();
    assert_eq!(kind(Backend::Lua, "\x1bLJ\x02\n"), ErrorKind::Unsupported);
    assert_eq!(kind(Backend::Lua, "a\n\0"), ErrorKind::Syntax);
    assert_eq!(kind(Backend::Cpp, &" ".repeat(MAX_SOURCE_BYTES + 1)), ErrorKind::Limit);
    assert_eq!(kind(Backend::Python, "def dynamic_dataset(): pass"), ErrorKind::NotFound);
    let error = scan(Backend::Cpp, "a\nb\0", None).unwrap_err();
    assert!(error.message().starts_with("line 2: "), "{error}");
}

#[test]
fn names_come_once_in_the_order_of_the_source() {
    let source =
        "\u{feff}function dynamic_dataset() lib.getData'b' lib.getDims'a' lib.getData'b' lib.getType'/b' end";
    assert_eq!(scan(Backend::Lua, source, None).unwrap().names, ["b", "a", "/b"]);
}

#[test]
fn large_sources_take_linear_time() {
    for piece in [
        "'",
        "\\'",
        "\"",
        "[",
        "[=",
        "]=",
        "R\"",
        "((",
        "lib.getData<",
        "/*",
        "--[[",
        "\\ ",
        "lib ",
        "a=",
        "local",
    ] {
        let source = piece.repeat(300_000 / piece.len());
        let _ = scan(Backend::Lua, &source, None);
        let _ = scan(Backend::Cpp, &source, None);
    }
    let start = std::time::Instant::now();
    let call = "local n = 'x' lib.getData(n) lib.getData<a<b<c>>>(\"y\");\n";
    let source = format!("{}; void dynamic_dataset()", call.repeat(20_000));
    assert_eq!(scan(Backend::Cpp, &source, None).unwrap_err().kind(), ErrorKind::Syntax);
    let source = "lib.getData'x'\n".repeat(100_000) + "dynamic_dataset = f";
    assert_eq!(scan(Backend::Lua, &source, None).unwrap().names, ["x"]);
    // Quadratic time would be hours.
    assert!(start.elapsed().as_secs() < 60);
}
