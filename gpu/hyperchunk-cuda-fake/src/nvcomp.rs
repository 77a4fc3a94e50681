//! A fake nvCOMP: the batched calls of version 6, executed by the processor when the stream reaches them.

use crate::machine::{Machine, machine};
use crate::ptx::{Fault, Memory as _};
use crate::streams::Work;
use std::ffi::{c_char, c_int, c_void};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 10;
const CANNOT_DECOMPRESS: u32 = 12;
const CUDA_ERROR: c_int = 1000;

/// A decompressor's options, by value: the implementation is kernels (2), all others are zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Options([u32; 16]);

impl Options {
    fn are_known(self) -> bool {
        self.0[0] == 2 && self.0[1..].iter().all(|word| *word == 0)
    }
}

/// A decompression function with an output limit.
type Decode = fn(&[u8], usize) -> Option<Vec<u8>>;

fn snappy(from: &[u8], room: usize) -> Option<Vec<u8>> {
    let size = snap::raw::decompress_len(from).ok().filter(|size| *size <= room)?;
    let mut to = vec![0; size];
    let written = snap::raw::Decoder::new().decompress(from, &mut to).ok()?;
    (written == size).then_some(to)
}

fn lz4(from: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut to = vec![0; room];
    let size = lz4_flex::block::decompress_into(from, &mut to).ok()?;
    to.truncate(size);
    Some(to)
}

fn deflate(from: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut to = vec![0; room];
    let size = libdeflater::Decompressor::new().deflate_decompress(from, &mut to).ok()?;
    to.truncate(size);
    Some(to)
}

fn zstd(from: &[u8], room: usize) -> Option<Vec<u8>> {
    zstd::bulk::decompress(from, room).ok()
}

/// The addresses of a batch's tables.
#[derive(Clone, Copy)]
struct Batch {
    from: u64,
    from_bytes: u64,
    room: u64,
    to_bytes: u64,
    count: usize,
    to: u64,
    statuses: u64,
    align: u64,
}

fn word(machine: &Machine, table: u64, number: usize) -> Result<u64, Fault> {
    let found = machine.memory.read(table + number as u64 * 8, 8).and_then(|bytes| bytes.try_into().ok());
    found.map(u64::from_le_bytes).ok_or_else(|| Fault::Address(format!("nvCOMP: a table at {table:#x}")))
}

fn run(machine: &mut Machine, batch: Batch, decode: Decode) -> Result<(), Fault> {
    for number in 0..batch.count {
        let [from, bytes, to, room] =
            [batch.from, batch.from_bytes, batch.to, batch.room].map(|table| word(machine, table, number));
        let (from, bytes, to, room) = (from?, bytes? as usize, to?, room? as usize);
        if from % batch.align != 0 {
            return Err(Fault::Misaligned(format!(
                "nvCOMP: a piece at {from:#x}, which is not a multiple of {}",
                batch.align
            )));
        }
        let nobody = |what: &str, at: u64, bytes: usize| {
            Fault::Address(format!("nvCOMP: {what} of {bytes} bytes at {at:#x}"))
        };
        let Some(compressed) = machine.memory.read(from, bytes) else {
            return Err(nobody("a piece", from, bytes));
        };
        let found = decode(compressed, room);
        if machine.memory.read(to, room).is_none() {
            return Err(nobody("room", to, room));
        }
        let (status, size) = match &found {
            Some(found) => (0_u32, found.len()),
            None => (CANNOT_DECOMPRESS, 0),
        };
        for (at, value) in [
            (to, found.as_deref().unwrap_or_default()),
            (batch.to_bytes + number as u64 * 8, &(size as u64).to_le_bytes()),
            (batch.statuses + number as u64 * 4, &status.to_le_bytes()),
        ] {
            let Some(place) = machine.memory.write(at, value.len()) else {
                return Err(nobody("a result", at, value.len()));
            };
            place.copy_from_slice(value);
        }
        machine.counted.decompressed += u64::from(status == 0);
    }
    Ok(())
}

/// Returns the version: 6.0.
///
/// # Safety
/// `to` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvcompGetProperties(to: *mut [u32; 2]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { to.write([6000, 12090]) };
    SUCCESS
}

/// Returns a status' text.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvcompGetStatusString(status: c_int) -> *const c_char {
    match status {
        SUCCESS => c"nvcompSuccess",
        INVALID_VALUE => c"nvcompErrorInvalidValue",
        _ => c"nvcompError",
    }
    .as_ptr()
}

/// Returns the required size of temporary memory: an arbitrary formula, so that too little is detected.
fn temp_bytes(count: usize, largest: usize) -> usize {
    count * 64 + largest / 16 + 128
}

macro_rules! decompressors {
    ($($temp:ident, $start:ident, $decode:ident, $align:literal;)*) => {$(
        /// Returns a decompressor's required size of temporary memory.
        ///
        /// # Safety
        /// `to` may be written.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $temp(
            count: usize, largest: usize, options: Options, to: *mut usize, total: usize, _stream: *mut c_void,
        ) -> c_int {
            if !options.are_known() || largest > total {
                machine().report_mistake("nvCOMP: unsupported options, or no pieces");
                return INVALID_VALUE;
            }
            // SAFETY: the caller's promise.
            unsafe { to.write(temp_bytes(count, largest)) };
            SUCCESS
        }

        /// Decompresses a batch.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $start(
            from: u64, from_bytes: u64, room: u64, to_bytes: u64, count: usize, temp: u64, temp_size: usize, to: u64,
            options: Options, statuses: u64, stream: *mut c_void,
        ) -> c_int {
            let mut machine = machine();
            if !options.are_known() || count == 0 || temp_size < temp_bytes(count, 0) || machine.memory.read(temp, temp_size).is_none() {
                machine.report_mistake("nvCOMP: unsupported options, no pieces, or too little temporary memory");
                return INVALID_VALUE;
            }
            let batch = Batch { from, from_bytes, room, to_bytes, count, to, statuses, align: $align };
            let work = Work::Call(Box::new(move |machine| run(machine, batch, $decode)));
            if machine.give(stream as usize, work) == 0 { SUCCESS } else { CUDA_ERROR }
        }
    )*};
}

decompressors! {
    nvcompBatchedSnappyDecompressGetTempSize, nvcompBatchedSnappyDecompressAsync, snappy, 1;
    nvcompBatchedLZ4DecompressGetTempSize, nvcompBatchedLZ4DecompressAsync, lz4, 4;
    nvcompBatchedDeflateDecompressGetTempSize, nvcompBatchedDeflateDecompressAsync, deflate, 4;
    nvcompBatchedZstdDecompressGetTempSize, nvcompBatchedZstdDecompressAsync, zstd, 8;
}
