//! Host side, in the reading process: starts workers, passes them inputs, takes their results and stops them.
//!
//! **Invariant:** a wait for a worker always ends: it has a deadline, and the death of the worker ends it at
//! once.

mod active;
mod block;
pub mod code;
mod compile;
mod copied;
mod identity;
mod idle;
pub(crate) mod interrupt;
mod kept;
mod lasting;
mod layout;
mod locate;
pub mod mapped;
mod modules;
mod pool;
mod printed;
mod probe;
pub(crate) mod process;
mod processor;
pub mod results;
mod session;
mod sigint;
pub mod texts;
mod verdict;
mod worker;
mod written;
mod zygote;

pub use active::{Active, in_time};
pub use block::{Calls, Lending, Reader, Strings};
pub use compile::{compile_cpp, compile_cuda, compile_wasm, compiled_form};
pub use interrupt::set_interrupt;
pub use kept::Kept;
pub(crate) use kept::folders as kept_folders;
pub use locate::{Programs, keep_loaded, object_path, set_package_dir};
pub use modules::mentions;
pub use pool::{Pool, SessionKey, cache};
pub use printed::{CleanOutput, keep_output_clean};
pub use probe::{Probed, probe};
pub use session::{Job, JobSlot, Session, Source};
pub use written::Owner;
