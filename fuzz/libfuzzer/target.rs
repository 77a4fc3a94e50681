//! The harness for libFuzzer: runs the target that `HYPERCHUNK_TARGET` names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("HYPERCHUNK_TARGET").unwrap_or_else(|_| "file".into());
        let all = hyperchunk_fuzz::targets::TARGETS.iter().chain(hyperchunk_fuzz::texts::TEXTS);
        let found = all.into_iter().find(|(target, _)| *target == name);
        found.map(|(_, run)| *run).expect("HYPERCHUNK_TARGET names no target")
    });
    target(data);
});
