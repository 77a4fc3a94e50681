//! Datatypes, each part in the lowest version that can hold it. Source: specification §IV.A.2.d, "The
//! Datatype Message"; HDF5 2.x `H5Odtype.c` for the checks of readers.

use crate::encode::{Bytes, LibVersion, fit};
use crate::model::{
    ByteOrder, Class, Datatype, EnumMember, Float, Member, Name, Normalization, ReferenceKind, StringPadding,
};
use crate::parse::message::datatype as parse;
use crate::{Cursor, Error, Limits, Result};

const STRUCTURE: &str = "datatype message";
/// First version with unpadded names and with member offsets of minimal width.
const PACKED: u8 = 3;

/// Encodes a datatype.
///
/// # Errors
/// Unsupported if the release `oldest` has no such type; Limit if it is too large; Invalid if readers would
/// refuse or misinterpret it.
pub fn encode(datatype: &Datatype, oldest: LibVersion) -> Result<Vec<u8>> {
    encoded(datatype, oldest).map_err(|error| error.within(STRUCTURE))
}

fn encoded(datatype: &Datatype, oldest: LibVersion) -> Result<Vec<u8>> {
    let limits = Limits::default();
    let version = version(datatype, limits.datatype_depth)?;
    let needed = match version {
        5 => Some(("complex numbers", LibVersion::V200)),
        // `LibVersion` has no level for 1.12 and 1.14.
        4 => Some(("the references of HDF5 1.12 (`H5T_STD_REF`)", LibVersion::V200)),
        _ => None,
    };
    if let Some((what, needed)) = needed.filter(|(_, needed)| oldest < *needed) {
        let message = format!("cannot encode {what}: expected `LibVersion::{needed:?}`, got {oldest:?}");
        return Err(Error::unsupported(message));
    }
    let floor = if oldest == LibVersion::V18 { 1 } else { PACKED };
    let mut encoder = Encoder { bytes: Bytes::new(), composite: version.max(floor) };
    encoder.datatype(datatype)?;
    let bytes = encoder.bytes.into_vec();
    check(datatype, &bytes, &limits)?;
    Ok(bytes)
}

/// Checks the result: reading it must give the same datatype.
fn check(datatype: &Datatype, bytes: &[u8], limits: &Limits) -> Result<()> {
    let mut cursor = Cursor::new(bytes, STRUCTURE, 0);
    let found = parse::parse(&mut cursor, limits).map_err(|error| Error::invalid(error.message()))?;
    if found == *datatype && cursor.left() == 0 {
        return Ok(());
    }
    Err(Error::invalid("HDF5 cannot represent this datatype: readers would decode another one"))
}

/// Returns the lowest version that can hold the datatype.
fn version(datatype: &Datatype, depth: u32) -> Result<u8> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| Error::limit("the datatype nests deeper than the limit `datatype_depth`"));
    let inner = |inner: &Datatype| version(inner, depth.clone()?);
    match &datatype.class {
        Class::Float(Float { order: ByteOrder::Vax, .. }) => Ok(3),
        Class::Reference(ReferenceKind::Object2 | ReferenceKind::Region2 | ReferenceKind::Attribute) => Ok(4),
        Class::Complex { base } => inner(base).map(|version| version.max(5)),
        Class::Array { base, .. } => inner(base).map(|version| version.max(2)),
        Class::Vlen { base } | Class::Enum { base, .. } => inner(base),
        Class::Compound { members } => {
            members.iter().try_fold(1, |version, member| Ok(version.max(inner(&member.datatype)?)))
        }
        _ => Ok(1),
    }
}

struct Encoder {
    bytes: Bytes,
    /// Version of nested compounds, enumerations and arrays. Readers require an outer datatype to have a
    /// version at least as high as its parts.
    composite: u8,
}

impl Encoder {
    /// Appends the prefix common to all datatypes.
    fn prefix(&mut self, version: u8, class: u8, flags: u32, size: u64) -> Result<()> {
        let [flag_0, flag_1, flag_2, _] = flags.to_le_bytes();
        let size = fit(size, "bytes of an element")?;
        self.bytes.u8(version << 4 | class).raw(&[flag_0, flag_1, flag_2]).u32(size);
        Ok(())
    }

    fn datatype(&mut self, datatype: &Datatype) -> Result<()> {
        let size = datatype.size;
        match &datatype.class {
            Class::Integer { order, signed, offset, precision } => {
                let flags = order_flag(*order)? | u32::from(*signed) << 3;
                self.prefix(1, 0, flags, size)?;
                self.bytes.u16(*offset).u16(*precision);
            }
            Class::Float(float) => self.float(float, size)?,
            Class::Time { order, precision } => {
                self.prefix(1, 2, order_flag(*order)?, size)?;
                self.bytes.u16(*precision);
            }
            Class::String { padding, charset } => {
                let charset = u32::from(super::charset_number(*charset));
                self.prefix(1, 3, padding_number(*padding) | charset << 4, size)?;
            }
            Class::Bitfield { order, offset, precision } => {
                self.prefix(1, 4, order_flag(*order)?, size)?;
                self.bytes.u16(*offset).u16(*precision);
            }
            Class::Opaque { tag } => self.opaque(tag, size)?,
            Class::Compound { members } => self.compound(members, size)?,
            Class::Reference(kind) => self.reference(*kind, size)?,
            Class::Enum { base, members } => self.enumeration(base, members, size)?,
            Class::Vlen { base } => {
                expect_size(size, 16)?;
                self.prefix(self.sequence_version(base)?, 9, 0, size)?;
                self.datatype(base)?;
            }
            Class::VlenString { padding, charset } => {
                expect_size(size, 16)?;
                let charset = u32::from(super::charset_number(*charset));
                self.prefix(1, 9, 1 | padding_number(*padding) << 4 | charset << 8, size)?;
                // Datatype of the characters, as libraries store it.
                self.datatype(&Datatype::integer(1, false, ByteOrder::Little))?;
            }
            Class::Array { dims, base } => self.array(dims, base, size)?,
            Class::Complex { base } => {
                self.prefix(5, 11, 1, size)?;
                self.datatype(base)?;
            }
        }
        Ok(())
    }

    fn float(&mut self, float: &Float, size: u64) -> Result<()> {
        let (version, order) = match float.order {
            ByteOrder::Little => (1, 0),
            ByteOrder::Big => (1, 0x01),
            ByteOrder::Vax => (3, 0x41),
        };
        let normalization = match float.normalization {
            Normalization::None => 0,
            Normalization::Set => 0x10,
            Normalization::Implied => 0x20,
        };
        let narrow = |number: u16| fit::<u8, _>(number, "as a bit position or bit count");
        let flags = order | normalization | u32::from(narrow(float.sign)?) << 8;
        self.prefix(version, 1, flags, size)?;
        self.bytes.u16(float.offset).u16(float.precision);
        for number in [float.exponent_at, float.exponent_bits, float.mantissa_at, float.mantissa_bits] {
            self.bytes.u8(narrow(number)?);
        }
        self.bytes.u32(fit(float.exponent_bias, "as an exponent bias")?);
        Ok(())
    }

    fn opaque(&mut self, tag: &Name, size: u64) -> Result<()> {
        // Libraries write at most 255 bytes, in a multiple of 8.
        const MAX_TAG_BYTES: usize = 248;
        let tag = tag.as_bytes();
        let length = tag.len().next_multiple_of(8);
        if length > MAX_TAG_BYTES {
            let message =
                format!("cannot encode a tag: expected at most {MAX_TAG_BYTES} bytes, got {}", tag.len());
            return Err(Error::limit(message));
        }
        self.prefix(1, 5, fit(length, "bytes of a tag")?, size)?;
        self.bytes.raw(tag).zeros(length.saturating_sub(tag.len()));
        Ok(())
    }

    /// Appends the name of a member.
    fn name(&mut self, name: &Name) -> Result<()> {
        if name.as_bytes().contains(&0) {
            let message = format!("cannot encode the name {name:?}: expected no NUL, got one");
            return Err(Error::invalid(message));
        }
        self.bytes.raw(name.as_bytes()).u8(0);
        if self.composite < PACKED {
            let length = name.as_bytes().len().saturating_add(1);
            self.bytes.zeros(length.next_multiple_of(8).saturating_sub(length));
        }
        Ok(())
    }

    fn compound(&mut self, members: &[Member], size: u64) -> Result<()> {
        let count = fit::<u16, _>(members.len(), "members of a compound type")?;
        self.prefix(self.composite, 6, count.into(), size)?;
        let width = match self.composite {
            ..PACKED => 4,
            _ => size.checked_ilog2().map_or(1, |power| power as usize / 8).saturating_add(1),
        };
        for Member { name, offset, datatype } in members {
            self.name(name)?;
            self.bytes.uint(*offset, width)?;
            if self.composite == 1 {
                // No dimensions for the member: arrays have datatypes of their own.
                self.bytes.zeros(28);
            }
            self.datatype(datatype)?;
        }
        Ok(())
    }

    fn reference(&mut self, kind: ReferenceKind, size: u64) -> Result<()> {
        /// Version of the reference encoding.
        const ENCODING: u32 = 1;
        let (version, flags, expected) = match kind {
            ReferenceKind::Object1 => (1, 0, Some(8)),
            ReferenceKind::Region1 => (1, 1, Some(12)),
            ReferenceKind::Object2 => (4, 2 | ENCODING << 4, None),
            ReferenceKind::Region2 => (4, 3 | ENCODING << 4, None),
            ReferenceKind::Attribute => (4, 4 | ENCODING << 4, None),
        };
        if let Some(expected) = expected {
            expect_size(size, expected)?;
        }
        self.prefix(version, 7, flags, size)
    }

    fn enumeration(&mut self, base: &Datatype, members: &[EnumMember], size: u64) -> Result<()> {
        let count = fit::<u16, _>(members.len(), "members of an enumeration")?;
        self.prefix(self.composite, 8, count.into(), size)?;
        self.datatype(base)?;
        for member in members {
            self.name(&member.name)?;
        }
        for member in members {
            if member.value.len() as u64 != base.size {
                let message = format!(
                    "cannot encode the enumeration member `{}`: expected a value of {} bytes, got {}",
                    member.name,
                    base.size,
                    member.value.len()
                );
                return Err(Error::invalid(message));
            }
            self.bytes.raw(&member.value);
        }
        Ok(())
    }

    fn array(&mut self, dims: &[u64], base: &Datatype, size: u64) -> Result<()> {
        let version = self.composite;
        self.prefix(version, 10, 0, size)?;
        self.bytes.u8(fit(dims.len(), "dimensions of an array")?);
        if version < PACKED {
            self.bytes.zeros(3);
        }
        for dim in dims {
            self.bytes.u32(fit(*dim, "elements of a dimension of an array")?);
        }
        if version < PACKED {
            // Permutation of the dimensions, always the identity.
            for (number, _) in (0..).zip(dims) {
                self.bytes.u32(number);
            }
        }
        self.datatype(base)
    }

    /// Returns the version of a sequence with this base type: the base type's own.
    fn sequence_version(&self, base: &Datatype) -> Result<u8> {
        Ok(match &base.class {
            Class::Compound { .. } | Class::Enum { .. } | Class::Array { .. } => self.composite,
            Class::Vlen { base } => self.sequence_version(base)?,
            _ => version(base, Limits::default().datatype_depth)?,
        })
    }
}

fn expect_size(size: u64, expected: u64) -> Result<()> {
    if size == expected {
        return Ok(());
    }
    Err(Error::invalid(format!("cannot encode an element size: expected {expected} bytes, got {size}")))
}

fn order_flag(order: ByteOrder) -> Result<u32> {
    match order {
        ByteOrder::Little => Ok(0),
        ByteOrder::Big => Ok(1),
        ByteOrder::Vax => {
            Err(Error::unsupported("VAX byte order is only supported for floating-point numbers"))
        }
    }
}

fn padding_number(padding: StringPadding) -> u32 {
    match padding {
        StringPadding::NullTerminated => 0,
        StringPadding::NullPadded => 1,
        StringPadding::SpacePadded => 2,
    }
}

#[cfg(test)]
mod tests;
