//! Runtime of one module: it is compiled, then the permission to create code is dropped, then it runs.

use crate::fail;
use crate::functions::{self, Dataset, State};
use crate::memory::{Creator, GUARD_BYTES, RESERVED_BYTES, Reservation};
use crate::wasi;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::code::MAX_CODE_BYTES;
use hyperchunk_udf::protocol::{Setup, block_bytes};
use hyperchunk_udf::record::RandomBytes;
use hyperchunk_udf::wasm;
use hyperchunk_udf::worker::{CallSlot, Runtime};
use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wasmtime::{Config, Engine, ExternType, Instance, Linker, Module, Store, Trap, TypedFunc, WasmBacktrace};

/// Stack size in bytes for a module's functions.
const STACK_BYTES: usize = 1 << 20;

/// WebAssembly runtime of the worker.
pub(crate) struct WasmRuntime {
    engine: Engine,
    memory: &'static Reservation,
    datasets: Vec<Dataset>,
    /// Module from cached machine code.
    ready: Option<Module>,
    running: Option<(Store<State>, TypedFunc<(), ()>)>,
    /// Seed of random numbers during loading.
    seed: u64,
}

impl WasmRuntime {
    /// Maps the memory and configures the compiler. Does not access the module.
    pub(crate) fn new(setup: &Setup, segments: &[OwnedFd]) -> Result<Self> {
        end_at_faults()?;
        let memory: &'static Reservation = Box::leak(Box::new(Reservation::new(setup, segments)?));
        let mut config = Config::new();
        config
            .with_host_memory(Arc::new(Creator(memory)))
            .memory_reservation(RESERVED_BYTES as u64)
            .memory_guard_size(GUARD_BYTES as u64)
            .memory_init_cow(false)
            .native_unwind_info(false)
            // Mapping from instructions to bytes of the module, which is not used.
            .generate_address_map(false)
            .max_wasm_stack(STACK_BYTES)
            .wasm_memory64(false)
            .wasm_multi_memory(false)
            // Its results may differ between kinds of processors.
            .wasm_relaxed_simd(false);
        let engine =
            Engine::new(&config).map_err(|e| Error::new(ErrorKind::Worker, format!("WebAssembly: {e:#}")))?;
        let mut datasets = Vec::new();
        for slot in &setup.slots {
            datasets.push(Dataset {
                name: slot.name.trim_start_matches('/').to_owned(),
                type_name: Datatype::parse(&slot.datatype)?.type_name_for_lib(),
                address: 0,
                dims: Vec::new(),
                start: Vec::new(),
            });
        }
        Ok(WasmRuntime { engine, memory, datasets, ready: None, running: None, seed: 0 })
    }

    fn module(&self, given: OwnedFd) -> Result<Module> {
        let bytes = read(given, wasm::MAX_MODULE_BYTES)?;
        wasm::check(&bytes)?;
        Module::from_binary(&self.engine, &bytes).map_err(|e| {
            Error::new(ErrorKind::Failed, format!("the module does not compile: {}", escape(&chain(&e), 400)))
        })
    }

    fn link(&self, store: &mut Store<State>, module: &Module) -> Result<Linker<State>> {
        let mut linker = Linker::new(&self.engine);
        let defined = functions::define(&mut linker).and_then(|()| wasi::define(&mut linker));
        defined.map_err(|e| Error::new(ErrorKind::Worker, format!("WebAssembly: {e:#}")))?;
        for import in module.imports() {
            let (from, name) = (import.module(), import.name());
            if linker.get_by_import(&mut *store, &import).is_some() {
                continue;
            }
            let added = match import.ty() {
                ExternType::Func(kind) if from == wasi::MODULE => {
                    wasi::define_missing(&mut linker, &self.engine, name, &kind).unwrap_or(false)
                }
                _ => false,
            };
            if !added {
                return fail(
                    ErrorKind::Failed,
                    format!(
                        "the module imports {}, which does not exist; a function can import from the modules `hyperchunk` and WASI",
                        escape(&format!("{from}.{name}"), 120)
                    ),
                );
            }
        }
        Ok(linker)
    }

    fn start(&mut self, module: &Module, setup: &Setup) -> Result<()> {
        let state = State {
            memory: self.memory,
            datasets: std::mem::take(&mut self.datasets),
            file_path: setup.file_path.clone(),
            growth: setup.memory,
            seed: self.seed,
            has_seed: setup.seed.is_some(),
            random: RandomBytes::new(self.seed),
            no_clock: setup.no_clock.clone(),
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| state);
        let linker = self.link(&mut store, module)?;
        // Runs the module's start function, if it has one.
        let instance = linker.instantiate(&mut store, module).map_err(|e| self.failed(&e))?;
        if instance.get_memory(&mut store, "memory").is_none() {
            return fail(ErrorKind::Failed, "the module does not export its memory as `memory`");
        }
        if let Some(initialize) = instance.get_func(&mut store, "_initialize") {
            let initialize = initialize.typed::<(), ()>(&store).map_err(|e| self.failed(&e))?;
            initialize.call(&mut store, ()).map_err(|e| self.failed(&e))?;
        }
        let entry = entry(&instance, &mut store)?;
        self.running = Some((store, entry));
        Ok(())
    }

    /// Translates the error of a failed call.
    fn failed(&self, error: &wasmtime::Error) -> Error {
        if let Some(own) = error.downcast_ref::<Error>() {
            return own.clone();
        }
        let place = error
            .downcast_ref::<WasmBacktrace>()
            .and_then(|trace| trace.frames().first())
            .and_then(|frame| frame.func_name())
            .map(|name| format!(" in {}", escape(name, 80)))
            .unwrap_or_default();
        let text = match error.downcast_ref::<Trap>() {
            Some(Trap::MemoryOutOfBounds) if self.faulted_in_input(error) => {
                "it wrote into an input, which can only be read".to_owned()
            }
            Some(Trap::MemoryOutOfBounds) => "it accessed memory that is not its own".to_owned(),
            Some(Trap::StackOverflow) => "its calls are nested too deeply".to_owned(),
            Some(Trap::UnreachableCodeReached) => "it gave up (the instruction `unreachable`)".to_owned(),
            Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
            None => escape(&chain(error), 400),
        };
        Error::new(ErrorKind::Failed, format!("{text}{place}"))
    }

    /// Returns whether the fault was in an input. The engine reports the address of a fault only as text.
    fn faulted_in_input(&self, error: &wasmtime::Error) -> bool {
        error.chain().map(ToString::to_string).any(|text| {
            let at = text.split("wasm address 0x").nth(1).and_then(|rest| rest.split(' ').next());
            at.and_then(|at| u64::from_str_radix(at, 16).ok()).is_some_and(|at| self.memory.is_input(at))
        })
    }
}

fn entry(instance: &Instance, store: &mut Store<State>) -> Result<TypedFunc<(), ()>> {
    let Some(entry) = instance.get_func(&mut *store, "dynamic_dataset") else {
        return fail(ErrorKind::Failed, "the module exports no function dynamic_dataset");
    };
    match entry.typed::<(), ()>(&*store) {
        Ok(entry) => Ok(entry),
        Err(_) => fail(
            ErrorKind::Failed,
            "its function dynamic_dataset has parameters or a result; it must have none",
        ),
    }
}

/// Formats an error and its causes on one line.
fn chain(error: &wasmtime::Error) -> String {
    let mut text = format!("{error:#}");
    if let Some(end) = text.find("\n") {
        text.truncate(end);
    }
    text
}

impl Runtime for WasmRuntime {
    fn sandbox_runtime(&self) -> sandbox::Runtime {
        sandbox::Runtime::Wasm
    }

    fn inputs_at(&self) -> Option<u64> {
        self.memory.inputs_at()
    }

    fn compile(&mut self, compiled: OwnedFd) -> Result<Vec<u8>> {
        let code = self.module(compiled)?.serialize();
        let code = code.map_err(|e| Error::new(ErrorKind::Worker, format!("WebAssembly: {e:#}")))?;
        Ok(if code.len() > MAX_CODE_BYTES { Vec::new() } else { code })
    }

    fn take_code(&mut self, code: OwnedFd) -> Result<bool> {
        let bytes = read(code, MAX_CODE_BYTES)?;
        // SAFETY: the host has cached code that a worker of this build produced, unchanged according to its
        // digest. If that worker or the cache was hostile, only this locked-down process is affected, in
        // which native code may run anyway.
        self.ready = unsafe { Module::deserialize(&self.engine, &bytes) }.ok();
        Ok(self.ready.is_some())
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        let module = match (self.ready.take(), compiled) {
            (Some(module), _) => module,
            (None, Some(compiled)) => self.module(compiled)?,
            (None, None) => return fail(ErrorKind::Worker, "the set-up has no module"),
        };
        sandbox::end_loading(sandbox::Runtime::Wasm, &sandbox::Rights::default())?;
        self.start(&module, setup)
    }

    fn seed(&mut self, seed: u64) -> Result<()> {
        self.seed = seed;
        if let Some((store, _)) = &mut self.running {
            store.data_mut().reseed(seed);
        }
        Ok(())
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        let Some((mut store, entry)) = self.running.take() else {
            return fail(ErrorKind::Worker, "the function was called before it was loaded");
        };
        for (dataset, slot) in store.data_mut().datasets.iter_mut().zip(slots) {
            let bytes = block_bytes(slot.dims, slot.datatype);
            let Some(address) = bytes.and_then(|b| self.memory.address(slot.place, b)) else {
                return fail(ErrorKind::Worker, "a block of the call is outside the memory");
            };
            dataset.address = address;
            dataset.dims.clear();
            dataset.dims.extend_from_slice(slot.dims);
            dataset.start.clear();
            dataset.start.extend_from_slice(slot.start);
        }
        entry.call(&mut store, ()).map_err(|e| self.failed(&e))?;
        self.running = Some((store, entry));
        Ok(())
    }
}

fn read(fd: OwnedFd, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = std::fs::File::from(fd);
    file.rewind()
        .and_then(|()| file.take(most as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| Error::io("cannot read the module", &e))?;
    Ok(bytes)
}

/// Ends the process at faults outside the module's code: the engine passes them on to the previously
/// installed handlers.
fn end_at_faults() -> Result<()> {
    extern "C" fn end(_: libc::c_int) {
        // A fault in runtime code on the module's behalf, such as filling or copying memory.
        const TEXT: &[u8] = b"a fault: was an input to be written, which can only be read?\n";
        // SAFETY: both are async-signal-safe; the second does not return.
        unsafe {
            libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
            libc::abort()
        }
    }
    let handler: extern "C" fn(libc::c_int) = end;
    for signal in [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE] {
        // SAFETY: all zeros is a valid value; the handler has the signature of one without SA_SIGINFO.
        let rc = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if rc != 0 {
            return Err(Error::last_os("cannot install a handler for faults"));
        }
    }
    Ok(())
}
