//! External data files of a dataset. Source: specification §IV.A.2.h, "The External Data Files Message".

use super::name_bytes;
use crate::encode::{Bytes, fit, local_heap};
use crate::model::ExternalFile;
use crate::{Error, Result};
use std::collections::HashMap;

const STRUCTURE: &str = "external data files message";

/// Message and the heap with the names of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalFiles {
    /// Body of the message.
    pub message: Vec<u8>,
    /// Heap, to be stored at the address given to [`encode`].
    pub heap: Vec<u8>,
}

/// Encodes a list of files, in order, with their names in a heap at `heap`.
///
/// # Errors
/// Invalid if the list is empty, if a name is empty, or if a file without a size is not the last; Limit if
/// there are too many.
pub fn encode(files: &[ExternalFile], heap: u64) -> Result<ExternalFiles> {
    encoded(files, heap).map_err(|error| error.within(STRUCTURE))
}

fn encoded(files: &[ExternalFile], heap: u64) -> Result<ExternalFiles> {
    const VERSION: u8 = 1;
    let (last, before) = files.split_last().ok_or_else(|| Error::invalid("an empty list of files"))?;
    if before.iter().any(|file| file.size.is_none()) || last.size == Some(u64::MAX) {
        return Err(Error::invalid("a file without a size that is not the last"));
    }
    // The name of a file with several parts is stored once.
    let mut names: Vec<&[u8]> = Vec::new();
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let mut numbers = Vec::with_capacity(files.len());
    for file in files {
        let name = name_bytes(&file.name, STRUCTURE)?;
        let next = names.len();
        let number = *known.entry(name).or_insert(next);
        if number == next {
            names.push(name);
        }
        numbers.push(number);
    }
    let names = local_heap::encode(&names, heap)?;
    let offset = |number: usize| names.offsets.get(number).copied();
    let count: u16 = fit(files.len(), "external files")?;
    let mut message = Bytes::new();
    message.u8(VERSION).zeros(3).u16(count).u16(count).u64(heap);
    for (file, name) in files.iter().zip(numbers.into_iter().filter_map(offset)) {
        message.u64(name).u64(file.offset).u64(file.size.unwrap_or(u64::MAX));
    }
    Ok(ExternalFiles { message: message.into_vec(), heap: names.bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::with_image;
    use crate::{Cursor, parse};

    #[test]
    fn what_is_written_is_read() {
        let file = |name: &str, offset, size| ExternalFile { name: name.into(), offset, size };
        let files = [file("a.raw", 0, Some(100)), file("b.raw", 1 << 40, Some(1)), file("a.raw", 7, None)];
        let made = encode(&files, 64).unwrap();
        assert_eq!(made.heap.len(), 32 + 8 + 2 * 8, "each name once");
        let mut bytes = vec![0; 64];
        bytes.extend(made.heap);
        let found = with_image(&bytes, |image| {
            parse::message::external_files::parse(image, &mut Cursor::new(&made.message, "", 0))
        });
        assert_eq!(found.unwrap(), files);
        assert!(encode(&[], 64).is_err());
        assert!(encode(&[file("", 0, None)], 64).is_err());
        assert!(encode(&[file("a", 0, None), file("b", 0, None)], 64).is_err());
        assert!(encode(&vec![file("a", 0, Some(1)); 65_536], 64).is_err());
    }
}
