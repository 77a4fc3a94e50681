"""Files that are written in SWMR mode, and their readers: h5py's, and ours."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

WRITER = textwrap.dedent("""
    import sys, time, hyperchunk, numpy as np
    path, rows, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with hyperchunk.open(path, "w", libver="latest", sync="never", journal=sys.argv[4] == "journal") as file:
        made = {
            "array": dict(maxshape=(None, 4), chunks=(3, 4)),
            "one": dict(maxshape=(None, 4), chunks=(1, 4)),
            "gzip": dict(maxshape=(None, 4), chunks=(5, 4), compression="gzip", shuffle=True, fletcher32=True),
            "wide": dict(maxshape=(None, 4), chunks=(2, 2)),
            "fixed": dict(maxshape=(rows, 4), chunks=(6, 4)),
            "fixed gzip": dict(maxshape=(rows, 4), chunks=(1, 4), compression="gzip"),
        }
        data = {name: file.create_dataset(f"g/{name}", (0, 4), "i8", **how) for name, how in made.items()}
        total = file.create_dataset("total", (1,), "i8", layout="contiguous")
        compact = file.create_dataset("compact", (1,), "i8", layout="compact")
        file.attrs["about"] = "a scan"
        file.swmr_mode = True
        assert file.swmr_mode
        print("ready", flush=True)
        for number in range(rows):
            for one in data.values():
                one.append((number * 7 + np.arange(4))[None])
            total[0] = compact[0] = number + 1
            file.flush()
            time.sleep(pause)
""")
NAMES = ["array", "one", "gzip", "wide", "fixed", "fixed gzip"]


def started(path: Path, rows: int, pause: float, journal: str = "journal") -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(path), str(rows), str(pause), journal]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    process.stdout.close()
    return process.wait(60)


def expected(rows: int) -> np.ndarray:
    return np.arange(rows)[:, None] * 7 + np.arange(4)


@pytest.mark.parametrize("library", [h5py, hyperchunk], ids=["h5py", "ours"])
@pytest.mark.parametrize("name", NAMES)
def test_reader_that_stays_open(tmp_path: Path, library: Any, name: str) -> None:
    path, rows = tmp_path / "a.h5", 1500
    process = started(path, rows, 0.0, "journal" if name < "g" else "none")
    sizes = set()
    with library.File(path, "r", swmr=True) as file:
        data, total, compact = file[f"g/{name}"], file["total"], file["compact"]
        seen, end = 0, time.monotonic() + 100
        while seen < rows:
            assert time.monotonic() < end
            data.refresh()
            assert len(data) >= seen
            seen = len(data)
            sizes.add(seen)
            np.testing.assert_array_equal(data[...], expected(seen))
            total.refresh()
            compact.refresh()
            # Contiguous elements are written in place, before the flush.
            assert total[0] >= seen
            assert compact[0] >= seen - 1
        assert ended(process) == 0
        data.refresh()
        np.testing.assert_array_equal(data[...], expected(rows))
    assert len(sizes) > 10
    with h5py.File(path, "r") as file:
        assert file.attrs["about"] == "a scan"
        for other in NAMES:
            np.testing.assert_array_equal(file["g"][other][...], expected(rows))
    with h5py.File(path, "r+", libver="latest") as file:
        for other in NAMES[:4]:
            file["g"][other].resize(rows + 10, 0)
            file["g"][other][rows:] = expected(rows + 10)[rows:]
    with hyperchunk.open(path) as file:
        for other in NAMES[:4]:
            np.testing.assert_array_equal(file["g"][other][...], expected(rows + 10))


def test_follower_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    process = started(path, 300, 0.002)
    start = 0
    with hyperchunk.open(path, swmr=True) as file:
        for block in file["g/gzip"].follow(start=0):
            np.testing.assert_array_equal(block, expected(start + len(block))[start:])
            start += len(block)
    assert start == 300
    assert ended(process) == 0


@pytest.mark.parametrize("library", [h5py, hyperchunk], ids=["h5py", "ours"])
def test_writer_that_is_killed(tmp_path: Path, library: Any) -> None:
    path = tmp_path / "a.h5"
    for wait in (0.1, 0.23, 0.4):
        path.unlink(missing_ok=True)
        process = started(path, 100_000, 0.0)
        with library.File(path, "r", swmr=True) as file:
            threading.Timer(wait, process.kill).start()
            while process.poll() is None:
                for name in NAMES:
                    file["g"][name].refresh()
                    data = file["g"][name]
                    np.testing.assert_array_equal(data[...], expected(len(data)))
            assert ended(process) == -signal.SIGKILL
            rows = set()
            for name in NAMES:
                data = file["g"][name]
                data.refresh()
                np.testing.assert_array_equal(data[...], expected(len(data)))
                rows.add(len(data))
            assert min(rows) > 0
            assert max(rows) <= min(rows) + 1
        with pytest.raises(hyperchunk.exceptions.LockedError, match="h5clear"):
            hyperchunk.open(path)
        done = subprocess.run(
            [Path(sys.executable).with_name("hyperchunk"), "recover", path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        with h5py.File(path, "r") as file:
            for name in NAMES:
                data = file["g"][name]
                assert len(data) >= min(rows)
                np.testing.assert_array_equal(data[: min(rows)], expected(min(rows)))


def test_many_chunks(tmp_path: Path) -> None:
    """All kinds of blocks of an extensible array, with pages, and of a fixed array with pages."""
    path, steps, step = tmp_path / "a.h5", 30, 3000
    with hyperchunk.open(path, "w", libver="latest", sync="never", journal=False) as file:
        x = file.create_dataset("x", (0,), "i4", maxshape=(None,), chunks=(1,))
        y = file.create_dataset("y", (0,), "i4", maxshape=(steps * step,), chunks=(1,), compression="gzip")
        file.swmr_mode = True
        with h5py.File(path, "r", swmr=True) as stock, hyperchunk.open(path, swmr=True) as ours:
            for number in range(steps):
                x.append(np.arange(number * step, (number + 1) * step, dtype="i4"))
                y.append(np.arange(number * step, number * step + 100, dtype="i4"))
                file.flush()
                for reader in (stock, ours):
                    for name in "xy":
                        reader[name].refresh()
                for reader in (stock, ours):
                    assert reader["x"].shape == ((number + 1) * step,)
                    first = number * step
                    np.testing.assert_array_equal(reader["x"][first:], np.arange(first, first + step))
                    first = number * 100
                    np.testing.assert_array_equal(reader["y"][first:], np.arange(number * step, number * step + 100))
            np.testing.assert_array_equal(stock["x"][::7], np.arange(0, steps * step, 7))
    with h5py.File(path, "r") as file:
        np.testing.assert_array_equal(file["x"][::7], np.arange(0, steps * step, 7))


def test_what_is_made_later_is_there_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w", libver="latest") as file:
        x = file.create_dataset("x", data=np.arange(4), maxshape=(None,), chunks=(2,))
        x.attrs["unit"] = "m"
        file.swmr_mode = True
        file.swmr_mode = True
        with h5py.File(path, "r", swmr=True) as reader:
            assert reader["x"].attrs["unit"] == "m"
            x.attrs["more"] = 1
            file["later"] = [1, 2]
            x[0] = 50
            x.append([4])
            x.flush()
            reader["x"].refresh()
            assert reader["x"][...].tolist() == [50, 1, 2, 3, 4]
            assert list(reader) == ["x"]
        with pytest.raises(ValueError, match="forcibly"):
            file.swmr_mode = False
        x.resize((3,))
        with pytest.raises(NotImplementedError, match=r"smaller.*/x"):
            file.flush()
        x.append([3, 4])
        x[3:] = [3, 4]
        file.flush()
    with h5py.File(path) as reader:
        assert dict(reader["x"].attrs) == {"unit": "m", "more": 1}
        assert reader["later"][...].tolist() == [1, 2]
        assert reader["x"][...].tolist() == [50, 1, 2, 3, 4]


@pytest.mark.parametrize("options", [{}, {"userblock_size": 1024}, {"libver": "v110"}, {"alignment": 4096}])
def test_datasets_that_do_not_grow(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.h5"
    made: dict[str, dict[str, Any]] = {
        "one chunk": {"chunks": (6,)},
        "one gzip": {"chunks": (6,), "compression": "gzip"},
        "in a row": {"chunks": (2,)},
        "gzip": {"chunks": (2,), "compression": "gzip"},
        "contiguous": {"layout": "contiguous"},
        "compact": {"layout": "compact"},
        "empty": {"chunks": (4,), "maxshape": (20,)},
        "times": {"chunks": (2,), "maxshape": (None,), "track_times": True},
        "order": {"chunks": (2,), "maxshape": (None,), "track_order": True},
    }
    with hyperchunk.open(path, "w", track_order=True, **({"libver": "latest"} | options)) as file:
        for name, how in made.items():
            written = None if name in ("empty", "contiguous") else np.arange(6)
            data = file.create_dataset(name, (6,), "i4", data=written, fillvalue=3, **how)
            for number in range(3):
                data.attrs[f"a{number}"] = number
        file.swmr_mode = True
        with h5py.File(path, "r", swmr=True) as stock, hyperchunk.open(path, swmr=True) as ours:
            for step in range(4):
                for name in made:
                    file[name][step] = 100 + step
                file.flush()
                for reader in (stock, ours):
                    for name in made:
                        reader[name].refresh()
                        expected = np.full(6, 3) if name in ("empty", "contiguous") else np.arange(6)
                        expected[: step + 1] = 100 + np.arange(step + 1)
                        np.testing.assert_array_equal(reader[name][...], expected, name)
                        assert dict(reader[name].attrs) == {f"a{number}": number for number in range(3)}
    with h5py.File(path) as stock:
        assert [stock[name][3] for name in made] == [103] * len(made)


def test_what_cannot_be_written_in_swmr_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"

    def refused(match: str, *, mode: str = "w", **options: Any) -> None:
        options = {"libver": "latest"} | options
        with hyperchunk.open(path, mode, **options) as file:
            if mode == "w":
                file.create_dataset("g/tree", (1, 1), "i4", maxshape=(None, None), chunks=(1, 1))
            with pytest.raises(NotImplementedError, match=match):
                file.swmr_mode = True
            assert not file.swmr_mode

    refused("two or more unlimited dimensions.*/g/tree.*a.h5")
    refused("an edit of an existing file", mode="r+")
    refused("before HDF5 1.10", libver=None)
    refused("paged", layout="cloud")
    refused("local file", driver="core")
    with hyperchunk.open(path, "w", libver="latest") as file:
        file.create_dataset("text", (1,), hyperchunk.string_dtype(), maxshape=(None,), chunks=(1,))
        with pytest.raises(NotImplementedError, match=r"sequences or strings.*/text"):
            file.swmr_mode = True
    with hyperchunk.open(path) as file:
        assert list(file) == ["text"]
