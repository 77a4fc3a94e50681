//! Tests in processes of their own, since a driver's settings and a kernel's fault affect a whole process.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the process that a test starts for itself.
const INSIDE: &str = "HYPERCHUNK_TEST_INSIDE";

/// Runs `body` in a process with the fake driver, with `knobs`. `name` is the test's, with its module.
#[track_caller]
pub(crate) fn apart(name: &str, knobs: &str, body: impl FnOnce()) {
    apart_with(name, &[("HYPERCHUNK_FAKE_CUDA", knobs.as_ref())], body);
}

/// Runs `body` in a process with these variables.
#[track_caller]
pub(crate) fn apart_with(name: &str, variables: &[(&str, &std::ffi::OsStr)], body: impl FnOnce()) {
    if std::env::var(INSIDE).as_deref() == Ok(name) {
        return body();
    }
    let library = hyperchunk_cuda_fake::library();
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(INSIDE, name).env("HYPERCHUNK_CUDA_DRIVER", library).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 passed"), "{text}\n{errors}");
}

/// Returns the checkout's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of one of NVIDIA's packages in the checkout's `.venv`, if it is installed there.
pub(crate) fn nvidia(package: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root().join(".venv/lib")).ok()?;
    let mut places = folders.flatten().map(|folder| folder.path().join("site-packages/nvidia").join(package));
    places.find(|place| place.is_dir())
}

/// Returns NVRTC; if it is not installed, prints that the test is skipped.
pub(crate) fn nvrtc() -> Option<hyperchunk_cuda::nvrtc::Nvrtc> {
    let folder = nvidia("cuda_nvrtc").map(|folder| folder.join("lib"));
    match hyperchunk_cuda::nvrtc::Nvrtc::load(folder.as_deref()) {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}
