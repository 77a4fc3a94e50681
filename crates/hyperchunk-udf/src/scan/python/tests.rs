use super::super::tests;
use super::*;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the actual program of `python3`, since wrappers of version managers need the environment. `None`
/// if it is too old.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let program = "import sys; print(sys.executable if sys.version_info >= (3, 11) else '')";
        let output = Command::new("python3").args(["-c", program]).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        (!path.trim().is_empty()).then(|| PathBuf::from(path.trim()))
    };
    PYTHON.get_or_init(find).as_deref()
}

/// Checks the results of sources. Each starts an interpreter, so sources without errors are combined.
fn check(cases: &[(&str, &str)]) {
    let Some(python) = python() else { return };
    for (source, expected) in cases {
        tests::check(|s| scan(python, s), source, expected);
    }
}

#[test]
fn the_papers_ndvi_has_two_calls_on_a_line() {
    let source = r#"
import numpy

def dynamic_dataset():
    red, nir = lib.getData("Red"), lib.getData("NIR")
    ndvi = lib.getData("NDVI")
    n = lib.getDims("NDVI")[0] * lib.getDims("NDVI")[1]
    for i in range(n):
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
"#;
    check(&[(source, "Red|NIR|NDVI")]);
}

#[test]
fn constants_are_followed() {
    let everything = r#"# coding: latin-1
"""lib.getData("no")"""
PREFIX = "/group/"
BANDS = ("B1", f"B2")
n: str = "module"
class Holder:
    n = "class"
    value = lib.getData(n)
    def method(self): return lib.getData(n)
def helper(a, k=lib.getData("default"), *, b: lib.getType("annotated") = 1):
    get, dims = lib.getData, lib.getDims
    return get("aliased"), dims("unpacked")
def dynamic_dataset():
    # lib.getData("no")
    x = "lib.getData('no')"
    for name in ("A", "B"): lib.getData(name)
    for name2, k in [("C", 1), ("D", 2)]: lib.getData(name2)
    all = [lib.getData(PREFIX + band) for band in BANDS]
    pair = {q: lib.getSize(q) for q in ["E"]}, (lambda: lib.array('lambda'))
    if (w := "walrus") and [y := "inner" for _ in x]: lib.getData(w), lib.getData(y)
    a = c = "twice"
    lib . getData(
        a
    ); lib.getData("im" "plicit"); lib.getData("ü\N{BULLET}"); lib.getData("x", 1)
    def nested():
        a = "shadow"
        return lib.getData(a)
    lib.ffi.buffer(x); lib.getFilePath(); lib.string(x); other.lib.getData(x)
"#;
    let names = "class|module|default|annotated|aliased|unpacked|A|B|C|D|/group/B1|/group/B2|E|lambda|walrus|inner|\
                 twice|implicit|ü•|x|shadow";
    check(&[(everything, names)]);
}

#[test]
fn other_names_are_errors() {
    let entry = |body: &str| format!("def dynamic_dataset(p=1):\n  {body}");
    for (body, expected) in [
        ("x = 1\n  lib.getData(p)", "!line 3: lib.getData needs the dataset's name as a string constant"),
        ("lib.getData(f'a{p}')", "!an f-string with placeholders is not one"),
        ("n = 'a'; n = 'b'; lib.getData(n)", "!n is not assigned just once"),
        ("n = 'a'; n += 'b'; lib.getData(n)", "!recorded when the function is attached"),
        ("lib.getData(n)\n  for n in f(): pass", "!line 2: "),
        ("L = ['a']; L.append('b')\n  for n in L: lib.getData(n)", "!line 3: "),
        ("global n; n = 'a'; lib.getData(n)", "!constant"),
        ("n = n + 'a'; lib.getData(n)", "!constant"),
        ("lib.getData(b'a')", "!constant"),
        ("lib.getDims()", "!as in lib.getDims(\"NIR\")"),
        ("lib.getData(*p)", "!constant"),
        ("lib.getData('')", "!line 2: this text cannot be the name"),
        ("lib.getData('\\ud800')", "!cannot be the name"),
        ("map(lib.getData, p)", "!lib.getData is passed on"),
        ("get = lib.getData; map(get, p)", "!get is passed on"),
        ("get = lib.getData; get = p", "!lib.getData is passed on"),
        ("l = lib; l.getData('a')", "!lib is passed on"),
        ("getattr(lib, p)('a')", "!lib is passed on"),
        ("class C: get = lib.getData", "!lib.getData is passed on"),
        ("lib.getData('a'", "!line 2: Python cannot parse this: '(' was never closed"),
    ] {
        check(&[(&entry(body), expected)]);
    }
    check(&[
        ("lib.getData('a')\nx = 'def dynamic_dataset()'", "!does not define dynamic_dataset"),
        (&format!("x = {}1", "-".repeat(200_000)), "!too deeply nested"),
        (&format!("x = {}a", "a + ".repeat(100_000)), "!too deeply nested"),
    ]);
}

#[test]
fn functions_whose_call_computes_nothing_are_refused() {
    check(&[
        (
            "def dynamic_dataset():\n    for n in lib.getData('a'):\n        yield n",
            "!line 3: dynamic_dataset contains",
        ),
        ("async def dynamic_dataset(): pass", "!dynamic_dataset is `async`"),
        ("def dynamic_dataset():\n    def each():\n        yield lib.getData('a')\n    list(each())\n", "a"),
    ]);
}

#[test]
fn nothing_of_the_source_runs() {
    let path = std::env::temp_dir().join(format!("hyperchunk-scan-{}", std::process::id()));
    let source =
        format!("open({path:?}, 'w')\nimport antigravity, os\nos.abort()\ndef dynamic_dataset(): pass");
    check(&[(&source, "")]);
    assert!(!path.exists());
}

#[test]
fn a_python_that_does_not_work_is_told() {
    for (python, kind, part) in [
        ("/nonexistent/python3", ErrorKind::NotFound, "does not exist"),
        ("/bin/false", ErrorKind::Worker, "without an answer"),
        ("/bin/echo", ErrorKind::Worker, "got another answer"),
    ] {
        let error = scan(Path::new(python), &"#\n".repeat(1 << 20)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn parsing_that_takes_too_long_is_stopped() {
    let Some(python) = python() else { return };
    let error = ask(python, "x", Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
