//! The worker: a process that locks itself down and then runs one function.
//!
//! The order is fixed: map the shared memory, let the back end prepare what it needs from the system, lock down, tell
//! the layers reached, and only then look at the source.
//!
//! **Invariant:** no byte of a source or of a compiled form is interpreted before [`lockdown::restrict`] has returned.

pub mod compile;
#[cfg(feature = "worker-bin")]
mod compile_cuda;
mod connections;
#[cfg(feature = "worker-bin")]
pub mod cpp;
#[cfg(feature = "worker-bin")]
pub mod cuda;
mod descriptors;
pub mod entry;
#[cfg(feature = "worker-bin")]
mod legacy_cpp;
pub mod lockdown;
#[cfg(feature = "worker-bin")]
pub mod lua;
#[cfg(feature = "worker-bin")]
mod lua_nans;
#[cfg(feature = "worker-bin")]
mod lua_slots;
#[cfg(feature = "worker-bin")]
mod lua_vectors;

pub mod threads;

use crate::backend::Backend;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::memory::Map;
use crate::profile::Grants;
use crate::protocol::IDLE;
use crate::protocol::{
    self, Answer, Asked, CODE_PIECE, DOORBELL_OFFSET, Doorbell, MAX_MESSAGE, PROTOCOL, Place, STATUS_BYTES,
    Setup, Task,
};
use crate::record::seed_of_block;
use crate::socket::{self, Received};
use crate::stored::Decodes;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

pub use connections::connect;

/// The descriptor of the socket to the host.
pub const SOCKET: i32 = 3;

/// A slot of one call.
#[derive(Debug, Clone)]
pub struct CallSlot<'a> {
    /// Its name in the source.
    pub name: &'a str,
    /// The type of its elements.
    pub datatype: &'a Datatype,
    /// Its first element.
    pub data: *mut u8,
    /// The number of its elements.
    pub count: u64,
    /// The shape of the block.
    pub dims: &'a [u64],
    /// Where in its dataset the block begins.
    pub start: &'a [u64],
    /// Whether it may be written.
    pub output: bool,
    /// The segment that it lies in, and its first byte there.
    pub place: (u32, u64),
    /// Bytes of the block as it is [stored](crate::stored), which lies there in place of its elements; 0 where these do.
    pub stored: u64,
}

/// A language's part of the worker.
pub trait Runtime {
    /// What the lock-down has to leave.
    fn lockdown(&self) -> lockdown::Runtime;
    /// Takes the source, and the compiled form if there is one. Runs locked down.
    ///
    /// # Errors
    /// `Failed` with what the language says.
    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()>;
    /// Makes machine code of the compiled form, for [`Runtime::take_code`] of another worker. Runs locked down, and nothing of the
    /// function runs.
    ///
    /// # Errors
    /// `Failed` with what the language says; `Worker` for a language that makes none.
    fn compile(&mut self, _compiled: OwnedFd) -> Result<Vec<u8>> {
        fail!(Worker, "this language makes no machine code")
    }
    /// Takes machine code that [`Runtime::compile`] made of the compiled form, before [`Runtime::load`]. Runs locked down. Returns
    /// whether it is of use.
    ///
    /// # Errors
    /// `Io`.
    fn take_code(&mut self, _code: OwnedFd) -> Result<bool> {
        Ok(false)
    }
    /// Gives the seed of what comes next: of the block that is computed, or of loading. Random numbers that the language makes
    /// from a seed are made from this one.
    ///
    /// # Errors
    /// `Failed`.
    fn seed(&mut self, _seed: u64) -> Result<()> {
        Ok(())
    }
    /// Runs the function once.
    ///
    /// # Errors
    /// `Failed` with what the language says.
    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()>;
    /// Where the function sees the inputs that are copied in, for a language with addresses of its own.
    fn inputs_at(&self) -> Option<u64> {
        None
    }
    /// What it can be given beside elements.
    fn decodes(&self) -> Decodes {
        Decodes::Nothing
    }
    /// Takes memory of a device, which has so many bytes: what the function computes goes there until it is taken back. Runs locked down.
    /// Returns why it cannot, if it cannot.
    ///
    /// # Errors
    /// `Worker` for a language that computes elsewhere.
    fn lend(&mut self, _memory: OwnedFd, _bytes: u64) -> Result<Option<String>> {
        fail!(Worker, "memory of a device, for a language that does not compute there")
    }
    /// Lets go of that memory.
    fn take_back(&mut self) {}
    /// Makes elements of the inputs of the next [call](Runtime::call) that came as they are stored. `false`: it could not.
    ///
    /// # Errors
    /// `Worker` for one that takes elements alone.
    fn decode(&mut self, _slots: &[CallSlot<'_>]) -> Result<bool> {
        fail!(Worker, "an input as it is stored, for a language that takes elements")
    }
}

/// Makes the part of the worker for a language. It may map the segments, whose descriptors follow, once more.
pub type MakeRuntime<'a> = &'a mut dyn FnMut(&Setup, Backend, &[OwnedFd]) -> Result<Box<dyn Runtime>>;

/// Serves the host at [`SOCKET`] until it goes away; returns the exit status.
///
/// The first of `arguments` is the host's number, where it is not [told](threads::end_with_parent) before.
pub fn serve(arguments: &[OsString], make: MakeRuntime<'_>) -> i32 {
    if let Some(host) = arguments.first().and_then(|pid| pid.to_str()).and_then(|pid| pid.parse().ok()) {
        lockdown::set_host(host);
    }
    // SAFETY: the host gave us this descriptor, and nobody closes it while we serve.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET) };
    match run(socket, make) {
        Ok(()) => 0,
        Err(error) => {
            // The host may be gone; then nobody is there to tell.
            let _ = socket::send(socket, &protocol::encode_answer(&Answer::Failed(error.to_string())), &[]);
            1
        }
    }
}

fn run(socket: BorrowedFd<'_>, make: MakeRuntime<'_>) -> Result<()> {
    let Some((_, fds)) = socket::receive_with_descriptors(socket)? else { return Ok(()) };
    let (setup, mut fds) = read_setup(fds)?;
    let code = if setup.task == Task::RunCode { fds.pop() } else { None };
    let compiled = if setup.compiled { fds.pop() } else { None };
    if fds.len() != setup.segments.len() {
        fail!(Worker, "{} descriptors for {} segments", fds.len(), setup.segments.len())
    }
    let mut segments = Vec::with_capacity(fds.len());
    for (fd, s) in fds.iter().zip(&setup.segments) {
        segments.push(if s.piece {
            Map::piece(fd.as_fd(), s.offset, s.bytes)?
        } else {
            Map::new(fd.as_fd(), s.bytes, s.writable)?
        });
    }
    let Some(status) = segments.first().and_then(|s| s.at(0, STATUS_BYTES as u64)) else {
        fail!(Worker, "no status page")
    };
    let backend = Backend::from_json_name(&setup.backend)?;
    let types =
        setup.slots.iter().map(|s| Datatype::parse(&s.datatype)).collect::<Result<Vec<Datatype>>>()?;
    // Looked at only where something may stay open that the runtime opens.
    let keeps = backend == Backend::Cuda || !setup.grants.imports.is_empty();
    let opened_before = if keeps { descriptors::open() } else { Vec::new() };
    if backend == Backend::Cuda {
        lockdown::before_driver()?;
    }
    let mut runtime = make(&setup, backend, &fds)?;
    drop(fds);
    if let Some(folder) = &setup.folder {
        // Where it is gone, relative paths lead nowhere, as in the host.
        let _ = std::env::set_current_dir(folder);
    }
    // Closed behind its back, a file of a granted module would be whatever gets its number next.
    let of_imports = match backend {
        _ if !keeps => Vec::new(),
        // The driver's devices.
        Backend::Cuda => descriptors::since(&opened_before),
        _ => descriptors::read_only_files_since(&opened_before),
    };
    socket::set_timeout(socket, IDLE)?;
    // SAFETY: the page is mapped, aligned and lives until the process ends: segments are never dropped before.
    unsafe { lockdown::prepare(status.cast()) };
    let keep = [0, 1, 2, SOCKET]
        .into_iter()
        .chain(compiled.iter().chain(&code).map(|f| f.as_raw_fd()))
        .chain(of_imports)
        .collect();
    let report = lockdown::restrict(&lockdown::Policy {
        runtime: runtime.lockdown(),
        memory: setup.memory,
        cpu_seconds: setup.cpu_s,
        file_size: setup.file_bytes,
        fine_clocks: setup.fine_clocks,
        // A module and a kernel have no system calls that could use them.
        grants: if matches!(backend, Backend::Wasm | Backend::Cuda) {
            Grants::default()
        } else {
            setup.grants.clone()
        },
        scratch: None,
        tools: None,
        cache: None,
        keep_descriptors: keep,
    })?;
    let answer = |a: &Answer| socket::send(socket, &protocol::encode_answer(a), &[]);
    let inputs_at = runtime.inputs_at().unwrap_or_else(|| segments.get(1).map_or(0, |s| s.region().0 as u64));
    let (layers, landlock_abi, decodes) = (report.layers.0, report.landlock_abi, runtime.decodes());
    answer(&Answer::Ready { layers, landlock_abi, inputs_at, decodes })?;
    match (setup.task, code) {
        (Task::Compile, _) => {
            let Some(compiled) = compiled else { fail!(Worker, "nothing to compile") };
            for piece in runtime.compile(compiled)?.chunks(CODE_PIECE) {
                answer(&Answer::Code(piece.to_vec()))?;
            }
            return answer(&Answer::Loaded);
        }
        (_, Some(code)) => {
            if !runtime.take_code(code)? {
                answer(&Answer::Useless)?;
            }
        }
        (_, None) => {}
    }
    let seed = setup.seed.unwrap_or_default();
    runtime.seed(seed_of_block(seed, &[]))?;
    runtime.load(&setup, compiled)?;
    answer(&Answer::Loaded)?;
    // SAFETY: inside the first page, which is mapped for as long as the process lives; its fields are atomics.
    let doorbell = unsafe { &*status.add(DOORBELL_OFFSET).cast::<Doorbell>() };
    let mut buffer = vec![0; MAX_MESSAGE];
    let mut places = Vec::new();
    loop {
        let n = match socket::receive(socket, &mut buffer)? {
            Received::Packet(n) => n,
            Received::Interrupted => continue,
            Received::Closed | Received::TimedOut => return Ok(()),
        };
        let seq = match protocol::decode_asked(buffer.get(..n).unwrap_or_default(), &mut places)? {
            Asked::Call(seq) => seq,
            Asked::Lend(bytes) => {
                let memory = socket::receive_with_descriptors(socket)?.and_then(|(_, mut fds)| fds.pop());
                let Some(memory) = memory else { fail!(Worker, "no descriptor of memory") };
                answer(&Answer::Lent(runtime.lend(memory, bytes)?))?;
                continue;
            }
            // That it was read is all that the host wants to know.
            Asked::Look => continue,
            Asked::TakeBack => {
                runtime.take_back();
                answer(&Answer::Lent(None))?;
                continue;
            }
        };
        let slots = locate(&setup, &types, &segments, &places)?;
        runtime.seed(seed_of_block(seed, slots.first().map_or(&[], |s| s.start)))?;
        if slots.iter().any(|slot| slot.stored > 0) && !runtime.decode(&slots)? {
            answer(&Answer::Undecoded(seq))?;
            continue;
        }
        connections::during(!setup.grants.connect.is_empty(), || runtime.call(&slots))?;
        if doorbell.ring(seq) {
            answer(&Answer::Done(seq))?;
        }
    }
}

fn locate<'a>(
    setup: &'a Setup,
    types: &'a [Datatype],
    segments: &[Map],
    places: &'a [Place],
) -> Result<Vec<CallSlot<'a>>> {
    if places.len() != setup.slots.len() {
        fail!(Worker, "a call with {} of {} slots", places.len(), setup.slots.len())
    }
    let mut slots = Vec::with_capacity(places.len());
    for ((slot, datatype), place) in setup.slots.iter().zip(types).zip(places) {
        let data = protocol::block_bytes(&place.dims, datatype).and_then(|bytes| {
            segments.get(place.segment as usize)?.at(place.offset, bytes.max(place.stored))
        });
        let Some(data) = data else { fail!(Worker, "a call outside the shared memory") };
        if slot.output && place.stored > 0 {
            fail!(Worker, "an output as it is stored")
        }
        slots.push(CallSlot {
            name: &slot.name,
            datatype,
            data,
            count: place.dims.iter().product(),
            dims: &place.dims,
            start: &place.start,
            output: slot.output,
            place: (place.segment, place.offset),
            stored: place.stored,
        });
    }
    Ok(slots)
}

/// Ends a worker of Python whose function failed and may have lacked a module: another one tries it again.
pub fn end_lacking_modules() -> ! {
    // SAFETY: nothing of this process is to be undone; the host takes its end for what it is.
    unsafe { libc::_exit(protocol::LACKS_MODULES) }
}

/// Seconds since 1970.
pub fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The bytes of the compiled form.
///
/// # Errors
/// `Io`.
pub fn read_compiled(compiled: OwnedFd) -> Result<Vec<u8>> {
    let mut file = std::fs::File::from(compiled);
    let mut bytes = Vec::new();
    // Not asking for its size, which a locked-down process may not.
    std::io::Seek::rewind(&mut file)
        .and_then(|()| std::io::Read::take(file, u64::MAX).read_to_end(&mut bytes))
        .map_err(|e| Error::io("reading the compiled form", &e))?;
    Ok(bytes)
}

fn read_setup(mut fds: Vec<OwnedFd>) -> Result<(Setup, Vec<OwnedFd>)> {
    if fds.is_empty() {
        fail!(Worker, "no set-up")
    }
    let rest = fds.split_off(1);
    let Some(first) = fds.pop() else { fail!(Worker, "no set-up") };
    let text = read_compiled(first)?;
    Ok((parse_setup(&text)?, rest))
}

/// A set-up of this version: others may have other fields, and are told apart before these are looked for.
fn parse_setup(text: &[u8]) -> Result<Setup> {
    #[derive(serde::Deserialize)]
    struct Spoken {
        protocol: u32,
    }
    let unusable = |e: serde_json::Error| Error::new(ErrorKind::Worker, format!("the set-up: {e}"));
    let Spoken { protocol } = serde_json::from_slice(text).map_err(unusable)?;
    if protocol != PROTOCOL {
        fail!(
            Worker,
            "the reading program has a hyperchunk of protocol {protocol} and its worker one of {PROTOCOL}: one of them was updated meanwhile. Start the program anew, or reinstall hyperchunk"
        )
    }
    serde_json::from_slice(text).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_told_before_what_it_lacks() {
        let said = |text: &[u8]| parse_setup(text).unwrap_err().to_string();
        assert!(said(br#"{"protocol":1,"other":true}"#).contains("protocol 1"));
        assert!(said(format!("{{\"protocol\":{PROTOCOL}}}").as_bytes()).contains("missing field"));
        assert!(said(b"").contains("the set-up"));
    }
}
