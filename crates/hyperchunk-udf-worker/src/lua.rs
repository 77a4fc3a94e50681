//! Lua back end: LuaJIT. Bytecode is loaded only if the host sends some: HDF5-UDF's bytecode, from signers
//! whose native code may run.

mod nan_boxing;
mod slots;
#[cfg(test)]
mod tests;

use crate::fail;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::datatype::{Datatype, ElementType, declarations};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::protocol::Setup;
use hyperchunk_udf::worker::{self, CallSlot, Runtime};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib};
use slots::Slots;
use std::cell::RefCell;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::rc::Rc;

const PRELUDE: &str = include_str!("lua/prelude.lua");
/// Shim for HDF5-UDF's bytecode, which stores `lib` in a local of its `init` and fills it when `init` is
/// called. This fills it with the same functions as for our sources, and does not call `init`.
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
/// Registry key of the prelude's function that takes a block's seed.
const SEED: &str = "hyperchunk.seed";

/// Lua state of a function.
#[derive(Debug)]
pub(crate) struct LuaRuntime {
    lua: Lua,
    jit: bool,
    entry: Option<Function>,
    slots: Rc<RefCell<Slots>>,
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

/// Returns whether LuaJIT's machine code gives the same results as its interpreter. It does not for unsigned
/// 64-bit integers from 2^63 on that are stored directly in a `float`; through a `double` or a signed integer
/// they are right. Bytecode is judged only by the types of its datasets.
fn jit_is_exact(setup: &Setup) -> bool {
    let types: Vec<_> = setup.slots.iter().filter_map(|slot| Datatype::parse(&slot.datatype).ok()).collect();
    let any = |wanted| types.iter().any(|datatype| nan_boxing::holds(datatype, &|number| number == wanted));
    let source = setup.source.to_ascii_lowercase();
    let says = |names: &[&str]| names.iter().any(|name| source.contains(name));
    let floats = any(ElementType::Float32) || says(&["float"]);
    let unsigned = any(ElementType::UInt64) || says(&["uint64", "size_t", "uintptr", "unsigned long"]);
    let mut words = source.split(|c: char| !c.is_ascii_alphanumeric());
    let mut literals =
        || words.any(|word| word.ends_with("ull") && word.starts_with(|c: char| c.is_ascii_digit()));
    !floats || !unsigned && !literals()
}

impl LuaRuntime {
    /// Creates a state with the base, string, table, math, bit, jit, ffi and package libraries, `io` if the
    /// profile grants files, and `debug` for bytecode of HDF5-UDF.
    ///
    /// # Errors
    /// `Worker` when LuaJIT cannot start.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
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
        // The prelude leaves little garbage; collecting it takes a twentieth of the worker's start.
        lua.gc_stop();
        let types: Vec<_> =
            setup.slots.iter().map(|s| Datatype::parse(&s.datatype)).collect::<Result<_>>()?;
        let slots = Rc::new(RefCell::new(Slots::new(&types)));
        let me = LuaRuntime { lua, jit: setup.jit, entry: None, slots };
        me.prelude(setup, &types).map_err(|e| failed(&e))?;
        me.collect().map_err(|e| failed(&e))?;
        Ok(me)
    }

    /// Starts the garbage collector, which first runs when the memory in use has doubled.
    fn collect(&self) -> mlua::Result<()> {
        self.lua.globals().get::<Function>("collectgarbage")?.call::<()>(("restart", -1))
    }

    fn prelude(&self, setup: &Setup, types: &[Datatype]) -> mlua::Result<()> {
        let list = self.lua.create_table()?;
        let (structures, names) = declarations(setup.slots.iter().map(|s| s.name.as_str()).zip(types));
        for (i, ((slot, datatype), c_type)) in setup.slots.iter().zip(types).zip(names).enumerate() {
            let row = self.lua.create_table()?;
            row.set("name", slot.name.as_str())?;
            row.set("type", datatype.type_name_for_lib())?;
            row.set("c_type", c_type)?;
            row.set("size", datatype.flat_number().map_or(datatype.size(), |n| n.size()))?;
            list.set(i + 1, row)?;
        }
        // A user-space address has at most 52 bits on supported machines, so a number can represent it.
        #[expect(clippy::cast_precision_loss, reason = "addresses have fewer than 53 bits")]
        let address = self.slots.borrow().address() as f64;
        let prelude = self.lua.load(PRELUDE).set_name("=hyperchunk").set_mode(ChunkMode::Text);
        let connect = self.lua.create_function(|_, target: String| {
            // Errors are returned as values here; the prelude raises them for the function.
            Ok(match worker::connect(&target) {
                Ok(fd) => (Some(fd.into_raw_fd()), None),
                Err(error) => (None, Some(error.message().to_owned())),
            })
        })?;
        let clock = self.lua.create_function(|_, ()| Ok(worker::now()))?;
        let more = self.lua.create_table()?;
        more.set("clock", clock)?;
        more.set("no_clock", setup.no_clock.as_deref())?;
        more.set("has_seed", setup.seed.is_some())?;
        let slots = Rc::clone(&self.slots);
        let look = self.lua.create_function(move |_, index: usize| {
            // As above.
            Ok(slots.borrow_mut().look(index).err().map(|error| error.message().to_owned()))
        })?;
        more.set("look", look)?;
        let arguments = (list, structures, address, setup.file_path.as_str(), self.jit, connect, more);
        let seed: Function = prelude.call(arguments)?;
        self.lua.set_named_registry_value(SEED, seed)
    }
}

impl Runtime for LuaRuntime {
    fn sandbox_runtime(&self) -> sandbox::Runtime {
        sandbox::Runtime::Lua { jit: self.jit }
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        if self.jit && !jit_is_exact(setup) {
            self.jit = false;
            self.lua.load("jit.off() function jit.on() end").exec().map_err(|e| failed(&e))?;
        }
        match compiled {
            None => {
                let chunk = self.lua.load(setup.source.as_str()).set_name("=udf").set_mode(ChunkMode::Text);
                chunk.exec().map_err(|e| failed(&e))?;
            }
            Some(compiled) => {
                let code = worker::read_compiled(compiled)?;
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
        // Seeds have 53 bits, which a Lua number can represent.
        #[expect(clippy::cast_precision_loss, reason = "seeds have 53 bits")]
        let seed = seed as f64;
        self.lua
            .named_registry_value::<Function>(SEED)
            .and_then(|set| set.call::<()>(seed))
            .map_err(|e| failed(&e))
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        let Some(entry) = &self.entry else { fail!(Worker, "the function was called before it was loaded") };
        self.slots.borrow_mut().take(slots);
        let done = entry.call::<()>(()).map_err(|e| failed(&e));
        self.slots.borrow_mut().forget();
        // SAFETY: flushing every C stream has no preconditions: `print` writes to one.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        done
    }
}
