"""A failed `close` keeps the committed state and tells how to recover the rest; a failed call changes nothing."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from full_disk import short_files
from hyperchunk import _core
from test_unencodable import CALLS


def recover(path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capfd.readouterr()
    assert _core.run_command(["hyperchunk", "recover", str(path), "--json"]) == 0
    return dict(json.loads(capfd.readouterr().out))


def give_up(file: Any) -> None:
    """Simulates a killed program: the file is not closed when it is deleted."""
    file._opened._close.detach()


def write(file: Any) -> None:
    """Writes data in all layouts, some of them buffered in memory."""
    file.create_dataset("hours", data=np.arange(1000), chunks=(100,), compression="gzip")
    file["contiguous"] = np.arange(500.0)
    file.create_dataset("names", data=["a", "größer"], dtype=h5py.string_dtype())
    file["hours"].attrs["unit"] = "h"
    file["link"] = hyperchunk.SoftLink("/hours")


def check(path: Path) -> None:
    with h5py.File(path) as file:
        assert np.array_equal(file["hours"][()], np.arange(1000))
        assert np.array_equal(file["contiguous"][()], np.arange(500.0))
        assert file["names"].asstr()[()].tolist() == ["a", "größer"]
        assert file["link"].attrs["unit"] == "h"


def test_full_disk_at_close(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    file = hyperchunk.open(path, "w")
    write(file)
    for _ in range(2):
        with short_files(2000), pytest.raises(hyperchunk.HyperchunkError, match=rf"hyperchunk recover {path}"):
            file.close()
        assert not path.exists()
    # There is space again.
    file.close()
    check(path)
    assert [found.name for found in tmp_path.glob("run.h5*")] == ["run.h5"]


def test_full_disk_at_close_is_recovered(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "run.h5"
    file = hyperchunk.open(path, "w")
    write(file)
    with short_files(2000), pytest.raises(hyperchunk.HyperchunkError):
        file.close()
    del file
    gc.collect()
    # `recover` needs space, too, and removes nothing if there is none.
    with short_files(2000):
        assert _core.run_command(["hyperchunk", "recover", str(path)]) == 1
    assert not path.exists()
    found = recover(path, capfd)
    assert (found["lost"], found["torn_bytes"], found["datasets"]) == ([], 0, 3)
    check(path)
    assert [found.name for found in tmp_path.glob("run.h5*")] == ["run.h5"]


def fill_up(path: Path, step: int) -> set[str]:
    """Creates objects until the journal has no space; returns the successful ones."""
    file = hyperchunk.open(path, "w")
    write(file)
    granted: set[str] = set()
    refused = 0
    calls: dict[str, Callable[[str], Any]] = {
        "a": lambda name: file.attrs.__setitem__(name, np.bytes_(b"x" * (3 * len(granted) + 1))),
        "g": file.create_group,
        "l": lambda name: file.__setitem__(name, hyperchunk.SoftLink("/hours")),
    }
    with short_files(Path(f"{path}.journal").stat().st_size + step):
        for number in range(40):
            for kind, call in calls.items():
                try:
                    call(f"{kind}{number}")
                    granted.add(f"{kind}{number}")
                except hyperchunk.HyperchunkError:
                    refused += 1
    assert refused
    assert granted == {*file.attrs, *file} - {"hours", "contiguous", "names", "link"}
    file["later"] = 5
    give_up(file)
    return granted


@pytest.mark.parametrize("step", [1, 7, 64, 1000])
def test_full_disk_at_any_call(tmp_path: Path, step: int, capfd: Any) -> None:
    """Without space in the journal, refused calls have no effect on the file, and granted ones do."""
    path = tmp_path / "run.h5"
    granted = fill_up(path, step)
    gc.collect()
    found = recover(path, capfd)
    assert (found["lost"], found["torn_bytes"]) == ([], 0)
    check(path)
    with h5py.File(path) as file:
        assert {*file.attrs, *file} - {"hours", "contiguous", "names", "link", "later"} == granted
        assert file["later"][()] == 5


@pytest.mark.parametrize("what", CALLS)
def test_refused_call_is_not_in_the_journal(tmp_path: Path, what: str, capfd: Any) -> None:
    path = tmp_path / "run.h5"
    file = hyperchunk.open(path, "w")
    write(file)
    with pytest.raises(hyperchunk.HyperchunkError):
        CALLS[what](file)
    give_up(file)
    del file
    gc.collect()
    assert recover(path, capfd)["lost"] == []
    check(path)
    with h5py.File(path) as found:
        assert "w" not in found
        assert list(found.attrs) == []
