//! CUDA back end: the host's side of a function whose kernels run on the GPU.
//!
//! The driver and the context are opened before the lock-down. The source, its launch plan and its PTX are
//! processed after it; the driver then compiles the PTX for its GPU, and no code of the function runs on the
//! processor.
//!
//! Inputs in stored form are decompressed, unshuffled and copied to their positions in the block on the GPU
//! (`hyperchunk_cuda::ingest`).

use crate::fail;
use hyperchunk_cuda::ingest::{self, BufferCache, Input, Options, Part, Request, ingest, warm_up};
use hyperchunk_cuda::nvcomp::Nvcomp;
use hyperchunk_cuda::{Argument, Context, DeviceMemory, Function, Launch, Module, Stream};
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::cuda::{Dataset, KernelArgument, Plan, Program, Step};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::protocol::{Setup, block_bytes};
use hyperchunk_udf::stored::{DecodeSupport, StoredBlock, StoredChunk};
use hyperchunk_udf::worker::{CallSlot, Runtime, read_compiled};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// Approximate size of a batch in stored bytes.
const BATCH_BYTES: usize = 16 << 20;
/// Maximum GPU memory cached for decoding in later calls: two batches whose elements take a few times as
/// much.
const MAX_CACHED_BYTES: usize = 256 << 20;

/// Function on the GPU.
pub(crate) struct CudaRuntime {
    context: Arc<Context>,
    stream: Stream,
    loaded: Option<LoadedProgram>,
    /// Memory of each dataset, reused by later calls.
    memory: Vec<Option<DeviceMemory>>,
    decodes: DecodeSupport,
    nvcomp: Option<Nvcomp>,
    /// Memory for decoding, reused by later calls.
    kept: BufferCache,
    /// Memory lent by the host, which receives the output.
    lent: Option<DeviceMemory>,
    /// Reason why no memory can be lent, if so.
    no_sharing: Option<String>,
}

struct LoadedProgram {
    program: Program,
    functions: Vec<Function>,
}

/// Converts an error of the driver.
fn failed(error: &hyperchunk_cuda::Error) -> Error {
    Error::new(ErrorKind::Failed, error.message())
}

impl CudaRuntime {
    /// Loads the driver and makes it open the devices that it needs.
    ///
    /// # Errors
    /// `Failed`, with what is missing and what computes without it.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        if !setup.grants.gpu {
            fail!(Refused, "the profile does not grant the GPU")
        }
        let made = Context::for_device(0).and_then(|context| {
            context.prepare()?;
            let stream = Stream::new(&context)?;
            Ok((context, stream))
        });
        let (context, stream) = made.map_err(|e| {
            let text = format!(
                "no GPU to run its kernels on: {}; a function in C++, Lua or Python, or an expression, computes the same on the processor",
                e.message()
            );
            Error::new(ErrorKind::Failed, text)
        })?;
        let (decodes, nvcomp) = if setup.stored { decoders(&context) } else { Default::default() };
        let no_sharing = context.prepare_sharing().err().map(|error| error.message().to_owned());
        let kept = BufferCache::new(MAX_CACHED_BYTES);
        let (loaded, memory, lent) = (None, Vec::new(), None);
        Ok(CudaRuntime { context, stream, loaded, memory, decodes, nvcomp, kept, lent, no_sharing })
    }

    /// Returns the GPU memory of a dataset.
    fn place(&self, number: usize) -> Option<&DeviceMemory> {
        let lent = self.lent.as_ref().filter(|_| number == 0);
        lent.or_else(|| self.memory.get(number)?.as_ref())
    }

    /// Allocates GPU memory for a dataset.
    fn make_room(&mut self, number: usize, slot: &CallSlot<'_>, bytes: usize) -> Result<()> {
        if let Some(lent) = self.lent.as_ref().filter(|_| number == 0) {
            if lent.bytes() < bytes {
                fail!(
                    Worker,
                    "a block of {bytes} bytes does not fit the lent memory of {} bytes",
                    lent.bytes()
                )
            }
            return Ok(());
        }
        if self.memory.len() <= number {
            self.memory.resize_with(number + 1, || None);
        }
        let Some(held) = self.memory.get_mut(number) else { return Ok(()) };
        // A dataset without elements needs an address as well.
        let room = bytes.max(1);
        if held.as_ref().is_none_or(|memory| memory.bytes() < room) {
            *held = None;
            let about = |e: &hyperchunk_cuda::Error| {
                let name = escape(slot.name, 80);
                let text = format!(
                    "cannot allocate {bytes} bytes on the GPU for {name:?}: {}; attaching with `--chunks auto` makes evaluations small",
                    e.message()
                );
                Error::new(ErrorKind::Failed, text)
            };
            let taken = match DeviceMemory::alloc(&self.context, room) {
                // Frees the unused cache first.
                Err(_) if self.kept.clear() => DeviceMemory::alloc(&self.context, room),
                taken => taken,
            };
            *held = Some(taken.map_err(|e| about(&e))?);
        }
        Ok(())
    }

    /// Allocates GPU memory for each dataset, copies in the inputs that came as elements, and clears the
    /// outputs.
    fn fill(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        for (number, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.stored == 0) {
            let bytes = slot_bytes(slot)?;
            self.make_room(number, slot, bytes)?;
            let Some(memory) = self.place(number) else { continue };
            if slot.output {
                self.stream.fill(memory, 0, bytes, 0).map_err(|e| failed(&e))?;
            } else {
                // SAFETY: the host mapped `bytes` bytes for this slot, and keeps them while the call runs.
                let data = unsafe { std::slice::from_raw_parts(slot.data.cast_const(), bytes) };
                self.stream.upload(memory, 0, data).map_err(|e| failed(&e))?;
            }
        }
        Ok(())
    }

    fn launch(&self, step: &Step, functions: &[Function], program: &Program) -> Result<()> {
        let name = escape(program.kernels().nth(step.kernel).unwrap_or("?"), 80);
        let about =
            |what: String| Error::new(ErrorKind::Failed, format!("line {}: {name}: {what}", step.line));
        let Some(function) = functions.get(step.kernel) else {
            return Err(about("there is no such kernel".into()));
        };
        let threads: u32 = step.block.iter().product();
        let most = function.max_threads().map_err(|e| about(e.message().to_owned()))?;
        if threads > most {
            return Err(about(format!(
                "it can have {most} threads in a block on this GPU, but the source says {threads}"
            )));
        }
        let mut arguments = Vec::with_capacity(step.arguments.len());
        for passed in &step.arguments {
            arguments.push(match passed {
                KernelArgument::Bytes(bytes) => Argument::Bytes(bytes),
                KernelArgument::Address(slot) => match self.place(*slot) {
                    Some(memory) => Argument::Address(memory.address()),
                    None => return Err(about("a dataset of its arguments has no memory".into())),
                },
            });
        }
        let launch = Launch { grid: step.grid, block: step.block, shared: step.shared };
        function.launch(&self.stream, &launch, &arguments).map_err(|e| about(e.message().to_owned()))
    }

    fn plan(&self, slots: &[CallSlot<'_>]) -> Result<(Plan, &LoadedProgram)> {
        let Some(loaded) = &self.loaded else {
            fail!(Worker, "the function was called before it was loaded")
        };
        let datasets: Vec<_> = slots
            .iter()
            .map(|s| Dataset {
                name: s.name,
                datatype: s.datatype,
                dims: s.dims,
                start: s.start,
                output: s.output,
            })
            .collect();
        loaded.program.check(&datasets)?;
        Ok((loaded.program.plan(&datasets)?, loaded))
    }
}

/// Opens and tests the decoders before the lock-down. If one is missing or fails, inputs come as elements.
fn decoders(context: &Arc<Context>) -> (DecodeSupport, Option<Nvcomp>) {
    let nvcomp = Nvcomp::beside(context.driver(), None).ok();
    if let Some(nvcomp) = nvcomp.filter(|nvcomp| warm_up(context, Some(nvcomp)).is_ok()) {
        return (DecodeSupport::Compressed, Some(nvcomp));
    }
    match warm_up(context, None) {
        Ok(()) => (DecodeSupport::Plain, None),
        Err(_) => (DecodeSupport::Nothing, None),
    }
}

/// Returns the location of a part of a chunk in the shared memory.
fn part<'a>(stored_chunk: StoredChunk, memory: &'a [u8], fill: &'a [u8]) -> Result<Part<'a>> {
    let stored = match stored_chunk.bytes {
        None => ingest::ChunkBytes::Fill(fill),
        Some(range) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            match memory.get(place(range.start)..place(range.end)) {
                Some(bytes) => ingest::ChunkBytes::Bytes(bytes),
                None => fail!(Worker, "a chunk outside the shared memory"),
            }
        }
    };
    Ok(Part {
        stored,
        mask: stored_chunk.mask,
        from: stored_chunk.from,
        to: stored_chunk.to,
        size: stored_chunk.count,
    })
}

fn slot_bytes(slot: &CallSlot<'_>) -> Result<usize> {
    let bytes = block_bytes(slot.dims, slot.datatype).and_then(|b| usize::try_from(b).ok());
    match bytes {
        Some(bytes) => Ok(bytes),
        None => fail!(Worker, "a block of {:?} is too large", slot.dims),
    }
}

impl Runtime for CudaRuntime {
    fn sandbox_runtime(&self) -> sandbox::Runtime {
        sandbox::Runtime::Cuda
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        let Some(compiled) = compiled else { fail!(Worker, "the set-up has no compiled form") };
        let program = Program::parse(&setup.source)?;
        let ptx = program.ptx(&read_compiled(compiled)?)?;
        let module = Module::load(&self.context, &ptx.text).map_err(|e| failed(&e))?;
        let functions = ptx.names.iter().map(|name| module.function(name)).collect::<Result<_, _>>();
        self.loaded = Some(LoadedProgram { program, functions: functions.map_err(|e| failed(&e))? });
        Ok(())
    }

    fn decodes(&self) -> DecodeSupport {
        self.decodes
    }

    fn decode(&mut self, slots: &[CallSlot<'_>]) -> Result<bool> {
        for (number, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.stored > 0) {
            let bytes = slot_bytes(slot)?;
            self.make_room(number, slot, bytes)?;
            let Some(Some(to)) = self.memory.get(number) else { continue };
            let Ok(length) = usize::try_from(slot.stored) else {
                fail!(Worker, "the stored input is too large")
            };
            // SAFETY: the host mapped `length` bytes for this slot, and keeps them unchanged while the call
            // runs.
            let memory = unsafe { std::slice::from_raw_parts(slot.data.cast_const(), length) };
            let StoredBlock { chunk, filters, swap, fill, chunks } =
                StoredBlock::parse(memory, slot.dims, slot.datatype.size())?;
            let filters: Vec<_> = filters
                .into_iter()
                .map(|f| ingest::Filter { id: f.id, optional: false, name: None, parameters: f.parameters })
                .collect();
            let parts = chunks
                .into_iter()
                .map(|stored_chunk| part(stored_chunk, memory, &fill))
                .collect::<Result<_>>()?;
            let nowhere = |_: u64, _: &mut [u8]| -> hyperchunk_cuda::Result<()> {
                let message = "a chunk that is not in the shared memory";
                Err(hyperchunk_cuda::Error::new(hyperchunk_cuda::ErrorKind::Invalid, message))
            };
            let request = Request {
                input: Input::Reader(&nowhere),
                chunk: &chunk,
                filters: &filters,
                element: slot.datatype.size(),
                swap: swap as usize,
                dims: slot.dims,
                parts,
            };
            // On this thread: a locked-down process cannot start others.
            let nvcomp = self.nvcomp.as_ref();
            let kept = Some(&self.kept);
            let options = Options { nvcomp, threads: 1, batch: BATCH_BYTES, kept, ..Options::default() };
            let failed = || ingest(&request, to, 0, &options).is_err();
            // The cached memory may have used up the GPU's. For any other fault, the host decodes the input
            // itself and reports the error.
            if failed() && (!self.kept.clear() || failed()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lend(&mut self, memory: OwnedFd, bytes: u64) -> Result<Option<String>> {
        self.lent = None;
        if let Some(why) = &self.no_sharing {
            return Ok(Some(why.clone()));
        }
        let Ok(bytes) = usize::try_from(bytes) else {
            fail!(Worker, "the lent memory of {bytes} bytes is too large")
        };
        match DeviceMemory::import(&self.context, memory.as_fd(), bytes) {
            Ok(lent) => {
                // Frees our own memory for the output, which is not needed now.
                if let Some(own) = self.memory.first_mut() {
                    *own = None;
                }
                self.lent = Some(lent);
                Ok(None)
            }
            Err(error) => Ok(Some(error.message().to_owned())),
        }
    }

    fn take_back(&mut self) {
        self.lent = None;
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        self.fill(slots)?;
        let (plan, loaded) = self.plan(slots)?;
        for step in &plan.steps {
            self.launch(step, &loaded.functions, &loaded.program)?;
        }
        // The first slot is the result; other outputs are discarded.
        let (Some(slot), Some(memory)) = (slots.first().filter(|s| s.output), self.place(0)) else {
            fail!(Worker, "the call has no output")
        };
        if self.lent.is_some() {
            return self.stream.synchronize().map_err(|e| failed(&e));
        }
        // SAFETY: the host shares this many bytes for the slot, which this process does not use otherwise.
        let to = unsafe { std::slice::from_raw_parts_mut(slot.data, slot_bytes(slot)?) };
        self.stream.download(memory, 0, to).map_err(|e| failed(&e))?;
        // Faults of a kernel are reported here.
        self.stream.synchronize().map_err(|e| failed(&e))
    }
}
