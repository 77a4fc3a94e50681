//! Types that outputs have in the file but not in memory: 16-bit floats, bools, enumerations.
//!
//! A function computes with the nearest number type, `float` or an integer, the same as it reads from inputs
//! of such types. Results are converted to the file's type when they are copied out of the function's memory.
//! Members of a compound keep their offsets.

use super::{Datatype, ElementType, MAX_MEMBERS, MAX_TEXT_BYTES};
use crate::error::{Result, fail};
use crate::escape::escape;
use std::sync::Arc;

/// Maximum number of names of an enumeration.
const MAX_NAMES: usize = 4096;
/// Enumeration that h5py uses for bools.
const BOOL: [(&str, i128); 2] = [("FALSE", 0), ("TRUE", 1)];

/// Names for values of an integer, sorted by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enumeration {
    base: ElementType,
    names: Vec<(String, i128)>,
}

impl Enumeration {
    /// Returns the type of the values.
    pub fn base(&self) -> ElementType {
        self.base
    }

    /// Returns names and their values, the smallest first.
    pub fn names(&self) -> &[(String, i128)] {
        &self.names
    }
}

impl ElementType {
    /// Returns the smallest and largest value; `None` for floats.
    pub fn range(self) -> Option<(i128, i128)> {
        let bits = self.size() * 8;
        match self {
            ElementType::Float32 | ElementType::Float64 => None,
            ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64 => {
                Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
            }
            _ => Some((0, (1 << bits) - 1)),
        }
    }
}

impl Datatype {
    /// Creates an enumeration with the base type `base`. The one that h5py uses for bools is
    /// [`Datatype::Bool`].
    ///
    /// # Errors
    /// `Unsupported`: a base that is not an integer, no names or too many, an empty or duplicate name, a
    /// value that does not fit or has two names.
    pub fn enumeration(
        base: ElementType,
        names: impl IntoIterator<Item = (String, i128)>,
    ) -> Result<Datatype> {
        let Some((least, most)) = base.range() else {
            fail!(Unsupported, "an enumeration cannot be of {}: only integers have names", base.name())
        };
        let mut names: Vec<_> = names.into_iter().take(MAX_NAMES + 1).collect();
        let bytes: usize = names.iter().map(|(name, _)| name.len() + 24).sum();
        if names.is_empty() || names.len() > MAX_NAMES || bytes > MAX_TEXT_BYTES / 2 {
            fail!(Unsupported, "an enumeration of {} names: expected 1 to {MAX_NAMES}", names.len())
        }
        names.sort_by_key(|(_, value)| *value);
        for (name, value) in &names {
            let shown = escape(name, 80);
            if name.is_empty() || name.contains('\0') {
                fail!(Unsupported, "an enumeration cannot have the name {shown:?}")
            }
            if !(least..=most).contains(value) {
                fail!(Unsupported, "{shown} = {value} does not fit {}", base.name())
            }
        }
        if let Some([a, b]) =
            names.windows(2).find_map(|w| <&[_; 2]>::try_from(w).ok().filter(|w| w[0].1 == w[1].1))
        {
            fail!(Unsupported, "{} and {} have the same value {}", escape(&a.0, 80), escape(&b.0, 80), a.1)
        }
        let mut all: Vec<&str> = names.iter().map(|n| n.0.as_str()).collect();
        all.sort_unstable();
        if let Some(twice) = all.windows(2).find(|w| w.first() == w.last()).and_then(|w| w.first()) {
            fail!(Unsupported, "an enumeration has the name {:?} twice", escape(twice, 80))
        }
        let is_bool = base == ElementType::Int8 && names.iter().map(|(n, v)| (n.as_str(), *v)).eq(BOOL);
        Ok(if is_bool { Datatype::Bool } else { Datatype::Enum(Arc::new(Enumeration { base, names })) })
    }

    /// Returns the names and values of a bool or an enumeration, with the type of the values.
    pub fn names(&self) -> Option<(ElementType, Vec<(&str, i128)>)> {
        match self {
            Datatype::Bool => Some((ElementType::Int8, BOOL.to_vec())),
            Datatype::Enum(e) => Some((e.base, e.names.iter().map(|(n, v)| (n.as_str(), *v)).collect())),
            _ => None,
        }
    }

    /// Returns whether an element's type in the file differs from its type in memory. Only outputs have such
    /// types.
    pub fn has_stored(&self) -> bool {
        match self {
            Datatype::Half | Datatype::Bool | Datatype::Enum(_) | Datatype::Utf8(_) => true,
            Datatype::Compound(c) => c.members().iter().any(|m| m.datatype.has_stored()),
            Datatype::Array(base, _) => base.has_stored(),
            _ => false,
        }
    }

    /// Returns the type that an element has in memory, as inputs have.
    pub fn in_memory(&self) -> Datatype {
        match self {
            Datatype::Half | Datatype::Bool | Datatype::Enum(_) => {
                self.number().map_or_else(|| self.clone(), Datatype::Number)
            }
            Datatype::Utf8(size) => Datatype::Text(*size),
            Datatype::Compound(c) if self.has_stored() => {
                let members = c.members().iter().map(|m| (m.name.clone(), m.datatype.in_memory()));
                Datatype::compound(members).unwrap_or_else(|_| self.clone())
            }
            Datatype::Array(base, dims) => Datatype::Array(Arc::new(base.in_memory()), dims.clone()),
            other => other.clone(),
        }
    }

    /// Returns whether an element's bytes in the file differ from its bytes in memory.
    pub fn is_converted(&self) -> bool {
        match self {
            Datatype::Half | Datatype::Bool => true,
            Datatype::Compound(c) => c.members().iter().any(|m| m.datatype.is_converted()),
            Datatype::Array(base, _) => base.is_converted(),
            _ => false,
        }
    }

    /// Returns the size of an element in the file in bytes. Members of compounds have the same offsets as in
    /// memory.
    pub fn stored_size(&self) -> usize {
        match self {
            Datatype::Half => 2,
            Datatype::Array(base, _) => base.stored_size().saturating_mul(self.elements()),
            other => other.size(),
        }
    }

    /// Converts the elements in `from` to the file's type. `to` is zeroed, and large enough.
    pub fn store(&self, from: &[u8], to: &mut [u8]) {
        match self {
            Datatype::Half => {
                for (from, to) in from.as_chunks::<4>().0.iter().zip(to.as_chunks_mut::<2>().0) {
                    *to = half(f32::from_ne_bytes(*from)).to_le_bytes();
                }
            }
            Datatype::Bool => {
                for (from, to) in from.iter().zip(to) {
                    *to = u8::from(*from != 0);
                }
            }
            Datatype::Array(base, _) => base.store(from, to),
            Datatype::Compound(compound) if self.is_converted() => {
                let elements = from.chunks_exact(self.size()).zip(to.chunks_exact_mut(self.size()));
                for (from, to) in elements {
                    for member in compound.members() {
                        let from = from.get(member.offset..).and_then(|f| f.get(..member.datatype.size()));
                        let to = to
                            .get_mut(member.offset..)
                            .and_then(|t| t.get_mut(..member.datatype.stored_size()));
                        if let (Some(from), Some(to)) = (from, to) {
                            member.datatype.store(from, to);
                        }
                    }
                }
            }
            _ => {
                let bytes = from.len().min(to.len());
                if let (Some(from), Some(to)) = (from.get(..bytes), to.get_mut(..bytes)) {
                    to.copy_from_slice(from);
                }
            }
        }
    }
}

/// Returns the bits of the nearest 16-bit float, with ties to even, as in NumPy and HDF5. Overflow gives
/// infinity.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = u16::try_from((bits >> 16) & 0x8000).unwrap_or(0);
    let (exponent, fraction) = (bits >> 23 & 0xff, bits & 0x7f_ffff);
    if exponent == 0xff {
        // A NaN stays one even if its remaining mantissa is cut off.
        let rest = u16::try_from(fraction >> 13).unwrap_or(0);
        return sign | 0x7c00 | rest | u16::from(fraction != 0 && rest == 0);
    }
    // The float's exponent bias is larger by 112. Subnormal halves lose further bits in addition to the 13.
    let (whole, lost) = match exponent {
        113.. => (((exponent - 112) << 23) | fraction, 13),
        102..=112 => (fraction | 0x80_0000, 126 - exponent),
        _ => return sign,
    };
    let (kept, rest, tie) = (whole >> lost, whole & ((1 << lost) - 1), 1 << (lost - 1));
    let rounded = kept + u32::from(rest > tie || (rest == tie && kept & 1 == 1));
    sign | u16::try_from(rounded).unwrap_or(u16::MAX).min(0x7c00)
}

/// An enumeration may have as many names as a compound has members.
const _: () = assert!(MAX_NAMES >= MAX_MEMBERS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest() {
        // Values and bits from NumPy.
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (0.1, 0x2e66),
            (65504.0, 0x7bff),
            (65519.996, 0x7bff),
            (65520.0, 0x7c00),
            (1e10, 0x7c00),
            (f32::NEG_INFINITY, 0xfc00),
            (6.103_515_6e-5, 0x0400),
            (6.097_555e-5, 0x03ff),
            (5.960_464_5e-8, 1),
            (2.980_232_2e-8, 0),
            (2.980_232_6e-8, 1),
            (8.940_697e-8, 2),
            (1e-40, 0),
            (1.000_488_3, 0x3c00),
            (1.000_488_4, 0x3c01),
            (1.001_464_8, 0x3c02),
        ] {
            assert_eq!(half(value), bits, "{value}");
        }
        assert_eq!(half(f32::NAN) & 0x7c00, 0x7c00);
        assert!(half(f32::from_bits(0x7f80_0001)) & 0x3ff != 0);
        // Every half converts back to itself.
        for bits in 0..0x7c00u16 {
            let (exponent, fraction) = (i32::from(bits >> 10), f32::from(bits & 0x3ff));
            let value = if exponent == 0 {
                fraction * 2f32.powi(-24)
            } else {
                (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15)
            };
            assert_eq!(half(value), bits);
            assert_eq!(half(-value), bits | 0x8000);
        }
    }

    #[test]
    fn elements_become_what_the_file_has() {
        let datatype = Datatype::parse("{a:int8,h:float16,b:bool,m:float16[2],e:uint8{x=1}}").unwrap();
        assert_eq!((datatype.size(), datatype.stored_size()), (24, 24));
        assert_eq!(datatype.in_memory().name(), "{a:int8,h:float,b:int8,m:float[2],e:uint8}");
        let mut from = vec![0xee; 48];
        from[..24].fill(7);
        from[4..8].copy_from_slice(&1f32.to_ne_bytes());
        from[12..16].copy_from_slice(&2f32.to_ne_bytes());
        from[16..20].copy_from_slice(&(-2f32).to_ne_bytes());
        let mut to = vec![0; 48];
        datatype.store(&from, &mut to);
        let expected = [7, 0, 0, 0, 0, 0x3c, 0, 0, 1, 0, 0, 0, 0, 0x40, 0, 0xc0, 0, 0, 0, 0, 7, 0, 0, 0];
        assert_eq!(to[..24], expected);
        assert_eq!((to[24], to[32]), (0xee, 1));
        let array = Datatype::parse("float16[3]").unwrap();
        assert_eq!((array.size(), array.stored_size(), array.is_converted()), (12, 6, true));
    }

    #[test]
    fn enumerations_are_checked() {
        for text in [
            "uint8{clear=0,cloud=1}",
            "int16{\"a b\"=-5,c=9}",
            "bool",
            "float16",
            "uint64{x=18446744073709551615}",
        ] {
            let datatype = Datatype::parse(text).unwrap();
            assert_eq!(datatype.name(), text);
            assert!(datatype.has_stored());
        }
        assert_eq!(Datatype::parse("int8{TRUE=1,FALSE=0}").unwrap(), Datatype::Bool);
        assert_eq!(Datatype::parse("uint8{b=2,a=1}").unwrap().name(), "uint8{a=1,b=2}");
        for (text, why) in [
            ("uint8{a=256}", "does not fit"),
            ("uint8{a=-1}", "does not fit"),
            ("uint8{a=1,b=1}", "same value"),
            ("uint8{a=1,a=2}", "twice"),
            ("float{a=1}", "only integers"),
            ("uint8{}", "without a name"),
            ("uint8{a}", "\"=\" is missing"),
            ("uint8{a=x}", "not an integer"),
            ("uint8{a=1", "\"}\" is missing"),
            ("bool{a=1}", "after the type"),
        ] {
            let error = Datatype::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
