-- Tries to reach the network through C, which LuaJIT can call.
local ffi = require("ffi")
ffi.cdef [[ int socket(int domain, int type, int protocol); ]]

function dynamic_dataset()
    local secret = lib.getData("Secret")
    secret[1] = ffi.C.socket(2, 1, 0)
end
