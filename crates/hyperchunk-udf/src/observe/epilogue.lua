
-- Calls the functions of an analysis: on_write, and merge if it is defined.
if type(on_write) ~= "function" then
  error("the source defines no function on_write", 0)
end
do
  local on_write, merge, lib = on_write, merge, lib
  local ffi = require("ffi")
  local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
  local word, signed, unsigned, double =
    ffi.typeof("uint32_t[1]"), ffi.typeof("int64_t[1]"), ffi.typeof("uint64_t[1]"), ffi.typeof("double[1]")

  local function u32(n)
    return ffi.string(word(n), 4)
  end

  local function number(key, x)
    if type(x) == "number" then
      return "\2" .. ffi.string(double(x), 8)
    elseif type(x) == "boolean" then
      return "\0" .. ffi.string(signed(x and 1 or 0), 8)
    elseif type(x) == "cdata" and ffi.istype(int64, x) then
      return "\0" .. ffi.string(signed(x), 8)
    elseif type(x) == "cdata" and ffi.istype(uint64, x) then
      return "\1" .. ffi.string(unsigned(x), 8)
    end
    error("the result " .. tostring(key) .. " is a " .. type(x) .. ": results are numbers, strings and lists of numbers", 0)
  end

  local function value(key, x)
    if type(x) == "string" then
      return "\3" .. u32(#x) .. x
    elseif type(x) == "table" then
      local list = {}
      for i = 1, #x do
        list[i] = number(key, x[i])
      end
      return "\4" .. u32(#x) .. table.concat(list)
    end
    return number(key, x)
  end

  local function encode(results)
    if results == nil then
      return ""
    elseif type(results) ~= "table" then
      error("the function gives a " .. type(results) .. ": results are a table of keys with values", 0)
    end
    local parts, many = {}, 0
    for key, x in pairs(results) do
      if type(key) ~= "string" then
        error("a key of the results is a " .. type(key) .. ": keys are strings", 0)
      end
      many = many + 1
      parts[many] = u32(#key) .. key .. value(key, x)
    end
    return u32(many) .. table.concat(parts)
  end

  local function decode(bytes)
    local at, raw = 0, ffi.cast("const uint8_t *", bytes)
    local function take(what)
      local x = ffi.cast(ffi.typeof("const $ *", what), raw + at)[0]
      at = at + ffi.sizeof(what)
      return x
    end
    local u32_t, u8_t, double_t = ffi.typeof("uint32_t"), ffi.typeof("uint8_t"), ffi.typeof("double")
    local function text()
      local n = take(u32_t)
      at = at + n
      return ffi.string(raw + at - n, n)
    end
    local function one(kind)
      if kind == 0 then
        return take(int64)
      elseif kind == 1 then
        return take(uint64)
      end
      return take(double_t)
    end
    local results = {}
    for _ = 1, take(u32_t) do
      local key, kind = text(), take(u8_t)
      if kind == 3 then
        results[key] = text()
      elseif kind == 4 then
        local list = {}
        for i = 1, take(u32_t) do
          list[i] = one(take(u8_t))
        end
        results[key] = list
      else
        results[key] = one(kind)
      end
    end
    return results, bytes
  end

  function dynamic_dataset()
    local control = ffi.cast("const uint8_t *", lib.getData("control") + 1)
    local length = lib.getDims("control")[1]
    local results
    if control[0] == 0 then
      local box = {start = lib.getOffset("data"), count = lib.getDims("data"), size = 1}
      for _, n in ipairs(box.count) do
        box.size = box.size * n
      end
      box.type = lib.getType("data")
      results = encode(on_write(ffi.string(control + 1, length - 1), box, lib.getData("data")))
    else
      if type(merge) ~= "function" then
        error("the source defines no function merge", 0)
      end
      local first = ffi.cast("const uint32_t *", control + 1)[0]
      results = encode(merge(decode(ffi.string(control + 5, first)), decode(ffi.string(control + 5 + first, length - 5 - first))))
    end
    local room = lib.getDims("results")[1] - 4
    if #results > room then
      error("the results have " .. #results .. " bytes; the limit is " .. room, 0)
    end
    local out = ffi.cast("uint8_t *", lib.getData("results") + 1)
    ffi.copy(out + 4, results, #results)
    ffi.copy(out, u32(#results), 4)
  end
end
