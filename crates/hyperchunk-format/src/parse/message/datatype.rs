//! Datatypes of versions 1 to 5. Source: specification §IV.A.2.d, "The Datatype Message"; HDF5 2.x
//! `H5Odtype.c` for the checks.

use crate::model::{
    ByteOrder, CharacterSet, Class, Datatype, EnumMember, Float, Member, Normalization, ReferenceKind,
    StringPadding,
};
use crate::{Cursor, Error, Limits, Result};
use std::collections::HashSet;

/// Reads a datatype.
///
/// # Errors
/// Corrupt if it contradicts itself, Unsupported if its version, class or kind is unknown, Limit if it nests
/// deeper than the limit `datatype_depth`.
pub fn parse(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Datatype> {
    Parser { cursor, left: limits.datatype_depth }.datatype()
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    /// Remaining nesting depth.
    left: u32,
}

impl<'a> Parser<'_, 'a> {
    fn datatype(&mut self) -> Result<Datatype> {
        let [first, flag_0, flag_1, flag_2] = self.cursor.array()?;
        let version = first >> 4;
        let flags = u32::from_le_bytes([flag_0, flag_1, flag_2, 0]);
        if !(1..=5).contains(&version) {
            return Err(self.unsupported(format!("version {version} is not supported: expected 1 to 5")));
        }
        let size = self.cursor.u32()?;
        if size == 0 {
            return Err(self.corrupt("a size of 0 bytes"));
        }
        let class = match first & 0x0f {
            0 => self.integer(flags, size)?,
            1 => self.float(version, flags, size)?,
            2 => Class::Time { order: order(flags), precision: self.cursor.u16()? },
            3 => Class::String { padding: self.padding(flags)?, charset: self.charset(flags >> 4)? },
            4 => {
                let (offset, precision) = self.bits(size)?;
                Class::Bitfield { order: order(flags), offset, precision }
            }
            5 => self.opaque(flags)?,
            6 => self.compound(version, flags, size)?,
            7 => Class::Reference(self.reference(flags)?),
            8 => self.enumeration(version, flags, size)?,
            9 => self.vlen(flags)?,
            10 => self.array(version, size)?,
            11 => self.complex(flags, size)?,
            class => return Err(self.unsupported(format!("unknown datatype class {class}"))),
        };
        Ok(Datatype { size: size.into(), class })
    }

    /// Reads a nested datatype.
    fn inner(&mut self) -> Result<Datatype> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.place(Error::limit("the datatype nests deeper than the limit `datatype_depth`")));
        };
        Parser { cursor: self.cursor, left }.datatype()
    }

    fn integer(&mut self, flags: u32, size: u32) -> Result<Class> {
        let (offset, precision) = self.bits(size)?;
        Ok(Class::Integer { order: order(flags), signed: flags & 0x08 != 0, offset, precision })
    }

    /// Reads the first significant bit and the number of significant bits.
    fn bits(&mut self, size: u32) -> Result<(u16, u16)> {
        let (offset, precision) = (self.cursor.u16()?, self.cursor.u16()?);
        self.within(offset, precision, size)?;
        Ok((offset, precision))
    }

    /// Checks that a bit field is not empty and fits the element.
    fn within(&self, first: u16, count: u16, size: u32) -> Result<()> {
        let end = u64::from(first).saturating_add(count.into());
        if count > 0 && end <= u64::from(size).saturating_mul(8) {
            return Ok(());
        }
        Err(self.corrupt(format!("an invalid bit field: {count} bits from bit {first} on, in {size} bytes")))
    }

    fn float(&mut self, version: u8, flags: u32, size: u32) -> Result<Class> {
        let order = match (version, flags & 0x41) {
            (3.., 0x41) => ByteOrder::Vax,
            (3.., 0x40) => return Err(self.unsupported("an unknown byte order")),
            _ => order(flags),
        };
        let normalization = match flags >> 4 & 0x03 {
            0 => Normalization::None,
            1 => Normalization::Set,
            2 => Normalization::Implied,
            _ => return Err(self.unsupported("an unknown normalization of the mantissa")),
        };
        let sign = (flags >> 8 & 0xff).try_into().unwrap_or(u16::MAX);
        let (offset, precision) = (self.cursor.u16()?, self.cursor.u16()?);
        let [exponent_at, exponent_bits] = self.cursor.array()?.map(u16::from);
        let [mantissa_at, mantissa_bits] = self.cursor.array()?.map(u16::from);
        let exponent_bias = self.cursor.u32()?.into();
        let fields = [(sign, 1), (exponent_at, exponent_bits), (mantissa_at, mantissa_bits)];
        for (first, count) in fields {
            self.within(first, count, size)?;
        }
        let apart = |(a, a_bits): (u16, u16), (b, b_bits): (u16, u16)| {
            a.saturating_add(a_bits) <= b || b.saturating_add(b_bits) <= a
        };
        let [sign_bit, exponent, mantissa] = fields;
        if !apart(sign_bit, exponent) || !apart(sign_bit, mantissa) || !apart(exponent, mantissa) {
            return Err(self.corrupt("sign, exponent and mantissa overlap"));
        }
        Ok(Class::Float(Float {
            order,
            offset,
            precision,
            sign,
            exponent_at,
            exponent_bits,
            exponent_bias,
            mantissa_at,
            mantissa_bits,
            normalization,
        }))
    }

    fn padding(&self, flags: u32) -> Result<StringPadding> {
        match flags & 0x0f {
            0 => Ok(StringPadding::NullTerminated),
            1 => Ok(StringPadding::NullPadded),
            2 => Ok(StringPadding::SpacePadded),
            other => Err(self.unsupported(format!("unknown string padding {other}"))),
        }
    }

    fn charset(&self, flags: u32) -> Result<CharacterSet> {
        match flags & 0x0f {
            0 => Ok(CharacterSet::Ascii),
            1 => Ok(CharacterSet::Utf8),
            other => Err(self.unsupported(format!("unknown character set {other}"))),
        }
    }

    fn opaque(&mut self, flags: u32) -> Result<Class> {
        let length = (flags & 0xff) as usize;
        if !length.is_multiple_of(8) {
            return Err(self.corrupt(format!("a tag of {length} bytes, expected a multiple of 8")));
        }
        let tag = self.cursor.take(length)?;
        Ok(Class::Opaque { tag: tag.split(|byte| *byte == 0).next().unwrap_or_default().into() })
    }

    /// Reads the name of a member; versions 1 and 2 pad it to a multiple of 8 bytes.
    fn name(&mut self, version: u8) -> Result<&'a [u8]> {
        let name = self.cursor.until_nul()?;
        if version < 3 {
            // Padded to a multiple of 8 including its NUL.
            self.cursor.skip(7_usize.wrapping_sub(name.len()) % 8)?;
        }
        Ok(name)
    }

    fn compound(&mut self, version: u8, flags: u32, size: u32) -> Result<Class> {
        let count = flags & 0xffff;
        if count == 0 {
            return Err(self.corrupt("a compound type without members"));
        }
        // From version 3 on, offsets have the smallest width that can hold the size.
        let offset_width = if version < 3 { 4 } else { (size.ilog2() / 8).saturating_add(1) as usize };
        let mut members = Vec::new();
        let mut names = HashSet::new();
        for _ in 0..count {
            let name = self.name(version)?;
            if !names.insert(name) {
                return Err(self.corrupt(format!("duplicate member name `{}`", name.escape_ascii())));
            }
            let offset = self.cursor.uint(offset_width)?;
            let dims = if version == 1 { self.member_dims()? } else { Vec::new() };
            let mut datatype = self.inner()?;
            if !dims.is_empty() {
                let size = dims.iter().try_fold(datatype.size, |size, dim| size.checked_mul(*dim));
                let size = size.ok_or_else(|| self.corrupt("an array of more than 2^64 bytes"))?;
                datatype = Datatype { size, class: Class::Array { dims, base: Box::new(datatype) } };
            }
            if offset.checked_add(datatype.size).is_none_or(|end| end > size.into()) {
                let name = name.escape_ascii();
                let message =
                    format!("{} bytes of member `{name}` at {offset}, in {size} bytes", datatype.size);
                return Err(self.corrupt(message));
            }
            members.push(Member { name: name.into(), offset, datatype });
        }
        self.check_overlap(&members)?;
        Ok(Class::Compound { members })
    }

    /// Reads the dimensions of a version 1 member, which may be an array.
    fn member_dims(&mut self) -> Result<Vec<u64>> {
        let rank = usize::from(self.cursor.u8()?);
        self.cursor.skip(3 + 4 + 4)?;
        let all: [u64; 4] =
            [self.cursor.u32()?, self.cursor.u32()?, self.cursor.u32()?, self.cursor.u32()?].map(u64::from);
        let Some(dims) = all.get(..rank) else {
            return Err(self.corrupt(format!("a member of {rank} dimensions, expected at most 4")));
        };
        if dims.contains(&0) {
            return Err(self.corrupt("a member with a dimension of 0"));
        }
        Ok(dims.to_vec())
    }

    fn check_overlap(&self, members: &[Member]) -> Result<()> {
        let mut places: Vec<(u64, u64)> = members
            .iter()
            .map(|member| (member.offset, member.offset.saturating_add(member.datatype.size)))
            .collect();
        places.sort_unstable();
        let overlap = places.iter().zip(places.iter().skip(1)).any(|((_, end), (next, _))| next < end);
        if overlap { Err(self.corrupt("members overlap")) } else { Ok(()) }
    }

    fn reference(&mut self, flags: u32) -> Result<ReferenceKind> {
        let kind = match flags & 0x0f {
            0 => return Ok(ReferenceKind::Object1),
            1 => return Ok(ReferenceKind::Region1),
            2 => ReferenceKind::Object2,
            3 => ReferenceKind::Region2,
            4 => ReferenceKind::Attribute,
            other => return Err(self.unsupported(format!("references of unknown kind {other}"))),
        };
        match flags >> 4 & 0x0f {
            1 => Ok(kind),
            other => Err(self.unsupported(format!("references of encoding {other}, expected 1"))),
        }
    }

    fn enumeration(&mut self, version: u8, flags: u32, size: u32) -> Result<Class> {
        let base = self.inner()?;
        if base.size != u64::from(size) || !matches!(base.class, Class::Integer { .. }) {
            return Err(self.corrupt("an enumeration whose base type is not an integer of its size"));
        }
        let count = flags & 0xffff;
        let mut names = Vec::new();
        for _ in 0..count {
            let name = self.name(version)?;
            if name.is_empty() {
                return Err(self.corrupt("an enumeration member without a name"));
            }
            names.push(name);
        }
        let mut members = Vec::new();
        for name in names {
            let value = self.cursor.take(size as usize)?;
            members.push(EnumMember { name: name.into(), value: value.into() });
        }
        Ok(Class::Enum { base: Box::new(base), members })
    }

    fn vlen(&mut self, flags: u32) -> Result<Class> {
        let class = match flags & 0x0f {
            0 => None,
            1 => Some(Class::VlenString {
                padding: self.padding(flags >> 4)?,
                charset: self.charset(flags >> 8)?,
            }),
            other => return Err(self.corrupt(format!("a variable-length type of unknown kind {other}"))),
        };
        let base = Box::new(self.inner()?);
        Ok(class.unwrap_or(Class::Vlen { base }))
    }

    fn array(&mut self, version: u8, size: u32) -> Result<Class> {
        let rank = self.cursor.u8()?;
        if !(1..=super::dataspace::MAX_RANK).contains(&rank) {
            return Err(self.corrupt(format!("an array of {rank} dimensions")));
        }
        if version < 3 {
            self.cursor.skip(3)?;
        }
        let dims: Vec<u64> = (0..rank).map(|_| self.cursor.u32().map(u64::from)).collect::<Result<_>>()?;
        if version < 3 {
            self.cursor.skip(usize::from(rank).saturating_mul(4))?;
        }
        let base = self.inner()?;
        if dims.iter().try_fold(base.size, |size, dim| size.checked_mul(*dim)) != Some(size.into()) {
            return Err(self
                .corrupt(format!("an array of {dims:?} elements of {} bytes, in {size} bytes", base.size)));
        }
        Ok(Class::Array { dims, base: Box::new(base) })
    }

    fn complex(&mut self, flags: u32, size: u32) -> Result<Class> {
        // Bit 0: both parts have the same type; bits 1 and 2: 0 for real and imaginary part.
        if flags != 1 {
            return Err(self.unsupported(format!("complex numbers of unknown form {flags:#x}")));
        }
        let base = self.inner()?;
        if !matches!(base.class, Class::Float(_)) || base.size.checked_mul(2) != Some(size.into()) {
            return Err(self.corrupt("a complex number that does not consist of two floating-point numbers"));
        }
        Ok(Class::Complex { base: Box::new(base) })
    }

    #[cold]
    fn corrupt(&self, message: impl Into<String>) -> Error {
        self.cursor.error(message.into())
    }

    #[cold]
    fn unsupported(&self, message: impl Into<String>) -> Error {
        self.place(Error::unsupported(message))
    }

    #[cold]
    fn place(&self, error: Error) -> Error {
        error.within("datatype message").at(self.cursor.offset())
    }
}

fn order(flags: u32) -> ByteOrder {
    if flags & 0x01 == 0 { ByteOrder::Little } else { ByteOrder::Big }
}

#[cfg(test)]
mod tests;
