//! Reason for stopping a worker: a page shared with the host, and the signal handler that writes it.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Value of [`StatusPage::magic`] once the handler is installed.
pub const STATUS_MAGIC: u32 = 0x4843_5354;

/// Exit code of a worker that was stopped at a denied system call.
pub const DENIED_EXIT_CODE: c_int = 120;

/// Structure at the start of a page that is shared with the host, which zeroes it.
///
/// The function's process can write to it at will. The host therefore uses it only as a hint for the error
/// message and never trusts it.
#[repr(C)]
#[derive(Debug)]
pub struct StatusPage {
    /// [`STATUS_MAGIC`] once [`prepare`] has run.
    pub magic: AtomicU32,
    /// Number of the denied system call. Valid only if `reason` is not 0.
    pub syscall: AtomicI32,
    /// [`StopReason`]; written last.
    pub reason: AtomicU32,
}

/// Reason for stopping a process, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StopReason {
    /// System call that the policy denies, always or with these arguments.
    DeniedCall = 1,
    /// Attempt to make memory executable.
    ExecutableMemory = 2,
    /// Read of the processor's cycle counter, on which all fine clocks are based. Recorded only if these are
    /// denied.
    FineClock = 3,
    /// Any other memory fault. Recorded only if fine clocks are denied.
    Fault = 4,
}

impl StatusPage {
    /// Returns the reason and the system call, if the page has them.
    pub fn stop(&self) -> Option<(StopReason, i32)> {
        let reason = match self.reason.load(Ordering::Acquire) {
            1 => StopReason::DeniedCall,
            2 => StopReason::ExecutableMemory,
            3 => StopReason::FineClock,
            4 => StopReason::Fault,
            _ => return None,
        };
        Some((reason, self.syscall.load(Ordering::Relaxed)))
    }
}

static STATUS_PAGE: AtomicPtr<StatusPage> = AtomicPtr::new(ptr::null_mut());

/// Size of the handler's stack: a signal frame with the largest vector state takes some 12 KiB.
const STACK_BYTES: usize = 64 << 10;

/// `si_code` of a fault that has no address (`SI_KERNEL`).
const SI_KERNEL: c_int = 0x80;

/// `si_code` of a signal that a seccomp filter raised (`SYS_SECCOMP`).
const SYS_SECCOMP: c_int = 1;

/// Stores the page and installs the handler for denied system calls, on an alternate stack (the function may
/// have exhausted the normal one). To be called by the thread that will run the function, before
/// [`restrict`](super::restrict).
///
/// Without it, or if it fails (then the page's `magic` stays 0), denied calls still end the process, by
/// `SIGSYS` and without a record.
///
/// # Safety
///
/// `status` is null or points to a page that stays mapped, writable, for the rest of the process's life.
pub unsafe fn prepare(status: *mut StatusPage) {
    STATUS_PAGE.store(status, Ordering::Release);
    let no_fd = -1;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let stack = unsafe {
        libc::mmap(ptr::null_mut(), STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, no_fd, 0)
    };
    if stack == libc::MAP_FAILED {
        return;
    }
    let stack = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack was mapped above and is never unmapped.
    if unsafe { libc::sigaltstack(&stack, ptr::null_mut()) } != 0 {
        return;
    }
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_denied_call;
    // SAFETY: sigaction is a plain C structure for which all zeros is a valid value (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is a local that sigfillset only writes to.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and does async-signal-safe things only.
    if unsafe { libc::sigaction(libc::SIGSYS, &action, ptr::null_mut()) } != 0 {
        return;
    }
    // SAFETY: the caller promises that a page that is not null is mapped.
    if let Some(page) = unsafe { status.as_ref() } {
        page.magic.store(STATUS_MAGIC, Ordering::Release);
    }
}

/// Installs a handler for memory faults, which records the reason and ends the process: at reads of the cycle
/// counter, which are [forbidden](super::process::forbid_cycle_counter), and at all other faults, since a
/// handler that returned would need `rt_sigreturn`.
pub(super) fn record_faults() -> Result<()> {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    // SAFETY: sigaction is a plain C structure for which all zeros is a valid value (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as usize;
    // One time only: a fault in the handler itself ends the process.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and does async-signal-safe things only.
    if unsafe { libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()) } != 0 {
        return Err(Error::last_os("lockdown: sigaction"));
    }
    Ok(())
}

/// Async-signal-safe, like [`on_denied_call`].
extern "C" fn on_fault(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let by_kernel = unsafe { info.as_ref() }.is_some_and(|info| info.si_code == SI_KERNEL);
    // SAFETY: the kernel passes the context of the instruction that faulted. Its fault has no address, so the
    // processor could read it.
    let reads_cycles = by_kernel && unsafe { reads_cycles(context) };
    let reason = if reads_cycles { StopReason::FineClock } else { StopReason::Fault };
    // SAFETY: the page is null or, by the contract of `prepare`, mapped for good.
    if let Some(page) = unsafe { STATUS_PAGE.load(Ordering::Acquire).as_ref() } {
        page.reason.store(reason as u32, Ordering::Release);
    }
    // SAFETY: _exit is async-signal-safe and does not return.
    unsafe { libc::_exit(DENIED_EXIT_CODE) }
}

/// Returns whether the instruction that faulted is `rdtsc` or `rdtscp`.
///
/// # Safety
/// `context` is the context of a signal whose instruction was executed, so that its first two bytes can be
/// read.
#[cfg(target_arch = "x86_64")]
unsafe fn reads_cycles(context: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else { return false };
    let at = context.uc_mcontext.gregs.get(usize::try_from(libc::REG_RIP).unwrap_or(usize::MAX));
    let Some(at) = at.copied().and_then(|at| usize::try_from(at).ok()) else { return false };
    let code = ptr::with_exposed_provenance::<u8>(at);
    // SAFETY: two bytes of an instruction that the processor has decoded. No other instruction with this
    // beginning is forbidden to programs.
    match unsafe { [code.read(), code.add(1).read()] } {
        [0x0f, 0x31] => true,
        // SAFETY: an instruction with this start has three bytes.
        [0x0f, 0x01] => unsafe { code.add(2).read() == 0xf9 },
        _ => false,
    }
}

/// Returns true, since other faults without an address are rare on this architecture.
#[cfg(target_arch = "aarch64")]
unsafe fn reads_cycles(_context: *mut c_void) -> bool {
    true
}

/// Records the call and exits. The kernel has not run the call and never will.
///
/// Async-signal-safe: atomics and `_exit`, no allocation, no lock, no formatting.
extern "C" fn on_denied_call(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the page is null or, by the contract of `prepare`, mapped for good.
    let page = unsafe { STATUS_PAGE.load(Ordering::Acquire).as_ref() };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info = unsafe { info.as_ref() };
    if let (Some(page), Some(info)) = (page, info)
        && info.si_code == SYS_SECCOMP
    {
        let call = denied_call(info);
        page.syscall.store(call, Ordering::Relaxed);
        page.reason.store(reason_for(call) as u32, Ordering::Release);
    }
    // SAFETY: _exit is async-signal-safe and does not return.
    unsafe { libc::_exit(DENIED_EXIT_CODE) }
}

fn denied_call(info: &libc::siginfo_t) -> i32 {
    // On 64-bit Linux the union of a siginfo starts at byte 16 (three ints and padding), and its member for
    // SIGSYS is a pointer followed by the number of the call. x86_64 and aarch64 agree; older libc crates
    // have no accessor for it.
    const CALL_NUMBER_OFFSET: usize = 24;
    const { assert!(size_of::<libc::siginfo_t>() >= CALL_NUMBER_OFFSET + size_of::<i32>()) };
    let start = ptr::from_ref(info).cast::<u8>();
    // SAFETY: bytes 24..28 are within the structure, see the assertion, and aligned for an i32.
    unsafe { start.add(CALL_NUMBER_OFFSET).cast::<i32>().read() }
}

/// Returns the reason for a denied call. The two calls that can make memory executable are otherwise allowed,
/// so their denial means exactly that (or memory that grows automatically, which no honest code requests).
fn reason_for(call: i32) -> StopReason {
    let call = libc::c_long::from(call);
    if call == libc::SYS_mmap || call == libc::SYS_mprotect {
        StopReason::ExecutableMemory
    } else {
        StopReason::DeniedCall
    }
}
