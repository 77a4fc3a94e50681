//! Dataspaces of version 2. Source: specification §IV.A.2.b, "The Dataspace Message".

use crate::encode::{Bytes, UNDEFINED, fit};
use crate::model::Dataspace;
use crate::parse::message::dataspace::MAX_RANK;
use crate::{Error, Result};

const STRUCTURE: &str = "dataspace message";

/// Encodes a dataspace. A simple one without dimensions becomes scalar.
///
/// # Errors
/// Limit if it has too many dimensions; Invalid if the extent exceeds the maximum extent.
pub fn encode(dataspace: &Dataspace) -> Result<Vec<u8>> {
    const VERSION: u8 = 2;
    const HAS_MAX: u8 = 0x01;
    let mut bytes = Bytes::new();
    let (dims, max) = match dataspace {
        Dataspace::Null => return Ok(vec![VERSION, 0, 0, 2]),
        Dataspace::Scalar => return Ok(vec![VERSION, 0, 0, 0]),
        Dataspace::Simple { dims, max } if dims.is_empty() && max.is_empty() => {
            return Ok(vec![VERSION, 0, 0, 0]);
        }
        Dataspace::Simple { dims, max } => (dims, max),
    };
    let contradict = dims.len() != max.len()
        || dims.contains(&UNDEFINED)
        || dims.iter().zip(max).any(|(dim, max)| max.is_some_and(|max| *dim > max));
    if contradict {
        let message = format!("an extent of {dims:?} with maximum extent {max:?}");
        return Err(Error::invalid(message).within(STRUCTURE));
    }
    if max.contains(&Some(UNDEFINED)) {
        return Err(Error::limit("a maximum extent of 2^64 - 1 elements").within(STRUCTURE));
    }
    let rank = fit::<u8, _>(dims.len(), "dimensions").ok().filter(|rank| *rank <= MAX_RANK);
    let Some(rank) = rank else {
        let message = format!("{} dimensions, more than {MAX_RANK}", dims.len());
        return Err(Error::limit(message).within(STRUCTURE));
    };
    bytes.u8(VERSION).u8(rank).u8(HAS_MAX).u8(1);
    for dim in dims {
        bytes.u64(*dim);
    }
    for bound in max {
        bytes.address(*bound);
    }
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::SIZES;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        let check = |dataspace: &Dataspace| {
            let bytes = encode(dataspace).unwrap();
            let mut cursor = Cursor::new(&bytes, "", 0);
            assert_eq!(parse::message::dataspace::parse(&mut cursor, SIZES).unwrap(), *dataspace);
            assert_eq!(cursor.left(), 0);
        };
        check(&Dataspace::Null);
        check(&Dataspace::Scalar);
        for rank in [1, 2, 32] {
            check(&Dataspace::Simple { dims: vec![0; rank], max: vec![None; rank] });
            check(&Dataspace::Simple { dims: vec![7; rank], max: vec![Some(7); rank] });
            check(&Dataspace::Simple { dims: vec![u64::MAX - 1; rank], max: vec![Some(u64::MAX - 1); rank] });
        }
        check(&Dataspace::Simple { dims: vec![1, 2, 3], max: vec![Some(1), None, Some(9)] });
        assert_eq!(encode(&Dataspace::Simple { dims: vec![], max: vec![] }).unwrap(), [2, 0, 0, 0]);
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        let refused = |dims: &[u64], max: &[Option<u64>]| {
            assert!(encode(&Dataspace::Simple { dims: dims.to_vec(), max: max.to_vec() }).is_err());
        };
        refused(&[1; 33], &[None; 33]);
        refused(&[5], &[Some(4)]);
        refused(&[5], &[]);
        refused(&[u64::MAX], &[None]);
        refused(&[1], &[Some(u64::MAX)]);
    }
}
