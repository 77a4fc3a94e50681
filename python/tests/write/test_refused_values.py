"""Values that a datatype cannot hold: refused where h5py refuses them, and stored as by h5py elsewhere."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

PAIR = np.dtype([("n", "i4"), ("t", h5py.string_dtype())])
TYPES = {
    "float": "f8",
    "byte": "u1",
    "complex": "c16",
    "ascii": "S5",
    "utf-8": h5py.string_dtype("utf-8", 5),
    "vlen ascii": h5py.string_dtype("ascii"),
    "vlen": h5py.string_dtype(),
    "pair": PAIR,
    "numbers": np.dtype([("a", "i4"), ("b", "f4")]),
}
VALUES: list[Any] = [
    np.array([1 + 2j]),
    [1 + 2j],
    np.complex64(3j),
    5,
    2.5,
    np.float32(0.5),
    np.bytes_(b"ab\0c"),
    b"ab\0c",
    np.bytes_(b"abc"),
    b"abcde",
    "\u00e9",
    "text",
    (7, "x"),
    np.array([(7, b"y")], [("n", "i2"), ("t", "S1")]),
]
#: What differs, as kinds and positions of values, with the reason.
KNOWN = {
    ("float", 2): "NumPy drops the imaginary part, with a warning",
    ("byte", 2): "as before",
    ("numbers", 0): "h5py finds no member of these names, and leaves the element as it was",
    ("numbers", 2): "as before",
    ("numbers", 5): "NumPy gives each member the number: here only for Python's numbers",
    ("complex", 5): "a NumPy scalar is not converted to complex numbers",
}


def outcome(module: ModuleType, path: Path, kind: str, value: Any) -> Any:
    """Returns the stored element, or that the value was refused."""
    with h5py.File(path, "w") as file:
        file.create_dataset("d", (1,), TYPES[kind])
    opening = h5py.File if module is h5py else hyperchunk.open
    with opening(path, "r+") as file:
        try:
            file["d"][:] = value
        except (TypeError, ValueError, OSError):
            return "refused"
    with h5py.File(path) as file:
        return repr(file["d"][0])


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("number", range(len(VALUES)))
@pytest.mark.parametrize("kind", TYPES)
def test_values_as_by_h5py(tmp_path: Path, kind: str, number: int) -> None:
    value = VALUES[number]
    theirs, ours = (outcome(module, tmp_path / "a.h5", kind, value) for module in (h5py, hyperchunk))
    assert theirs == ours or (ours == "refused" and (kind, number) in KNOWN), (value, theirs, ours)


@pytest.mark.parametrize("kind", ["float", "byte"])
def test_complex_numbers_are_not_cut(tmp_path: Path, kind: str) -> None:
    values = np.array([1 + 2j, 3j, 4])
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("d", (3,), TYPES[kind])
        for write in (
            lambda: data.write_direct(values),
            lambda: file.create_dataset("n", data=values, dtype=TYPES[kind]),
            lambda: file.attrs.create("a", values, dtype=TYPES[kind]),
        ):
            with pytest.raises(TypeError, match=r"take \.real or \.imag"):
                write()
        assert "n" not in file
        data[:] = values.real
    with h5py.File(tmp_path / "a.h5") as read:
        assert read["d"][...].tolist() == [1, 0, 4]


def test_a_group_on_the_way_tracks_order_as_its_parent_does(tmp_path: Path) -> None:
    found = []
    for opening in (h5py.File, hyperchunk.open):
        with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
            file.create_group("t", track_order=True)
            file.create_group("plain", track_order=False)
            file["z"] = 1
        with opening(tmp_path / "a.h5", "r+") as file:
            file.create_group("a/b/c", track_order=False)
            file["t/k/q"] = 1
            file["t/k/b"] = 1
            file["plain/k/q"] = 1
            file.create_dataset("t/d/e/x", data=1)
            file["t/s/x"] = (h5py if opening is h5py.File else hyperchunk).SoftLink("/t")
            file.move("z", "t/mm/z")
        with h5py.File(tmp_path / "a.h5") as file:
            names = ("a", "a/b", "t/k", "t/mm", "plain/k", "t/d", "t/d/e", "t/s")
            tracked = [file[name].id.get_create_plist().get_link_creation_order() for name in names]
            found.append((tracked, list(file["t/k"])))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_an_empty_file_becomes_an_hdf5_file(tmp_path: Path, mode: Any) -> None:
    for opening in (h5py.File, hyperchunk.open):
        path = tmp_path / "a.h5"
        path.write_bytes(b"")
        with opening(path, mode) as file:
            file["x"] = 1
        with h5py.File(path) as read:
            assert read["x"][()] == 1
    with tempfile.NamedTemporaryFile(dir=tmp_path, suffix=".h5") as scratch:
        with hyperchunk.open(scratch.name, "a") as file:
            file["x"] = 2
        with h5py.File(scratch.name) as read:
            assert read["x"][()] == 2


def test_changes_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as made:
        made["x"] = 1
    before = path.read_bytes()
    file = hyperchunk.open(path, "r+")
    file["x"][()] = 2
    file.create_group("g" * 50).attrs["a"] = np.arange(1000)
    file.discard()
    assert not file
    file.discard()
    assert path.read_bytes()[: len(before)] == before
    with h5py.File(path) as read:
        assert list(read) == ["x"]
        assert read["x"][()] == 1


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable(tmp_path: Path) -> None:
    path = tmp_path / "run" / "a.h5"
    path.parent.mkdir()
    with h5py.File(path, "w") as made:
        made["x"] = 1
    path.parent.chmod(0o555)
    file = hyperchunk.open(path, "r+")
    file.attrs["a"] = "q" * 3000
    with pytest.raises(PermissionError, match=r"change its permissions and commit again, or give up"):
        file.close()
    path.parent.chmod(0o755)
    file.close()
    with h5py.File(path) as read:
        assert len(read.attrs["a"]) == 3000
