//! FCIDECOMP (32018), by EUMETSAT: images compressed with JPEG-LS. Source: fcidecomp's H5Zjpegls. Parameters:
//! the bytes in a sample; components, lines, samples in a line; and encoder settings, which its stream
//! repeats.

use super::jpeg_ls::Image;
use super::{Codec, Context};
use crate::{Error, ErrorKind, Result};

/// FCIDECOMP codec.
#[derive(Debug)]
pub(super) struct Fcidecomp;

impl Codec for Fcidecomp {
    fn id(&self) -> u16 {
        32018
    }

    fn name(&self) -> &'static str {
        "fcidecomp"
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let image = Image::parse(input)?;
        if let Some(declared) = context.parameters.get(..4) {
            let declared = declared.iter().fold(1_u64, |size, part| size.saturating_mul((*part).into()));
            if declared != image.size() {
                let message = format!("an image of {} bytes, expected {declared}", image.size());
                return Err(Error::new(ErrorKind::Filter, message));
            }
        }
        image.decode(context.room(output, image.size())?)
    }
}

#[cfg(test)]
mod tests;
