//! Which bytes of the file are whose.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Gives out the file's bytes. Nearly always this is one addition; space that was given back is used again first.
#[derive(Debug)]
pub(super) struct Space {
    next: AtomicU64,
    any_free: AtomicBool,
    free: Mutex<Free>,
    /// Whether what was given back is used again.
    reused: bool,
}

#[derive(Debug, Default)]
struct Free {
    /// By length, what may be used again.
    now: BTreeMap<u64, Vec<u64>>,
    /// What the last commit still leads to: free after the next one.
    later: Vec<(u64, u64)>,
}

impl Space {
    pub(super) fn new(first: u64, reused: bool) -> Self {
        Self { next: AtomicU64::new(first), any_free: AtomicBool::new(false), free: Mutex::default(), reused }
    }

    /// Where the file ends so far.
    pub(super) fn end(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Takes `length` bytes at a multiple of `alignment`. Second, the gap that was left before them.
    pub(super) fn take(&self, length: u64, alignment: u64) -> (u64, u64) {
        let alignment = alignment.max(1);
        if self.any_free.load(Ordering::Acquire) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(start) = free.take(length, alignment) {
                return (start, 0);
            }
        }
        if alignment == 1 {
            return (self.next.fetch_add(length, Ordering::AcqRel), 0);
        }
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let start = next.next_multiple_of(alignment);
            match self.next.compare_exchange_weak(next, start + length, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (start, start - next),
                Err(now) => next = now,
            }
        }
    }

    /// Gives back the last bytes of the file; `false` if they are not the last.
    pub(super) fn undo(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        self.next.compare_exchange(end, start, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives bytes back: to be used at once, or after the next commit.
    pub(super) fn give_back(&self, start: u64, length: u64, committed: bool) {
        if length == 0 || !self.reused {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if committed {
            free.later.push((start, length));
        } else {
            free.now.entry(length).or_default().push(start);
            self.any_free.store(true, Ordering::Release);
        }
    }

    /// What was given back until now is not in the commit that begins.
    pub(super) fn commit_begins(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner).later)
    }

    /// The commit is done: nothing leads to what was unused when it began any more.
    pub(super) fn committed(&self, unused: Vec<(u64, u64)>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        for (start, length) in unused {
            free.now.entry(length).or_default().push(start);
            self.any_free.store(true, Ordering::Release);
        }
    }
}

impl Free {
    /// From the smallest free piece that fits; what is left of it stays free.
    fn take(&mut self, length: u64, alignment: u64) -> Option<u64> {
        let (size, start) = self.now.range(length..).find_map(|(size, starts)| {
            let start = starts.iter().copied().find(|start| start.is_multiple_of(alignment))?;
            Some((*size, start))
        })?;
        let starts = self.now.get_mut(&size)?;
        starts.retain(|other| *other != start);
        if starts.is_empty() {
            self.now.remove(&size);
        }
        if size > length {
            self.now.entry(size - length).or_default().push(start + length);
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_used_again() {
        let space = Space::new(100, true);
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
    }
}
