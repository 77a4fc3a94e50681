//! Host side, in the reading process: starts workers, passes them inputs, takes their results and stops them.
//!
//! **Invariant:** a wait for a worker always ends: it has a deadline, and the death of the worker ends it at
//! once.

mod active;
mod block;
mod broker;
pub mod code;
mod compile;
mod cpu_affinity;
mod disk_cache;
mod exit_status;
mod function_output;
mod identity;
mod idle;
mod job;
mod layout;
mod locate;
pub mod mapped;
mod modules;
mod pool;
mod probe;
mod process;
pub mod results;
mod session;
mod spawner_thread;
pub mod vlen_strings;
mod worker;
mod zygote;

pub use crate::cache::cache;
pub use crate::interrupt::set_interrupt;
pub use active::{ActiveEvaluation, in_time};
pub use block::{BlockContext, DeviceWorker};
pub use compile::{compile_cpp, compile_cuda, compile_wasm, compiled_form};
pub use disk_cache::DiskCache;
pub(crate) use disk_cache::folders as cache_folders;
pub use function_output::{CleanOutput, keep_output_clean};
pub use job::{FileHandle, Job, JobSlot, Reader, SessionKey, Source, Strings, handle};
pub use locate::{Programs, keep_loaded, object_path, set_package_dir};
pub use modules::mentions;
pub use pool::Pool;
pub use probe::{ProbeResult, probe};
pub use session::Session;
