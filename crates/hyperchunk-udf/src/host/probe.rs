//! Test of each language with an empty function, for `hyperchunk doctor`.

use super::job::{Job, JobSlot, Source};
use super::locate::Programs;
use super::session::Session;
use crate::backend::Backend;
use crate::datatype::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::profile::Profile;
use crate::record::Needs;
use hyperchunk_sandbox::Layers;
use std::time::{Duration, Instant};

/// `(module (import "hyperchunk" "data" (func (param i32) (result i32))) (memory (export "memory") 1)
/// (func (export "dynamic_dataset") (i32.store8 (call 0 (i32.const 0)) (i32.const 7))))`
const WASM: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x09\x02\x60\x01\x7f\x01\x7f\x60\0\0\
    \x02\x13\x01\x0ahyperchunk\x04data\0\0\
    \x03\x02\x01\x01\
    \x05\x03\x01\0\x01\
    \x07\x1c\x02\x06memory\x02\0\x0fdynamic_dataset\0\x01\
    \x0a\x0d\x01\x0b\0\x41\0\x10\0\x41\x07\x3a\0\0\x0b";

/// Shortened output of NVRTC for the kernel of [`probe`].
const PTX: &[u8] = b"// hyperchunk kernel k\n.version 6.0\n.target sm_70\n.address_size 64\n\
    .visible .entry k(.param .u64 k_param_0)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<3>;\n\
    ld.param.u64 %rd1, [k_param_0];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, 7;\n\
    st.global.u8 [%rd2], %r1;\nret;\n}\n";

/// Maximum number of timed starts, if they are fast.
const START_COUNT: usize = 5;
/// Total time after which no further start is timed.
const MAX_PROBE_TIME: Duration = Duration::from_millis(100);

/// Result of the test of a language that works.
#[derive(Clone, Copy, Debug)]
pub struct ProbeResult {
    /// Layers of the sandbox.
    pub layers: Layers,
    /// Version of the kernel's Landlock.
    pub landlock_abi: u32,
    /// Time until a new worker is locked down and has loaded the function, if measured.
    pub start: Option<Duration>,
}

/// Runs a function that only writes one byte, in `profile`. If `timed` is set, also measures the start-up
/// time of a worker.
///
/// # Errors
/// The reason why functions in this language would not run here.
pub fn probe(backend: Backend, profile: &Profile, programs: &Programs, timed: bool) -> Result<ProbeResult> {
    profile.allow(backend, None)?;
    let source = match backend {
        Backend::Python => "def dynamic_dataset():\n    lib.getData(\"x\")[0] = 7\n",
        Backend::Lua => "function dynamic_dataset() lib.getData(\"x\")[1] = 7 end",
        Backend::Cpp => "extern \"C\" void dynamic_dataset() { lib.getData<uint8_t>(\"x\")[0] = 7; }",
        Backend::Expression => "7",
        Backend::Wasm => "",
        Backend::Cuda => "THREADS(1) __global__ void k(uint8_t *x) { *x = 7; }",
    };
    let compiled = match backend {
        Backend::Cpp => {
            Some(super::compile_cpp(source, [("x", &ElementType::UInt8.into())], programs)?.object)
        }
        Backend::Wasm => Some(WASM.to_vec()),
        Backend::Cuda => Some(PTX.to_vec()),
        _ => None,
    };
    let job = Job {
        backend,
        source,
        compiled: compiled.as_deref(),
        profile,
        file_path: "",
        slots: vec![JobSlot {
            name: "x".into(),
            datatype: ElementType::UInt8.into(),
            source: Source::Output(1),
        }],
        files: Vec::new(),
        needs: Needs::default(),
    };
    let mut session = Session::start(&job, programs)?;
    let (layers, landlock_abi) = (session.layers(), session.landlock_abi());
    session.call([(0, (vec![0], vec![1]))])?;
    let mut out = [std::mem::MaybeUninit::new(0)];
    session.take_output(0, 0, &mut out);
    // SAFETY: initialised above, whatever take_output did.
    if unsafe { out[0].assume_init() } != 7 {
        return Err(Error::new(ErrorKind::Worker, "the function ran and gave a wrong value"));
    }
    drop(session);
    let start = if timed { start_time(&job, programs) } else { None };
    Ok(ProbeResult { layers, landlock_abi, start })
}

/// Returns the median time of a few starts, or `None` when one fails: the language itself has already run.
///
/// The first start may have included compiling code, or starting the Python process from which workers fork,
/// so it does not count.
fn start_time(job: &Job<'_>, programs: &Programs) -> Option<Duration> {
    let mut times = Vec::new();
    while times.len() < START_COUNT && times.iter().sum::<Duration>() < MAX_PROBE_TIME {
        let begin = Instant::now();
        let started = Session::start(job, programs).ok()?;
        times.push(begin.elapsed());
        drop(started);
    }
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}
