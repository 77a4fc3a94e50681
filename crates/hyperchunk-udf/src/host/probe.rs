//! Trying each language once with an empty function: what `hyperchunk doctor` reports.

use super::locate::Programs;
use super::session::{Job, JobSlot, Session, Source};
use crate::backend::Backend;
use crate::datatype::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::profile::Profile;
use crate::worker::lockdown::Layers;

/// Runs an empty function in `profile`; returns the layers of the sandbox and the Landlock version.
///
/// # Errors
/// Why functions in this language would not run here.
pub fn probe(backend: Backend, profile: &Profile, programs: &Programs) -> Result<(Layers, u32)> {
    profile.allow(backend, None)?;
    let source = match backend {
        Backend::Python => "def dynamic_dataset():\n    lib.getData(\"x\")[0] = 7\n",
        Backend::Lua => "function dynamic_dataset() lib.getData(\"x\")[1] = 7 end",
        Backend::Cpp => "extern \"C\" void dynamic_dataset() { lib.getData<uint8_t>(\"x\")[0] = 7; }",
        Backend::Expression => "7",
    };
    let compiled = match backend {
        Backend::Cpp => Some(super::compile_cpp(source, [("x", &ElementType::UInt8.into())], programs)?),
        _ => None,
    };
    let job = Job {
        backend,
        source,
        compiled: compiled.as_ref().map(|c| c.object.as_slice()),
        profile,
        file_path: "",
        slots: vec![JobSlot {
            name: "x".into(),
            datatype: ElementType::UInt8.into(),
            source: Source::Output(1),
        }],
        files: Vec::new(),
    };
    let mut session = Session::start(&job, programs)?;
    session.call([(0, (vec![0], vec![1]))])?;
    let mut out = [std::mem::MaybeUninit::new(0)];
    session.take_output(0, 0, &mut out);
    // SAFETY: initialised above, whatever take_output did.
    if unsafe { out[0].assume_init() } != 7 {
        return Err(Error::new(ErrorKind::Worker, "it ran and gave a wrong value"));
    }
    Ok((session.layers(), session.landlock_abi()))
}
