//! Strings of datasets and attributes.

use hyperchunk::model::{Class, Datatype, StringPadding};
use hyperchunk::{Error, File, Result};

/// Returns the strings that elements hold, without their padding.
pub(crate) fn strings(file: &File, datatype: &Datatype, elements: &[u8]) -> Result<Vec<Vec<u8>>> {
    let size = usize::try_from(datatype.size).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Error::limit("elements of no size, or larger than memory"))?;
    match &datatype.class {
        Class::String { padding, .. } => {
            Ok(elements.chunks_exact(size).map(|element| unpadded(element, *padding).to_vec()).collect())
        }
        Class::VlenString { .. } => {
            let mut sequences = file.sequences();
            let all = elements.chunks_exact(size);
            all.map(|element| sequences.string(element).map(<[u8]>::to_vec)).collect()
        }
        _ => Err(Error::invalid("cannot read strings: expected elements that are strings, got others")),
    }
}

/// Returns a string of fixed length up to its padding; a NUL ends it in any case, for C.
fn unpadded(bytes: &[u8], padding: StringPadding) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = bytes.get(..end).unwrap_or_default();
    let is_padding = |byte: &u8| padding == StringPadding::SpacePadded && *byte == b' ';
    let end = text.iter().rposition(|byte| !is_padding(byte)).map_or(0, |at| at + 1);
    text.get(..end).unwrap_or_default()
}
