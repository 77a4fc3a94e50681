//! Elements as text, in the format of `h5dump` or JSON.

use super::wide_float::WideFloat;
use crate::describe;
use crate::json::Text;
use hyperchunk::convert::{Conversion, memory_type};
use hyperchunk::model::{ByteOrder, Class, Datatype, ReferenceKind, StoredSelection, StringPadding};
use hyperchunk::{Error, File, Sequences};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The format of `h5dump`.
    Ddl,
    /// JSON. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"; numbers outside the range of
    /// doubles are strings, too, since most readers of JSON would change them.
    Json,
}

/// Printer of elements of one datatype.
pub(crate) struct Printer<'a> {
    file: &'a File,
    sequences: Sequences<'a>,
    style: Style,
    form: Form,
    size: usize,
}

/// Datatype of an element, prepared for printing.
enum Form {
    Integer { conversion: Conversion, size: usize, signed: bool },
    Float { conversion: Conversion, single: bool, wide: Option<Box<WideFloat>> },
    String(StringPadding),
    VlenString,
    Vlen { base: Datatype, form: Box<Form> },
    Array { size: usize, form: Box<Form> },
    Complex { size: usize, form: Box<Form> },
    Compound(Vec<(Vec<u8>, usize, usize, Form)>),
    Enum { names: HashMap<Vec<u8>, Vec<u8>>, base: Box<Form> },
    Bytes,
    Reference(ReferenceKind),
}

/// Maximum number of bits of the mantissa of a float that is printed as a number: that of a quadruple-precision one
/// with its first bit.
const MAX_MANTISSA_BITS: u16 = 113;

fn to_usize(size: u64) -> Result<usize, Error> {
    usize::try_from(size).map_err(|_| Error::invalid("elements larger than the address space"))
}

impl Form {
    fn new(datatype: &Datatype) -> Result<Self, Error> {
        Ok(match &datatype.class {
            Class::Integer { signed, .. } => Self::integer(datatype, *signed)?,
            Class::Bitfield { .. } if datatype.size <= 8 => Self::integer(datatype, false)?,
            Class::Float(float) => {
                let memory = Datatype::ieee(if datatype.size <= 4 { 4 } else { 8 }, ByteOrder::Little);
                let (conversion, single) = (Conversion::new(datatype, &memory)?, memory.size == 4);
                match WideFloat::new(datatype, float, single)? {
                    Some(_) if float.mantissa_bits > MAX_MANTISSA_BITS => Self::Bytes,
                    wide => Self::Float { conversion, single, wide: wide.map(Box::new) },
                }
            }
            Class::String { padding, .. } => Self::String(*padding),
            Class::VlenString { .. } => Self::VlenString,
            Class::Vlen { base } => Self::Vlen { base: (**base).clone(), form: Box::new(Self::new(base)?) },
            Class::Array { base, .. } => {
                Self::Array { size: to_usize(base.size)?, form: Box::new(Self::new(base)?) }
            }
            Class::Complex { base } => {
                Self::Complex { size: to_usize(base.size)?, form: Box::new(Self::new(base)?) }
            }
            Class::Compound { members } => {
                let part = |member: &hyperchunk::model::Member| {
                    let (offset, size) = (to_usize(member.offset)?, to_usize(member.datatype.size)?);
                    Ok((member.name.as_bytes().to_vec(), offset, size, Self::new(&member.datatype)?))
                };
                Self::Compound(members.iter().map(part).collect::<Result<_, Error>>()?)
            }
            Class::Enum { base, members } => {
                let names =
                    members.iter().map(|member| (member.value.clone(), member.name.as_bytes().to_vec()));
                Self::Enum { names: names.collect(), base: Box::new(Self::new(base)?) }
            }
            Class::Opaque { .. } | Class::Time { .. } | Class::Bitfield { .. } => Self::Bytes,
            Class::Reference(kind) => Self::Reference(*kind),
        })
    }

    fn integer(datatype: &Datatype, signed: bool) -> Result<Self, Error> {
        if datatype.size > 8 {
            return Ok(Self::Bytes);
        }
        let memory = memory_type(datatype);
        Ok(Self::Integer {
            conversion: Conversion::new(datatype, &memory)?,
            size: to_usize(memory.size)?,
            signed,
        })
    }
}

impl<'a> Printer<'a> {
    pub(crate) fn new(file: &'a File, datatype: &Datatype, style: Style) -> Result<Self, Error> {
        let (form, size) = (Form::new(datatype)?, to_usize(datatype.size)?);
        Ok(Self { file, sequences: file.sequences(), style, form, size })
    }

    /// Returns the elements in `bytes` as texts.
    pub(crate) fn elements(&mut self, bytes: &[u8]) -> Result<Vec<String>, Error> {
        let (file, style) = (self.file, self.style);
        let sequences = &mut self.sequences;
        let one = |element: &[u8]| {
            let mut text = String::new();
            self.form.add(element, &mut text, style, file, sequences).map(|()| text)
        };
        bytes.chunks_exact(self.size.max(1)).map(one).collect()
    }
}

impl Form {
    fn add(
        &self,
        element: &[u8],
        text: &mut String,
        style: Style,
        file: &File,
        sequences: &mut Sequences<'_>,
    ) -> Result<(), Error> {
        match self {
            Self::Integer { conversion, size, signed } => {
                let mut number = [0; 8];
                conversion.run(element, &mut number[..*size], 1)?;
                let number = u64::from_le_bytes(number);
                let shift = 64 - 8 * u32::try_from(*size).unwrap_or(8);
                let _ = if *signed {
                    write!(text, "{}", (number.cast_signed() << shift) >> shift)
                } else {
                    write!(text, "{number}")
                };
            }
            Self::Float { conversion, single, wide } => {
                let mut number = [0; 8];
                conversion.run(element, &mut number[..if *single { 4 } else { 8 }], 1)?;
                let [a, b, c, d, ..] = number;
                let narrow = f32::from_le_bytes([a, b, c, d]);
                let converted = if *single { f64::from(narrow) } else { f64::from_le_bytes(number) };
                let exact = match wide {
                    Some(wide) => wide.text(element, converted)?,
                    None => None,
                };
                match exact {
                    Some((exact, true)) if style == Style::Json => string(text, exact.as_bytes(), style),
                    Some((exact, _)) => text.push_str(&exact),
                    None if *single => float(text, narrow, style),
                    None => float(text, converted, style),
                }
            }
            Self::String(padding) => string(text, trim_padding(element, *padding), style),
            Self::VlenString => string(text, sequences.string(element)?, style),
            Self::Vlen { base, form } => {
                let bytes = sequences.get(element, base)?.map_or_else(Vec::new, |(_, bytes)| bytes.to_vec());
                let (open, close) = if style == Style::Json { ("[", "]") } else { ("(", ")") };
                let size = to_usize(base.size)?.max(1);
                list(text, (open, close), bytes.chunks_exact(size), |text, element| {
                    form.add(element, text, style, file, sequences)
                })?;
            }
            Self::Array { size, form } => {
                list(text, ("[", "]"), element.chunks_exact((*size).max(1)), |text, element| {
                    form.add(element, text, style, file, sequences)
                })?;
            }
            Self::Complex { size, form } => {
                list(text, ("[", "]"), element.chunks_exact((*size).max(1)), |text, part| {
                    form.add(part, text, style, file, sequences)
                })?;
            }
            Self::Compound(members) => {
                let braces = if style == Style::Json { ("{", "}") } else { ("{ ", " }") };
                list(text, braces, members.iter(), |text, (name, offset, size, form)| {
                    if style == Style::Json {
                        let _ = write!(text, "{}: ", Text(name));
                    }
                    let part = element.get(*offset..offset + size);
                    let part =
                        part.ok_or_else(|| Error::corrupt("a compound's member ends past its element"))?;
                    form.add(part, text, style, file, sequences)
                })?;
            }
            Self::Enum { names, base } => match names.get(element) {
                Some(name) if style == Style::Json => string(text, name, style),
                Some(name) => text.push_str(&describe::name(name)),
                None => base.add(element, text, style, file, sequences)?,
            },
            Self::Bytes => {
                let hex: Vec<_> = element.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = match style {
                    Style::Json => write!(text, "\"{}\"", hex.concat()),
                    Style::Ddl => write!(text, "{}", hex.join(":")),
                };
            }
            Self::Reference(kind) => {
                let shown = match file.reference(*kind, element) {
                    Ok(None) => "NULL".into(),
                    Ok(Some(reference)) => {
                        // An address in another file has no path in this one.
                        let path = match &reference.file {
                            None => file.paths()?.find(reference.address),
                            Some(_) => None,
                        };
                        let mut shown = match path {
                            Some(path) => describe::name(&path),
                            None => format!("object at {:#x}", reference.address),
                        };
                        if let Some(file) = &reference.file {
                            let _ = write!(shown, " of {}", describe::name(file.as_bytes()));
                        }
                        if let Some(attribute) = &reference.attribute {
                            let _ = write!(shown, ", attribute {}", describe::name(attribute.as_bytes()));
                        }
                        if let Some(region) = &reference.region {
                            add_selection(&mut shown, &region.selection);
                        }
                        shown
                    }
                    Err(error) => {
                        format!("cannot be followed: {}", describe::name(error.to_string().as_bytes()))
                    }
                };
                match style {
                    Style::Json => string(text, shown.as_bytes(), style),
                    Style::Ddl => text.push_str(&shown),
                }
            }
        }
        Ok(())
    }
}

/// Maximum number of coordinates in a list of blocks or points; longer ones are only counted.
const MAX_LISTED_COORDINATES: usize = 4096;

/// Adds a selection in the format of `h5dump`: blocks by their first and last corner, points by their
/// coordinates.
fn add_selection(text: &mut String, selection: &StoredSelection) {
    let point = |coordinates: &[u64]| {
        let coordinates: Vec<String> = coordinates.iter().map(u64::to_string).collect();
        format!("({})", coordinates.join(","))
    };
    let parts: Vec<String> = match selection {
        StoredSelection::None => Vec::new(),
        StoredSelection::All => {
            text.push_str(" {all}");
            return;
        }
        StoredSelection::Points { rank, coordinates } if coordinates.len() > MAX_LISTED_COORDINATES => {
            let _ = write!(text, " {{{} points}}", coordinates.len() / (*rank).max(1));
            return;
        }
        StoredSelection::Points { rank, coordinates } => {
            coordinates.chunks_exact((*rank).max(1)).map(point).collect()
        }
        StoredSelection::Blocks { rank, corners } if corners.len() > MAX_LISTED_COORDINATES => {
            let _ = write!(text, " {{{} blocks}}", corners.len() / (2 * rank).max(1));
            return;
        }
        StoredSelection::Blocks { rank, corners } => {
            let block = |corners: &[u64]| {
                let (first, last) = corners.split_at(corners.len() / 2);
                format!("{}-{}", point(first), point(last))
            };
            corners.chunks_exact((2 * rank).max(1)).map(block).collect()
        }
        StoredSelection::Regular(slabs) => {
            let count =
                slabs.iter().fold(1_u64, |product, slab| product.saturating_mul(slab.count.unwrap_or(1)));
            if count.saturating_mul(2 * slabs.len() as u64) > MAX_LISTED_COORDINATES as u64 {
                let _ = write!(text, " {{{count} blocks}}");
                return;
            }
            let mut blocks = vec![(Vec::new(), Vec::new())];
            for slab in slabs {
                let along = |number: u64| {
                    let start = slab.start.saturating_add(number.saturating_mul(slab.stride));
                    (start, start.saturating_add(slab.block.unwrap_or(1).max(1) - 1))
                };
                blocks = blocks
                    .into_iter()
                    .flat_map(|(first, last): (Vec<u64>, Vec<u64>)| {
                        (0..slab.count.unwrap_or(1)).map(along).map(move |(start, end)| {
                            ([&first[..], &[start]].concat(), [&last[..], &[end]].concat())
                        })
                    })
                    .collect();
            }
            blocks.iter().map(|(first, last)| format!("{}-{}", point(first), point(last))).collect()
        }
    };
    let _ = write!(text, " {{{}}}", parts.join(", "));
}

/// Adds items between an opening and a closing sign.
fn list<T>(
    text: &mut String,
    (open, close): (&str, &str),
    items: impl Iterator<Item = T>,
    mut add: impl FnMut(&mut String, T) -> Result<(), Error>,
) -> Result<(), Error> {
    text.push_str(open);
    for (number, item) in items.enumerate() {
        if number > 0 {
            text.push_str(", ");
        }
        add(text, item)?;
    }
    text.push_str(close);
    Ok(())
}

/// Adds a number with the fewest digits from which it can be read back.
fn float<F: num::Float>(text: &mut String, number: F, style: Style) {
    let _ = match (style, number.is_nan(), number.is_infinite()) {
        (Style::Json, true, _) => write!(text, "\"NaN\""),
        (Style::Json, _, true) if number.is_negative() => write!(text, "\"-Infinity\""),
        (Style::Json, _, true) => write!(text, "\"Infinity\""),
        (Style::Ddl, true, _) => write!(text, "nan"),
        // Without the point, readers of JSON take it for the integer 0, which has no sign.
        (Style::Json, ..) if number.is_negative_zero() => write!(text, "-0.0"),
        _ if number.is_plain() => write!(text, "{number}"),
        _ => write!(text, "{number:e}"),
    };
}

/// Common interface of `f32` and `f64`.
mod num {
    pub(super) trait Float: std::fmt::Display + std::fmt::LowerExp {
        fn is_nan(&self) -> bool;
        fn is_infinite(&self) -> bool;
        fn is_negative(&self) -> bool;
        fn is_negative_zero(&self) -> bool;
        /// Returns true for numbers that are customarily written without an exponent.
        fn is_plain(&self) -> bool;
    }

    impl Float for f32 {
        fn is_nan(&self) -> bool {
            Self::is_nan(*self)
        }
        fn is_infinite(&self) -> bool {
            Self::is_infinite(*self)
        }
        fn is_negative(&self) -> bool {
            *self < 0.0
        }
        fn is_negative_zero(&self) -> bool {
            *self == 0.0 && self.is_sign_negative()
        }
        fn is_plain(&self) -> bool {
            *self == 0.0 || (1e-5..1e16).contains(&self.abs())
        }
    }

    impl Float for f64 {
        fn is_nan(&self) -> bool {
            Self::is_nan(*self)
        }
        fn is_infinite(&self) -> bool {
            Self::is_infinite(*self)
        }
        fn is_negative(&self) -> bool {
            *self < 0.0
        }
        fn is_negative_zero(&self) -> bool {
            *self == 0.0 && self.is_sign_negative()
        }
        fn is_plain(&self) -> bool {
            *self == 0.0 || (1e-5..1e16).contains(&self.abs())
        }
    }
}

/// Returns a fixed-size string without its padding.
fn trim_padding(bytes: &[u8], padding: StringPadding) -> &[u8] {
    let end = match padding {
        StringPadding::NullTerminated => bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()),
        StringPadding::NullPadded => bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1),
        StringPadding::SpacePadded => bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1),
    };
    bytes.get(..end).unwrap_or_default()
}

fn string(text: &mut String, bytes: &[u8], style: Style) {
    let _ = match style {
        Style::Json => write!(text, "{}", Text(bytes)),
        Style::Ddl => {
            let escaped = hyperchunk_udf::escape::escape(&String::from_utf8_lossy(bytes), usize::MAX - 8);
            write!(text, "\"{}\"", escaped.replace('"', "\\\""))
        }
    };
}
