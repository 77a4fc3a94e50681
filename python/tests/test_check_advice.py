"""Following the advice of `check` removes the finding."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

COMMAND = Path(sys.executable).with_name("hyperchunk")


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def findings(path: Path) -> dict[str, dict[str, Any]]:
    done = command("check", "--json", path)
    assert done.returncode in (0, 1), done.stderr
    return {finding["kind"]: finding for finding in json.loads(done.stdout)["findings"]}


def scattered(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        for number in range(3000):
            group = file.create_group(f"group{number}")
            group.attrs["number"] = number
            group["data"] = np.zeros(2000)


def small_pages(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w", fs_strategy="page", fs_page_size=4096) as file:
        for number in range(2000):
            file.create_group(f"group{number}").attrs["number"] = np.arange(50)


def heap_attributes(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        for number in range(800):
            group = file.create_group(f"group{number}")
            group.attrs.create("text", ["x" * 500] * 20, dtype=h5py.string_dtype())
            group["data"] = np.zeros(20_000)


def small_chunks(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", data=np.random.default_rng(1).random((2000, 1000)), chunks=(10, 10))


def large_chunks(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", (12_000_000,), "f8", chunks=(6_000_000,))[...] = 1.5


def costly_slices(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", (4000, 1500), "f8", chunks=(4000, 10))[...] = 1


def old_chunk_index(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("data", (200_000, 100), "f4", chunks=(20, 100), maxshape=(None, None))
        data[...] = 1


def external(folder: Path) -> None:
    (folder / "raw.bin").write_bytes(np.arange(1000.0).tobytes())
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", (1000,), "f8", external=[(str(folder / "raw.bin"), 0, 8000)])


def virtual(folder: Path) -> None:
    with h5py.File(folder / "part.h5", "w") as file:
        file["x"] = np.arange(1000.0)
    with h5py.File(folder / "in.h5", "w") as file:
        layout = h5py.VirtualLayout((1000,), "f8")
        layout[...] = h5py.VirtualSource(str(folder / "part.h5"), "x", (1000,))
        file.create_virtual_dataset("data", layout)


def not_compressed(folder: Path) -> None:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", (9_000_000,), "f8", chunks=(200_000,))[...] = 1.5


def useless(folder: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 2**63, 300_000)
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("data", data=noise, chunks=(50_000,), compression="gzip")


CASES: dict[str, Callable[[Path], None]] = {
    "scattered structure": scattered,
    "small pages": small_pages,
    "heap attributes": heap_attributes,
    "small chunks": small_chunks,
    "large chunks": large_chunks,
    "costly slices": costly_slices,
    "old chunk index": old_chunk_index,
    "external data": external,
    "virtual": virtual,
    "not compressed": not_compressed,
    "useless compression": useless,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_advice_is_right(kind: str, tmp_path: Path) -> None:
    CASES[kind](tmp_path)
    path, out = tmp_path / "in.h5", tmp_path / "out.h5"
    found = findings(path)
    assert kind in found, found
    advice = found[kind]["advice"]
    commands = [text for text in re.findall(r"`([^`]+)`", advice) if text.startswith("hyperchunk pack")]
    assert commands, advice
    assert "h5repack" not in advice
    words = shlex.split(commands[0])[1:]
    words = [{"IN": str(path), "OUT": str(out)}.get(word, word) for word in words]
    done = command(*words, "--verify")
    assert done.returncode == 0, done.stderr
    assert kind not in findings(out)


def test_live_datasets_are_fit(tmp_path: Path) -> None:
    path, cloud = tmp_path / "s.h5", tmp_path / "cloud.h5"
    with h5py.File(path, "w") as file:
        file["NIR"] = np.ones((9, 9), "f4")
        file["Red"] = np.ones((9, 9), "f4")
    expression = ("--expression", "(NIR - Red) / (NIR + Red)", "--unsigned")
    done = command("udf", "attach", path, "NDVI", *expression)
    assert done.returncode == 0, done.stderr
    assert command("pack", path, cloud, "--layout", "cloud").returncode == 0
    for each in (path, cloud):
        done = command("check", each)
        assert done.returncode == 0, done.stdout
        assert "cannot decode" not in done.stdout
        assert "1 live dataset is computed where it is read" in done.stdout
        assert "fit for object stores" in done.stdout


def test_many_groups_take_little_time(tmp_path: Path) -> None:
    """The time grows with the number of groups, not with its square."""
    taken = []
    for count in (2000, 16_000):
        path = tmp_path / f"{count}.h5"
        with h5py.File(path, "w") as file:
            for number in range(count):
                file.create_group(f"many/g{number}")
        begin = time.process_time(), time.monotonic()
        done = command("check", path)
        taken.append(time.monotonic() - begin[1])
        assert f"in {count + 2} groups, 0 datasets" in done.stdout
    assert taken[1] < 20 * taken[0] + 5, taken
