//! Chunks in a version 2 B-tree. Source: specification §VII.E, "The v2 B-tree Index"; §III.A.2, record types
//! 10 and 11.

use super::{EncodedIndex, record};
use crate::encode::blocks::Allocate;
use crate::encode::btree_v2;
use crate::encode::message::layout::BTREE_V2;
use crate::model::{Chunk, ChunkIndex};
use crate::parse::chunk_index::Format;
use crate::{Error, Result};

/// Encodes the tree over sorted chunks.
pub(super) fn encode(
    format: &Format,
    chunks: &[&Chunk],
    allocate: &mut Allocate<'_>,
) -> Result<EncodedIndex> {
    let rank = chunks.first().map_or(0, |chunk| chunk.scaled.len());
    let size = format.size().saturating_add(rank.saturating_mul(8));
    let size = u16::try_from(size).map_err(|_| Error::invalid("chunks of too many dimensions"))?;
    let mut records = Vec::with_capacity(chunks.len().saturating_mul(size.into()));
    for chunk in chunks {
        record::push(&mut records, format, chunk);
        records.extend(chunk.scaled.iter().flat_map(|at| at.to_le_bytes()));
    }
    let kind = if format.filtered { 11 } else { 10 };
    let blocks = btree_v2::encode(kind, BTREE_V2.0, size, &records, allocate)?;
    let index = ChunkIndex::BTreeV2 { address: blocks.first() };
    Ok(EncodedIndex { blocks, index })
}
