//! What a function has written to the memory that it shares with its host, and what it has not.

use super::layout::{PAGE, Region};
use crate::memory::Shared;
use std::mem::MaybeUninit;

/// Bytes that are copied at a time, and cleared while they are in a near cache.
const PIECE: usize = 32 << 10;
/// Bytes that are looked at for whether anything was written: they and zeros to compare them with are in the nearest cache.
const LOOK: usize = 8 << 10;
static ZEROS: [u8; LOOK] = [0; LOOK];
/// After so many outputs in a row without anything in them, their memory is given back, and from then on the kernel tells whether
/// there is any: looking takes as long as copying. Giving back and taking again takes as long as ten looks, so this is waited for
/// so many times longer after each time that it was for nothing.
const NOTHING: u32 = 8;

/// What is known of an output.
#[derive(Debug)]
pub(super) struct Written {
    /// Outputs in a row with nothing but zeros.
    nothing: u32,
    /// So many are enough.
    enough: u32,
    /// Its memory was given back since it was last written.
    given_back: bool,
}

impl Default for Written {
    fn default() -> Self {
        Written { nothing: 0, enough: NOTHING, given_back: false }
    }
}

impl Written {
    /// Fills `to` from an output, from byte `from` on, and clears what was taken.
    pub(super) fn take(
        &mut self,
        arena: &Shared,
        region: &Region,
        from: u64,
        to: &mut [MaybeUninit<u8>],
    ) -> Option<()> {
        let bytes = to.len() as u64;
        let inside = from.checked_add(bytes)? <= region.bytes;
        let offset = region.offset.checked_add(from)?;
        let pointer = arena.map.at(offset, bytes).filter(|_| inside)?;
        if self.is_untouched(arena, offset, bytes) {
            to.fill(MaybeUninit::new(0));
            return Some(());
        }
        // SAFETY: at() has checked the range, which is not the caller's memory, and the worker is idle.
        if unsafe { take(pointer, to) } {
            self.nothing = 0;
        } else if bytes == region.bytes {
            self.nothing = self.nothing.saturating_add(1);
            // The rest of the last page is its own as well.
            let pages = region.bytes.next_multiple_of(PAGE);
            self.given_back = self.nothing >= self.enough && arena.give_back(region.offset, pages);
        }
        Some(())
    }

    /// Clears all of an output.
    pub(super) fn clear(&mut self, arena: &Shared, region: &Region) {
        if self.is_untouched(arena, region.offset, region.bytes) {
            return;
        }
        if let Some(pointer) = arena.map.at(region.offset, region.bytes) {
            // SAFETY: inside the arena; nobody runs now.
            unsafe { std::ptr::write_bytes(pointer, 0, usize::try_from(region.bytes).unwrap_or(0)) };
        }
    }

    /// Whether nothing of it was written since it was given back.
    fn is_untouched(&mut self, arena: &Shared, offset: u64, bytes: u64) -> bool {
        let untouched = self.given_back && arena.is_untouched(offset, bytes);
        if self.given_back && !untouched {
            *self = Written { nothing: 0, enough: self.enough.saturating_mul(NOTHING), given_back: false };
        }
        untouched
    }
}

/// Copies what is there, clears it, and returns whether there was anything.
///
/// # Safety
/// So many bytes can be read and written there, and are not those of `to`. If somebody else writes them at the same time, what comes of
/// it are zeros or what was copied.
unsafe fn take(source: *mut u8, to: &mut [MaybeUninit<u8>]) -> bool {
    let (mut done, mut any) = (0, false);
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: inside, by the caller's promise; nothing is longer than the zeros that it is compared with.
        unsafe {
            let source = source.add(done);
            let looked = rest.len().min(LOOK);
            // What a function has not written need neither be copied nor cleared.
            if libc::memcmp(source.cast_const().cast(), ZEROS.as_ptr().cast(), looked) == 0 {
                std::ptr::write_bytes(rest.as_mut_ptr(), 0, looked);
                done += looked;
            } else {
                let copied = rest.len().min(PIECE);
                std::ptr::copy_nonoverlapping(source.cast_const(), rest.as_mut_ptr().cast(), copied);
                std::ptr::write_bytes(source, 0, copied);
                done += copied;
                any = true;
            }
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Map;
    use std::os::fd::AsFd as _;

    const BYTES: u64 = 3 * PAGE + 500;

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// An output between two others, and the worker's view of it.
    struct Scene {
        arena: Shared,
        worker: Map,
        region: Region,
        written: Written,
        /// What the worker has written and nobody has taken.
        left: Vec<u8>,
    }

    impl Scene {
        fn new() -> Self {
            let arena = Shared::new(8 * PAGE, true).unwrap();
            let worker = Map::new(arena.fd.as_fd(), 8 * PAGE, true).unwrap();
            let region = Region { segment: 0, offset: PAGE, bytes: BYTES, output: true };
            let scene =
                Scene { arena, worker, region, written: Written::default(), left: vec![0; index(BYTES)] };
            scene.neighbours().into_iter().for_each(|at| scene.put(at, 77));
            scene
        }

        fn neighbours(&self) -> [u64; 2] {
            [PAGE - 1, self.region.offset + BYTES.next_multiple_of(PAGE)]
        }

        fn put(&self, at: u64, value: u8) {
            // SAFETY: inside; nobody else looks now.
            unsafe { *self.worker.at(at, 1).unwrap() = value };
        }

        fn write(&mut self, at: u64, value: u8) {
            self.put(self.region.offset + at, value);
            self.left[index(at)] = value;
        }

        /// Takes a part, which is what the worker wrote there, and zeros from then on.
        fn check(&mut self, from: u64, bytes: u64) {
            let mut to = vec![MaybeUninit::new(0x55_u8); index(bytes)];
            self.written.take(&self.arena, &self.region, from, &mut to).unwrap();
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
        for at in [0, 1, PAGE - 1, PAGE, 2 * PAGE + 7, 3 * PAGE, BYTES - 1] {
            let mut scene = Scene::new();
            for round in 0..300_u64 {
                if round % 30 == 29 {
                    scene.write(at, 9);
                }
                scene.check(0, BYTES);
            }
        }
    }

    #[test]
    fn parts_are_taken_as_the_whole_is() {
        let mut scene = Scene::new();
        for round in 0..100_u64 {
            for from in [0, 100, PAGE, 3 * PAGE] {
                if round % 7 == 6 {
                    scene.write(from, 3);
                }
                scene.check(from, 100);
            }
            scene.check(0, BYTES);
        }
        assert!(
            scene
                .written
                .take(&scene.arena, &scene.region, 1, &mut vec![MaybeUninit::new(0); index(BYTES)])
                .is_none()
        );
        assert!(
            scene.written.take(&scene.arena, &scene.region, u64::MAX, &mut [MaybeUninit::new(0)]).is_none()
        );
    }

    #[test]
    fn memory_is_given_back_after_some_outputs_of_nothing() {
        let mut scene = Scene::new();
        let pages = |scene: &Scene| !scene.arena.is_untouched(scene.region.offset, BYTES);
        scene.write(5, 1);
        for _ in 0..NOTHING {
            assert!(!scene.written.given_back);
            scene.check(0, BYTES);
        }
        assert!(!scene.written.given_back && pages(&scene));
        scene.check(0, BYTES);
        assert!(scene.written.given_back && !pages(&scene));
        scene.written.clear(&scene.arena, &scene.region);
        assert!(!pages(&scene));
        // Zeros that were written are a reason to wait longer the next time.
        scene.write(5, 0);
        for _ in 0..NOTHING * NOTHING {
            assert_eq!(scene.written.given_back, scene.written.enough == NOTHING);
            scene.check(0, BYTES);
        }
        assert!(scene.written.given_back && !pages(&scene));
    }

    #[test]
    fn what_nobody_takes_is_cleared() {
        let mut scene = Scene::new();
        for round in 0..40 {
            if round % 20 > 12 {
                scene.write(PAGE, 8);
                scene.written.clear(&scene.arena, &scene.region);
                scene.left.fill(0);
            }
            scene.check(0, BYTES);
        }
    }
}
