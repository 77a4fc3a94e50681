//! What is fuzzed: functions that take bytes and must come back, without a panic, in little time and memory.

pub mod whole;
