"""MATLAB files (v7.3): values of files that MATLAB wrote, and of files in its form that h5py writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.frames.matlab import Opaque, read

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
OF_MATLAB = CORPUS / "files" / "JuliaIO+MAT.jl" / "test" / "v7.3"

# What MATLAB shows of these files.
EXPECTED: dict[str, dict[str, Any]] = {
    "array.mat": {
        "a1x2": np.array([1.0, 2.0]),
        "a2x1": np.array([1.0, 2.0]),
        "a2x2": np.array([[1.0, 3.0], [4.0, 2.0]]),
        "a2x2x2": np.array([[[1.0, 1.0], [3.0, 2.0]], [[4.0, 3.0], [2.0, 4.0]]]),
        "empty": np.zeros((0, 0)),
        "string": "string",
    },
    "cell.mat": {"cell": [1.0, 2.01, "string", ["string1", "string2"]]},
    "string.mat": {
        "accented_string": "thé qüîck browñ fòx",
        "cell_strings": ["this is a string", "this is another string"],
        "concatenated_strings": ["this is a string      ", "this is another string"],
        "empty_string": "",
        "simple_string": "the quick brown fox",
    },
    "logical.mat": {
        "logical": np.False_,
        "logical_mat": np.array([[True, False, False], [False, True, False], [True, False, False]]),
    },
    "old_class.mat": {"tc_old": Opaque("TestClassOld", {"foo": np.zeros((0, 0))})},
    "corrupted_subsystem.mat": {"var": Opaque("datetime", None)},
}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, Opaque):
        return (
            isinstance(found, Opaque)
            and found.class_name == expected.class_name
            and same(found.properties, expected.properties)
        )
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(same(found[name], expected[name]) for name in found)
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, np.ndarray | np.generic):
        return found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected)
    return (type(found) is type(expected) and found == expected) or (isinstance(expected, float) and found == expected)


@pytest.mark.skipif(not OF_MATLAB.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_matlab(name: str) -> None:
    found = hyperchunk.frames.read(hyperchunk.open(OF_MATLAB / name))
    assert same(found, EXPECTED[name]), found


@pytest.mark.skipif(not OF_MATLAB.is_dir(), reason="the corpus is not here")
def test_equal_to_mat73() -> None:
    mat73 = pytest.importorskip("mat73")
    with h5py.File(OF_MATLAB / "partial.mat") as file:
        expected = {name: file[name][()].T for name in ("var1", "var2")}
    found = hyperchunk.frames.read(hyperchunk.open(OF_MATLAB / "partial.mat"))
    theirs = mat73.loadmat(str(OF_MATLAB / "partial.mat"))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        np.testing.assert_array_equal(theirs[name], values)


class Writer:
    """Writes values in MATLAB's form."""

    def __init__(self, path: Path) -> None:
        self.file = h5py.File(path, "w", userblock_size=512)
        self.references = self.file.create_group("#refs#")

    def put(self, parent: Any, name: str, data: Any, kind: str, **attributes: Any) -> Any:
        made = parent.create_dataset(name, data=data)
        made.attrs["MATLAB_class"] = np.bytes_(kind)
        made.attrs.update(attributes)
        return made

    def text(self, parent: Any, name: str, value: str) -> Any:
        units = np.frombuffer(value.encode("utf-16-le"), "u2").reshape(-1, 1)
        return self.put(parent, name, units, "char", MATLAB_int_decode=np.int32(2))

    def references_to(self, *made: Any) -> np.ndarray:
        return np.array([[one.ref] for one in made], h5py.ref_dtype)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.mat"
    writer = Writer(path)
    file, more = writer.file, writer.references
    writer.put(file, "complex", _complex(), "double")
    writer.text(file, "emoji", "a😀b")
    one, two = writer.text(more, "a", "x"), writer.put(more, "b", np.array([[5]], "i4"), "int32")
    cell = writer.put(file, "cells", writer.references_to(one, two, one), "cell")
    nested = file.create_group("nested")
    nested.attrs["MATLAB_class"] = np.bytes_("struct")
    fields = np.empty(2, "O")
    fields[:] = [np.array([b"z"], "S1"), np.array([b"c"], "S1")]
    nested.attrs.create("MATLAB_fields", fields, dtype=h5py.vlen_dtype("S1"))
    writer.put(nested, "c", writer.references_to(one), "cell")
    writer.put(nested, "z", np.array([[1.5]]), "double")
    array = file.create_group("array")
    array.attrs["MATLAB_class"] = np.bytes_("struct")
    array["f"], array["g"] = writer.references_to(one, two), writer.references_to(two, one)
    sparse = file.create_group("sparse")
    sparse.attrs["MATLAB_class"], sparse.attrs["MATLAB_sparse"] = np.bytes_("double"), np.uint64(3)
    sparse["data"], sparse["ir"], sparse["jc"] = [1.0, 2.0], np.array([0, 2], "u8"), np.array([0, 1, 1, 2], "u8")
    writer.put(file, "no_struct", np.array([0, 0], "u8"), "struct", MATLAB_empty=np.uint8(1))
    writer.put(file, "no_cell", np.array([0, 0], "u8"), "cell", MATLAB_empty=np.uint8(1))
    writer.put(file, "empty", np.array([0, 3], "u8"), "single", MATLAB_empty=np.uint8(1))
    assert cell is not None
    file.close()
    return path


def _complex() -> np.ndarray:
    made = np.zeros((2, 1), [("real", "f8"), ("imag", "f8")])
    made["real"], made["imag"] = [[1], [3]], [[2], [-4]]
    return made


def test_values(path: Path) -> None:
    found = hyperchunk.frames.read(hyperchunk.open(path))
    assert found["complex"].tolist() == [1 + 2j, 3 - 4j]
    assert found["emoji"] == "a😀b"
    assert found["cells"] == ["x", 5, "x"]
    assert found["nested"] == {"z": 1.5, "c": ["x"]}
    assert list(found["nested"]) == ["z", "c"]
    assert found["array"] == [{"f": "x", "g": 5}, {"f": 5, "g": "x"}]
    assert (found["no_struct"], found["no_cell"]) == ([], [])
    assert (found["empty"].shape, found["empty"].dtype) == ((0, 3), np.float32)
    sparse = found["sparse"]
    dense = sparse.to_numpy() if hasattr(sparse, "to_numpy") else sparse.toarray()
    assert dense.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 2]]
    assert read(hyperchunk.open(path)["complex"], squeeze=False).shape == (1, 2)


def test_cells_that_contain_themselves(tmp_path: Path) -> None:
    path = tmp_path / "m.mat"
    writer = Writer(path)
    cell = writer.file.create_dataset("c", (1, 1), h5py.ref_dtype)
    cell.attrs["MATLAB_class"] = np.bytes_("cell")
    cell[0, 0] = cell.ref
    writer.file.close()
    with pytest.raises(hyperchunk.HyperchunkError, match="contains itself"):
        hyperchunk.frames.read(hyperchunk.open(path))


def test_cells_that_share_their_contents(tmp_path: Path) -> None:
    """Forty cells, each with the former one twice: 2**40 paths, and forty values."""
    path = tmp_path / "m.mat"
    writer = Writer(path)
    last = writer.put(writer.references, "0", np.array([[1.0]]), "double")
    for number in range(1, 41):
        last = writer.put(writer.references, str(number), writer.references_to(last, last), "cell")
    writer.put(writer.file, "c", writer.references_to(last), "cell")
    writer.file.close()
    found = hyperchunk.frames.read(hyperchunk.open(path))["c"]
    assert found[0][0] is found[0][1]


def test_objects(tmp_path: Path) -> None:
    """A string, a time, a duration, categories and a table, as MATLAB's subsystem stores them."""
    path = tmp_path / "m.mat"
    writer = Writer(path)
    subsystem(
        writer,
        {
            "text": ("string", {"any": _string(["one", "zwölf"])}),
            "time": ("datetime", {"data": np.array([[(1.5e12, 0.25)]], [("real", "f8"), ("imag", "f8")])}),
            "span": ("duration", {"millis": np.array([[1500.0], [np.nan]])}),
        },
    )
    writer.file.close()
    found = hyperchunk.frames.read(hyperchunk.open(path))
    assert found["text"].tolist() == ["one", "zwölf"]
    assert found["time"] == np.datetime64(1_500_000_000_000_250_000, "ns")
    assert found["span"].tolist()[0] == 1_500_000_000
    assert np.isnat(found["span"][1])


def _string(texts: list[str]) -> np.ndarray:
    units = b"".join(text.encode("utf-16-le") for text in texts)
    units += b"\0" * (-len(units) % 8)
    head = np.array([1, 2, len(texts), 1, *(len(text.encode("utf-16-le")) // 2 for text in texts)], "u8")
    return np.concatenate([head, np.frombuffer(units, "u8")]).reshape(1, -1)


def subsystem(writer: Writer, objects: dict[str, tuple[str, dict[str, np.ndarray]]]) -> None:
    """Writes objects: names, classes, objects, and properties in the region of ordinary ones."""
    names = list(dict.fromkeys(name for kind, values in objects.values() for name in (kind, *values)))
    number = {name: place + 1 for place, name in enumerate(names)}
    text = b"".join(name.encode() + b"\0" for name in names)
    text += b"\0" * (-len(text) % 8)
    kinds = list(dict.fromkeys(kind for kind, _ in objects.values()))
    classes = np.array([0, 0, 0, 0] + [value for kind in kinds for value in (0, number[kind], 0, 0)], "u4").tobytes()
    entries, properties, cells = [0] * 6, b"\0" * 8, []
    for place, (kind, values) in enumerate(objects.values()):
        entries += [kinds.index(kind) + 1, 0, 0, 0, place + 1, place + 1]
        block = [len(values)]
        for name, data in values.items():
            block += [number[name], 1, len(cells)]
            kind_of = "uint64" if data.dtype == np.uint64 else "double"
            cells.append(writer.put(writer.references, f"p{len(cells)}", data, kind_of))
        stored = np.array(block, "u4").tobytes()
        properties += stored + b"\0" * (-len(stored) % 8)
    parts = [classes, b"\0" * 8, np.array(entries, "u4").tobytes(), properties]
    ends = np.cumsum([40 + len(text), *map(len, parts)])
    offsets = [*ends[:4], ends[4], ends[4], ends[4], ends[4]]
    head = np.array([4, len(names), *offsets], "u4").tobytes()
    table = np.frombuffer(head + text + b"".join(parts), "u1").reshape(-1, 1)
    first = writer.put(writer.references, "table", table, "uint8")
    blank = writer.put(writer.references, "blank", np.array([0, 0], "u8"), "canonical empty", MATLAB_empty=np.uint8(1))
    rest = [blank] * 3
    made = writer.file.create_group("#subsystem#").create_dataset(
        "MCOS", data=np.array([[one.ref for one in (first, blank, *cells, *rest)]], h5py.ref_dtype)
    )
    made.attrs["MATLAB_class"], made.attrs["MATLAB_object_decode"] = np.bytes_("FileWrapper__"), np.int32(3)
    for place, (name, (kind, _)) in enumerate(objects.items()):
        numbers = np.array([[0xDD000000], [2], [1], [1], [place + 1], [kinds.index(kind) + 1]], "u4").T
        writer.put(writer.file, name, numbers, kind, MATLAB_object_decode=np.int32(3))
