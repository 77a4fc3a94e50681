//! Network access for functions whose profile grants it: connections to single endpoints. A function cannot
//! create sockets itself.
//!
//! A function requests `host:port`. The reading process checks that its profile grants exactly that, and
//! starts a *connector* (`hyperchunk-udf-worker connect`): a process of ours that resolves the name, refuses
//! addresses to which the name may not resolve, and connects. The reading process passes the connected
//! descriptor on. Name resolution, which may be slow, never runs in the reading process, and is ended with
//! the function's time limit.
//!
//! **Invariant:** the checked address is the connected one: a name is resolved only once.

#[cfg(test)]
mod tests;

pub use crate::endpoint::Endpoint;

/// Maximum number of connections that one evaluation may request.
pub const MAX_CONNECTIONS: u32 = 16;
