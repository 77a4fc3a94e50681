//! The limit on memory for all responses of a server together: data that were read but not yet sent, even if
//! clients are slow.

use arrow_schema::{DataType, Schema};
use hyperchunk::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit for all responses together, in MiB. A larger response runs alone.
const TOTAL_MIB: u32 = 1024;
/// Memory that a response holds, in multiples of the bytes that it reads at once. Those bytes exist in several copies:
/// as stored, decoded, and on the way to the client.
const COPIES_PER_ROW: u64 = 4;
/// Assumed size of an element of variable size.
const VARIABLE_BYTES: u64 = 64;

/// The shared limit.
#[derive(Debug, Clone)]
pub(super) struct Memory(Arc<Semaphore>);

impl Memory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(TOTAL_MIB as usize)))
    }

    /// Reserves memory for a response that reads `bytes` at once, until the permit is dropped. Waits up to
    /// `stall_timeout` for other responses.
    ///
    /// # Errors
    /// Limit if the memory does not become free in that time.
    pub(super) fn reserve(
        &self,
        bytes: u64,
        runtime: &Handle,
        stall_timeout: Duration,
    ) -> Result<OwnedSemaphorePermit> {
        let wanted = share(bytes);
        let room = Arc::clone(&self.0).acquire_many_owned(wanted);
        match runtime.block_on(async { tokio::time::timeout(stall_timeout, room).await }) {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "the server's memory for responses ({TOTAL_MIB} MiB) is in use: try again or ask for less"
                ),
            )),
        }
    }
}

/// Returns the number of MiB to reserve for a response that reads `bytes` at once.
fn share(bytes: u64) -> u32 {
    let mib = bytes.saturating_mul(COPIES_PER_ROW).div_ceil(1 << 20);
    u32::try_from(mib).unwrap_or(TOTAL_MIB).clamp(1, TOTAL_MIB)
}

/// Returns the size of a row in bytes.
pub(super) fn row_bytes(schema: &Schema) -> u64 {
    schema.fields().iter().fold(0, |sum: u64, field| sum.saturating_add(width(field.data_type())))
}

fn width(datatype: &DataType) -> u64 {
    match datatype {
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        DataType::FixedSizeList(element, count) => {
            width(element.data_type()).saturating_mul(u64::try_from(*count).unwrap_or(0))
        }
        DataType::Struct(fields) => {
            fields.iter().fold(0, |sum: u64, field| sum.saturating_add(width(field.data_type())))
        }
        other => other.primitive_width().map_or(VARIABLE_BYTES, |bytes| bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;

    #[test]
    fn rows_count_by_their_bytes() {
        let element = Arc::new(Field::new("item", DataType::Float64, false));
        let list = DataType::FixedSizeList(element, 1 << 20);
        let schema = Schema::new(vec![Field::new("a", list, false), Field::new("b", DataType::Int32, false)]);
        assert_eq!(row_bytes(&schema), (8 << 20) + 4);
        assert_eq!([share(0), share(4 << 20), share(8 << 20), share(u64::MAX)], [1, 16, 32, TOTAL_MIB]);
    }

    #[test]
    fn answers_share_the_memory() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let memory = Memory::new();
        let soon = Duration::from_millis(50);
        let reserve = |bytes| memory.reserve(bytes, runtime.handle(), soon);
        // A reservation above the limit gets all of it.
        let first = reserve(1 << 40).unwrap();
        assert!(reserve(1).unwrap_err().to_string().contains("is in use"));
        drop(first);
        let half: Vec<_> = (0..2).map(|_| reserve(128 << 20).unwrap()).collect();
        assert!(reserve(1).is_err());
        drop(half);
        assert!(reserve(256 << 20).is_ok());
    }
}
