//! Execution of a kernel: block after block, the threads of a block one after another up to each barrier.

use super::arithmetic::{carry, compare, compute, directed, unsigned};
use super::convert::convert;
use super::instruction::{
    Action, Address, Atomic, Function, Instruction, Kind, Operand, Operation, Program, Space, Special, Type,
    WarpOperation,
};
use super::parse::DYNAMIC;

/// The first addresses of the memories of blocks, threads and calls. The GPU's own memory begins above all of
/// them.
const SHARED_BASE: u64 = 0x0100_0000;
const LOCAL_BASE: u64 = 0x1_0000_0000;
const PARAM_BASE: u64 = 0x2_0000_0000;
/// Maximum depth of nested calls.
const MAX_CALL_DEPTH: usize = 64;
/// Maximum number of instructions: more than any test needs, so that an endless kernel is stopped.
const MAX_INSTRUCTIONS: u64 = 2_000_000_000;

/// The reason for which a kernel was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An invalid address, with the access.
    Address(String),
    Misaligned(String),
    Trap(String),
    Timeout(String),
    Instruction(String),
}

/// The GPU's memory, as kernels see it.
pub(crate) trait Memory {
    /// Returns the bytes from an address on.
    fn read(&self, address: u64, bytes: usize) -> Option<&[u8]>;
    /// Returns the bytes from an address on, for writing.
    fn write(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]>;
}

/// The dimensions of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared: usize,
}

struct Frame<'p> {
    function: &'p Function,
    at: usize,
    registers: Vec<u64>,
    param: Vec<u8>,
    /// The start of its variables in the thread's memory.
    local: usize,
    /// The destinations of the results at the caller.
    results: &'p [u64],
}

struct Thread<'p> {
    index: [u32; 3],
    number: u32,
    frames: Vec<Frame<'p>>,
    carry: bool,
    local: Vec<u8>,
}

struct Block<'p, 'm> {
    program: &'p Program,
    globals: &'p [u64],
    grid: Grid,
    index: [u32; 3],
    shared: Vec<u8>,
    memory: &'m mut dyn Memory,
    steps: u64,
}

/// The reason for which a thread paused.
#[derive(Clone, Copy)]
enum Stop<'p> {
    /// It can continue.
    Ready,
    Barrier,
    /// At an operation of the lanes of a warp.
    Warp(&'p Instruction),
    End,
}

/// Runs a kernel with the bytes of its parameters; `globals` are the addresses of the module's variables.
pub(crate) fn run(
    program: &Program,
    kernel: &Function,
    globals: &[u64],
    grid: Grid,
    parameters: &[u8],
    memory: &mut dyn Memory,
) -> Result<(), Fault> {
    let mut steps = 0;
    for z in 0..grid.blocks[2] {
        for y in 0..grid.blocks[1] {
            for x in 0..grid.blocks[0] {
                let shared = vec![0xcd; program.shared_bytes.next_multiple_of(16) + grid.shared];
                let mut block = Block { program, globals, grid, index: [x, y, z], shared, memory, steps };
                block.run(kernel, parameters)?;
                steps = block.steps;
            }
        }
    }
    Ok(())
}

impl<'p> Block<'p, '_> {
    fn run(&mut self, kernel: &'p Function, parameters: &[u8]) -> Result<(), Fault> {
        let [width, height, depth] = self.grid.threads;
        let mut threads = Vec::new();
        for z in 0..depth {
            for y in 0..height {
                for x in 0..width {
                    let number = x + width * (y + height * z);
                    let mut thread = Thread {
                        index: [x, y, z],
                        number,
                        frames: Vec::new(),
                        carry: false,
                        local: Vec::new(),
                    };
                    thread.enter(kernel, &[]);
                    if let Some(to) = thread.frames[0].param.get_mut(..parameters.len()) {
                        to.copy_from_slice(parameters);
                    }
                    threads.push(thread);
                }
            }
        }
        let mut stops = vec![Stop::Ready; threads.len()];
        loop {
            for (thread, stop) in threads.iter_mut().zip(&mut stops) {
                if matches!(stop, Stop::Ready) {
                    *stop = self.go(thread)?;
                }
            }
            let mut goes_on = false;
            for (threads, stops) in threads.chunks_mut(32).zip(stops.chunks_mut(32)) {
                goes_on |= self.together(threads, stops)?;
            }
            if goes_on {
                continue;
            }
            if stops.iter().any(|stop| matches!(stop, Stop::Warp(_))) {
                return Err(Fault::Trap(format!(
                    "{}: lanes of a warp wait for lanes that never arrive",
                    kernel.name
                )));
            }
            // Threads that have ended count as arrived at every barrier.
            for stop in &mut stops {
                if matches!(stop, Stop::Barrier) {
                    *stop = Stop::Ready;
                    goes_on = true;
                }
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Performs operations of a warp whose lanes have all arrived; returns whether there were any.
    fn together(&self, lanes: &mut [Thread<'p>], stops: &mut [Stop<'p>]) -> Result<bool, Fault> {
        let mut any = false;
        for first in 0..lanes.len() {
            let Stop::Warp(instruction) = stops[first] else { continue };
            let Action::Warp { what, to, within, from, mask } = &instruction.action else { continue };
            let mask = self.value(&lanes[first], *mask);
            let live = |lane: &usize| mask >> lane & 1 != 0 && !matches!(stops[*lane], Stop::End);
            let group: Vec<usize> = (0..lanes.len()).filter(live).collect();
            let here = |lane: &usize| matches!(stops[*lane], Stop::Warp(at) if std::ptr::eq(at, instruction));
            if !group.contains(&first) || !group.iter().all(here) {
                continue;
            }
            let values: Vec<[u64; 3]> =
                group.iter().map(|lane| from.map(|operand| self.value(&lanes[*lane], operand))).collect();
            let is_set = |value: &[u64; 3]| value[0] & 1 != 0;
            let ballot = group
                .iter()
                .zip(&values)
                .fold(0, |all, (lane, value)| all | u64::from(is_set(value)) << lane);
            let (all, none) = (values.iter().all(is_set), !values.iter().any(is_set));
            for (lane, [own, by, bounds]) in group.iter().zip(&values) {
                let (number, by) = (*lane as i64, (by & 31).cast_signed());
                let (last, segment) = ((bounds & 31).cast_signed(), (bounds >> 8 & 31).cast_signed());
                let (low, high) = (number & segment, (number & segment) | (last & !segment));
                let (source, inside) = match what {
                    WarpOperation::Up => (number - by, number - by >= high),
                    WarpOperation::Down => (number + by, number + by <= high),
                    WarpOperation::Butterfly => (number ^ by, number ^ by <= high),
                    _ => (low | (by & !segment), low | (by & !segment) <= high),
                };
                let value = match what {
                    WarpOperation::Wait => 0,
                    WarpOperation::All => u64::from(all),
                    WarpOperation::Any => u64::from(!none),
                    WarpOperation::Uniform => u64::from(all || none),
                    WarpOperation::Ballot => ballot,
                    _ if !inside => unsigned(*own, 32),
                    _ => match group.iter().position(|lane| *lane as i64 == source) {
                        Some(place) => unsigned(values[place][0], 32),
                        None => {
                            return Err(Fault::Trap(format!(
                                "a value of lane {source}, which takes no part"
                            )));
                        }
                    },
                };
                if let Some(to) = to {
                    lanes[*lane].set(*to, value);
                }
                if let Some(within) = within {
                    lanes[*lane].set(*within, u64::from(inside));
                }
                stops[*lane] = Stop::Ready;
            }
            any = true;
        }
        Ok(any)
    }

    /// Runs a thread up to the next barrier or its end.
    fn go(&mut self, thread: &mut Thread<'p>) -> Result<Stop<'p>, Fault> {
        loop {
            let Some(frame) = thread.frames.last_mut() else { return Ok(Stop::End) };
            let function = frame.function;
            let Some(instruction) = function.code.get(frame.at) else {
                // The end of the code is a return.
                if thread.leave() { continue } else { return Ok(Stop::End) }
            };
            frame.at += 1;
            if let Some((register, negated)) = instruction.guard
                && (frame.registers[register] & 1 != 0) == negated
            {
                continue;
            }
            self.steps += 1;
            if self.steps > MAX_INSTRUCTIONS {
                return Err(Fault::Timeout(format!(
                    "{}: more than {MAX_INSTRUCTIONS} instructions",
                    function.name
                )));
            }
            match &instruction.action {
                Action::Branch(target) => frame.at = *target,
                Action::Return => {
                    if !thread.leave() {
                        return Ok(Stop::End);
                    }
                }
                Action::Exit => return Ok(Stop::End),
                Action::Barrier => return Ok(Stop::Barrier),
                Action::Warp { .. } => return Ok(Stop::Warp(instruction)),
                _ => self.step(thread, instruction).map_err(|fault| {
                    let place = format!(
                        "{}, line {} of the PTX, block {:?}, thread {:?}",
                        function.name, instruction.line, self.index, thread.index
                    );
                    fault.at(&place)
                })?,
            }
        }
    }

    fn step(&mut self, thread: &mut Thread<'p>, instruction: &'p Instruction) -> Result<(), Fault> {
        match &instruction.action {
            Action::Alu { operation, ty, flush, saturate, to, from } => {
                let from = from.map(|operand| self.value(thread, operand));
                thread.set(*to, compute(*operation, *ty, from, *flush, *saturate));
            }
            Action::Directed { operation, bits, towards, to, from } => {
                let from = from.map(|operand| self.value(thread, operand));
                thread.set(*to, directed(*operation, *bits, *towards, from));
            }
            Action::Carry { operation, ty, takes, leaves, to, from } => {
                let from = from.map(|operand| self.value(thread, operand));
                let (value, carried) = carry(*operation, *ty, from, *takes && thread.carry);
                thread.set(*to, value);
                if *leaves {
                    thread.carry = carried;
                }
            }
            Action::Convert { to_type, from_type, rounding, flush, saturate, to, from } => {
                let value = self.value(thread, *from);
                let Some(value) = convert(value, *from_type, *to_type, *rounding, *flush, *saturate) else {
                    return Err(Fault::Instruction(format!(
                        "a conversion from {from_type:?} to {to_type:?}, {rounding:?}"
                    )));
                };
                thread.set(*to, value);
            }
            Action::Compare { compare: how, unordered, ty, to, opposite, from, with, full } => {
                let [a, b] = from.map(|operand| self.value(thread, operand));
                let outcome = compare(*how, *unordered, *ty, a, b);
                let combine = |outcome: bool, with: Option<bool>| match (
                    with,
                    instruction_operation(&instruction.action),
                ) {
                    (Some(with), Some(Operation::And)) => outcome && with,
                    (Some(with), Some(Operation::Or)) => outcome || with,
                    (Some(with), Some(Operation::Xor)) => outcome != with,
                    _ => outcome,
                };
                let other = with.map(|(_, operand)| self.value(thread, operand) & 1 != 0);
                let result = combine(outcome, other);
                thread.set(
                    *to,
                    match full {
                        None => u64::from(result),
                        Some(Type { kind: Kind::Float, .. }) => {
                            if result {
                                u64::from(1_f32.to_bits())
                            } else {
                                0
                            }
                        }
                        Some(ty) => {
                            if result {
                                unsigned(u64::MAX, ty.bits)
                            } else {
                                0
                            }
                        }
                    },
                );
                if let Some(opposite) = opposite {
                    thread.set(*opposite, u64::from(combine(!outcome, other)));
                }
            }
            Action::Pack { bits, to, from } => {
                let mut value = 0;
                for (number, operand) in from.iter().enumerate() {
                    value |= unsigned(self.value(thread, *operand), *bits) << (number as u32 * bits);
                }
                thread.set(*to, value);
            }
            Action::Unpack { bits, to, from } => {
                let value = self.value(thread, *from);
                for (number, to) in to.iter().enumerate() {
                    if let Some(to) = to {
                        thread.set(*to, unsigned(value >> (number as u32 * bits), *bits));
                    }
                }
            }
            Action::Load { space, ty, to, address } => {
                let start = self.address(thread, *address);
                check_alignment(start, ty.bytes() * to.len())?;
                for (number, to) in to.iter().enumerate() {
                    let value = self.load(thread, *space, start + (number * ty.bytes()) as u64, *ty)?;
                    if let Some(to) = to {
                        thread.set(*to, value);
                    }
                }
            }
            Action::Store { space, ty, address, from } => {
                let start = self.address(thread, *address);
                check_alignment(start, ty.bytes() * from.len())?;
                for (number, operand) in from.iter().enumerate() {
                    let value = self.value(thread, *operand);
                    self.store(thread, *space, start + (number * ty.bytes()) as u64, *ty, value)?;
                }
            }
            Action::Atomic { space, atomic, ty, to, address, from } => {
                let start = self.address(thread, *address);
                check_alignment(start, ty.bytes())?;
                let [a, b] = from.map(|operand| unsigned(self.value(thread, operand), ty.bits));
                let old = unsigned(self.load(thread, *space, start, *ty)?, ty.bits);
                let new = match atomic {
                    Atomic::Alu(operation) => compute(*operation, *ty, [old, a, 0, 0], false, false),
                    Atomic::Exchange => a,
                    Atomic::CompareAndSwap => {
                        if old == a {
                            b
                        } else {
                            old
                        }
                    }
                    Atomic::Increment => {
                        if old >= a {
                            0
                        } else {
                            old + 1
                        }
                    }
                    Atomic::Decrement => {
                        if old == 0 || old > a {
                            a
                        } else {
                            old - 1
                        }
                    }
                };
                self.store(thread, *space, start, *ty, new)?;
                if let Some(to) = to {
                    thread.set(*to, old);
                }
            }
            Action::BranchIndexed { index, targets } => {
                let index = unsigned(self.value(thread, *index), 32);
                let Some(target) = usize::try_from(index).ok().and_then(|index| targets.get(index)) else {
                    return Err(Fault::Trap(format!("a branch to place {index} of {}", targets.len())));
                };
                if let Some(frame) = thread.frames.last_mut() {
                    frame.at = *target;
                }
            }
            Action::Call { function, arguments, results } => {
                let Some(callee) = self.program.functions.get(function).filter(|callee| !callee.is_kernel)
                else {
                    return Err(Fault::Instruction(format!(
                        "a call of {function}, which the module does not define"
                    )));
                };
                if arguments.len() != callee.parameters.len() || results.len() != callee.results.len() {
                    return Err(Fault::Instruction(format!(
                        "a call of {function} with other parameters than it has"
                    )));
                }
                if thread.frames.len() >= MAX_CALL_DEPTH {
                    return Err(Fault::Trap(format!("more than {MAX_CALL_DEPTH} nested calls")));
                }
                let mut passed = Vec::new();
                for (offset, slot) in arguments.iter().zip(&callee.parameters) {
                    let start = *offset as usize;
                    let Some(bytes) =
                        thread.frames.last().and_then(|frame| frame.param.get(start..start + slot.bytes))
                    else {
                        return Err(Fault::Instruction(format!("a parameter of {function} is too small")));
                    };
                    passed.push((slot.offset as usize, bytes.to_vec()));
                }
                thread.enter(callee, results);
                if let Some(frame) = thread.frames.last_mut() {
                    for (start, bytes) in passed {
                        frame.param[start..start + bytes.len()].copy_from_slice(&bytes);
                    }
                }
            }
            Action::Trap => return Err(Fault::Trap("trap".to_owned())),
            Action::Nothing => {}
            // Handled by the caller.
            Action::Branch(_) | Action::Return | Action::Exit | Action::Barrier | Action::Warp { .. } => {}
        }
        Ok(())
    }

    fn value(&self, thread: &Thread<'p>, operand: Operand) -> u64 {
        let register = |number: usize| thread.frames.last().map_or(0, |frame| frame.registers[number]);
        match operand {
            Operand::Register(number) => register(number),
            Operand::Not(number) => !register(number) & 1,
            Operand::Immediate(value) => value,
            Operand::Global(number) => self.globals[number],
            Operand::Place(Space::Shared, DYNAMIC) => {
                SHARED_BASE + self.program.shared_bytes.next_multiple_of(16) as u64
            }
            Operand::Place(Space::Shared, offset) => SHARED_BASE + offset,
            Operand::Place(Space::Param, offset) => PARAM_BASE + offset,
            Operand::Place(_, offset) => {
                LOCAL_BASE + thread.frames.last().map_or(0, |frame| frame.local as u64) + offset
            }
            Operand::Special(special) => u64::from(match special {
                Special::Thread(axis) => thread.index[axis],
                Special::Threads(axis) => self.grid.threads[axis],
                Special::Block(axis) => self.index[axis],
                Special::Blocks(axis) => self.grid.blocks[axis],
                Special::Lane => thread.number % 32,
                Special::Warp => thread.number / 32,
                Special::Warps => 64,
                Special::Zero => 0,
                Special::WarpSize => 32,
            }),
        }
    }

    fn address(&self, thread: &Thread<'p>, address: Address) -> u64 {
        self.value(thread, address.base).wrapping_add_signed(address.offset)
    }

    fn load(&self, thread: &Thread<'p>, space: Space, address: u64, ty: Type) -> Result<u64, Fault> {
        let bytes = ty.bytes();
        let found = match self.place(thread, space, address) {
            Some((Space::Shared, at)) => self.shared.get(at..at + bytes),
            Some((Space::Local, at)) => thread.local.get(at..at + bytes),
            Some((Space::Param, at)) => {
                thread.frames.last().and_then(|frame| frame.param.get(at..at + bytes))
            }
            Some(_) => self.memory.read(address, bytes),
            None => None,
        };
        let Some(found) = found else {
            return Err(Fault::Address(format!("a load of {bytes} bytes at {address:#x} ({space:?})")));
        };
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(found);
        let value = u64::from_le_bytes(value);
        Ok(if ty.kind == Kind::Signed {
            super::arithmetic::signed(value, ty.bits).cast_unsigned()
        } else {
            value
        })
    }

    fn store(
        &mut self,
        thread: &mut Thread<'p>,
        space: Space,
        address: u64,
        ty: Type,
        value: u64,
    ) -> Result<(), Fault> {
        let bytes = ty.bytes();
        let found = match self.place(thread, space, address) {
            Some((Space::Shared, at)) => self.shared.get_mut(at..at + bytes),
            Some((Space::Local, at)) => thread.local.get_mut(at..at + bytes),
            Some((Space::Param, at)) => {
                thread.frames.last_mut().and_then(|frame| frame.param.get_mut(at..at + bytes))
            }
            Some((Space::Constant, _)) | None => None,
            Some(_) => self.memory.write(address, bytes),
        };
        let Some(found) = found else {
            return Err(Fault::Address(format!("a store of {bytes} bytes at {address:#x} ({space:?})")));
        };
        found.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }

    /// Returns the memory space of an address and the offset there; `None` if the instruction names another
    /// space.
    fn place(&self, _thread: &Thread<'p>, space: Space, address: u64) -> Option<(Space, usize)> {
        let (found, base) = match address {
            SHARED_BASE..LOCAL_BASE => (Space::Shared, SHARED_BASE),
            LOCAL_BASE..PARAM_BASE => (Space::Local, LOCAL_BASE),
            PARAM_BASE..0x3_0000_0000 => (Space::Param, PARAM_BASE),
            _ => (Space::Global, 0),
        };
        let fits = match space {
            Space::Generic => found != Space::Param,
            Space::Constant => found == Space::Global,
            _ => found == space,
        };
        let found = if space == Space::Constant { Space::Constant } else { found };
        fits.then(|| (found, usize::try_from(address - base).unwrap_or(usize::MAX / 2)))
    }
}

/// Returns the operation that combines a comparison with a predicate.
fn instruction_operation(action: &Action) -> Option<Operation> {
    match action {
        Action::Compare { with, .. } => with.map(|(operation, _)| operation),
        _ => None,
    }
}

fn check_alignment(address: u64, bytes: usize) -> Result<(), Fault> {
    if bytes != 0 && !address.is_multiple_of(bytes as u64) {
        return Err(Fault::Misaligned(format!("{bytes} bytes at {address:#x}")));
    }
    Ok(())
}

impl<'p> Thread<'p> {
    fn enter(&mut self, function: &'p Function, results: &'p [u64]) {
        let local = self.local.len().next_multiple_of(16);
        self.local.resize(local + function.local_bytes, 0xcd);
        self.frames.push(Frame {
            function,
            at: 0,
            registers: vec![0; function.registers],
            param: vec![0; function.param_bytes],
            local,
            results,
        });
    }

    /// Returns to the caller; false at the end of the kernel.
    fn leave(&mut self) -> bool {
        let Some(frame) = self.frames.pop() else { return false };
        self.local.truncate(frame.local);
        let Some(caller) = self.frames.last_mut() else { return false };
        for (offset, slot) in frame.results.iter().zip(&frame.function.results) {
            let (from, to) = (slot.offset as usize, *offset as usize);
            if let (Some(from), Some(to)) =
                (frame.param.get(from..from + slot.bytes), caller.param.get_mut(to..to + slot.bytes))
            {
                to.copy_from_slice(from);
            }
        }
        true
    }

    fn set(&mut self, register: usize, value: u64) {
        if let Some(frame) = self.frames.last_mut() {
            frame.registers[register] = value;
        }
    }
}

impl Fault {
    fn at(self, place: &str) -> Fault {
        let with = |text: String| format!("{place}: {text}");
        match self {
            Fault::Address(text) => Fault::Address(with(text)),
            Fault::Misaligned(text) => Fault::Misaligned(with(text)),
            Fault::Trap(text) => Fault::Trap(with(text)),
            Fault::Timeout(text) => Fault::Timeout(with(text)),
            Fault::Instruction(text) => Fault::Instruction(with(text)),
        }
    }
}
