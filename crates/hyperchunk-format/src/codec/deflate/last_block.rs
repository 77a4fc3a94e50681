//! Search for the last block of a raw deflate stream, without decompression: codes are only measured. Source:
//! RFC 1951, sections 3.2.3 to 3.2.7.

/// Number of bits by which the table of literals and lengths is indexed.
const SYMBOL_BITS: u32 = 10;
/// Number of bits by which the table of distances is indexed.
const DISTANCE_BITS: u32 = 9;
/// Maximum length of a code.
const MAX_CODE_BITS: u32 = 15;
/// Maximum size of a length and its distance, with their extra bits.
const MAX_MATCH_BITS: u32 = 15 + 5 + 15 + 13;
/// Number of bits that [`Bits::peek`] returns at least.
const PEEKED_BITS: u32 = 57;
/// Order in which the code lengths of the code length code are stored (section 3.2.7).
const LENGTH_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Positions in a raw deflate stream, in bits from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastBlock {
    /// Position of the last block's header, whose first bit is BFINAL.
    pub(super) header: usize,
    /// Position after the last block.
    pub(super) end: usize,
    /// Number of bytes to which the whole stream decompresses.
    pub(super) decoded: u64,
}

/// Finds the last block of a stream. Returns `None` if the stream is damaged, but does not detect all damage:
/// distances are not checked.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a bit decompresses to at most 258 bytes, and a stored one to less"
)]
pub(super) fn find(stream: &[u8]) -> Option<LastBlock> {
    // Positions up to one word after the stream are representable.
    stream.len().checked_add(16)?.checked_mul(8)?;
    let mut bits = Bits { stream, at: 0 };
    let mut decoded = 0;
    loop {
        let header = bits.at;
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => decoded += bits.skip_stored()?,
            1 => decoded += Tables::fixed()?.skip(&mut bits)?,
            2 => decoded += Tables::read(&mut bits)?.skip(&mut bits)?,
            _ => return None,
        }
        if is_last {
            return Some(LastBlock { header, end: bits.at, decoded });
        }
    }
}

/// Reader of bits, least significant first.
struct Bits<'a> {
    stream: &'a [u8],
    at: usize,
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "positions are at most two words after the stream, which `find` checks"
)]
impl Bits<'_> {
    /// Returns the next bits, at least [`PEEKED_BITS`]; those after the stream are zero. `None` at the end of
    /// the stream.
    #[inline]
    fn peek(&self) -> Option<u64> {
        let rest = self.stream.get(self.at / 8..)?;
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None if rest.is_empty() => return None,
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Some(word >> (self.at % 8))
    }

    /// Takes up to 32 bits.
    fn take(&mut self, count: u32) -> Option<u64> {
        let value = low_bits(self.peek()?, count);
        self.at += count as usize;
        (self.at <= self.stream.len() * 8).then_some(value)
    }

    /// Skips the content of a stored block (section 3.2.4); returns its length.
    fn skip_stored(&mut self) -> Option<u64> {
        self.at = self.at.next_multiple_of(8);
        let (length, complement) = (self.take(16)?, self.take(16)?);
        if length ^ complement != 0xffff {
            return None;
        }
        self.at += usize::try_from(length).ok()? * 8;
        (self.at <= self.stream.len() * 8).then_some(length)
    }
}

/// Returns the lowest `count` bits, up to 32.
#[expect(clippy::arithmetic_side_effects, reason = "the count is less than 64")]
#[inline]
fn low_bits(word: u64, count: u32) -> u64 {
    word & ((1 << count) - 1)
}

/// Returns the lowest `count` bits as an index of a table.
#[inline]
fn index(word: u64, count: u32) -> usize {
    usize::try_from(low_bits(word, count)).unwrap_or_default()
}

/// Returns an entry of a table.
#[inline]
fn entry_at(table: &[Entry; 1 << SYMBOL_BITS], index: usize) -> Entry {
    table.get(index).copied().unwrap_or(UNKNOWN)
}

/// A Huffman code (section 3.2.2): the number of codes of each length, and the symbols in the order of their
/// codes.
struct Code {
    counts: [usize; MAX_CODE_BITS as usize + 1],
    symbols: Vec<u16>,
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "codes have at most 16 bits, and there are at most 320 symbols"
)]
impl Code {
    /// Creates a code from the code length of each symbol, up to [`MAX_CODE_BITS`]. Returns `None` if the
    /// lengths need more codes than exist. There may be unused codes.
    fn new(lengths: &[u8]) -> Option<Self> {
        let mut counts = [0; MAX_CODE_BITS as usize + 1];
        for length in lengths {
            *counts.get_mut(usize::from(*length))? += 1;
        }
        counts[0] = 0;
        let mut free = 1;
        for count in &counts[1..] {
            free = usize::checked_sub(2 * free, *count)?;
        }
        let mut symbols: Vec<u16> =
            (0..).zip(lengths).filter(|pair| *pair.1 > 0).map(|pair| pair.0).collect();
        symbols.sort_by_key(|symbol| lengths.get(usize::from(*symbol)));
        Some(Self { counts, symbols })
    }

    /// Decodes a symbol; returns it and the length of its code. `None` for an unused code.
    fn symbol(&self, mut word: u64) -> Option<(u16, u32)> {
        // The first code of the current length, and the number of shorter codes.
        let (mut code, mut first, mut shorter) = (0, 0, 0);
        for (length, count) in (1..).zip(&self.counts[1..]) {
            code |= usize::try_from(word & 1).ok()?;
            word >>= 1;
            if code < first + count {
                return Some((*self.symbols.get(shorter + code - first)?, length));
            }
            shorter += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }

    /// Calls `with` with each symbol, the length of its code, and the code in the order of the stream's bits.
    fn each(&self, mut with: impl FnMut(u16, u32, u32)) {
        let mut symbols = self.symbols.iter();
        let mut code = 0_u32;
        for (length, count) in (1..).zip(&self.counts[1..]) {
            code <<= 1;
            for symbol in symbols.by_ref().take(*count) {
                with(*symbol, length, code.reverse_bits() >> (32 - length));
                code += 1;
            }
        }
    }
}

/// Meaning of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The code is longer than the table's index, unused, or invalid.
    Unknown,
    Literals,
    Match,
    EndOfBlock,
}

/// Symbols at the start of some bits: a literal, a length, or the end of the block, or literals before one of
/// them.
#[derive(Clone, Copy)]
struct Entry {
    /// Meaning of the last symbol.
    kind: Kind,
    /// Size of the codes, without the extra bits of the length.
    bits: u8,
    /// Number of bytes to which the symbols decompress, without the extra bits of the length.
    count: u16,
    /// Number of extra bits of the length.
    extra: u8,
}

const UNKNOWN: Entry = Entry { kind: Kind::Unknown, bits: 0, count: 0, extra: 0 };

#[expect(clippy::arithmetic_side_effects, reason = "symbols are in the ranges of their arms")]
impl Entry {
    /// Creates the entry for one symbol (section 3.2.5).
    fn new(symbol: u16, bits: u32) -> Self {
        let Ok(bits) = u8::try_from(bits) else { return UNKNOWN };
        let (kind, count, extra) = match symbol {
            0..=255 => (Kind::Literals, 1, 0),
            256 => (Kind::EndOfBlock, 0, 0),
            // Groups of four symbols have the same number of extra bits.
            257..=264 => (Kind::Match, symbol - 254, 0),
            265..=284 => {
                let extra = (symbol - 261) / 4;
                (Kind::Match, 3 + ((4 + (symbol - 261) % 4) << extra), extra)
            }
            285 => (Kind::Match, 258, 0),
            _ => return UNKNOWN,
        };
        u8::try_from(extra).map_or(UNKNOWN, |extra| Self { kind, bits, count, extra })
    }
}

/// Returns the size of a distance whose code has `bits` bits, with its extra bits (section 3.2.5).
#[expect(clippy::arithmetic_side_effects, reason = "a code has at most 15 bits, a distance 13 more")]
fn distance_bits(symbol: u16, bits: u32) -> Option<u32> {
    match symbol {
        0..=1 => Some(bits),
        2..=29 => Some(bits + u32::from(symbol) / 2 - 1),
        _ => None,
    }
}

/// Codes of a block.
struct Tables {
    symbols: Code,
    distances: Code,
    /// Entry for each value of the next [`SYMBOL_BITS`] bits. One entry has as many literals as fit.
    symbol_table: [Entry; 1 << SYMBOL_BITS],
    /// Size of the distance, with extra bits, for each value of the next [`DISTANCE_BITS`] bits; 0 if
    /// unknown.
    distance_table: [u8; 1 << DISTANCE_BITS],
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "codes have at most 48 bits, and a bit decompresses to at most 258 bytes"
)]
impl Tables {
    fn new(symbol_lengths: &[u8], distance_lengths: &[u8]) -> Option<Self> {
        let (symbols, distances) = (Code::new(symbol_lengths)?, Code::new(distance_lengths)?);
        let mut symbol_table = [UNKNOWN; 1 << SYMBOL_BITS];
        symbols.each(|symbol, bits, code| {
            if bits <= SYMBOL_BITS {
                let places = symbol_table.iter_mut().skip(code as usize).step_by(1 << bits);
                places.for_each(|place| *place = Entry::new(symbol, bits));
            }
        });
        // Downwards, so that entries of smaller indices are still single symbols.
        for index in (0..symbol_table.len()).rev() {
            let mut entry = entry_at(&symbol_table, index);
            while entry.kind == Kind::Literals {
                let next = entry_at(&symbol_table, index >> entry.bits);
                let bits = entry.bits + next.bits;
                if next.kind == Kind::Unknown || u32::from(bits) > SYMBOL_BITS {
                    break;
                }
                entry = Entry { bits, count: entry.count + next.count, ..next };
            }
            if let Some(place) = symbol_table.get_mut(index) {
                *place = entry;
            }
        }
        let mut distance_table = [0; 1 << DISTANCE_BITS];
        distances.each(|symbol, bits, code| {
            let size = distance_bits(symbol, bits).and_then(|size| u8::try_from(size).ok());
            if bits <= DISTANCE_BITS {
                let places = distance_table.iter_mut().skip(code as usize).step_by(1 << bits);
                places.for_each(|place| *place = size.unwrap_or(0));
            }
        });
        Some(Self { symbols, distances, symbol_table, distance_table })
    }

    /// Returns the codes of a block with fixed codes (section 3.2.6).
    fn fixed() -> Option<Self> {
        let mut lengths = [8; 288];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        Self::new(&lengths, &[5; 30])
    }

    /// Reads the codes at the start of a block with dynamic codes (section 3.2.7).
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let mut number = |size| usize::try_from(bits.take(size)?).ok();
        let (symbols, distances, stored) = (number(5)? + 257, number(5)? + 1, number(4)? + 4);
        let mut lengths = [0; LENGTH_ORDER.len()];
        for index in LENGTH_ORDER.iter().take(stored) {
            *lengths.get_mut(*index)? = u8::try_from(bits.take(3)?).ok()?;
        }
        let code = Code::new(&lengths)?;
        let mut lengths: Vec<u8> = Vec::with_capacity(symbols + distances);
        while lengths.len() < symbols + distances {
            let (symbol, size) = code.symbol(bits.peek()?)?;
            bits.take(size)?;
            let (value, count) = match symbol {
                0..=15 => (u8::try_from(symbol).ok()?, 1),
                16 => (*lengths.last()?, 3 + bits.take(2)?),
                17 => (0, 3 + bits.take(3)?),
                _ => (0, 11 + bits.take(7)?),
            };
            lengths.extend((0..count).map(|_| value));
        }
        // A repetition must not go past the end.
        let (symbol_lengths, distance_lengths) = lengths.split_at_checked(symbols)?;
        (distance_lengths.len() == distances).then_some(())?;
        Self::new(symbol_lengths, distance_lengths)
    }

    /// Skips symbols up to the end of the block; returns the number of bytes to which they decompress.
    fn skip(&self, bits: &mut Bits<'_>) -> Option<u64> {
        let mut decoded = 0;
        let mut at = bits.at;
        loop {
            bits.at = at;
            let mut word = bits.peek()?;
            let mut left = PEEKED_BITS;
            // Words are read anew only if the next code may be incomplete.
            while left >= MAX_CODE_BITS {
                let mut entry = entry_at(&self.symbol_table, index(word, SYMBOL_BITS));
                if entry.kind == Kind::Unknown {
                    let (symbol, size) = self.symbols.symbol(word)?;
                    entry = Entry::new(symbol, size);
                }
                let size = u32::from(entry.bits);
                match entry.kind {
                    Kind::Literals => {}
                    Kind::Match if left < MAX_MATCH_BITS => break,
                    Kind::Match => {
                        let extra = u32::from(entry.extra);
                        decoded += u64::from(entry.count) + low_bits(word >> size, extra);
                        at += (size + extra) as usize + self.distance(word >> (size + extra))?;
                        break;
                    }
                    Kind::EndOfBlock => {
                        bits.at = at + size as usize;
                        decoded += u64::from(entry.count);
                        return (bits.at <= bits.stream.len() * 8).then_some(decoded);
                    }
                    Kind::Unknown => return None,
                }
                decoded += u64::from(entry.count);
                at += size as usize;
                word >>= size;
                left -= size;
            }
        }
    }

    /// Returns the size of a distance with its extra bits.
    #[inline]
    fn distance(&self, word: u64) -> Option<usize> {
        match self.distance_table.get(index(word, DISTANCE_BITS)) {
            None | Some(0) => {
                let (symbol, bits) = self.distances.symbol(word)?;
                distance_bits(symbol, bits).map(|size| size as usize)
            }
            Some(size) => Some(usize::from(*size)),
        }
    }
}
