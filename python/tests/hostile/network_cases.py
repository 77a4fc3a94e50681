"""Attempts of functions with granted connections, and the expected errors; `None` for a success with result 0."""

from __future__ import annotations

# The listener at FORBIDDEN must never get a connection; the one at GRANTED may.
FORBIDDEN, GRANTED, FULL = 4242, 4243, 4244
NAMES = ("loop", "private", "metadata", "nowhere", "both", "mapped", "loop6", "many", "rebind", "silent")
GRANTS = [f"{name}.test:{FORBIDDEN}" for name in NAMES] + [f"127.0.0.1:{GRANTED}", f"127.0.0.1:{FULL}"]

NOT_PUBLIC = "not in the public network"
NOT_GRANTED = "does not grant|is not an endpoint"
LATE = "limit of 2 s"


def call(name: str) -> str:
    """Returns the expected cause: this system call."""
    return rf"stopped: tried system call {name}\b"


START = """
import ctypes, os, struct

LIBC = ctypes.CDLL(None, use_errno=True)
CONNECT = struct.pack("<I", 0x85)

def dynamic_dataset():
    out = lib.getData("out")
"""
PYTHON: dict[str, tuple[str, str | None]] = {
    **{f"name-{name}": (f'lib.connect("{name}.test:4242")', NOT_PUBLIC) for name in NAMES[:4]},
    "name-mapped": ('lib.connect("mapped.test:4242")', NOT_PUBLIC),
    "name-loop6": ('lib.connect("loop6.test:4242")', NOT_PUBLIC),
    "name-many": ('lib.connect("many.test:4242")', NOT_PUBLIC),
    # Only the address in the public network is tried, and the jail has no route to it.
    "name-both": ('lib.connect("both.test:4242")', "cannot connect: .*unreachable"),
    "name-silent": ('lib.connect("silent.test:4242")', f"{LATE}|within the function's time"),
    "rebind": (
        """
for n in range(15):
    try:
        lib.connect("rebind.test:4242")
    except ConnectionError as error:
        assert "unreachable" in str(error) or "public network" in str(error), error
    else:
        out[0] = 77
""",
        None,
    ),
    "tricks": (
        """
for target in (
    "127.0.0.1:4242", "127.1:4243", "2130706433:4243", "0x7f000001:4243", "0177.0.0.1:4243", "[::1]:4243",
    "[::ffff:127.0.0.1]:4243", "localhost:4243", "loop.test:4243", "loop.test.:4242", "127.0.0.1:4243:4242",
    "127.0.0.1:4243 ", "127.0.0.1:4243@x:4242", "x.loop.test:4242",
):
    try:
        lib.connect(target)
    except ConnectionError as error:
        assert "does not grant" in str(error) or "not an endpoint" in str(error), error
    else:
        out[0] = 77
""",
        None,
    ),
    "nul": ('lib.connect("127.0.0.1:4243\\0.example.org:80")', NOT_GRANTED),
    "long": ('lib.connect("a" * 100_000 + ":80")', "the endpoint is too long"),
    "too-many": ("for n in range(17): lib.connect('127.0.0.1:4243')", "more than 16 connections"),
    "too-many-refused": (
        """
for n in range(17):
    try:
        lib.connect("127.0.0.1:4242")
    except ConnectionError:
        pass
""",
        "more than 16 connections",
    ),
    "flood": ("for n in range(1000): LIBC.send(3, CONNECT + b'127.0.0.1:4242', 18, 0)", "more than 16 connections"),
    # The host may see it before or after the result; and the worker may take the answer for the next call.
    "not-read": ("LIBC.send(3, CONNECT + b'127.0.0.1:4243', 18, 0)", "^value$|out of turn|an invalid message"),
    "junk-text": ("LIBC.send(3, CONNECT + b'\\xff\\xfe', 6, 0); LIBC.recv(3, bytes(64), 64, 0)", "invalid message"),
    "junk-long": ("LIBC.send(3, CONNECT + b'a' * 300, 304, 0); LIBC.recv(3, bytes(64), 64, 0)", "invalid message"),
    "junk-after": ("LIBC.send(3, b'junk', 4, 0); lib.connect('127.0.0.1:4243')", "invalid message"),
    "full": ("lib.connect('127.0.0.1:4244')", f"{LATE}|within the function's time|timed out"),
    "never-answers": ("lib.connect('127.0.0.1:4243').recv(1)", LATE),
    "socket": ("import socket; socket.socket()", call("socket")),
    "raw-socket": ("LIBC.socket(2, 3, 1)", call("socket")),
    "udp": ("LIBC.socket(2, 2, 0)", call("socket")),
    "unix": ("LIBC.socket(1, 1, 0)", call("socket")),
    "netlink": ("LIBC.socket(16, 3, 0)", call("socket")),
    "socketpair": ("LIBC.socketpair(1, 1, 0, (ctypes.c_int * 2)())", call("socketpair")),
    "connect-again": (
        "fd = lib.connect('127.0.0.1:4243').detach(); LIBC.connect(fd, struct.pack('<H14x', 0), 16)",
        call("connect"),
    ),
    "bind": ("LIBC.bind(lib.connect('127.0.0.1:4243').detach(), bytes(16), 16)", call("bind")),
    "listen": ("LIBC.listen(lib.connect('127.0.0.1:4243').detach(), 1)", call("listen")),
    "accept": ("LIBC.accept(lib.connect('127.0.0.1:4243').detach(), None, None)", call("accept")),
    "send-to": (
        "fd = lib.connect('127.0.0.1:4243').detach(); LIBC.sendto(fd, b'x', 1, 0, bytes(16), 16)",
        call("sendto"),
    ),
    "send-message": ("lib.connect('127.0.0.1:4243').sendmsg([b'x'])", call("sendmsg")),
    "options": ("lib.connect('127.0.0.1:4243').setsockopt(1, 25, b'lo')", call("setsockopt")),
    "peer": ("import socket; LIBC.getsockopt(3, 1, 17, bytes(12), (ctypes.c_int * 1)(12))", call("getsockopt")),
    "duplicate": ("LIBC.dup(lib.connect('127.0.0.1:4243').detach())", call("dup")),
    "read-file": ("open('/tmp/jail/home/secret.txt')", "PermissionError"),
    "resolve": ("import socket; socket.getaddrinfo('loop.test', 80)", "gaierror|stopped: tried"),
    "good": ("c = lib.connect('127.0.0.1:4243'); c.sendall(b'hello'); c.close()", None),
}
LUA = {
    "lua-name": ('lib.connect("loop.test:4242")', NOT_PUBLIC),
    "lua-port": ('lib.connect("127.0.0.1:4242")', NOT_GRANTED),
    "lua-nul": ('lib.connect("127.0.0.1:4243\\0")', NOT_GRANTED),
    "lua-too-many": ('for n = 1, 17 do lib.connect("127.0.0.1:4243") end', "more than 16 connections"),
    "lua-socket": (
        'local ffi = require("ffi") ffi.cdef("int socket(int, int, int);") ffi.C.socket(2, 1, 0)',
        call("socket"),
    ),
    "lua-good": ('local c = lib.connect("127.0.0.1:4243") c:send("hello") c:close()', None),
}
CPP = {
    "cpp-name": ('lib.connect("loop.test:4242");', NOT_PUBLIC),
    "cpp-port": ('lib.connect("127.0.0.1:4242");', NOT_GRANTED),
    "cpp-too-many": ('for (int n = 0; n < 17; n++) lib.connect("127.0.0.1:4243");', "more than 16 connections"),
    "cpp-connect-again": (
        'sockaddr to{AF_INET, {}}; connect(lib.connect("127.0.0.1:4243"), &to, sizeof to);',
        call("connect"),
    ),
    "cpp-good": ('int fd = lib.connect("127.0.0.1:4243"); send(fd, "hello", 5, 0); close(fd);', None),
}
# The request of `lib.connect`, sent although `lib.connect` refuses.
FORGED = "LIBC.send(3, CONNECT + b'127.0.0.1:4243', 18, 0); LIBC.recv(3, bytes(64), 64, 0)"
# The same function, signed with keys outside the profile with the grants.
OTHERS = {
    "unsigned": "grants no connections",
    "default": "grants no connections",
    "stranger": "grants no connections",
    "forged": "out of turn",
}


def sources() -> dict[str, tuple[str, str, str | None]]:
    """Returns language, source and cause for each case."""
    found: dict[str, tuple[str, str, str | None]] = {}
    for name, (body, cause) in PYTHON.items():
        found[name] = ("py", START + "".join(f"    {line}\n" for line in body.strip().splitlines()), cause)
    for name, (body, cause) in LUA.items():
        found[name] = ("lua", f"function dynamic_dataset()\n{body}\nend\n", cause)
    for name, (body, cause) in CPP.items():
        start = "#include <netinet/in.h>\n#include <sys/socket.h>\n#include <unistd.h>\n"
        found[name] = ("cpp", f'{start}extern "C" void dynamic_dataset() {{ {body} }}\n', cause)
    return found
