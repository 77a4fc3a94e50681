//! Early lazy initialisation of libraries, which would otherwise happen with the first batch.

use super::{ChunkBytes, Input, Options, Part, Request, ingest};
use crate::error::fail;
use crate::nvcomp::{Algorithm, Nvcomp};
use crate::{Context, DeviceMemory, Error, ErrorKind, Result, Stream};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::model::Filter;
use std::sync::Arc;

/// Size of the chunk that is processed, in bytes.
const CHUNK_BYTES: usize = 4096;

/// Processes a chunk in each format that nvCOMP decompresses, or one without a format, through all steps of
/// [`ingest`], on this thread alone. A process that will not be allowed to open files later calls this first.
///
/// # Errors
/// Errors of CUDA; Failed if the output differs from the input.
pub fn warm_up(context: &Arc<Context>, nvcomp: Option<&Nvcomp>) -> Result<()> {
    let values: Vec<u8> = (0..CHUNK_BYTES).map(|at| u8::try_from(at / 16 % 251).unwrap_or(0)).collect();
    let filter =
        |id, parameters: &[u32]| Filter { id, optional: false, name: None, parameters: parameters.to_vec() };
    let shuffle = filter(2, &[4]);
    let mut pipelines = vec![vec![shuffle.clone()]];
    for (algorithm, id, parameters) in [
        (Algorithm::Snappy, 32003, &[][..]),
        (Algorithm::Lz4, 32004, &[0]),
        (Algorithm::Deflate, 1, &[4]),
        (Algorithm::Zstd, 32015, &[3]),
    ] {
        if nvcomp.is_some_and(|nvcomp| nvcomp.decompresses(algorithm)) {
            pipelines.push(vec![shuffle.clone(), filter(id, parameters)]);
        }
    }
    let (memory, stream) = (DeviceMemory::alloc(context, CHUNK_BYTES)?, Stream::new(context)?);
    let mut encoder = Encoder::new();
    for filters in &pipelines {
        let (stored, mask) = encoder.encode(filters, &values).map_err(Error::from)?;
        let none = |_: u64, _: &mut [u8]| -> Result<()> {
            Err(Error::new(ErrorKind::Failed, "the chunk is not in the input"))
        };
        // Rows that are not contiguous are copied by a kernel.
        let part = |column| Part {
            stored: ChunkBytes::Bytes(stored),
            mask,
            from: vec![0, 8 - column],
            to: vec![0, column],
            size: vec![CHUNK_BYTES as u64 / 64, 8],
        };
        let request = Request {
            input: Input::Reader(&none),
            chunk: &[CHUNK_BYTES as u64 / 64, 16],
            filters,
            element: 4,
            swap: 0,
            dims: &[CHUNK_BYTES as u64 / 64, 16],
            parts: vec![part(0), part(8)],
        };
        stream.fill(&memory, 0, CHUNK_BYTES, 0)?;
        stream.synchronize()?;
        let options = Options { nvcomp, threads: 1, batch: CHUNK_BYTES * 4, ..Options::default() };
        let report = ingest(&request, &memory, 0, &options)?;
        let mut found = vec![0; CHUNK_BYTES];
        stream.download(&memory, 0, &mut found)?;
        // The halves of each row are exchanged.
        let expected: Vec<u8> = values.chunks(64).flat_map(|row| [&row[32..], &row[..32]].concat()).collect();
        if found != expected || report.on_cpu > 0 {
            let id = filters.last().map_or(0, |filter| filter.id);
            fail!(Failed, "the GPU decoded a chunk with filter {id} to other values than were encoded")
        }
    }
    Ok(())
}
