//! The Lua back end: LuaJIT. Bytecode is loaded only where the host sends some: that of HDF5-UDF, for signers whose native
//! code may run.

use super::{CallSlot, Runtime, lockdown, lua_nans};
use crate::datatype::{Datatype, declarations};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::protocol::Setup;
use mlua::{ChunkMode, Function, Lua, LuaOptions, StdLib};
use std::os::fd::{IntoRawFd as _, OwnedFd};

const PRELUDE: &str = include_str!("lua_prelude.lua");
/// What HDF5-UDF puts before a function keeps `lib` to itself, in its `init`, and fills it when that is called. It gets
/// what functions of ours get, and `init` is not called.
const ADOPT: &str = "
local getupvalue = debug.getupvalue
debug, package.loaded.debug = nil, nil
for n = 1, 60 do
  local name, value = getupvalue(init, n)
  if type(value) == 'table' then
    for key, entry in pairs(lib) do value[key] = entry end
    return
  end
  if name == nil then break end
end
error('the bytecode has no `lib` as HDF5-UDF 2 makes it', 0)
";
const MAX_RANK: usize = 32;
/// Where the prelude's function that takes a block's seed is kept.
const SEED: &str = "hyperchunk.seed";

/// The slot as the prelude's `ffi.cdef` declares it.
#[repr(C)]
#[derive(Clone, Copy)]
struct FfiSlot {
    data: *mut u8,
    rank: u64,
    dims: [u64; MAX_RANK],
    start: [u64; MAX_RANK],
}

/// A Lua state.
#[derive(Debug)]
pub struct LuaRuntime {
    lua: Lua,
    jit: bool,
    entry: Option<Function>,
    slots: Box<[FfiSlot]>,
    /// Inputs that are not given as they lie, for their [NaNs](lua_nans).
    copies: Vec<Vec<u64>>,
}

impl std::fmt::Debug for FfiSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FfiSlot({:p})", self.data)
    }
}

fn failed(error: &mlua::Error) -> Error {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => cause.to_string(),
        other => other.to_string(),
    };
    // The traceback names only our own frames.
    let text = text.split("\nstack traceback:").next().unwrap_or_default();
    Error::new(
        ErrorKind::Failed,
        text.trim_start_matches("runtime error: ").trim_start_matches("syntax error: ").to_owned(),
    )
}

/// Where the elements of a slot are for Lua: where they lie, or in a copy.
fn given(slot: &CallSlot<'_>, copy: &mut Vec<u64>) -> Result<*mut u8> {
    let bytes = usize::try_from(slot.count).ok().and_then(|count| count.checked_mul(slot.datatype.size()));
    let Some(bytes) = bytes.filter(|bytes| *bytes > 0 && !slot.output && lua_nans::has_floats(slot.datatype))
    else {
        return Ok(slot.data);
    };
    // SAFETY: the host put so many elements there, and leaves them as they are while the call runs.
    let elements = unsafe { std::slice::from_raw_parts(slot.data.cast_const(), bytes) };
    if lua_nans::any_odd(slot.datatype, elements) {
        return lua_nans::mended(slot.datatype, elements, copy);
    }
    *copy = Vec::new();
    Ok(slot.data)
}

impl LuaRuntime {
    /// A state with the base, string, table, math, bit, jit, ffi and package libraries: no files, no processes.
    ///
    /// # Errors
    /// `Worker` when LuaJIT cannot start.
    pub fn new(setup: &Setup) -> Result<Self> {
        let libraries = StdLib::STRING
            | StdLib::TABLE
            | StdLib::MATH
            | StdLib::BIT
            | StdLib::JIT
            | StdLib::FFI
            | StdLib::PACKAGE
            | if setup.grants.has_files() { StdLib::IO } else { StdLib::NONE }
            | if setup.compiled { StdLib::DEBUG } else { StdLib::NONE };
        // SAFETY: the sandbox, not the language, contains the program: this process holds nothing of value.
        let lua = unsafe { Lua::unsafe_new_with(libraries, LuaOptions::default()) };
        let empty =
            FfiSlot { data: std::ptr::null_mut(), rank: 0, dims: [0; MAX_RANK], start: [0; MAX_RANK] };
        let slots = vec![empty; setup.slots.len().max(1)].into_boxed_slice();
        let me = LuaRuntime { lua, jit: setup.jit, entry: None, slots, copies: Vec::new() };
        me.prelude(setup).map_err(|e| failed(&e))?;
        Ok(me)
    }

    fn prelude(&self, setup: &Setup) -> mlua::Result<()> {
        let list = self.lua.create_table()?;
        let types: Vec<_> = setup
            .slots
            .iter()
            .map(|s| Datatype::parse(&s.datatype))
            .collect::<Result<_>>()
            .map_err(mlua::Error::external)?;
        let (structures, names) = declarations(setup.slots.iter().map(|s| s.name.as_str()).zip(&types));
        for (i, ((slot, datatype), c_type)) in setup.slots.iter().zip(&types).zip(names).enumerate() {
            let row = self.lua.create_table()?;
            row.set("name", slot.name.as_str())?;
            row.set("type", datatype.told_name())?;
            row.set("c_type", c_type)?;
            row.set("size", datatype.flat_number().map_or(datatype.size(), |n| n.size()))?;
            list.set(i + 1, row)?;
        }
        // A user-space address has at most 52 bits on the machines that we run on, so a number holds it.
        #[expect(clippy::cast_precision_loss, reason = "addresses have fewer than 53 bits")]
        let address = self.slots.as_ptr() as usize as f64;
        let prelude = self.lua.load(PRELUDE).set_name("=hyperchunk").set_mode(ChunkMode::Text);
        let connect = self.lua.create_function(|_, target: String| {
            // An error is a value here: what functions see is the prelude's.
            Ok(match super::connect(&target) {
                Ok(fd) => (Some(fd.into_raw_fd()), None),
                Err(error) => (None, Some(error.message().to_owned())),
            })
        })?;
        let clock = self.lua.create_function(|_, ()| Ok(super::now()))?;
        let more = self.lua.create_table()?;
        more.set("clock", clock)?;
        more.set("no_clock", setup.no_clock.as_deref())?;
        more.set("has_seed", setup.seed.is_some())?;
        let arguments = (list, structures, address, setup.file_path.as_str(), self.jit, connect, more);
        let seed: Function = prelude.call(arguments)?;
        self.lua.set_named_registry_value(SEED, seed)
    }
}

impl Runtime for LuaRuntime {
    fn lockdown(&self) -> lockdown::Runtime {
        lockdown::Runtime::Lua { jit: self.jit }
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        match compiled {
            None => {
                let chunk = self.lua.load(setup.source.as_str()).set_name("=udf").set_mode(ChunkMode::Text);
                chunk.exec().map_err(|e| failed(&e))?;
            }
            Some(compiled) => {
                let code = super::read_compiled(compiled)?;
                let chunk = self.lua.load(code).set_name("=udf").set_mode(ChunkMode::Binary);
                let adopt = self.lua.load(ADOPT).set_name("=hyperchunk").set_mode(ChunkMode::Text);
                chunk.exec().and_then(|()| adopt.exec()).map_err(|e| failed(&e))?;
            }
        }
        match self.lua.globals().get::<Option<Function>>("dynamic_dataset") {
            Ok(Some(entry)) => {
                self.entry = Some(entry);
                Ok(())
            }
            _ => fail!(Failed, "the source defines no function dynamic_dataset"),
        }
    }

    fn seed(&mut self, seed: u64) -> Result<()> {
        // Its seeds have 53 bits, which a number of Lua's holds.
        #[expect(clippy::cast_precision_loss, reason = "seeds have 53 bits")]
        let seed = seed as f64;
        self.lua
            .named_registry_value::<Function>(SEED)
            .and_then(|set| set.call::<()>(seed))
            .map_err(|e| failed(&e))
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        self.copies.resize_with(slots.len(), Vec::new);
        for ((to, from), copy) in self.slots.iter_mut().zip(slots).zip(&mut self.copies) {
            to.data = given(from, copy)?;
            to.rank = from.dims.len() as u64;
            for (d, &n) in to.dims.iter_mut().zip(from.dims) {
                *d = n;
            }
            for (d, &n) in to.start.iter_mut().zip(from.start) {
                *d = n;
            }
        }
        let Some(entry) = &self.entry else { fail!(Worker, "called before it was loaded") };
        let done = entry.call::<()>(()).map_err(|e| failed(&e));
        // SAFETY: flushing every C stream has no preconditions: `print` writes to one.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        done
    }
}
