-- What a Lua function sees: the global `lib`. Indices start at 1, as in HDF5-UDF.
local slots, address, file_path, jit_allowed = ...
local ffi = require("ffi")
ffi.cdef [[
typedef struct { void *data; uint64_t rank; uint64_t dims[32]; } hyperchunk_slot;
]]
local array = ffi.cast("hyperchunk_slot *", ffi.cast("uintptr_t", address))
local by_name = {}
for i, slot in ipairs(slots) do
  slot.index = i - 1
  slot.pointer = ffi.typeof(slot.c_type .. " *")
  by_name[slot.name] = slot
  by_name["/" .. slot.name] = by_name["/" .. slot.name] or slot
end

local function find(name)
  local slot = by_name[name]
  if not slot then
    error("lib: no dataset " .. tostring(name) .. " was recorded when this function was attached", 3)
  end
  return slot
end

lib = {}

function lib.getData(name)
  local slot = find(name)
  return ffi.cast(slot.pointer, array[slot.index].data) - 1
end

function lib.getDims(name)
  local raw, dims = array[find(name).index], {}
  for i = 1, tonumber(raw.rank) do
    dims[i] = tonumber(raw.dims[i - 1])
  end
  return dims
end

lib.getSize = lib.getDims

function lib.getType(name)
  return find(name).type
end

function lib.getFilePath()
  return file_path
end

-- Nothing may be loaded from files, and bytecode never.
local text_only = load
local function source(chunk, name, _, env)
  if env == nil then
    return text_only(chunk, name, "t")
  end
  return text_only(chunk, name, "t", env)
end
load, loadstring = source, source
dofile, loadfile = nil, nil
if io then -- where files are granted
  io.popen = nil
end
package.loaders, package.loadlib, package.path, package.cpath = {}, nil, "", ""
string.dump = nil
if not jit_allowed then
  jit.off()
end
