//! Numeric types, as numbered by `hc_type` in `hyperchunk.h`.

use hyperchunk::model::{ByteOrder, Class, Datatype};
use hyperchunk::{Error, Result};
use std::ffi::c_int;

const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// Returns the type for a number of `hc_type`.
pub(crate) fn datatype(number: c_int) -> Result<Datatype> {
    Ok(match number {
        1..=4 => Datatype::integer(1 << (number - 1), true, ORDER),
        5..=8 => Datatype::integer(1 << (number - 5), false, ORDER),
        9 | 10 => Datatype::ieee(if number == 9 { 4 } else { 8 }, ORDER),
        _ => return Err(Error::invalid(format!("unknown type {number}: expected a constant of hc_type"))),
    })
}

/// `HC_STORED`: elements as they are stored.
pub(crate) const STORED: c_int = 0;

/// Returns the number of the type that holds all values of a datatype; 0 if there is none.
pub(crate) fn number(datatype: &Datatype) -> c_int {
    let power = match datatype.size {
        1 => 0,
        2 => 1,
        3 | 4 => 2,
        5..=8 => 3,
        _ => return STORED,
    };
    match &datatype.class {
        Class::Integer { signed: true, .. } => 1 + power,
        Class::Integer { signed: false, .. } => 5 + power,
        Class::Float(_) => {
            if power <= 2 {
                9
            } else {
                10
            }
        }
        Class::Enum { base, .. } => number(base),
        _ => STORED,
    }
}

/// Returns the number of a datatype's class, as in `H5T_class_t`.
pub(crate) fn class(datatype: &Datatype) -> c_int {
    match &datatype.class {
        Class::Integer { .. } => 0,
        Class::Float(_) => 1,
        Class::Time { .. } => 2,
        Class::String { .. } | Class::VlenString { .. } => 3,
        Class::Bitfield { .. } => 4,
        Class::Opaque { .. } => 5,
        Class::Compound { .. } => 6,
        Class::Reference(_) => 7,
        Class::Enum { .. } => 8,
        Class::Vlen { .. } => 9,
        Class::Array { .. } => 10,
        Class::Complex { .. } => 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let sizes: Vec<u64> = (1..=10).map(|number| datatype(number).unwrap().size).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 1, 2, 4, 8, 4, 8]);
        assert!([0, 11, -1].into_iter().all(|number| datatype(number).is_err()));
    }
}
