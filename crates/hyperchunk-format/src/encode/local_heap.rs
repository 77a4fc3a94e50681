//! Local heaps of names. Source: specification §III.D, "Disk Format: Level 1D - Local Heaps".

use super::{Bytes, UNDEFINED};
use crate::{Error, Result};

const NAME: &str = "local heap";
/// Size of the prefix: signature, version, size of the data, head of the free list, address of the data.
const PREFIX_BYTES: u64 = 32;
/// Value of the free list's head if there is no free block.
const NO_FREE_BLOCK: u64 = 1;
/// Alignment of names.
const ALIGNMENT_BYTES: usize = 8;

/// Encoded local heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalHeap {
    /// Bytes of the heap: the prefix, then the data.
    pub bytes: Vec<u8>,
    /// Offset of each name in the data, never 0.
    pub offsets: Vec<u64>,
}

/// Encodes a heap of these names at `base`.
///
/// # Errors
/// Invalid if a name has a NUL, or the heap exceeds the address range.
pub fn encode(names: &[&[u8]], base: u64) -> Result<LocalHeap> {
    // The empty name, at 0.
    let mut data = Bytes::new();
    data.zeros(ALIGNMENT_BYTES);
    let mut offsets = Vec::with_capacity(names.len());
    for name in names {
        if name.contains(&0) {
            let message = format!("the name `{}` contains a NUL", name.escape_ascii());
            return Err(Error::invalid(message).within(NAME));
        }
        offsets.push(data.len() as u64);
        data.raw(name).u8(0).align(ALIGNMENT_BYTES);
    }
    let address = base.checked_add(PREFIX_BYTES).filter(|address| *address != UNDEFINED);
    let address = address.ok_or_else(|| Error::invalid("the heap ends beyond 2^64 - 1").within(NAME))?;
    let mut bytes = Bytes::new();
    bytes.raw(b"HEAP").u8(0).zeros(3).u64(data.len() as u64).u64(NO_FREE_BLOCK).u64(address);
    bytes.raw(data.as_slice());
    Ok(LocalHeap { bytes: bytes.into_vec(), offsets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::testing::with_image;

    #[test]
    fn what_is_written_is_read() {
        let names: [&[u8]; 4] = [b"a", b"seven77", b"eight888", &[b'x'; 1000]];
        for count in 0..names.len() {
            let heap = encode(&names[..count], 100).unwrap();
            let mut file = vec![0; 100];
            file.extend(heap.bytes);
            with_image(&file, |image| {
                let found = parse::local_heap::LocalHeap::open(image, 100).unwrap();
                assert_eq!(found.name(0).unwrap(), b"");
                for (name, offset) in names.iter().zip(&heap.offsets) {
                    assert_eq!(found.name(*offset).unwrap(), *name);
                }
            });
        }
        assert!(encode(&[b"a\0b"], 0).is_err());
        assert!(encode(&[], u64::MAX - 32).is_err());
    }
}
