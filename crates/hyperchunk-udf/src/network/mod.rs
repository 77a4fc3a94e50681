//! The network, for functions whose profile grants it: an endpoint at a time, by name, and never a socket of their own.
//!
//! A function asks for `host:port`. The reading process checks that its profile grants exactly that, and starts a
//! [connector](connect): a process of ours that resolves the name, refuses addresses that the name may not lead to, and
//! connects. The reader passes the connected descriptor on. What resolves names, and may take its time, never runs in the
//! reading process, and is ended with the function's time.
//!
//! **Invariant:** the address that was checked is the address that is connected: a name is looked up once.

mod address;
mod broker;
pub mod connect;
mod endpoint;
#[cfg(test)]
mod tests;

pub(crate) use broker::Broker;
pub use endpoint::Endpoint;

/// Connections that one evaluation may ask for.
pub const MAX_CONNECTIONS: u32 = 16;
