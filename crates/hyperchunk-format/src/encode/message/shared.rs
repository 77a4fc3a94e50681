//! Shared messages of version 2. Source: specification §IV.A.2, "shared message".

use crate::encode::Bytes;

/// Encodes the body of a message that is the datatype committed at an address. The message's flags need
/// [`super::SHARED`].
#[must_use]
pub fn committed(address: u64) -> Vec<u8> {
    const VERSION: u8 = 2;
    const COMMITTED: u8 = 2;
    let mut bytes = Bytes::with_capacity(10);
    bytes.u8(VERSION).u8(COMMITTED).u64(address);
    bytes.into_vec()
}
