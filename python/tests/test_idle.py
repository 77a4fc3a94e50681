"""Idle workers release their resources without another read."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import run_python

# Reads with both readers, waits, and prints the numbers of children, descriptors and mapped memory files before the
# first read, after it, and later. Then checks another read.
PROGRAM = """
import os, sys, threading, time
import h5py, hyperchunk

def children():
    return [c for t in os.listdir("/proc/self/task") for c in open(f"/proc/self/task/{t}/children").read().split()]

def held():
    shared = sum("memfd" in line for line in open("/proc/self/maps"))
    return len(children()), len(os.listdir("/proc/self/fd")), shared

def read():
    for name in ("lua", "py", "expression"):
        assert file[name][:3].tolist() == own[name][:3].tolist() == [0.0, 2.0, 4.0]

file, own = h5py.File(sys.argv[1]), hyperchunk.open(sys.argv[1])
file["a"][0], own["a"][0]
before = held()
read()
after = held()
time.sleep(32)
later = held()
read()
print(*before, *after, *later)
"""


@pytest.fixture
def live(tmp_path: Path, attach: Any) -> Path:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.arange(1000.0)
    lua = """
    function dynamic_dataset()
        local o, a = lib.getData("lua"), lib.getData("a")
        for n = 1, 1000 do o[n] = 2 * a[n] end
    end
    """
    attach(file, "lua", lua, "lua:1000:double")
    attach(file, "py", "def dynamic_dataset():\n    lib.getData('py')[:] = 2 * lib.getData('a')[:]\n", "py:1000:double")
    import hyperchunk

    hyperchunk.udf.attach(file, outputs="expression", expression="a * 2")
    return file


def test_workers_end_without_another_read(live: Path) -> None:
    numbers = [int(word) for word in run_python(PROGRAM, live).stdout.split()]
    before, after, later = numbers[:3], numbers[3:6], numbers[6:]
    assert all(a > b for a, b in zip(after, before, strict=True)), "nothing was held: the test tests nothing"
    # The file that the plugin itself keeps open is no resource of a worker.
    assert (later[0], later[2]) == (before[0], before[2])
    assert later[1] <= before[1] + 2


# A server that starts itself again: its process goes on as another program while a function computes.
RESTARTED = """
import os, signal, sys, hyperchunk
signal.signal(signal.SIGALRM, lambda *_: os.execv(sys.executable, [sys.executable, "-c", AFTER]))
AFTER = '''
import os, time
def children():
    return [c for t in os.listdir("/proc/self/task") for c in open(f"/proc/self/task/{t}/children").read().split()]
def alive(pid):
    try: return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError: return False
first, end = len(children()), time.monotonic() + 2
while any(map(alive, children())) and time.monotonic() < end: time.sleep(0.02)
print(first, sum(map(alive, children())))
'''
signal.setitimer(signal.ITIMER_REAL, 1.0)
hyperchunk.open(sys.argv[1])["endless"][0]
"""


def test_workers_end_with_a_program_that_is_replaced(live: Path, attach: Any) -> None:
    """The kernel ends a worker with the thread that started it, and the first thread survives `exec`."""
    endless = 'function dynamic_dataset() local o = lib.getData("endless") while true do o[1] = o[1] + 1 end end'
    attach(live, "lua", endless, "endless:10:double")
    first, left = map(int, run_python(RESTARTED, live).stdout.split())
    assert first > 0, "no worker was running: the test tests nothing"
    assert left == 0


# A fork with idle workers: the child has none, and has its own worker ended like the parent.
FORKED = """
import os, sys, h5py
file = h5py.File(sys.argv[1])
assert file["lua"][1] == 2
if (child := os.fork()) == 0:
    with h5py.File(sys.argv[1]) as again:
        assert again["py"][1] == 2 and again["lua"][2] == 4
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert file["lua"][3] == 6
import signal, time
def masks():
    return [int(line.split()[1], 16) for t in os.listdir("/proc/self/task") if t != str(os.getpid())
            for line in open(f"/proc/self/task/{t}/status") if line.startswith("SigBlk") and
            open(f"/proc/self/task/{t}/comm").read() == "hyperchunk-idle\\n"]
# A new thread takes its name when it first runs.
end = time.time() + 10
while not (blocked := masks()) and time.time() < end:
    time.sleep(0.01)
print(len(blocked), all(mask & 1 << signal.SIGINT - 1 for mask in blocked))
"""


def test_after_a_fork(live: Path) -> None:
    assert run_python(FORKED, live).stdout.split() == ["1", "True"]
