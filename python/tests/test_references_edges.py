"""References for kerchunk and VirtualiZarr: fill values, complex numbers, anonymous axes, the order of entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

SHAPES = {"x": (4,), "same": (4,), "two": (4, 6), "square": (5, 5), "g/y": (4,), "g/z": (6, 4)}


@pytest.fixture
def written(tmp_path: Path) -> tuple[dict[str, Any], str]:
    path = tmp_path / "k.h5"
    with h5py.File(path, "w") as file:
        for name, shape in SHAPES.items():
            file.create_dataset(name, data=np.zeros(shape, "f4"), chunks=tuple(2 for _ in shape))
        for kind in ("<c8", ">c8", "<c16", ">c16"):
            file[f"complex/{kind[1:]}{'big' if kind[0] == '>' else 'little'}"] = np.zeros(4, kind)
        file.create_dataset("filled", data=np.zeros(4), chunks=(2,), fillvalue=9)
        file.create_dataset("zero", data=np.zeros(4, "i2"), chunks=(2,), fillvalue=0)
        file["pair"] = np.zeros(3, [("r", "f8"), ("i", "f4")])
    hyperchunk.index(path, kerchunk=tmp_path / "k.json", virtualizarr=tmp_path / "v.json", name="file:///k.h5")
    refs = json.loads((tmp_path / "k.json").read_text())["refs"]
    return {key: json.loads(value) if key.endswith((".zarray", ".zattrs")) else value for key, value in refs.items()}, (
        tmp_path / "v.json"
    ).read_text()


def test_no_fill_value_where_none_is_defined(written: tuple[dict[str, Any], str]) -> None:
    refs, _ = written
    for name in SHAPES:
        assert refs[f"{name}/.zarray"]["fill_value"] is None
    assert refs["filled/.zarray"]["fill_value"] == 9


def test_complex_numbers(written: tuple[dict[str, Any], str]) -> None:
    refs, _ = written
    found = {
        key.split("/")[1]: value["dtype"]
        for key, value in refs.items()
        if key.startswith("complex/") and "zarray" in key
    }
    assert found == {"c8little": "<c8", "c8big": ">c8", "c16little": "<c16", "c16big": ">c16"}
    assert refs["pair/.zarray"]["dtype"] == [["r", "<f8"], ["i", "<f4"]]


def test_axes_without_names_have_no_conflicting_lengths(written: tuple[dict[str, Any], str]) -> None:
    refs, _ = written
    lengths: dict[tuple[str, str], int] = {}
    for name, shape in SHAPES.items():
        names = refs[f"{name}/.zattrs"]["_ARRAY_DIMENSIONS"]
        assert len(set(names)) == len(shape)
        for axis, length in zip(names, shape, strict=True):
            group = name.rpartition("/")[0]
            assert lengths.setdefault((group, axis), length) == length
    assert refs["x/.zattrs"]["_ARRAY_DIMENSIONS"] == refs["same/.zattrs"]["_ARRAY_DIMENSIONS"]


def test_entries_of_manifests_are_in_the_order_of_virtualizarr(written: tuple[dict[str, Any], str]) -> None:
    _, text = written
    manifests = json.loads(text)
    entries = [entry for array in manifests.values() for entry in array["manifest"].values()]
    assert len(entries) > 20
    assert all(list(entry) == ["path", "offset", "length"] for entry in entries)


def test_fill_value_beside_another_marker_of_missing_data(tmp_path: Path) -> None:
    """Zarr's version 2 has one value for both: where both occur, the dataset is left out with a note."""
    path = tmp_path / "k.h5"
    with h5py.File(path, "w") as file:
        for name, shape in {"whole": (4,), "holes": (8,), "same": (8,)}.items():
            data = file.create_dataset(name, shape, "i4", chunks=(2,), fillvalue=5)
            data.attrs["_FillValue"] = np.array([5 if name == "same" else 9], "i4")
            data[:4] = [9, 1, 2, 3]
        file.create_dataset("zeros", (8,), "i4", chunks=(2,))[:2] = [9, 1]
        file["zeros"].attrs["_FillValue"] = np.int32(9)
    told = hyperchunk.index(
        path, kerchunk=tmp_path / "k.json", virtualizarr=tmp_path / "v.json", name=str(path), overwrite=True
    )
    refs = json.loads((tmp_path / "k.json").read_text())["refs"]
    found = {key.split("/")[0]: json.loads(refs[key])["fill_value"] for key in refs if key.endswith(".zarray")}
    assert found == {"whole": 9, "same": 5, "zeros": None}
    notes = {left["path"]: left["why"] for left in told["not_in_references"]}
    assert list(notes) == ["/holes"]
    assert "unwritten elements are 5 and the attribute _FillValue is 9" in notes["/holes"]
    manifests = json.loads((tmp_path / "v.json").read_text())
    assert {name: array["zarray"]["fill_value"] for name, array in manifests.items()} == {
        "whole": 5,
        "holes": 5,
        "same": 5,
        "zeros": None,
    }


def test_datetimes_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "k.h5"
    times = np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[D]")
    with h5py.File(path, "w") as file:
        for name in ("<M8[ns]", ">M8[s]", "<M8[D]", "<m8[s]"):
            values = times.astype(name) if "M" in name else np.array([1, 2, 3], name)
            file[name] = values.astype(h5py.opaque_dtype(values.dtype))
        file["opaque"] = np.array([b"ab", b"cd"], "V2")
    hyperchunk.index(path, kerchunk=tmp_path / "k.json", name=str(path), overwrite=True)
    refs = json.loads((tmp_path / "k.json").read_text())["refs"]
    found = {key.split("/")[0]: json.loads(refs[key])["dtype"] for key in refs if key.endswith(".zarray")}
    assert found == {name: name for name in found if name != "opaque"} | {"opaque": "|V2"}
    assert len(found) == 5
