//! Planning of the steps that convert one datatype into another.

use super::enumeration::Names;
use super::memory::is_extended;
use super::native::{Native, Pair};
use super::number::{Format, Rounding};
use super::step::{Field, Step};
use super::widen::Widening;
use crate::model::{ByteOrder, Class, Datatype, Member};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Maximum nesting depth of datatypes.
const MAX_DEPTH: u32 = 64;

/// Conversion of elements from one datatype to another.
#[derive(Debug, Clone)]
pub struct Conversion {
    from_size: usize,
    to_size: usize,
    step: Step,
    is_partial: bool,
}

impl Conversion {
    /// Plans the conversion from `from` to `to`.
    ///
    /// Handles of variable-length sequences and strings are copied unchanged. Members of a compound that the
    /// source lacks keep their bytes in the target.
    ///
    /// # Errors
    /// Conversion if HDF5 has no conversion between the two; Limit if a datatype nests too deep or its
    /// elements exceed the address space; Invalid if the sizes in a datatype are inconsistent.
    pub fn new(from: &Datatype, to: &Datatype) -> Result<Self> {
        Ok(Self {
            from_size: element_size(from)?,
            to_size: element_size(to)?,
            step: Step::new(from, to, MAX_DEPTH)?,
            is_partial: lacks_members(from, to),
        })
    }

    /// True if the elements stay unchanged.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.from_size == self.to_size && matches!(self.step, Step::Copy(size) if size == self.from_size)
    }

    /// Returns whether the source lacks a member of a compound that the target has, so that elements of the target are
    /// only changed in part.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Converts `count` elements. Bytes of `to` without a counterpart in `from` are left unchanged.
    ///
    /// # Errors
    /// Invalid if a buffer's size does not match `count` elements.
    pub fn run(&self, from: &[u8], to: &mut [u8], count: usize) -> Result<()> {
        let sizes = (count.checked_mul(self.from_size), count.checked_mul(self.to_size));
        if sizes != (Some(from.len()), Some(to.len())) {
            let message = format!(
                "{count} elements of {} and {} bytes in buffers of {} and {} bytes",
                self.from_size,
                self.to_size,
                from.len(),
                to.len()
            );
            return Err(Error::invalid(message));
        }
        self.step.run(from, self.from_size, to, self.to_size, count);
        Ok(())
    }

    /// Converts elements in place, if only bytes have to be reversed. Otherwise returns `false` and changes
    /// nothing.
    #[must_use]
    pub fn in_place(&self, elements: &mut [u8]) -> bool {
        if self.from_size != self.to_size || !self.step.stays() {
            return false;
        }
        self.step.in_place(elements, self.from_size);
        true
    }
}

/// Returns whether `from` lacks a member of a compound that `to` has. They nest no deeper than a plan allows.
fn lacks_members(from: &Datatype, to: &Datatype) -> bool {
    match (&from.class, &to.class) {
        (Class::Compound { members }, Class::Compound { members: wanted }) => {
            let given: HashMap<&[u8], &Datatype> =
                members.iter().map(|member| (member.name.as_bytes(), &member.datatype)).collect();
            wanted.iter().any(|member| {
                let found = given.get(member.name.as_bytes());
                found.is_none_or(|found| lacks_members(found, &member.datatype))
            })
        }
        (Class::Array { base, .. }, Class::Array { base: wanted, .. }) => lacks_members(base, wanted),
        _ => false,
    }
}

fn element_size(datatype: &Datatype) -> Result<usize> {
    usize::try_from(datatype.size).map_err(|_| Error::limit("elements larger than the address space"))
}

fn member_offset(member: &Member) -> Result<usize> {
    usize::try_from(member.offset).map_err(|_| Error::limit("elements larger than the address space"))
}

/// Returns the error for a missing conversion.
fn refuse<T>(from: &Datatype, to: &Datatype) -> Result<T> {
    let message = format!("HDF5 has no conversion from {} to {}", noun(from), noun(to));
    Err(Error::new(ErrorKind::Conversion, message))
}

fn noun(datatype: &Datatype) -> &'static str {
    match datatype.class {
        Class::Integer { .. } => "an integer",
        Class::Float(_) => "a floating-point number",
        Class::Time { .. } => "a time",
        Class::String { .. } => "a string of fixed length",
        Class::Bitfield { .. } => "a bit field",
        Class::Opaque { .. } => "opaque bytes",
        Class::Compound { .. } => "a compound",
        Class::Reference(_) => "a reference",
        Class::Enum { .. } => "an enumeration",
        Class::Vlen { .. } => "a sequence",
        Class::VlenString { .. } => "a string of any length",
        Class::Array { .. } => "an array",
        Class::Complex { .. } => "a complex number",
    }
}

fn inconsistent(what: &str) -> Error {
    Error::invalid(format!("the sizes in a datatype contradict each other: {what}"))
}

impl Step {
    fn new(from: &Datatype, to: &Datatype, depth: u32) -> Result<Self> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Error::limit("datatypes that nest too deep"));
        };
        if from == to {
            return element_size(from).map(Self::Copy);
        }
        match (&from.class, &to.class) {
            (Class::Integer { .. } | Class::Float(_), Class::Integer { .. } | Class::Float(_)) => {
                number(from, to)
            }
            // HDF5 itself has no conversion to integers, but memory types have no other representation for
            // bit fields.
            (Class::Bitfield { .. }, Class::Integer { .. }) => number(from, to),
            (Class::Bitfield { .. }, Class::Bitfield { .. }) => bits(from, to),
            (
                Class::String { padding: from_padding, charset: from_set },
                Class::String { padding: to_padding, charset: to_set },
            ) if from_set == to_set => Ok(Self::Text {
                from_size: element_size(from)?,
                from: *from_padding,
                to_size: element_size(to)?,
                to: *to_padding,
            }),
            (Class::Enum { members, .. }, Class::Enum { members: to_members, .. }) => {
                let size = element_size(to)?;
                let names = Names::new(members, element_size(from)?, to_members, size)?;
                Ok(Self::Names { names, size })
            }
            (Class::Enum { base, .. }, Class::Integer { .. } | Class::Float(_)) if base.size == from.size => {
                Self::new(base, to, depth)
            }
            // Conversion that h5py adds to HDF5's.
            (Class::Integer { .. }, Class::Enum { base, .. }) if base.size == to.size => {
                Self::new(from, base, depth)
            }
            (Class::Compound { members }, Class::Compound { members: to_members }) => {
                compound(from, members, to, to_members, depth)
            }
            (Class::Array { dims, base }, Class::Array { dims: to_dims, base: to_base })
                if dims == to_dims =>
            {
                let count = usize::try_from(from.array_length());
                let count = count.map_err(|_| Error::limit("elements larger than the address space"))?;
                Self::array(count, from, base, to, to_base, depth)
            }
            (Class::Complex { base }, Class::Complex { base: to_base }) => {
                Self::array(2, from, base, to, to_base, depth)
            }
            (Class::Complex { base }, _) if is_complex(to, base) => element_size(from).map(Self::Copy),
            (_, Class::Complex { base }) if is_complex(from, base) => element_size(from).map(Self::Copy),
            (Class::Complex { base }, Class::Integer { .. } | Class::Float(_)) if base.size <= from.size => {
                Self::new(base, to, depth)
            }
            (Class::Integer { .. } | Class::Float(_), Class::Complex { base }) => {
                let part = element_size(base)?;
                if part.checked_mul(2) != Some(element_size(to)?) {
                    return Err(inconsistent("a complex number"));
                }
                let real = Field { from: 0, to: 0, step: Self::new(from, base, depth)? };
                Ok(Self::Fields(vec![real, Field { from: 0, to: part, step: Self::Zero(part) }]))
            }
            (Class::Vlen { .. }, Class::Vlen { .. }) if from.size == to.size => {
                element_size(from).map(Self::Copy)
            }
            (Class::VlenString { charset, .. }, Class::VlenString { charset: to_set, .. })
                if from.size == to.size && charset == to_set =>
            {
                element_size(from).map(Self::Copy)
            }
            _ => refuse(from, to),
        }
    }

    fn array(
        count: usize,
        from: &Datatype,
        base: &Datatype,
        to: &Datatype,
        to_base: &Datatype,
        depth: u32,
    ) -> Result<Self> {
        let (from_size, to_size) = (element_size(base)?, element_size(to_base)?);
        let whole = (count.checked_mul(from_size), count.checked_mul(to_size));
        if whole != (Some(element_size(from)?), Some(element_size(to)?)) {
            return Err(inconsistent("an array"));
        }
        Ok(match Self::new(base, to_base, depth)? {
            Self::Copy(size) if size == from_size && size == to_size => Self::Copy(element_size(from)?),
            step => Self::Array { count, from_size, to_size, step: Box::new(step) },
        })
    }
}

/// Plans the conversion between two numbers.
fn number(from: &Datatype, to: &Datatype) -> Result<Step> {
    let (from_format, to_format) = (Format::new(from)?, Format::new(to)?);
    // Between integers of the same size and opposite byte order, libhdf5 only reverses the bytes, regardless
    // of their signs.
    if from_format.differs_only_in_byte_order(&to_format) {
        return Ok(if from.size == 1 { Step::Copy(1) } else { Step::Reverse(element_size(from)?) });
    }
    // Conversions that libhdf5 leaves to the compiler: little-endian here, as nearly everywhere.
    let compiled = |datatype: &Datatype| match &datatype.class {
        Class::Float(float) => {
            float.order == ByteOrder::Little && (is_extended(datatype) || is_ieee(datatype, float.order))
        }
        _ => Native::of(datatype).is_some_and(|_| order(datatype) == ByteOrder::Little),
    };
    let compiled = compiled(from) && compiled(to);
    let float = |datatype: &Datatype| matches!(datatype.class, Class::Float(_));
    if let (Some((native, from_big)), Some((to_native, to_big))) = (Native::of(from), Native::of(to)) {
        // The native loops give the same results as the software, except between floating-point numbers.
        if compiled || !(native.is_float() && to_native.is_float()) {
            let kernel = native.kernel(to_native);
            return Ok(Step::Native(Pair { from: native, from_big, to: to_native, to_big, kernel }));
        }
    }
    if let Some(widen) = Widening::new(from, to, compiled) {
        return Ok(Step::Widening(widen));
    }
    let rounding = match (compiled, float(from)) {
        (true, _) => Rounding::Native,
        (false, true) => Rounding::Away,
        (false, false) => Rounding::Even,
    };
    Ok(Step::Number(from_format, to_format, rounding))
}

fn order(datatype: &Datatype) -> ByteOrder {
    match &datatype.class {
        Class::Integer { order, .. } => *order,
        Class::Float(float) => float.order,
        _ => ByteOrder::Vax,
    }
}

fn is_ieee(datatype: &Datatype, order: ByteOrder) -> bool {
    [2, 4, 8].into_iter().any(|size| *datatype == Datatype::ieee(size, order))
}

/// Plans the conversion between two bit fields.
fn bits(from: &Datatype, to: &Datatype) -> Result<Step> {
    let (format, to_format) = (Format::new(from)?, Format::new(to)?);
    if format.differs_only_in_byte_order(&to_format) {
        return Ok(if from.size == 1 { Step::Copy(1) } else { Step::Reverse(element_size(from)?) });
    }
    Ok(Step::Bits(format, to_format))
}

/// Plans the conversion between two compounds, by the names of their members.
fn compound(
    from: &Datatype,
    members: &[Member],
    to: &Datatype,
    to_members: &[Member],
    depth: u32,
) -> Result<Step> {
    let targets: HashMap<&[u8], &Member> =
        to_members.iter().rev().map(|member| (member.name.as_bytes(), member)).collect();
    let mut fields: Vec<Field> = Vec::new();
    let mut sorted: Vec<&Member> = members.iter().collect();
    sorted.sort_by_key(|member| member.offset);
    for member in sorted {
        let Some(target) = targets.get(member.name.as_bytes()) else { continue };
        let ends = |member: &Member, whole: &Datatype| {
            let end = member.offset.checked_add(member.datatype.size);
            end.is_some_and(|end| end <= whole.size)
        };
        if !ends(member, from) || !ends(target, to) {
            return Err(inconsistent("a member outside its compound"));
        }
        let name = |error: Error| {
            let message = format!("member {}: {}", member.name, error.message());
            Error::new(error.kind(), message)
        };
        let step = Step::new(&member.datatype, &target.datatype, depth).map_err(name)?;
        let field = Field { from: member_offset(member)?, to: member_offset(target)?, step };
        // Adjacent copied members are merged into one copy.
        if let (Some(last), Step::Copy(size)) = (fields.last_mut(), &field.step)
            && let Step::Copy(before) = &mut last.step
        {
            let follows = |start: usize, at: usize| start.checked_add(*before) == Some(at);
            if follows(last.from, field.from) && follows(last.to, field.to) {
                *before = before.saturating_add(*size);
                continue;
            }
        }
        fields.push(field);
    }
    Ok(match fields.as_slice() {
        [Field { from: 0, to: 0, step: Step::Copy(size) }]
            if *size == element_size(from)? && *size == element_size(to)? =>
        {
            Step::Copy(*size)
        }
        _ => Step::Fields(fields),
    })
}

/// True if a datatype is a pair of numbers of type `base`, the convention for complex numbers without a
/// datatype of their own.
fn is_complex(datatype: &Datatype, base: &Datatype) -> bool {
    match &datatype.class {
        Class::Array { base: element, .. } => {
            datatype.array_length() == 2
                && **element == *base
                && base.size.checked_mul(2) == Some(datatype.size)
        }
        Class::Compound { members } => {
            let named = |member: &Member, name: &[u8]| {
                !member.name.as_bytes().is_empty()
                    && name.starts_with(member.name.as_bytes())
                    && member.datatype == *base
            };
            let [real, imaginary] = members.as_slice() else { return false };
            named(real, b"real")
                && named(imaginary, b"imaginary")
                && real.offset == 0
                && imaginary.offset == base.size
                && base.size.checked_mul(2) == Some(datatype.size)
        }
        _ => false,
    }
}
