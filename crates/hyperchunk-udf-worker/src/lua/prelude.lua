-- Environment of a Lua function: the global `lib`. Indices start at 1, as in HDF5-UDF.
local slots, structures, address, file_path, jit_allowed, host_connect, host = ...
local ffi = require("ffi")
ffi.cdef [[
typedef struct {
  void *data; double looked_at; uint64_t rank; uint64_t dims[32]; uint64_t start[32];
} hyperchunk_slot;
]]
if structures ~= "" then
  ffi.cdef(structures)
end
local array = ffi.cast("hyperchunk_slot *", ffi.cast("uintptr_t", address))
local by_name = {}
for i, slot in ipairs(slots) do
  slot.index = i - 1
  slot.pointer = ffi.typeof(slot.c_type .. " *")
  assert(ffi.sizeof(slot.c_type) == slot.size, "layout")
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

local cast = ffi.cast

-- Called before Lua reads elements: replaces NaNs that LuaJIT cannot represent.
local function look(slot)
  local problem = host.look(slot.index)
  if problem then
    error(problem, 0)
  end
end

function lib.getData(name)
  local slot = find(name)
  local at = array[slot.index]
  if at.looked_at == 0 then
    look(slot)
  end
  return cast(slot.pointer, at.data) - 1
end

local function numbers(raw, rank)
  local list = {}
  for i = 1, tonumber(rank) do
    list[i] = tonumber(raw[i - 1])
  end
  return list
end

function lib.getDims(name)
  local slot = array[find(name).index]
  return numbers(slot.dims, slot.rank)
end

-- Returns an attribute: a number, a string, or a table of them.
function lib.getAttr(object, name)
  local label = object .. "@" .. name
  local slot = find(label)
  local at = array[slot.index]
  local count = 1
  for i = 1, tonumber(at.rank) do
    count = count * tonumber(at.dims[i - 1])
  end
  local data = lib.getData(label)
  local list = {}
  for i = 1, count do
    local value = data[i]
    list[i] = type(value) == "cdata" and slot.type == "string" and lib.string(value) or value
  end
  return count == 1 and list[1] or list
end

-- Returns the shape of the computed block.
function lib.getChunk()
  return numbers(array[0].dims, array[0].rank)
end

-- Returns the offset of that block in its dataset, or of an input's part in the input's dataset.
function lib.getOffset(name)
  local slot = array[name and find(name).index or 0]
  return numbers(slot.start, slot.rank)
end

lib.getSize = lib.getDims

function lib.getType(name)
  return find(name).type
end

function lib.getFilePath()
  return file_path
end

-- Returns the string in an element of a string dataset, or in a member. Fixed-length strings end at their size or at a zero.
function lib.string(from)
  if type(from) == "string" then
    return from
  end
  if type(from) ~= "cdata" then
    error("lib.string: this is a " .. type(from) .. ", not a string of a dataset", 2)
  end
  if ffi.istype("char *", from) or ffi.istype("const char *", from) then
    return ffi.string(from)
  end
  local found, value = pcall(function() return from.value end)
  if found and value ~= nil then
    return lib.string(value)
  end
  local text = ffi.string(from, ffi.sizeof(from))
  local zero = string.find(text, "\0", 1, true)
  return zero and string.sub(text, 1, zero - 1) or text
end

-- Sets a string of an output. A longer text is truncated; the rest of the string is cleared.
function lib.setString(to, text)
  local found, value = pcall(function() return to.value end)
  if found and value ~= nil then
    to = value
  end
  if type(to) ~= "cdata" or ffi.istype("char *", to) then
    error("lib.setString needs a string of an output: an element of a string dataset, or a member", 2)
  end
  text = tostring(text)
  local size = ffi.sizeof(to)
  local length = math.min(size, #text)
  ffi.copy(to, text, length)
  ffi.fill(ffi.cast("char *", to) + length, size - length)
end

-- Seed of this block, an integer that is the same for each reader.
local seed, randomseed = 0, math.randomseed

function lib.seed()
  if not host.has_seed then
    error("lib.seed: the record has no seed; attach the function again", 2)
  end
  return seed
end

-- Returns seconds since 1970, if the profile grants the clock.
function lib.clock()
  if host.no_clock then
    error("lib.clock: " .. host.no_clock, 2)
  end
  return host.clock()
end

-- Connection to "host:port", if the profile grants it.
local connection = {}
connection.__index = connection

function lib.connect(target)
  local fd, reason = host_connect(tostring(target))
  if not fd then
    error(reason, 2)
  end
  ffi.cdef [[
  long send(int, const void *, size_t, int);
  long recv(int, void *, size_t, int);
  int close(int);
  char *strerror(int);
  ]]
  return setmetatable({fd = fd, waiting = "", ended = false}, connection)
end

local function broken(what)
  error("connection: " .. what .. ": " .. ffi.string(ffi.C.strerror(ffi.errno())), 3)
end

-- Sends a whole string.
function connection:send(text)
  local bytes, sent = ffi.cast("const char *", text), 0
  while sent < #text do
    local n = tonumber(ffi.C.send(self.fd, bytes + sent, #text - sent, 0x4000)) -- MSG_NOSIGNAL
    if n < 0 then
      broken("send")
    end
    sent = sent + n
  end
end

-- Receives the next bytes; returns false at the end.
function connection:fill()
  if self.ended then
    return false
  end
  self.buffer = self.buffer or ffi.new("char[?]", 65536)
  local n = tonumber(ffi.C.recv(self.fd, self.buffer, 65536, 0))
  if n < 0 then
    broken("receive")
  end
  self.ended = n == 0
  self.waiting = self.waiting .. ffi.string(self.buffer, n)
  return n > 0
end

-- Returns that number of bytes; with "*l" a line without its end, with "*a" all until the other side closes. nil at the end.
function connection:receive(what)
  if what == "*l" then
    local at = string.find(self.waiting, "\n", 1, true)
    while not at and self:fill() do
      at = string.find(self.waiting, "\n", 1, true)
    end
    if not at then
      return self:take(#self.waiting)
    end
    return (string.gsub(self:take(at), "\r?\n$", ""))
  end
  if what == "*a" then
    local pieces = {}
    repeat
      pieces[#pieces + 1], self.waiting = self.waiting, ""
    until not self:fill()
    return table.concat(pieces)
  end
  while #self.waiting < what and self:fill() do
  end
  return self:take(math.min(what, #self.waiting))
end

function connection:take(n)
  if n == 0 then
    return nil
  end
  local text = string.sub(self.waiting, 1, n)
  self.waiting = string.sub(self.waiting, n + 1)
  return text
end

function connection:close()
  if self.fd >= 0 then
    ffi.C.close(self.fd)
    self.fd = -1
  end
end

-- Forbids loading from files, and bytecode.
local text_only = load
local function source(chunk, name, _, env)
  if env == nil then
    return text_only(chunk, name, "t")
  end
  return text_only(chunk, name, "t", env)
end
load, loadstring = source, source
dofile, loadfile = nil, nil
if io then -- if files are granted
  io.popen = nil
end
package.loaders, package.loadlib, package.path, package.cpath = {}, nil, "", ""
string.dump = nil
if not jit_allowed then
  jit.off()
end
do -- Never optimise stores: LuaJIT then omits the conversion of 64-bit integers that are stored in floats (its `xstore_conv`).
  -- Nor narrow: it truncates the operands of a sum that is stored in an integer, so that 272.5 - 273 is -1 there and 0 elsewhere.
  local start = jit.opt.start
  start("-dse", "-narrow")
  function jit.opt.start(...)
    start(...)
    start("-dse", "-narrow")
  end
end

local function set_seed(of_block)
  seed = of_block
  randomseed(of_block)
end

return set_seed
