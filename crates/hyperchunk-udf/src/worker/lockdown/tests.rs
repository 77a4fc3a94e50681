//! Tests of the sandbox.
