use super::*;
use crate::error::ErrorKind;

const HEAD: [u8; 8] = *b"\0asm\x01\0\0\0";

fn leb(mut n: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let byte = u8::try_from(n & 0x7f).unwrap();
        n >>= 7;
        if n == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

fn module(sections: &[Vec<u8>]) -> Vec<u8> {
    [HEAD.to_vec(), sections.concat()].concat()
}

fn datasets(text: &[u8]) -> Vec<u8> {
    section(0, &[&leb(DATASETS.len())[..], DATASETS.as_bytes(), text].concat())
}

#[test]
fn datasets_are_read_once_each() {
    let bytes = module(&[datasets(b"NDVI\nRed\0"), section(5, &[1, 0, 2]), datasets(b"Red\nNIR\n")]);
    assert_eq!(check(&bytes).unwrap().datasets, ["NDVI", "Red", "NIR"]);
    assert_eq!(check(&HEAD).unwrap(), Module::default());
    for cut in 0..bytes.len() {
        // Never a panic; a cut between sections is a module.
        let _ = check(&bytes[..cut]);
    }
}

#[test]
fn what_is_no_module_is_named() {
    let error = |bytes: &[u8]| {
        let e = check(bytes).unwrap_err();
        (e.kind(), e.to_string())
    };
    for (bytes, kind, word) in [
        (&b"\x7fELF\x02\x01\x01\0\0"[..], ErrorKind::Syntax, ".cwasm"),
        (b"\0asm\x0d\0\x01\0", ErrorKind::Unsupported, "component"),
        (b"\0asm\x02\0\0\0", ErrorKind::Unsupported, "version"),
        (b"(module (func))", ErrorKind::Syntax, "wat2wasm"),
        (b"", ErrorKind::Syntax, "0 bytes"),
        (b"print('hello')", ErrorKind::Syntax, "not a WebAssembly"),
    ] {
        let (found, text) = error(bytes);
        assert_eq!(found, kind, "{text}");
        assert!(text.contains(word), "{text}");
    }
    assert!(error(&module(&[vec![5, 200]])).1.contains("ends in a section"));
    assert!(error(&module(&[section(10, &[2, 1])])).1.contains("section 10"));
}

#[test]
fn sizes_have_bounds() {
    let limit = |sections: &[Vec<u8>]| {
        let e = check(&module(sections)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Limit, "{e}");
        e.to_string()
    };
    assert!(check(&module(&[section(5, &[&[1, 0][..], &leb(1024)].concat())])).is_ok());
    assert!(limit(&[section(5, &[&[1, 0][..], &leb(1025)].concat())]).contains("64 MiB"));
    let big = 600 << 10;
    assert!(limit(&[section(10, &[&[1][..], &leb(big), &vec![1; big]].concat())]).contains("function 0"));
    assert!(limit(&[section(10, &leb(1 << 24))]).contains("functions"));
    assert!(limit(&[section(10, &vec![0; 9 << 20])]).contains("code"));
    assert!(limit(&[section(0, &vec![0; 17 << 20])]).contains("module"));
    let many: String = (0..200).map(|n| format!("d{n}\n")).collect();
    assert!(limit(&[datasets(many.as_bytes())]).contains("datasets"));
    let shared = check(&module(&[section(5, &[1, 3, 1, 2])])).unwrap_err();
    assert_eq!(shared.kind(), ErrorKind::Unsupported);
}
