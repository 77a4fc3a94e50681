//! Arrow Flight: a server of the tables of HDF5 files, and of the files themselves; and its client.
//!
//! Tables go over the wire as the batches that they are, filtered and cut to the columns asked for. Files go as ranges of
//! their bytes (`hyperchunk.read`), so that whoever opens `grpc://host/file.h5` has all of HDF5: it is read by the same
//! engine, over a source that asks a server. The format: `docs/formats/flight.md`.

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
