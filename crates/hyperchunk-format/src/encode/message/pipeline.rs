//! Filter pipelines of version 2. Source: specification §IV.A.2.l, "The Filter Pipeline Message".

use crate::encode::{Bytes, fit};
use crate::model::Filter;
use crate::parse::message::pipeline::{FIRST_NAMED, MAX_FILTERS};
use crate::{Error, Result};

const STRUCTURE: &str = "filter pipeline message";

/// Encodes a pipeline. The names of the library's own filters are not stored.
///
/// # Errors
/// Limit if there are too many filters or parameters; Invalid if there is no filter, or a name has a NUL.
pub fn encode(pipeline: &[Filter]) -> Result<Vec<u8>> {
    const VERSION: u8 = 2;
    if pipeline.is_empty() {
        return Err(Error::invalid("a pipeline without filters").within(STRUCTURE));
    }
    let count = fit::<u8, _>(pipeline.len(), "filters").ok().filter(|count| *count <= MAX_FILTERS);
    let Some(count) = count else {
        return Err(
            Error::limit(format!("{} filters, more than {MAX_FILTERS}", pipeline.len())).within(STRUCTURE)
        );
    };
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u8(count);
    for filter in pipeline {
        let name = filter.name.as_ref().filter(|_| filter.id >= FIRST_NAMED);
        let name = name.map(|name| super::name_bytes(name, STRUCTURE)).transpose()?;
        bytes.u16(filter.id);
        if filter.id >= FIRST_NAMED {
            // Including its NUL.
            let length = name.map_or(0, |name| name.len().saturating_add(1));
            bytes.u16(fit(length, "bytes of a filter's name")?);
        }
        bytes.u16(filter.optional.into());
        bytes.u16(fit(filter.parameters.len(), "parameters of a filter")?);
        if let Some(name) = name {
            bytes.raw(name).u8(0);
        }
        for parameter in &filter.parameters {
            bytes.u32(*parameter);
        }
    }
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cursor, parse};

    fn filter(id: u16, name: Option<&str>, parameters: usize) -> Filter {
        let parameters = (0..parameters).map(|number| number as u32 * 77).collect();
        Filter { id, optional: id % 2 == 1, name: name.map(Into::into), parameters }
    }

    #[test]
    fn what_is_written_is_read() {
        let check = |pipeline: &[Filter]| {
            let bytes = encode(pipeline).unwrap();
            let mut cursor = Cursor::new(&bytes, "", 0);
            assert_eq!(parse::message::pipeline::parse(&mut cursor).unwrap(), pipeline);
            assert_eq!(cursor.left(), 0);
        };
        check(&[filter(1, None, 1)]);
        check(&[filter(2, None, 1), filter(32_000, Some("lzf"), 3), filter(32_015, None, 0)]);
        check(&(0..32).map(|id| filter(id, None, id.into())).collect::<Vec<_>>());
        check(&[filter(256, Some("é"), 1000)]);
        // The specification omits this name.
        assert_eq!(encode(&[filter(1, Some("deflate"), 1)]).unwrap(), encode(&[filter(1, None, 1)]).unwrap());
    }

    #[test]
    fn what_cannot_be_stored_is_not_written() {
        assert!(encode(&[]).is_err());
        assert!(encode(&vec![filter(1, None, 1); 33]).is_err());
        assert!(encode(&[filter(300, Some("a\0b"), 1)]).is_err());
        assert!(encode(&[filter(300, None, 65_536)]).is_err());
    }
}
