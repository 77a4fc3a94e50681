//! Reading attributes that are text.

use crate::{Error, Result};
use hyperchunk::Object;
use hyperchunk::model::{Attribute, Class, Datatype, StringPadding};

/// Returns the strings of an attribute, if it exists and consists of strings.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub(super) fn texts(object: &Object, name: &str) -> Result<Option<Vec<String>>> {
    match object.attribute(name.as_bytes())? {
        Some(attribute) => decode_strings(object, &attribute),
        None => Ok(None),
    }
}

/// Like [`texts`], for an attribute with one string.
pub(super) fn text(object: &Object, name: &str) -> Result<Option<String>> {
    let found = texts(object, name)?;
    Ok(found.and_then(|texts| if texts.len() == 1 { texts.into_iter().next() } else { None }))
}

fn decode_strings(object: &Object, attribute: &Attribute) -> Result<Option<Vec<String>>> {
    let size = usize::try_from(attribute.datatype.size).ok().filter(|size| *size > 0);
    let Some(elements) = size.map(|size| attribute.data.chunks_exact(size)) else { return Ok(None) };
    let not_text = || Error::corrupt(format!("the attribute `{}` is not UTF-8", attribute.name));
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| not_text());
    let found = match &attribute.datatype.class {
        Class::String { padding, .. } => elements.map(|bytes| text(unpadded(bytes, *padding))).collect(),
        Class::VlenString { .. } => {
            let byte = Datatype { size: 1, class: Class::Opaque { tag: Default::default() } };
            let mut sequences = object.file().sequences();
            elements
                .map(|element| {
                    let found = sequences.get(element, &byte)?.map_or(&[][..], |(_, bytes)| bytes);
                    text(unpadded(found, StringPadding::NullTerminated))
                })
                .collect()
        }
        _ => return Ok(None),
    };
    let found: Result<Vec<String>> = found;
    found.map(Some)
}

/// Returns a string without padding.
pub(super) fn unpadded(bytes: &[u8], padding: StringPadding) -> &[u8] {
    let end = match padding {
        StringPadding::NullTerminated => bytes.iter().position(|byte| *byte == 0),
        StringPadding::NullPadded => {
            Some(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1))
        }
        StringPadding::SpacePadded => {
            Some(bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1))
        }
    };
    end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}
