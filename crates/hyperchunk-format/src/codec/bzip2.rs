//! bzip2 (307): one stream a chunk. Source: the format's description in bzip2's manual. The parameter, the
//! size of a block in units of 100,000 bytes, is only used for encoding.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};
use bzip2::{Action, Compress, Compression, Decompress, Status};

/// Minimum growth of the buffer if the size is unknown.
const MIN_GROWTH_BYTES: usize = 1 << 16;
/// Default size of a block.
const DEFAULT_LEVEL: u32 = 9;

/// bzip2 codec.
#[derive(Debug)]
pub(super) struct Bzip2;

impl Codec for Bzip2 {
    fn id(&self) -> u16 {
        307
    }

    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let mut state = Decompress::new(false);
        let mut size = context.expected.unwrap_or_else(|| input.len().saturating_mul(4)).min(context.limit);
        loop {
            let reserved = output.try_reserve_exact(size.saturating_sub(output.len()));
            reserved.map_err(|_| Error::limit(format!("no memory for {size} bytes")))?;
            let (read, written) = (state.total_in(), output.len());
            let from = usize::try_from(read).ok().and_then(|read| input.get(read..)).unwrap_or_default();
            let status = state
                .decompress_vec(from, output)
                .map_err(|error| Error::new(ErrorKind::Filter, format!("damaged bzip2 data: {error}")))?;
            if output.len() > context.limit {
                return Err(Error::limit(format!("the stream decodes to more than {} bytes", context.limit)));
            }
            match status {
                // Data after the stream are ignored, as in the plugin.
                Status::StreamEnd => return Ok(()),
                Status::MemNeeded => return Err(Error::limit("no memory for bzip2")),
                _ if output.len() == output.capacity() => {
                    // One byte above the limit reveals that the output is too long.
                    let more = output.len().saturating_add(output.len().max(MIN_GROWTH_BYTES));
                    size = more.min(context.limit.saturating_add(1));
                }
                _ if state.total_in() == read && output.len() == written => {
                    return Err(Error::new(ErrorKind::Filter, "the bzip2 stream ends too early"));
                }
                _ => {}
            }
        }
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let block = match context.parameters.first() {
            None => DEFAULT_LEVEL,
            Some(block @ 1..=9) => *block,
            Some(block) => return Err(Error::invalid(format!("a block size of {block}: expected 1 to 9"))),
        };
        // According to the manual, a stream is at most 1 % and 600 bytes longer than its input.
        let bound = input.len().saturating_add(input.len() / 100).saturating_add(600);
        let room = context.room(output, context.most(input, bound))?;
        let mut state = Compress::new(Compression::new(block), 0);
        let (mut read, mut written) = (0, 0);
        loop {
            let from = input.get(read..).unwrap_or_default();
            let to = room.get_mut(written..).unwrap_or_default();
            if to.is_empty() {
                return Ok(EncodeOutcome::Refused);
            }
            let status = state
                .compress(from, to, Action::Finish)
                .map_err(|error| Error::limit(format!("bzip2 cannot compress: {error}")))?;
            let before = (read, written);
            read = usize::try_from(state.total_in()).unwrap_or(usize::MAX);
            written = usize::try_from(state.total_out()).unwrap_or(usize::MAX);
            if matches!(status, Status::StreamEnd) {
                return Ok(EncodeOutcome::Written(written));
            }
            if before == (read, written) {
                return Ok(EncodeOutcome::Refused);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{Dice, check_damaged, decoded, encoded};
    use std::io::Write;

    fn filtered(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_sizes() {
        let bytes: Vec<u8> = Dice::new(1).bytes(300_000).iter().map(|byte| byte % 7).collect();
        for length in [0, 1, 1000, 65_536, 65_537, 300_000] {
            let stored = [&filtered(&bytes[..length])[..], b"behind"].concat();
            assert_eq!(decoded(&Bzip2, &stored, &[1], length).unwrap(), bytes[..length]);
            assert_eq!(encoded(&Bzip2, &bytes[..length], &[1]).unwrap(), filtered(&bytes[..length]));
        }
    }

    #[test]
    fn damage_and_bombs() {
        let bytes: Vec<u8> = (0..3000).map(|i| (i / 17) as u8).collect();
        check_damaged(&Bzip2, &filtered(&bytes), &[9], 3000);
        let bomb = filtered(&[0; 1 << 20]);
        assert_eq!(decoded(&Bzip2, &bomb, &[], 1000).unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(decoded(&Bzip2, &bomb, &[], (1 << 20) - 1).unwrap_err().kind(), ErrorKind::Limit);
    }
}
