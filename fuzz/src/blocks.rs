//! Where the structures of a file lie and which of them carry a checksum, found without parsing: damage must not hide them.

use hyperchunk_format::checksum::lookup3;

/// Structures are looked for by these.
const SIGNATURES: [&[u8; 4]; 21] = [
    b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"FHIB", b"FSHD", b"FSSE",
    b"BTHD", b"BTLF", b"BTIN", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB", b"SMTB",
];
/// As [`SIGNATURES`], of what is rare.
const RARE: [&[u8; 4]; 2] = [b"SMLI", b"MDCI"];
/// The signature of a file.
const FILE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// A block whose length nothing tells is not looked at beyond this.
const MAX_BLOCK_BYTES: usize = 12 << 10;
/// How many blocks of unknown length are looked at.
const MAX_UNKNOWN_BLOCKS: usize = 600;

/// Bytes that carry their own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// Where the checksum is: at the end, or inside, where it counts as zeros.
    pub sum: usize,
}

impl Block {
    /// The checksum that it should have.
    fn computed(&self, file: &[u8]) -> Option<u32> {
        let bytes = file.get(self.start..self.end)?;
        if self.sum + 4 == self.end {
            return Some(lookup3(&bytes[..bytes.len() - 4]));
        }
        let mut bytes = bytes.to_vec();
        bytes.get_mut(self.sum - self.start..)?.get_mut(..4)?.fill(0);
        Some(lookup3(&bytes))
    }

    fn is_right(&self, file: &[u8]) -> bool {
        let stored = file
            .get(self.sum..self.sum + 4)
            .map(|sum| u32::from_le_bytes(sum.try_into().unwrap_or_default()));
        stored.is_some() && stored == self.computed(file)
    }

    /// Makes the checksum right.
    pub fn repair(&self, file: &mut [u8]) {
        if let Some(sum) = self.computed(file) {
            file[self.sum..self.sum + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// What is known of a file.
#[derive(Debug, Default)]
pub struct Map {
    /// Where its superblock is.
    pub base: usize,
    /// The width of addresses.
    pub width: usize,
    /// The structures, by their first byte.
    pub starts: Vec<usize>,
    /// Those with a checksum, shortest first.
    pub blocks: Vec<Block>,
    /// Where the address of a structure is stored.
    pub slots: Vec<usize>,
}

impl Map {
    /// Looks through a file. `others` are structures without a signature (object headers of version 1).
    #[must_use]
    pub fn new(file: &[u8], others: &[usize]) -> Self {
        let base = superblock(file);
        let (width, length) = sizes(file, base);
        let mut map = Self { base, width, ..Self::default() };
        map.starts.push(base);
        map.starts.extend(others.iter().copied().filter(|start| *start < file.len()));
        let mut unknown = 0;
        let pages = page_sizes(file, width);
        for at in 0..file.len().saturating_sub(4) {
            let four: &[u8; 4] = match file[at..at + 4].try_into() {
                Ok(four) => four,
                Err(_) => break,
            };
            if !SIGNATURES.contains(&four) && !RARE.contains(&four) {
                continue;
            }
            map.starts.push(at);
            match four {
                b"TREE" | b"SNOD" | b"HEAP" => {}
                b"GCOL" => map.blocks.extend(heap_objects(file, at, length)),
                b"OHDR" => map.blocks.extend(header(file, at).filter(|block| block.is_right(file))),
                b"FHDB" => map.blocks.extend(direct_block(file, at, width)),
                _ if unknown < MAX_UNKNOWN_BLOCKS => {
                    unknown += 1;
                    let found = by_length(file, at);
                    map.blocks.extend(found);
                    if let (Some(block), b"FADB" | b"EADB") = (found, four) {
                        map.blocks.extend(following_pages(file, block.end, &pages));
                    }
                }
                _ => {}
            }
        }
        if matches!(file.get(base + 8), Some(2 | 3)) {
            let end = base + 12 + 4 * width + 4;
            map.blocks.extend(
                [Block { start: base, end, sum: end - 4 }].iter().filter(|block| block.is_right(file)),
            );
        }
        map.starts.sort_unstable();
        map.starts.dedup();
        map.blocks.sort_by_key(|block| (block.end - block.start, block.start));
        map.slots = map.find_slots(file);
        map
    }

    /// The address of a structure as it is stored.
    #[must_use]
    pub fn address(&self, start: usize) -> u64 {
        start.saturating_sub(self.base) as u64
    }

    fn find_slots(&self, file: &[u8]) -> Vec<usize> {
        if !(2..=8).contains(&self.width) {
            return Vec::new();
        }
        let known: std::collections::HashSet<u64> =
            self.starts.iter().map(|start| self.address(*start)).filter(|address| *address != 0).collect();
        let windows = file.windows(self.width).enumerate();
        windows.filter(|(_, bytes)| known.contains(&number(bytes))).map(|(at, _)| at).take(20_000).collect()
    }

    /// Makes the checksums of `file` right, which was made from `seed`, wherever they belong to what was changed. Headers whose
    /// length was changed get one at their new end, too.
    pub fn repair(&self, file: &mut [u8], seed: &[u8]) {
        for block in &self.blocks {
            if file.get(block.start..block.end) != seed.get(block.start..block.end) {
                block.repair(file);
            }
        }
        for start in self.starts.iter().filter(|start| seed.get(**start..**start + 4) == Some(b"OHDR")) {
            let Some(block) = header(file, *start) else { continue };
            if file.get(block.start..block.end) != seed.get(block.start..block.end) && !block.is_right(file) {
                block.repair(file);
            }
        }
    }
}

/// A little-endian number of up to 8 bytes.
#[must_use]
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Where the superblock is; 0 if nowhere.
fn superblock(file: &[u8]) -> usize {
    let places = std::iter::once(0).chain((9..30).map(|bits| 1 << bits));
    places.take_while(|at| *at < file.len()).find(|at| file[*at..].starts_with(FILE)).unwrap_or(0)
}

/// The widths of addresses and lengths.
fn sizes(file: &[u8], base: usize) -> (usize, usize) {
    let at = if file.get(base + 8).is_some_and(|version| *version >= 2) { base + 9 } else { base + 13 };
    let size = |at: usize| {
        file.get(at).copied().filter(|size| matches!(size, 2 | 4 | 8 | 16)).map_or(8, usize::from)
    };
    (size(at), size(at + 1))
}

/// The first block of an object header of version 2.
fn header(file: &[u8], start: usize) -> Option<Block> {
    let flags = *file.get(start + 5)?;
    let mut at = start + 6;
    at += if flags & 0x20 != 0 { 16 } else { 0 };
    at += if flags & 0x10 != 0 { 4 } else { 0 };
    let width = 1 << (flags & 3);
    let length = usize::try_from(number(file.get(at..at + width)?)).ok()?;
    let sum = (at + width).checked_add(length)?;
    let end = sum.checked_add(4).filter(|end| *end <= file.len())?;
    Some(Block { start, end, sum })
}

/// A block whose checksum is at its end, wherever that is.
fn by_length(file: &[u8], start: usize) -> Option<Block> {
    let longest = file.len().min(start + MAX_BLOCK_BYTES);
    (start + 12..=longest).map(|end| Block { start, end, sum: end - 4 }).find(|block| block.is_right(file))
}

/// A direct block of a fractal heap: its size is a power of two, its checksum is behind its offset in the heap.
fn direct_block(file: &[u8], start: usize, width: usize) -> Option<Block> {
    let sizes = (6..21).map(|bits| start + (1_usize << bits)).take_while(|end| *end <= file.len());
    let blocks = sizes
        .flat_map(|end| (1..=8).map(move |offset| Block { start, end, sum: start + 5 + width + offset }));
    blocks.filter(|block| block.sum + 4 < block.end).find(|block| block.is_right(file))
}

/// Objects of a global heap that carry a checksum: mappings of virtual datasets.
fn heap_objects(file: &[u8], start: usize, width: usize) -> Vec<Block> {
    let header = (8 + width).next_multiple_of(8);
    let mut at = start + header;
    let mut blocks = Vec::new();
    while let Some(bytes) = file.get(at..at + header) {
        let size = usize::try_from(number(&bytes[8..8 + width.min(8)])).unwrap_or(usize::MAX);
        let Some(end) = (at + header).checked_add(size).filter(|end| size > 0 && *end <= file.len()) else {
            break;
        };
        if number(&bytes[..2]) == 0 {
            break;
        }
        if size >= 8 {
            let block = Block { start: at + header, end, sum: end - 4 };
            blocks.extend([block].iter().filter(|block| block.is_right(file)));
        }
        at = end.next_multiple_of(8);
    }
    blocks
}

/// How many bytes a page of an array of chunks may have, by the headers in the file.
fn page_sizes(file: &[u8], width: usize) -> Vec<usize> {
    let headers = file.windows(12).filter(|bytes| bytes.starts_with(b"FAHD") || bytes.starts_with(b"EAHD"));
    let mut sizes: Vec<usize> = headers
        .filter_map(|bytes| {
            let bits = if bytes.starts_with(b"FAHD") { bytes[7] } else { bytes[11] };
            let elements = 1_usize.checked_shl(bits.into()).filter(|elements| *elements <= 1 << 16)?;
            Some(elements * usize::from(bytes[6]).max(width) + 4)
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The pages behind the prefix of a data block.
fn following_pages(file: &[u8], start: usize, sizes: &[usize]) -> Vec<Block> {
    let page = |start: usize, size: usize| {
        let block = Block { start, end: start + size, sum: start + size - 4 };
        Some(block).filter(|block| block.is_right(file))
    };
    let Some(size) = sizes.iter().find(|size| page(start, **size).is_some()) else { return Vec::new() };
    (0..).map_while(|number| page(start + number * size, *size)).collect()
}
