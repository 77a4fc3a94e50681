//! The driver API: the entry points of programs to the fake GPU.

use crate::machine::{
    CODES, Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, Kernel,
    LAUNCH_FAILED, LAUNCH_OUT_OF_RESOURCES, Machine, Module, NO_DEVICE, NOT_FOUND, NOT_INITIALIZED,
    NOT_READY, OUT_OF_MEMORY, SUCCESS, machine,
};
use crate::ptx::{Grid, Memory as _, parse};
use crate::streams::{Event, Host, Stream, Work};
use crate::{Knob, machine::LockedMachine};
use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The handle of the only context, plus the GPU's number.
const CONTEXT_HANDLE: usize = 0xc0_0000;
/// Maximum number of threads in a block.
const MAX_THREADS: u32 = 1024;
/// Shared memory of a block in bytes: by default, and at most.
const DEFAULT_SHARED_BYTES: usize = 48 << 10;
const MAX_SHARED_BYTES: usize = 227 << 10;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// Runs `with` on the machine, for a call that needs a context.
pub(crate) fn in_context(with: impl FnOnce(&mut Machine) -> Code) -> Code {
    let mut machine = machine();
    if !machine.initialised {
        return machine.refuse(NOT_INITIALIZED, "a call before cuInit");
    }
    if CURRENT.get() == 0 {
        return machine.refuse(INVALID_CONTEXT, "a call in a thread without a context");
    }
    if let Some(code) = machine.broken {
        return code;
    }
    let code = with(&mut machine);
    machine.show();
    code
}

/// Returns the machine, for a call about GPUs.
fn initialised() -> Result<LockedMachine, Code> {
    let mut machine = machine();
    if machine.initialised {
        Ok(machine)
    } else {
        Err(machine.refuse(NOT_INITIALIZED, "a call before cuInit"))
    }
}

/// Writes a result to the caller's address.
///
/// # Safety
/// `to` is null or may be written.
unsafe fn give<T>(to: *mut T, value: T) -> Code {
    if to.is_null() {
        return machine().refuse(INVALID_VALUE, "the address for the result is null");
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    SUCCESS
}

/// Like [`give`], while the machine is locked.
///
/// # Safety
/// As [`give`].
pub(crate) unsafe fn give_in<T>(machine: &mut Machine, to: *mut T, value: T) -> Code {
    if to.is_null() {
        return machine.refuse(INVALID_VALUE, "the address for the result is null");
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    SUCCESS
}

macro_rules! entries {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> Code $body:block)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As CUDA's function of this name.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> Code $body
    )*};
}
pub(crate) use entries;

entries! {
    /// Initialises the driver.
    fn cuInit(flags: c_uint) -> Code {
        let mut machine = machine();
        if flags != 0 {
            return machine.refuse(INVALID_VALUE, "cuInit with flags");
        }
        machine.initialise();
        if machine.knob(Knob::Devices) == 0 { NO_DEVICE } else { SUCCESS }
    }

    /// Returns the version of CUDA.
    fn cuDriverGetVersion(to: *mut c_int) -> Code {
        let version = machine().knob(Knob::Version);
        // SAFETY: the caller's promise.
        unsafe { give(to, version as c_int) }
    }

    /// Returns a code's name.
    fn cuGetErrorName(code: c_int, to: *mut *const c_char) -> Code {
        let Some((_, name, _)) = CODES.iter().find(|(of, ..)| *of == code) else { return INVALID_VALUE };
        // SAFETY: the caller's promise.
        unsafe { give(to, name.as_ptr()) }
    }

    /// Returns a code's text.
    fn cuGetErrorString(code: c_int, to: *mut *const c_char) -> Code {
        let Some((_, _, text)) = CODES.iter().find(|(of, ..)| *of == code) else { return INVALID_VALUE };
        // SAFETY: the caller's promise.
        unsafe { give(to, text.as_ptr()) }
    }

    /// Returns the number of GPUs.
    fn cuDeviceGetCount(to: *mut c_int) -> Code {
        let count = match initialised() { Ok(machine) => machine.knob(Knob::Devices), Err(code) => return code };
        // SAFETY: the caller's promise.
        unsafe { give(to, count as c_int) }
    }

    /// Returns a GPU's handle: its number.
    fn cuDeviceGet(to: *mut c_int, ordinal: c_int) -> Code {
        let count = match initialised() { Ok(machine) => machine.knob(Knob::Devices), Err(code) => return code };
        if u64::try_from(ordinal).is_ok_and(|ordinal| ordinal < count) {
            // SAFETY: the caller's promise.
            unsafe { give(to, ordinal) }
        } else {
            INVALID_DEVICE
        }
    }

    /// Returns a GPU's name.
    fn cuDeviceGetName(to: *mut c_char, bytes: c_int, _device: c_int) -> Code {
        let name = b"Hyperchunk test GPU\0";
        if to.is_null() || usize::try_from(bytes).unwrap_or(0) < name.len() {
            return INVALID_VALUE;
        }
        // SAFETY: by CUDA's contract there are `bytes` bytes.
        unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), to.cast(), name.len()) };
        SUCCESS
    }

    /// Returns a GPU's memory.
    fn cuDeviceTotalMem_v2(to: *mut usize, _device: c_int) -> Code {
        let bytes = machine().knob(Knob::Memory);
        // SAFETY: the caller's promise.
        unsafe { give(to, bytes as usize) }
    }

    /// Returns a property of a GPU.
    fn cuDeviceGetAttribute(to: *mut c_int, which: c_int, _device: c_int) -> Code {
        let value = match which {
            1 => MAX_THREADS as c_int,
            8 => DEFAULT_SHARED_BYTES as c_int,
            10 => 32,
            16 => 1,
            // Unified addressing, and the compute capability, 9.0.
            41 => 1,
            75 => 9,
            76 => 0,
            97 => MAX_SHARED_BYTES as c_int,
            // Virtual memory management, with export to descriptors.
            102 => 1,
            103 => machine().knob(Knob::Exports) as c_int,
            _ => return machine().refuse(INVALID_VALUE, &format!("unsupported attribute {which} of a GPU")),
        };
        // SAFETY: the caller's promise.
        unsafe { give(to, value) }
    }

    /// Returns a GPU's UUID.
    fn cuDeviceGetUuid_v2(to: *mut [u8; 16], device: c_int) -> Code {
        let mut uuid = *b"hyperchunk-fake\0";
        uuid[15] = device as u8;
        // SAFETY: the caller's promise.
        unsafe { give(to, uuid) }
    }

    /// Returns the primary context.
    fn cuDevicePrimaryCtxRetain(to: *mut *mut c_void, device: c_int) -> Code {
        if let Err(code) = initialised() {
            return code;
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, std::ptr::without_provenance_mut(CONTEXT_HANDLE + usize::try_from(device).unwrap_or(0))) }
    }

    /// Releases the primary context.
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Code {
        SUCCESS
    }

    /// Sets the thread's context.
    fn cuCtxSetCurrent(context: *mut c_void) -> Code {
        CURRENT.set(context as usize);
        SUCCESS
    }

    /// Returns the thread's context.
    fn cuCtxGetCurrent(to: *mut *mut c_void) -> Code {
        // SAFETY: the caller's promise.
        unsafe { give(to, std::ptr::without_provenance_mut(CURRENT.get())) }
    }

    /// Returns the thread's GPU.
    fn cuCtxGetDevice(to: *mut c_int) -> Code {
        if CURRENT.get() == 0 {
            return INVALID_CONTEXT;
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, (CURRENT.get() - CONTEXT_HANDLE) as c_int) }
    }

    /// Waits for all work.
    fn cuCtxSynchronize() -> Code {
        in_context(Machine::advance_all)
    }

    /// Returns free and total memory.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
        in_context(|machine| {
            let all = machine.knob(Knob::Memory);
            let left = all.saturating_sub(machine.memory.used());
            // SAFETY: the caller's promise.
            unsafe {
                give_in(machine, free, left as usize);
                give_in(machine, total, all as usize)
            }
        })
    }

    /// Allocates device memory.
    fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> Code {
        in_context(|machine| {
            if bytes == 0 {
                return machine.refuse(INVALID_VALUE, "an allocation of no bytes");
            }
            let left = machine.knob(Knob::Memory).saturating_sub(machine.memory.used());
            if machine.is_due(Knob::OutOfMemory) || bytes as u64 > left {
                return OUT_OF_MEMORY;
            }
            let address = machine.memory.allocate(bytes);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, address) }
        })
    }

    /// Frees device memory; waits for its users.
    fn cuMemFree_v2(address: u64) -> Code {
        in_context(|machine| {
            let code = machine.advance_all();
            if code != SUCCESS {
                return code;
            }
            if machine.memory.free(address) {
                return SUCCESS;
            }
            let text = format!("cuMemFree: no allocation of device memory begins at {address:#x}, or it is freed already");
            machine.refuse(INVALID_VALUE, &text)
        })
    }

    /// Allocates page-locked memory.
    fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) -> Code {
        in_context(|machine| {
            if machine.is_due(Knob::OutOfMemory) {
                return OUT_OF_MEMORY;
            }
            let Ok(layout) = Layout::from_size_align(bytes.max(1), 4096) else { return OUT_OF_MEMORY };
            // SAFETY: the size is not 0.
            let start = unsafe { std::alloc::alloc(layout) };
            if start.is_null() {
                return OUT_OF_MEMORY;
            }
            machine.pinned.insert(start as usize, layout);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, start.cast()) }
        })
    }

    /// Frees page-locked memory; waits for its users.
    fn cuMemFreeHost(start: *mut c_void) -> Code {
        in_context(|machine| {
            let code = machine.advance_all();
            if code != SUCCESS {
                return code;
            }
            let Some(layout) = machine.pinned.remove(&(start as usize)) else {
                return machine.refuse(INVALID_VALUE, "cuMemFreeHost: no page-locked memory begins there, or it is freed already");
            };
            // SAFETY: allocated with this layout, and removed from the list of live allocations.
            unsafe { std::alloc::dealloc(start.cast(), layout) };
            SUCCESS
        })
    }

    /// Copies to the GPU. Memory that is not page-locked is read at once, as the driver does.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) -> Code {
        in_context(|machine| {
            let code = machine.check_device("cuMemcpyHtoDAsync", to, bytes);
            if code != SUCCESS {
                return code;
            }
            let from = if machine.is_pinned(from as usize, bytes) {
                Host::Pinned(from as usize)
            } else {
                // SAFETY: by CUDA's contract there are `bytes` bytes.
                Host::Taken(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec())
            };
            machine.give(stream as usize, Work::Up { to, from, bytes })
        })
    }

    /// Copies from the GPU: at once, unless to page-locked memory.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) -> Code {
        in_context(|machine| {
            let code = machine.check_device("cuMemcpyDtoHAsync", from, bytes);
            if code != SUCCESS {
                return code;
            }
            if machine.is_pinned(to as usize, bytes) {
                return machine.give(stream as usize, Work::Down { to: to as usize, from, bytes });
            }
            let code = machine.advance(stream as usize, None);
            if code != SUCCESS {
                return code;
            }
            let Some(place) = machine.memory.read(from, bytes) else { return INVALID_VALUE };
            // SAFETY: by CUDA's contract there is room for `bytes` bytes.
            unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), to.cast(), bytes) };
            machine.counted.down += bytes as u64;
            SUCCESS
        })
    }

    /// Copies within the GPU.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) -> Code {
        in_context(|machine| {
            for address in [to, from] {
                let code = machine.check_device("cuMemcpyDtoDAsync", address, bytes);
                if code != SUCCESS {
                    return code;
                }
            }
            machine.give(stream as usize, Work::Over { to, from, bytes })
        })
    }

    /// Sets bytes.
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: *mut c_void) -> Code {
        in_context(|machine| {
            let code = machine.check_device("cuMemsetD8Async", to, bytes);
            if code != SUCCESS {
                return code;
            }
            machine.give(stream as usize, Work::Fill { to, value, bytes })
        })
    }

    /// Creates a stream.
    fn cuStreamCreate(to: *mut *mut c_void, _flags: c_uint) -> Code {
        in_context(|machine| {
            let handle = machine.handle();
            machine.streams.insert(handle, Stream::default());
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, std::ptr::without_provenance_mut(handle)) }
        })
    }

    /// Destroys a stream, after its work is done.
    fn cuStreamDestroy_v2(stream: *mut c_void) -> Code {
        in_context(|machine| {
            let code = machine.advance(stream as usize, None);
            if machine.streams.remove(&(stream as usize)).is_none() {
                return machine.refuse(INVALID_HANDLE, "cuStreamDestroy: the stream is invalid or destroyed");
            }
            code
        })
    }

    /// Waits for a stream.
    fn cuStreamSynchronize(stream: *mut c_void) -> Code {
        in_context(|machine| {
            if !machine.streams.contains_key(&(stream as usize)) {
                return machine.refuse(INVALID_HANDLE, "cuStreamSynchronize: the stream is invalid or destroyed");
            }
            machine.advance(stream as usize, None)
        })
    }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) -> Code {
        in_context(|machine| {
            let Some(event) = machine.events.get(&(event as usize)) else {
                return machine.refuse(INVALID_HANDLE, "cuStreamWaitEvent: the event is invalid or destroyed");
            };
            match event.recorded {
                None => SUCCESS,
                Some((other, ticket)) => machine.give(stream as usize, Work::Wait { stream: other, ticket }),
            }
        })
    }

    /// Creates an event.
    fn cuEventCreate(to: *mut *mut c_void, _flags: c_uint) -> Code {
        in_context(|machine| {
            let handle = machine.handle();
            machine.events.insert(handle, Event::default());
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, std::ptr::without_provenance_mut(handle)) }
        })
    }

    /// Destroys an event.
    fn cuEventDestroy_v2(event: *mut c_void) -> Code {
        in_context(|machine| match machine.events.remove(&(event as usize)) {
            Some(_) => SUCCESS,
            None => machine.refuse(INVALID_HANDLE, "cuEventDestroy: the event is invalid or destroyed"),
        })
    }

    /// Records an event after the present work of a stream.
    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
        in_context(|machine| {
            let ticket = TICKETS.fetch_add(1, Ordering::Relaxed) + 1;
            let (event, stream) = (event as usize, stream as usize);
            let Some(of) = machine.events.get_mut(&event) else {
                return machine.refuse(INVALID_HANDLE, "cuEventRecord: the event is invalid or destroyed");
            };
            *of = Event { recorded: Some((stream, ticket)), time: None };
            machine.give(stream, Work::Record { event, ticket })
        })
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: *mut c_void) -> Code {
        in_context(|machine| {
            let Some(of) = machine.events.get(&(event as usize)) else {
                return machine.refuse(INVALID_HANDLE, "cuEventSynchronize: the event is invalid or destroyed");
            };
            match of.recorded {
                None => SUCCESS,
                Some((stream, ticket)) => machine.advance(stream, Some(ticket)),
            }
        })
    }

    /// Returns whether an event was passed.
    fn cuEventQuery(event: *mut c_void) -> Code {
        in_context(|machine| match machine.events.get(&(event as usize)) {
            None => machine.refuse(INVALID_HANDLE, "cuEventQuery: the event is invalid or destroyed"),
            Some(event) if machine.is_passed(event) => SUCCESS,
            Some(_) => NOT_READY,
        })
    }

    /// Returns the milliseconds between two events.
    fn cuEventElapsedTime(to: *mut f32, start: *mut c_void, end: *mut c_void) -> Code {
        in_context(|machine| {
            let time = |handle: *mut c_void| machine.events.get(&(handle as usize)).map(|event| event.time);
            match (time(start), time(end)) {
                (Some(Some(start)), Some(Some(end))) => {
                    let time = end.saturating_duration_since(start).as_secs_f32() * 1000.0;
                    // SAFETY: the caller's promise.
                    unsafe { give_in(machine, to, time) }
                }
                (Some(_), Some(_)) => NOT_READY,
                _ => machine.refuse(INVALID_HANDLE, "cuEventElapsedTime: the event is invalid or destroyed"),
            }
        })
    }

    /// Loads PTX.
    fn cuModuleLoadDataEx(
        to: *mut *mut c_void, image: *const c_void, count: c_uint, options: *const c_uint, values: *const *mut c_void,
    ) -> Code {
        in_context(|machine| {
            // SAFETY: PTX ends with a NUL.
            let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy().into_owned();
            let program = match parse(&text) {
                Ok(program) => program,
                Err(wrong) => {
                    let text = format!("hyperchunk-cuda-fake: PTX, line {}: {}", wrong.line, wrong.text);
                    // SAFETY: `count` options with a value each.
                    unsafe { write_log(&text, count, options, values) };
                    machine.report_mistake(&text);
                    return INVALID_PTX;
                }
            };
            let mut globals = Vec::new();
            for variable in &program.variables {
                let address = machine.memory.allocate(variable.bytes.max(1));
                if let Some(place) = machine.memory.write(address, variable.bytes) {
                    place.fill(0);
                    place[..variable.initial.len()].copy_from_slice(&variable.initial);
                }
                globals.push(address);
            }
            let handle = machine.handle();
            let module = Module { program: Arc::new(program), globals: Arc::new(globals) };
            machine.modules.insert(handle, module);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, std::ptr::without_provenance_mut(handle)) }
        })
    }

    /// Unloads a module.
    fn cuModuleUnload(module: *mut c_void) -> Code {
        in_context(|machine| {
            let Some(of) = machine.modules.remove(&(module as usize)) else {
                return machine.refuse(INVALID_HANDLE, "cuModuleUnload: the module is invalid or unloaded");
            };
            machine.kernels.retain(|_, kernel| kernel.module != module as usize);
            for address in of.globals.iter() {
                machine.memory.free(*address);
            }
            SUCCESS
        })
    }

    /// Returns a kernel of a module.
    fn cuModuleGetFunction(to: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> Code {
        in_context(|machine| {
            // SAFETY: names end with a NUL.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            let Some(of) = machine.modules.get(&(module as usize)) else {
                return machine.refuse(INVALID_HANDLE, "cuModuleGetFunction: the module is invalid or unloaded");
            };
            if !of.program.functions.get(&name).is_some_and(|function| function.is_kernel) {
                return NOT_FOUND;
            }
            let handle = machine.handle();
            let kernel = Kernel { module: module as usize, name, max_shared: DEFAULT_SHARED_BYTES };
            machine.kernels.insert(handle, kernel);
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, std::ptr::without_provenance_mut(handle)) }
        })
    }

    /// Returns a property of a kernel.
    fn cuFuncGetAttribute(to: *mut c_int, which: c_int, function: *mut c_void) -> Code {
        in_context(|machine| {
            let Some(kernel) = machine.kernel(function) else { return INVALID_HANDLE };
            let value = match which {
                0 => kernel.max_threads.unwrap_or(MAX_THREADS).min(MAX_THREADS) as c_int,
                1 => kernel.shared_bytes,
                _ => return machine.refuse(INVALID_VALUE, &format!("unsupported attribute {which} of a kernel")),
            };
            // SAFETY: the caller's promise.
            unsafe { give_in(machine, to, value) }
        })
    }

    /// Raises a kernel's limit of shared memory.
    fn cuFuncSetAttribute(function: *mut c_void, which: c_int, value: c_int) -> Code {
        in_context(|machine| {
            let bytes = usize::try_from(value).unwrap_or(usize::MAX);
            match machine.kernels.get_mut(&(function as usize)) {
                Some(kernel) if which == 8 && bytes <= MAX_SHARED_BYTES => {
                    kernel.max_shared = bytes;
                    SUCCESS
                }
                Some(_) => INVALID_VALUE,
                None => INVALID_HANDLE,
            }
        })
    }

    /// Returns the offset and the size of a parameter.
    fn cuFuncGetParamInfo(function: *mut c_void, number: usize, offset: *mut usize, bytes: *mut usize) -> Code {
        in_context(|machine| {
            let Some(kernel) = machine.kernel(function) else { return INVALID_HANDLE };
            let Some((start, length)) = kernel.parameters.get(number).copied() else { return INVALID_VALUE };
            // SAFETY: the caller's promise.
            unsafe {
                give_in(machine, offset, start);
                give_in(machine, bytes, length)
            }
        })
    }

    /// Launches a kernel.
    fn cuLaunchKernel(
        function: *mut c_void, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: *mut c_void, parameters: *const *mut c_void, extra: *const *mut c_void,
    ) -> Code {
        in_context(|machine| {
            let Some(kernel) = machine.kernel(function) else {
                return machine.refuse(INVALID_HANDLE, "cuLaunchKernel: the kernel is invalid, or its module is unloaded");
            };
            let threads = [bx, by, bz].iter().map(|count| u64::from(*count)).product::<u64>();
            let most = kernel.max_threads.unwrap_or(MAX_THREADS).min(MAX_THREADS);
            if threads == 0 || threads > u64::from(most) || bz > 64 {
                return machine.refuse(INVALID_VALUE, &format!("{}: blocks of {bx} x {by} x {bz} threads", kernel.name));
            }
            if gx == 0 || gy == 0 || gz == 0 || gx > i32::MAX as u32 || gy > 65535 || gz > 65535 {
                return machine.refuse(INVALID_VALUE, &format!("{}: a grid of {gx} x {gy} x {gz} blocks", kernel.name));
            }
            if shared as usize > kernel.max_shared {
                return machine.refuse(LAUNCH_OUT_OF_RESOURCES, &format!("{}: {shared} bytes of shared memory", kernel.name));
            }
            if !extra.is_null() || (parameters.is_null() && !kernel.parameters.is_empty()) {
                return machine.refuse(INVALID_VALUE, &format!("{}: unsupported form of parameters", kernel.name));
            }
            let end = kernel.parameters.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
            let mut bytes = vec![0; end];
            for (number, (offset, length)) in kernel.parameters.iter().enumerate() {
                // SAFETY: there is a pointer for each parameter, to as many bytes as it has.
                unsafe {
                    let from: *const u8 = (*parameters.add(number)).cast();
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().add(*offset), *length);
                }
            }
            if machine.is_due(Knob::FailLaunch) {
                return LAUNCH_FAILED;
            }
            if machine.is_due(Knob::Die) {
                std::process::abort();
            }
            let grid = Grid { blocks: [gx, gy, gz], threads: [bx, by, bz], shared: shared as usize };
            let Some(module) = machine.modules.get(&kernel.module) else { return INVALID_HANDLE };
            let (program, globals) = (Arc::clone(&module.program), Arc::clone(&module.globals));
            let work = Work::Launch { program, globals, name: kernel.name, grid, parameters: bytes };
            machine.give(stream as usize, work)
        })
    }
}

/// The properties of a kernel.
struct KernelInfo {
    module: usize,
    name: String,
    parameters: Vec<(usize, usize)>,
    max_threads: Option<u32>,
    max_shared: usize,
    shared_bytes: c_int,
}

impl Machine {
    fn kernel(&self, handle: *mut c_void) -> Option<KernelInfo> {
        let kernel = self.kernels.get(&(handle as usize))?;
        let program = &self.modules.get(&kernel.module)?.program;
        let function = program.functions.get(&kernel.name)?;
        Some(KernelInfo {
            module: kernel.module,
            name: kernel.name.clone(),
            parameters: function.parameters.iter().map(|slot| (slot.offset as usize, slot.bytes)).collect(),
            max_threads: function.max_threads,
            max_shared: kernel.max_shared,
            shared_bytes: c_int::try_from(program.shared_bytes).unwrap_or(c_int::MAX),
        })
    }
}

/// Writes to the error log buffer that the options for loading a module name.
///
/// # Safety
/// There are `count` options and values; a buffer has the size that they say.
unsafe fn write_log(text: &str, count: c_uint, options: *const c_uint, values: *const *mut c_void) {
    let (mut buffer, mut size) = (std::ptr::null_mut::<u8>(), 0);
    for number in 0..count as usize {
        // SAFETY: the caller's promise.
        match unsafe { (*options.add(number), *values.add(number)) } {
            (5, value) => buffer = value.cast(),
            (6, value) => size = value as usize,
            _ => {}
        }
    }
    if buffer.is_null() || size == 0 {
        return;
    }
    let length = text.len().min(size - 1);
    // SAFETY: the buffer has `size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, length);
        buffer.add(length).write(0);
    }
}
