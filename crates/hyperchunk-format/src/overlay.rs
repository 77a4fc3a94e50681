//! View with patches: replaces bytes of a file by the metadata that its writer stored in a cache image.

use crate::{Result, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// View of a file in which some bytes are replaced.
#[derive(Clone)]
pub struct Overlay<V> {
    under: V,
    /// Patches by start; they do not overlap.
    patches: BTreeMap<u64, Vec<u8>>,
}

impl<V> std::fmt::Debug for Overlay<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").field("patches", &self.patches.len()).finish_non_exhaustive()
    }
}

impl<V: View> Overlay<V> {
    /// Creates a view of `under` with the bytes of `patches`, each at its absolute offset. They must not
    /// overlap.
    #[must_use]
    pub fn new(under: V, patches: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        Self { under, patches: patches.into_iter().collect() }
    }

    /// Returns the view without the patches.
    pub fn under(&self) -> &V {
        &self.under
    }

    /// Iterates over the patches that touch a range, with their offsets.
    fn touching(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let before = self.patches.range(..range.start).next_back();
        let inside = self.patches.range(range.clone());
        before
            .filter(move |(start, patch)| start.saturating_add(patch.len() as u64) > range.start)
            .into_iter()
            .chain(inside)
            .map(|(start, patch)| (*start, patch.as_slice()))
    }
}

impl<V: View> View for Overlay<V> {
    fn size(&self) -> u64 {
        self.under.size()
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = offset.saturating_add(length as u64);
        let mut touching = self.touching(offset..end).peekable();
        if let Some((start, patch)) = touching.peek() {
            let from = offset.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
            let whole = from.and_then(|from| patch.get(from..)?.get(..length));
            if let Some(bytes) = whole {
                return Ok(Cow::Borrowed(bytes));
            }
        }
        let bytes = self.under.bytes(offset, length)?;
        if touching.peek().is_none() {
            return Ok(bytes);
        }
        let mut bytes = bytes.into_owned();
        for (start, patch) in touching {
            let to = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
            let from = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            let places = bytes.get_mut(to..).unwrap_or_default().iter_mut();
            places.zip(patch.get(from..).unwrap_or_default()).for_each(|(place, byte)| *place = *byte);
        }
        Ok(Cow::Owned(bytes))
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        self.under.will_need(ranges);
    }

    fn will_look_at(&self, offset: u64) {
        self.under.will_look_at(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_win() {
        let file: &[u8] = b"0123456789";
        let patches = [(2, b"ab".to_vec()), (6, b"cde".to_vec())];
        let overlay = Overlay::new(file, patches);
        let whole = b"01ab45cde9";
        for start in 0..10_usize {
            for end in start..=10 {
                let bytes = overlay.bytes(start as u64, end - start).unwrap();
                assert_eq!(*bytes, whole[start..end], "{start}..{end}");
            }
        }
        assert!(matches!(overlay.bytes(6, 3), Ok(Cow::Borrowed(b"cde"))));
        assert!(matches!(overlay.bytes(0, 2), Ok(Cow::Borrowed(b"01"))));
        assert!(overlay.bytes(9, 2).is_err());
    }
}
