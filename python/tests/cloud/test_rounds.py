"""Round trips of reads, and the bytes transferred."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server

OpenS3 = Callable[..., hyperchunk.File]
ROWS, CHUNK = 360_000, 2000


def values(number: int) -> np.ndarray:
    """Returns numbers of which a chunk takes some 4 KB."""
    return np.random.default_rng(number).integers(0, 1 << 12, ROWS, dtype="i4")


def stored(file: h5py.File, name: str) -> int:
    """Returns the stored size of a dataset in bytes."""
    return int(file[name].id.get_storage_size())


def make(path: Path, names: list[str], *, apart: bool) -> int:
    """Makes datasets whose chunks are contiguous, or interleaved; returns the bytes of the first."""
    with h5py.File(path, "w") as file:
        for number, name in enumerate(names):
            kind = {"chunks": (CHUNK,), "compression": "gzip", "shuffle": True}
            dataset = file.create_dataset(name, (ROWS,), "i4", **kind)
            if apart:
                dataset[...] = values(number)
        for first in range(0, 0 if apart else ROWS, CHUNK):
            for number, name in enumerate(names):
                file[name][first : first + CHUNK] = values(number)[first : first + CHUNK]
        return stored(file, names[0])


@pytest.mark.parametrize("apart", [True, False])
def test_chunks_in_a_row_come_with_their_index(
    apart: bool, server: s3server.Server, tmp_path: Path, open_s3: OpenS3
) -> None:
    key, names = f"row-{apart}.h5", ["a", "b", "c"]
    size = make(tmp_path / key, names, apart=apart)
    server.put("tests", key, tmp_path / key)
    file = open_s3(key, read_ahead=0)
    np.testing.assert_array_equal(file["a"][...], values(0))
    stats = file.stats()
    assert stats is not None
    # Rounds: the head; the leaves of the chunk index, together with the chunks if these are in sequence; else the
    # chunks.
    assert stats.rounds == (2 if apart else 3)
    assert stats.bytes < (1.2 if apart else 2) * size
    np.testing.assert_array_equal(file["a"][...], values(0))
    for number, name in enumerate(names):
        np.testing.assert_array_equal(file[name][...], values(number))
        np.testing.assert_array_equal(file[name][7::2], values(number)[7::2])


def test_a_part_brings_no_more_than_its_chunks(server: s3server.Server, tmp_path: Path, open_s3: OpenS3) -> None:
    size = make(tmp_path / "part.h5", ["a"], apart=True)
    server.put("tests", "part.h5", tmp_path / "part.h5")
    file = open_s3("part.h5", read_ahead=0)
    half = ROWS // 2
    np.testing.assert_array_equal(file["a"][half : half + 5 * CHUNK], values(0)[half : half + 5 * CHUNK])
    stats = file.stats()
    assert stats is not None
    assert stats.bytes < size // 4


def test_a_chunk_that_was_written_again(server: s3server.Server, tmp_path: Path, open_s3: OpenS3) -> None:
    path = tmp_path / "again.h5"
    make(path, ["a", "b"], apart=True)
    expected = values(0)
    with h5py.File(path, "r+") as file:
        # It compresses worse than before, so it moves to the end of the file.
        expected[5 * CHUNK : 6 * CHUNK] = np.random.default_rng(9).integers(0, 1 << 31, CHUNK)
        file["a"][5 * CHUNK : 6 * CHUNK] = expected[5 * CHUNK : 6 * CHUNK]
    server.put("tests", "again.h5", path)
    np.testing.assert_array_equal(open_s3("again.h5")["a"][...], expected)


def test_many_whole_datasets_take_fewer_round_trips(server: s3server.Server, tmp_path: Path, open_s3: OpenS3) -> None:
    path, names, step = tmp_path / "many.h5", [f"g{number // 5}/d{number}" for number in range(20)], 3 * CHUNK
    with h5py.File(path, "w") as file:
        file["first"] = np.zeros(4000)  # moves the following data out of the head
        for group in range(4):
            numbers = range(5 * group, 5 * group + 5)
            for number in numbers:
                file.create_dataset(names[number], (ROWS,), "i4", chunks=(step,))
            for first in range(0, ROWS, step):
                for number in numbers:
                    file[names[number]][first : first + step] = number + first
    rounds = {}
    for key, index in (("many.h5", ...), ("many-rows.h5", slice(0, ROWS - 1))):
        server.put("tests", key, path.read_bytes() + key.encode())  # a new object: nothing of it is cached
        file = open_s3(key)
        for number, found in enumerate(file.read_many([(name, index) for name in names])):
            expected = number + np.arange(ROWS) // step * step
            np.testing.assert_array_equal(found, expected[index])
        stats = file.stats()
        assert stats is not None
        assert stats.bytes < 1.2 * 20 * 4 * ROWS
        rounds[key] = stats.rounds
    assert rounds["many.h5"] < rounds["many-rows.h5"]


def test_a_page_of_structure_comes_in_part(server: s3server.Server, tmp_path: Path, open_s3: OpenS3) -> None:
    path = tmp_path / "paged.h5"
    with h5py.File(path, "w", fs_strategy="page", fs_page_size=4 << 20) as file:
        for number in range(40):
            group = file.create_group(f"g{number}")
            group.create_dataset("x", data=values(number)[:1000], chunks=(100,), compression="gzip")
    server.put("tests", "paged.h5", path)
    file = open_s3("paged.h5")
    np.testing.assert_array_equal(file["g39/x"][...], values(39)[:1000])
    stats = file.stats()
    assert stats is not None
    assert stats.bytes < 2 << 20
    assert stats.rounds <= 4
    for number in range(40):
        np.testing.assert_array_equal(file[f"g{number}/x"][...], values(number)[:1000])
