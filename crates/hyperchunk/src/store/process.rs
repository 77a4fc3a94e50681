//! The place in which a process has its number: the numbers of two processes can be compared only there.

use std::sync::OnceLock;

/// A hash of the boot of this machine and the process namespace; 0 where the system does not tell them.
#[must_use]
pub fn place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let (Some(boot), Some(namespace)) = (boot, namespace) else { return 0 };
        let text = [boot.as_slice(), namespace.as_os_str().as_encoded_bytes()].concat();
        twox_hash::XxHash3_64::oneshot(&text).max(1)
    })
}
