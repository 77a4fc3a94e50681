//! On-disk cache of the machine code of WebAssembly modules: compilation takes most of the time of starting
//! their worker.
//!
//! A locked-down worker that sees only the module makes the code, before any of the function runs. This
//! process stores the code under a digest of the module, the worker's program and the kind of processor, and
//! passes it to workers that run the same module. An exploit of the compiler therefore reaches only the code
//! of its own module.
//!
//! **Invariant:** the code is data in this process. Only a locked-down worker loads it, where it can do no
//! more than the native code that the sandbox confines anyway.
//!
//! **Invariant:** a failure of this cache never fails a read.

use super::disk_cache::{CacheKey, CacheKind, DiskCache, UNKNOWN_BYTES, cache_folder, is_at_home};
use super::identity::build_id;
use super::job::Job;
use super::locate::Programs;
use super::results;
use super::session::Session;
use crate::backend::Backend;
use crate::error::Result;
use crate::keys;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

const VARIABLE: &str = "HYPERCHUNK_CODE_CACHE";
/// Maximum total size of the cache.
const MAX_CACHE_BYTES: u64 = 256 << 20;
/// Maximum size of the cached code of one module.
pub const MAX_CODE_BYTES: usize = 48 << 20;
static KIND: CacheKind =
    CacheKind { mark: b"HCCODE01", extension: "code", written: AtomicU64::new(UNKNOWN_BYTES) };

/// Returns the cache, or `None` if there is none: in a set-uid program, without a home folder of this user,
/// or if disabled.
pub fn kept() -> Option<DiskCache> {
    let config = keys::config_dir().ok();
    if keys::is_set_uid() || config.is_some_and(|config| !results::read_setting(&config).is_ok_and(|s| s.1)) {
        return None;
    }
    let folder = match std::env::var_os(VARIABLE) {
        Some(word) if word.is_empty() || word == "0" => return None,
        Some(word) if word != "1" => Some(PathBuf::from(word)).filter(|path| path.is_absolute())?,
        _ => cache_folder().ok().map(|folder| folder.join("code")).filter(|folder| is_at_home(folder))?,
    };
    Some(DiskCache { folder, max_bytes: MAX_CACHE_BYTES, kind: &KIND })
}

/// Machine code of a module.
pub(super) struct Code {
    kept: DiskCache,
    key: CacheKey,
    bytes: Vec<u8>,
}

impl Code {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the code from the cache.
    pub(super) fn forget(&self) {
        self.kept.remove(&self.key);
    }
}

/// Returns the machine code of a job's module, from the cache or compiled now. `None` if the worker that runs
/// it has to compile the module itself.
///
/// # Errors
/// The errors of [`Session::start`], when the module does not compile.
pub(super) fn load(job: &Job<'_>, programs: &Programs) -> Result<Option<Code>> {
    let Some(module) = job.compiled.filter(|_| job.backend == Backend::Wasm) else { return Ok(None) };
    let Some(kept) = kept().filter(|kept| kept.make_folder().is_ok()) else { return Ok(None) };
    let Some(key) = key(module, &programs.wasm_worker()?) else { return Ok(None) };
    let bytes = match kept.get(&key, 0..=MAX_CODE_BYTES) {
        Some(bytes) => bytes,
        None => {
            let bytes = Session::compile(job, programs)?;
            kept.put(&key, &bytes);
            bytes
        }
    };
    // Code that is too large is not cached; returning `None` saves compiling it twice each time.
    Ok((!bytes.is_empty()).then_some(Code { kept, key, bytes }))
}

/// Returns the cache key: a digest of the module, of the compiler with its settings, and of the processor's
/// features.
fn key(module: &[u8], worker: &Path) -> Option<CacheKey> {
    let mut hash = Sha256::new();
    let id = build_id(worker)?;
    for part in [&b"hyperchunk-code 1"[..], &id, processor().as_bytes(), module] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    Some(CacheKey(hash.finalize().into()))
}

/// Lists the processor features that the compiler uses, so that machines can share a home folder.
fn processor() -> String {
    let mut text = std::env::consts::ARCH.to_owned();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! features {
            ($($name:tt)*) => {[$(($name, std::arch::is_x86_feature_detected!($name))),*]};
        }
        let known = features!("sse3" "ssse3" "cmpxchg16b" "sse4.1" "sse4.2" "popcnt" "avx" "avx2" "fma" "bmi1" "bmi2"
            "avx512bitalg" "avx512dq" "avx512f" "avx512vl" "avx512vbmi" "lzcnt");
        for (name, _) in known.iter().filter(|(_, there)| *there) {
            text.push(' ');
            text.push_str(name);
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! features {
            ($($name:tt)*) => {[$(($name, std::arch::is_aarch64_feature_detected!($name))),*]};
        }
        for (name, _) in features!("lse" "paca" "fp16").iter().filter(|(_, there)| *there) {
            text.push(' ');
            text.push_str(name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_of_the_module_and_the_worker() {
        let worker = std::env::current_exe().unwrap();
        let of = |module: &[u8]| key(module, &worker).map(|key| key.0);
        // Without a build id from the linker, programs cannot be told apart, and nothing is cached.
        assert_eq!(of(b"a").is_some(), build_id(&worker).is_some());
        if let Some(first) = of(b"a") {
            assert_eq!(of(b"a"), Some(first));
            assert_ne!(of(b"b"), Some(first));
        }
        assert!(key(b"a", Path::new("/nothing")).is_none());
        assert!(processor().starts_with(std::env::consts::ARCH));
    }
}
