"""Runs a Python function under the filters: argv is mode, number of the seccomp call, filters in hex."""

import array
import ctypes
import gc
import json
import math
import mmap
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
import traceback

mode, number, filters = sys.argv[1:]
near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.dup2(near.fileno(), 3)
control = socket.socket(fileno=3)
shared = os.memfd_create("shared")
os.ftruncate(shared, 1 << 16)
libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("code", ctypes.c_char_p)]


assert libc.prctl(38, 1, 0, 0, 0) == 0
for text in filters.split(","):
    code = bytes.fromhex(text)
    program = Program(len(code) // 8, code)
    assert libc.syscall(int(number), 1, 0, ctypes.byref(program)) == 0, ctypes.get_errno()


def refused(error, action, *arguments):
    try:
        action(*arguments)
    except error:
        return
    raise AssertionError(f"{action} was not refused")


def import_more():
    import colorsys  # noqa: F401


if mode == "socket":
    socket.socket()
elif mode == "system":
    os.system("true")
elif mode == "thread":
    threading.Thread(target=print).start()
elif mode == "memfd":
    os.memfd_create("more")
assert mode == "compute"

for path in "/etc/passwd", "/proc/self/maps", "/nonexistent":
    refused(PermissionError, open, path)
    refused(PermissionError, os.stat, path)
    assert not os.path.exists(path)  # noqa: PTH110
refused(PermissionError, open, "/tmp/x", "w")
refused(PermissionError, os.listdir, "/")
refused(PermissionError, os.getcwd)
refused(PermissionError, os.unlink, "/nonexistent")
refused(ImportError, import_more)
refused(PermissionError, signal.signal, signal.SIGSYS, signal.SIG_IGN)

values = array.array("d", (math.sin(i) for i in range(100_000)))
assert json.loads(json.dumps({"sum": sum(values)}))["sum"] == sum(values)
assert re.sub(r"(\d)", r"<\1>", "a1") == "a<1>"
assert struct.unpack("<i", struct.pack("<i", 7)) == (7,)
big = bytearray(50 << 20)
big.extend(bytes(10 << 20))
del big
gc.collect()
random.seed()
time.sleep(0.001)
time.time(), time.perf_counter(), time.process_time(), time.localtime()
with mmap.mmap(shared, 1 << 16) as view:
    view[:4] = b"done"
control.send(b"done")
assert os.read(far.fileno(), 8) == b"done"
try:
    raise ValueError("as functions do")
except ValueError:
    assert "as functions do" in traceback.format_exc()
assert "fd=3" in repr(control)
print("a function may print")
print("and warn", file=sys.stderr)
