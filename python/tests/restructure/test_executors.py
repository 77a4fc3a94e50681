"""The tasks of a layout, run by executors: processes, Dask, and processes that are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import executors

SHAPE = (2000, 1500)
VALUES = np.arange(3_000_000, dtype="f4").reshape(SHAPE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(40, 1500), compression="gzip", compression_opts=1)
    return path


def total(first: int, end: int) -> int:
    return sum(range(first, end))


def failing(first: int, end: int) -> int:
    raise ValueError(f"{first} {end}")


@pytest.mark.parametrize("executor", [None, "processes", "threads"])
def test_all_tasks_once(executor: Any) -> None:
    seen: list[int] = []
    with ThreadPoolExecutor(3) as threads:
        chosen = threads if executor == "threads" else executor
        for tasks in (0, 1, 7, 100):
            results = executors.run(total, tasks, executor=chosen, workers=2, each=seen.append)
            assert sum(results) == sum(range(tasks))
        assert sum(seen) == sum(map(sum, map(range, (0, 1, 7, 100))))
        with pytest.raises(ValueError, match="0"):
            executors.run(failing, 10, executor=chosen, workers=2)


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_processes_do_the_same(path: Path, codec: str) -> None:
    options: dict[str, Any] = {"order": "column", "chunk": (2000, 100), "codec": codec, "memory": "16MiB"}
    told: list[tuple[int, int]] = []
    made = hyperchunk.restructure(
        path, "/x", executor="processes", workers=2, progress=lambda done, of: told.append((done, of)), **options
    )
    assert told[-1] == (made.done, made.done)
    with h5py.File(made.path) as file:
        np.testing.assert_array_equal(file["x"][...], VALUES)
    assert hyperchunk.restructure(path, "/x", **options).done == 0


def test_dask_does_the_same_and_a_worker_that_is_killed_changes_nothing(path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        plain = hyperchunk.restructure(path, "/x", order="column", memory="16MiB", executor=client)
        with h5py.File(plain.path) as file:
            np.testing.assert_array_equal(file["x"][...], VALUES)
        first = next(iter(client.run(os.getpid).values()))
        killed = []

        def kill(done: int, of: int) -> None:
            if not killed and done < of:
                killed.append(first)
                os.kill(first, signal.SIGKILL)

        made = hyperchunk.restructure(
            path,
            "/x",
            order="hilbert",
            chunk=(100, 100),
            codec="gzip:1",
            memory="16MiB",
            executor=client,
            progress=kill,
        )
        assert killed
        with h5py.File(made.path) as file:
            np.testing.assert_array_equal(file["x"][...], VALUES)


@pytest.mark.parametrize("codec", ["none", "gzip:6"])
def test_killed_at_random_and_gone_on_with(path: Path, codec: str) -> None:
    words = f"restructure {path} /x --order column --chunk 2000x50 --codec {codec} --memory 16MiB --threads 1 --json"
    command = [HYPERCHUNK, *words.split()]
    began = time.monotonic()
    subprocess.run([*command, "--output", path.with_name("whole.h5")], check=True, capture_output=True)
    whole = time.monotonic() - began
    dice = random.Random(7)
    killed = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            # At first hardly enough time to start; at the end more than enough.
            part = 20 if killed >= 8 else dice.uniform(0.2, 1.0) if killed else 0.1
            output, errors = process.communicate(timeout=whole * part)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            killed += 1
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
    assert killed > 0
    told = json.loads(output)
    assert told["done"] + told["skipped"] >= told["tasks"]
    made = hyperchunk.restructure(path, "/x", order="column", chunk=(2000, 50), codec=codec, memory="16MiB")
    assert made.done == 0
    with h5py.File(made.path) as file:
        np.testing.assert_array_equal(file["x"][...], VALUES)
    assert sorted(entry.name for entry in made.path.parent.iterdir()) == ["contents", "layout.h5", "request.json"]


def test_two_at_once_are_no_trouble(path: Path) -> None:
    program = (
        "import sys, hyperchunk; print(hyperchunk.restructure(sys.argv[1], '/x', order='column', chunk=(2000, 20),"
        " codec='gzip:1', memory='16MiB', threads=1).path)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1]
    with h5py.File(outputs[0]) as file:
        np.testing.assert_array_equal(file["x"][...], VALUES)
