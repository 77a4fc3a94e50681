"""Unwritten chunks stay unwritten when a file is packed, and cost nothing to verify."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

COMMAND = Path(sys.executable).with_name("hyperchunk")


def pack(*arguments: Any) -> float:
    begin = time.monotonic()
    subprocess.run([COMMAND, "pack", *arguments, "--verify"], check=True, capture_output=True)
    return time.monotonic() - begin


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """A file with 800 GB of elements, of which 36 chunks are stored."""
    path = tmp_path / "sparse.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "deflated", (10**6, 10**5), "f8", chunks=(100, 100), compression="gzip", fillvalue=-1.0
        )
        for number in range(6):
            data[number * 150_000, number * 15_000 : number * 15_000 + 250] = np.arange(250)
        file.create_dataset("never", (10**6, 10**5), "f8", chunks=(100, 100), fillvalue=3.0)
        file.create_dataset("contiguous", (10**6, 10**5), "f8")
        texts = file.create_dataset("texts", (10**7,), h5py.string_dtype(), chunks=(1000,))
        texts[5_000_000] = "here"
    return path


@pytest.mark.parametrize(
    "options", [(), ("--chunks", "auto"), ("--filters", "none"), ("--layout", "cloud", "--chunks", "auto")], ids=str
)
def test_sparse_data_stay_sparse(sparse: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    out = tmp_path / "out.h5"
    taken = pack(sparse, out, *options)
    assert taken < 60
    with h5py.File(out) as file, h5py.File(sparse) as before:
        for number in range(6):
            rows, columns = number * 150_000, number * 15_000
            assert np.array_equal(
                file["deflated"][rows, columns : columns + 300], before["deflated"][rows, columns : columns + 300]
            )
        assert file["deflated"][7, 7] == -1
        assert file["never"].id.get_num_chunks() == 0 if file["never"].chunks else True
        assert file["never"].id.get_storage_size() == 0
        assert file["contiguous"].id.get_storage_size() == 0
        assert file["never"][5, 5] == 3
        assert file["texts"][5_000_000] == b"here"
        assert file["texts"][0] == b""
        # One new chunk for each that held data, of at most a megabyte, and no more.
        assert file["deflated"].id.get_num_chunks() <= before["deflated"].id.get_num_chunks() + 12
    assert out.stat().st_size < 60_000_000


def test_what_was_never_written_is_not_allocated_in_one_piece(tmp_path: Path) -> None:
    path, out = tmp_path / "in.h5", tmp_path / "out.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("never", (10**5, 10**5), "f8", chunks=(1000, 1000), fillvalue=3.0)
        file.create_dataset("some", (100,), "f8", chunks=(10,))[:5] = 1
    pack(path, out, "--chunks", "contiguous")
    with h5py.File(out) as file:
        assert file["never"].chunks is None
        assert file["never"].id.get_offset() is None
        assert file["never"][7, 7] == 3
        assert file["some"][:].sum() == 5
    assert out.stat().st_size < 100_000


def test_virtual_data_without_sources_stay_unwritten(tmp_path: Path) -> None:
    path, out = tmp_path / "in.h5", tmp_path / "out.h5"
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["x"] = np.ones((100, 1000))
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((20_000, 1000), "f8", maxshape=(None, 1000))
        layout[5000:5100] = h5py.VirtualSource(str(tmp_path / "part.h5"), "x", (100, 1000))
        file.create_virtual_dataset("v", layout, fillvalue=-5)
    pack(path, out, "--embed", "--chunks", "/v=100x1000", "--memory", "1000000")
    with h5py.File(out) as file:
        assert file["v"].id.get_num_chunks() == 1
        assert (file["v"][5000:5100] == 1).all()
        assert (file["v"][5100:5200] == -5).all()
