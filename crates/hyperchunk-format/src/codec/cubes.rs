//! Small transpositions of bits and bytes, which shuffles are made of.

/// How many bytes of each plane make a tile: a line of cache.
pub(super) const WIDTH: usize = 64;

/// Eight rows of words: 8 × 8 × 8 bits, eight times.
pub(super) type Cubes = [[u64; WIDTH / 8]; 8];

/// Up to `WIDTH` bytes as words.
#[inline]
pub(super) fn load(bytes: &[u8], words: &mut [u64; WIDTH / 8]) {
    let mut padded = [0; WIDTH];
    let row: &[u8; WIDTH] = match bytes.try_into() {
        Ok(row) => row,
        Err(_) => {
            padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            &padded
        }
    };
    for (word, bytes) in words.iter_mut().zip(row.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
}

/// Exchanges two axes of cubes: the number of the row, and the place within a word in steps of `STEP` bits: those of a bit
/// in its byte (1) or of a byte in its word (8).
#[inline(never)]
#[expect(
    clippy::indexing_slicing,
    reason = "the arrays have eight rows of eight; iterators are not made vectors of"
)]
pub(super) fn swap<const STEP: u32>(cubes: &mut Cubes) {
    let [near, far, farthest]: [u64; 3] = match STEP {
        1 => [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0f0f_0f0f_0f0f_0f0f],
        _ => [0x00ff_00ff_00ff_00ff, 0x0000_ffff_0000_ffff, 0x0000_0000_ffff_ffff],
    };
    let exchange = |a: &mut u64, b: &mut u64, shift: u32, mask: u64| {
        let differ = ((*a >> shift) ^ *b) & mask;
        *b ^= differ;
        *a ^= differ << shift;
    };
    let (once, twice, four_times) = const { (STEP, STEP * 2, STEP * 4) };
    for lane in 0..WIDTH / 8 {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = [
            cubes[0][lane],
            cubes[1][lane],
            cubes[2][lane],
            cubes[3][lane],
            cubes[4][lane],
            cubes[5][lane],
            cubes[6][lane],
            cubes[7][lane],
        ];
        exchange(&mut a, &mut b, once, near);
        exchange(&mut c, &mut d, once, near);
        exchange(&mut e, &mut f, once, near);
        exchange(&mut g, &mut h, once, near);
        exchange(&mut a, &mut c, twice, far);
        exchange(&mut b, &mut d, twice, far);
        exchange(&mut e, &mut g, twice, far);
        exchange(&mut f, &mut h, twice, far);
        exchange(&mut a, &mut e, four_times, farthest);
        exchange(&mut b, &mut f, four_times, farthest);
        exchange(&mut c, &mut g, four_times, farthest);
        exchange(&mut d, &mut h, four_times, farthest);
        for (row, word) in cubes.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            row[lane] = word;
        }
    }
}
