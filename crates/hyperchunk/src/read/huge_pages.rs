//! Large pages for large results: filling new memory is then twice as fast, as the kernel hands it out in pieces of 2 MiB
//! instead of 4 KiB.

/// Results of fewer bytes are left as they are.
#[cfg(any(target_os = "linux", test))]
const LARGE: usize = 4 << 20;

/// Tells the kernel that all of `buffer` will be written soon. Only whole large pages inside it are concerned, so it takes
/// no more memory than it did. A hint: nothing depends on it.
#[cfg(target_os = "linux")]
pub(super) fn suggest(buffer: &mut [u8]) {
    /// What large pages are aligned to on x86-64, and on aarch64 with pages of 4 KiB.
    const HUGE: usize = 2 << 20;
    if buffer.len() < LARGE {
        return;
    }
    let before = buffer.as_ptr().align_offset(HUGE);
    let Some(inside) = buffer.get_mut(before..) else { return };
    let length = inside.len() / HUGE * HUGE;
    if length > 0 {
        // SAFETY: `length` bytes that are ours alone, and their contents stay as they are.
        unsafe { libc::madvise(inside.as_mut_ptr().cast(), length, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn suggest(_: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        for length in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 5] {
            let mut buffer: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            suggest(&mut buffer);
            assert!(buffer.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251), "{length}");
        }
    }
}
