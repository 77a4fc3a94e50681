//! Superblock and its extension. Source: specification §II.A to C; HDF5 2.x `H5Fsuper.c` for the checks.

use super::message;
use super::message::file_space::{self, FileSpace};
use super::{object_header, other_formats};
use crate::model::{CacheImage, SharedMessageTable, Superblock};
use crate::{Cursor, Error, ErrorKind, Fuel, Image, Limits, Result, Sizes, View};

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// Version number that a guarded edit writes to a superblock of version 0 to 2 while it runs, so that other
/// programs do not open the file.
pub const GUARDED_VERSION: u8 = 0xFF;
/// Largest superblock: version 1 with numbers of 32 bytes.
const MAX_SUPERBLOCK_BYTES: u64 = 8 + 20 + 4 * 32 + (32 + 32 + 24);
const STRUCTURE: &str = "superblock";

/// Flag "open for writing".
const WRITE_FLAG: u32 = 0b001;
/// Flags "open for writing" and "open for single-writer/multiple-reader access".
const OPEN_FLAGS: u32 = 0b101;
const KNOWN_FLAGS: u32 = 0b111;

/// Finds the superblock at offset 0, 512, 1024, 2048 and so on.
///
/// # Errors
/// NotHdf5 if none of these offsets has the signature.
pub fn locate(view: &dyn View) -> Result<u64> {
    let fits = |offset: &u64| offset.checked_add(8).is_some_and(|end| end <= view.size());
    let found = |offset: u64| view.bytes(offset, SIGNATURE.len()).map(|bytes| *bytes == *SIGNATURE);
    if fits(&0) && found(0)? {
        return Ok(0);
    }
    let places: Vec<u64> = (9..u64::BITS).map(|power| 1 << power).take_while(fits).collect();
    let ranges: Vec<_> = places.iter().map(|offset| *offset..offset.saturating_add(8)).collect();
    view.will_need(&ranges);
    for offset in places {
        if found(offset)? {
            return Ok(offset);
        }
    }
    let error = Error::new(ErrorKind::NotHdf5, "not an HDF5 file: it has no HDF5 signature");
    let examined = usize::try_from(view.size().min(other_formats::EXAMINED_BYTES)).unwrap_or(0);
    let first = view.bytes(0, examined)?;
    Err(match other_formats::recognize(&first) {
        Some(what) => error.advise(what),
        None => error,
    })
}

/// Reads the superblock and its extension.
///
/// # Errors
/// NotHdf5 without a superblock; Corrupt or Unsupported if it is damaged or too new.
pub fn parse(view: &dyn View, limits: &Limits, fuel: &Fuel) -> Result<Superblock> {
    let base = locate(view)?;
    // Provisional sizes: the real ones are in the superblock itself.
    let image = Image::new(view, base, Sizes { address: 8, length: 8 }, limits, fuel);
    let bytes = image.read_up_to(STRUCTURE, 0, MAX_SUPERBLOCK_BYTES)?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, 0);
    cursor.skip(SIGNATURE.len())?;
    if bytes.get(SIGNATURE.len()) == Some(&GUARDED_VERSION) {
        let message = "a guarded edit of the file was interrupted, and the journal that completes it is missing: put \
                       FILE.redo beside the file, or use `hyperchunk salvage`";
        return Err(Error::unsupported(message).within(STRUCTURE).at(SIGNATURE.len() as u64));
    }
    let version = cursor.version(0..=3)?;
    let mut superblock = match version {
        0 | 1 => version_0(&mut cursor, base, version)?,
        _ => version_2(&mut cursor, base, version, &bytes)?,
    };
    let image = Image::new(view, base, superblock.sizes, limits, fuel);
    if let Some(address) = superblock.driver {
        driver_information(image, address)?;
    }
    if let Some(address) = superblock.extension {
        extension(image, address, &mut superblock)?;
    }
    Ok(superblock)
}

/// Superblocks that a damaged file may have had.
#[derive(Debug)]
pub struct Candidates {
    /// Likeliest first. The `end` of each is the end of the file.
    pub superblocks: Vec<Superblock>,
    /// Damage of the superblock and its extension.
    pub damage: Vec<Error>,
}

/// Reads a superblock that may be damaged. After the superblock as parsed, the candidates have default values
/// and these root groups: the address in its field in versions 2 and 0, and the address at which libhdf5
/// creates the root group of a new file.
///
/// # Errors
/// Io, Changed or Need if bytes cannot be read; Truncated if the file is empty; Limit.
pub fn candidates(view: &dyn View, limits: &Limits, fuel: &Fuel) -> Result<Candidates> {
    let mut damage = Vec::new();
    let base = match locate(view) {
        Err(error) if error.is_of_reading() => return Err(error),
        Err(error) => {
            damage.push(error);
            0
        }
        Ok(base) => base,
    };
    let end = view.size().saturating_sub(base);
    let sizes = Sizes { address: 8, length: 8 };
    let image = Image::new(view, base, sizes, limits, fuel);
    let bytes = image.read_up_to(STRUCTURE, 0, MAX_SUPERBLOCK_BYTES)?;
    let mut superblocks = Vec::new();
    if damage.is_empty() {
        match whole(image, &bytes, base) {
            Ok(superblock) => superblocks.push(superblock),
            Err(error) => damage.push(error),
        }
    }
    if let Some(superblock) = superblocks.first_mut() {
        let image = Image::new(view, base, superblock.sizes, limits, fuel);
        if let Some(address) = superblock.extension {
            match extension(image, address, superblock) {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => damage.push(error),
                Ok(()) => {}
            }
        }
        superblock.end = end;
    }
    for (version, field, usual) in [(2, 36..44, 48), (0, 64..72, 96)] {
        let stored = bytes.get(field).and_then(|bytes| bytes.first_chunk());
        for root in [stored.map(|bytes| u64::from_le_bytes(*bytes)), Some(usual)].into_iter().flatten() {
            if root < end {
                superblocks.push(guess(version, base, sizes, end, root));
            }
        }
    }
    Ok(Candidates { superblocks, damage })
}

fn whole(image: Image<'_>, bytes: &[u8], base: u64) -> Result<Superblock> {
    let mut cursor = image.cursor(bytes, STRUCTURE, 0);
    cursor.skip(SIGNATURE.len())?;
    match cursor.version(0..=3)? {
        version @ (0 | 1) => version_0(&mut cursor, base, version),
        version => version_2(&mut cursor, base, version, bytes),
    }
}

/// Returns a superblock of default values.
#[must_use]
pub fn guess(version: u8, base: u64, sizes: Sizes, end: u64, root: u64) -> Superblock {
    Superblock {
        version,
        base,
        sizes,
        end,
        root,
        group_leaf_k: DEFAULT_GROUP_LEAF_K,
        group_internal_k: DEFAULT_GROUP_INTERNAL_K,
        chunk_k: DEFAULT_CHUNK_K,
        extension: None,
        driver: None,
        flags: 0,
        shared_messages: None,
        cache_image: None,
    }
}

/// Reads the file space info message; `None` if the extension has none.
///
/// # Errors
/// Corrupt or Unsupported if the extension is damaged.
pub fn file_space(image: Image<'_>, superblock: &Superblock) -> Result<Option<FileSpace>> {
    let Some(address) = superblock.extension else { return Ok(None) };
    let header = object_header::parse(image, address)?;
    let raw = header.messages.iter().find(|raw| raw.kind == message::FILE_SPACE);
    raw.map(|raw| file_space::parse(&mut message::cursor(raw, "file space info message"), image.sizes))
        .transpose()
}

/// Reads versions 0 and 1, which have no extension and store the root group as a symbol table entry.
fn version_0(cursor: &mut Cursor<'_>, base: u64, version: u8) -> Result<Superblock> {
    for what in ["free-space storage", "root group symbol table"] {
        let number = cursor.u8()?;
        if number != 0 {
            return Err(cursor.error(format!("version {number} of the {what}, expected 0")));
        }
    }
    cursor.skip(1)?;
    let number = cursor.u8()?;
    if number != 0 {
        return Err(cursor.error(format!("version {number} of the shared header message format, expected 0")));
    }
    let sizes = sizes(cursor)?;
    cursor.skip(1)?;
    let group_leaf_k = cursor.u16()?;
    let group_internal_k = cursor.u16()?;
    if group_leaf_k == 0 || group_internal_k == 0 {
        return Err(cursor.error("the group B-trees' K is 0".into()));
    }
    let flags = cursor.u32()?;
    check_known(cursor, flags)?;
    let chunk_k = if version == 1 {
        let chunk_k = cursor.u16()?;
        cursor.skip(2)?;
        chunk_k
    } else {
        DEFAULT_CHUNK_K
    };
    let stored_base = cursor.address(sizes)?;
    let free_space = cursor.address(sizes)?;
    let stored_end = cursor.address(sizes)?;
    let driver = cursor.address(sizes)?;
    if free_space.is_some() {
        return Err(cursor.error("an address of global free space or an extension in version 0 or 1".into()));
    }
    let end = end(cursor, stored_base, stored_end)?;
    // Symbol table entry of the root group: offset of its name, then address of its object header.
    cursor.skip(sizes.length.into())?;
    let root = defined(cursor, sizes)?;
    Ok(Superblock {
        version,
        base,
        sizes,
        end,
        root,
        group_leaf_k,
        group_internal_k,
        chunk_k,
        extension: None,
        driver,
        flags,
        shared_messages: None,
        cache_image: None,
    })
}

const DEFAULT_GROUP_LEAF_K: u16 = 4;
const DEFAULT_GROUP_INTERNAL_K: u16 = 16;
const DEFAULT_CHUNK_K: u16 = 32;

/// Reads versions 2 and 3, which have a checksum.
fn version_2(cursor: &mut Cursor<'_>, base: u64, version: u8, bytes: &[u8]) -> Result<Superblock> {
    let sizes = sizes(cursor)?;
    let flags = cursor.u8()?.into();
    check_known(cursor, flags)?;
    let stored_base = cursor.address(sizes)?;
    let extension = cursor.address(sizes)?;
    let stored_end = cursor.address(sizes)?;
    let root = defined(cursor, sizes)?;
    cursor.skip(4)?;
    crate::checksum::split_checked(bytes.get(..cursor.position()).unwrap_or_default())
        .map_err(|error| error.within(STRUCTURE).at(base))?;
    let end = end(cursor, stored_base, stored_end)?;
    if root == 0 || root >= end || extension.is_some_and(|extension| extension >= end) {
        return Err(cursor
            .error("the address of the root group or the extension is beyond the end of the file".into()));
    }
    Ok(Superblock {
        version,
        base,
        sizes,
        end,
        root,
        group_leaf_k: DEFAULT_GROUP_LEAF_K,
        group_internal_k: DEFAULT_GROUP_INTERNAL_K,
        chunk_k: DEFAULT_CHUNK_K,
        extension,
        driver: None,
        flags,
        shared_messages: None,
        cache_image: None,
    })
}

fn sizes(cursor: &mut Cursor<'_>) -> Result<Sizes> {
    let sizes = Sizes { address: cursor.u8()?, length: cursor.u8()? };
    if [sizes.address, sizes.length].iter().all(|size| matches!(size, 2 | 4 | 8 | 16 | 32)) {
        return Ok(sizes);
    }
    Err(cursor.error(format!(
        "invalid sizes: offsets of {} bytes, lengths of {} bytes",
        sizes.address, sizes.length
    )))
}

fn check_known(cursor: &Cursor<'_>, flags: u32) -> Result<()> {
    if flags & !KNOWN_FLAGS == 0 {
        return Ok(());
    }
    Err(cursor.error(format!("unknown file consistency flags {flags:#x}")))
}

fn defined(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<u64> {
    cursor.address(sizes)?.ok_or_else(|| cursor.error("the address of the root group is undefined".into()))
}

/// Returns the end relative to the base. Both may differ from the actual ones by the same number of bytes,
/// which were inserted before the superblock.
fn end(cursor: &Cursor<'_>, base: Option<u64>, end: Option<u64>) -> Result<u64> {
    let (Some(base), Some(end)) = (base, end) else {
        return Err(cursor.error("the base address or the end of the file is undefined".into()));
    };
    end.checked_sub(base)
        .filter(|end| *end > 0)
        .ok_or_else(|| cursor.error(format!("the base address {base} is not before the end {end}")))
}

/// Checks the driver information block of versions 0 and 1. Ignores one past the end of the file.
fn driver_information(image: Image<'_>, address: u64) -> Result<()> {
    const STRUCTURE: &str = "driver information block";
    const HEADER_BYTES: u64 = 16;
    if image.left(address) < HEADER_BYTES {
        return Ok(());
    }
    let bytes = image.read(STRUCTURE, address, HEADER_BYTES)?;
    let mut cursor = image.cursor(&bytes, STRUCTURE, address);
    cursor.version(0..=0)?;
    cursor.skip(7)?;
    check_driver(cursor.array()?)
}

/// Refuses a part of a file that the writer's file driver split.
fn check_driver(name: [u8; 8]) -> Result<()> {
    let driver = match &name {
        b"NCSAfami" => "family",
        b"NCSAmult" => "multi",
        _ => return Ok(()),
    };
    let message = format!(
        "one part of a file that HDF5's `{driver}` driver split: join the parts with `h5repack` or `h5repart`"
    );
    Err(Error::unsupported(message).within(STRUCTURE))
}

/// Reads the extension's messages that readers need.
fn extension(image: Image<'_>, address: u64, superblock: &mut Superblock) -> Result<()> {
    let header =
        object_header::parse(image, address).map_err(|error| error.within("superblock extension"))?;
    for raw in &header.messages {
        let mut cursor = message::cursor(raw, "superblock extension");
        match raw.kind {
            message::SHARED_MESSAGE_TABLE if superblock.shared_messages.is_none() => {
                cursor.version(0..=0)?;
                let address = cursor.address(image.sizes)?;
                let indexes = cursor.u8()?;
                superblock.shared_messages = address.map(|address| SharedMessageTable { address, indexes });
            }
            message::BTREE_K => {
                cursor.version(0..=0)?;
                superblock.chunk_k = cursor.u16()?;
                superblock.group_internal_k = cursor.u16()?;
                superblock.group_leaf_k = cursor.u16()?;
            }
            message::DRIVER_INFORMATION => {
                cursor.version(0..=0)?;
                check_driver(cursor.array()?)?;
                let length = cursor.u16()?;
                cursor.skip(length.into())?;
            }
            message::CACHE_IMAGE => {
                cursor.version(0..=0)?;
                let address = cursor.address(image.sizes)?;
                let size = cursor.length(image.sizes)?;
                superblock.cache_image =
                    address.filter(|_| size > 0).map(|address| CacheImage { address, size });
                let end = address.and_then(|address| address.checked_add(size));
                if superblock.cache_image.is_some() && end.is_none_or(|end| end > superblock.end) {
                    return Err(
                        cursor.error("the metadata cache image extends beyond the end of the file".into())
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a file that is open in a writer, or was when its writer crashed.
///
/// # Errors
/// Locked. Before version 3 no library checks the flags.
pub fn check_flags(superblock: &Superblock) -> Result<()> {
    if !is_marked(superblock) {
        return Ok(());
    }
    let message =
        "the file is marked as open for writing: wait for its writer, or clear the mark with `h5clear -s`";
    let follow = match is_swmr(superblock) {
        true => "; it is written in SWMR mode: swmr=True reads it meanwhile",
        false => "",
    };
    Err(Error::new(ErrorKind::Locked, format!("{message}{follow}")))
}

/// True if the file is marked as open in a writer; before version 3 no library sets or checks the marks.
#[must_use]
pub fn is_marked(superblock: &Superblock) -> bool {
    superblock.version >= 3 && superblock.flags & OPEN_FLAGS != 0
}

/// True if a single writer has the file open for concurrent readers (SWMR).
#[must_use]
pub fn is_swmr(superblock: &Superblock) -> bool {
    superblock.version >= 3 && superblock.flags & OPEN_FLAGS == OPEN_FLAGS
}

/// Refuses, for a SWMR reader, a file that is open for writing but not in SWMR mode, as libhdf5 does.
///
/// # Errors
/// Locked.
pub fn check_swmr_flags(superblock: &Superblock) -> Result<()> {
    if !is_marked(superblock) || is_swmr(superblock) {
        return Ok(());
    }
    let message = match superblock.flags & WRITE_FLAG {
        0 => {
            "the file is not open for SWMR writing, although it is marked so: clear the mark with `h5clear -s`"
        }
        _ => {
            "the file is marked as open for writing, but not in SWMR mode: wait for its writer, or clear the mark with \
             `h5clear -s`"
        }
    };
    Err(Error::new(ErrorKind::Locked, message))
}

/// Refuses a file that is shorter than its superblock declares.
///
/// # Errors
/// Truncated.
pub fn check_end(superblock: &Superblock, file_size: u64) -> Result<()> {
    let declared = superblock.base.saturating_add(superblock.end);
    if declared <= file_size {
        return Ok(());
    }
    let message =
        format!("the file is truncated: it has {file_size} bytes of the {declared} that it declares");
    Err(Error::new(ErrorKind::Truncated, message))
}

#[cfg(test)]
mod tests;
