-- What a loop asks that could be computed as vectors: `ask(number, first, last, arrays…, scalars…)` gives the first and last round that
-- are left to it, and its arrays.
local by_name, array, look, loops, kinds, least, compute = ...
local ffi = require("ffi")
local cast, istype, typeof, uintptr = ffi.cast, ffi.istype, ffi.typeof, ffi.typeof("uintptr_t")
local type, tonumber, select, unpack = type, tonumber, select, unpack

-- From the number of a C type to that of a kind of elements. `ffi.istype` takes int8_t * for uint8_t *.
local kind_of = {}
for c_type, kind in pairs(kinds) do
  kind_of[tonumber(typeof(c_type .. " *"))] = kind
end

local function computed(number, first, last, ...)
  local arrays = loops[number].arrays
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

-- An array that Lua itself is going to read: where its elements lie, or in the copy of them that was made for it.
local function readable(slot, x)
  local at = array[slot.index]
  if at.looked_at == 0 then
    look(slot)
  end
  if at.data == at.raw or type(x) ~= "cdata" or not istype(slot.pointer, x) then
    return x
  end
  local from = x - cast(slot.pointer, at.raw)
  return from >= -1 and from * slot.size < at.bytes and cast(slot.pointer, at.data) + from or x
end

local function readables(names, n, x, ...)
  if n > #names then
    return
  end
  local slot = names[n] and by_name[names[n]]
  if slot then
    x = readable(slot, x)
  end
  return x, readables(names, n + 1, ...)
end

return function(number, first, last, ...)
  if type(first) == "number" and type(last) == "number" and last - first >= least - 1 then
    if computed(number, first, last, ...) then
      return 1, 0, ...
    end
  end
  local names = loops[number].as_they_lie
  if names then
    return first, last, readables(names, 1, ...)
  end
  return first, last, ...
end
