"""Readers of live datasets that fork, run threads, reap children, or live long."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fresh import run_python
from programs import LANGUAGES, elementwise

A = np.arange(600, dtype="f4").reshape(20, 30)

#: Common first lines of the readers below.
COMMON = """
import os, sys, signal, threading, time, h5py, numpy
path = sys.argv[1]
names = ["py", "lua", "cpp"]
expected = numpy.arange(600, dtype="f4").reshape(20, 30) + 1

def check(file=None):
    file = file or h5py.File(path)
    for name in names:
        numpy.testing.assert_array_equal(file[name][...], expected, err_msg=name)

def children():
    found = {}
    for n in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = open(f"/proc/{n}/stat").read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found[int(n)] = state
    return found

def descriptors():
    return len(os.listdir("/proc/self/fd"))
"""

CASES = {
    "a child of os.fork reads after its parent has": """
check()
child = os.fork()
if child == 0:
    try:
        check()
        check()
    except BaseException:
        import traceback; traceback.print_exc(); os._exit(9)
    os._exit(0)
check()
assert os.waitpid(child, 0)[1] == 0
check()
""",
    "a child reads in a file that the parent opened": """
file = h5py.File(path)
check(file)
child = os.fork()
if child == 0:
    try:
        check(file)
    except BaseException:
        import traceback; traceback.print_exc(); os._exit(9)
    os._exit(0)
for _ in range(5):
    check(file)
assert os.waitpid(child, 0)[1] == 0
check(file)
""",
    "a pool of forked processes": """
import multiprocessing
check()

def work(n):
    check()
    return n

with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, range(6)) == list(range(6))
check()
""",
    "threads read at once": """
failures = []

def work():
    try:
        for _ in range(5):
            check()
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work) for _ in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
""",
    "idle workers were killed": """
file = h5py.File(path, rdcc_nbytes=0)
for _ in range(2):
    check(file)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)
check(file)
""",
    "idle workers ended by themselves": """
# A worker ends when its socket closes or nobody calls; ending one politely looks the same.
file = h5py.File(path, rdcc_nbytes=0)
check(file)
for pid in children():
    os.kill(pid, signal.SIGTERM)
time.sleep(0.05)
check(file)
""",
    "no zombies and no descriptors are left": """
check(); check()
before, started = descriptors(), len(children())
for _ in range(50):
    check()
assert descriptors() <= before, (before, descriptors())
assert len(children()) <= started, children()
assert "Z" not in children().values(), children()
""",
    "failed reads leave nothing": """
names.remove("cpp")
check(); check()
before, started = descriptors(), len(children())
for _ in range(20):
    try:
        h5py.File(path)["bad"][...]
    except OSError:
        pass
    else:
        raise AssertionError("read")
check()
assert descriptors() <= before + 1, (before, descriptors())
assert "Z" not in children().values(), children()
assert len(children()) <= started + 1, children()
""",
    "SIGCHLD is ignored": """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(3):
    check()
for pid in children():
    os.kill(pid, signal.SIGKILL)
time.sleep(0.05)
check()
""",
    "a handler reaps every child": """
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
for _ in range(3):
    check()
for pid in children():
    os.kill(pid, signal.SIGKILL)
time.sleep(0.05)
check()
""",
    "standard streams are closed": """
import io
check()
for n in (0, 1):
    os.close(n)
names[:] = ["cpp", "lua", "py"]
h5py.File(path)["py"]
check()
""",
    "few descriptors are left": """
import resource
check()
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 2, 4096))
try:
    h5py.File(path)["bad"][...]
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
check()
""",
    "the working folder is gone": """
import tempfile
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
check()
""",
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, config_with_key: Path) -> Path:
    """A file with one live dataset in each language, and one that fails."""
    import h5py
    import hyperchunk

    folder = tmp_path_factory.mktemp("live")
    file = folder / "live.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = A
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(config_with_key))
        for language in LANGUAGES:
            program = folder / f"plus.{language}"
            program.write_text(elementwise(language, "a[i] + 1", language, ["a"]))
            hyperchunk.udf.attach(file, program, chunks="8x30")
        program.write_text('extern "C" void dynamic_dataset() { lib.getData<float>("bad"); throw 1; }')
        hyperchunk.udf.attach(file, program, "bad:3:float")
    return file


@pytest.mark.parametrize("case", CASES)
def test_a_reader_in_which(case: str, live: Path, config: Any) -> None:
    run_python(COMMON + CASES[case], live)


def test_nothing_outlives_the_reader(live: Path) -> None:
    """Workers and the warm Python end with the process that started them."""
    code = COMMON + "check(); print(*children())"
    pids = run_python(code, live).stdout.split()
    assert len(pids) >= 3
    for _ in range(100):
        left = [pid for pid in pids if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)]
        if not left:
            return
        __import__("time").sleep(0.02)
    raise AssertionError(f"still there: {left}")


def _is_zombie(pid: str) -> bool:
    """True for a zombie: a container without a reaping init keeps them listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
