"""Ctrl-C ends commands that work on local files, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

COMMAND = Path(sys.executable).with_name("hyperchunk")
# Background jobs of a shell ignore SIGINT.
HEARD = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes seconds to compress."""
    path = tmp_path_factory.mktemp("interrupts") / "large.h5"
    values = np.random.default_rng(0).integers(0, 1000, (4000, 16_000), "i4")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(100, 400))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["pack", "large.h5", "out.h5", "--filters", "small"],
        ["pack", "large.h5", "--in-place", "--filters", "small"],
        ["restructure", "large.h5", "/x", "--order", "column", "--codec", "gzip:9", "--output", "out.h5"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_ctrl_c_ends_a_command(words: list[str], large: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    own = folder / "large.h5"
    own.hardlink_to(large) if "--in-place" not in words else own.write_bytes(large.read_bytes())
    before = digest(own)
    run = subprocess.Popen(
        [sys.executable, "-c", HEARD, COMMAND, *words], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    # Until it writes.
    end = time.monotonic() + 60
    while run.poll() is None and not [path for path in folder.iterdir() if path != own and size(path) > 1000]:
        assert time.monotonic() < end
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 130, told
    assert "interrupted" in told
    assert "Traceback" not in told
    assert digest(own) == before
    if words[0] == "pack":
        assert list(folder.iterdir()) == [own]
    else:
        assert not (folder / "out.h5").exists()


def interrupt(words: list[str], folder: Path, seconds: float) -> tuple[int, str]:
    """Runs a command and interrupts it after some time; returns its status and what it printed to standard error."""
    run = subprocess.Popen(
        [sys.executable, "-c", HEARD, COMMAND, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(seconds)
    run.send_signal(signal.SIGINT)
    return run.returncode if run.returncode is not None else run.wait(60), run.communicate()[1]


def test_the_status_says_whether_the_work_was_done(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    statuses = set()
    for number in range(8):
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            for name in range(2000):
                file.create_group(f"g/{name}")
        # Python has started, with its handler.
        status, told = interrupt(["rm", "-r", path.name, "/g"], folder, 0.3 + 0.1 * number)
        if "Traceback" in told:
            continue
        statuses.add(status)
        assert status in (0, 130), told
        with h5py.File(path) as file:
            assert ("g" in file) == (status != 0)
    assert statuses


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def size(path: Path) -> int:
    """Returns the size of a file, or of the files in a folder."""
    if path.is_dir():
        return sum(size(each) for each in path.iterdir())
    return path.stat().st_size if path.exists() else 0
