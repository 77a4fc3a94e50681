//! Hostile files for the reader: targets, mutations that get past checksums, and what the runner measures with.
#![allow(clippy::cast_possible_truncation, reason = "of numbers that are random anyway")]

pub mod blocks;
pub mod dice;
pub mod memory;
pub mod mutate;
pub mod targets;
pub mod texts;
