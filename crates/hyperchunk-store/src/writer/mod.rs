//! Writers: creating a store, logs, flushes.

pub(crate) mod create;
pub(crate) mod filter_chunks;
pub(crate) mod log_writer;
pub mod observer;
#[cfg_attr(not(target_os = "linux"), path = "no_shared_memory.rs")]
pub(crate) mod shared_memory_buffer;
pub(crate) mod uncommitted;
