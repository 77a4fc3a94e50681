-- Every attack of a Lua function. CASE is put in; before the colon is when it strikes: in `dynamic_dataset` (`call`) or
-- in the chunk (`load`), which HDF5-UDF ran in the reading process.
local ffi = require("ffi")
ffi.cdef [[
int open(const char *, int, ...); int socket(int, int, int); int system(const char *); int fork(void);
int kill(int, int); int getpid(void); int unlink(const char *); int chmod(const char *, int);
long syscall(long, ...); int execve(const char *, char *const *, char *const *); unsigned sleep(unsigned);
void *malloc(size_t); void *memset(void *, int, size_t); ssize_t write(int, const void *, size_t);
char *getenv(const char *); long lseek(int, long, int); void exit(int); void _exit(int); int close(int);
int *__errno_location(void); int access(const char *, int); ssize_t send(int, const void *, size_t, int);
ssize_t read(int, void *, size_t); int rename(const char *, const char *); int symlink(const char *, const char *);
int mkfifo(const char *, unsigned);
]]
local C = ffi.C
local CASE = "@CASE@"
local phase, name = CASE:match("^(%w+):(.*)$")
local MARK = "/tmp/jail/marks/lua-" .. CASE
local target = {0, 0}
local attacks = {}

local function holds_canary(fd)
  local text = ffi.new("char[256]")
  return fd >= 0 and C.read(fd, text, 255) > 0 and ffi.string(text):find("canary%-in%-file") ~= nil
end

function attacks.none() return false end
function attacks.read_file() return holds_canary(C.open("/tmp/jail/home/secret.txt", 0)) end
function attacks.dotdot() return holds_canary(C.open("/usr/lib/../../tmp/jail/home/secret.txt", 0)) end
function attacks.symlink() return holds_canary(C.open("/tmp/jail/link", 0)) end
function attacks.open_for_writing() return C.open("/tmp/jail/home/victim.txt", 2) >= 0 end
function attacks.create() return C.open(MARK, 65, ffi.cast("int", 384)) >= 0 end
function attacks.unlink() return C.unlink("/tmp/jail/home/spare.txt") == 0 end
function attacks.chmod() return C.chmod("/tmp/jail/home/victim.txt", 420) == 0 end
function attacks.rename() return C.rename("/tmp/jail/home/spare-lua.txt", "/tmp/jail/home/moved-lua.txt") == 0 end
function attacks.make_symlink() return C.symlink("/tmp/jail/home/secret.txt", MARK) == 0 end
function attacks.mkfifo() return C.mkfifo(MARK, 384) == 0 end
function attacks.access() return C.access("/tmp/jail/home/secret.txt", 4) == 0 end
function attacks.io_library() return io.open("/tmp/jail/home/secret.txt") ~= nil end
function attacks.os_library() return os.execute("true") == 0 end
function attacks.load_library() return ffi.load("/tmp/jail/reader/planted.so") ~= nil end
function attacks.require() return require("evilmod") ~= nil end
function attacks.tcp() return C.socket(2, 1, 0) >= 0 end
function attacks.unix() return C.socket(1, 1, 0) >= 0 end
function attacks.system() return C.system("touch '" .. MARK .. "'") == 0 end
function attacks.fork()
  local pid = C.fork()
  if pid == 0 then C._exit(0) end
  return pid > 0
end
function attacks.execve()
  local argv = ffi.new("const char *[3]", "touch", MARK, nil)
  return C.execve("/usr/bin/touch", ffi.cast("char *const *", argv), nil) == 0
end
function attacks.kill_host() return C.kill(target[1], 0) == 0 end
function attacks.write_host_address()
  local at = ffi.cast("volatile char *", ffi.cast("uintptr_t", target[2]))
  at[0] = 88
  return at[0] == 88
end
function attacks.wild_pointer() ffi.cast("int *", ffi.cast("uintptr_t", 16))[0] = 1 end
function attacks.environment() return C.getenv("HOSTILE_CANARY") ~= nil end
function attacks.descriptors()
  for fd = 4, 1023 do
    if C.lseek(fd, 0, 1) >= 0 or C.__errno_location()[0] ~= 9 then return true end
  end
  return false
end
function attacks.loadstring_bytecode() return loadstring("\27LJ\2\10\0\1\2\0\0\0\2K\0\1\0\0") ~= nil end
function attacks.dump_bytecode() return string.dump(attacks.none) ~= nil end
function attacks.dofile() return dofile("/tmp/jail/evilmod.lua") end
function attacks.spin() while true do end end
function attacks.sleep() while true do C.sleep(1000) end end
function attacks.string_loop() return ("a"):rep(60):find(("a?"):rep(60) .. ("a"):rep(60)) == 0 end
function attacks.malloc_bomb()
  local total = 0
  while total < 768 do
    local block = C.malloc(16 * 2 ^ 20)
    if block == nil then return false end
    C.memset(block, 1, 16 * 2 ^ 20)
    total = total + 16
  end
  return true
end
function attacks.table_bomb()
  local all = {}
  for i = 1, 2 ^ 40 do all[i] = {i} end
end
function attacks.string_bomb()
  local text = ("x"):rep(2 ^ 20)
  while true do text = text .. text end
end
function attacks.recursion()
  local function again(n) return 1 + again(n + 1) end
  return again(1) == 0
end
function attacks.coroutines()
  local function again(n) return coroutine.wrap(function() return again(n + 1) end)() end
  return again(1)
end
function attacks.flood()
  local line = ("F"):rep(65535)
  for _ = 1, 16384 do print(line) end
end
function attacks.exit() C.exit(0) end
function attacks._exit() C._exit(0) end
function attacks.gc_loop()
  local guard = newproxy(true)
  getmetatable(guard).__gc = function() while true do end end
  guard = nil
  collectgarbage()
  collectgarbage()
end
function attacks.gc_loop_at_exit()
  local guard = newproxy(true)
  getmetatable(guard).__gc = function() while true do end end
  KEEP = guard
  error("and now the state is closed")
end
function attacks.error_loop() error(setmetatable({}, {__tostring = function() while true do end end})) end
function attacks.error_object() error({}) end
function attacks.error_nil() error(nil) end
function attacks.escapes() error("\27]52;c;aGk=\7 \27[31m \r\n \226\128\174 end\255\254") end
function attacks.long_error() error(("e"):rep(100000)) end
function attacks.jit_on()
  jit.on()
  local x = 0
  for i = 1, 1e6 do x = x + i end
  return false
end
function attacks.junk() return C.send(3, "junk", 4, 0) == 4 and false end
function attacks.close_socket()
  C.close(3)
  while true do C.sleep(1000) end
end

local early = false
local process_of_load = C.getpid()
if phase == "load" then early = attacks[name]() end

function dynamic_dataset()
  local out, to = lib.getData("out"), lib.getData("target")
  target = {tonumber(to[1]), tonumber(to[2])}
  out[2], out[3], out[4] = C.getpid(), process_of_load, 1
  if phase == "call" then early = attacks[name]() end
  out[1] = early and 77 or 0
end
