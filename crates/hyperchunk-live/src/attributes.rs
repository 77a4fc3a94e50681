//! Attributes as inputs of functions, through the engine: small, read whole and passed by value.

use crate::{expression, inputs, to_udf_error};
use hyperchunk::convert::Conversion;
use hyperchunk::model::{Attribute, Class, Dataspace, Datatype, StringPadding};
use hyperchunk::{File, Object};
use hyperchunk_expression::Kind;
use hyperchunk_udf::attribute::{place_texts, text_datatype};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::Datatype as Element;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::{MAX_ATTRIBUTE_BYTES, Record, Slot, byte_size};

/// Attribute with the same datatype and shape as when the function was attached.
pub(crate) struct Input {
    attribute: Attribute,
    /// Its strings, if the datatype is a string.
    texts: Option<Vec<Vec<u8>>>,
    /// Datatype as which it is read.
    memory: Datatype,
    /// Its kind in an expression.
    pub(crate) kind: Option<Kind>,
}

/// Opens the attribute that is an input of the record.
///
/// # Errors
/// `NotFound`; `Invalid` for another datatype or shape.
pub(crate) fn open(file: &File, record: &Record, slot: &Slot) -> Result<Input> {
    let fail = |kind, message: &str| Err(Error::new(kind, message));
    let Some((object, name)) = record.find_attribute(slot) else {
        return fail(ErrorKind::Invalid, "it is not an attribute");
    };
    let found = || {
        let root = file.root()?.named("/");
        let path = object.trim_matches('/');
        let object = if path.is_empty() { root } else { root.group()?.get(format!("/{path}").as_bytes())? };
        let attribute = object.attribute(name.as_bytes())?;
        Ok(attribute.map(|attribute| (object, attribute)))
    };
    let Some((object, attribute)) = found().map_err(|error: hyperchunk::Error| to_udf_error(&error))? else {
        return fail(ErrorKind::NotFound, "there is no such attribute in the file");
    };
    if record.backend == Backend::Expression
        && !matches!(attribute.datatype.class, Class::String { .. } | Class::VlenString { .. })
        && expression::number(&attribute.datatype).is_none()
    {
        return fail(ErrorKind::Invalid, "it is not a number any more; attach the expression again");
    }
    let InputAttribute { attribute, texts, memory, kind, dims, element } =
        describe(&object, attribute, record.backend)?;
    // The length of a string is part of its value, so it may differ.
    let alike = [&element, &slot.datatype].iter().all(|d| matches!(d, Element::Text(_)));
    if !record.fits(slot, &dims) || (!alike && element != slot.datatype) {
        let message = format!(
            "it is {} {dims:?} now, and was {} {:?} when the function was attached; attach it again",
            escape(&element.name(), 200),
            escape(&slot.datatype.name(), 200),
            slot.dims
        );
        return fail(ErrorKind::Invalid, &message);
    }
    Ok(Input { attribute, texts, memory, kind })
}

/// Attribute with the type and shape that a function sees.
pub(crate) struct InputAttribute {
    attribute: Attribute,
    texts: Option<Vec<Vec<u8>>>,
    memory: Datatype,
    /// Its kind in an expression.
    pub(crate) kind: Option<Kind>,
    pub(crate) dims: Vec<u64>,
    pub(crate) element: Element,
}

/// Returns an attribute of an object as an input.
///
/// # Errors
/// `Unsupported` for attributes that functions cannot use.
pub(crate) fn describe(object: &Object, attribute: Attribute, backend: Backend) -> Result<InputAttribute> {
    let fail = |kind, message: &str| Err(Error::new(kind, message));
    let dims = match &attribute.dataspace {
        Dataspace::Null => {
            return fail(ErrorKind::Unsupported, "it has no elements at all (a null dataspace)");
        }
        Dataspace::Scalar => Vec::new(),
        Dataspace::Simple { dims, .. } => dims.clone(),
    };
    if attribute.data.len() as u64 > 2 * MAX_ATTRIBUTE_BYTES {
        return fail(ErrorKind::Unsupported, "attributes are inputs up to 64 KiB");
    }
    let size = usize::try_from(attribute.datatype.size).unwrap_or(usize::MAX).max(1);
    let elements = attribute.data.chunks_exact(size);
    let texts = match &attribute.datatype.class {
        Class::String { padding, .. } => Some(elements.map(|text| fixed(text, *padding).to_vec()).collect()),
        Class::VlenString { .. } => {
            let mut sequences = object.file().sequences();
            let text = |element| sequences.string(element).map(<[u8]>::to_vec);
            let texts: Result<Vec<_>, _> = elements.map(text).collect();
            Some(texts.map_err(|error| to_udf_error(&error))?)
        }
        _ => None,
    };
    let (element, memory, kind) = match (&texts, backend) {
        (Some(texts), _) => (text_datatype(texts)?, attribute.datatype.clone(), None),
        (None, Backend::Expression) => match expression::number(&attribute.datatype) {
            Some((Kind::Bool, number)) => (number.into(), attribute.datatype.clone(), Some(Kind::Bool)),
            Some((kind, number)) => (number.into(), inputs::number(number).1, Some(kind)),
            None => {
                // Reports the reason if functions cannot use the datatype either.
                inputs::memory_type(&attribute.datatype)?;
                return fail(
                    ErrorKind::Unsupported,
                    "its datatype is not a number, and expressions compute with numbers only",
                );
            }
        },
        (None, _) => {
            let (element, memory) = inputs::memory_type(&attribute.datatype)?;
            (element, memory, None)
        }
    };
    let count = dims.iter().fold(1_u64, |count, dim| count.saturating_mul(*dim));
    if count == 0 {
        let message = format!("it has the shape {dims:?}, without elements");
        return fail(ErrorKind::Unsupported, &message);
    }
    if element.has_pointers() || byte_size(&dims, &element) > MAX_ATTRIBUTE_BYTES {
        let shown = escape(&element.name(), 80);
        let message = format!("it is {shown}, and attributes are inputs up to 64 KiB");
        return fail(ErrorKind::Unsupported, &message);
    }
    Ok(InputAttribute { attribute, texts, memory, kind, dims, element })
}

fn fixed(text: &[u8], padding: StringPadding) -> &[u8] {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    match padding {
        StringPadding::SpacePadded => {
            let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
            text.get(..end).unwrap_or_default()
        }
        _ => text,
    }
}

impl Input {
    /// Reads the elements into memory.
    pub(crate) fn read(&self, slot: &Slot, to: &mut [u8]) -> Result<()> {
        let no_room = || Error::new(ErrorKind::Worker, "the memory for an attribute is too small");
        let bytes = usize::try_from(slot.bytes()).ok();
        let to = bytes.and_then(|bytes| to.get_mut(..bytes)).ok_or_else(no_room)?;
        if let (Some(texts), Element::Text(room)) = (&self.texts, &slot.datatype) {
            return place_texts(texts, *room, to);
        }
        let size = usize::try_from(self.memory.size).unwrap_or(usize::MAX).max(1);
        let conversion = Conversion::new(&self.attribute.datatype, &self.memory);
        let count = to.len() / size;
        let converted = conversion.and_then(|conversion| conversion.run(&self.attribute.data, to, count));
        converted.map_err(|error| to_udf_error(&error))
    }
}
