//! Global heap collections: variable-length data, regions, mappings of virtual datasets. Source:
//! specification §III.E, "Disk Format: Level 1E - Global Heap".

/// Size of the header of a collection, and of an object.
const HEADER_BYTES: usize = 16;

/// Minimum size of a collection, according to the specification and libhdf5.
const MIN_COLLECTION_BYTES: usize = 4096;

/// Builder for a collection of the global heap.
#[derive(Debug, Clone)]
pub struct Builder {
    /// Size of the collection.
    size: usize,
    /// Objects added, without the collection's header.
    objects: Vec<u8>,
    /// Index of the last object; 0 in an empty collection.
    last: u16,
}

impl Builder {
    /// Creates an empty collection of `size` bytes: at least 4096, rounded up to a multiple of 8.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let size = size.max(MIN_COLLECTION_BYTES).checked_next_multiple_of(8).unwrap_or(usize::MAX & !7);
        Self { size, objects: Vec::new(), last: 0 }
    }

    /// Creates a builder that adds objects to a stored collection; the stored objects and their positions do
    /// not change. `None` if the bytes are not an intact collection, or if free space comes before an object.
    #[must_use]
    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let field = bytes.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
            field.and_then(|number| usize::try_from(number).ok())
        };
        if !bytes.starts_with(b"GCOL\x01") || number(8) != Some(bytes.len()) {
            return None;
        }
        let (mut at, mut last) = (HEADER_BYTES, 0);
        while bytes.len().saturating_sub(at) >= HEADER_BYTES {
            let index = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
            let size = number(at.saturating_add(8))?;
            if index == 0 {
                // The free space must extend to the end.
                if at.checked_add(size) != Some(bytes.len()) {
                    return None;
                }
                break;
            }
            last = index.max(last);
            at = at.checked_add(whole(size)).filter(|end| *end <= bytes.len())?;
        }
        let objects = bytes.get(HEADER_BYTES..at)?.to_vec();
        Some(Self { size: bytes.len(), objects, last })
    }

    /// Returns whether there is room for an object of `length` bytes.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        let end = self.objects.len().checked_add(whole(length));
        self.last < u16::MAX && end.is_some_and(|end| end <= self.size.saturating_sub(HEADER_BYTES))
    }

    /// Returns the size of the smallest collection that can hold one object of `length` bytes.
    #[must_use]
    pub fn size_for(length: usize) -> usize {
        whole(length).saturating_add(HEADER_BYTES).max(MIN_COLLECTION_BYTES)
    }

    /// Adds an object and returns its index; `None` if it does not fit.
    pub fn add(&mut self, data: &[u8]) -> Option<u16> {
        let end = self.objects.len().checked_add(whole(data.len()))?;
        if end > self.size.saturating_sub(HEADER_BYTES) {
            return None;
        }
        let index = self.last.checked_add(1)?;
        self.objects.extend_from_slice(&index.to_le_bytes());
        // Reference count: libhdf5 also writes 0 if references are not counted.
        self.objects.extend_from_slice(&[0; 6]);
        self.objects.extend_from_slice(&(data.len() as u64).to_le_bytes());
        self.objects.extend_from_slice(data);
        self.objects.resize(end, 0);
        self.last = index;
        Some(index)
    }

    /// Shrinks the collection to the minimum size for its objects.
    pub fn shrink(&mut self) {
        let needed = self.objects.len().saturating_add(HEADER_BYTES).max(MIN_COLLECTION_BYTES);
        self.size = needed.checked_next_multiple_of(8).unwrap_or(self.size).min(self.size);
    }

    /// True if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Returns the size of the collection in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Encodes the collection in exactly [`Builder::size`] bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size);
        bytes.extend_from_slice(b"GCOL\x01\0\0\0");
        bytes.extend_from_slice(&(self.size as u64).to_le_bytes());
        bytes.extend_from_slice(&self.objects);
        let free = self.size.saturating_sub(bytes.len());
        if free >= HEADER_BYTES {
            // Object 0 is the free space; its size includes its header.
            bytes.extend_from_slice(&[0; 8]);
            bytes.extend_from_slice(&(free as u64).to_le_bytes());
        }
        bytes.resize(self.size, 0);
        bytes
    }
}

/// Returns the space that an object of `length` bytes takes in a collection.
fn whole(length: usize) -> usize {
    length.checked_next_multiple_of(8).unwrap_or(usize::MAX).saturating_add(HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::global_heap::Collection;
    use crate::parse::testing::with_image;

    /// Fills a collection with these objects; returns the number that fit.
    fn check(size: usize, objects: &[Vec<u8>]) -> usize {
        let mut builder = Builder::new(size);
        let indexes: Vec<u16> = objects.iter().map_while(|data| builder.add(data)).collect();
        let bytes = builder.encode();
        assert_eq!(bytes.len(), builder.size());
        with_image(&bytes, |image| {
            let collection = Collection::open(image, 0).unwrap();
            assert_eq!(collection.size(), bytes.len());
            for (index, data) in indexes.iter().zip(objects) {
                assert_eq!(collection.object((*index).into()), Some(&data[..]));
            }
            assert_eq!(collection.object(indexes.len() as u32 + 1), None);
        });
        indexes.len()
    }

    #[test]
    fn objects_are_read_again() {
        assert_eq!(check(0, &[]), 0);
        assert_eq!(check(4096, &[b"hello".to_vec(), vec![], vec![7; 8], vec![1; 1000]]), 4);
        assert!(Builder::new(1).is_empty());
    }

    #[test]
    fn test_stored_collection_is_continued() {
        let mut first = Builder::new(4096);
        for length in [5, 0, 100] {
            first.add(&vec![1; length]).unwrap();
        }
        let old = first.encode();
        let mut next = Builder::from_stored(&old).unwrap();
        assert_eq!(next.encode(), old);
        assert!(next.has_room(3900) && !next.has_room(4000));
        assert_eq!(next.add(b"new"), Some(4));
        let new = next.encode();
        assert_eq!(new[16..16 + 160], old[16..16 + 160], "objects stay where they are");
        with_image(&new, |image| {
            let collection = Collection::open(image, 0).unwrap();
            assert_eq!(collection.object(4), Some(&b"new"[..]));
            assert_eq!(collection.object(3), Some(&[1; 100][..]));
        });
        // Full to the end, or with a rest that is too small for a header.
        for length in [4080 - 16, 4080 - 24] {
            let mut full = Builder::new(4096);
            full.add(&vec![1; length]).unwrap();
            assert!(!Builder::from_stored(&full.encode()).unwrap().has_room(0));
        }
        assert!(Builder::from_stored(&old[..4000]).is_none());
        assert!(Builder::from_stored(&[0; 4096]).is_none());
        let mut odd = old.clone();
        odd[16 + 160 + 8] = 16;
        odd[16 + 160 + 9] = 0;
        assert!(Builder::from_stored(&odd).is_none(), "objects behind the free space");
    }

    #[test]
    fn a_full_collection_takes_no_more() {
        // 24 bytes each: 170 in the 4080 after the header.
        assert_eq!(check(4096, &vec![vec![1; 3]; 1000]), 170);
        // The rest is too small for the header of free space.
        assert_eq!(check(4096, &[vec![1; 4056], vec![]]), 1);
        assert_eq!(check(4096, &[vec![1; 4064], vec![]]), 1);
        assert_eq!(check(4096, &[vec![1; 4065]]), 0);
        // Indexes have 16 bits.
        assert_eq!(check(2 << 20, &vec![vec![]; 70_000]), 65_535);
    }

    #[test]
    fn one_object_fits_in_its_collection() {
        for length in [0, 1, 4064, 4065, 5000, 1 << 20] {
            let size = Builder::size_for(length);
            assert_eq!(check(size, &[vec![3; length]]), 1, "{length}");
            assert!(size == 4096 || Builder::new(size - 8).add(&vec![3; length]).is_none());
        }
        assert_eq!(Builder::size_for(usize::MAX), usize::MAX);
    }
}
