"""Scenarios of functions and files that attack their reader: its memory, its time, its descriptors, other data."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hostile import cases, lanes, places, records
from hostile.records import Slot, make, sign, store
from hostile.scene import is_alive, read, refused, scenario, simple, workers_of, write

FFI = """
local ffi = require("ffi")
ffi.cdef[[
  long sendto(int, const void *, size_t, int, void *, unsigned);
  int usleep(unsigned);
  unsigned sleep(unsigned);
  int madvise(void *, size_t, int);
]]
"""
READ = """
import sys, hyperchunk
hyperchunk.plugins.enable()
import h5py
import numpy as np
with h5py.File(sys.argv[1]) as f:
    opened = [f[name] for name in sys.argv[2].split(",")]
    dataset = opened[0]
    parts = int(sys.argv[3])
    step = dataset.shape[0] // parts
    for n in range(parts):
        values = np.full(step, 7777.0)
        try:
            dataset.read_direct(values, np.s_[n * step : (n + 1) * step])
            print("read", bool((values == 7777).any()), values.sum())
        except OSError as error:
            print("refused" if "form a cycle" in str(error) else str(error))
"""


def read_apart(path: Path, names: str, parts: int) -> list[str]:
    """Returns the output of a process that reads the first of these datasets in parts, with the others open: it might
    crash.
    """
    words = [sys.executable, "-I", "-c", READ, str(path), names, str(parts)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout.splitlines()


def of_virtual(
    path: Path, sources: list[tuple[str, str, int] | None], chunk: int, language: str = "expression"
) -> None:
    """Makes a live dataset `out` = V + 1 in blocks, with V virtual: for each block its file, dataset and source
    block, or None.
    """
    size = chunk * len(sources)
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        file["D"] = np.arange(1.0, size + 1)
        layout = h5py.VirtualLayout((size,), "f8")
        for n, source in enumerate(sources):
            if source is not None:
                where, name, at = source
                part = h5py.VirtualSource(where, name, shape=(size,))[at * chunk : (at + 1) * chunk]
                layout[n * chunk : (n + 1) * chunk] = part
        file.create_virtual_dataset("V", layout, fillvalue=2.5)
        texts = {
            "expression": "V + 1",
            "lua": """function dynamic_dataset()
                local v, out = lib.getData("V"), lib.getData("out")
                for i = 1, lib.getDims("out")[1] do out[i] = v[i] + 1 end
            end""",
        }
        records.BACKENDS["expression"] = "Expression"
        header = make(texts[language], language, Slot("out", "double", (size,)), [Slot("V", "double", (size,))])
        store(file, header | {"blockwise": True, "chunk": [chunk]})


@scenario
def circle_through_a_virtual_dataset(folder: Path) -> None:
    """A cycle of a live and a virtual dataset: libhdf5 reads cached chunks without a check, and wrote past buffers."""
    for language in ("lua", "expression"):
        for chunk in (64, 1000, 8192):
            path = folder / f"{language}{chunk}.h5"
            of_virtual(path, [None] * 7 + [(".", "out", 0)], chunk, language)
            assert read_apart(path, "out,V", 2) == ["refused"] * 2
            # Read through the virtual one.
            (first, *_) = read_apart(path, "V,out", 1)
            assert first == "refused"


@scenario
def circle_around_a_virtual_dataset(folder: Path) -> None:
    """The same cycle, read from its other end: the outer read was truncated and succeeded."""
    path = folder / "around.h5"
    of_virtual(path, [(".", "D", 0), (".", "out", 0), (".", "D", 2), (".", "D", 3)], 16)
    assert read_apart(path, "V,out", 1) == ["refused"]


@scenario
def circle_through_another_file(folder: Path) -> None:
    """The same cycle through another file, found in each of libhdf5's ways, and through a link."""
    (folder / "below").mkdir()
    for name in ("other.h5", "below/other.h5", str(folder / "other.h5"), "/nowhere/other.h5", "./below/../other.h5"):
        path = folder / "this.h5"
        of_virtual(path, [None, None, None, (name, "W", 0)], 64)
        for other in (folder / "other.h5", folder / "below" / "other.h5"):
            with h5py.File(other, "w", libver=("earliest", "v110")) as file:
                layout = h5py.VirtualLayout((256,), "f8")
                layout[:64] = h5py.VirtualSource(str(path), "out", shape=(256,))[:64]
                file.create_virtual_dataset("W", layout, fillvalue=1)
        assert set(read_apart(path, "out,V", 2)) == {"refused"}, name
    of_virtual(path, [None, None, None, (".", "link", 0)], 64)
    with h5py.File(path, "r+") as file:
        file["link"] = h5py.SoftLink("out")
    assert set(read_apart(path, "out,V", 2)) == {"refused"}


@scenario
def virtual_inputs_without_a_circle(folder: Path) -> None:
    """Virtual inputs without a cycle work: in this file, in others, of an open live dataset; gaps are fill values."""
    path = folder / "good.h5"
    with h5py.File(folder / "plain.h5", "w") as file:
        file["D"] = np.full(256, 10.0)
    of_virtual(path, [(".", "D", 0), ("plain.h5", "D", 1), None, ("missing.h5", "D", 0)], 64)
    expected = [np.arange(1.0, 65).sum() + 64, 11.0 * 64, 3.5 * 64, 3.5 * 64]
    assert read_apart(path, "out", 4) == [f"read False {value}" for value in expected]
    path = folder / "live.h5"
    of_virtual(path, [(".", "D", 0), (".", "more", 1), None, None], 64)
    with h5py.File(path, "r+") as file:
        header = make("D * 2", "expression", Slot("more", "double", (256,)), [Slot("D", "double", (256,))])
        store(file, header | {"blockwise": True, "chunk": [64]})
    more = np.arange(65.0, 129).sum() * 2 + 64
    expected = [np.arange(1.0, 65).sum() + 64, more, 3.5 * 64, 3.5 * 64]
    assert read_apart(path, "out,more", 4) == [f"read False {value}" for value in expected]


@scenario
def calls_answered_and_not_taken(folder: Path) -> None:
    """A function answers calls but never takes them from the queue: the reader would wait for space for more."""
    source = """
function dynamic_dataset()
  local page = ffi.cast("uint8_t *", lib.getData("out") + 1) - 4096
  local message = ffi.new("uint32_t[2]")
  for k = 1, 2000 do
    ffi.C.usleep(4000)
    message[0], message[1] = 0x83, k
    if ffi.C.sendto(3, message, 8, 0x40, nil, 0) < 0 then break end
  end
  ffi.C.sleep(1000)
end
"""
    header = make(FFI + source, "lua", Slot("out", "double", (4000,)))
    taken = "does not receive the messages|out of turn"
    start = time.monotonic()
    refused(write(folder, header | {"blockwise": True, "chunk": [4]}), taken)
    assert time.monotonic() - start < cases.LIMIT + 8


@scenario
def an_old_answer_gives_no_more_time(folder: Path) -> None:
    """A late answer to another call, sent by a function, does not extend its time limit."""
    source = """
function dynamic_dataset()
  for i = 1, %d do ffi.C.usleep(100000) end
  local message = ffi.new("uint32_t[2]")
  message[0], message[1] = 0x83, 77
  ffi.C.sendto(3, message, 8, 0, nil, 0)
  ffi.C.sleep(1000)
end
"""
    path = write(folder, make(FFI + source % (10 * cases.LIMIT - 3), "lua", Slot("out")))
    start = time.monotonic()
    refused(path, cases.LATE)
    assert time.monotonic() - start < 1.5 * cases.LIMIT + 1


@scenario
def bytes_beside_a_mapped_input(folder: Path) -> None:
    """A function discards its copies of the first and last page of an input, to see the file's own bytes there."""
    lua = """
function dynamic_dataset()
  local a, out = ffi.cast("uint8_t *", lib.getData("a") + 1), lib.getData("out")
  local page = a - ffi.cast("uintptr_t", a) % 4096
  out[1] = ffi.C.madvise(page, 4096, 4)
  for i = 0, 4095 do out[2 + i] = page[i] end
end
"""
    python = """
import ctypes

import numpy as np


def dynamic_dataset():
    at, out = lib.array("a").ctypes.data, lib.array("out")
    page = at - at % 4096
    out[0] = ctypes.CDLL(None).madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 4)
    out[1:] = np.frombuffer(ctypes.string_at(page, 4096), "u1")
"""
    for language, source in (("lua", FFI + lua), ("py", python)):
        path = folder / f"{language}.h5"
        with h5py.File(path, "w") as file:
            file["before"] = np.frombuffer(b"SECRET" * 100, "u1")
            file["a"] = np.arange(100.0)
            file["after"] = np.frombuffer(b"SECRET" * 100, "u1")
            store(file, make(source, language, Slot("out", "double", (4097,)), [Slot("a", "double", (100,))]))
        done, *seen = read(path)
        text = bytes(map(int, seen))
        assert done == 0
        assert b"SECRET" not in text
        assert b"HDF" not in text


@scenario
def workers_that_ended_while_idle(folder: Path) -> None:
    """Several idle workers for the same dataset have all ended before the next read."""
    for language in ("lua", "py"):
        source = {
            "lua": FFI + 'function dynamic_dataset() ffi.C.usleep(300000) lib.getData("out")[1] = 7 end',
            "py": 'import time\ndef dynamic_dataset():\n    time.sleep(0.3)\n    lib.getData("out")[0] = 7\n',
        }[language]
        path = write(folder, make(source, language, Slot("out", "double", (1,))), f"{language}.h5")
        before = below()
        lanes.side_by_side(open_and_read, [path] * 4)
        for pid in workers(below() - before):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        assert open_and_read(path) == [7]


def open_and_read(path: Path) -> Any:
    """Reads with the thread-parallel reader."""
    import hyperchunk

    with hyperchunk.open(path) as file:
        return file["out"][...].tolist()


def below() -> set[int]:
    """Returns the descendants of this process."""
    return set(workers_of(os.getpid()))


def workers(pids: set[int]) -> set[int]:
    """Returns the living processes without children, which excludes the warm Python."""
    return {pid for pid in pids if is_alive(pid) and not workers_of(pid)}


@scenario
def text_for_a_file_of_the_readers_own(folder: Path) -> None:
    """Printed text must not go into a file that reuses the number of a closed standard output."""
    path = write(
        folder, make('function dynamic_dataset() print(("#"):rep(40)) end', "lua", Slot("out", "double", (1,)))
    )
    os.environ["HYPERCHUNK_PRINT"] = "streams"
    os.close(1)
    own = os.open(folder / "own.bin", os.O_RDWR | os.O_CREAT, 0o600)
    assert own == 1
    read(path)
    assert os.pread(own, 100, 0) == b""
    # A file put there on purpose is the standard output.
    os.dup2(os.open(folder / "log.txt", os.O_RDWR | os.O_CREAT, 0o600), 1)
    read(path)
    assert (folder / "log.txt").read_text() == "#" * 40 + "\n"


C_READER = """
#include <hdf5.h>
int main(int count, char **words)
{
    double value = 0;
    hid_t file = H5Fopen(words[count - 1], H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, "out", H5P_DEFAULT);
    return H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0 || value != 7;
}
"""


@scenario
def text_for_nobody(folder: Path) -> None:
    """A C program whose standard output is a full pipe continues to read, whatever the function prints."""
    import hyperchunk

    (folder / "reader.c").write_text(C_READER)
    built = subprocess.run(["h5cc", "-shlib", "-o", "reader", "reader.c"], cwd=folder, capture_output=True, check=False)
    if built.returncode != 0:
        return
    source = 'function dynamic_dataset() print("x") lib.getData("out")[1] = 7 end'
    path = write(folder, make(source, "lua", Slot("out", "double", (1,))))
    reading, writing = os.pipe()
    os.close(reading)
    environment = dict(os.environ) | {"HDF5_PLUGIN_PATH": str(hyperchunk.plugins.folder())}
    for streams in ({"HYPERCHUNK_PRINT": "streams"}, {}):
        done = subprocess.run(
            [folder / "reader", path],
            stdout=writing,
            stderr=writing,
            env=environment | streams,
            restore_signals=True,
            check=False,
        )
        assert done.returncode == 0


@scenario
def no_descriptor_for_a_workers_process(folder: Path) -> None:
    """A worker that could not be ended reliably is not started."""
    source = "import time\ndef dynamic_dataset():\n    while True: time.sleep(1)\n"
    path = write(folder, make(source, "py", Slot("out", "double", (1,))))
    assert read(write(folder, simple("py"), "warm.h5")) == [7]
    before = below()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(4, 18):
        used = len(list(Path("/proc/self/fd").iterdir())) - 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
        with pytest.raises(OSError, match=r"."):
            read(path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    end = time.monotonic() + 3
    # A warm Python without workers may exist, as before.
    while len(left := workers(below() - before)) > 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert len(left) <= 1


@scenario
def revoked_while_it_is_open(folder: Path) -> None:
    """A revoked key runs no more functions, not even of files that are already open."""
    import hyperchunk

    header = make("function dynamic_dataset() lib.getData('out')[1] = 7 end", "lua", Slot("out", "double", (8,)))
    path = write(folder, sign(header | {"blockwise": True, "chunk": [1]}, places.STRANGER))
    with h5py.File(path) as file, hyperchunk.open(path) as ours:
        assert (file["out"][0], ours["out"][0]) == (7, 7)
        hyperchunk.trust.revoke(f"SHA256:{places.STRANGER.stem}")
        time.sleep(1)
        for dataset in (file["out"], ours["out"], h5py.File(path)["out"]):
            with pytest.raises((OSError, hyperchunk.HyperchunkError), match="revoked"):
                dataset[5]
