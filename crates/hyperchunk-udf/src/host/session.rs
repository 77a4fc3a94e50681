//! One worker that has loaded one function: its shared memory, its calls and its end.

use super::broker::Broker;
use super::code::{self, Code, MAX_CODE_BYTES};
use super::function_output::{self, OutputPipe};
use super::job::{Job, JobSlot, Source};
use super::layout::{Region, lay_out, set_up};
use super::locate::Programs;
use super::modules::{self, Modules};
use super::process::Exit;
use super::worker::Worker;
use super::{cpu_affinity, exit_status, zygote};
use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::interrupt;
use crate::memory::{self, SharedMemory};
use crate::profile::{Grants, Profile};
use crate::protocol::{
    self, Doorbell, LACKS_MODULES_EXIT, MAX_MESSAGE_BYTES, Reply, Request, STATUS_BYTES, SlotLocation, Task,
};
use crate::record::{Block, Needs};
use crate::socket::{self, ReceiveResult};
use crate::stored::DecodeSupport;
use hyperchunk_sandbox::{Layers, StatusPage, StopReason};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of `sched_yield` calls before the host blocks. One is usually enough.
const YIELD_COUNT: u32 = 6;
/// Time limit for starting a worker. Afterwards the profile's limit applies.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Duration above which a call gets a processor of its own. A shorter call runs on the caller's processor,
/// whose cache holds the data and where a wake-up costs a tenth.
const SLOW_CALL: Duration = Duration::from_millis(2);

/// Processor time that an idle worker may use, since threads of libraries may still be finishing.
const IDLE_CPU: Duration = Duration::from_millis(100);

impl Job<'_> {
    /// Returns whether any input may be passed in stored form.
    pub(super) fn takes_stored(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.source, Source::Stored(_)))
    }
}

/// Worker that is locked down and has loaded its function.
#[derive(Debug)]
pub struct Session {
    worker: Worker,
    arena: SharedMemory,
    inputs: Option<SharedMemory>,
    slots: Vec<JobSlot>,
    label: String,
    regions: Vec<Region>,
    profile: Profile,
    layers: Layers,
    landlock_abi: u32,
    inputs_at: u64,
    decodes: DecodeSupport,
    /// Number of bytes of stored data in each slot; 0 for elements.
    stored: Vec<u64>,
    undecoded: bool,
    places: Vec<SlotLocation>,
    outgoing: Vec<u8>,
    message: Vec<u8>,
    seq: u32,
    slow_calls: u32,
    partial: bool,
    cpu: Option<usize>,
    cpu_allowed: Instant,
    /// Set when the worker has used nearly all of its processor time, so that another one has to replace it.
    pub(super) is_worn: bool,
    /// Processor time used when the worker was last asked to show that it waits for calls.
    idle_cpu: Duration,
    ended_idle: bool,
    /// Source, kept while the worker has only some of the modules.
    partial_source: Option<String>,
    lacked_modules: bool,
    /// Folder against which the function's relative paths are resolved.
    folder: Option<PathBuf>,
    locked_down: bool,
    broker: Option<Broker>,
    wall: Duration,
    /// Caller's identifier of the data in the inputs.
    pub stamp: u64,
}

impl Session {
    /// Starts a worker and waits until it is locked down and has loaded the source.
    ///
    /// # Errors
    /// `Refused` when a layer of the sandbox is missing, `Failed` when the source does not load, `Worker`,
    /// `Limit`.
    pub fn start(job: &Job<'_>, programs: &Programs) -> Result<Self> {
        let code = code::load(job, programs)?;
        let task = if code.is_some() { Task::RunCode } else { Task::Run };
        loop {
            let mut session = Session::locked(job, programs, task, code.as_ref().map(Code::bytes))?;
            match session.loaded(code.as_ref()) {
                Ok(()) => return Ok(session),
                // The next worker has all modules.
                Err(_) if session.lacked_modules => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the machine code of a job's module, made by a worker that sees only the module.
    /// Empty if it is too large to be cached.
    ///
    /// # Errors
    /// The errors of [`Session::start`].
    pub(super) fn compile(job: &Job<'_>, programs: &Programs) -> Result<Vec<u8>> {
        let profile = Profile { grants: Grants::default(), ..job.profile.clone() };
        let alone = Job {
            backend: job.backend,
            source: "",
            compiled: job.compiled,
            profile: &profile,
            file_path: "",
            slots: Vec::new(),
            files: Vec::new(),
            needs: Needs::default(),
        };
        let mut session = Session::locked(&alone, programs, Task::Compile, None)?;
        let start = Instant::now();
        let mut code = Vec::new();
        loop {
            match session.receive(session.wall.saturating_sub(start.elapsed()))? {
                Reply::Code(_) if start.elapsed() > session.wall => return Err(session.too_slow()),
                Reply::Code(piece) if !piece.is_empty() && code.len() + piece.len() <= MAX_CODE_BYTES => {
                    code.extend_from_slice(&piece);
                }
                Reply::Loaded => return Ok(code),
                other => return Err(session.unexpected(&other)),
            }
        }
    }

    /// Starts a worker and waits until it is locked down.
    fn locked(job: &Job<'_>, programs: &Programs, task: Task, code: Option<&[u8]>) -> Result<Self> {
        let (regions, arena_bytes, input_bytes) = lay_out(job)?;
        let total = arena_bytes.saturating_add(input_bytes);
        if total > job.profile.limits.data {
            fail!(
                Limit,
                "one evaluation needs {} MiB for its inputs and outputs, over the limit of {} MiB (profile {}, `data`); attaching with `--chunks auto` makes evaluations small",
                total >> 20,
                job.profile.limits.data >> 20,
                job.profile.name
            )
        }
        job.profile.grants.check(&job.profile.name)?;
        let arena = SharedMemory::new(arena_bytes, true)?;
        let inputs = if input_bytes > 0 { Some(SharedMemory::new(input_bytes, false)?) } else { None };
        let modules = match job.backend {
            Backend::Python => Modules::from_source(job.source, job.compiled.is_some(), &job.profile.grants),
            _ => Modules::default(),
        };
        let folder = Session::folder(&job.profile.grants);
        let told = (folder.clone(), modules.partial);
        let setup = memory::constant(
            &serde_json::to_vec(&set_up(job, task, &regions, (arena_bytes, input_bytes), told))
                .unwrap_or_default(),
            false,
        )?;
        let compiled = job.compiled.map(|c| memory::constant(c, true)).transpose()?;
        let code = code.map(|c| memory::constant(c, false)).transpose()?;
        let (granted, name) = (&job.profile.grants.connect, &job.profile.name);
        let broker = match granted.is_empty() {
            true => None,
            false => Some(Broker::new(programs.worker()?, granted, name)),
        };
        let worker = Worker::start(programs, job.backend, job.takes_stored(), &modules)?;
        let mut session = Session {
            worker,
            arena,
            inputs,
            places: Vec::with_capacity(regions.len()),
            regions,
            slots: job.slots.clone(),
            label: function_output::label(job.file_path, job.slots.first().map_or("", |slot| &slot.name)),
            profile: job.profile.clone(),
            layers: Layers(0),
            landlock_abi: 0,
            inputs_at: 0,
            decodes: DecodeSupport::Nothing,
            stored: vec![0; job.slots.len()],
            undecoded: false,
            outgoing: Vec::new(),
            message: vec![0; MAX_MESSAGE_BYTES],
            seq: 0,
            slow_calls: 0,
            partial: false,
            cpu: None,
            cpu_allowed: Instant::now(),
            is_worn: false,
            idle_cpu: Duration::ZERO,
            ended_idle: false,
            partial_source: modules.partial.then(|| job.source.to_owned()),
            lacked_modules: false,
            folder: folder.clone(),
            locked_down: false,
            broker,
            wall: Duration::from_secs(job.profile.limits.wall_s),
            stamp: u64::MAX,
        };
        let mut fds = vec![setup.as_fd(), session.arena.fd.as_fd()];
        fds.extend(session.inputs.as_ref().map(|i| i.fd.as_fd()));
        for slot in &job.slots {
            if let Source::Mapped { file, .. } = slot.source {
                let Some(fd) = job.files.get(file) else { fail!(Worker, "the job has no file {file}") };
                fds.push(*fd);
            }
        }
        fds.extend(compiled.iter().chain(&code).map(|c| c.as_fd()));
        let sent = socket::send_now(session.worker.socket.as_fd(), b"setup", &fds);
        drop(fds);
        session.check_sent(sent)?;
        session.follow_caller(cpu_affinity::current());
        session.handshake()?;
        Ok(session)
    }

    fn handshake(&mut self) -> Result<()> {
        socket::set_timeout(self.worker.socket.as_fd(), interrupt::POLL_INTERVAL)?;
        let mut answer = self.receive(START_TIMEOUT)?;
        if let Reply::Moved(pid) = answer {
            self.worker.move_to(pid).inspect_err(|_| self.worker.process.kill())?;
            self.cpu = None;
            self.follow_caller(cpu_affinity::current());
            answer = self.receive(START_TIMEOUT)?;
        }
        match answer {
            Reply::Ready { layers, landlock_abi, inputs_at, decodes } => {
                self.inputs_at = inputs_at;
                self.decodes = decodes;
                self.layers = Layers(layers);
                self.landlock_abi = landlock_abi;
            }
            other => return Err(self.unexpected(&other)),
        }
        let require = self.profile.require;
        let missing = Layers((Layers::MANDATORY | require.layers).0 & !self.layers.0);
        if self.landlock_abi < require.landlock {
            self.worker.process.kill();
            fail!(
                Refused,
                "refused to run: profile {} requires Landlock {}, and this kernel has version {}. Options: hyperchunk doctor",
                self.profile.name,
                require.landlock,
                self.landlock_abi
            )
        }
        if missing != Layers::NONE {
            self.worker.process.kill();
            fail!(
                Refused,
                "refused to run: profile {} requires {}, which this system does not provide. Options: hyperchunk doctor",
                self.profile.name,
                missing
            )
        }
        self.locked_down = true;
        Ok(())
    }

    /// Waits until the worker has loaded the function.
    fn loaded(&mut self, code: Option<&Code>) -> Result<()> {
        let mut answer = self.receive(self.wall)?;
        if let (Reply::Useless, Some(code)) = (&answer, code) {
            // The worker compiles the module itself. For the next worker the code is compiled again.
            code.forget();
            answer = self.receive(self.wall)?;
        }
        match answer {
            Reply::Loaded => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Lowers the time limit of each later call below the profile's.
    pub fn within(&mut self, limit: Duration) {
        self.wall = limit.min(self.wall).max(Duration::from_millis(1));
    }

    /// Runs the function once. `blocks` holds, for each slot, the byte offset of the block in the slot's
    /// region, and the block. Inputs must have been copied in before; results may be read after.
    ///
    /// # Errors
    /// `Failed`, `Violation`, `Limit` or `Worker`; the session is then over.
    pub fn call(&mut self, blocks: impl IntoIterator<Item = (u64, Block)>) -> Result<()> {
        self.places.clear();
        let regions = self.regions.iter().zip(&self.stored);
        for ((block, (region, stored)), slot) in blocks.into_iter().zip(regions).zip(&self.slots) {
            let (skip, (start, dims)) = block;
            let end = protocol::block_bytes(&dims, &slot.datatype).and_then(|b| b.checked_add(skip));
            let (Some(end), Some(offset)) = (end, region.offset.checked_add(skip)) else {
                fail!(Limit, "a block of {dims:?} is too large")
            };
            if end > region.bytes || *stored > region.bytes {
                fail!(Worker, "a block of {dims:?} extends past its memory")
            }
            self.places.push(SlotLocation { segment: region.segment, offset, dims, start, stored: *stored });
        }
        if self.places.len() != self.regions.len() {
            fail!(
                Worker,
                "expected a block for each slot, got {} blocks for {} slots",
                self.places.len(),
                self.regions.len()
            )
        }
        // The memory past the end of a partial block may have been written.
        let was_partial = self.partial;
        self.partial = self.is_partial();
        self.clear_outputs(was_partial);
        self.seq = self.seq.wrapping_add(1);
        let start = Instant::now();
        if let Some(broker) = &mut self.broker {
            broker.next_evaluation();
        }
        let together = self.slow_calls <= 2;
        if together {
            self.follow_caller(cpu_affinity::current());
        } else {
            self.unpin_cpu();
        }
        if start.duration_since(self.cpu_allowed) > Duration::from_millis(250) || self.seq == 1 {
            if self.worker.process.is_there() {
                self.is_worn = self.worker.process.allow_cpu(self.profile.limits.cpu_s) == 0;
            }
            self.cpu_allowed = start;
        }
        protocol::encode_call(self.seq, &self.places, &mut self.outgoing);
        let sent = socket::send_now(self.worker.socket.as_fd(), &self.outgoing, &[]);
        self.check_sent(sent)?;
        let answer = self.wait(start, together);
        // A single slow call may be due to the load of the machine.
        self.slow_calls = if start.elapsed() > SLOW_CALL { self.slow_calls.saturating_add(1) } else { 0 };
        match answer? {
            Reply::Done(_) => {}
            Reply::Undecoded(seq) if seq == self.seq && self.stored.iter().any(|bytes| *bytes > 0) => {
                // The worker gets elements from now on; its memory holds none yet.
                self.decodes = DecodeSupport::Nothing;
                self.stored.fill(0);
                self.stamp = u64::MAX;
                self.undecoded = true;
                fail!(Invalid, "an input could not be decoded")
            }
            other => return Err(self.unexpected(&other)),
        }
        if OutputPipe::forward(&mut self.worker.printed, self.worker.socket.as_fd(), &self.label) {
            // Only the message of a call whose end was already seen on the doorbell may arrive.
            match self.receive(Duration::from_secs(1))? {
                Reply::Done(seq) if seq == self.seq => {}
                other => return Err(self.unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Returns the memory of an input that is copied in.
    pub fn input(&mut self, slot: usize) -> Option<&mut [u8]> {
        let region = self.regions.get(slot).filter(|r| !r.output)?;
        let shared = self.inputs.as_ref().filter(|_| region.segment == 1)?;
        let pointer = shared.map.at(region.offset, region.bytes)?;
        // SAFETY: inside the map; the worker cannot write this memory, and `&mut self` excludes other views
        // of ours.
        Some(unsafe { std::slice::from_raw_parts_mut(pointer, usize::try_from(region.bytes).ok()?) })
    }

    /// Lends the worker `bytes` bytes of device memory, given by its descriptor: the function's result goes
    /// there instead of the output until [`Session::take_back`]. Returns the reason if the worker cannot take
    /// it.
    ///
    /// # Errors
    /// `Worker`, `Limit`; the session is then over.
    pub(super) fn lend(&mut self, memory: BorrowedFd<'_>, bytes: u64) -> Result<Option<String>> {
        let asked = protocol::encode_request(Request::Lend(bytes));
        for (bytes, fds) in [(asked.as_slice(), [].as_slice()), (b"memory", &[memory])] {
            let sent = socket::send_now(self.worker.socket.as_fd(), bytes, fds);
            self.check_sent(sent)?;
        }
        self.receive_lent()
    }

    /// Makes the worker release the memory that it was lent.
    ///
    /// # Errors
    /// `Worker`, `Limit`; the session is then over.
    pub(super) fn take_back(&mut self) -> Result<()> {
        let sent =
            socket::send_now(self.worker.socket.as_fd(), &protocol::encode_request(Request::TakeBack), &[]);
        self.check_sent(sent)?;
        match self.receive_lent()? {
            None => Ok(()),
            Some(_) => Err(self.unexpected(&Reply::Lent(None))),
        }
    }

    fn receive_lent(&mut self) -> Result<Option<String>> {
        let mut answer = self.receive(self.wall)?;
        // The message of a call whose end was already seen on the doorbell.
        if matches!(answer, Reply::Done(seq) if seq == self.seq) {
            answer = self.receive(self.wall)?;
        }
        match answer {
            Reply::Lent(why) => Ok(why.map(|why| escape(&why, 300))),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the stored forms that the worker can decode.
    pub fn decodes(&self) -> DecodeSupport {
        self.decodes
    }

    /// Sets the number of bytes of stored data in an input's memory; 0 for elements.
    pub fn set_stored(&mut self, slot: usize, bytes: u64) {
        if let Some(stored) = self.stored.get_mut(slot) {
            *stored = bytes;
        }
    }

    /// Returns, and clears, whether the last call failed because the worker could not decode an input. The
    /// worker gets elements from then on.
    pub fn take_undecoded(&mut self) -> bool {
        std::mem::take(&mut self.undecoded)
    }

    /// Returns the address at which the worker sees the memory of an input that is copied in.
    pub fn input_address(&self, slot: usize) -> Option<u64> {
        let region =
            self.regions.get(slot).filter(|r| !r.output && self.inputs.is_some() && r.segment == 1)?;
        self.inputs_at.checked_add(region.offset)
    }

    /// Fills `to` from an output, starting at byte `from`, and clears the bytes taken, so that the next call
    /// starts with zeros. The worker can still write the shared memory, so it is read only once, here.
    pub fn take_output(&mut self, slot: usize, from: u64, to: &mut [MaybeUninit<u8>]) -> Option<()> {
        let region = self.regions.get(slot).filter(|r| r.output)?;
        let is_inside = from.checked_add(to.len() as u64)? <= region.bytes;
        if is_inside { self.arena.take(region.offset.checked_add(from)?, to) } else { None }
    }

    /// Returns a copy of the first bytes of an output, without clearing them.
    pub(super) fn output(&self, slot: usize, bytes: usize) -> Option<Vec<u8>> {
        let region = self.regions.get(slot).filter(|r| r.output && bytes as u64 <= r.bytes)?;
        let pointer = self.arena.map.at(region.offset, bytes as u64)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).ok()?;
        // SAFETY: at() has checked the range; the memory is not the vector's, and the copy initialises the
        // length given to set_len().
        unsafe {
            std::ptr::copy_nonoverlapping(pointer.cast_const(), copy.as_mut_ptr(), bytes);
            copy.set_len(bytes);
        }
        Some(copy)
    }

    /// Stores a result in the output, as the function would.
    pub(super) fn give_output(&mut self, slot: usize, bytes: &[u8]) -> Result<()> {
        let region = self.regions.get(slot).filter(|r| r.output && bytes.len() as u64 <= r.bytes);
        let pointer = region.and_then(|r| self.arena.map.at(r.offset, bytes.len() as u64));
        let Some(pointer) = pointer else { fail!(Worker, "the output is too small for a cached result") };
        // SAFETY: at() has checked the range; the two are not the same memory, and the worker is idle.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
        Ok(())
    }

    /// Like [`Session::take_output`], into initialised bytes.
    pub fn copy_output(&mut self, slot: usize, from: u64, to: &mut [u8]) -> Option<()> {
        // SAFETY: of the same layout; take_output() writes nothing but initialised bytes.
        let to =
            unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<MaybeUninit<u8>>(), to.len()) };
        self.take_output(slot, from, to)
    }

    /// Returns whether the last call failed because the worker had exited while idle, so that a new one may
    /// be tried.
    pub fn ended_idle(&self) -> bool {
        self.ended_idle
    }

    /// Returns whether the last call failed because of a missing module, so that a new worker, which has all
    /// modules, is to be tried.
    pub fn lacked_modules(&self) -> bool {
        self.lacked_modules
    }

    /// Returns the folder for relative paths: the current one of this process, if any file is granted.
    fn folder(grants: &Grants) -> Option<PathBuf> {
        std::env::current_dir().ok().filter(|_| grants.has_files())
    }

    /// Returns whether relative paths start at the current folder of this process.
    pub(super) fn is_here(&self) -> bool {
        self.folder == Session::folder(&self.profile.grants)
    }

    /// Returns the layers of the sandbox that the worker reached.
    pub fn layers(&self) -> Layers {
        self.layers
    }

    /// Returns the version of the kernel's Landlock.
    pub fn landlock_abi(&self) -> u32 {
        self.landlock_abi
    }

    /// Returns the id of the process that runs the function.
    pub fn pid(&self) -> i32 {
        self.worker.process.pid
    }

    /// Returns the number of bytes of memory shared with this process.
    pub fn shared_bytes(&self) -> usize {
        self.arena.map.region().1 + self.inputs.as_ref().map_or(0, |i| i.map.region().1)
    }

    /// Returns whether this process started the worker. After a fork the child must start its own.
    pub fn is_ours(&self) -> bool {
        self.worker.is_ours()
    }

    /// Returns whether the worker has exited by itself, as it does after a time without calls.
    pub fn is_over(&self) -> bool {
        self.worker.is_over()
    }

    /// Asks an idle worker to show that it waits for calls; see [`Session::has_looked`]. Returns `false` if
    /// it accepts no more messages.
    pub(super) fn ask_to_look(&mut self) -> bool {
        self.idle_cpu = self.worker.process.cpu_used().unwrap_or_default();
        let asked = protocol::encode_request(Request::Look);
        matches!(socket::send_now(self.worker.socket.as_fd(), &asked, &[]), Ok(true))
    }

    /// Returns whether an idle worker has read the message of [`Session::ask_to_look`] and has not computed
    /// since.
    pub(super) fn has_looked(&self) -> bool {
        // A GPU driver has threads of its own, and no code of a function runs in parallel to it.
        let computes = self.decodes == DecodeSupport::Nothing
            && self.worker.process.is_there()
            && self.worker.process.cpu_used().unwrap_or_default().saturating_sub(self.idle_cpu) > IDLE_CPU;
        !computes && socket::is_taken(self.worker.socket.as_fd())
    }

    /// Clears the outputs of the last call that were not taken, and anything written past the end of its
    /// block.
    fn clear_outputs(&mut self, whole: bool) {
        if self.seq == 0 {
            return;
        }
        let outputs = self.regions.iter().enumerate().filter(|(n, r)| r.output && (whole || *n > 0));
        outputs.for_each(|(_, region)| self.arena.clear(region.offset, region.bytes));
    }

    /// Waits for the end of the call.
    ///
    /// With the worker on the same processor, `sched_yield` usually lets it run, and this thread continues
    /// when the worker is done, without a sleep or a wake-up. A worker that has used more than its share is
    /// not scheduled that way. This thread then sleeps, pinned to its processor, since it would otherwise
    /// wake up on an idle one with cold caches.
    fn wait(&mut self, start: Instant, together: bool) -> Result<Reply> {
        let Some(page) = self.arena.map.at(protocol::DOORBELL_OFFSET as u64, size_of::<Doorbell>() as u64)
        else {
            fail!(Worker, "the doorbell is outside the shared memory")
        };
        // SAFETY: inside the first page, aligned, mapped for as long as the session; its fields are atomics.
        let doorbell = unsafe { &*page.cast::<Doorbell>() };
        for _ in 0..if together { YIELD_COUNT } else { 0 } {
            if doorbell.is_done(self.seq) {
                return Ok(Reply::Done(self.seq));
            }
            // SAFETY: no preconditions.
            unsafe { libc::sched_yield() };
        }
        let _pin = if together { cpu_affinity::CpuPin::on(self.cpu) } else { None };
        doorbell.asleep.store(1, Ordering::SeqCst);
        let answer = if doorbell.is_done(self.seq) {
            Ok(Reply::Done(self.seq))
        } else {
            let wall = self.wall;
            // With connections, a call takes several messages, and the limit applies to all of them together.
            let mut left = wall;
            loop {
                match self.receive(left) {
                    Ok(Reply::Connect(asked)) => {
                        left = wall.saturating_sub(start.elapsed());
                        if left.is_zero() {
                            break Err(self.too_slow());
                        }
                        if let Err(error) = self.connect(&asked, left) {
                            break Err(error);
                        }
                        left = wall.saturating_sub(start.elapsed());
                    }
                    // The message of an earlier call whose end was already seen on the doorbell: at most one,
                    // unless the worker is hostile.
                    Ok(Reply::Done(seq))
                        if seq != self.seq && !doorbell.is_done(self.seq) && start.elapsed() < wall =>
                    {
                        left = wall.saturating_sub(start.elapsed());
                    }
                    Ok(Reply::Done(seq)) if seq != self.seq && !doorbell.is_done(self.seq) => {
                        break Err(self.too_slow());
                    }
                    Ok(Reply::Done(_)) => break Ok(Reply::Done(self.seq)),
                    other => break other,
                }
            }
        };
        doorbell.asleep.store(0, Ordering::SeqCst);
        answer
    }

    /// Answers a function's request for a connection. The time counts as the function's.
    fn connect(&mut self, asked: &str, left: Duration) -> Result<()> {
        let Some(broker) = &mut self.broker else {
            return Err(self.unexpected(&Reply::Connect(escape(asked, 80))));
        };
        let made = broker.connect(asked, left).inspect_err(|_| self.worker.process.kill())?;
        let (text, fd) = match made {
            Ok(fd) => (protocol::encode_connection(None), Some(fd)),
            Err(error) => (protocol::encode_connection(Some(error.message())), None),
        };
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|f| f.as_fd()).collect();
        let sent = socket::send_now(self.worker.socket.as_fd(), &text, &fds);
        self.check_sent(sent).inspect_err(|_| self.ended_idle = false)
    }

    /// Handles the result of sending a message to the worker. The worker waits for it and therefore has room
    /// for it, unless it is hostile.
    fn check_sent(&mut self, sent: Result<bool>) -> Result<()> {
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.worker.process.kill();
                fail!(Worker, "stopped: it does not receive the messages that it is sent")
            }
            Err(_) => {
                let error = self.ended();
                // The worker had no task yet, so a new one may be tried, however this one ended.
                self.ended_idle = true;
                Err(error)
            }
        }
    }

    fn receive(&mut self, limit: Duration) -> Result<Reply> {
        let (fd, poll) = (self.worker.socket.as_fd(), interrupt::POLL_INTERVAL);
        match socket::receive_within(fd, &mut self.message, limit, poll)? {
            ReceiveResult::Packet(n) => protocol::decode_reply(self.message.get(..n).unwrap_or_default())
                .inspect_err(|_| self.worker.process.kill()),
            ReceiveResult::Closed => Err(self.ended()),
            ReceiveResult::Interrupted => {
                self.worker.process.kill();
                fail!(Failed, "interrupted")
            }
            ReceiveResult::TimedOut => {
                if self.locked_down {
                    return Err(self.too_slow());
                }
                self.worker.process.kill();
                fail!(Limit, "the worker did not get ready within {} s", limit.as_secs())
            }
        }
    }

    fn too_slow(&self) -> Error {
        self.worker.process.kill();
        let (seconds, profile) = (self.profile.limits.wall_s, &self.profile.name);
        let text = if self.wall == Duration::from_secs(seconds) {
            format!("stopped: it ran longer than the limit of {seconds} s (profile {profile}, `wall_s`)")
        } else {
            format!("stopped: it ran longer than its limit of {} ms", self.wall.as_millis())
        };
        Error::new(ErrorKind::Limit, text)
    }

    fn unexpected(&mut self, answer: &Reply) -> Error {
        self.worker.process.kill();
        match answer {
            Reply::Failed(text) => {
                let printed = self.worker.printed.iter_mut().map(OutputPipe::take).collect::<String>();
                let hint = if printed.is_empty() {
                    String::new()
                } else {
                    format!(" [it printed: {}]", escape(&printed, 200))
                };
                Error::new(ErrorKind::Failed, format!("{}{hint}", escape(text, 600)))
            }
            Reply::Code(_) => Error::new(ErrorKind::Worker, "the worker sent code out of turn"),
            other => Error::new(ErrorKind::Worker, format!("the worker answered {other:?} out of turn")),
        }
    }

    /// Returns the reason why the worker has ended.
    fn ended(&mut self) -> Error {
        let exit = match self.worker.process.wait(Duration::from_secs(1)) {
            None => zygote::child_exit(self.worker.process.pid).unwrap_or(Exit::Unknown),
            Some(exit) => exit,
        };
        // Only a function in Python that lacks modules exits this way, or pretends to: it is tried once more,
        // with all modules.
        let lacking = self.partial_source.take().filter(|_| exit == Exit::Status(LACKS_MODULES_EXIT));
        if let Some(source) = &lacking {
            modules::needs_all(source);
        }
        self.lacked_modules = lacking.is_some();
        self.ended_idle = exit == Exit::Status(0);
        let printed = self.worker.printed.iter_mut().map(OutputPipe::take).collect::<String>();
        exit_status::explain_exit(exit, self.stopped_for(), &self.profile, &printed)
    }

    fn stopped_for(&self) -> Option<(StopReason, i32)> {
        let page = self.arena.map.at(0, STATUS_BYTES as u64)?.cast::<StatusPage>();
        // SAFETY: the page is mapped, aligned, and its fields are atomics, which the worker may change at any
        // time.
        unsafe { &*page }.stop()
    }

    fn is_partial(&self) -> bool {
        let (Some(place), Some(region), Some(slot)) =
            (self.places.first(), self.regions.first(), self.slots.first())
        else {
            return true;
        };
        protocol::block_bytes(&place.dims, &slot.datatype) != Some(region.bytes)
    }

    /// Pins the worker to the caller's processor.
    fn follow_caller(&mut self, cpu: Option<usize>) {
        if cpu.is_none() || self.cpu == cpu || !self.worker.process.is_there() {
            return;
        }
        self.worker.process.set_affinity(&cpu_affinity::only(cpu));
        self.cpu = cpu;
    }

    /// Lets the worker run on every processor that the caller may use.
    fn unpin_cpu(&mut self) {
        if self.cpu.take().is_some()
            && self.worker.process.is_there()
            && let Some(all) = cpu_affinity::allowed()
        {
            self.worker.process.set_affinity(&all);
        }
    }
}
