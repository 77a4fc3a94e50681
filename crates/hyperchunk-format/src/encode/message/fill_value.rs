//! Fill values of version 3. Source: specification §IV.A.2.f, "The Data Storage - Fill Value Message".

use crate::encode::{Bytes, fit};
use crate::model::{AllocationTime, FillTime, FillValue, FillWhen, Layout};
use crate::{Error, Result};

const STRUCTURE: &str = "fill value message";

/// Returns the default space allocation time of libraries for this layout.
#[must_use]
pub fn default_allocation(layout: &Layout) -> AllocationTime {
    match layout {
        Layout::Compact { .. } => AllocationTime::Early,
        Layout::Contiguous { .. } => AllocationTime::Late,
        Layout::Chunked(_) | Layout::Virtual { .. } => AllocationTime::Incremental,
    }
}

/// Encodes a fill value.
///
/// # Errors
/// Invalid if the allocation time is the default: files must state [`default_allocation`] explicitly. Limit
/// if the value is too large.
pub fn encode(fill: &FillValue) -> Result<Vec<u8>> {
    const VERSION: u8 = 3;
    const UNDEFINED: u8 = 0x10;
    const HAS_VALUE: u8 = 0x20;
    let allocation = match fill.allocation {
        AllocationTime::Early => 1,
        AllocationTime::Late => 2,
        AllocationTime::Incremental => 3,
        AllocationTime::Default => {
            return Err(Error::invalid("the allocation time must not be the default").within(STRUCTURE));
        }
    };
    let time: u8 = match fill.time {
        FillTime::Allocation => 0,
        FillTime::Never => 1,
        FillTime::IfSet => 2,
    };
    let flags = allocation | time << 2;
    let mut bytes = Bytes::new();
    match &fill.value {
        FillWhen::Default => bytes.u8(VERSION).u8(flags),
        FillWhen::Undefined => bytes.u8(VERSION).u8(flags | UNDEFINED),
        FillWhen::User(value) if value.is_empty() => {
            return Err(Error::invalid("an empty fill value").within(STRUCTURE));
        }
        FillWhen::User(value) => {
            let size = fit::<u16, _>(value.len(), "bytes of a fill value")?;
            bytes.u8(VERSION).u8(flags | HAS_VALUE).u32(size.into()).raw(value)
        }
    };
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        for allocation in [AllocationTime::Early, AllocationTime::Late, AllocationTime::Incremental] {
            for time in [FillTime::Allocation, FillTime::Never, FillTime::IfSet] {
                for value in [FillWhen::Default, FillWhen::Undefined, FillWhen::User(vec![0; 9])] {
                    let fill = FillValue { value, allocation, time };
                    let bytes = encode(&fill).unwrap();
                    let mut cursor = Cursor::new(&bytes, "", 0);
                    assert_eq!(parse::message::fill_value::parse(&mut cursor).unwrap(), fill);
                    assert_eq!(cursor.left(), 0);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        let refused = |value, allocation| {
            assert!(encode(&FillValue { value, allocation, time: FillTime::IfSet }).is_err());
        };
        refused(FillWhen::Default, AllocationTime::Default);
        refused(FillWhen::User(vec![]), AllocationTime::Late);
        refused(FillWhen::User(vec![0; 65_536]), AllocationTime::Late);
    }
}
