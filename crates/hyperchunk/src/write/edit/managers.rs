//! Removal of the edited file's free-space managers at a commit.
//!
//! A file with persistent free space (`fs_persist`) lists it in managers, to which the superblock extension
//! points. An edit does not update these lists, and with an outdated list libhdf5 would overwrite data. A
//! commit therefore removes the managers' addresses, as in a new file: the strategy stays the same, libhdf5
//! starts with empty managers, and the space that they listed stays unused.

use crate::{Error, File, Result};
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::model::{ObjectHeader, RawMessage};
use hyperchunk_format::parse::message::{FILE_SPACE, file_space};
use hyperchunk_format::parse::object_header;

/// Address and bytes of the part of the superblock extension that a commit writes.
pub(super) type Patch = (u64, Vec<u8>);

/// Returns the superblock extension without free-space managers; `None` if it has none.
pub(super) fn without_managers(file: &File) -> Result<Option<Patch>> {
    let superblock = file.superblock();
    let Some(address) = superblock.extension else { return Ok(None) };
    let header = file.parse(|image| object_header::parse(image, address))?;
    let Some(raw) = header.messages.iter().find(|raw| raw.kind == FILE_SPACE) else { return Ok(None) };
    let first = file_space::managers(&raw.data, superblock.sizes)?;
    let Some(old) = raw.data.get(first..).filter(|old| old.iter().any(|byte| *byte != 0xff)) else {
        return Ok(None);
    };
    let at = raw.offset - superblock.base + first as u64;
    if header.version == 1 {
        return Ok(Some((at, vec![0xff; old.len()])));
    }
    // The block includes its checksum, the last four bytes.
    let (start, length) = block_with(&header, raw, superblock.base)?;
    let mut block = file
        .parse(|image| image.read("superblock extension", start, length).map(std::borrow::Cow::into_owned))?;
    let place = usize::try_from(at - start).ok().and_then(|at| block.get_mut(at..at + old.len()));
    place.ok_or_else(|| Error::corrupt("a message extends past its block"))?.fill(0xff);
    let body = block.len() - 4;
    let sum = lookup3(&block[..body]).to_le_bytes();
    block[body..].copy_from_slice(&sum);
    Ok(Some((start, block)))
}

/// Returns address and size of the header block that contains a message.
fn block_with(header: &ObjectHeader, raw: &RawMessage, base: u64) -> Result<(u64, u64)> {
    let at = raw.offset - base;
    let end = at + raw.data.len() as u64 + 4;
    let blocks = std::iter::once((header.address, header.first_block_bytes));
    let mut blocks = blocks.chain(header.continuations.iter().copied());
    let found = blocks.find(|(start, length)| *start <= at && end <= start.saturating_add(*length));
    found.ok_or_else(|| Error::corrupt("a message is in no block of its header"))
}
