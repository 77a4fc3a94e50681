//! The linear memory: the module's own part first, then inputs and outputs, then space to grow.
//!
//! All of it is reserved and mapped before the lock-down, at addresses that do not depend on the module.
//! Inputs and outputs are memory shared with the host, or mapped parts of the file, so that no bytes are
//! copied. Generated code has no bounds checks: 32-bit addresses cannot leave the reservation, and a fault
//! inside it becomes a trap.

use crate::fail;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::memory::Map;
use hyperchunk_udf::protocol::{STATUS_BYTES, Setup};
use hyperchunk_udf::wasm::MAX_INITIAL_MEMORY_BYTES;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// Address range of 32 bits.
pub(crate) const RESERVED_BYTES: usize = 4 << 30;
/// Size of the guard region: the maximum constant offset from an address without a bounds check.
pub(crate) const GUARD_BYTES: usize = 32 << 20;
/// WebAssembly page size, a multiple of every machine's page size.
const PAGE_BYTES: u64 = 64 << 10;
/// End of the usable memory, so that sizes in bytes fit in 32 bits.
const MEMORY_END: u64 = RESERVED_BYTES as u64 - PAGE_BYTES;

/// Memory mapped for the lifetime of the process.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: usize,
    /// Initial size in use: the module's own part, and inputs and outputs.
    size: u64,
    /// Segments of the set-up. The status page at the start of the first one is not mapped.
    segments: Vec<MappedSegment>,
    taken: AtomicBool,
}

#[derive(Debug)]
struct MappedSegment {
    /// Address of byte 0 of the segment.
    at: u64,
    /// Mapped range of the segment.
    mapped: Range<u64>,
    writable: bool,
}

impl Reservation {
    /// Reserves the memory and maps the segments of `setup` into it.
    pub(crate) fn new(setup: &Setup, fds: &[OwnedFd]) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), RESERVED_BYTES + GUARD_BYTES, libc::PROT_NONE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os("cannot reserve 4 GiB of addresses"));
        }
        let mut reservation = Reservation {
            base: base as usize,
            size: MAX_INITIAL_MEMORY_BYTES,
            segments: Vec::with_capacity(fds.len()),
            taken: AtomicBool::new(false),
        };
        for (n, (segment, fd)) in setup.segments.iter().zip(fds).enumerate() {
            // The status page, which tells the host why a worker was stopped, is hidden from the function.
            let hidden = if n == 0 { STATUS_BYTES as u64 } else { 0 };
            let Some(bytes) = segment.bytes.checked_sub(hidden) else {
                return fail(ErrorKind::Worker, "the first segment is smaller than the status page");
            };
            reservation.place(segment, hidden, bytes, fd)?;
        }
        reservation.protect(0..MAX_INITIAL_MEMORY_BYTES)?;
        Ok(reservation)
    }

    fn place(
        &mut self,
        segment: &hyperchunk_udf::protocol::Segment,
        hidden: u64,
        bytes: u64,
        fd: &OwnedFd,
    ) -> Result<()> {
        let start = self.size;
        // A part of a file may begin anywhere in a page.
        let end = bytes
            .checked_add(PAGE_BYTES)
            .and_then(|b| b.checked_next_multiple_of(PAGE_BYTES))
            .and_then(|b| start.checked_add(b))
            .filter(|&end| end <= MEMORY_END);
        let Some(end) = end else {
            return fail(
                ErrorKind::Limit,
                "its inputs and outputs are larger than the 4 GiB that a WebAssembly function can address; attaching with `--chunks auto` makes evaluations small",
            );
        };
        // Zero pages around the segment: a read across the memory's whole length must not fault.
        self.protect(start..end)?;
        let at = (self.base as u64 + start) as *mut u8;
        // SAFETY: pages inside our reservation, which are not in use yet.
        let map = unsafe {
            if segment.piece {
                Map::piece_at(at, fd.as_fd(), segment.offset, bytes)
            } else {
                Map::shared_at(at, fd.as_fd(), hidden, bytes, segment.writable)
            }
        }?;
        let first = map.region().0 as u64 - self.base as u64;
        // The mapping stays until the process ends.
        std::mem::forget(map);
        let Some(zero) = first.checked_sub(hidden) else {
            return fail(ErrorKind::Worker, "a segment has no valid address");
        };
        self.segments.push(MappedSegment {
            at: zero,
            mapped: hidden..segment.bytes,
            writable: segment.writable,
        });
        self.size = end;
        Ok(())
    }

    /// Makes pages of the reservation readable and writable.
    fn protect(&self, range: Range<u64>) -> Result<()> {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let at = (self.base as u64 + range.start) as *mut libc::c_void;
        // SAFETY: pages of our reservation, which holds only the linear memory.
        if unsafe { libc::mprotect(at, length, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(Error::last_os(format_args!("cannot make {length} bytes of memory accessible")));
        }
        Ok(())
    }

    /// Returns the function's address of `bytes` bytes at a position of a segment.
    pub(crate) fn address(&self, (segment, offset): (u32, u64), bytes: u64) -> Option<u32> {
        let placed = self.segments.get(usize::try_from(segment).ok()?)?;
        let end = offset.checked_add(bytes)?;
        if offset < placed.mapped.start || end > placed.mapped.end {
            return None;
        }
        u32::try_from(placed.at.checked_add(offset)?).ok()
    }

    /// Returns the address of the segment for copied inputs.
    pub(crate) fn inputs_at(&self) -> Option<u64> {
        self.segments.get(1).map(|s| s.at)
    }

    /// Returns whether an address of the function is in an input.
    pub(crate) fn is_input(&self, address: u64) -> bool {
        self.segments
            .iter()
            .filter(|s| !s.writable)
            .any(|s| (s.at + s.mapped.start..s.at + s.mapped.end).contains(&address))
    }

    /// Returns the initial size in use, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// Memory creator that hands the reservation to the module's memory.
pub(crate) struct Creator(pub(crate) &'static Reservation);

// SAFETY: the memory is zeros except for inputs and outputs, has the reservation and the guard that the
// engine is configured for, and is handed out once.
unsafe impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> std::result::Result<Box<dyn LinearMemory>, String> {
        let fits = reserved.is_some_and(|r| r <= RESERVED_BYTES)
            && guard <= GUARD_BYTES
            && minimum as u64 <= MAX_INITIAL_MEMORY_BYTES;
        if !fits || self.0.taken.swap(true, Ordering::Relaxed) {
            return Err("a module has one memory, initially of at most 64 MiB".into());
        }
        Ok(Box::new(Linear { reservation: self.0, size: self.0.size }))
    }
}

struct Linear {
    reservation: &'static Reservation,
    size: u64,
}

// SAFETY: the base never moves, and the pages below the size are readable and, except for inputs, writable.
unsafe impl LinearMemory for Linear {
    fn byte_size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    fn byte_capacity(&self) -> usize {
        RESERVED_BYTES
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        let new_size = new_size as u64;
        if new_size > MEMORY_END {
            return Err(Error::new(ErrorKind::Limit, "more than 4 GiB of memory").into());
        }
        if new_size > self.size {
            self.reservation.protect(self.size..new_size)?;
            self.size = new_size;
        }
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.reservation.base as *mut u8
    }
}
