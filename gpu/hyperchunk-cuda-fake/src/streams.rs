//! Streams: work that is deferred until a wait for it.

use crate::machine::{Code, Machine, SUCCESS};
use crate::ptx::{Fault, Grid, Memory as _, Program, run};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// The source of bytes of the process.
pub(crate) enum Host {
    /// Copied when the operation was requested.
    Taken(Vec<u8>),
    /// Page-locked memory, read when the copy is performed.
    Pinned(usize),
}

/// A deferred call.
pub(crate) type Call = Box<dyn FnOnce(&mut Machine) -> Result<(), Fault> + Send>;

/// An operation of a stream.
pub(crate) enum Work {
    Up {
        to: u64,
        from: Host,
        bytes: usize,
    },
    Down {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Over {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Launch {
        program: Arc<Program>,
        globals: Arc<Vec<u64>>,
        name: String,
        grid: Grid,
        parameters: Vec<u8>,
    },
    /// A call of another NVIDIA library.
    Call(Call),
    Record {
        event: usize,
        ticket: u64,
    },
    Wait {
        stream: usize,
        ticket: u64,
    },
}

/// A stream.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) work: VecDeque<Work>,
    /// The last ticket that was passed.
    passed: u64,
}

/// An event: the last point at which it was recorded, and when that was passed.
#[derive(Default)]
pub(crate) struct Event {
    /// The stream and the ticket.
    pub(crate) recorded: Option<(usize, u64)>,
    pub(crate) time: Option<Instant>,
}

impl Machine {
    /// Performs a stream's work: all of it, or up to a ticket.
    pub(crate) fn advance(&mut self, stream: usize, until: Option<u64>) -> Code {
        loop {
            if let Some(code) = self.broken {
                return code;
            }
            let Some(of) = self.streams.get_mut(&stream) else { return SUCCESS };
            if until.is_some_and(|ticket| of.passed >= ticket) {
                return SUCCESS;
            }
            let Some(work) = of.work.pop_front() else { return SUCCESS };
            match work {
                Work::Record { event, ticket } => {
                    of.passed = ticket;
                    if let Some(event) = self.events.get_mut(&event)
                        && event.recorded == Some((stream, ticket))
                    {
                        event.time = Some(Instant::now());
                    }
                }
                Work::Wait { stream: other, ticket } => {
                    let code = self.advance(other, Some(ticket));
                    if code != SUCCESS {
                        return code;
                    }
                }
                work => {
                    if let Err(fault) = self.work(work) {
                        return self.mark_unusable(&fault);
                    }
                }
            }
        }
    }

    /// Performs all streams' work.
    pub(crate) fn advance_all(&mut self) -> Code {
        let mut streams: Vec<usize> = self.streams.keys().copied().collect();
        streams.sort_unstable();
        for stream in streams {
            let code = self.advance(stream, None);
            if code != SUCCESS {
                return code;
            }
        }
        SUCCESS
    }

    fn work(&mut self, work: Work) -> Result<(), Fault> {
        let unallocated = |what: &str, address: u64, bytes: usize| {
            Fault::Address(format!("{what}: {bytes} bytes at {address:#x} are not allocated any more"))
        };
        match work {
            Work::Up { to, from, bytes } => {
                let Some(place) = self.memory.write(to, bytes) else {
                    return Err(unallocated("a copy", to, bytes));
                };
                match from {
                    Host::Taken(from) => place.copy_from_slice(&from),
                    Host::Pinned(from) => {
                        if !is_pinned(&self.pinned, from, bytes) {
                            return Err(unallocated("a copy from page-locked memory", from as u64, bytes));
                        }
                        // SAFETY: page-locked memory of ours with `bytes` bytes.
                        unsafe {
                            std::ptr::copy_nonoverlapping(from as *const u8, place.as_mut_ptr(), bytes)
                        };
                    }
                }
                self.counted.up += bytes as u64;
            }
            Work::Down { to, from, bytes } => {
                let Some(place) = self.memory.read(from, bytes) else {
                    return Err(unallocated("a copy", from, bytes));
                };
                if !is_pinned(&self.pinned, to, bytes) {
                    return Err(unallocated("a copy to page-locked memory", to as u64, bytes));
                }
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), to as *mut u8, bytes) };
                self.counted.down += bytes as u64;
            }
            Work::Over { to, from, bytes } => {
                let Some(place) = self.memory.read(from, bytes) else {
                    return Err(unallocated("a copy", from, bytes));
                };
                let taken = place.to_vec();
                let Some(place) = self.memory.write(to, bytes) else {
                    return Err(unallocated("a copy", to, bytes));
                };
                place.copy_from_slice(&taken);
            }
            Work::Fill { to, value, bytes } => {
                let Some(place) = self.memory.write(to, bytes) else {
                    return Err(unallocated("a fill", to, bytes));
                };
                place.fill(value);
            }
            Work::Launch { program, globals, name, grid, parameters } => {
                let Some(kernel) = program.functions.get(&name) else {
                    return Err(Fault::Trap(format!("{name} is not a kernel of its module")));
                };
                run(&program, kernel, &globals, grid, &parameters, &mut self.memory)?;
                self.counted.launches += 1;
            }
            Work::Call(call) => call(self)?,
            Work::Record { .. } | Work::Wait { .. } => {}
        }
        Ok(())
    }

    /// Returns whether a range of the process's memory is page-locked.
    pub(crate) fn is_pinned(&self, start: usize, bytes: usize) -> bool {
        is_pinned(&self.pinned, start, bytes)
    }

    /// Appends work to a stream.
    pub(crate) fn give(&mut self, stream: usize, work: Work) -> Code {
        if let Some(code) = self.broken {
            return code;
        }
        match self.streams.get_mut(&stream) {
            Some(stream) => {
                stream.work.push_back(work);
                SUCCESS
            }
            None => self.refuse(crate::machine::INVALID_HANDLE, "the stream is invalid or destroyed"),
        }
    }

    /// Checks that a range of the GPU's memory is allocated; reports a mistake if not.
    pub(crate) fn check_device(&mut self, what: &str, address: u64, bytes: usize) -> Code {
        if self.memory.read(address, bytes).is_none() {
            let text = format!(
                "{what}: {bytes} bytes at {address:#x} are not within one allocation of device memory"
            );
            return self.refuse(crate::machine::INVALID_VALUE, &text);
        }
        SUCCESS
    }

    /// Returns whether the event's last point was passed.
    pub(crate) fn is_passed(&self, event: &Event) -> bool {
        event.recorded.is_none_or(|(stream, ticket)| {
            self.streams.get(&stream).is_none_or(|stream| stream.passed >= ticket)
        })
    }
}

fn is_pinned(
    pinned: &std::collections::HashMap<usize, std::alloc::Layout>,
    start: usize,
    bytes: usize,
) -> bool {
    pinned.iter().any(|(at, layout)| start >= *at && start + bytes <= at + layout.size())
}
