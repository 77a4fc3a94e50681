//! Shuffle (2): all first bytes of the elements, then all second bytes, and so on. Source: the comments of
//! HDF5's H5Zshuffle.c.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};

/// Shuffle codec. Its parameter is the size of an element; the bytes of an incomplete element stay at the
/// end.
#[derive(Debug)]
pub(super) struct Shuffle;

impl Codec for Shuffle {
    fn id(&self) -> u16 {
        2
    }

    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        unshuffle(input, context.room(output, input.len() as u64)?, element_size(context.parameters)?);
        Ok(())
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let size = match element_size(context.parameters) {
            // HDF5 sets no parameter for variable-length elements, and skips the filter then.
            Err(_) if context.optional => return Ok(EncodeOutcome::Refused),
            size => size?,
        };
        if size == 1 || input.len() / 2 < size {
            return Ok(EncodeOutcome::Same);
        }
        shuffle(input, context.room(output, input.len())?, size);
        Ok(EncodeOutcome::Written(input.len()))
    }

    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        let size = element_size(context.parameters)?;
        Ok((size == 1 || input.len() / 2 < size).then_some(input.len()))
    }

    fn encoded_size(&self, size: usize, _: &[u32]) -> Option<usize> {
        Some(size)
    }
}

fn element_size(parameters: &[u32]) -> Result<usize> {
    match parameters.first() {
        Some(size @ 1..) => Ok(usize::try_from(*size).unwrap_or(usize::MAX)),
        _ => Err(Error::new(
            ErrorKind::Filter,
            "the filter parameter for the size of an element is missing or 0",
        )),
    }
}

/// Unshuffles `from` to `to`, which has the same length.
pub(super) fn unshuffle(from: &[u8], to: &mut [u8], size: usize) {
    unshuffle_with(&mut Weaver::default(), from, to, size);
}

/// Unshuffles like [`unshuffle`], with reusable buffers.
pub(super) fn unshuffle_with(weaver: &mut Weaver, from: &[u8], to: &mut [u8], size: usize) {
    let count = from.len().checked_div(size).unwrap_or(0);
    if count < 2 {
        to.copy_from_slice(from);
        return;
    }
    let end = count.saturating_mul(size);
    let (planes, left) = from.split_at_checked(end).unwrap_or((from, &[]));
    let (elements, left_to) = to.split_at_mut_checked(end).unwrap_or_default();
    left_to.copy_from_slice(left);
    if count < MIN_BLOCKED_ELEMENTS {
        for (number, plane) in planes.chunks_exact(count).enumerate() {
            let bytes = elements.iter_mut().skip(number).step_by(size);
            bytes.zip(plane).for_each(|(to, from)| *to = *from);
        }
        return;
    }
    // Number of elements for which all bytes stay in the cache.
    let block = CACHE_BYTES.checked_div(size).unwrap_or(0).clamp(MIN_BLOCKED_ELEMENTS, BLOCK_ELEMENTS);
    let mut first = 0_usize;
    for elements in elements.chunks_mut(block.saturating_mul(size)) {
        let length = elements.len().checked_div(size).unwrap_or(0);
        weaver.block(&Planes { bytes: planes, count, first, length }, elements, size);
        first = first.wrapping_add(length);
    }
}

/// Shuffles `from` to `to`, which has the same length.
pub(super) fn shuffle(from: &[u8], to: &mut [u8], size: usize) {
    shuffle_with(&mut Weaver::default(), from, to, size);
}

/// Shuffles like [`shuffle`], with reusable buffers.
pub(super) fn shuffle_with(weaver: &mut Weaver, from: &[u8], to: &mut [u8], size: usize) {
    let count = from.len().checked_div(size).unwrap_or(0);
    if count < 2 {
        to.copy_from_slice(from);
        return;
    }
    let end = count.saturating_mul(size);
    let (elements, left) = from.split_at_checked(end).unwrap_or((from, &[]));
    let (planes, left_to) = to.split_at_mut_checked(end).unwrap_or_default();
    left_to.copy_from_slice(left);
    if count < MIN_BLOCKED_ELEMENTS {
        for (number, plane) in planes.chunks_exact_mut(count).enumerate() {
            let bytes = elements.iter().skip(number).step_by(size);
            plane.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
        return;
    }
    let block = CACHE_BYTES.checked_div(size).unwrap_or(0).clamp(MIN_BLOCKED_ELEMENTS, BLOCK_ELEMENTS);
    let mut first = 0_usize;
    for elements in elements.chunks(block.saturating_mul(size)) {
        let length = elements.len().checked_div(size).unwrap_or(0);
        weaver.unweave(elements, &mut PlanesMut { bytes: planes, count, first, length }, size);
        first = first.wrapping_add(length);
    }
}

/// Minimum number of elements for which blocks pay off.
const MIN_BLOCKED_ELEMENTS: usize = 16;
/// Maximum number of elements in a block.
pub(super) const BLOCK_ELEMENTS: usize = 512;
/// Approximate size in bytes of a block of large elements.
const CACHE_BYTES: usize = 1 << 15;

/// Byte planes: one byte of all elements, then the next byte.
#[derive(Debug)]
struct Planes<'a> {
    bytes: &'a [u8],
    count: usize,
    /// Start of the block in each plane, and its number of elements.
    first: usize,
    length: usize,
}

impl<'a> Planes<'a> {
    /// Returns the block's part of plane `number`.
    fn plane(&self, number: usize) -> &'a [u8] {
        let start = number.wrapping_mul(self.count).wrapping_add(self.first);
        self.bytes.get(start..start.wrapping_add(self.length)).unwrap_or_default()
    }

    /// Returns the block's parts of plane `number` and the following ones.
    fn planes<const N: usize>(&self, number: usize) -> [&'a [u8]; N] {
        std::array::from_fn(|next| self.plane(number.wrapping_add(next)))
    }
}

/// Mutable byte planes; see [`Planes`].
#[derive(Debug)]
struct PlanesMut<'a> {
    bytes: &'a mut [u8],
    count: usize,
    first: usize,
    length: usize,
}

impl PlanesMut<'_> {
    /// Returns the block's parts of plane `number` and the following ones.
    fn planes<const N: usize>(&mut self, number: usize) -> [&mut [u8]; N] {
        let start = number.wrapping_mul(self.count);
        let mut rest = self.bytes.get_mut(start..).unwrap_or_default();
        let block = self.first..self.first.wrapping_add(self.length);
        std::array::from_fn(|_| {
            let (plane, others) =
                std::mem::take(&mut rest).split_at_mut_checked(self.count).unwrap_or_default();
            rest = others;
            plane.get_mut(block.clone()).unwrap_or_default()
        })
    }
}

/// Interleaves planes: two become pairs, two rows of pairs become rows of four bytes, and so on. Compilers
/// vectorize each step, which takes bytes from two rows alternately, but not steps over more rows.
#[derive(Debug)]
pub(super) struct Weaver {
    twos: [[u8; 2 * BLOCK_ELEMENTS]; 2],
    fours: [[u8; 4 * BLOCK_ELEMENTS]; 2],
    eights: [u8; 8 * BLOCK_ELEMENTS],
}

impl Default for Weaver {
    fn default() -> Self {
        Self {
            twos: [[0; 2 * BLOCK_ELEMENTS]; 2],
            fours: [[0; 4 * BLOCK_ELEMENTS]; 2],
            eights: [0; 8 * BLOCK_ELEMENTS],
        }
    }
}

impl Weaver {
    /// Interleaves eight rows, each of at most `BLOCK_ELEMENTS` bytes.
    #[cfg(any(feature = "bitshuffle", feature = "blosc"))]
    pub(super) fn eight(&mut self, rows: [&[u8]; 8], to: &mut [u8]) {
        weave8(rows, to, &mut self.twos, &mut self.fours);
    }

    /// Deinterleaves to eight rows: the inverse of [`Weaver::eight`].
    #[cfg(any(feature = "bitshuffle", feature = "blosc"))]
    pub(super) fn split_eight(&mut self, from: &[u8], rows: [&mut [u8]; 8]) {
        unweave8(from, rows, &mut self.twos, &mut self.fours);
    }

    /// Deinterleaves elements to planes: the inverse of [`Weaver::block`].
    fn unweave(&mut self, elements: &[u8], planes: &mut PlanesMut<'_>, size: usize) {
        let Self { twos, fours, eights } = self;
        match size {
            2 => unweave2(elements, planes.planes(0)),
            4 => unweave4(elements, planes.planes(0), twos),
            8 => unweave8(elements, planes.planes(0), twos, fours),
            _ => {
                let mut done = 0_usize;
                while done < size {
                    let step = match size.wrapping_sub(done) {
                        8.. => {
                            let eights = gather::<8>(elements, eights, size, done);
                            unweave8(eights, planes.planes(done), twos, fours);
                            8
                        }
                        4.. => {
                            let fours = gather::<4>(elements, eights, size, done);
                            unweave4(fours, planes.planes(done), twos);
                            4
                        }
                        2.. => {
                            unweave2(gather::<2>(elements, eights, size, done), planes.planes(done));
                            2
                        }
                        _ => {
                            let [plane] = planes.planes(done);
                            gather::<1>(elements, plane, size, done);
                            1
                        }
                    };
                    done = done.wrapping_add(step);
                }
            }
        }
    }

    fn block(&mut self, planes: &Planes<'_>, elements: &mut [u8], size: usize) {
        let Self { twos, fours, eights } = self;
        match size {
            2 => weave2(planes.planes(0), elements),
            4 => weave4(planes.planes(0), elements, twos),
            8 => weave8(planes.planes(0), elements, twos, fours),
            _ => {
                let mut done = 0_usize;
                while done < size {
                    let step = match size.wrapping_sub(done) {
                        8.. => {
                            weave8(planes.planes(done), eights, twos, fours);
                            place::<8>(eights, elements, size, done)
                        }
                        4.. => {
                            weave4(planes.planes(done), eights, twos);
                            place::<4>(eights, elements, size, done)
                        }
                        2.. => {
                            weave2(planes.planes(done), eights);
                            place::<2>(eights, elements, size, done)
                        }
                        _ => place::<1>(planes.plane(done), elements, size, done),
                    };
                    done = done.wrapping_add(step);
                }
            }
        }
    }
}

/// Interleaves two rows.
// If inlined, it is not vectorized.
#[inline(never)]
fn weave2([even, odd]: [&[u8]; 2], to: &mut [u8]) {
    for ((to, even), odd) in to.as_chunks_mut().0.iter_mut().zip(even).zip(odd) {
        *to = [*even, *odd];
    }
}

fn weave4([a, b, c, d]: [&[u8]; 4], to: &mut [u8], [even, odd]: &mut [[u8; 2 * BLOCK_ELEMENTS]; 2]) {
    let even = start(even, a.len().wrapping_mul(2));
    let odd = start(odd, a.len().wrapping_mul(2));
    weave2([a, c], even);
    weave2([b, d], odd);
    weave2([even, odd], to);
}

fn weave8(
    [a, b, c, d, e, f, g, h]: [&[u8]; 8],
    to: &mut [u8],
    twos: &mut [[u8; 2 * BLOCK_ELEMENTS]; 2],
    [even, odd]: &mut [[u8; 4 * BLOCK_ELEMENTS]; 2],
) {
    let even = start(even, a.len().wrapping_mul(4));
    let odd = start(odd, a.len().wrapping_mul(4));
    weave4([a, c, e, g], even, twos);
    weave4([b, d, f, h], odd, twos);
    weave2([even, odd], to);
}

/// Deinterleaves to two rows.
// If inlined, or written with the bytes of the pair, it is not vectorized.
#[inline(never)]
#[expect(clippy::cast_possible_truncation, reason = "each byte of the pair has its turn")]
fn unweave2(from: &[u8], [even, odd]: [&mut [u8]; 2]) {
    for ((from, even), odd) in from.as_chunks().0.iter().zip(even).zip(odd) {
        let pair = u16::from_le_bytes(*from);
        *even = pair as u8;
        *odd = (pair >> 8) as u8;
    }
}

fn unweave4(from: &[u8], [a, b, c, d]: [&mut [u8]; 4], [even, odd]: &mut [[u8; 2 * BLOCK_ELEMENTS]; 2]) {
    let even = start(even, a.len().wrapping_mul(2));
    let odd = start(odd, a.len().wrapping_mul(2));
    unweave2(from, [even, odd]);
    unweave2(even, [a, c]);
    unweave2(odd, [b, d]);
}

fn unweave8(
    from: &[u8],
    [a, b, c, d, e, f, g, h]: [&mut [u8]; 8],
    twos: &mut [[u8; 2 * BLOCK_ELEMENTS]; 2],
    [even, odd]: &mut [[u8; 4 * BLOCK_ELEMENTS]; 2],
) {
    let even = start(even, a.len().wrapping_mul(4));
    let odd = start(odd, a.len().wrapping_mul(4));
    unweave2(from, [even, odd]);
    unweave4(even, [a, c, e, g], twos);
    unweave4(odd, [b, d, f, h], twos);
}

/// Gathers `N` bytes of each element, from byte `place` on, at the start of `to`; returns that part.
fn gather<'a, const N: usize>(elements: &[u8], to: &'a mut [u8], size: usize, place: usize) -> &'a [u8] {
    let mut length = 0_usize;
    for (element, to) in elements.chunks_exact(size).zip(to.as_chunks_mut::<N>().0) {
        if let Some(from) = element.get(place..).and_then(<[u8]>::first_chunk) {
            *to = *from;
        }
        length = length.wrapping_add(N);
    }
    to.get(..length).unwrap_or_default()
}

fn start(row: &mut [u8], length: usize) -> &mut [u8] {
    row.get_mut(..length).unwrap_or_default()
}

/// Scatters `N` bytes to each element, from byte `place` on. Returns `N`.
fn place<const N: usize>(from: &[u8], elements: &mut [u8], size: usize, place: usize) -> usize {
    for (element, from) in elements.chunks_exact_mut(size).zip(from.as_chunks::<N>().0) {
        if let Some(to) = element.get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
            *to = *from;
        }
    }
    N
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation, straight from the definition.
    fn shuffled(bytes: &[u8], size: usize) -> Vec<u8> {
        let count = bytes.len() / size;
        let planes = (0..size).flat_map(|plane| (0..count).map(move |element| element * size + plane));
        planes.chain(count * size..bytes.len()).map(|at| bytes[at]).collect()
    }

    #[test]
    fn every_size_and_remainder() {
        for size in (1..40).chain([255, 1000]) {
            for length in (0..70).chain([127, 128, 1023, 1024, 1025, 4096, 5000, 40_001]) {
                let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + i / 256) as u8).collect();
                let mut output = vec![9; 77];
                let stored = shuffled(&bytes, size);
                let context = Context { parameters: &[size as u32], expected: None, limit: length };
                Shuffle.decode_over(&stored, &mut output, &context).unwrap();
                assert_eq!(output, bytes, "{size} {length}");
                if let Some(kept) = Shuffle.kept(&stored, &context).unwrap() {
                    assert_eq!(stored[..kept], bytes, "{size} {length}");
                }
                let context = EncodeContext { parameters: &[size as u32], optional: true };
                let mut output = vec![9; 77];
                match Shuffle.encode(&bytes, &mut output, &context).unwrap() {
                    EncodeOutcome::Written(written) => {
                        assert_eq!(output[..written], stored, "{size} {length}")
                    }
                    EncodeOutcome::Same => assert_eq!(bytes, stored, "{size} {length}"),
                    EncodeOutcome::Refused => panic!("{size} {length}"),
                }
            }
        }
    }

    #[test]
    fn parameters_and_limit() {
        let mut output = Vec::new();
        for parameters in [&[][..], &[0]] {
            let context = Context { parameters, expected: None, limit: 100 };
            assert_eq!(Shuffle.decode(&[1, 2], &mut output, &context).unwrap_err().kind(), ErrorKind::Filter);
        }
        let context = Context { parameters: &[u32::MAX], expected: None, limit: 3 };
        assert_eq!(Shuffle.decode(&[0; 4], &mut output, &context).unwrap_err().kind(), ErrorKind::Limit);
        Shuffle.decode(&[0; 3], &mut output, &context).unwrap();
    }
}
