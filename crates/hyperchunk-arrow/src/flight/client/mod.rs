//! Reading what a server has.

mod local;
mod process;
mod source;
mod table;
mod url;

pub use table::{RemoteBatches, RemoteTable};

/// The schemes of URLs that lead to Flight servers.
const SCHEMES: [&str; 4] = ["grpc", "grpc+tcp", "grpc+tls", "grpc+unix"];

/// Lets the engine open URLs of Flight servers: `grpc://`, `grpc+tls://`, `grpc+unix://`. Once for the process.
pub fn enable() {
    hyperchunk::io::set_schemes(&SCHEMES, source::open);
}
