//! Host side on systems other than Linux, where programs cannot be confined and are never started.
//! Expressions are computed as on Linux.
//!
//! It has the items of `mod.rs` that other crates use. [`Session`] is an empty type, so its methods are
//! unreachable.

mod active;
mod job;
pub mod vlen_strings;

pub use crate::cache::cache;
pub use active::{ActiveEvaluation, in_time};
pub use job::{FileHandle, Job, JobSlot, Reader, SessionKey, Source, Strings, handle};

use crate::backend::Backend;
use crate::cpp::wasm::Language;
use crate::cuda;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result};
use crate::profile::Profile;
use crate::record::{Block, CompiledForm, Record};
use crate::stub::RecordDigest;
use hyperchunk_sandbox::Layers;
use results::Results;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Returns the error for a request to run or compile a program.
fn needs_linux() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "cannot run a program of a live dataset: this needs Linux, whose kernel confines it, and this is {}; \
             read the dataset on Linux, or copy its values to a plain dataset there",
            std::env::consts::OS
        ),
    )
}

/// Returns an empty list: there are no caches.
pub(crate) fn cache_folders() -> Vec<PathBuf> {
    Vec::new()
}

/// Does nothing: there is no wait for a worker to interrupt.
pub fn set_interrupt(_: fn() -> bool) {}

/// Does nothing: programs of the package are not used.
pub fn set_package_dir(_: impl Into<PathBuf>) {}

/// Guard that has no effect: no function prints.
#[derive(Debug)]
pub struct CleanOutput(());

/// Returns a guard that has no effect: no function prints.
#[must_use]
pub fn keep_output_clean() -> CleanOutput {
    CleanOutput(())
}

/// Programs that run functions: none.
#[derive(Clone, Debug)]
pub struct Programs(());

#[allow(clippy::missing_errors_doc, reason = "each is the error that this needs Linux")]
impl Programs {
    /// Returns the empty set of programs.
    pub fn find() -> Result<Self> {
        Ok(Self(()))
    }

    /// Returns `None`: there are no plugins in the package.
    pub fn package(&self) -> Option<&Path> {
        None
    }

    /// Returns an error.
    pub fn plugin_folder(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }

    /// Returns an error.
    pub fn connector_folder(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }

    /// Returns an error.
    pub fn worker(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }

    /// Returns an error.
    pub fn wasm_worker(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }

    /// Returns an error.
    pub fn python(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }

    /// Returns an error.
    pub fn zig(&self) -> Result<PathBuf> {
        Err(needs_linux())
    }
}

/// Worker that has loaded its function, which does not exist here.
#[derive(Debug)]
pub enum Session {}

impl Session {
    /// Returns an error.
    ///
    /// # Errors
    /// Unsupported.
    pub fn start(_: &Job<'_>, _: &Programs) -> Result<Self> {
        Err(needs_linux())
    }

    /// Unreachable.
    pub fn within(&mut self, _: Duration) {
        match *self {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn call(&mut self, _: impl IntoIterator<Item = (u64, Block)>) -> Result<()> {
        match *self {}
    }

    /// Unreachable.
    pub fn input(&mut self, _: usize) -> Option<&mut [u8]> {
        match *self {}
    }

    /// Unreachable.
    pub fn take_output(&mut self, _: usize, _: u64, _: &mut [MaybeUninit<u8>]) -> Option<()> {
        match *self {}
    }

    /// Unreachable.
    pub fn copy_output(&mut self, _: usize, _: u64, _: &mut [u8]) -> Option<()> {
        match *self {}
    }

    /// Unreachable.
    pub fn ended_idle(&self) -> bool {
        match *self {}
    }

    /// Unreachable.
    pub fn lacked_modules(&self) -> bool {
        match *self {}
    }
}

/// Context for computing the blocks of a live dataset.
#[derive(Clone, Copy, Debug)]
pub struct BlockContext<'a> {
    /// Record.
    pub record: &'a Record,
    /// Digest of the record.
    pub digest: RecordDigest,
    /// Key of the session, with the location of the data.
    pub key: &'a Arc<SessionKey>,
    /// Cache of results, if enabled.
    pub results: Option<&'a Results>,
    /// Number of the open file if it cannot be written.
    pub constant: Option<u64>,
}

impl BlockContext<'_> {
    /// Returns the reader's error for a worker.
    ///
    /// # Errors
    /// Unsupported.
    pub fn compute<T>(
        &self,
        _: (&[u64], &[u64]),
        reader: &impl Reader,
        take: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        take(&mut reader.session(self.key)?)
    }
}

/// Pool of idle sessions: always empty.
#[derive(Debug)]
pub struct Pool(());

impl Pool {
    /// Returns the pool of the process.
    pub fn global() -> &'static Pool {
        static POOL: Pool = Pool(());
        &POOL
    }

    /// Returns nothing.
    pub fn take(&self, _: &Arc<SessionKey>) -> Option<Session> {
        None
    }

    /// Returns an empty list.
    pub fn pids(&self) -> Vec<i32> {
        Vec::new()
    }
}

/// Result of the test of a language.
#[derive(Clone, Copy, Debug)]
pub struct ProbeResult {
    /// Layers of the sandbox.
    pub layers: Layers,
    /// Version of the kernel's Landlock.
    pub landlock_abi: u32,
    /// Time until a new worker has loaded the function.
    pub start: Option<Duration>,
}

/// Returns an error.
///
/// # Errors
/// Errors of the profile; Unsupported.
pub fn probe(backend: Backend, profile: &Profile, _: &Programs, _: bool) -> Result<ProbeResult> {
    profile.allow(backend, None)?;
    Err(needs_linux())
}

/// Returns an error.
///
/// # Errors
/// Unsupported.
pub fn compiled_form(_: &Record, _: &Programs) -> Result<Arc<Vec<u8>>> {
    Err(needs_linux())
}

/// Returns an error.
///
/// # Errors
/// Unsupported.
pub fn compile_cpp<'a>(
    _: &str,
    _: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    _: &Programs,
) -> Result<CompiledForm> {
    Err(needs_linux())
}

/// Returns an error.
///
/// # Errors
/// Unsupported.
pub fn compile_wasm<'a>(
    _: Language,
    _: &str,
    _: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    _: &Programs,
) -> Result<CompiledForm> {
    Err(needs_linux())
}

/// Returns an error.
///
/// # Errors
/// Unsupported.
pub fn compile_cuda<'a>(
    _: &cuda::Program,
    _: &str,
    _: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    _: &Programs,
) -> Result<CompiledForm> {
    Err(needs_linux())
}

/// Inputs of expressions in mapped files: they are read instead.
pub mod mapped {
    use super::SessionKey;
    use crate::record::Slot;
    use std::convert::Infallible;
    use std::sync::Arc;

    /// Identity of a file on disk, and its version (size, time of change).
    pub type State = ((u64, u64), (u64, i64, i64));

    /// Mapped input, which does not exist here.
    #[derive(Debug)]
    pub struct MappedInput(Infallible);

    impl MappedInput {
        /// Unreachable.
        pub fn part(&self, _: &Slot, _: &[u64], _: &[u64]) -> Option<&[u8]> {
            match self.0 {}
        }
    }

    /// Returns nothing.
    pub fn mapped<F>(
        _: &Arc<SessionKey>,
        _: impl FnOnce() -> Option<(F, State)>,
    ) -> Option<Arc<Vec<Option<MappedInput>>>> {
        None
    }
}

/// Cache of results of functions, which does not exist here.
pub mod results {
    use super::DiskCache;
    use crate::error::Result;
    use crate::profile::Profile;
    use crate::record::Record;

    /// Cache of results: none.
    #[derive(Clone, Debug)]
    pub enum Results {}

    impl Results {
        /// Returns `None`: the cache is off.
        ///
        /// # Errors
        /// None.
        pub fn setting() -> Result<Option<Self>> {
            Ok(None)
        }

        /// Returns nothing.
        pub fn for_record(_: &Record, _: &Profile) -> Option<Self> {
            None
        }

        /// Unreachable.
        pub fn kept(&self) -> &DiskCache {
            match *self {}
        }
    }
}

/// Cache of compiled modules, which does not exist here.
pub mod code {
    use super::DiskCache;

    /// Returns nothing.
    pub fn kept() -> Option<DiskCache> {
        None
    }
}

/// Cache folder, which does not exist here.
#[derive(Clone, Debug)]
pub struct DiskCache {
    /// Path.
    pub folder: PathBuf,
    /// Maximum total size of its files.
    pub max_bytes: u64,
    none: std::convert::Infallible,
}

impl DiskCache {
    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn contents(&self) -> Result<(u64, u64)> {
        match self.none {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn clear(&self) -> Result<u64> {
        match self.none {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_needs_linux() {
        let error = Programs::find().and_then(|programs| programs.worker()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("needs Linux"), "{error}");
        assert!(Pool::global().pids().is_empty());
    }
}
