//! The types of numbers, as numbered in `hyperchunk.h`.

use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::{Error, Result};
use std::ffi::c_int;

const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// Returns the type for a number of `hc_type`.
pub(crate) fn datatype(number: c_int) -> Result<Datatype> {
    Ok(match number {
        1..=4 => Datatype::integer(1 << (number - 1), true, ORDER),
        5..=8 => Datatype::integer(1 << (number - 5), false, ORDER),
        9 | 10 => Datatype::ieee(if number == 9 { 4 } else { 8 }, ORDER),
        _ => return Err(Error::invalid(format!("there is no type {number}"))),
    })
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
