//! Variable-length strings of an input in the worker's memory: the elements, followed by the strings that
//! they point to.
//!
//! The profile bounds their total size. The elements hold the addresses at which the worker sees the strings;
//! it never sees an address of this process.

use super::job::{SessionKey, Source, Strings};
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::profile::Profile;
use std::sync::Arc;

/// Size of an address in bytes.
const ADDRESS_BYTES: usize = size_of::<u64>();

/// Input as read. Instead of a string's address, the elements hold its offset in `strings`.
#[derive(Debug)]
pub struct VlenStrings {
    elements: Vec<u8>,
    /// Strings, each with its terminating zero. The first byte is the string for null.
    strings: Vec<u8>,
    /// Size of an element, and the offsets of addresses in it.
    size: usize,
    pointers: Vec<usize>,
    limit: u64,
}

impl VlenStrings {
    /// Allocates elements of `bytes` bytes in all. Elements and strings may have `limit` bytes together;
    /// `over` creates the error if they exceed it.
    ///
    /// # Errors
    /// `over`.
    pub fn new(datatype: &Datatype, bytes: u64, limit: u64, over: impl FnOnce() -> Error) -> Result<Self> {
        let mut elements = Vec::new();
        match usize::try_from(bytes) {
            Ok(length) if bytes < limit && elements.try_reserve_exact(length).is_ok() => {
                elements.resize(length, 0);
            }
            _ => return Err(over()),
        }
        Ok(VlenStrings {
            elements,
            strings: vec![0],
            size: datatype.size(),
            pointers: datatype.pointers(),
            limit,
        })
    }

    /// Returns the elements, one after another. The caller fills in all fields except strings.
    pub fn elements(&mut self) -> &mut [u8] {
        &mut self.elements
    }

    /// Adds the string whose address is at byte `place` of the elements.
    ///
    /// # Errors
    /// `over` if the total size would exceed the limit.
    pub fn put(&mut self, place: usize, text: &[u8], over: impl FnOnce() -> Error) -> Result<()> {
        let mut start = 0;
        if !text.is_empty() {
            start = self.strings.len();
            let bytes = self.bytes().saturating_add(text.len() as u64).saturating_add(1);
            if bytes > self.limit || self.strings.try_reserve(text.len().saturating_add(1)).is_err() {
                return Err(over());
            }
            self.strings.extend_from_slice(text);
            self.strings.push(0);
        }
        match self.elements.get_mut(place..).and_then(|e| e.get_mut(..ADDRESS_BYTES)) {
            Some(room) => room.copy_from_slice(&(start as u64).to_ne_bytes()),
            None => fail!(Worker, "the address of a string is outside its element"),
        }
        Ok(())
    }
}

impl Strings for VlenStrings {
    fn bytes(&self) -> u64 {
        (self.elements.len() as u64).saturating_add(self.strings.len() as u64)
    }

    fn place(&self, to: &mut [u8], at: u64) -> Result<()> {
        let length = self.elements.len();
        let room =
            to.split_at_mut_checked(length).and_then(|(e, s)| Some((e, s.get_mut(..self.strings.len())?)));
        let Some((elements, strings)) = room else {
            fail!(Worker, "the memory is too small for the strings")
        };
        elements.copy_from_slice(&self.elements);
        strings.copy_from_slice(&self.strings);
        let first = at.saturating_add(length as u64);
        for element in elements.chunks_exact_mut(self.size.max(1)) {
            for &pointer in &self.pointers {
                let Some(room) =
                    element.get_mut(pointer..).and_then(|e| e.first_chunk_mut::<ADDRESS_BYTES>())
                else {
                    fail!(Worker, "the address of a string is outside its element")
                };
                *room = first.saturating_add(u64::from_ne_bytes(*room)).to_ne_bytes();
            }
        }
        Ok(())
    }
}

/// Returns the maximum total size of elements and strings of inputs, which are copied in this process and in
/// shared memory.
pub fn limit(profile: &Profile) -> u64 {
    profile.limits.data.min(profile.limits.memory)
}

/// Returns the error for inputs whose strings exceed the limit.
pub fn too_large(profile: &Profile) -> Error {
    Error::new(
        ErrorKind::Limit,
        format!(
            "its strings need more memory than the limit of {} MiB (profile {}, `memory` and `data`)",
            limit(profile) >> 20,
            profile.name
        ),
    )
}

impl SessionKey {
    /// Returns the key with room for the strings of some inputs: each input's slot number, and its size in
    /// bytes. Sizes are rounded up, so that the next call may have the same.
    pub fn with_room(self: &Arc<Self>, inputs: impl IntoIterator<Item = (usize, u64)>) -> Arc<Self> {
        let mut key = Arc::clone(self);
        for (n, bytes) in inputs {
            if let Some(slot) = Arc::make_mut(&mut key).slots.get_mut(n) {
                slot.source = Source::Copied(bytes.checked_next_power_of_two().unwrap_or(u64::MAX));
            }
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over() -> Error {
        Error::new(ErrorKind::Limit, "over")
    }

    #[test]
    fn strings_lie_behind_their_elements() {
        let datatype = Datatype::parse("{n:int32,text:string(*)}").unwrap();
        let mut texts = VlenStrings::new(&datatype, 48, 100, over).unwrap();
        texts.elements()[0] = 7;
        texts.put(8, b"abc", over).unwrap();
        texts.put(24, b"", over).unwrap();
        texts.put(40, b"de", over).unwrap();
        let mut memory = vec![0xff; 64];
        texts.place(&mut memory, 1000).unwrap();
        let address = |n: usize| u64::from_ne_bytes(memory[n * 16 + 8..][..8].try_into().unwrap());
        assert_eq!((memory[0], address(0), address(1), address(2)), (7, 1049, 1048, 1053));
        assert_eq!(&memory[48..56], b"\0abc\0de\0");
        assert_eq!(texts.bytes(), 56);
        assert!(texts.place(&mut memory[..55], 0).is_err());
    }

    #[test]
    fn what_is_over_the_limit_is_refused() {
        let pointer = Datatype::Pointer;
        assert!(VlenStrings::new(&pointer, 80, 80, over).is_err());
        assert!(VlenStrings::new(&pointer, u64::MAX, u64::MAX, over).is_err());
        let mut texts = VlenStrings::new(&pointer, 8, 14, over).unwrap();
        assert!(texts.put(0, b"abcde", over).is_err());
        assert!(texts.put(0, b"abcd", over).is_ok());
        assert!(texts.put(1, b"", over).is_err(), "outside");
    }
}
