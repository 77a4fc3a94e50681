"""Edits of objects with few and short messages, whose headers are the smallest: each is right, or refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import _core

DTYPES: dict[str, Any] = {
    "i1": "i1",
    "i4": "i4",
    "f8": "f8",
    "S3": "S3",
    "compound": [("a", "i1")],
    "enum": h5py.enum_dtype({"A": 1}, "i1"),
    "string": h5py.string_dtype(),
}


def _use_without_a_name(file: Any, name: str) -> None:
    if isinstance(file[name], hyperchunk.Datatype):
        file.create_dataset("user", (2,), dtype=file[name])
        del file[name]


CHANGES: dict[str, Callable[[Any, str], None]] = {
    "move": lambda file, name: file.move(name, "moved"),
    "link": lambda file, name: file.__setitem__("second", file[name]),
    "reference": lambda file, name: file.__setitem__("reference", file[name].ref),
    "reference in an attribute": lambda file, name: file.attrs.__setitem__("reference", file[name].ref),
    "attribute": lambda file, name: file[name].attrs.__setitem__("a", 1),
    "attributes": lambda file, name: file[name].attrs.update({f"a{i}": np.arange(i) for i in range(12)}),
    "removal": lambda file, name: file.__delitem__(name),
    "use without a name": _use_without_a_name,
}


def _make(file: Any) -> None:
    for name, dtype in DTYPES.items():
        file[f"type_{name}"] = np.dtype(dtype)
    file.create_group("group")
    file["scalar"] = np.int8(1)
    file.create_dataset("empty", (0,), "i1")
    file.create_dataset("typed", (2,), dtype=file["type_i4"])


def _check(path: Path) -> None:
    """Reads everything with h5py, and has the file checked."""
    with h5py.File(path) as file:

        def read(_: str, found: Any) -> None:
            dict(found.attrs)
            if isinstance(found, h5py.Dataset):
                found[()]

        file.visititems(read)
        for name in file:
            assert file[name].name == f"/{name}"
    with hyperchunk.open(path) as file:
        for name in file:
            dict(file[name].attrs)


FILES: dict[str, Callable[[Path], Any]] = {
    "h5py earliest": lambda path: h5py.File(path, "w", libver="earliest"),
    "h5py v108": lambda path: h5py.File(path, "w", libver="v108"),
    "h5py latest": lambda path: h5py.File(path, "w", libver="latest"),
    "hyperchunk": lambda path: hyperchunk.open(path, "w"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("made", FILES)
def test_change_of_each_object(tmp_path: Path, made: str, change: str) -> None:
    path = tmp_path / "a.h5"
    with FILES[made](path) as file:
        _make(file)
        names = list(file)
    before = path.read_bytes()
    for name in names:
        path.write_bytes(before)
        with hyperchunk.open(path, "r+") as file:
            CHANGES[change](file, name)
        _check(path)
        with hyperchunk.open(path, "r+") as file:
            file["later"] = np.arange(1000)
            for found in list(file):
                file[found].attrs["later"] = 1
        _check(path)


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
@pytest.mark.parametrize("change", CHANGES)
def test_change_of_a_new_object(tmp_path: Path, mode: str, change: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["old"] = np.arange(10)
    with hyperchunk.open(path, mode) as file:
        _make(file)
        for number, name in enumerate(list(file)):
            if name == "old":
                continue
            CHANGES[change](file, name)
            for made in ("moved", "second", "reference", "user"):
                if made in file:
                    file.move(made, f"{made}_{number}")
    _check(path)


def test_commands_on_a_small_type(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.h5")
    with hyperchunk.open(path, "w") as file:
        file["T"] = np.dtype("i4")
    for words in (
        ["mv", path, "/T", "/K"],
        ["cp", f"{path}:/K", f"{path}:/L"],
        ["ln", path, "/L", "/M"],
        ["rm", path, "/L"],
    ):
        assert _core.run_command(["hyperchunk", *words]) == 0
        _check(Path(path))
    with h5py.File(path) as file:
        assert {name: file[name].dtype for name in file} == {"K": np.dtype("i4"), "M": np.dtype("i4")}


def test_links_that_hdf5_cannot_hold_are_refused_by_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w") as file:
        file["x"] = 1
    before = path.read_bytes()
    assert _core.run_command(["hyperchunk", "ln", "-s", str(path), "", "/l"]) == 1
    assert path.read_bytes() == before


def test_recovery_after_a_refused_link(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h5"
    file: Any = hyperchunk.open(path, "w")
    file["x"] = np.arange(1000)
    with pytest.raises(hyperchunk.HyperchunkError, match="soft link"):
        file["l"] = hyperchunk.SoftLink("")
    file._opened._close.detach()
    del file
    capfd.readouterr()
    assert _core.run_command(["hyperchunk", "recover", str(path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["lost"] == []
    with h5py.File(path) as made:
        assert np.array_equal(made["x"][()], np.arange(1000))
