//! Functions of the module `hyperchunk` that a function can import: the counterpart of `lib` in other
//! languages.
//!
//! Dataset numbers and addresses come from the function, so all are checked. Lengths of texts are in bytes of
//! UTF-8.

use crate::memory::Reservation;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::record::RandomBytes;
use wasmtime::{Caller, Extern, Linker, ResourceLimiter};

/// Maximum length of a text from a function.
const MAX_TEXT_BYTES: u32 = 1 << 20;
/// Maximum number of elements in all tables of a module.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// Dataset, as the function sees it in the current call.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// Name, without a leading slash.
    pub(crate) name: String,
    pub(crate) type_name: &'static str,
    pub(crate) address: u32,
    pub(crate) dims: Vec<u64>,
    /// Start of the block in its dataset.
    pub(crate) start: Vec<u64>,
}

/// State available to the functions.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) memory: &'static Reservation,
    pub(crate) datasets: Vec<Dataset>,
    pub(crate) file_path: String,
    /// Maximum growth of the module's memory in bytes.
    pub(crate) growth: u64,
    /// Seed of the computation, and whether the record has one.
    pub(crate) seed: u64,
    pub(crate) has_seed: bool,
    /// Random bytes that C libraries get in place of the system's.
    pub(crate) random: RandomBytes,
    /// Reason why the function does not get the clock, if it does not.
    pub(crate) no_clock: Option<String>,
}

impl State {
    /// Restarts the random numbers with this seed.
    pub(crate) fn reseed(&mut self, seed: u64) {
        (self.seed, self.random) = (seed, RandomBytes::new(seed));
    }

    /// Fails if the function does not get the clock.
    pub(crate) fn check_clock(&self) -> wasmtime::Result<()> {
        self.no_clock.as_ref().map_or(Ok(()), |why| Err(failure(format!("the clock: {why}"))))
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, now: usize, wanted: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // The first call is for the initial size, which was checked with the module.
        Ok(now == 0 || wanted as u64 <= self.memory.size().saturating_add(self.growth))
    }

    fn table_growing(&mut self, _: usize, wanted: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(wanted <= MAX_TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        1
    }
}

/// Creates a failure whose message is shown to the user.
pub(crate) fn failure(text: impl Into<String>) -> wasmtime::Error {
    Error::new(ErrorKind::Failed, text.into()).into()
}

/// Returns the linear memory of the caller, and the state.
pub(crate) fn memory<'a>(
    caller: &'a mut Caller<'_, State>,
) -> Result<(&'a mut [u8], &'a mut State), wasmtime::Error> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory.data_and_store_mut(caller)),
        _ => Err(failure("the module exports no memory")),
    }
}

/// Returns `length` bytes at `address`.
pub(crate) fn bytes(memory: &[u8], address: u32, length: u32) -> wasmtime::Result<&[u8]> {
    let range = address as usize..(address as usize).saturating_add(length as usize);
    memory.get(range).ok_or_else(|| failure("it passed an address outside its memory"))
}

/// Checks that `length` bytes at `address` may be written, and returns their range.
pub(crate) fn bytes_mut(
    state: &State,
    memory: &mut [u8],
    address: u32,
    length: u32,
) -> wasmtime::Result<std::ops::Range<usize>> {
    let end = u64::from(address) + u64::from(length);
    let into_input = length > 0 && (state.memory.is_input(address.into()) || state.memory.is_input(end - 1));
    if into_input || end > memory.len() as u64 {
        return Err(failure("it passed an address that cannot be written"));
    }
    Ok(address as usize..address as usize + length as usize)
}

fn text(memory: &[u8], address: u32, length: u32) -> wasmtime::Result<String> {
    Ok(String::from_utf8_lossy(bytes(memory, address, length.min(MAX_TEXT_BYTES))?).into_owned())
}

/// Writes as much of `text` as fits; returns its full length.
fn give(caller: &mut Caller<'_, State>, text: &str, address: u32, room: u32) -> wasmtime::Result<u32> {
    let (memory, state) = memory(caller)?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let taken = length.min(room);
    let range = bytes_mut(state, memory, address, taken)?;
    if let (Some(to), Some(from)) = (memory.get_mut(range), text.as_bytes().get(..taken as usize)) {
        to.copy_from_slice(from);
    }
    Ok(length)
}

fn dataset(state: &State, number: u32) -> wasmtime::Result<&Dataset> {
    state.datasets.get(number as usize).ok_or_else(|| failure(format!("there is no dataset number {number}")))
}

/// Writes to standard output or standard error, which the host processes.
pub(crate) fn print(fd: i32, mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: live bytes.
        let n = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
        match usize::try_from(n) {
            Ok(n @ 1..) => text = text.get(n..).unwrap_or_default(),
            _ => return,
        }
    }
}

/// Defines the functions.
pub(crate) fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    const MODULE: &str = "hyperchunk";
    linker.func_wrap(MODULE, "find", |mut caller: Caller<'_, State>, name: u32, length: u32| {
        let (memory, state) = memory(&mut caller)?;
        let name = text(memory, name, length)?;
        let name = name.trim_start_matches('/');
        let found = state.datasets.iter().position(|d| d.name == name);
        Ok(found.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1))
    })?;
    linker.func_wrap(MODULE, "data", |caller: Caller<'_, State>, number: u32| {
        dataset(caller.data(), number).map(|d| d.address)
    })?;
    linker.func_wrap(MODULE, "rank", |caller: Caller<'_, State>, number: u32| {
        dataset(caller.data(), number).map(|d| u32::try_from(d.dims.len()).unwrap_or(u32::MAX))
    })?;
    linker.func_wrap(MODULE, "dim", |caller: Caller<'_, State>, number: u32, n: u32| {
        let dims = &dataset(caller.data(), number)?.dims;
        let missing = || failure(format!("dataset number {number} has {} dimensions", dims.len()));
        dims.get(n as usize).copied().ok_or_else(missing)
    })?;
    linker.func_wrap(MODULE, "start", |caller: Caller<'_, State>, number: u32, n: u32| {
        let start = &dataset(caller.data(), number)?.start;
        let missing = || failure(format!("dataset number {number} has {} dimensions", start.len()));
        start.get(n as usize).copied().ok_or_else(missing)
    })?;
    linker.func_wrap(MODULE, "type", |mut caller: Caller<'_, State>, number: u32, to: u32, room: u32| {
        let name = dataset(caller.data(), number)?.type_name;
        give(&mut caller, name, to, room)
    })?;
    linker.func_wrap(MODULE, "file_path", |mut caller: Caller<'_, State>, to: u32, room: u32| {
        let path = caller.data().file_path.clone();
        give(&mut caller, &path, to, room)
    })?;
    linker.func_wrap(MODULE, "seed", |caller: Caller<'_, State>| match caller.data() {
        State { has_seed: true, seed, .. } => Ok(*seed),
        _ => Err(failure("lib.seed: the record has no seed; attach the function again")),
    })?;
    linker.func_wrap(MODULE, "clock", |caller: Caller<'_, State>| {
        caller.data().check_clock().map(|()| hyperchunk_udf::worker::now())
    })?;
    linker.func_wrap(MODULE, "print", |mut caller: Caller<'_, State>, at: u32, length: u32| {
        let (memory, _) = memory(&mut caller)?;
        print(libc::STDOUT_FILENO, bytes(memory, at, length)?);
        Ok(())
    })?;
    linker.func_wrap(MODULE, "fail", |mut caller: Caller<'_, State>, at: u32, length: u32| {
        let (memory, _) = memory(&mut caller)?;
        Err::<(), _>(failure(text(memory, at, length)?))
    })?;
    Ok(())
}
