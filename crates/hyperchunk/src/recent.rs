//! Cache of recently used bytes with a bound.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Cache with two generations: `young` has the entries used since the last turn, `old` those used between the two last
/// turns. When the young entries fill half the bound, a turn evicts the old ones and makes the young ones old, so
/// eviction never searches.
#[derive(Debug)]
pub(crate) struct Recent<K> {
    young: HashMap<K, Arc<[u8]>>,
    old: HashMap<K, Arc<[u8]>>,
    young_bytes: usize,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 }
    }
}

impl<K: Hash + Eq + Copy> Recent<K> {
    /// Returns the bytes of a key; `bound` as for [`Recent::insert`].
    pub(crate) fn get(&mut self, key: &K, bound: usize) -> Option<Arc<[u8]>> {
        if let Some(found) = self.young.get(key) {
            return Some(Arc::clone(found));
        }
        let found = self.old.remove(key)?;
        self.insert(*key, Arc::clone(&found), bound);
        Some(found)
    }

    /// Inserts bytes; the cache holds at most `bound` bytes.
    pub(crate) fn insert(&mut self, key: K, bytes: Arc<[u8]>, bound: usize) {
        if self.young_bytes.saturating_add(bytes.len()) > bound / 2 {
            self.turn();
        }
        if bytes.len() > bound / 2 {
            return;
        }
        self.young_bytes += bytes.len();
        if let Some(before) = self.young.insert(key, bytes) {
            self.young_bytes -= before.len();
        }
    }

    /// Evicts an entry.
    pub(crate) fn remove(&mut self, key: &K) {
        self.old.remove(key);
        if let Some(bytes) = self.young.remove(key) {
            self.young_bytes -= bytes.len();
        }
    }

    /// Begins a new generation: evicts the old entries, and makes the young ones old.
    fn turn(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.young_bytes = 0;
    }

    /// Evicts everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound() {
        let mut recent = Recent::default();
        for key in 0..1000_u32 {
            recent.insert(key, vec![0; 10].into(), 200);
            // Entries in use stay.
            assert!(key < 5 || recent.get(&5, 200).is_some(), "{key}");
            let bytes: usize =
                recent.young.values().chain(recent.old.values()).map(|bytes| bytes.len()).sum();
            assert!(bytes <= 200, "{key}: {bytes}");
        }
        assert!(recent.get(&990, 200).is_some() && recent.get(&100, 200).is_none());
        let before = recent.young_bytes;
        assert!(recent.young.contains_key(&990));
        recent.remove(&990);
        assert!(recent.get(&990, 200).is_none() && recent.young_bytes == before - 10);
        recent.insert(7, vec![0; 101].into(), 200);
        assert!(recent.get(&7, 200).is_none(), "too large to keep");
    }
}
