//! nvCOMP, NVIDIA's library of decompressors on the GPU, found at run time: its batched calls, version 6.

use crate::library::{Library, functions, path_from_environment};
use crate::{Driver, Error, ErrorKind, Result, Stream};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// The options of a decompressor, which are passed by value, as 64 bytes. In all of them the first number
/// selects the implementation; the others have their default, 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Options([u32; 16]);

/// Kernels (2), not the GPU's decompression engine, which needs another kind of memory.
const KERNELS: Options = Options([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

type TempSize = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
type Decompress =
    unsafe extern "C" fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;

functions! {
    /// The functions that we call.
    Functions:
    properties = c"nvcompGetProperties": fn(*mut [u32; 2]) -> c_int;
    {
        status_string = c"nvcompGetStatusString": fn(c_int) -> *const c_char;
        snappy_temp = c"nvcompBatchedSnappyDecompressGetTempSize": fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
        lz4_temp = c"nvcompBatchedLZ4DecompressGetTempSize": fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
        deflate_temp = c"nvcompBatchedDeflateDecompressGetTempSize": fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
        zstd_temp = c"nvcompBatchedZstdDecompressGetTempSize": fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
        snappy = c"nvcompBatchedSnappyDecompressAsync": fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;
        lz4 = c"nvcompBatchedLZ4DecompressAsync": fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;
        deflate = c"nvcompBatchedDeflateDecompressAsync": fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;
        zstd = c"nvcompBatchedZstdDecompressAsync": fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;
    }
}

/// The environment variable with the library's absolute path.
const VARIABLE: &str = "HYPERCHUNK_NVCOMP";
const NAME: &str = "libnvcomp.so.6";
/// The required major version: the calls change with each.
const MAJOR: u32 = 6;

/// A format of compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Raw Snappy.
    Snappy,
    /// Blocks of LZ4.
    Lz4,
    /// Raw deflate: zlib's streams without header and checksum.
    Deflate,
    /// Frames of Zstandard.
    Zstd,
}

impl Algorithm {
    pub(crate) const ALL: [Algorithm; 4] =
        [Algorithm::Snappy, Algorithm::Lz4, Algorithm::Deflate, Algorithm::Zstd];

    /// Returns the maximum decompressed size of a piece, in bytes.
    pub(crate) fn max_decompressed_bytes(self) -> u64 {
        match self {
            Algorithm::Snappy | Algorithm::Zstd => (1 << 31) - 1,
            Algorithm::Lz4 | Algorithm::Deflate => (1 << 32) - 1,
        }
    }
}

/// The tables of a batch on the GPU: addresses of tables with an entry for each piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) count: usize,
    /// Addresses of compressed pieces, and their sizes.
    pub(crate) from: u64,
    pub(crate) from_bytes: u64,
    /// Destinations of pieces, and their capacities.
    pub(crate) to: u64,
    pub(crate) room: u64,
    /// Outputs: the size of each piece, and its status, a 32-bit number.
    pub(crate) to_bytes: u64,
    pub(crate) statuses: u64,
    /// The decompressor's temporary memory.
    pub(crate) temp: u64,
    pub(crate) temp_bytes: usize,
}

/// The library.
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct Nvcomp {
    f: Functions,
    library: Library,
    version: (u32, u32),
}

impl Nvcomp {
    /// Loads the library: the file `path`, or the library in that folder; else `HYPERCHUNK_NVCOMP` (an
    /// absolute path; ignored in set-uid programs), else by the system's loader. Loading needs no GPU.
    ///
    /// # Errors
    /// Missing, with what to install; Unsupported for another version.
    pub fn load(path: Option<&Path>) -> Result<Nvcomp> {
        let candidates = match path {
            Some(folder) if folder.is_dir() => vec![folder.join(NAME)],
            Some(file) => vec![file.to_owned()],
            None => vec![path_from_environment(VARIABLE)?.unwrap_or_else(|| PathBuf::from(NAME))],
        };
        let advice = ". Get it with `pip install 'hyperchunk[cuda]'`; without it chunks are decompressed by the processor";
        let library = Library::require(&candidates, "nvCOMP, which decompresses on the GPU,", advice)?;
        let needed = format!("nvCOMP {MAJOR}");
        let f = library.table(Functions::load, &needed)?;
        let mut properties = [0; 2];
        // SAFETY: writes two numbers.
        let code = unsafe { (f.properties)(&raw mut properties) };
        let version = (properties[0] / 1000, properties[0] % 1000 / 100);
        if code != 0 || version.0 != MAJOR {
            return Err(library.unsuitable(format_args!("is version {}.{}", version.0, version.1), &needed));
        }
        Ok(Nvcomp { f, library, version })
    }

    /// Loads the library for a driver: as [`Nvcomp::load`], but with a driver of `HYPERCHUNK_CUDA_DRIVER`
    /// only the library of `HYPERCHUNK_NVCOMP`, since NVIDIA's own would not work with it.
    ///
    /// # Errors
    /// As [`Nvcomp::load`].
    pub fn beside(driver: &Driver, path: Option<&Path>) -> Result<Nvcomp> {
        if !driver.is_substitute() {
            return Nvcomp::load(path);
        }
        match path_from_environment(VARIABLE)? {
            Some(file) => Nvcomp::load(Some(&file)),
            None => {
                let message = format!(
                    "nvCOMP does not work with the driver of HYPERCHUNK_CUDA_DRIVER; set {VARIABLE}, too"
                );
                Err(Error::new(ErrorKind::Missing, message))
            }
        }
    }

    /// Returns the library's version, as (6, 0).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Returns whether the library decompresses that format.
    #[must_use]
    pub fn decompresses(&self, algorithm: Algorithm) -> bool {
        self.calls(algorithm).is_some()
    }

    fn calls(&self, algorithm: Algorithm) -> Option<(TempSize, Decompress)> {
        match algorithm {
            Algorithm::Snappy => self.f.snappy_temp.zip(self.f.snappy),
            Algorithm::Lz4 => self.f.lz4_temp.zip(self.f.lz4),
            Algorithm::Deflate => self.f.deflate_temp.zip(self.f.deflate),
            Algorithm::Zstd => self.f.zstd_temp.zip(self.f.zstd),
        }
    }

    /// Returns the size of the temporary memory for `count` pieces, with the given maximum and total sizes.
    pub(crate) fn temp_bytes(
        &self,
        stream: &Stream,
        algorithm: Algorithm,
        count: usize,
        largest: usize,
        total: usize,
    ) -> Result<usize> {
        let Some((temp, _)) = self.calls(algorithm) else { return Err(self.unsupported(algorithm)) };
        stream.context().make_current()?;
        let mut bytes = 0;
        // SAFETY: writes one size; the stream is live.
        let code = unsafe { temp(count, largest, KERNELS, &raw mut bytes, total, stream.handle()) };
        self.check("DecompressGetTempSize", algorithm, code)?;
        Ok(bytes)
    }

    /// Starts the decompression of a batch. Its statuses are valid when the stream has reached this point.
    ///
    /// # Safety
    /// The tables are on the stream's GPU, are as long as the batch says, point to memory of the sizes that
    /// they say, and stay until the stream is done.
    pub(crate) unsafe fn decompress(
        &self,
        stream: &Stream,
        algorithm: Algorithm,
        batch: &Batch,
    ) -> Result<()> {
        let Some((_, decompress)) = self.calls(algorithm) else { return Err(self.unsupported(algorithm)) };
        stream.context().make_current()?;
        // SAFETY: the caller's promise.
        let code = unsafe {
            decompress(
                batch.from,
                batch.from_bytes,
                batch.room,
                batch.to_bytes,
                batch.count,
                batch.temp,
                batch.temp_bytes,
                batch.to,
                KERNELS,
                batch.statuses,
                stream.handle(),
            )
        };
        self.check("DecompressAsync", algorithm, code)
    }

    fn unsupported(&self, algorithm: Algorithm) -> Error {
        Error::new(
            ErrorKind::Unsupported,
            format!("{} does not decompress {algorithm:?}", self.library.path().display()),
        )
    }

    fn check(&self, call: &str, algorithm: Algorithm, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let text = self.f.status_string.map(|text| {
            // SAFETY: gives null or a string that is never freed.
            unsafe {
                let text = text(code);
                if text.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
            }
        });
        let text = text.unwrap_or_default();
        Err(Error::new(ErrorKind::Failed, format!("nvCOMP, {algorithm:?}{call}: status {code} {text}"))
            .with_code(code))
    }
}
