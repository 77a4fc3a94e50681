//! Tracking of the memory that a function has written, to avoid copying and clearing zeros.

use super::copy_and_clear::copy_and_clear;
use super::layout::{PAGE_BYTES, Region};
use crate::memory::{Shared, page};
use std::mem::MaybeUninit;

/// Number of bytes copied and cleared at a time.
const COPY_BYTES: usize = 32 << 10;
/// Number of bytes compared with zeros at a time: both fit in the nearest cache.
const COMPARE_BYTES: usize = 8 << 10;
static ZEROS: [u8; COMPARE_BYTES] = [0; COMPARE_BYTES];
/// Number of non-zero pieces of `COMPARE_BYTES` bytes from which clearing by writing is too slow.
const MAX_NONZERO_BATCHES: usize = 4;
/// Number of all-zero outputs in a row after which their memory is given back to the kernel, which then
/// reports whether pages were written. Comparing takes as long as copying. Giving back and faulting in again
/// takes as long as ten comparisons, so this threshold is multiplied by the same number after each time that
/// it was useless.
const ZERO_OUTPUTS_BEFORE_RELEASE: u32 = 8;
/// Number of all-zero outputs in a row after which the memory of chunks is given back: see `make_zeros`.
/// Faulting pages in again takes four times as long as clearing them.
const ZERO_CHUNKS_BEFORE_RELEASE: u32 = 2;

/// Owner of the memory that an output is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Allocated for it, on the heap. Its pages may be given back to the kernel.
    Chunk,
    /// Memory of the reading program: a device may know the physical addresses of its pages.
    Program,
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// State of an output's memory.
#[derive(Debug)]
pub(super) struct DirtyPages {
    /// Number of all-zero outputs in a row.
    nothing: u32,
    /// Current threshold for `nothing`.
    enough: u32,
    /// Set if its memory was given back and not written since.
    given_back: bool,
    /// Number of all-zero chunks in a row, whichever way they became zero.
    zeros: u32,
    /// Current threshold for `zeros`.
    enough_for_chunk: u32,
    /// Set if some memory of chunks was given back since a chunk last had other values.
    chunk_given_back: bool,
}

impl Default for DirtyPages {
    fn default() -> Self {
        DirtyPages {
            nothing: 0,
            zeros: 0,
            enough: ZERO_OUTPUTS_BEFORE_RELEASE,
            given_back: false,
            enough_for_chunk: ZERO_CHUNKS_BEFORE_RELEASE,
            chunk_given_back: false,
        }
    }
}

impl DirtyPages {
    /// Fills `to` from an output, from byte `from` on, and clears the bytes taken.
    pub(super) fn take(
        &mut self,
        arena: &Shared,
        region: &Region,
        from: u64,
        to: &mut [MaybeUninit<u8>],
        owner: Owner,
    ) -> Option<()> {
        let bytes = to.len() as u64;
        let inside = from.checked_add(bytes)? <= region.bytes;
        let offset = region.offset.checked_add(from)?;
        let pointer = arena.map.at(offset, bytes).filter(|_| inside)?;
        let untouched = self.is_untouched(arena, offset, bytes);
        // SAFETY: at() has checked the range, which is not the caller's memory, and the worker is idle.
        let zeros = if untouched { to.len() } else { unsafe { copy_out(pointer, to) } };
        if zeros < to.len() {
            self.reset();
            self.zeros = 0;
            if std::mem::take(&mut self.chunk_given_back) {
                self.enough_for_chunk = self.enough_for_chunk.saturating_mul(ZERO_OUTPUTS_BEFORE_RELEASE);
            }
            return Some(());
        }
        let may_give_back = owner == Owner::Chunk && self.zeros >= self.enough_for_chunk;
        self.chunk_given_back |= make_zeros(to, may_give_back);
        if bytes == region.bytes {
            self.zeros = self.zeros.saturating_add(1);
            self.nothing = self.nothing.saturating_add(1);
            // The rest of the last page belongs to the output as well.
            let pages = region.bytes.next_multiple_of(PAGE_BYTES);
            self.given_back =
                untouched || self.nothing >= self.enough && arena.give_back(region.offset, pages);
        }
        Some(())
    }

    /// Resets the count after the function has written the output.
    fn reset(&mut self) {
        self.nothing = 0;
        if std::mem::take(&mut self.given_back) {
            self.enough = self.enough.saturating_mul(ZERO_OUTPUTS_BEFORE_RELEASE);
        }
    }

    /// Clears all of an output.
    pub(super) fn clear(&mut self, arena: &Shared, region: &Region) {
        if self.is_untouched(arena, region.offset, region.bytes) {
            return;
        }
        if let Some(pointer) = arena.map.at(region.offset, region.bytes) {
            // SAFETY: inside the arena; the worker is idle.
            unsafe { std::ptr::write_bytes(pointer, 0, usize::try_from(region.bytes).unwrap_or(0)) };
        }
    }

    /// Returns whether none of it was written since it was given back.
    fn is_untouched(&mut self, arena: &Shared, offset: u64, bytes: u64) -> bool {
        let untouched = self.given_back && arena.is_untouched(offset, bytes);
        if self.given_back && !untouched {
            self.reset();
        }
        untouched
    }
}

/// Clears `to`. If it is already zero, comparing takes half the time of writing. If many pieces are not, and
/// `may_give_back` is set, the pages are given back to the kernel, and true is returned: they are then mapped
/// to the kernel's single zero page, which stays in the nearest cache of its readers.
fn make_zeros(to: &mut [MaybeUninit<u8>], may_give_back: bool) -> bool {
    let (mut written, mut given, mut rest) = (0, false, to);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at_mut(COMPARE_BYTES.min(rest.len()));
        if !is_zero(piece) {
            written += 1;
            // Only past this threshold, to ignore the few words that an allocator leaves, and only once: some
            // kinds of memory keep their content.
            if may_give_back && written == MAX_NONZERO_BATCHES {
                given = give_back(behind);
            }
            piece.fill(MaybeUninit::new(0));
        }
        rest = behind;
    }
    given
}

fn is_zero(piece: &[MaybeUninit<u8>]) -> bool {
    // The memory may be uninitialised: an arbitrary value is then compared, and the result is zeros in either
    // case.
    let there = std::hint::black_box(piece.as_ptr());
    // SAFETY: the slice's own memory, and no longer than the zeros.
    unsafe { libc::memcmp(there.cast(), ZEROS.as_ptr().cast(), piece.len().min(COMPARE_BYTES)) == 0 }
}

/// Tells the kernel that the whole pages in it are not needed; their values are arbitrary afterwards. Returns
/// whether it took any.
fn give_back(memory: &mut [MaybeUninit<u8>]) -> bool {
    let page = page();
    let mut skipped = memory.as_ptr().align_offset(page);
    // Some kernels take all of a huge page that starts there, and the rest of it may not be ours.
    if memory.as_ptr().addr().wrapping_add(skipped).is_multiple_of(HUGE_PAGE_BYTES) {
        skipped = skipped.saturating_add(page);
    }
    let pages = memory.len().saturating_sub(skipped) / page * page;
    let start = memory.as_mut_ptr().wrapping_add(skipped);
    // SAFETY: whole pages of the slice's own memory, whose values are not needed.
    pages > 0 && unsafe { libc::madvise(start.cast(), pages, libc::MADV_DONTNEED) } == 0
}

/// Copies the bytes at `source` and clears them. Returns the number of zero bytes at the start: if all are
/// zero, `to` is not written, and the caller has to clear it.
///
/// # Safety
/// `to.len()` bytes must be readable and writable at `source`, and must not overlap `to`. If another writer
/// changes them at the same time, they end up as zeros or as the copied values.
unsafe fn copy_out(source: *mut u8, to: &mut [MaybeUninit<u8>]) -> usize {
    let (mut done, mut zeros) = (0, 0);
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: inside, by the caller's promise; nothing is longer than the zeros that it is compared with.
        unsafe {
            let source = source.add(done);
            let looked = rest.len().min(COMPARE_BYTES);
            // Pages that a function has not written need neither be copied nor cleared.
            if libc::memcmp(source.cast_const().cast(), ZEROS.as_ptr().cast(), looked) == 0 {
                // All bytes may be zeros.
                if zeros == done {
                    zeros += looked;
                } else {
                    std::ptr::write_bytes(rest.as_mut_ptr(), 0, looked);
                }
                done += looked;
            } else {
                let copied = rest.len().min(COPY_BYTES);
                copy_and_clear(source, rest.as_mut_ptr().cast(), copied);
                done += copied;
            }
        }
    }
    if zeros < done {
        to.get_mut(..zeros).unwrap_or_default().fill(MaybeUninit::new(0));
    }
    zeros
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Map;
    use std::os::fd::AsFd as _;

    const OUTPUT_BYTES: u64 = 3 * PAGE_BYTES + 500;

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// Output between two others, and the worker's view of it.
    struct Scene {
        arena: Shared,
        worker: Map,
        region: Region,
        written: DirtyPages,
        /// Bytes that the worker has written and that were not taken yet.
        left: Vec<u8>,
    }

    impl Scene {
        fn new() -> Self {
            let arena = Shared::new(8 * PAGE_BYTES, true).unwrap();
            let worker = Map::new(arena.fd.as_fd(), 8 * PAGE_BYTES, true).unwrap();
            let region = Region { segment: 0, offset: PAGE_BYTES, bytes: OUTPUT_BYTES, output: true };
            let scene = Scene {
                arena,
                worker,
                region,
                written: DirtyPages::default(),
                left: vec![0; index(OUTPUT_BYTES)],
            };
            scene.neighbours().into_iter().for_each(|at| scene.put(at, 77));
            scene
        }

        fn neighbours(&self) -> [u64; 2] {
            [PAGE_BYTES - 1, self.region.offset + OUTPUT_BYTES.next_multiple_of(PAGE_BYTES)]
        }

        fn put(&self, at: u64, value: u8) {
            // SAFETY: inside; there is no other access now.
            unsafe { *self.worker.at(at, 1).unwrap() = value };
        }

        fn write(&mut self, at: u64, value: u8) {
            self.put(self.region.offset + at, value);
            self.left[index(at)] = value;
        }

        /// Takes a part, which must have the worker's values, and then zeros.
        fn check(&mut self, from: u64, bytes: u64) {
            let mut to = vec![MaybeUninit::new(0x55_u8); index(bytes)];
            self.written.take(&self.arena, &self.region, from, &mut to, Owner::Chunk).unwrap();
            // SAFETY: initialised above.
            let to: Vec<u8> = to.into_iter().map(|byte| unsafe { byte.assume_init() }).collect();
            let left = &mut self.left[index(from)..index(from + bytes)];
            assert_eq!(to, left);
            left.fill(0);
            // SAFETY: as above.
            let values = self.neighbours().map(|at| unsafe { *self.worker.at(at, 1).unwrap() });
            assert_eq!(values, [77, 77]);
        }
    }

    #[test]
    fn what_is_written_is_taken_whatever_was_given_back_before() {
        for at in [0, 1, PAGE_BYTES - 1, PAGE_BYTES, 2 * PAGE_BYTES + 7, 3 * PAGE_BYTES, OUTPUT_BYTES - 1] {
            let mut scene = Scene::new();
            for round in 0..300_u64 {
                if round % 30 == 29 {
                    scene.write(at, 9);
                }
                scene.check(0, OUTPUT_BYTES);
            }
        }
    }

    #[test]
    fn parts_are_taken_as_the_whole_is() {
        let mut scene = Scene::new();
        for round in 0..100_u64 {
            for from in [0, 100, PAGE_BYTES, 3 * PAGE_BYTES] {
                if round % 7 == 6 {
                    scene.write(from, 3);
                }
                scene.check(from, 100);
            }
            scene.check(0, OUTPUT_BYTES);
        }
        assert!(
            scene
                .written
                .take(
                    &scene.arena,
                    &scene.region,
                    1,
                    &mut vec![MaybeUninit::new(0); index(OUTPUT_BYTES)],
                    Owner::Chunk
                )
                .is_none()
        );
        assert!(
            scene
                .written
                .take(&scene.arena, &scene.region, u64::MAX, &mut [MaybeUninit::new(0)], Owner::Chunk)
                .is_none()
        );
    }

    #[test]
    fn memory_is_given_back_after_some_outputs_of_nothing() {
        let mut scene = Scene::new();
        let pages = |scene: &Scene| !scene.arena.is_untouched(scene.region.offset, OUTPUT_BYTES);
        scene.write(5, 1);
        for _ in 0..ZERO_OUTPUTS_BEFORE_RELEASE {
            assert!(!scene.written.given_back);
            scene.check(0, OUTPUT_BYTES);
        }
        assert!(!scene.written.given_back && pages(&scene));
        scene.check(0, OUTPUT_BYTES);
        assert!(scene.written.given_back && !pages(&scene));
        scene.written.clear(&scene.arena, &scene.region);
        assert!(!pages(&scene));
        // Zeros that were written also raise the threshold.
        scene.write(5, 0);
        for _ in 0..ZERO_OUTPUTS_BEFORE_RELEASE * ZERO_OUTPUTS_BEFORE_RELEASE {
            assert_eq!(scene.written.given_back, scene.written.enough == ZERO_OUTPUTS_BEFORE_RELEASE);
            scene.check(0, OUTPUT_BYTES);
        }
        assert!(scene.written.given_back && !pages(&scene));
    }

    #[test]
    fn what_nobody_takes_is_cleared() {
        let mut scene = Scene::new();
        for round in 0..40 {
            if round % 20 > 12 {
                scene.write(PAGE_BYTES, 8);
                scene.written.clear(&scene.arena, &scene.region);
                scene.left.fill(0);
            }
            scene.check(0, OUTPUT_BYTES);
        }
    }

    /// Clears a part of a filled memory and checks that nothing else changes; the kernel gets pages of it or
    /// not.
    fn check_zeros(memory: &mut [MaybeUninit<u8>], from: usize, bytes: usize, may: bool, gives: bool) {
        memory.fill(MaybeUninit::new(0x55));
        assert_eq!(make_zeros(&mut memory[from..from + bytes], may), gives, "{bytes} bytes from {from} on");
        // SAFETY: initialised above.
        let value = |at: usize| unsafe { memory[at].assume_init() };
        for at in 0..memory.len() {
            let expected = if (from..from + bytes).contains(&at) { 0 } else { 0x55 };
            assert_eq!(value(at), expected, "at {at}, {bytes} bytes from {from} on");
        }
        assert!(!make_zeros(&mut memory[from..from + bytes], may), "given back twice");
    }

    #[test]
    fn memory_is_cleared_with_pages_given_back_and_without() {
        let page = index(PAGE_BYTES);
        let mut heap = vec![MaybeUninit::new(0); 40 * page];
        for from in [0, 1, 16, page - 1, page, page + 1] {
            for bytes in
                [0, 1, COMPARE_BYTES, MAX_NONZERO_BATCHES * COMPARE_BYTES, 20 * page - 1, 30 * page + 7]
            {
                check_zeros(&mut heap, from, bytes, true, bytes > 15 * page);
                check_zeros(&mut heap, from, bytes, false, false);
            }
        }
    }

    #[test]
    fn memory_that_keeps_what_it_has_is_written() {
        let arena = Shared::new(40 * PAGE_BYTES, true).unwrap();
        let start = arena.map.at(0, 40 * PAGE_BYTES).unwrap();
        // SAFETY: all of the map, with no other access.
        let memory = unsafe { std::slice::from_raw_parts_mut(start.cast(), index(40 * PAGE_BYTES)) };
        check_zeros(memory, 5, 30 * index(PAGE_BYTES), true, true);
    }

    #[test]
    fn pages_of_chunks_are_given_back_after_some_zeros_and_later_after_each_time_for_nothing() {
        let bytes = 64 * PAGE_BYTES;
        let arena = Shared::new(bytes, true).unwrap();
        let region = Region { segment: 0, offset: 0, bytes, output: true };
        let mut written = DirtyPages::default();
        let taken = |written: &mut DirtyPages, owner| {
            let mut to = vec![MaybeUninit::new(0x55_u8); index(bytes)];
            written.take(&arena, &region, 0, &mut to, owner).unwrap();
            // SAFETY: initialised above.
            to.into_iter().map(|byte| unsafe { byte.assume_init() }).collect::<Vec<_>>()
        };
        let zeros = vec![0; index(bytes)];
        for _ in 0..20 {
            assert_eq!(taken(&mut written, Owner::Program), zeros);
            assert!(!written.chunk_given_back);
        }
        for expected in [ZERO_CHUNKS_BEFORE_RELEASE, ZERO_CHUNKS_BEFORE_RELEASE * ZERO_OUTPUTS_BEFORE_RELEASE]
        {
            // SAFETY: inside; there is no other access now.
            unsafe { *arena.map.at(7, 1).unwrap() = 9 };
            assert_eq!(taken(&mut written, Owner::Chunk)[7], 9);
            assert_eq!(written.enough_for_chunk, expected);
            for round in 0..=expected {
                assert!(!written.chunk_given_back, "in round {round}");
                assert_eq!(taken(&mut written, Owner::Chunk), zeros);
            }
            assert!(written.chunk_given_back);
        }
    }
}
