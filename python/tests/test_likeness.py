"""Compatibility of our objects with h5py's: ``isinstance``, and the low-level calls of ``id``."""

from __future__ import annotations

import collections.abc
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import UnsupportedError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["bands/red"] = np.arange(6.0)
        file.create_dataset("bands/nir", data=np.arange(60), chunks=(10,), compression="gzip")
        file["type"] = np.dtype("i4")
        file["soft"], file["outer"] = h5py.SoftLink("/bands/red"), h5py.ExternalLink("b.h5", "/x")
        file.attrs["title"] = "x"
    return path


def _objects(file: Any) -> dict[str, Any]:
    return {
        "file": file,
        "group": file["bands"],
        "dataset": file["bands/red"],
        "type": file["type"],
        "attributes": file.attrs,
        "soft": file.get("soft", getlink=True),
        "external": file.get("outer", getlink=True),
        "hard": file.get("bands", getlink=True),
    }


CLASSES = [
    "HLObject",
    "File",
    "Group",
    "Dataset",
    "Datatype",
    "AttributeManager",
    "SoftLink",
    "ExternalLink",
    "HardLink",
]


@pytest.mark.parametrize("mode", ["r", "w"])
def test_isinstance_answers_as_h5py(path: Path, tmp_path: Path, mode: str) -> None:
    theirs = _objects(h5py.File(path))
    if mode == "r":
        ours = _objects(hyperchunk.open(path))
    else:
        with hyperchunk.open(tmp_path / "w.h5", "w") as file:
            file["bands/red"], file["type"] = np.arange(6.0), np.dtype("i4")
            file["soft"], file["outer"] = hyperchunk.SoftLink("/bands/red"), hyperchunk.ExternalLink("b.h5", "/x")
            ours = _objects(file)
    for name, found in ours.items():
        for wanted in CLASSES:
            of = getattr(h5py, wanted)
            assert isinstance(found, of) == isinstance(theirs[name], of), (name, wanted)
        assert isinstance(found, collections.abc.Mapping) == isinstance(theirs[name], collections.abc.Mapping)
        assert isinstance(found, getattr(hyperchunk, type(found).__name__, type(found)))
        assert not isinstance(found, h5py.Empty)


def test_walkers_of_programs_find_all(path: Path) -> None:
    def datasets(file: Any) -> list[str]:
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        return found

    def tree(group: Any) -> dict[str, Any]:
        return {
            name: tree(item) if isinstance(item, h5py.Group) else item[()].tolist()
            for name, item in group.items()
            if isinstance(item, h5py.Group | h5py.Dataset)
        }

    with h5py.File(path) as theirs, hyperchunk.open(path) as ours:
        assert datasets(ours) == datasets(theirs) == ["bands/nir", "bands/red"]
        assert tree(ours["bands"]) == tree(theirs["bands"])


def test_what_is_ours_stays_ours(path: Path) -> None:
    file = hyperchunk.open(path)
    data = file["bands/red"]
    for found in (file, data, file["bands"]):
        assert type(pickle.loads(pickle.dumps(found))) is type(found)
        assert type(copy.copy(found)) is type(found)
    assert (np.asarray(data) == np.arange(6)).all()
    assert (np.asarray(pickle.loads(pickle.dumps(data))) == np.arange(6)).all()


def test_without_h5py(path: Path) -> None:
    program = (
        "import sys, hyperchunk; f = hyperchunk.open(sys.argv[1]); d = f['bands/red']; "
        "assert isinstance(d, hyperchunk.Dataset) and d.__class__ is hyperchunk.Dataset; "
        "assert 'h5py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


def test_low_level_calls(path: Path) -> None:
    with h5py.File(path) as theirs, hyperchunk.open(path) as ours:
        a, b = theirs["bands/nir"].id, ours["bands/nir"].id
        assert a.get_num_chunks() == b.get_num_chunks() == 6
        for number in range(6):
            assert tuple(a.get_chunk_info(number)) == tuple(b.get_chunk_info(number))
            assert tuple(a.get_chunk_info_by_coord((number * 10,))) == tuple(b.get_chunk_info_by_coord((number * 10,)))
            assert a.read_direct_chunk((number * 10,)) == b.read_direct_chunk((number * 10,))
        assert a.get_storage_size() == b.get_storage_size()
        assert (a.shape, a.rank, a.dtype) == (b.shape, b.rank, b.dtype)
        seen: list[tuple[Any, ...]] = []
        assert b.chunk_iter(lambda chunk: seen.append(tuple(chunk))) is None
        assert len(seen) == 6
        assert b.chunk_iter(lambda chunk: chunk.size) == seen[0][3]
        assert theirs.id.name == ours.id.name
        assert ours["bands"].id == ours["/bands"].id
        assert ours["bands"].id != ours["bands/nir"].id
        assert len({ours["bands"].id, ours["/bands"].id}) == 1
        for call in ("get_create_plist", "get_access_plist", "set_extent", "get_type"):
            with pytest.raises(UnsupportedError, match=call):
                getattr(b, call)
        with pytest.raises(ValueError, match="6 are stored"):
            b.get_chunk_info(6)
        with pytest.raises(TypeError, match="not stored in chunks"):
            ours["bands/red"].id.get_num_chunks()
    assert not b.valid
    assert not b


def test_values_of_attributes_and_elements_are_h5pys_too(path: Path) -> None:
    """References and empty values, which readers of MATLAB and NeXus files ask about."""
    with h5py.File(path, "r+") as file:
        file["reference"] = file["bands/red"].ref
        file["region"] = file["bands/red"].regionref[1:3]
        file["list"] = np.array([file["bands"].ref], h5py.ref_dtype)
        file["null"] = h5py.Empty("f4")
        file.attrs["null"] = h5py.Empty("S3")
        file.attrs["reference"] = file["bands"].ref
    theirs, ours = h5py.File(path), hyperchunk.open(path)

    def values(file: Any) -> dict[str, Any]:
        found = {name: file[name][()] for name in ("reference", "region", "null")}
        return found | {"list": file["list"][0], **{f"@{name}": file.attrs[name] for name in ("null", "reference")}}

    for name, found in values(ours).items():
        for wanted in ("Reference", "RegionReference", "Empty", "Dataset"):
            of = getattr(h5py, wanted)
            assert isinstance(found, of) == isinstance(values(theirs)[name], of), (name, wanted)
        assert isinstance(found, getattr(hyperchunk, type(found).__name__))
        for same in (copy.copy(found), pickle.loads(pickle.dumps(found))):
            assert same == found
            assert type(same) is type(found)
    with h5py.File(path.with_name("copy.h5"), "w") as file:
        file.attrs["null"], file["null"] = ours.attrs["null"], ours["null"][()]
        assert file.attrs["null"] == h5py.Empty("S3")
        assert file["null"].shape is None


def test_storage_of_datasets_without_chunks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["written"], file["texts"], file["null"] = np.arange(3), ["a", "b"], h5py.Empty("f4")
        file.create_dataset("never", (10,), "f8")
        file.create_dataset("filled", (10,), "f8", fillvalue=3)
    with h5py.File(tmp_path / "a.h5") as theirs, hyperchunk.open(tmp_path / "a.h5") as ours:
        for name in theirs:
            assert ours[name].id.get_storage_size() == theirs[name].id.get_storage_size(), name
