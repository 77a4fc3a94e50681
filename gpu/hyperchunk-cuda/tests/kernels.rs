//! The checked-in PTX: compiled from its source, and valid for every GPU from compute capability 7.0 on.

use crate::support::{nvidia, nvrtc};
use hyperchunk_cuda::ptx;
use std::path::Path;
use std::process::Command;

/// The version of the compiler for the PTX: other versions may produce different code.
const COMPILER: (u32, u32) = (12, 9);

/// Drivers for CUDA 9.2 on accept this version of PTX; it suffices for the kernels, as `ptxas` shows.
const VERSION: &str = ".version 6.2";

fn kernels() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// Returns the form of NVRTC's PTX that is checked in: without its comments, and with a version for older
/// drivers.
fn kept(text: &str) -> String {
    let head = "// Made of ingest.cu by NVRTC; `HYPERCHUNK_UPDATE_PTX=1 cargo test -p hyperchunk-cuda` makes it anew.\n";
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let lines = lines.map(|line| if line.starts_with(".version ") { VERSION } else { line.trim_end() });
    let mut text = head.to_owned();
    for line in lines.filter(|line| !line.is_empty()) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[test]
fn ptx_is_that_of_the_source() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = std::fs::read_to_string(kernels().join("ingest.cu")).unwrap();
    let options = ["--gpu-architecture=compute_70", "--std=c++17"];
    if !nvrtc.architectures().contains(&70) || nvrtc.version() != COMPILER {
        println!("skipped: this NVRTC is {:?}, the PTX is of {COMPILER:?}", nvrtc.version());
        return;
    }
    let made = kept(&nvrtc.compile(&source, "ingest.cu", &options, &[]).unwrap().text);
    let path = kernels().join("ingest.ptx");
    if std::env::var_os("HYPERCHUNK_UPDATE_PTX").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == made,
        "kernels/ingest.ptx is not that of kernels/ingest.cu"
    );
}

#[test]
fn ptxas_takes_it_for_every_gpu() {
    let Some(folder) = nvidia("cuda_nvcc") else {
        println!("skipped: ptxas is not installed");
        return;
    };
    for architecture in ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"] {
        let mut command = Command::new(folder.join("bin/ptxas"));
        command
            .arg(format!("-arch={architecture}"))
            .arg(kernels().join("ingest.ptx"))
            .args(["-o", "/dev/null"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{architecture}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_kernel_is_declared() {
    let text = std::fs::read_to_string(kernels().join("ingest.ptx")).unwrap();
    let entries = ptx::entries(&text).unwrap();
    assert_eq!(entries.len(), 13);
    assert!(text.contains(VERSION));
}
