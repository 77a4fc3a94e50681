//! Resource limits.

use std::fs;

use super::{Layers, Policy, Runtime};
use crate::error::{Error, Result};

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Maximum processes of a compiler (driver, compiler proper, assembler, linker and its helpers), or threads
/// of a function.
const MAX_PROCESSES: u64 = 64;

/// Lifetime CPU limit of a worker, as a multiple of the limit of one run; the host replaces the worker before
/// it is reached.
const CPU_LIMIT_RUNS: u64 = 60;

/// Sets every limit. A limit that is already lower stays.
pub(super) fn apply(policy: &Policy, layers: Layers) -> Result<()> {
    set("RLIMIT_CORE", libc::RLIMIT_CORE, 0)?;
    let writes = policy.runtime == Runtime::Compiler || !policy.rights.write.is_empty();
    set("RLIMIT_FSIZE", libc::RLIMIT_FSIZE, if writes { policy.file_size } else { 0 })?;
    // Zig compiles its libraries' files in parallel.
    let many = policy.cache.is_some() || policy.runtime == Runtime::Cuda;
    set("RLIMIT_NOFILE", libc::RLIMIT_NOFILE, if many { 1024 } else { 64 })?;
    if policy.runtime != Runtime::Cuda {
        set("RLIMIT_MEMLOCK", libc::RLIMIT_MEMLOCK, 0)?;
    }
    set("RLIMIT_MSGQUEUE", libc::RLIMIT_MSGQUEUE, 0)?;
    set("RLIMIT_RTPRIO", libc::RLIMIT_RTPRIO, 0)?;
    match policy.runtime {
        Runtime::Lua { .. } | Runtime::Cpp | Runtime::Python | Runtime::Wasm if !policy.rights.threads => {
            set("RLIMIT_NPROC", libc::RLIMIT_NPROC, 0)?;
        }
        // The kernel counts all processes of the user or, in a user namespace, only those in it; for the
        // former no sensible limit is known. A thread counts as a process.
        _ if layers.contains(Layers::USERNS) => {
            set("RLIMIT_NPROC", libc::RLIMIT_NPROC, MAX_PROCESSES)?;
        }
        _ => {}
    }
    // A GPU driver reserves as much address space as the GPU and the machine have memory; it uses little.
    if policy.runtime != Runtime::Cuda {
        set("RLIMIT_AS", libc::RLIMIT_AS, mapped_bytes()?.saturating_add(policy.memory))?;
    }
    if policy.runtime == Runtime::Compiler {
        return set("RLIMIT_CPU", libc::RLIMIT_CPU, policy.cpu_seconds);
    }
    // The host raises the soft limit before each run. SIGXCPU at the soft limit can be blocked; at the hard
    // limit the kernel kills the process. The function can raise neither: the filter denies setrlimit and
    // prlimit.
    let life = policy.cpu_seconds.saturating_add(1).saturating_mul(CPU_LIMIT_RUNS);
    let hard = get("RLIMIT_CPU", libc::RLIMIT_CPU)?.rlim_max.min(life);
    put(
        "RLIMIT_CPU",
        libc::RLIMIT_CPU,
        libc::rlimit { rlim_cur: policy.cpu_seconds.min(hard), rlim_max: hard },
    )
}

/// Returns the size of the mapped address space in bytes.
fn mapped_bytes() -> Result<u64> {
    let path = "/proc/self/statm";
    let text =
        fs::read_to_string(path).map_err(|error| Error::io(format_args!("lockdown: {path}"), &error))?;
    // SAFETY: sysconf has no memory effects.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok();
    let pages = text.split(' ').next().and_then(|field| field.parse::<u64>().ok());
    pages
        .zip(page)
        .and_then(|(pages, page)| pages.checked_mul(page))
        .ok_or_else(|| Error::new(format!("lockdown: cannot parse {path}")))
}

fn set(name: &str, resource: Resource, limit: u64) -> Result<()> {
    let limit = limit.min(get(name, resource)?.rlim_max);
    put(name, resource, libc::rlimit { rlim_cur: limit, rlim_max: limit })
}

fn get(name: &str, resource: Resource) -> Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a local that the call only writes to.
    if unsafe { libc::getrlimit(resource, &mut limit) } != 0 {
        return Err(Error::last_os(format_args!("lockdown: {name}")));
    }
    Ok(limit)
}

fn put(name: &str, resource: Resource, limit: libc::rlimit) -> Result<()> {
    // SAFETY: `limit` is initialised and only read.
    if unsafe { libc::setrlimit(resource, &limit) } != 0 {
        return Err(Error::last_os(format_args!("lockdown: {name}")));
    }
    Ok(())
}
