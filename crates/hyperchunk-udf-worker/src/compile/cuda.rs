//! Compilation of CUDA: NVRTC, loaded and called in a process with a compiler's sandbox.

use crate::fail;
use hyperchunk_cuda::nvrtc::Nvrtc;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::cuda;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::path::Path;

/// Minimum compute capability. PTX for the oldest GPUs that the compiler supports, from this one on, runs on
/// all newer ones.
const MIN_COMPUTE_CAPABILITY: u32 = 70;

/// Compiles the source in `scratch` with the library `nvrtc`, and writes the compiled form there.
///
/// # Errors
/// `Failed` with the compiler's log; `Worker`, `Io`.
pub(super) fn run(nvrtc: &Path, scratch: &Path) -> Result<()> {
    let about = |name: &str, e: std::io::Error| Error::io(scratch.join(name).display(), &e);
    std::env::set_current_dir(scratch).map_err(|e| about("", e))?;
    sandbox::restrict(&sandbox::Policy {
        runtime: sandbox::Runtime::Compiler,
        memory: 8 << 30,
        cpu_seconds: 80,
        file_size: 64 << 20,
        fine_clocks: true,
        rights: sandbox::Rights::default(),
        scratch: Some(scratch.to_owned()),
        // The libraries that it loads are in the same folder.
        tools: nvrtc.parent().map(Path::to_owned),
        cache: None,
        keep_descriptors: vec![0, 1, 2],
    })?;
    let read = |name: &str| std::fs::read_to_string(name).map_err(|e| about(name, e));
    let (source, kernels) = (read(cuda::SOURCE)?, read(cuda::KERNELS)?);
    let kernels: Vec<_> = kernels.lines().collect();
    let compiler = Nvrtc::load(Some(nvrtc)).map_err(failed)?;
    let Some(machine) = compiler.architectures().iter().copied().find(|&a| a >= MIN_COMPUTE_CAPABILITY)
    else {
        fail!(
            Unsupported,
            "this NVRTC compiles for no GPU of compute capability {MIN_COMPUTE_CAPABILITY} or newer"
        )
    };
    let machine = format!("--gpu-architecture=compute_{machine}");
    let options: Vec<_> = std::iter::once(machine.as_str()).chain(cuda::OPTIONS).collect();
    let ptx = compiler.compile(&source, cuda::SOURCE, &options, &kernels).map_err(failed)?;
    let text = cuda::stored(&ptx.text, ptx.lowered.iter().map(|(_, name)| name.as_str()));
    std::fs::write(cuda::RESULT, text).map_err(|e| about(cuda::RESULT, e))
}

fn failed(error: hyperchunk_cuda::Error) -> Error {
    Error::new(ErrorKind::Failed, error.message())
}
