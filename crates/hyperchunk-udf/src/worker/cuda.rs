//! The CUDA back end: the host's side of a function whose kernels run on the GPU.
//!
//! Driver, context and all that the driver opens come before the lock-down. The source, its launch plan and its PTX come behind it;
//! the driver compiles the PTX for its GPU here, and no code of the function runs on the processor.

use super::{CallSlot, Runtime, lockdown, read_compiled};
use crate::cuda::{Dataset, Passed, Plan, Program, Step};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::protocol::Setup;
use hyperchunk_cuda::{Argument, Context, DeviceMemory, Function, Launch, Module, Stream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A function on the GPU.
#[expect(missing_debug_implementations, reason = "handles of the driver")]
pub struct CudaRuntime {
    context: Arc<Context>,
    stream: Stream,
    loaded: Option<Loaded>,
    /// Memory of each dataset, kept from call to call.
    memory: Vec<Option<DeviceMemory>>,
}

struct Loaded {
    program: Program,
    functions: Vec<Function>,
}

/// An error of the driver.
fn failed(error: &hyperchunk_cuda::Error) -> Error {
    Error::new(ErrorKind::Failed, error.message())
}

impl CudaRuntime {
    /// Loads the driver and makes it open what it needs.
    ///
    /// # Errors
    /// `Failed`, with what is missing and what computes without it.
    pub fn new(setup: &Setup) -> Result<Self> {
        if !setup.grants.gpu {
            fail!(Refused, "the profile does not grant the GPU")
        }
        let made = Context::of(0).and_then(|context| {
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
        Ok(CudaRuntime { context, stream, loaded: None, memory: Vec::new() })
    }

    /// Memory on the GPU for each dataset, with the inputs in it, and zeros in the outputs.
    fn fill(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        self.memory.resize_with(slots.len(), || None);
        for (slot, held) in slots.iter().zip(&mut self.memory) {
            let bytes = slot_bytes(slot)?;
            // A dataset without elements has an address as well.
            let room = bytes.max(1);
            if held.as_ref().is_none_or(|memory| memory.bytes() < room) {
                *held = None;
                let about = |e: &hyperchunk_cuda::Error| {
                    let name = escape(slot.name, 80);
                    let text = format!(
                        "{bytes} bytes on the GPU for {name:?}: {}; attaching with `--chunks auto` makes evaluations small",
                        e.message()
                    );
                    Error::new(ErrorKind::Failed, text)
                };
                *held = Some(DeviceMemory::alloc(&self.context, room).map_err(|e| about(&e))?);
            }
            let Some(memory) = held else { continue };
            if slot.output {
                self.stream.fill(memory, 0, bytes, 0).map_err(|e| failed(&e))?;
            } else {
                // SAFETY: the host mapped so many bytes for this slot, and keeps them while the call runs.
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
                "it can have {most} threads in a block on this GPU, and the source says {threads}"
            )));
        }
        let mut arguments = Vec::with_capacity(step.arguments.len());
        for passed in &step.arguments {
            arguments.push(match passed {
                Passed::Bytes(bytes) => Argument::Bytes(bytes),
                Passed::Address(slot) => match self.memory.get(*slot).and_then(Option::as_ref) {
                    Some(memory) => Argument::Address(memory.address()),
                    None => return Err(about("a dataset without memory".into())),
                },
            });
        }
        let launch = Launch { grid: step.grid, block: step.block, shared: step.shared };
        function.launch(&self.stream, &launch, &arguments).map_err(|e| about(e.message().to_owned()))
    }

    fn plan(&self, slots: &[CallSlot<'_>]) -> Result<(Plan, &Loaded)> {
        let Some(loaded) = &self.loaded else { fail!(Worker, "called before it was loaded") };
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

fn slot_bytes(slot: &CallSlot<'_>) -> Result<usize> {
    let bytes = crate::protocol::block_bytes(slot.dims, slot.datatype).and_then(|b| usize::try_from(b).ok());
    match bytes {
        Some(bytes) => Ok(bytes),
        None => fail!(Worker, "a block of {:?} is too large", slot.dims),
    }
}

impl Runtime for CudaRuntime {
    fn lockdown(&self) -> lockdown::Runtime {
        lockdown::Runtime::Cuda
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        let Some(compiled) = compiled else { fail!(Worker, "no compiled form") };
        let program = Program::parse(&setup.source)?;
        let ptx = program.ptx(&read_compiled(compiled)?)?;
        let module = Module::load(&self.context, &ptx.text).map_err(|e| failed(&e))?;
        let functions = ptx.names.iter().map(|name| module.function(name)).collect::<Result<_, _>>();
        self.loaded = Some(Loaded { program, functions: functions.map_err(|e| failed(&e))? });
        Ok(())
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        self.fill(slots)?;
        let (plan, loaded) = self.plan(slots)?;
        for step in &plan.steps {
            self.launch(step, &loaded.functions, &loaded.program)?;
        }
        // The first is what is computed; other outputs are thrown away.
        let (Some(slot), Some(Some(memory))) = (slots.first().filter(|s| s.output), self.memory.first())
        else {
            fail!(Worker, "a call without an output")
        };
        // SAFETY: the host shares so many bytes for this slot, which nothing else of this process uses.
        let to = unsafe { std::slice::from_raw_parts_mut(slot.data, slot_bytes(slot)?) };
        self.stream.download(memory, 0, to).map_err(|e| failed(&e))?;
        // What a kernel did wrong shows here.
        self.stream.synchronize().map_err(|e| failed(&e))
    }
}
