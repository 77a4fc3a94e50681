"""Chunked inputs that the engine reads for libhdf5, together with those of the following blocks."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import read

SHAPE = (96, 120)
# Chunks of the inputs, blocks of the live dataset.
GRIDS = [((16, 120), "16x120"), ((16, 30), "32x60"), ((96, 10), "96x10"), ((40, 50), "40x50"), ((16, 30), "20x25")]
FILTERS: list[dict[str, Any]] = [
    {},
    {"compression": "gzip", "shuffle": True},
    {"compression": "lzf", "fletcher32": True},
]


def made(path: Path, chunk: tuple[int, int], filters: dict[str, Any], kind: str = "f4") -> np.ndarray:
    """Makes two inputs; returns the values of `out`."""
    generator = np.random.default_rng(1)
    a, b = (generator.integers(0, 1000, SHAPE).astype(kind) for _ in range(2))
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=a, chunks=chunk, **filters)
        # Some chunks stay unwritten.
        b[:16, :60] = 7
        data = file.create_dataset("b", SHAPE, kind, chunks=chunk, fillvalue=7, **filters)
        data[16:], data[:16, 60:] = b[16:], b[:16, 60:]
    return a.astype("f8") * 2 + b


@pytest.mark.parametrize("filters", FILTERS, ids=["plain", "deflate", "lzf"])
@pytest.mark.parametrize(("chunk", "blocks"), GRIDS)
@pytest.mark.parametrize("kind", ["f4", ">i2"])
@pytest.mark.parametrize("language", ["lua", "expression"])
def test_any_order(
    language: str, kind: str, chunk: Any, blocks: str, filters: dict[str, Any], tmp_path: Path, attach: Any
) -> None:
    file = tmp_path / "a.h5"
    expected = made(file, chunk, filters, kind)
    if language == "lua":
        text = """function dynamic_dataset()
            local a, b, out = lib.getData("a"), lib.getData("b"), lib.getData("out")
            local d = lib.getDims("out")
            for i = 1, d[1] * d[2] do out[i] = a[i] * 2 + b[i] end
        end"""
        attach(file, "lua", text, "out:96x120:double", chunks=blocks)
    else:
        hyperchunk.udf.attach(file, outputs="out:96x120:double", expression="float64(a) * 2 + b", chunks=blocks)
    np.testing.assert_array_equal(read(file, "out"), expected)
    with h5py.File(file) as opened:
        out = opened["out"]
        rows = range(0, 96, 8)
        for order in (rows, reversed(rows), [0, 8, 16, 24, 80, 88, 0, 8, 16, 16, 24, 32, 40]):
            for row in order:
                np.testing.assert_array_equal(out[row : row + 8, 20:100], expected[row : row + 8, 20:100])
    # Two datasets read alternately.
    with h5py.File(file) as opened, h5py.File(file) as again:
        for row in rows:
            np.testing.assert_array_equal(opened["out"][row], expected[row])
            np.testing.assert_array_equal(again["out"][95 - row], expected[95 - row])


def test_a_file_that_is_written_is_read_through_libhdf5(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    expected = made(file, (16, 120), FILTERS[1])
    hyperchunk.udf.attach(file, outputs="out:96x120:double", expression="float64(a) * 2 + b", chunks="16x120")
    with h5py.File(file, "r+") as opened:
        np.testing.assert_array_equal(opened["out"][:48], expected[:48])
        opened["a"][48:] = 1
        expected[48:] = 2 + opened["b"][48:]
        np.testing.assert_array_equal(opened["out"][48:], expected[48:])


def test_a_damaged_chunk_is_an_error(tmp_path: Path) -> None:
    """The error is libhdf5's; the blocks before and after are read."""
    file = tmp_path / "a.h5"
    expected = made(file, (8, 120), FILTERS[1])
    hyperchunk.udf.attach(file, outputs="out:96x120:double", expression="float64(a) * 2 + b", chunks="8x120")
    with h5py.File(file) as opened:
        place = opened["a"].id.get_chunk_info(6).byte_offset
    with file.open("rb+") as raw:
        raw.seek(place + 20)
        raw.write(b"\xff" * 8)
    with h5py.File(file) as opened:
        for row in range(0, 96, 8):
            if row == 48:
                with pytest.raises(OSError, match="input"):
                    opened["out"][row]
            else:
                np.testing.assert_array_equal(opened["out"][row], expected[row])
