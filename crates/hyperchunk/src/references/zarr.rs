//! Description of a dataset as a Zarr array, version 2.

use super::Kind;
use crate::npy::Element;
use crate::{Dataset, Error, Result};
use hyperchunk_format::model::{ByteOrder, Class, Dataspace, Datatype, FillWhen, Filter, Layout};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Maximum size in bytes of the chunks into which contiguous data are divided, if they divide evenly.
const MAX_CHUNK_BYTES: u64 = 16 << 20;

/// A dataset as a Zarr array.
pub(super) struct Array {
    /// The contents of `.zarray`.
    pub(super) metadata: Value,
    shape: Vec<u64>,
    rank: usize,
    /// Number of axes that elements of an array datatype add; chunks have the coordinate 0 on these.
    inner: usize,
    chunks: Vec<ChunkLocation>,
}

/// A chunk: its scaled coordinates, file offset and length.
struct ChunkLocation(Vec<u64>, u64, u64);

impl Array {
    /// Describes a dataset.
    ///
    /// # Errors
    /// Unsupported if Zarr cannot express it exactly; the errors of its chunks.
    pub(super) fn new(dataset: &Dataset, kind: Kind) -> Result<Self> {
        let element = Element::new(dataset.datatype())?;
        if element.datatype != *dataset.datatype() {
            return Err(Error::unsupported(
                "Zarr has no equivalent of its numbers or of the layout of its compounds",
            ));
        }
        if !dataset.external().is_empty() {
            return Err(Error::unsupported("its data are in other files"));
        }
        if dataset.store().is_some() {
            return Err(Error::unsupported("its data are in the logs of a sharded store"));
        }
        if matches!(dataset.dataspace(), Dataspace::Null) {
            return Err(Error::unsupported("Zarr has no null arrays"));
        }
        let dims = dataset.dims();
        let base = dataset.object().file().superblock().base;
        let mut filters = dataset.pipeline().to_vec();
        let (chunk, chunks) = match dataset.layout() {
            Layout::Chunked(chunked) => {
                let (chunks, masks) = placed(dataset, base)?;
                let keep = |number: usize| number > 31 || masks & (1 << number) == 0;
                let kept = filters.drain(..).enumerate().filter(|(number, _)| keep(*number));
                filters = kept.map(|(_, filter)| filter).collect();
                let uneven = dims.iter().zip(&chunked.dims).any(|(dim, chunk)| dim % (*chunk).max(1) != 0);
                if chunked.edge_chunks_unfiltered && uneven {
                    return Err(Error::unsupported(
                        "its partial chunks at the edges are stored without filters",
                    ));
                }
                (chunked.dims.clone(), chunks)
            }
            Layout::Contiguous { address, .. } => {
                pieces(dims, dataset.datatype().size, address.map(|at| at.saturating_add(base)))
            }
            Layout::Compact { .. } => (dims.iter().map(|dim| (*dim).max(1)).collect(), Vec::new()),
            Layout::Virtual { .. } => {
                return Err(Error::unsupported("a virtual dataset has no chunks of its own"));
            }
        };
        let size = dataset.datatype().size / element.shape().iter().product::<u64>().max(1);
        let filters: Vec<Value> = filters.iter().map(|filter| codec(filter, size)).collect::<Result<_>>()?;
        let base_type = match &dataset.datatype().class {
            Class::Array { base, .. } => base,
            _ => dataset.datatype(),
        };
        let shape: Vec<u64> = dims.iter().chain(element.shape()).copied().collect();
        let count = dims.iter().zip(&chunk).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1)));
        let is_compact = matches!(dataset.layout(), Layout::Compact { .. });
        let is_whole = is_compact || chunks.len() as u64 == count.fold(1, u64::saturating_mul);
        let fill = match kind {
            Kind::Kerchunk => fill(dataset, base_type, is_whole)?,
            // VirtualiZarr's readers take the marker of missing data from the attribute `_FillValue`.
            Kind::VirtualiZarr => unwritten(dataset, base_type)?,
        };
        let metadata = json!({
            "zarr_format": 2,
            "shape": shape,
            "chunks": chunk.iter().chain(element.shape()).collect::<Vec<_>>(),
            "dtype": dtype(base_type)?,
            "compressor": null,
            "filters": if filters.is_empty() { Value::Null } else { Value::Array(filters) },
            "fill_value": fill,
            "order": "C",
        });
        Ok(Self { metadata, rank: shape.len(), shape, inner: element.shape().len(), chunks })
    }

    /// Returns the lengths of its axes.
    pub(super) fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the key of a chunk.
    pub(super) fn key(&self, place: &[u64]) -> String {
        if self.rank == 0 {
            return "0".into();
        }
        let outer = self.rank - self.inner;
        let place =
            (0..self.rank).map(|axis| if axis < outer { place.get(axis).copied().unwrap_or(0) } else { 0 });
        place.map(|at| at.to_string()).collect::<Vec<_>>().join(".")
    }

    /// Iterates over its chunks: key, offset in the file, length.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (String, u64, u64)> {
        self.chunks.iter().map(|ChunkLocation(place, offset, length)| (self.key(place), *offset, *length))
    }
}

/// Returns the stored chunks, and the filter mask that all of them share.
///
/// # Errors
/// Unsupported if chunks have different filter masks.
fn placed(dataset: &Dataset, base: u64) -> Result<(Vec<ChunkLocation>, u32)> {
    let chunks = dataset.chunks()?;
    let mask = chunks.first().map_or(0, |chunk| chunk.filter_mask);
    if chunks.iter().any(|chunk| chunk.filter_mask != mask) {
        return Err(Error::unsupported("some of its chunks skip filters, which references cannot express"));
    }
    let place = |chunk: hyperchunk_format::model::Chunk| {
        ChunkLocation(chunk.scaled, chunk.address.saturating_add(base), chunk.size)
    };
    Ok((chunks.into_iter().map(place).collect(), mask))
}

/// Divides contiguous data along the slowest axis into chunks of equal size. Returns a chunk's extent, and
/// the chunks.
fn pieces(dims: &[u64], size: u64, offset: Option<u64>) -> (Vec<u64>, Vec<ChunkLocation>) {
    let mut chunk: Vec<u64> = dims.iter().map(|dim| (*dim).max(1)).collect();
    let row = dims.iter().skip(1).fold(size, |row, dim| row.saturating_mul(*dim));
    if let Some((rows, extent)) = chunk.first_mut().zip(dims.first().filter(|extent| **extent > 0)) {
        let most = (MAX_CHUNK_BYTES / row.max(1)).clamp(1, *extent);
        // The largest number of rows that divides the extent, unless that would make far too many chunks.
        let even = (most.div_ceil(16)..=most).rev().take(1 << 20).find(|rows| extent % rows == 0);
        *rows = even.unwrap_or(*extent);
    }
    let Some(offset) = offset.filter(|_| !dims.contains(&0)) else { return (chunk, Vec::new()) };
    let Some((rows, extent)) = chunk.first().zip(dims.first()) else {
        return (chunk, vec![ChunkLocation(Vec::new(), offset, size)]);
    };
    let length = rows.saturating_mul(row);
    let placed = (0..extent / rows).map(|number| {
        let mut place = vec![0; dims.len()];
        if let Some(first) = place.first_mut() {
            *first = number;
        }
        ChunkLocation(place, offset.saturating_add(number.saturating_mul(length)), length)
    });
    let placed = placed.collect();
    (chunk, placed)
}

/// Returns numcodecs' configuration of a filter.
fn codec(filter: &Filter, size: u64) -> Result<Value> {
    let parameter = |number: usize, usual: u32| filter.parameters.get(number).copied().unwrap_or(usual);
    Ok(match filter.id {
        1 => json!({"id": "zlib", "level": parameter(0, 6)}),
        2 => json!({"id": "shuffle", "elementsize": parameter(0, u32::try_from(size).unwrap_or(1))}),
        3 => json!({"id": "fletcher32"}),
        307 => json!({"id": "bz2", "level": parameter(0, 9)}),
        // A Blosc frame contains its parameters, so these do not matter for decoding.
        32001 => json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        32015 => json!({"id": "zstd", "level": parameter(0, 3)}),
        id => return Err(Error::unsupported(format!("numcodecs has no codec for filter {id}"))),
    })
}

/// Returns the base type and Zarr's name of a complex number stored as a compound, as h5py does; `None` for
/// other types.
fn complex(datatype: &Datatype) -> Result<Option<(&Datatype, String)>> {
    let Class::Compound { members } = &datatype.class else { return Ok(None) };
    let [real, imaginary] = members.as_slice() else { return Ok(None) };
    let half = &real.datatype;
    let named = real.name.as_bytes() == b"r" && imaginary.name.as_bytes() == b"i";
    let together = real.offset == 0 && imaginary.offset == half.size && datatype.size == half.size * 2;
    if !named || !together || imaginary.datatype != *half || !matches!(half.class, Class::Float(_)) {
        return Ok(None);
    }
    let element = Element::new(half)?;
    let name = match element.descr().trim_matches('\'') {
        "<f4" => "<c8",
        ">f4" => ">c8",
        "<f8" => "<c16",
        ">f8" => ">c16",
        _ => return Ok(None),
    };
    Ok(Some((half, name.to_owned())))
}

/// Returns the type name of NumPy's datetimes and durations, which h5py stores as opaque bytes with the name
/// as tag.
fn datetime(datatype: &Datatype) -> Option<&str> {
    let Class::Opaque { tag } = &datatype.class else { return None };
    let name = std::str::from_utf8(tag.as_bytes()).ok()?.strip_prefix("NUMPY:")?;
    let unit =
        name.strip_prefix(['<', '>'])?.strip_prefix(['M', 'm'])?.strip_prefix("8[")?.strip_suffix(']')?;
    (datatype.size == 8 && unit.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(name)
}

/// Returns Zarr's name of a datatype.
fn dtype(datatype: &Datatype) -> Result<Value> {
    if let Some((_, name)) = complex(datatype)? {
        return Ok(json!(name));
    }
    if let Some(name) = datetime(datatype) {
        return Ok(json!(name));
    }
    let Class::Compound { members } = &datatype.class else {
        let element = Element::new(datatype)?;
        return Ok(json!(element.descr().trim_matches('\'')));
    };
    let member = |member: &hyperchunk_format::model::Member| {
        let name = member
            .name
            .as_str()
            .ok_or_else(|| Error::unsupported("a compound member's name is not UTF-8"))?;
        let element = Element::new(&member.datatype)?;
        let base = match &member.datatype.class {
            Class::Array { base, .. } => base,
            _ => &member.datatype,
        };
        Ok(match element.shape() {
            [] => json!([name, dtype(base)?]),
            shape => json!([name, dtype(base)?, shape]),
        })
    };
    members.iter().map(member).collect::<Result<Vec<Value>>>().map(Value::Array)
}

/// Returns the fill value for readers that also use it as the marker of missing data. It is the value of
/// unwritten elements; or, if that differs from the attribute `_FillValue` and all chunks are stored, the
/// attribute's value.
///
/// # Errors
/// Unsupported if Zarr cannot express it, or if the two values differ and unwritten elements exist: Zarr
/// version 2 has one fill value for both.
fn fill(dataset: &Dataset, datatype: &Datatype, is_whole: bool) -> Result<Value> {
    let value = unwritten(dataset, datatype)?;
    let marker = dataset.object().attribute(b"_FillValue")?;
    let marker = marker.and_then(|marker| number(&marker.datatype, &marker.data));
    let is_same =
        |marker: &Value| *marker == value || (marker.is_number() && marker.as_f64() == value.as_f64());
    match marker {
        Some(marker) if !value.is_null() && !is_same(&marker) => match is_whole {
            true => Ok(marker),
            false => Err(Error::unsupported(format!(
                "unwritten elements are {value} and the attribute _FillValue is {marker}, but Zarr has one fill \
                 value for both"
            ))),
        },
        _ => Ok(value),
    }
}

/// Returns the value of unwritten elements; null for zeros that the user did not define as the fill value.
fn unwritten(dataset: &Dataset, datatype: &Datatype) -> Result<Value> {
    let defined = matches!(&dataset.fill().value, FillWhen::User(bytes) if !bytes.is_empty());
    // Readers treat a fill value as a marker of missing data. If the user set none, the result is null,
    // for which Zarr reads zeros.
    let Some(bytes) = dataset.unwritten()?.filter(|_| defined) else { return Ok(Value::Null) };
    let size = usize::try_from(datatype.size).unwrap_or(usize::MAX);
    let first = bytes.get(..size).unwrap_or_default();
    if bytes.chunks(size.max(1)).any(|element| element != first) {
        return Err(Error::unsupported("the fill value has different numbers within an element"));
    }
    if let Some(value) = number(datatype, first) {
        return Ok(value);
    }
    if let Some((half, _)) = complex(datatype)? {
        let parts = first.chunks(usize::try_from(half.size).unwrap_or(1).max(1));
        if let Some(parts) = parts.map(|part| number(half, part)).collect::<Option<Vec<_>>>() {
            return Ok(Value::Array(parts));
        }
    }
    // Zarr reads zeros for null.
    if first.iter().all(|byte| *byte == 0) {
        return Ok(Value::Null);
    }
    if let (Some(name), Ok(count)) = (datetime(datatype), <[u8; 8]>::try_from(first)) {
        let little = name.starts_with('<');
        return Ok(json!(if little { i64::from_le_bytes(count) } else { i64::from_be_bytes(count) }));
    }
    match datatype.class {
        Class::String { .. } | Class::Opaque { .. } | Class::Compound { .. } => Ok(json!(base64(first))),
        _ => Err(Error::unsupported("Zarr cannot express its fill value")),
    }
}

/// Converts a number to JSON as Zarr does; `None` for other types.
pub(super) fn number(datatype: &Datatype, bytes: &[u8]) -> Option<Value> {
    let ordered = |order: ByteOrder| {
        let mut ordered = [0_u8; 8];
        let length = bytes.len();
        let to = ordered.get_mut(..length)?;
        to.copy_from_slice(bytes);
        match order {
            ByteOrder::Big => to.reverse(),
            ByteOrder::Little => {}
            ByteOrder::Vax => return None,
        }
        Some(u64::from_le_bytes(ordered))
    };
    match &datatype.class {
        Class::Integer { order, signed, offset: 0, precision }
            if u64::from(*precision) == datatype.size * 8 =>
        {
            let number = ordered(*order)?;
            let shift = 64_u32.checked_sub(u32::from(*precision))?;
            Some(match signed {
                true => json!((number << shift).cast_signed() >> shift),
                false => json!(number),
            })
        }
        Class::Float(float) => {
            let number = ordered(float.order)?;
            let plain = Datatype::ieee(u16::try_from(datatype.size).ok()?, float.order);
            if plain != *datatype {
                return None;
            }
            let value = match datatype.size {
                2 => half(u16::try_from(number).ok()?),
                4 => f64::from(f32::from_bits(u32::try_from(number).ok()?)),
                _ => f64::from_bits(number),
            };
            Some(match value {
                value if value.is_nan() => json!("NaN"),
                f64::INFINITY => json!("Infinity"),
                f64::NEG_INFINITY => json!("-Infinity"),
                value => json!(value),
            })
        }
        Class::Enum { base, .. } => match Element::new(datatype).ok()?.descr() {
            "'|b1'" => Some(json!(bytes.first().is_some_and(|byte| *byte != 0))),
            _ => number(base, bytes),
        },
        _ => None,
    }
}

/// Converts a half-precision number.
fn half(bits: u16) -> f64 {
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2_f64.powi(exponent - 15),
    };
    if sign == 1 { -value } else { value }
}

/// Encodes bytes in base 64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |number: usize| u32::from(part.get(number).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            match digit <= part.len() {
                true => {
                    let digit = DIGITS.get((bits >> (18 - 6 * digit) & 63) as usize).copied().unwrap_or(b'A');
                    let _ = text.write_char(char::from(digit));
                }
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64() {
        let check = |bytes: &[u8], text| assert_eq!(base64(bytes), text);
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(b"\xff\xfe\xfd\xfc", "//79/A==");
    }

    #[test]
    fn numbers() {
        let check = |datatype: &Datatype, bytes: &[u8], text| {
            assert_eq!(number(datatype, bytes).map(|value| value.to_string()).as_deref(), text);
        };
        check(&Datatype::integer(2, true, ByteOrder::Big), &[0xff, 0xfe], Some("-2"));
        check(&Datatype::integer(8, false, ByteOrder::Little), &[0xff; 8], Some("18446744073709551615"));
        check(&Datatype::ieee(4, ByteOrder::Little), &1.5_f32.to_le_bytes(), Some("1.5"));
        check(&Datatype::ieee(8, ByteOrder::Big), &f64::NAN.to_be_bytes(), Some("\"NaN\""));
        check(&Datatype::ieee(2, ByteOrder::Little), &[0x00, 0xfc], Some("\"-Infinity\""));
        check(&Datatype::ieee(2, ByteOrder::Little), &[0x01, 0x3c], Some("1.0009765625"));
    }

    #[test]
    fn pieces_come_out_even() {
        let check = |dims: &[u64], size, rows: u64, count: usize| {
            let (chunk, placed) = pieces(dims, size, Some(100));
            assert_eq!((chunk[0], placed.len()), (rows, count), "{dims:?}");
            let bytes: u64 = placed.iter().map(|ChunkLocation(_, _, length)| length).sum();
            assert_eq!(bytes, dims.iter().product::<u64>() * size);
        };
        check(&[1 << 27], 8, 1 << 21, 64);
        check(&[10, 10], 8, 10, 1);
        // A prime number of rows.
        check(&[10_000_019], 8, 10_000_019, 1);
        check(&[4, 1 << 30], 8, 1, 4);
    }
}
