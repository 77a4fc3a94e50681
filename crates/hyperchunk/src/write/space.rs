//! Allocator of space in the file.

pub(super) use super::free_list::Use;
use super::free_list::{FreeList, FreeRanges};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Allocator of space in the file. Freed space is used first; without any, an allocation is one atomic
/// addition.
#[derive(Debug)]
pub(super) struct Space {
    next: AtomicU64,
    any_free: AtomicBool,
    free: Mutex<FreeList>,
    /// Highest end of freed space; allocated bytes from there on were never written before.
    freed_end: AtomicU64,
    readers: Mutex<Readers>,
    /// Signalled when readers are admitted again.
    admitted: Condvar,
    /// Freed space that was reused since the last commit.
    reused_since: Arc<Ranges>,
    /// True to reuse freed space.
    reused: bool,
    /// True if no space is freed from now on.
    kept: AtomicBool,
    /// File offset of address 0. Alignments are relative to the start of the file.
    base: u64,
    /// Size of a page, if the file is paged.
    page: Option<u64>,
}

/// Reads in progress, which may use freed space and structures that are replaced in place.
#[derive(Debug, Default)]
struct Readers {
    /// Number of reads in progress, by the number of commits before they began.
    active: BTreeMap<u64, usize>,
    /// Number of commits by this writer.
    commits: u64,
    /// True while no read may begin.
    excluded: bool,
}

/// Guard that excludes readers until it is dropped.
#[derive(Debug)]
pub(super) struct Exclusion<'a>(&'a Space);

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        self.0.readers().excluded = false;
        self.0.admitted.notify_all();
    }
}

/// Disjoint ranges of bytes, shared by threads.
#[derive(Debug, Default)]
pub(super) struct Ranges(Mutex<FreeRanges>);

impl Ranges {
    fn list(&self) -> MutexGuard<'_, FreeRanges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the ranges include all bytes of a range.
    pub(super) fn contain(&self, start: u64, length: u64) -> bool {
        self.list().contain(start, length)
    }

    /// Removes all ranges.
    pub(super) fn clear(&self) {
        *self.list() = FreeRanges::default();
    }
}

/// Saved state of the allocator.
#[derive(Debug)]
pub(super) struct SpaceState {
    next: u64,
    free: FreeList,
}

impl Space {
    pub(super) fn new(first: u64, reused: bool, base: u64) -> Self {
        let (next, any_free) = (AtomicU64::new(first), AtomicBool::new(false));
        Self {
            next,
            any_free,
            free: Mutex::default(),
            freed_end: AtomicU64::new(0),
            readers: Mutex::default(),
            admitted: Condvar::new(),
            reused_since: Arc::default(),
            reused,
            kept: AtomicBool::new(false),
            base,
            page: None,
        }
    }

    /// Divides the space into pages, as libhdf5's paged aggregation does: data and structure are in separate
    /// pages, an allocation smaller than a page is within one page, and larger ones begin at a page.
    pub(super) fn in_pages(self, size: u64) -> Self {
        let end = self.end().next_multiple_of(size);
        self.next.store(end, Ordering::Release);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).use_pages(size);
        self.any_free.store(true, Ordering::Release);
        Self { page: Some(size), ..self }
    }

    /// Returns the size of a page, if the file is paged.
    pub(super) fn page(&self) -> Option<u64> {
        self.page
    }

    /// Rounds an address up so that its file offset is a multiple of `alignment`.
    fn aligned(&self, address: u64, alignment: u64) -> u64 {
        (address + self.base).next_multiple_of(alignment) - self.base
    }

    /// Returns the current end of the file.
    pub(super) fn end(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Allocates `length` bytes of data at a multiple of `alignment`. Returns their start, and the size of
    /// the gap before them.
    pub(super) fn take(&self, length: u64, alignment: u64) -> (u64, u64) {
        self.take_for(Use::Data, length, alignment)
    }

    /// Allocates `length` bytes for a use, as [`Space::take`].
    pub(super) fn take_for(&self, kind: Use, length: u64, alignment: u64) -> (u64, u64) {
        let alignment = alignment.max(1);
        if self.page.is_some() {
            return (self.take_in_pages(kind, length, alignment), 0);
        }
        if self.any_free.load(Ordering::Acquire) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(start) = free.take(length, |start| self.aligned(start, alignment)) {
                drop(free);
                if !self.reused_since.contain(start, length) {
                    self.reused_since.list().add(start, length);
                }
                return (start, 0);
            }
        }
        if alignment == 1 {
            return (self.next.fetch_add(length, Ordering::AcqRel), 0);
        }
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let start = self.aligned(next, alignment);
            match self.next.compare_exchange_weak(next, start + length, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (start, start - next),
                Err(now) => next = now,
            }
        }
    }

    fn take_in_pages(&self, kind: Use, length: u64, alignment: u64) -> u64 {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let aligned = |start: u64, alignment: u64| self.aligned(start, alignment);
        let end = self.end();
        let (start, new_end) = free.take_in_pages((kind, length, alignment), end, aligned);
        self.next.store(new_end, Ordering::Release);
        drop(free);
        if start < end && !self.reused_since.contain(start, length) {
            self.reused_since.list().add(start, length);
        }
        start
    }

    /// Returns the freed space that was reused since the last commit. An edit may write to it directly. The
    /// commit clears it.
    pub(super) fn reused_since_commit(&self) -> Arc<Ranges> {
        Arc::clone(&self.reused_since)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current state of the allocator.
    pub(super) fn state(&self) -> SpaceState {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        SpaceState { next: self.end(), free: free.clone() }
    }

    /// Restores an earlier state: undoes all allocations and frees since.
    pub(super) fn restore(&self, state: SpaceState) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // Bytes up to the current end may have been written in the meantime.
        self.freed_end.fetch_max(self.end(), Ordering::AcqRel);
        self.next.store(state.next, Ordering::Release);
        *free = state.free;
        self.any_free.store(free.has_any(), Ordering::Release);
    }

    /// Disables freeing, as readers may use all space that was ever written.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }

    /// Returns whether freeing is disabled.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Returns whether space that begins at `start` was never written, so that a hole there reads as zeros.
    pub(super) fn is_fresh(&self, start: u64) -> bool {
        start >= self.freed_end.load(Ordering::Acquire)
    }

    /// Allocates `length` bytes at the end of the file.
    pub(super) fn take_at_end(&self, length: u64) -> u64 {
        self.next.fetch_add(length, Ordering::AcqRel)
    }

    /// Undoes the allocation of the last bytes of the file; returns false if they are not the last.
    pub(super) fn undo(&self, start: u64, length: u64) -> bool {
        if self.page.is_some() {
            return false;
        }
        let end = start.saturating_add(length);
        self.next.compare_exchange(end, start, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Frees bytes; if `committed`, after the next commit.
    pub(super) fn give_back(&self, start: u64, length: u64, committed: bool) {
        if length == 0 || !self.reused || self.is_kept() {
            return;
        }
        self.freed_end.fetch_max(start.saturating_add(length), Ordering::AcqRel);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if committed || self.is_read() {
            free.later.push((start, length));
        } else {
            free.free(start, length);
            self.any_free.store(true, Ordering::Release);
        }
    }

    /// Moves the end of the file back to the last used byte.
    pub(super) fn trim(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((start, length)) = free.last().filter(|(start, length)| self.undo(*start, *length)) {
            free.remove(start, length);
        }
    }

    /// Returns the freed space that a commit no longer uses. Called when the commit begins.
    pub(super) fn commit_begins(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner).later)
    }

    /// Records that a read begins. Space that is freed from now on is not reused before the read has ended
    /// and a commit has followed. Waits while readers are excluded. Returns a number to be passed to
    /// [`Space::read_ends`].
    pub(super) fn read_begins(&self) -> u64 {
        let mut readers = self.readers();
        while readers.excluded {
            readers = self.admitted.wait(readers).unwrap_or_else(PoisonError::into_inner);
        }
        let commits = readers.commits;
        *readers.active.entry(commits).or_default() += 1;
        commits
    }

    /// Records that a read has ended.
    pub(super) fn read_ends(&self, begun: u64) {
        let mut readers = self.readers();
        if let Some(count) = readers.active.get_mut(&begun) {
            *count -= 1;
            if *count == 0 {
                readers.active.remove(&begun);
            }
        }
    }

    /// Prevents reads from beginning; returns `None` if one is in progress.
    pub(super) fn exclude_readers(&self) -> Option<Exclusion<'_>> {
        let mut readers = self.readers();
        if !readers.active.is_empty() {
            return None;
        }
        readers.excluded = true;
        drop(readers);
        Some(Exclusion(self))
    }

    fn is_read(&self) -> bool {
        !self.readers().active.is_empty()
    }

    /// Frees the space that was unused when a commit began, unless a read may still use it. Called when the
    /// commit is complete.
    pub(super) fn committed(&self, unused: Vec<(u64, u64)>) {
        let (commits, oldest) = {
            let mut readers = self.readers();
            readers.commits += 1;
            (readers.commits, readers.active.keys().next().copied().unwrap_or(u64::MAX))
        };
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.read.extend(unused.into_iter().map(|piece| (commits, piece)));
        let (freed, read): (Vec<_>, Vec<_>) =
            std::mem::take(&mut free.read).into_iter().partition(|(after, _)| *after <= oldest);
        free.read = read;
        for (_, (start, length)) in freed {
            self.freed_end.fetch_max(start.saturating_add(length), Ordering::AcqRel);
            free.free(start, length);
            self.any_free.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_space_waits_for_readers() {
        let space = Space::new(100, true, 0);
        let (first, _) = space.take(50, 1);
        space.take(50, 1);
        let read = space.read_begins();
        space.give_back(first, 50, false);
        assert_ne!(space.take(50, 1).0, first, "it may be read still");
        let unused = space.commit_begins();
        space.committed(unused);
        assert_ne!(space.take(50, 1).0, first, "still");
        // A read that began after the commit does not refer to it.
        let later = space.read_begins();
        space.read_ends(read);
        assert_ne!(space.take(50, 1).0, first, "free after the next commit");
        let unused = space.commit_begins();
        space.committed(unused);
        assert_eq!(space.take(50, 1).0, first);
        space.read_ends(later);
        assert!(!space.is_read());
    }

    #[test]
    fn freed_space_is_not_fresh() {
        let space = Space::new(100, true, 0);
        let (start, _) = space.take(50, 1);
        assert!(space.is_fresh(start));
        space.give_back(start, 50, false);
        space.trim();
        let (again, _) = space.take(20, 1);
        assert!(again == start && !space.is_fresh(again), "trimmed, but written before");
        let (beyond, _) = space.take(50, 1);
        assert!(!space.is_fresh(beyond));
        let (new, _) = space.take(1, 1);
        assert!(new >= 150 || !space.is_fresh(new));
    }

    #[test]
    fn test_reused_space_is_known_until_it_is_cleared() {
        let space = Space::new(100, true, 0);
        let (start, _) = space.take(50, 1);
        let reused = space.reused_since_commit();
        assert!(!reused.contain(start, 50), "it is new");
        space.give_back(start, 50, false);
        let (first, _) = space.take(20, 1);
        let (second, _) = space.take(20, 1);
        assert!(reused.contain(first, 20) && reused.contain(second, 20) && reused.contain(first, 40));
        assert!(!reused.contain(first, 41) && !reused.contain(first - 1, 2));
        reused.clear();
        assert!(!reused.contain(first, 1));
    }

    #[test]
    fn test_readers_are_excluded_unless_one_reads() {
        let space = Space::new(100, true, 0);
        let read = space.read_begins();
        assert!(space.exclude_readers().is_none());
        space.read_ends(read);
        let excluded = space.exclude_readers().unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| space.read_begins());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!reader.is_finished());
            drop(excluded);
        });
        assert!(space.is_read());
    }

    #[test]
    fn space_is_used_again() {
        let space = Space::new(100, true, 0);
        assert_eq!(space.take(50, 1), (100, 0));
        assert_eq!(space.take(10, 64), (192, 42));
        space.give_back(100, 50, false);
        assert_eq!(space.take(20, 1), (100, 0));
        assert_eq!(space.take(31, 1), (202, 0), "only 30 are left there");
        assert_eq!(space.take(30, 1), (120, 0));
        space.give_back(192, 10, true);
        assert_eq!(space.take(10, 1), (233, 0), "the last commit leads there");
        let unused = space.commit_begins();
        space.committed(unused);
        assert_eq!(space.take(10, 1), (192, 0));
        assert_eq!(space.end(), 243);
        // Neighbours are merged in any order.
        for start in [10, 30, 20] {
            space.give_back(start, 10, false);
        }
        assert_eq!(space.take(30, 1), (10, 0));
        space.give_back(10, 30, false);
        assert_eq!(space.take(8, 16), (16, 0));
        assert_eq!(space.take(16, 1), (24, 0));
        assert_eq!(space.take(6, 1), (10, 0));
        assert_eq!(space.take(1, 1), (243, 0));
        // Free space at the end is dropped; free space before it is kept.
        space.give_back(10, 20, false);
        space.give_back(243, 1, false);
        space.trim();
        assert_eq!(space.end(), 243);
        space.trim();
        assert_eq!(space.end(), 243);
        assert_eq!(space.take(20, 1), (10, 0));
        assert_eq!(space.take(5, 1), (243, 0));
        let behind = Space::new(100, false, 512);
        assert_eq!(behind.take(10, 512), (512, 412));
        behind.give_back(512, 10, false);
        assert_eq!(behind.take(10, 1), (522, 0), "never used again");
    }
}
