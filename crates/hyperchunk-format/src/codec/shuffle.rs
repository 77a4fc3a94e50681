//! Shuffle (2): the first bytes of all elements, then the second bytes, and so on. Source: the comments of HDF5's H5Zshuffle.c.

use super::cubes::{Cubes, WIDTH, load, swap};
use super::{Codec, Context};
use crate::{Error, ErrorKind, Result};

/// The codec. Its parameter is the size of an element; bytes that make no whole element stay at the end.
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
        if input.len() > context.limit {
            return Err(Error::limit(format!("more than {} bytes", context.limit)));
        }
        output.resize(input.len(), 0);
        unshuffle(input, output, element_size(context)?);
        Ok(())
    }

    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        let size = element_size(context)?;
        Ok((size == 1 || input.len() / 2 < size).then_some(input.len()))
    }

    fn encoded_size(&self, size: usize, _: &[u32]) -> Option<usize> {
        Some(size)
    }
}

fn element_size(context: &Context<'_>) -> Result<usize> {
    match context.parameters.first() {
        Some(size @ 1..) => Ok(usize::try_from(*size).unwrap_or(usize::MAX)),
        _ => Err(Error::new(ErrorKind::Filter, "its parameter, the size of an element, is missing or 0")),
    }
}

/// Undoes the shuffling of `from` in `to`, which is as long.
pub(super) fn unshuffle(from: &[u8], to: &mut [u8], size: usize) {
    let count = from.len().checked_div(size).unwrap_or(0);
    if count < 2 {
        to.copy_from_slice(from);
        return;
    }
    let planes_end = count.saturating_mul(size);
    let (planes, left) = from.split_at_checked(planes_end).unwrap_or((from, &[]));
    let (elements, left_to) = to.split_at_mut_checked(planes_end).unwrap_or_default();
    left_to.copy_from_slice(left);
    match size {
        2 => two(planes, elements),
        4 => four(planes, elements),
        _ => any(planes, elements, size),
    }
}

fn two(planes: &[u8], elements: &mut [u8]) {
    let (a, b) = planes.split_at_checked(planes.len() / 2).unwrap_or_default();
    for ((element, a), b) in elements.as_chunks_mut().0.iter_mut().zip(a).zip(b) {
        *element = [*a, *b];
    }
}

fn four(planes: &[u8], elements: &mut [u8]) {
    let (ab, cd) = planes.split_at_checked(planes.len() / 2).unwrap_or_default();
    let (a, b) = ab.split_at_checked(ab.len() / 2).unwrap_or_default();
    let (c, d) = cd.split_at_checked(cd.len() / 2).unwrap_or_default();
    for ((((element, a), b), c), d) in elements.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *element = [*a, *b, *c, *d];
    }
}

/// Elements of any size, eight planes of a tile at a time.
fn any(planes: &[u8], elements: &mut [u8], size: usize) {
    let count = planes.len().checked_div(size).unwrap_or(0);
    for (start, out) in (0..count).step_by(WIDTH).zip(elements.chunks_mut(size.saturating_mul(WIDTH))) {
        let end = start.saturating_add(WIDTH).min(count);
        // Words with fewer planes write into the element behind theirs, so they come first.
        let (eights, rest) =
            planes.split_at_checked(count.saturating_mul(size & !7)).unwrap_or((planes, &[]));
        let groups = eights.chunks_exact(count.saturating_mul(8)).enumerate();
        let rest = std::iter::once((size >> 3, rest)).filter(|(_, planes)| !planes.is_empty());
        for (eighth, planes) in rest.chain(groups) {
            let mut cubes = Cubes::default();
            for (to, plane) in cubes.iter_mut().zip(planes.chunks_exact(count)) {
                load(plane.get(start..end).unwrap_or_default(), to);
            }
            swap::<8>(&mut cubes);
            let mut at = eighth.saturating_mul(8);
            for lane in 0..WIDTH / 8 {
                for words in &cubes {
                    if let (Some(to), Some(word)) = (out.get_mut(at..), words.get(lane)) {
                        put(word.to_le_bytes(), to);
                    }
                    at = at.wrapping_add(size);
                }
            }
        }
    }
}

/// Writes eight bytes, or what there is room for.
#[inline]
fn put(bytes: [u8; 8], to: &mut [u8]) {
    match to.first_chunk_mut() {
        Some(to) => *to = bytes,
        None => to.iter_mut().zip(bytes).for_each(|(to, from)| *to = from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the definition has it.
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
