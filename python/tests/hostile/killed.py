"""Readers killed at random moments while strangers' functions run: none of their processes may exist 2 seconds later.

A program for the jail. Its argument is the number of readers. Forked readers read hostile files, in threads of all
kinds, and get SIGKILL at any moment; this process, which runs no function itself, examines all processes of the jail.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail
from hostile.records import Slot, make, store

AT_ONCE = 20
LONGEST = 1.2
GONE_AFTER = 2.0
PR_SET_CHILD_SUBREAPER = 36

# Reports its end, blocks all signals through a forged signal frame, and sleeps.
FORGED_RETURN = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def dynamic_dataset():
    out = lib.getData("out")
    for i in range(4): out[i] = i + 1
    global hog
    hog = bytearray(20 << 20)
    if SAYS_DONE:
        libc.send(3, (ctypes.c_uint32 * 2)(0x83, 1), 8, 0)
    poll = ctypes.cast(libc.poll, ctypes.c_void_p).value
    stack = ctypes.create_string_buffer(1 << 16)
    top = (ctypes.addressof(stack) + (1 << 15)) & ~15
    ctypes.c_uint64.from_address(top - 8).value = poll
    words = [0] * 80
    # The registers begin at word 5 of the frame, whose first word is the return address of syscall().
    registers = {5 + 12: 2**64 - 1, 5 + 15: top - 8, 5 + 16: poll, 5 + 17: 0x202, 5 + 18: 0x002B000000000033}
    frame = {3: 2, 37: 2**64 - 1} | registers
    for index, value in frame.items():
        words[index - 1] = value
    call = libc.syscall
    call.restype = ctypes.c_long
    call(ctypes.c_long(15), *[ctypes.c_long(0)] * 5, *[ctypes.c_ulong(word) for word in words])
"""
SAID_DONE = r"""
import ctypes, time
libc = ctypes.CDLL(None)
def dynamic_dataset():
    out = lib.getData("out")
    for i in range(4): out[i] = i + 1
    libc.send(3, (ctypes.c_uint32 * 2)(0x83, 1), 8, 0)
    while True: REST
"""
LOOP = """
local ffi = require("ffi")
ffi.cdef[[ long sendto(int, const void *, size_t, int, void *, unsigned); ]]
function dynamic_dataset()
    local out = lib.getData("out")
    for i = 1, 4 do out[i] = i end
    if SAYS_DONE then ffi.C.sendto(3, ffi.new("uint32_t[2]", 0x83, 1), 8, 0, nil, 0) end
    while true do end
end
"""
HONEST = {
    "py": 'def dynamic_dataset():\n    out = lib.getData("out")\n    for i in range(4): out[i] = i + 1\n',
    "lua": 'function dynamic_dataset() local out = lib.getData("out") for i = 1, 4 do out[i] = i end end',
}
FUNCTIONS = {
    "forged": ("py", FORGED_RETURN.replace("SAYS_DONE", "False")),
    "forged_done": ("py", FORGED_RETURN.replace("SAYS_DONE", "True")),
    "done_asleep": ("py", SAID_DONE.replace("REST", "time.sleep(1000)")),
    "done_busy": ("py", SAID_DONE.replace("REST", "pass")),
    "loop": ("lua", LOOP.replace("SAYS_DONE", "false")),
    "loop_done": ("lua", LOOP.replace("SAYS_DONE", "true")),
    "honest_py": ("py", HONEST["py"]),
    "honest_lua": ("lua", HONEST["lua"]),
}


def files() -> dict[str, Path]:
    """Makes a file of each function."""
    import h5py

    made = {}
    for name, (language, source) in FUNCTIONS.items():
        made[name] = Path(f"{name}.h5").resolve()
        with h5py.File(made[name], "w") as file:
            store(file, make(source, language, Slot("out")))
    return made


def read(path: Path) -> None:
    """Does one read with either reader; the result does not matter."""
    import h5py
    import hyperchunk

    opened = random.choice((hyperchunk.open, h5py.File))
    try:
        with opened(path) as file:
            file["out"][...]
    except (OSError, hyperchunk.HyperchunkError):
        pass


def reader(paths: list[Path]) -> None:
    """Reads in threads that end, threads that stay and the main thread, until it is killed."""
    for path in paths:
        if random.random() < 0.5:
            thread = threading.Thread(target=read, args=(path,), daemon=True)
            thread.start()
            thread.join(timeout=random.uniform(0, 1))
        else:
            read(path)
    time.sleep(60)


def start(paths: dict[str, Path]) -> int:
    """Forks a reader."""
    pid = os.fork()
    if pid == 0:
        random.seed()
        try:
            reader(random.choices(list(paths.values()), k=3))
        finally:
            os._exit(0)
    return pid


def others(known: set[int]) -> dict[int, str]:
    """Lists the processes of the jail except the known ones."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) not in known:
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode() + state
            except OSError:
                continue
    return found


def reap() -> None:
    """Reaps ended processes: the readers, and those they left to this process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_readers(count: int) -> dict[str, object]:
    """Starts and kills `count` readers; returns the remaining processes."""
    paths = files()
    # The first process of a jail does not reap, and zombies count.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    known = set(others(set()))
    left: list[str] = []
    seen = 0
    for first in range(0, count, AT_ONCE):
        readers = [start(paths) for _ in range(min(AT_ONCE, count - first))]
        due = sorted((time.monotonic() + random.uniform(0, LONGEST), pid) for pid in readers)
        for when, pid in due:
            time.sleep(max(0, when - time.monotonic()))
            seen = max(seen, len(others(known)) - len(readers))
            os.kill(pid, signal.SIGKILL)
        time.sleep(GONE_AFTER)
        reap()
        left += others(known).values()
    return {"killed": count, "left": left, "workers_seen": seen}


def workers() -> int:
    """Returns the number of processes of the jail that run functions."""
    texts, parents = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                text = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if state != "Z":
                texts[int(folder.name)], parents[int(folder.name)] = text, int(parent)
    forked = sum(b"zygote" in texts.get(parent, b"") for parent in parents.values())
    return forked + sum(b"\0serve\0" in text for text in texts.values())


def idle_workers() -> dict[str, int]:
    """Returns the number of workers 2 seconds after each of these functions reported its end, with an idle reader."""
    import hyperchunk
    from hyperchunk.exceptions import RefusedError

    outcome = {}
    paths = files()
    for name in ("done_asleep", "done_busy", "loop_done", "forged_done", "honest_py", "honest_lua"):
        before = workers()
        with hyperchunk.open(paths[name]) as file:
            try:
                assert file["out"][...].tolist() == [1, 2, 3, 4]
            except RefusedError as error:
                # Its actions after the report may end it before the reader has looked.
                if name != "forged_done" or "rt_sigreturn" not in str(error):
                    raise
        time.sleep(GONE_AFTER)
        outcome[name] = workers() - before
    return outcome


def main(count: str) -> None:
    """Runs both, and prints one line of JSON."""
    jail.require_confined()
    import hyperchunk

    hyperchunk.plugins.enable()
    import h5py  # noqa: F401

    print(json.dumps({"killed": kill_readers(int(count)), "idle": idle_workers()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
