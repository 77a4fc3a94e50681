"""The filter Snappy (32003): our implementation, and through libhdf5 with our plugin."""

import struct
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk.exceptions import FilterError

SNAPPY = 32003


def values(rows: int = 300, columns: int = 200, dtype: str = "i4") -> np.ndarray:
    """Returns values of which some compress, and some do not."""
    dice = np.random.default_rng(rows)
    found = np.add.outer(np.arange(rows) // 7, np.arange(columns) % 5).astype(dtype)
    found[rows // 2 :] = dice.integers(0, 2**30, found[rows // 2 :].shape)
    return found


def varint(value: int) -> bytes:
    """Encodes a number as in Snappy."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def stored_plainly(data: bytes, block: int) -> bytes:
    """Encodes a chunk by the specification with literals only, as another program might."""
    found = varint(len(data)) + varint(block)
    for start in range(0, len(data), block):
        piece = data[start : start + block]
        stream = b"".join(
            bytes([61 << 2]) + struct.pack("<H", len(part) - 1) + part
            for part in (piece[at : at + 60_000] for at in range(0, len(piece), 60_000))
        )
        found += struct.pack("<I", len(stream)) + stream
    return found


@pytest.mark.parametrize(
    "filters", ["snappy", ["snappy"], [SNAPPY], [(SNAPPY, [1024])], ["shuffle", "snappy", "fletcher32"]]
)
@pytest.mark.parametrize("dtype", ["i4", ">f8", "u1"])
def test_ours_is_read_by_h5py(tmp_path: Path, filters: object, dtype: str) -> None:
    data = values(dtype=dtype)
    with hyperchunk.open(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=data, chunks=(77, 200), filters=filters)
    with h5py.File(tmp_path / "f.h5") as file:
        assert SNAPPY in [file["d"].id.get_create_plist().get_filter(n)[0] for n in range(len(filters_of(file["d"])))]
        np.testing.assert_array_equal(file["d"][...], data)
        np.testing.assert_array_equal(file["d"][70:90, 3], data[70:90, 3])
    with hyperchunk.open(tmp_path / "f.h5") as file:
        np.testing.assert_array_equal(file["d"][...], data)


def filters_of(dataset: h5py.Dataset) -> list[int]:
    """Returns the numbers of a dataset's filters."""
    plist = dataset.id.get_create_plist()
    return [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]


@pytest.mark.parametrize("options", [None, (1024,)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_h5py_writes_what_we_write(tmp_path: Path, options: tuple[int, ...] | None, shuffle: bool) -> None:
    data = values()
    given = {"compression": SNAPPY, "compression_opts": options, "shuffle": shuffle}
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file.create_dataset("d", data=data, chunks=(100, 200), **given)
    with hyperchunk.open(tmp_path / "ours.h5", "w") as file:
        file.create_dataset("d", data=data, chunks=(100, 200), **given)
    with hyperchunk.open(tmp_path / "theirs.h5") as theirs, hyperchunk.open(tmp_path / "ours.h5") as ours:
        np.testing.assert_array_equal(theirs["d"][...], data)
        for row in range(0, 300, 100):
            assert theirs["d"].read_chunk((row, 0)) == ours["d"].read_chunk((row, 0))


def test_chunks_that_do_not_become_smaller(tmp_path: Path) -> None:
    noise = np.frombuffer(np.random.default_rng(1).bytes(40_000), "u1")
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        # Optional: stored unfiltered. Not optional: stored filtered anyway, though larger.
        file.create_dataset("optional", data=noise, chunks=(40_000,), compression=SNAPPY)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((40_000,))
        plist.set_filter(SNAPPY, 0)
        space = h5py.h5s.create_simple((40_000,))
        made = h5py.h5d.create(file.id, b"always", h5py.h5t.STD_U8LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, noise)
    with hyperchunk.open(tmp_path / "theirs.h5") as file:
        assert file["optional"].read_chunk((0,)) == (1, noise.tobytes())
        mask, stored = file["always"].read_chunk((0,))
        assert mask == 0
        assert len(stored) > 40_000
        for name in ("optional", "always"):
            np.testing.assert_array_equal(file[name][...], noise)
    with h5py.File(tmp_path / "theirs.h5") as file:
        np.testing.assert_array_equal(file["always"][...], noise)


@pytest.mark.parametrize("block", [1000, 32_768, 65_536, 1 << 20])
def test_chunks_of_another_program(tmp_path: Path, block: int) -> None:
    data = values(200, 256)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        made = file.create_dataset("d", data.shape, data.dtype, chunks=(100, 256), compression=SNAPPY)
        for row in (0, 100):
            made.id.write_direct_chunk((row, 0), stored_plainly(data[row : row + 100].tobytes(), block))
        np.testing.assert_array_equal(made[...], data)
    with hyperchunk.open(tmp_path / "f.h5") as file:
        np.testing.assert_array_equal(file["d"][...], data)


DAMAGE = {
    "cut": lambda stored: stored[:-10],
    "longer": lambda stored: stored + b"\0",
    "size": lambda stored: b"\xff\xff\xff\xff\x0f" + stored[3:],
    "too large": lambda stored: b"\xff\xff\xff\xff\xff\x0f" + stored,
    "block": lambda stored: stored[:3] + b"\0" + stored[6:],
    "raw": lambda stored: varint(80_000) + b"\xf0" * 9,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_an_error_for_all(tmp_path: Path, kind: str) -> None:
    data = values(100, 200)
    stored = DAMAGE[kind](stored_plainly(data.tobytes(), 32_768))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        made = file.create_dataset("d", data.shape, data.dtype, chunks=data.shape, compression=SNAPPY)
        made.id.write_direct_chunk((0, 0), stored)
    with hyperchunk.open(tmp_path / "f.h5") as file, pytest.raises(FilterError, match=r"[Ss]nappy"):
        file["d"][...]
    with h5py.File(tmp_path / "f.h5") as file, pytest.raises(OSError, match=r"[Ss]nappy"):
        file["d"][...]


def test_other_processes_find_the_plugin(tmp_path: Path) -> None:
    data = values()
    with hyperchunk.open(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=data, filters="snappy")
    program = "import h5py, sys; print(h5py.File(sys.argv[1])['d'][...].sum())"
    with_plugin = {"HDF5_PLUGIN_PATH": str(hyperchunk.plugins.folder())}
    command = [sys.executable, "-c", program, str(tmp_path / "f.h5")]
    done = subprocess.run(command, env=with_plugin, capture_output=True, text=True, check=True)
    assert int(done.stdout) == data.sum()
    failed = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert failed.returncode != 0


def test_packed_and_listed(tmp_path: Path) -> None:
    data = values()
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["d"] = data
    done = subprocess.run(
        [HYPERCHUNK, "pack", "plain.h5", "packed.h5", "--filter", "/d=snappy", "--verify"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [HYPERCHUNK, "ls", "-l", "packed.h5"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "snappy" in listed.stdout
    with h5py.File(tmp_path / "packed.h5") as file:
        np.testing.assert_array_equal(file["d"][...], data)
