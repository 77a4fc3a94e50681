//! Arrow Flight: a server of the tables of HDF5 files, and of the files themselves; and its client.
//!
//! Tables are sent as record batches, after the selection of rows and columns. Files are sent as ranges of
//! their bytes (`hyperchunk.read`), so that `grpc://host/file.h5` opens with all features of HDF5: it is read
//! by the same engine, over a source that asks a server. The format: `docs/formats/flight.md`.

mod client;
mod names;
mod query;
mod server;
mod status;
mod token;

pub use crate::predicate::{Comparison, Literal, Predicate};
pub use client::{RemoteBatches, RemoteTable, enable};
pub use query::Query;
pub use server::{Address, Log, ServerOptions, Signals, serve};
pub use token::{Token, VARIABLE as TOKEN_VARIABLE};
