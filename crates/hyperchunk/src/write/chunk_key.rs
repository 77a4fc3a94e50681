//! Scaled coordinates of a chunk as a hash key.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Maximum number of dimensions that are stored inline.
const MAX_INLINE_RANK: usize = 4;

/// Scaled coordinates of a chunk. Those of few dimensions need no allocation.
#[derive(Debug, Clone)]
pub(super) enum Key {
    Few(u8, [u64; MAX_INLINE_RANK]),
    Many(Box<[u64]>),
}

impl Key {
    pub(super) fn new(rank: usize, numbers: impl Iterator<Item = u64>) -> Self {
        match u8::try_from(rank) {
            Ok(count) if rank <= MAX_INLINE_RANK => {
                let mut few = [0; MAX_INLINE_RANK];
                few.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
                Self::Few(count, few)
            }
            _ => Self::Many(numbers.collect()),
        }
    }
}

impl From<&[u64]> for Key {
    fn from(numbers: &[u64]) -> Self {
        Self::new(numbers.len(), numbers.iter().copied())
    }
}

impl Deref for Key {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Few(count, few) => few.get(..usize::from(*count)).unwrap_or(few),
            Self::Many(many) => many,
        }
    }
}

// Enables look-ups by slice.
impl Borrow<[u64]> for Key {
    fn borrow(&self) -> &[u64] {
        self
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_hash::FxHashMap;

    #[test]
    fn numbers_are_found() {
        let mut all = FxHashMap::default();
        for rank in 1..7 {
            let numbers: Vec<u64> = (1..=rank).collect();
            let key = Key::from(&numbers[..]);
            assert_eq!(&*key, &numbers[..]);
            assert_eq!(matches!(key, Key::Few(..)), rank <= 4);
            all.insert(key, rank);
        }
        assert_eq!((all.get(&[1, 2][..]), all.get(&[1, 2, 3, 4, 5][..])), (Some(&2), Some(&5)));
        assert_eq!((all.get(&[1, 3][..]), all.get(&[1, 2, 0][..])), (None, None));
    }
}
