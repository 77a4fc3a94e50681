"""Commits reuse the space of earlier structure: a frequently flushed file is only as large as its contents need, and
after a kill of its writer the last commit is intact.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest


def chunks(file: Any, flush: Callable[[], None]) -> None:
    data = file.create_dataset("x", (1200,), "f8", chunks=(1,), maxshape=(None,))
    for number in range(1200):
        data[number] = number
        flush()


def groups(file: Any, flush: Callable[[], None]) -> None:
    for number in range(300):
        file.create_group(f"g{number}").attrs["number"] = np.arange(20) + number
        flush()


def growing(file: Any, flush: Callable[[], None]) -> None:
    data = file.create_dataset("x", (0, 10), "i4", chunks=(1, 10), maxshape=(None, 10))
    for number in range(500):
        data.resize(number + 1, 0)
        data[number] = number
        flush()


def attributes(file: Any, flush: Callable[[], None]) -> None:
    for number in range(400):
        file.attrs["progress"] = number
        file.attrs["log"] = np.full(30, number)
        flush()


@pytest.mark.parametrize("work", [chunks, groups, growing, attributes], ids=lambda work: work.__name__)
@pytest.mark.parametrize("options", [{}, {"journal": False}, {"userblock_size": 512}], ids=str)
def test_a_file_that_is_flushed_often_is_small(work: Any, options: dict[str, Any], tmp_path: Path) -> None:
    sizes = []
    for name, often in (("once.h5", False), ("often.h5", True)):
        with hyperchunk.open(tmp_path / name, "w", sync="never", **options) as file:
            work(file, file.flush if often else lambda: None)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] < 5 * sizes[0] + 100_000, sizes
    found = []
    for name in ("once.h5", "often.h5"):
        with h5py.File(tmp_path / name) as file:
            found.append(
                [
                    file["x"][...].tolist() if "x" in file else sorted(file),
                    {key: str(value) for key, value in file.attrs.items()},
                ]
            )
    assert found[0] == found[1]


def test_in_memory_too() -> None:
    with hyperchunk.File("memory", "w", driver="core") as file:
        chunks(file, file.flush)
        data = file.getbuffer()
    assert len(data) < 500_000
    with hyperchunk.File.from_bytes(data) as file:
        assert np.array_equal(file["x"], np.arange(1200))


WRITER = """
import sys
import hyperchunk
file = hyperchunk.open(sys.argv[1], "w", journal=sys.argv[2] == "True")
data = file.create_dataset("x", (0, 100), "i8", chunks=(1, 100), maxshape=(None, 100))
texts = file.create_dataset("texts", (0,), hyperchunk.string_dtype(), chunks=(5,), maxshape=(None,))
for number in range(10**6):
    data.resize(number + 1, 0)
    data[number] = number
    data[number // 2] = number // 2
    texts.append([f"text {number}"])
    file.require_group(f"g{number % 50}").attrs["last"] = number
    file.attrs["done"] = number
    file.flush()
    print(number, flush=True)
"""


@pytest.mark.parametrize("journal", [True, False])
def test_a_killed_writer_leaves_its_last_commit(journal: bool, tmp_path: Path) -> None:
    chance = random.Random(7)
    for attempt in range(4):
        path = tmp_path / f"run{attempt}.h5"
        command = [sys.executable, "-c", WRITER, str(path), str(journal)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(chance.uniform(0.05, 0.5))
            os.kill(writer.pid, signal.SIGKILL)
            said = [0, *map(int, writer.stdout.read().split())][-1]
        for module in (h5py, hyperchunk):
            with module.File(path, "r") as file:
                done = int(file.attrs["done"])
                assert said <= done <= said + 1
                assert np.array_equal(file["x"], np.arange(done + 1)[:, None].repeat(100, 1))
                assert [text.decode() for text in file["texts"]] == [f"text {number}" for number in range(done + 1)]
                for group in range(min(50, done + 1)):
                    last = int(file[f"g{group}"].attrs["last"])
                    assert last % 50 == group
                    assert last > done - 50


def test_the_structure_of_the_cloud_layout_stays_in_front(tmp_path: Path) -> None:
    path = tmp_path / "cloud.h5"
    with hyperchunk.open(path, "w", layout="cloud", page_size=65536, sync="never") as file:
        file.create_group("first").attrs["a"] = 1
        file.flush()
        chunks(file, file.flush)
    with h5py.File(path) as file:
        assert np.array_equal(file["x"], np.arange(1200))
        assert file["x"].id.get_chunk_info(0).byte_offset >= 65536
