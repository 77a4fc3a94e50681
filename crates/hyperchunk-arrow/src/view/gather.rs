//! Extraction of members from many compounds.

use hyperchunk::{Result, room};

/// Number of bytes of compounds that are processed for all members at once, so that they fit into the
/// processor's cache.
const BLOCK_BYTES: usize = 128 << 10;

/// A part of each row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The offset in a row.
    pub(super) offset: usize,
    /// The size in bytes. Offset and size together do not exceed a row.
    pub(super) width: usize,
}

/// Copies members out of the rows of `stored`, which have `row` bytes each; returns the contiguous values of
/// each member.
///
/// # Errors
/// Limit if there is no memory.
pub(super) fn gather(stored: &[u8], row: usize, parts: &[Member]) -> Result<Vec<Vec<u8>>> {
    let rows = stored.len().checked_div(row).unwrap_or(0);
    let new = |part: &Member| room::zeros(rows.saturating_mul(part.width));
    let mut outs: Vec<Vec<u8>> = parts.iter().map(new).collect::<Result<_>>()?;
    let step = (BLOCK_BYTES / row.max(1)).max(1);
    for (number, block) in stored.chunks(step.saturating_mul(row).max(1)).enumerate() {
        for (out, part) in outs.iter_mut().zip(parts) {
            let first = number * step * part.width;
            if let Some(out) = out.get_mut(first..) {
                move_part(block, row, *part, out);
            }
        }
    }
    Ok(outs)
}

fn move_part(block: &[u8], row: usize, part: Member, out: &mut [u8]) {
    match part.width {
        0 => {}
        1 => move_sized::<1>(block, row, part.offset, out),
        2 => move_sized::<2>(block, row, part.offset, out),
        4 => move_sized::<4>(block, row, part.offset, out),
        8 => move_sized::<8>(block, row, part.offset, out),
        16 => move_sized::<16>(block, row, part.offset, out),
        width => {
            for (from, to) in block.chunks_exact(row).zip(out.chunks_exact_mut(width)) {
                if let Some(from) = from.get(part.offset..part.offset + width) {
                    to.copy_from_slice(from);
                }
            }
        }
    }
}

fn move_sized<const N: usize>(block: &[u8], row: usize, offset: usize, out: &mut [u8]) {
    let (places, _) = out.as_chunks_mut::<N>();
    for (from, to) in block.chunks_exact(row).zip(places) {
        if let Some(from) = from.get(offset..).and_then(<[u8]>::first_chunk::<N>) {
            *to = *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width() {
        for row in [1_usize, 5, 16, 33] {
            let rows = 3 * BLOCK_BYTES / row / 2 + 1;
            let stored: Vec<u8> = (0..rows * row).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let parts: Vec<Member> =
                [(0, 1), (0, 0), (1, 2), (1, 4), (2, 8), (3, 3), (0, 16), (17, 16), (0, row)]
                    .into_iter()
                    .filter(|(offset, width)| offset + width <= row)
                    .map(|(offset, width)| Member { offset, width })
                    .collect();
            for (out, part) in gather(&stored, row, &parts).unwrap().into_iter().zip(&parts) {
                let expected: Vec<u8> = stored
                    .chunks_exact(row)
                    .flat_map(|row| &row[part.offset..part.offset + part.width])
                    .copied()
                    .collect();
                assert!(out == expected, "{row} {part:?}");
            }
        }
        assert_eq!(gather(&[], 4, &[Member { offset: 0, width: 4 }]).unwrap(), [Vec::<u8>::new()]);
    }
}
