//! Worker: a process that locks itself down and then runs one function.
//!
//! This module is common to the programs that are workers: `hyperchunk-udf-worker`, `hyperchunk-wasm-worker`
//! and Python's extension module. Each adds a [`Runtime`] of its languages.
//!
//! The order is fixed: map the shared memory, let the back end prepare what it needs from the system, lock
//! down, report the layers reached, and only then interpret the source.
//!
//! **Invariant:** no source and no compiled form is interpreted before [`sandbox::restrict`] has returned.
//! Until then the source is only decoded from the set-up's JSON.

mod connections;
mod descriptors;
pub mod entry;
pub mod threads;

use hyperchunk_sandbox as sandbox;

use crate::backend::Backend;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::memory::Map;
use crate::protocol::IDLE_TIMEOUT;
use crate::protocol::{
    self, CODE_MESSAGE_BYTES, DOORBELL_OFFSET, Doorbell, MAX_MESSAGE_BYTES, PROTOCOL_VERSION, Reply, Request,
    STATUS_BYTES, Setup, SlotLocation, Task,
};
use crate::record::seed_of_block;
use crate::socket::{self, ReceiveResult};
use crate::stored::DecodeSupport;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

pub use connections::connect;

/// Descriptor of the socket to the host.
pub const SOCKET_FD: i32 = 3;

/// Slot of one call.
#[derive(Debug, Clone)]
pub struct CallSlot<'a> {
    /// Name in the source.
    pub name: &'a str,
    /// Datatype of the elements.
    pub datatype: &'a Datatype,
    /// First element.
    pub data: *mut u8,
    /// Number of elements.
    pub count: u64,
    /// Shape of the block.
    pub dims: &'a [u64],
    /// Offset of the block in its dataset.
    pub start: &'a [u64],
    /// Set if the function may write the elements.
    pub output: bool,
    /// Segment, and the offset of the first byte in it.
    pub place: (u32, u64),
    /// Size in bytes of the [stored](crate::stored) form, which replaces the elements; 0 for elements.
    pub stored: u64,
}

/// Language-specific part of the worker.
pub trait Runtime {
    /// Returns the kind of lock-down that the language requires.
    fn sandbox_runtime(&self) -> sandbox::Runtime;
    /// Loads the source, and the compiled form if there is one. Called after the lock-down.
    ///
    /// # Errors
    /// `Failed` with the language's message.
    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()>;
    /// Compiles the compiled form to machine code, for [`Runtime::take_code`] of another worker. Called after
    /// the lock-down; no code of the function runs.
    ///
    /// # Errors
    /// `Failed` with the language's message; `Worker` for a language without machine code.
    fn compile(&mut self, _compiled: OwnedFd) -> Result<Vec<u8>> {
        fail!(Worker, "this language has no machine code to compile")
    }
    /// Takes machine code to which [`Runtime::compile`] compiled the compiled form, before [`Runtime::load`].
    /// Called after the lock-down. Returns whether the code is usable.
    ///
    /// # Errors
    /// `Io`.
    fn take_code(&mut self, _code: OwnedFd) -> Result<bool> {
        Ok(false)
    }
    /// Seeds the language's random numbers for the next step: a block, or loading.
    ///
    /// # Errors
    /// `Failed`.
    fn seed(&mut self, _seed: u64) -> Result<()> {
        Ok(())
    }
    /// Runs the function once.
    ///
    /// # Errors
    /// `Failed` with the language's message.
    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()>;
    /// Returns the function's address of the inputs that are copied in, for a language with its own address
    /// space.
    fn inputs_at(&self) -> Option<u64> {
        None
    }
    /// Returns the stored forms that the runtime can decode.
    fn decodes(&self) -> DecodeSupport {
        DecodeSupport::Nothing
    }
    /// Takes `bytes` bytes of device memory: the function's results go there until it is taken back. Called
    /// after the lock-down. Returns the reason if it cannot take the memory.
    ///
    /// # Errors
    /// `Worker` for a language that does not compute on a device.
    fn lend(&mut self, _memory: OwnedFd, _bytes: u64) -> Result<Option<String>> {
        fail!(Worker, "this language does not compute on a device")
    }
    /// Releases that memory.
    fn take_back(&mut self) {}
    /// Decodes the inputs of the next [call](Runtime::call) that came in stored form. Returns `false` if it
    /// could not.
    ///
    /// # Errors
    /// `Worker` for a language that takes only elements.
    fn decode(&mut self, _slots: &[CallSlot<'_>]) -> Result<bool> {
        fail!(Worker, "this language does not decode stored inputs")
    }
}

/// Creates the runtime of a language. It may map the segments, whose descriptors follow, a second time.
pub type MakeRuntime<'a> = &'a mut dyn FnMut(&Setup, Backend, &[OwnedFd]) -> Result<Box<dyn Runtime>>;

/// Serves the host at [`SOCKET_FD`] until it disconnects; returns the exit status.
///
/// The first of `arguments` is the host's pid, unless it was [set](threads::end_with_parent) before.
pub fn serve(arguments: &[OsString], make: MakeRuntime<'_>) -> i32 {
    if let Some(host) = arguments.first().and_then(|pid| pid.to_str()).and_then(|pid| pid.parse().ok()) {
        sandbox::set_host(host);
    }
    // SAFETY: the host gave us this descriptor, and it stays open while we serve.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    match run(socket, make) {
        Ok(()) => 0,
        Err(error) => {
            // Fails if the host has ended, and there is no other process to notify.
            let _ = socket::send(socket, &protocol::encode_reply(&Reply::Failed(error.to_string())), &[]);
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
        fail!(
            Worker,
            "expected a descriptor for each segment, got {} descriptors for {} segments",
            fds.len(),
            setup.segments.len()
        )
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
        fail!(Worker, "the first segment is too small for the status page")
    };
    let backend = Backend::from_json_name(&setup.backend)?;
    let types =
        setup.slots.iter().map(|s| Datatype::parse(&s.datatype)).collect::<Result<Vec<Datatype>>>()?;
    // Listed only if the runtime may open something that has to stay open.
    let keeps = backend == Backend::Cuda || !setup.grants.imports.is_empty();
    let opened_before = if keeps { descriptors::open() } else { Vec::new() };
    if backend == Backend::Cuda {
        sandbox::before_driver()?;
    }
    let mut runtime = make(&setup, backend, &fds)?;
    drop(fds);
    if let Some(folder) = &setup.folder {
        // If the folder is gone, relative paths cannot be resolved, as in the host.
        let _ = std::env::set_current_dir(folder);
    }
    // If a granted module's file were closed without its knowledge, it would use whatever gets that number
    // next.
    let of_imports = match backend {
        _ if !keeps => Vec::new(),
        // The driver's devices.
        Backend::Cuda => descriptors::since(&opened_before),
        _ => descriptors::read_only_files_since(&opened_before),
    };
    socket::set_timeout(socket, IDLE_TIMEOUT)?;
    // SAFETY: the page is mapped, aligned and lives until the process ends: segments are never dropped
    // before.
    unsafe { sandbox::prepare(status.cast()) };
    let keep = [0, 1, 2, SOCKET_FD]
        .into_iter()
        .chain(compiled.iter().chain(&code).map(|f| f.as_raw_fd()))
        .chain(of_imports)
        .collect();
    let report = sandbox::restrict(&sandbox::Policy {
        runtime: runtime.sandbox_runtime(),
        memory: setup.memory,
        cpu_seconds: setup.cpu_s,
        file_size: setup.file_bytes,
        fine_clocks: setup.fine_clocks,
        // A module and a kernel cannot make system calls that would use grants.
        rights: if matches!(backend, Backend::Wasm | Backend::Cuda) {
            sandbox::Rights::default()
        } else {
            setup.grants.rights()
        },
        scratch: None,
        tools: None,
        cache: None,
        keep_descriptors: keep,
    })?;
    let answer = |a: &Reply| socket::send(socket, &protocol::encode_reply(a), &[]);
    let inputs_at = runtime.inputs_at().unwrap_or_else(|| segments.get(1).map_or(0, |s| s.region().0 as u64));
    let (layers, landlock_abi, decodes) = (report.layers.0, report.landlock_abi, runtime.decodes());
    answer(&Reply::Ready { layers, landlock_abi, inputs_at, decodes })?;
    match (setup.task, code) {
        (Task::Compile, _) => {
            let Some(compiled) = compiled else {
                fail!(Worker, "the set-up has no compiled form to compile")
            };
            for piece in runtime.compile(compiled)?.chunks(CODE_MESSAGE_BYTES) {
                answer(&Reply::Code(piece.to_vec()))?;
            }
            return answer(&Reply::Loaded);
        }
        (_, Some(code)) => {
            if !runtime.take_code(code)? {
                answer(&Reply::Useless)?;
            }
        }
        (_, None) => {}
    }
    let seed = setup.seed.unwrap_or_default();
    runtime.seed(seed_of_block(seed, &[]))?;
    runtime.load(&setup, compiled)?;
    answer(&Reply::Loaded)?;
    // SAFETY: inside the first page, which is mapped for as long as the process lives; its fields are
    // atomics.
    let doorbell = unsafe { &*status.add(DOORBELL_OFFSET).cast::<Doorbell>() };
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let mut places = Vec::new();
    loop {
        let n = match socket::receive(socket, &mut buffer)? {
            ReceiveResult::Packet(n) => n,
            ReceiveResult::Interrupted => continue,
            ReceiveResult::Closed | ReceiveResult::TimedOut => return Ok(()),
        };
        let seq = match protocol::decode_request(buffer.get(..n).unwrap_or_default(), &mut places)? {
            Request::Call(seq) => seq,
            Request::Lend(bytes) => {
                let memory = socket::receive_with_descriptors(socket)?.and_then(|(_, mut fds)| fds.pop());
                let Some(memory) = memory else {
                    fail!(Worker, "the message has no descriptor of device memory")
                };
                answer(&Reply::Lent(runtime.lend(memory, bytes)?))?;
                continue;
            }
            // Reading the message is the complete answer to it.
            Request::Look => continue,
            Request::TakeBack => {
                runtime.take_back();
                answer(&Reply::Lent(None))?;
                continue;
            }
        };
        let slots = locate(&setup, &types, &segments, &places)?;
        runtime.seed(seed_of_block(seed, slots.first().map_or(&[], |s| s.start)))?;
        if slots.iter().any(|slot| slot.stored > 0) && !runtime.decode(&slots)? {
            answer(&Reply::Undecoded(seq))?;
            continue;
        }
        connections::during(!setup.grants.connect.is_empty(), || runtime.call(&slots))?;
        if doorbell.ring(seq) {
            answer(&Reply::Done(seq))?;
        }
    }
}

fn locate<'a>(
    setup: &'a Setup,
    types: &'a [Datatype],
    segments: &[Map],
    places: &'a [SlotLocation],
) -> Result<Vec<CallSlot<'a>>> {
    if places.len() != setup.slots.len() {
        fail!(
            Worker,
            "expected a location for each slot, got {} locations for {} slots",
            places.len(),
            setup.slots.len()
        )
    }
    let mut slots = Vec::with_capacity(places.len());
    for ((slot, datatype), place) in setup.slots.iter().zip(types).zip(places) {
        let data = protocol::block_bytes(&place.dims, datatype).and_then(|bytes| {
            segments.get(place.segment as usize)?.at(place.offset, bytes.max(place.stored))
        });
        let Some(data) = data else { fail!(Worker, "a block of the call is outside the shared memory") };
        if slot.output && place.stored > 0 {
            fail!(Worker, "an output cannot be in stored form")
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

/// Ends a Python worker whose function failed and may have lacked a module: another one tries again.
pub fn end_lacking_modules() -> ! {
    // SAFETY: this process has nothing to clean up; the host knows the meaning of this exit status.
    unsafe { libc::_exit(protocol::LACKS_MODULES_EXIT) }
}

/// Returns seconds since 1970.
pub fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Reads the bytes of the compiled form.
///
/// # Errors
/// `Io`.
pub fn read_compiled(compiled: OwnedFd) -> Result<Vec<u8>> {
    let mut file = std::fs::File::from(compiled);
    let mut bytes = Vec::new();
    // Without querying its size, which a locked-down process may not.
    std::io::Seek::rewind(&mut file)
        .and_then(|()| std::io::Read::take(file, u64::MAX).read_to_end(&mut bytes))
        .map_err(|e| Error::io("cannot read the compiled form", &e))?;
    Ok(bytes)
}

fn read_setup(mut fds: Vec<OwnedFd>) -> Result<(Setup, Vec<OwnedFd>)> {
    if fds.is_empty() {
        fail!(Worker, "the first message has no set-up")
    }
    let rest = fds.split_off(1);
    let Some(first) = fds.pop() else { fail!(Worker, "the first message has no set-up") };
    let text = read_compiled(first)?;
    Ok((parse_setup(&text)?, rest))
}

/// Parses the set-up message. Other protocol versions may have other fields, so the version is checked before
/// these.
fn parse_setup(text: &[u8]) -> Result<Setup> {
    #[derive(serde::Deserialize)]
    struct SetupVersion {
        protocol: u32,
    }
    let unusable =
        |e: serde_json::Error| Error::new(ErrorKind::Worker, format!("cannot parse the set-up: {e}"));
    let SetupVersion { protocol } = serde_json::from_slice(text).map_err(unusable)?;
    if protocol != PROTOCOL_VERSION {
        fail!(
            Worker,
            "the host uses protocol {protocol}, and its worker {PROTOCOL_VERSION}: one of them was updated while the program ran; restart the program, or reinstall hyperchunk"
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
        assert!(said(format!("{{\"protocol\":{PROTOCOL_VERSION}}}").as_bytes()).contains("missing field"));
        assert!(said(b"").contains("the set-up"));
    }
}
