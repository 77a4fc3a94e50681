//! Functions of WASI (`wasi_snapshot_preview1`) that C libraries call. Text goes to the host's output, the
//! clock is the machine's if granted, and random numbers derive from the block's seed. There are no files,
//! arguments or environment.

use crate::functions::{State, bytes, bytes_mut, failure, memory, print};
use wasmtime::{Caller, Engine, FuncType, Linker, Val, ValType};

/// Module name of these imports.
pub(crate) const MODULE: &str = "wasi_snapshot_preview1";

/// WASI error numbers.
const BAD_DESCRIPTOR: i32 = 8;
const INVALID_ARGUMENT: i32 = 28;
const NO_SUCH_CALL: i32 = 52;
const NOT_SEEKABLE: i32 = 70;

fn store(caller: &mut Caller<'_, State>, at: u32, value: &[u8]) -> wasmtime::Result<()> {
    let (memory, state) = memory(caller)?;
    let range = bytes_mut(state, memory, at, u32::try_from(value.len()).unwrap_or(u32::MAX))?;
    if let Some(to) = memory.get_mut(range) {
        to.copy_from_slice(value);
    }
    Ok(())
}

fn word(memory: &[u8], at: u32) -> wasmtime::Result<u32> {
    bytes(memory, at, 4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default()))
}

fn is_output(fd: i32) -> bool {
    fd == libc::STDOUT_FILENO || fd == libc::STDERR_FILENO
}

fn fd_write(
    mut caller: Caller<'_, State>,
    fd: i32,
    parts: u32,
    count: u32,
    written: u32,
) -> wasmtime::Result<i32> {
    if !is_output(fd) {
        return Ok(BAD_DESCRIPTOR);
    }
    let mut total = 0u32;
    {
        let (memory, _) = memory(&mut caller)?;
        for n in 0..count.min(1024) {
            let at = parts.saturating_add(n * 8);
            let text = bytes(memory, word(memory, at)?, word(memory, at.saturating_add(4))?)?;
            print(fd, text);
            total = total.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
    }
    store(&mut caller, written, &total.to_le_bytes())?;
    Ok(0)
}

fn clock(id: u32, read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32) -> Option<u64> {
    let id = match id {
        0 => libc::CLOCK_REALTIME,
        1 => libc::CLOCK_MONOTONIC,
        2 => libc::CLOCK_PROCESS_CPUTIME_ID,
        3 => libc::CLOCK_THREAD_CPUTIME_ID,
        _ => return None,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a function of the C library that fills a live structure.
    let fine = unsafe { read(id, &raw mut time) } == 0;
    let (seconds, rest) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    fine.then(|| seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

fn write_time(caller: &mut Caller<'_, State>, time: Option<u64>, to: u32) -> wasmtime::Result<i32> {
    let Some(time) = time else { return Ok(INVALID_ARGUMENT) };
    store(caller, to, &time.to_le_bytes())?;
    Ok(0)
}

fn random_get(mut caller: Caller<'_, State>, at: u32, length: u32) -> wasmtime::Result<i32> {
    let (memory, state) = memory(&mut caller)?;
    let range = bytes_mut(state, memory, at, length)?;
    let Some(to) = memory.get_mut(range) else { return Ok(INVALID_ARGUMENT) };
    state.random.fill(to);
    Ok(0)
}

/// Defines the functions.
pub(crate) fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |fd: i32, _: i64, _: i32, _: u32| {
            if is_output(fd) { NOT_SEEKABLE } else { BAD_DESCRIPTOR }
        },
    )?;
    linker.func_wrap(MODULE, "fd_close", |fd: i32| if is_output(fd) { 0 } else { BAD_DESCRIPTOR })?;
    linker.func_wrap(MODULE, "fd_fdstat_get", |mut caller: Caller<'_, State>, fd: i32, to: u32| {
        if !is_output(fd) {
            return Ok(BAD_DESCRIPTOR);
        }
        // Of unknown type, so that C libraries buffer their output.
        store(&mut caller, to, &[0; 24])?;
        Ok(0)
    })?;
    for name in ["args_sizes_get", "environ_sizes_get"] {
        linker.func_wrap(MODULE, name, |mut caller: Caller<'_, State>, count: u32, size: u32| {
            store(&mut caller, count, &[0; 4])?;
            store(&mut caller, size, &[0; 4])?;
            Ok(0)
        })?;
    }
    for name in ["args_get", "environ_get"] {
        linker.func_wrap(MODULE, name, |_: u32, _: u32| 0)?;
    }
    for name in ["fd_prestat_get", "fd_read"] {
        let parameters = if name == "fd_read" { 4 } else { 2 };
        constant(linker, name, parameters, BAD_DESCRIPTOR)?;
    }
    linker.func_wrap(
        MODULE,
        "clock_time_get",
        |mut caller: Caller<'_, State>, id: u32, _: i64, to: u32| {
            caller.data().check_clock()?;
            let time = clock(id, libc::clock_gettime);
            write_time(&mut caller, time, to)
        },
    )?;
    linker.func_wrap(MODULE, "clock_res_get", |mut caller: Caller<'_, State>, id: u32, to: u32| {
        let time = clock(id, libc::clock_getres);
        write_time(&mut caller, time, to)
    })?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    linker.func_wrap(MODULE, "sched_yield", || 0)?;
    linker.func_wrap(MODULE, "proc_exit", |code: i32| {
        Err::<(), _>(failure(format!("the function ended its program (exit status {code})")))
    })?;
    Ok(())
}

fn constant(linker: &mut Linker<State>, name: &str, parameters: usize, answer: i32) -> wasmtime::Result<()> {
    let kind = FuncType::new(linker.engine(), vec![ValType::I32; parameters], [ValType::I32]);
    always(linker, name, kind, answer)
}

fn always(linker: &mut Linker<State>, name: &str, kind: FuncType, answer: i32) -> wasmtime::Result<()> {
    linker.func_new(MODULE, name, kind, move |_, _, results| {
        if let Some(result) = results.first_mut() {
            *result = Val::I32(answer);
        }
        Ok(())
    })?;
    Ok(())
}

/// Defines any other WASI function that a module imports; it returns the error "no such call".
pub(crate) fn define_missing(
    linker: &mut Linker<State>,
    engine: &Engine,
    name: &str,
    kind: &FuncType,
) -> wasmtime::Result<bool> {
    let answers = kind.results().len() == 1 && kind.results().all(|r| matches!(r, ValType::I32));
    if !answers {
        return Ok(false);
    }
    let same = FuncType::new(engine, kind.params(), kind.results());
    always(linker, name, same, NO_SUCH_CALL)?;
    Ok(true)
}
