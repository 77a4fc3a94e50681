-- Functions called by rewritten loops: is_long, for the minimum length; `ask(number, first, last, arrays…, scalars…)`, which computes it
-- or returns false; is_odd, for NaNs that Lua cannot represent; readable, which returns an array that Lua may read.
local by_name, array, look, loops, lying, kinds, least, compute = ...
local ffi = require("ffi")
local cast, istype, typeof, uintptr = ffi.cast, ffi.istype, ffi.typeof, ffi.typeof("uintptr_t")
local type, tonumber, select, unpack = type, tonumber, select, unpack

-- Kinds of elements by the number of their C type. `ffi.istype` would accept int8_t * as uint8_t *.
local kind_of = {}
for c_type, kind in pairs(kinds) do
  kind_of[tonumber(typeof(c_type .. " *"))] = kind
end

local function ask(number, first, last, ...)
  local arrays = loops[number]
  local given = {number, first, last}
  for n = 1, select("#", ...) do
    local x = select(n, ...)
    if n <= arrays then
      local kind = type(x) == "cdata" and kind_of[tonumber(typeof(x))]
      if not kind then
        return false
      end
      given[#given + 1] = kind
      given[#given + 1] = tonumber(cast(uintptr, x))
    elseif type(x) == "number" then
      given[#given + 1] = x
    else
      return false
    end
  end
  return compute(unpack(given))
end

-- Short loops are frequent, so this avoids `...`, which LuaJIT does not compile well.
local function is_long(first, last)
  return type(first) == "number" and type(last) == "number" and last - first >= least - 1
end

local slots = {}
for n, name in ipairs(lying) do
  slots[n] = by_name[name] or false
end

-- Returns whether Lua must not read some elements in place. Called in each short loop, so the result is cached for the call.
local function is_odd()
  if array[0].nan_state == 0 then
    local nan_state = 1
    for n = 1, #slots do
      local slot = slots[n]
      if slot then
        local at = array[slot.index]
        if at.looked_at == 0 then
          look(slot)
        end
        if at.data ~= at.raw then
          nan_state = 2
        end
      end
    end
    array[0].nan_state = nan_state
  end
  return array[0].nan_state == 2
end

-- Returns an array of elements in place, or the same position in the copy that was made for Lua.
local function readable(n, x)
  local slot = slots[n]
  if not slot then
    return x
  end
  local at = array[slot.index]
  if at.data == at.raw or type(x) ~= "cdata" or not istype(slot.pointer, x) then
    return x
  end
  local from = x - cast(slot.pointer, at.raw)
  return from >= -1 and from * slot.size < at.bytes and cast(slot.pointer, at.data) + from or x
end

return ask, is_long, is_odd, readable
