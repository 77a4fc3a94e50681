//! The simulated GPU: its memory, loaded modules, and counters.

use crate::ptx::{Fault, Memory, Program};
use crate::shared::{PhysicalMemory, SharedAllocations};
use crate::streams::{Event, Stream};
use crate::{Counts, Knob};
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `CUresult`.
pub(crate) type Code = i32;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const INVALID_PTX: Code = 218;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const LAUNCH_OUT_OF_RESOURCES: Code = 701;
pub(crate) const LAUNCH_TIMEOUT: Code = 702;
pub(crate) const ILLEGAL_INSTRUCTION: Code = 715;
pub(crate) const MISALIGNED_ADDRESS: Code = 716;
pub(crate) const LAUNCH_FAILED: Code = 719;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// CUDA's names and texts of the codes above.
pub(crate) const CODES: [(Code, &std::ffi::CStr, &std::ffi::CStr); 18] = [
    (SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (NO_DEVICE, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (
        LAUNCH_OUT_OF_RESOURCES,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch",
    ),
    (LAUNCH_TIMEOUT, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (ILLEGAL_INSTRUCTION, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered"),
    (MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
];

/// The first address of GPU memory, which no process uses.
const BASE_ADDRESS: u64 = 0x0700_0000_0000_0000;
/// Minimum gap between two allocations.
const GAP_BYTES: u64 = 4096;
/// The contents of uninitialised memory.
const GARBAGE: u8 = 0xa5;

struct Allocation {
    address: u64,
    /// `None` after freeing, and for merely reserved addresses.
    bytes: Option<Store>,
}

/// The owner of the bytes.
enum Store {
    Own(Vec<u8>),
    /// Memory that other processes may share.
    Mapped(Arc<PhysicalMemory>),
}

impl Store {
    fn bytes(&self) -> &[u8] {
        match self {
            Store::Own(bytes) => bytes,
            Store::Mapped(memory) => memory.bytes(),
        }
    }
}

/// The GPU's memory. Addresses are never reused.
#[derive(Default)]
pub(crate) struct DeviceMemory {
    /// Sorted by address.
    allocations: Vec<Allocation>,
    /// The end of the last allocation.
    end: u64,
    used: u64,
    peak: u64,
    taken: u64,
}

impl DeviceMemory {
    fn find(&self, address: u64, bytes: usize) -> Option<(usize, usize)> {
        let at = self.allocations.partition_point(|piece| piece.address <= address).checked_sub(1)?;
        let piece = &self.allocations[at];
        let start = usize::try_from(address - piece.address).ok()?;
        let end = start.checked_add(bytes)?;
        (end <= piece.bytes.as_ref()?.bytes().len()).then_some((at, start))
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> u64 {
        let address = self.reserve(bytes);
        if let Some(piece) = self.allocations.last_mut() {
            piece.bytes = Some(Store::Own(vec![GARBAGE; bytes]));
        }
        self.taken += 1;
        self.take(bytes);
        address
    }

    /// Reserves addresses without memory.
    pub(crate) fn reserve(&mut self, bytes: usize) -> u64 {
        let address = (self.end.max(BASE_ADDRESS) + GAP_BYTES).next_multiple_of(512);
        self.end = address + bytes as u64;
        self.allocations.push(Allocation { address, bytes: None });
        address
    }

    /// Maps memory at reserved addresses, or unmaps it.
    pub(crate) fn map(&mut self, address: u64, memory: Option<Arc<PhysicalMemory>>) {
        let at = self.allocations.partition_point(|piece| piece.address < address);
        if let Some(piece) = self.allocations.get_mut(at).filter(|piece| piece.address == address) {
            piece.bytes = memory.map(Store::Mapped);
        }
    }

    /// Increases the number of bytes in use.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.used += bytes as u64;
        self.peak = self.peak.max(self.used);
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.used -= bytes as u64;
    }

    /// Frees an allocation; returns false if none begins there.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Some((at, 0)) = self.find(address, 0) else { return false };
        let piece = &mut self.allocations[at].bytes;
        let Some(Store::Own(bytes)) = piece else { return false };
        let length = bytes.len();
        *piece = None;
        self.give_back(length);
        true
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }
}

impl Memory for DeviceMemory {
    fn read(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let (at, start) = self.find(address, bytes)?;
        self.allocations[at].bytes.as_ref()?.bytes().get(start..start + bytes)
    }

    fn write(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (at, start) = self.find(address, bytes)?;
        match self.allocations[at].bytes.as_mut()? {
            Store::Own(own) => own.get_mut(start..start + bytes),
            Store::Mapped(memory) => memory.bytes_mut().get_mut(start..start + bytes),
        }
    }
}

/// A loaded module, and the addresses of its variables.
pub(crate) struct Module {
    pub(crate) program: Arc<Program>,
    pub(crate) globals: Arc<Vec<u64>>,
}

/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) module: usize,
    pub(crate) name: String,
    pub(crate) max_shared: usize,
}

/// The state of the GPU.
pub(crate) struct Machine {
    pub(crate) initialised: bool,
    knobs: [u64; 11],
    pub(crate) memory: DeviceMemory,
    pub(crate) pinned: HashMap<usize, Layout>,
    pub(crate) streams: HashMap<usize, Stream>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) modules: HashMap<usize, Module>,
    pub(crate) kernels: HashMap<usize, Kernel>,
    pub(crate) sharing: SharedAllocations,
    next: usize,
    /// A fault of a kernel: every later call fails with it.
    pub(crate) broken: Option<Code>,
    pub(crate) counted: Counts,
    /// The published counters: a mapped file, so that a process without permission to write files can still
    /// update them.
    shown: Option<SharedCounts>,
}

struct SharedCounts(std::ptr::NonNull<Counts>);

// SAFETY: a mapping that is never undone; it is only written while the machine is locked.
unsafe impl Send for SharedCounts {}

impl SharedCounts {
    /// Creates a file in `folder`.
    fn new(folder: &std::path::Path) -> std::io::Result<SharedCounts> {
        let path = folder.join(std::process::id().to_string());
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(size_of::<Counts>() as u64)?;
        // SAFETY: a new mapping of a file that has this size.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Counts>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                std::os::fd::AsRawFd::as_raw_fd(&file),
                0,
            )
        };
        match std::ptr::NonNull::new(at.cast()) {
            Some(counts) if at != libc::MAP_FAILED => Ok(SharedCounts(counts)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// The locked machine, for one call.
pub(crate) struct LockedMachine(MutexGuard<'static, Option<Machine>>);

impl std::ops::Deref for LockedMachine {
    type Target = Machine;
    #[expect(clippy::expect_used, reason = "filled when it was taken")]
    fn deref(&self) -> &Machine {
        self.0.as_ref().expect("filled")
    }
}

impl std::ops::DerefMut for LockedMachine {
    #[expect(clippy::expect_used, reason = "filled when it was taken")]
    fn deref_mut(&mut self) -> &mut Machine {
        self.0.as_mut().expect("filled")
    }
}

pub(crate) fn machine() -> LockedMachine {
    let mut held = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    held.get_or_insert_with(Machine::new);
    LockedMachine(held)
}

impl Machine {
    fn new() -> Machine {
        Machine {
            initialised: false,
            knobs: [1, 1 << 30, 0, 0, 12090, 1, 0, 1, 0, 0, 0],
            memory: DeviceMemory::default(),
            pinned: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            kernels: HashMap::new(),
            sharing: SharedAllocations::default(),
            next: 0xfa_0000,
            broken: None,
            counted: Counts::default(),
            shown: None,
        }
    }

    /// Reads the environment, once.
    pub(crate) fn initialise(&mut self) {
        if std::mem::replace(&mut self.initialised, true) {
            return;
        }
        const NAMES: [&str; 11] = [
            "devices",
            "memory",
            "out_of_memory",
            "fail_launch",
            "version",
            "nvfs",
            "threads",
            "exports",
            "fail_import",
            "die",
            "die_import",
        ];
        let given = std::env::var("HYPERCHUNK_FAKE_CUDA").unwrap_or_default();
        for part in given.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let knob = NAMES.iter().position(|known| *known == name.trim());
            match (knob, value.trim().parse()) {
                (Some(knob), Ok(value)) => self.knobs[knob] = value,
                _ => self.report_mistake(&format!("HYPERCHUNK_FAKE_CUDA: unknown item {part:?}")),
            }
        }
        for _ in 0..self.knob(Knob::Threads) {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
        }
        if std::env::var_os("HYPERCHUNK_FAKE_CUDA_REPORT").is_some() {
            // SAFETY: the function may be called when the process ends.
            unsafe { libc::atexit(report) };
        }
        if let Some(folder) = std::env::var_os("HYPERCHUNK_FAKE_CUDA_COUNTS") {
            match SharedCounts::new(folder.as_ref()) {
                Ok(shown) => self.shown = Some(shown),
                Err(error) => self.report_mistake(&format!("HYPERCHUNK_FAKE_CUDA_COUNTS: {error}")),
            }
        }
    }

    /// Publishes the counters.
    pub(crate) fn show(&self) {
        if let Some(SharedCounts(at)) = &self.shown {
            // SAFETY: mapped, of this size, and written only here.
            unsafe { at.write_volatile(self.counts()) };
        }
    }

    pub(crate) fn set(&mut self, knob: u32, value: u64) {
        match self.knobs.get_mut(knob as usize) {
            Some(to) => *to = value,
            None => self.report_mistake(&format!("there is no knob {knob}")),
        }
    }

    pub(crate) fn knob(&self, knob: Knob) -> u64 {
        self.knobs[knob as usize]
    }

    /// Counts down to a requested failure.
    pub(crate) fn is_due(&mut self, knob: Knob) -> bool {
        if self.knob(knob) == 0 {
            return false;
        }
        let left = &mut self.knobs[knob as usize];
        *left = left.saturating_sub(1);
        *left == 0
    }

    pub(crate) fn counts(&self) -> Counts {
        let is_own = |piece: &&Allocation| matches!(piece.bytes, Some(Store::Own(_)));
        let pieces = self.memory.allocations.iter().filter(is_own).count();
        Counts {
            allocations: pieces as u64,
            bytes: self.memory.used,
            peak: self.memory.peak,
            pinned: self.pinned.len() as u64,
            streams: self.streams.len() as u64,
            events: self.events.len() as u64,
            modules: self.modules.len() as u64,
            taken: self.memory.taken,
            shared: self.sharing.live(),
            ..self.counted
        }
    }

    /// Returns a handle that was never used before.
    pub(crate) fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    /// Reports a mistake of the program.
    pub(crate) fn report_mistake(&mut self, text: &str) {
        self.counted.mistakes += 1;
        eprintln!("hyperchunk-cuda-fake: {text}");
    }

    /// Reports a mistake, and returns the code.
    pub(crate) fn refuse(&mut self, code: Code, text: &str) -> Code {
        self.report_mistake(text);
        code
    }

    /// Records a fault of a kernel: the context is unusable from now on.
    pub(crate) fn mark_unusable(&mut self, fault: &Fault) -> Code {
        let (code, text) = match fault {
            Fault::Address(text) => (ILLEGAL_ADDRESS, text),
            Fault::Misaligned(text) => (MISALIGNED_ADDRESS, text),
            Fault::Trap(text) => (LAUNCH_FAILED, text),
            Fault::Timeout(text) => (LAUNCH_TIMEOUT, text),
            Fault::Instruction(text) => (ILLEGAL_INSTRUCTION, text),
        };
        self.broken = Some(code);
        self.refuse(code, text)
    }
}

/// Writes the counters to the file that the environment names.
extern "C" fn report() {
    let Some(path) = std::env::var_os("HYPERCHUNK_FAKE_CUDA_REPORT") else { return };
    let c = machine().counts();
    let text = format!(
        "{{\"allocations\": {}, \"bytes\": {}, \"peak\": {}, \"pinned\": {}, \"streams\": {}, \"events\": {}, \
         \"modules\": {}, \"launches\": {}, \"up\": {}, \"down\": {}, \"direct\": {}, \"decompressed\": {}, \"mistakes\": {}, \"taken\": {}, \
         \"created\": {}, \"imported\": {}, \"shared\": {}}}\n",
        c.allocations,
        c.bytes,
        c.peak,
        c.pinned,
        c.streams,
        c.events,
        c.modules,
        c.launches,
        c.up,
        c.down,
        c.direct,
        c.decompressed,
        c.mistakes,
        c.taken,
        c.created,
        c.imported,
        c.shared
    );
    if let Err(error) = std::fs::write(&path, text) {
        eprintln!("hyperchunk-cuda-fake: {}: {error}", path.display());
    }
}
