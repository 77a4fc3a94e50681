//! Tests of NVRTC, if it is installed.

use crate::support::nvrtc;
use hyperchunk_cuda::ErrorKind;
use hyperchunk_cuda::nvrtc::Nvrtc;
use hyperchunk_cuda::ptx;
use std::path::Path;

#[test]
fn a_program_with_name_expressions() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = "template<class T> __global__ void scale(T *to, T by) { to[threadIdx.x] *= by; }";
    let names = ["scale<float>", "scale<long long>"];
    let made = nvrtc
        .compile(source, "scale.cu", &["--gpu-architecture=compute_80", "--fmad=false"], &names)
        .unwrap();
    let entries = ptx::entries(&made.text).unwrap();
    assert_eq!(made.lowered.len(), 2);
    for (name, (expression, symbol)) in names.iter().zip(&made.lowered) {
        assert_eq!(expression, name);
        assert!(entries.iter().any(|entry| entry.name == *symbol), "{symbol}");
    }
    let mut sizes: Vec<_> = entries.iter().map(|entry| entry.parameters[1].bytes).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 8]);
    assert!(nvrtc.version() >= (11, 2));
    assert!(nvrtc.architectures().contains(&80));
    assert!(nvrtc.architectures().is_sorted());
}

#[test]
fn mistakes_have_the_log() {
    let Some(nvrtc) = nvrtc() else { return };
    let check = |source: &str, options: &[&str], names: &[&str], expected: &str, kind: ErrorKind| {
        let error = nvrtc.compile(source, "mistake.cu", options, names).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
    };
    check(
        "__global__ void k() { x = 1; }",
        &[],
        &[],
        "mistake.cu(1): error: identifier \"x\"",
        ErrorKind::Failed,
    );
    check("", &["--no-such-option"], &[], "no-such-option", ErrorKind::Invalid);
    check("__global__ void k() {}", &[], &["nothing<int>"], "nothing", ErrorKind::Failed);
    check("\0", &[], &[], "NUL", ErrorKind::Invalid);
}

#[test]
fn a_missing_library_says_what_to_install() {
    let error = match Nvrtc::load(Some(Path::new("/nowhere/libnvrtc.so.12"))) {
        Ok(_) => panic!("loaded from nowhere"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(error.message().contains("pip install 'hyperchunk[cuda]'"), "{error}");
}
