"""Dtype functions, and dtypes of files, compared with h5py."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from compare import Comparison

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("string_dtype", (), {}),
    ("string_dtype", ("ascii",), {}),
    ("string_dtype", ("utf8", 10), {}),
    ("string_dtype", ("latin-1",), {}),
    ("string_dtype", ("nonsense",), {}),
    ("string_dtype", (), {"length": 2.5}),
    ("vlen_dtype", ("i4",), {}),
    ("enum_dtype", ({"A": 1},), {}),
    ("enum_dtype", ({"A": 1},), {"basetype": "f4"}),
    ("special_dtype", (), {"vlen": str}),
    ("special_dtype", (), {"enum": ("i2", {"A": 1})}),
    ("special_dtype", (), {"enum": 3}),
    ("special_dtype", (), {"ref": 3}),
    ("special_dtype", (), {"what": 3}),
    ("special_dtype", (), {}),
    ("special_dtype", (), {"vlen": str, "enum": 3}),
    ("opaque_dtype", ("M8[s]",), {}),
    ("opaque_dtype", ("O",), {}),
    ("opaque_dtype", ([("a", "i4")],), {}),
    ("complex_compat_dtype", ("c8",), {}),
    ("complex_compat_dtype", ("f8",), {}),
    *[
        (f"check_{what}_dtype", (dtype,), {})
        for what in ("vlen", "string", "enum", "ref", "opaque", "complex")
        for dtype in (
            h5py.string_dtype(),
            h5py.string_dtype("ascii", 4),
            h5py.vlen_dtype("f4"),
            h5py.enum_dtype({"A": 1}),
            h5py.opaque_dtype("M8[s]"),
            np.dtype("c16"),
            np.dtype([("r", "f4"), ("i", "f4")]),
            np.dtype("S3"),
            np.dtype("i4"),
            np.dtype("O"),
            np.dtype("T"),
        )
    ],
    ("check_dtype", (), {"vlen": np.dtype("i4")}),
    ("check_dtype", (), {"vlen": h5py.string_dtype()}),
    ("check_dtype", (), {"enum": h5py.enum_dtype({"A": 1})}),
    ("check_dtype", (), {"what": np.dtype("i4")}),
    ("check_dtype", (), {}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), CALLS)
def test_a_function_about_dtypes(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    results = []
    for module in (h5py, hyperchunk):
        try:
            results.append(getattr(module, name)(*args, **keywords))
        except Exception as error:
            results.append((type(error), str(error)))
    theirs, ours = results
    if isinstance(theirs, np.dtype):
        assert ours == theirs
        assert dict(ours.metadata or {}) == dict(theirs.metadata or {})
    else:
        assert ours == theirs


def test_references() -> None:
    assert hyperchunk.check_ref_dtype(hyperchunk.ref_dtype) is hyperchunk.Reference
    assert hyperchunk.special_dtype(ref=hyperchunk.RegionReference) is hyperchunk.regionref_dtype
    assert repr(hyperchunk.Reference()) == "<HDF5 object reference (null)>"
    assert not hyperchunk.RegionReference()


NESTED = np.dtype([("n", h5py.string_dtype()), ("v", h5py.vlen_dtype("<f4")), ("e", h5py.enum_dtype({"X": 2}, "i2"))])
DTYPES: dict[str, Any] = {
    **{code: np.dtype(code) for code in ("i1", "u1", "<i2", ">u4", ">i8", "<f2", ">f4", "<f8", "g", "c8", ">c16", "?")},
    "S5": np.dtype("S5"),
    "utf-8 8": h5py.string_dtype("utf-8", 8),
    "text": h5py.string_dtype(),
    "bytes": h5py.string_dtype("ascii"),
    "void": np.dtype("V7"),
    "dates": h5py.opaque_dtype("M8[ms]"),
    "enum": h5py.enum_dtype({"A": 1, "B": 7}, ">i4"),
    "array": np.dtype((">i2", (2, 3))),
    "sequence": h5py.vlen_dtype("<i4"),
    "sequence of text": h5py.vlen_dtype(h5py.string_dtype()),
    "sequence of bools": h5py.vlen_dtype(np.dtype("?")),
    "packed": np.dtype([("a", "i1"), ("b", "<f8"), ("c", ">c8"), ("d", "S3"), ("e", "?")]),
    "aligned": np.dtype([("a", "i1"), ("b", "<f8")], align=True),
    "backwards": np.dtype({"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [12, 0], "itemsize": 24}),
    "nested": np.dtype([("x", NESTED), ("y", NESTED, (2,)), ("z", "<i4")]),
    "of references": np.dtype([("i", "i1"), ("r", h5py.ref_dtype), ("s", h5py.regionref_dtype), ("j", "i1")]),
}


def value(dtype: np.dtype[Any], seed: int) -> Any:
    """Returns an element of a dtype."""
    random = np.random.default_rng(seed)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.array([value(base, seed + n) for n in range(int(np.prod(shape)))], base).reshape(shape)
    if dtype.names is not None:
        return tuple(value(dtype[name], seed + n) for n, name in enumerate(dtype.names))
    inner = h5py.check_vlen_dtype(dtype)
    if inner is str:
        return f"é{seed}" * (seed % 4)
    if inner is bytes:
        return b"x" * (seed % 4)
    if inner is not None:
        return np.array([value(np.dtype(inner), seed + n) for n in range(seed % 4)], inner)
    if dtype.kind == "O":
        return None
    if dtype.kind in "SV":
        return np.frombuffer(bytes(random.integers(65, 90, dtype.itemsize, "u1")), dtype)[0]
    if dtype.kind == "M":
        return np.datetime64(seed, "ms")
    return dtype.type(seed % 2 if dtype.kind == "b" else seed + 1)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("name", DTYPES)
def test_a_type(name: str, libver: str, tmp_path: Path) -> None:
    dtype, path = DTYPES[name], tmp_path / "type.h5"
    with h5py.File(path, "w", libver=libver) as file:
        plain = dtype.base
        data = np.zeros((3, 2), plain) if dtype.subdtype is None else np.zeros((3, 2, *dtype.shape), plain)
        for place in np.ndindex(data.shape):
            data[place] = value(plain, sum(place))
        for name, chunks in (("contiguous", None), ("chunked", (2, 2))):
            dataset = file.create_dataset(name, (3, 2), dtype, chunks=chunks)
            # h5py takes an array of sequences for one with more dimensions.
            for place in np.ndindex(3, 2):
                dataset[place] = data[place]
        file.create_dataset("unwritten", (3,), dtype)
        file.attrs.create("array", data, data.shape, dtype)
        if dtype.subdtype is None:
            if h5py.check_vlen_dtype(dtype) in (None, str, bytes):
                file.attrs.create("scalar", data[1, 1], dtype=dtype)
            scalar = file.create_dataset("scalar", (), dtype)
            scalar[()] = data[1, 1]
        file.attrs["empty"] = h5py.Empty(plain)
        file["committed"] = dtype
    comparison = Comparison(path)
    comparison.run()
    assert comparison.differences == []
    assert comparison.datasets >= 3


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype(object), h5py.string_dtype(), h5py.ref_dtype, h5py.regionref_dtype, h5py.vlen_dtype("i2"),
        np.dtype("f8"), np.dtype("i8"), np.dtype("S8"), np.dtype("c8"), np.dtypes.StringDType(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["bytes", "times"])
def test_opaque_bytes_become_neither_objects_nor_numbers(name: str, dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "opaque.h5"
    times = np.array(["2020-01-01", "2021-05-05"], "M8[s]")
    with h5py.File(path, "w") as file:
        file["bytes"] = np.array([b"abcdefgh", b"12345678"], "V8")
        file["times"] = times.astype(h5py.opaque_dtype(times.dtype))
        with pytest.raises((OSError, TypeError, RuntimeError)):
            file[name].astype(dtype)[:]
    with hyperchunk.open(path) as file:
        # Their eight bytes would be taken as a pointer.
        with pytest.raises((OSError, TypeError)):
            file[name].astype(dtype)[:]
        with pytest.raises((OSError, TypeError)):
            file[name].read_direct(np.empty(2, dtype))
        assert file["times"][:].tolist() == times.tolist()
        assert file["bytes"][:].tobytes() == b"abcdefgh12345678"


COMPLEX = ["c8", "c16", ">c8", ">c16", "clongdouble"]


@pytest.mark.parametrize("stored", COMPLEX)
@pytest.mark.parametrize("wanted", COMPLEX)
def test_complex_numbers_in_another_precision_and_order(stored: str, wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "complex.h5"
    values = np.array([1 + 2j, 3.5, -1e30j, np.nan])
    members = [("a", wanted), ("b", "f4")]
    with h5py.File(path, "w") as file:
        file["z"] = values.astype(stored)
        file["m"] = np.array([(1 + 2j, 3)], [("a", stored), ("b", "f8")])
        file["pair"] = np.array([(1.0, 2.0)], [("x", "f8"), ("y", "f8")])
        expected, pairs = file["z"].astype(wanted)[:], file["m"].astype(members)[:]
    with hyperchunk.open(path) as file:
        found = file["z"].astype(wanted)[:]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        out = np.zeros(4, wanted)
        file["z"].read_direct(out)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(file["m"].astype(members)[:], pairs)
        # h5py gives zeros.
        with pytest.raises(OSError, match="no conversion from a compound to a complex number"):
            file["pair"].astype(wanted)[:]
