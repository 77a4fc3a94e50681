//! Stored elements as columns: buffers with the layout of JavaScript's typed arrays, and JSON that names them.

use hyperchunk::convert::Conversion;
use hyperchunk::model::{ByteOrder, Class, Datatype, Float, StringPadding};
use hyperchunk::{Error, File, Result, Sequences};
use serde_json::{Value, json};

/// Maximum nesting depth of a datatype; the reader has a lower limit.
const MAX_DEPTH: u32 = 64;

/// Returns a buffer of zeros.
///
/// # Errors
/// Limit if there is no memory.
pub(crate) fn zeros(length: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(length)
        .map_err(|_| Error::limit(format!("no memory for {length} bytes; read a smaller part")))?;
    buffer.resize(length, 0);
    Ok(buffer)
}

/// Converts a count to a size in memory.
pub(crate) fn narrow(count: u64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::limit("larger than the memory of WebAssembly; read a smaller part"))
}

/// A number's stored type (as an integer or a float), its type in memory, and the typed array for it.
struct Number {
    stored: Datatype,
    memory: Datatype,
    array: &'static str,
}

fn number(of: &Datatype) -> Result<Option<Number>> {
    let integer = |stored: Datatype, signed: bool, precision: u16| {
        let (bytes, array) = match (precision, signed) {
            (0..=8, true) => (1, "Int8Array"),
            (0..=8, false) => (1, "Uint8Array"),
            (9..=16, true) => (2, "Int16Array"),
            (9..=16, false) => (2, "Uint16Array"),
            (17..=32, true) => (4, "Int32Array"),
            (17..=32, false) => (4, "Uint32Array"),
            (33..=64, true) => (8, "BigInt64Array"),
            (33..=64, false) => (8, "BigUint64Array"),
            _ => {
                return Err(Error::unsupported(format!("no typed array holds integers of {precision} bits")));
            }
        };
        Ok(Some(Number { stored, memory: Datatype::integer(bytes, signed, ByteOrder::Little), array }))
    };
    match &of.class {
        Class::Integer { signed, precision, .. } => integer(of.clone(), *signed, *precision),
        Class::Bitfield { order, offset, precision } => {
            let class =
                Class::Integer { order: *order, signed: false, offset: *offset, precision: *precision };
            integer(Datatype { size: of.size, class }, false, *precision)
        }
        Class::Time { order, precision } => {
            let class = Class::Integer { order: *order, signed: true, offset: 0, precision: *precision };
            integer(Datatype { size: of.size, class }, true, *precision)
        }
        Class::Enum { base, .. } => number(base),
        Class::Float(float) => {
            let (bytes, array) = if fits_single(float) { (4, "Float32Array") } else { (8, "Float64Array") };
            Ok(Some(Number { stored: of.clone(), memory: Datatype::ieee(bytes, ByteOrder::Little), array }))
        }
        _ => Ok(None),
    }
}

/// Returns whether a float of 4 bytes holds all values of a type.
fn fits_single(float: &Float) -> bool {
    float.mantissa_bits <= 23
        && (float.exponent_bits < 8 || (float.exponent_bits == 8 && float.exponent_bias == 127))
}

/// Decodes stored integers.
pub(crate) fn integers(of: &Datatype, bytes: &[u8], count: usize) -> Result<Vec<i128>> {
    let lacking = || Error::unsupported("an enumeration whose base type is not an integer");
    let Number { stored, .. } = number(of)?.ok_or_else(lacking)?;
    let Class::Integer { signed, .. } = stored.class else { return Err(lacking()) };
    let mut converted = zeros(count.saturating_mul(8))?;
    Conversion::new(&stored, &Datatype::integer(8, signed, ByteOrder::Little))?.run(
        bytes,
        &mut converted,
        count,
    )?;
    let (elements, _) = converted.as_chunks();
    let value = |element: &[u8; 8]| match signed {
        true => i64::from_le_bytes(*element).into(),
        false => u64::from_le_bytes(*element).into(),
    };
    Ok(elements.iter().map(value).collect())
}

/// Builder of the columns of one answer.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    file: &'a File,
    sequences: Sequences<'a>,
    buffers: &'a mut Vec<Vec<u8>>,
}

impl<'a> Columns<'a> {
    /// Creates the builder for elements of a file, which adds to the buffers of an answer.
    pub(crate) fn new(file: &'a File, buffers: &'a mut Vec<Vec<u8>>) -> Self {
        Self { file, sequences: file.sequences(), buffers }
    }

    fn keep(&mut self, buffer: Vec<u8>) -> usize {
        self.buffers.push(buffer);
        // Part 0 of an answer is JSON.
        self.buffers.len()
    }

    /// Converts `count` stored elements to a column.
    ///
    /// # Errors
    /// Unsupported for numbers that no typed array holds; the errors of reading variable-length elements.
    pub(crate) fn add(&mut self, of: &Datatype, bytes: Vec<u8>, count: usize) -> Result<Value> {
        self.column(of, bytes, count, MAX_DEPTH)
    }

    fn column(&mut self, of: &Datatype, bytes: Vec<u8>, count: usize, depth: u32) -> Result<Value> {
        let depth = depth.checked_sub(1).ok_or_else(|| Error::limit("the datatype has too many levels"))?;
        let size = narrow(of.size)?;
        if let Some(Number { stored, memory, array }) = number(of)? {
            let conversion = Conversion::new(&stored, &memory)?;
            let buffer = if conversion.is_copy() {
                bytes
            } else {
                let mut converted = zeros(narrow(memory.size)?.saturating_mul(count))?;
                conversion.run(&bytes, &mut converted, count)?;
                converted
            };
            return Ok(json!({"kind": "numbers", "array": array, "buffer": self.keep(buffer)}));
        }
        match &of.class {
            Class::String { padding, .. } => {
                let texts = bytes.chunks_exact(size.max(1)).map(|element| trimmed(element, *padding));
                let mut packed = PackedStrings::default();
                texts.take(count).for_each(|text| packed.add(text));
                packed.lengths.resize(count.saturating_mul(4), 0);
                Ok(self.strings(packed))
            }
            Class::VlenString { .. } => {
                self.file.load_heaps(&bytes)?;
                let mut packed = PackedStrings::default();
                for element in bytes.chunks_exact(size.max(1)) {
                    packed.add(self.sequences.string(element)?);
                }
                Ok(self.strings(packed))
            }
            Class::Opaque { .. } => Ok(json!({"kind": "bytes", "size": size, "buffer": self.keep(bytes)})),
            Class::Reference(kind) => {
                let mut addresses = zeros(count.saturating_mul(8))?;
                let (places, _) = addresses.as_chunks_mut::<8>();
                for (element, place) in bytes.chunks_exact(size.max(1)).zip(places) {
                    let reference = self.file.reference(*kind, element)?;
                    if reference.as_ref().is_some_and(|reference| reference.file.is_some()) {
                        return Err(Error::unsupported("references to objects of other files"));
                    }
                    *place = reference.map_or(0, |reference| reference.address).to_le_bytes();
                }
                Ok(json!({"kind": "numbers", "array": "BigUint64Array", "buffer": self.keep(addresses)}))
            }
            Class::Compound { members } => {
                let mut columns = Vec::new();
                for member in members {
                    let (from, length) = (narrow(member.offset)?, narrow(member.datatype.size)?);
                    let part = |element: &'_ [u8]| {
                        from.checked_add(length).map(|end| element.get(from..end).is_some())
                    };
                    let mut gathered = Vec::new();
                    let total = length.saturating_mul(count);
                    gathered
                        .try_reserve_exact(total)
                        .map_err(|_| Error::limit("no memory; read a smaller part"))?;
                    for element in bytes.chunks_exact(size.max(1)) {
                        if part(element) != Some(true) {
                            return Err(Error::corrupt("a member is outside its element"));
                        }
                        gathered.extend_from_slice(element.get(from..from + length).unwrap_or_default());
                    }
                    let column = self.column(&member.datatype, gathered, count, depth)?;
                    columns.push(json!({"name": member.name.to_string(), "column": column}));
                }
                Ok(json!({"kind": "compound", "members": columns}))
            }
            Class::Array { dims, base } => {
                let each = narrow(of.array_length())?;
                let column = self.column(base, bytes, each.saturating_mul(count), depth)?;
                Ok(json!({"kind": "array", "shape": dims, "each": each, "column": column}))
            }
            Class::Complex { base } => {
                let column = self.column(base, bytes, count.saturating_mul(2), depth)?;
                Ok(json!({"kind": "array", "shape": [2], "each": 2, "column": column}))
            }
            Class::Vlen { base } => {
                self.file.load_heaps(&bytes)?;
                let mut lengths = Vec::new();
                let (mut elements, mut total) = (Vec::new(), 0_usize);
                for element in bytes.chunks_exact(size.max(1)) {
                    let found = self.sequences.get(element, base)?;
                    let (number, part) = found.unwrap_or((0, &[]));
                    let number = u32::try_from(number)
                        .map_err(|_| Error::limit("a sequence has 2^32 or more elements"))?;
                    lengths.extend_from_slice(&number.to_le_bytes());
                    elements.extend_from_slice(part);
                    total = total.saturating_add(number as usize);
                }
                let column = self.column(base, elements, total, depth)?;
                Ok(json!({"kind": "sequences", "lengths": self.keep(lengths), "column": column}))
            }
            _ => Err(Error::unsupported("elements of a class that this build does not know")),
        }
    }

    fn strings(&mut self, packed: PackedStrings) -> Value {
        json!({"kind": "strings", "lengths": self.keep(packed.lengths), "bytes": self.keep(packed.bytes)})
    }
}

/// Strings, one after another, with their lengths as 32-bit integers.
#[derive(Default)]
struct PackedStrings {
    lengths: Vec<u8>,
    bytes: Vec<u8>,
}

impl PackedStrings {
    fn add(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.lengths.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text);
    }
}

/// Returns a string of fixed length without its padding.
fn trimmed(element: &[u8], padding: StringPadding) -> &[u8] {
    let end = match padding {
        StringPadding::NullTerminated => element.iter().position(|byte| *byte == 0).unwrap_or(element.len()),
        StringPadding::NullPadded => element.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1),
        StringPadding::SpacePadded => element.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1),
    };
    element.get(..end).unwrap_or_default()
}
