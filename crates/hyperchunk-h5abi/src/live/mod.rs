//! Evaluation of the chunks of live datasets, called from within a read of libhdf5.
//!
//! stub → the open dataset that it belongs to → its record, verified → plan → worker → the chunk's bytes.
//! Expressions need no worker: they are computed here.

pub(crate) mod attributes;
mod budget;
mod cycle_check;
mod evaluate;
mod expression;
mod external_inputs;
pub(crate) mod legacy;
mod locate;
mod number;
mod plan;
mod readahead;
pub(crate) mod record;
pub(crate) mod sources;
mod stored;
mod vlen_strings;

pub(crate) use budget::Computation;
pub(crate) use evaluate::evaluate;
pub(crate) use locate::is_written;
