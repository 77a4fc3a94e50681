//! Undoing a whole pipeline for one chunk.

use super::{Context, lookup};
use crate::model::Filter;
use crate::{Error, ErrorKind, Result};

/// Undoes pipelines; keeps its buffers from chunk to chunk.
#[derive(Debug, Default)]
pub struct Decoder {
    front: Vec<u8>,
    back: Vec<u8>,
}

impl Decoder {
    /// The bytes that were filtered to `stored`: exactly `expected` of them. `mask` has the chunk's bits for filters that
    /// were left out.
    ///
    /// # Errors
    /// MissingFilter with the filter's name and how to get it; Filter if the chunk is damaged or has another size.
    pub fn decode<'a>(
        &'a mut self,
        pipeline: &[Filter],
        mask: u32,
        stored: &'a [u8],
        expected: usize,
    ) -> Result<&'a [u8]> {
        self.front.clear();
        self.front.extend_from_slice(stored);
        for (number, filter) in pipeline.iter().enumerate().rev() {
            if mask & 1_u32.unbounded_shl(u32::try_from(number).unwrap_or(u32::MAX)) != 0 {
                continue;
            }
            self.back.clear();
            let context = Context {
                parameters: &filter.parameters,
                expected: None,
                limit: expected.saturating_add(4096),
            };
            lookup(filter.id, |codec| match codec {
                Some(codec) => codec.decode(&self.front, &mut self.back, &context),
                None => Err(Error::new(
                    ErrorKind::MissingFilter,
                    format!("filter {} is not available", filter.id),
                )),
            })?;
            std::mem::swap(&mut self.front, &mut self.back);
        }
        if self.front.len() == expected {
            return Ok(&self.front);
        }
        let message =
            format!("the chunk has {} bytes after its filters instead of {expected}", self.front.len());
        Err(Error::new(ErrorKind::Filter, message))
    }
}
