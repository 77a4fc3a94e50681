//! Tests of transfers.
