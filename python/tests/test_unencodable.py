"""Values that HDF5 cannot represent are an error at the call, and the rest of the file is intact after `close`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

WIDE = np.dtype([(f"field_{i}", "f4") for i in range(3000)])
LONG = "x" * 70_000
RAW = [("raw", number, 1) for number in range(4000)]


def _enum(file: Any) -> None:
    file.create_dataset("w", data=np.zeros(3, "i4"), dtype=h5py.enum_dtype({f"N_{i}": i for i in range(9000)}, "i4"))


def _virtual(file: Any, other: str, name: str) -> None:
    layout = hyperchunk.VirtualLayout((4,), "i4")
    layout[:] = hyperchunk.VirtualSource(other, name, (4,))
    file.create_virtual_dataset("w", layout)


MANY = np.zeros((1,) * 33, "u1")
CALLS: dict[str, Callable[[Any], Any]] = {
    "compound": lambda file: file.create_dataset("w", data=np.zeros(3, WIDE)),
    "array of compounds": lambda file: file.create_dataset("w", (3,), np.dtype((WIDE, (2,)))),
    "compound in a compound": lambda file: file.create_dataset("w", (3,), np.dtype([("a", WIDE), ("b", "i4")])),
    "sequence of compounds": lambda file: file.create_dataset("w", (3,), h5py.vlen_dtype(WIDE)),
    "enumeration": _enum,
    "chunked compound": lambda file: file.create_dataset("w", (30,), WIDE, chunks=(10,), compression="gzip"),
    "attribute": lambda file: file.attrs.__setitem__("w", np.zeros((), WIDE)),
    "attribute of a dataset": lambda file: file["hours"].attrs.__setitem__("w", np.zeros(2, WIDE)),
    "committed datatype": lambda file: file.__setitem__("w", WIDE),
    "fill value": lambda file: file.create_dataset("w", (2,), "S1000000", fillvalue=b"x" * 1_000_000),
    "fill value of 65,530 bytes": lambda file: file.create_dataset("w", (2,), "S65530", fillvalue=b"x" * 65_530),
    "soft link": lambda file: file.__setitem__("w", hyperchunk.SoftLink("/x" * 50_000)),
    "soft link of 65,530 bytes": lambda file: file.__setitem__("w", hyperchunk.SoftLink("x" * 65_530)),
    "external link": lambda file: file.__setitem__("w", hyperchunk.ExternalLink("f" * 40_000, "/p" * 20_000)),
    "name": lambda file: file.__setitem__(LONG, 1),
    "name of an attribute": lambda file: file.attrs.__setitem__(LONG, 1),
    "compact": lambda file: file.create_dataset("w", data=np.zeros(100_000, "u1"), layout="compact"),
    "rank 33": lambda file: file.create_dataset("w", (1,) * 33, "u1"),
    "external files": lambda file: file.create_dataset(
        "w", (4000,), "u1", external=[("raw", i, 1) for i in range(4000)]
    ),
    "soft link to nothing": lambda file: file.__setitem__("w", hyperchunk.SoftLink("")),
    "soft link with a NUL": lambda file: file.__setitem__("w", hyperchunk.SoftLink("/x\0y")),
    "external link without a file": lambda file: file.__setitem__("w", hyperchunk.ExternalLink("", "/x")),
    "external link without a path": lambda file: file.__setitem__("w", hyperchunk.ExternalLink("a.h5", "")),
    "external link, NUL in the file": lambda file: file.__setitem__("w", hyperchunk.ExternalLink("a\0.h5", "/x")),
    "external link, NUL in the path": lambda file: file.__setitem__("w", hyperchunk.ExternalLink("a.h5", "/x\0")),
    "attribute of rank 33": lambda file: file.attrs.__setitem__("w", MANY),
    "attribute of rank 33 of a dataset": lambda file: file["hours"].attrs.__setitem__("w", MANY),
    "attribute of rank 33, created": lambda file: file.attrs.create("w", 1, shape=MANY.shape),
    "attribute of rank 33, modified": lambda file: file.attrs.modify("w", MANY),
    "virtual, NUL in the file": lambda file: _virtual(file, "a\0.h5", "/x"),
    "virtual, no file": lambda file: _virtual(file, "", "/x"),
    "virtual, no dataset": lambda file: _virtual(file, "a.h5", ""),
    "external, no file": lambda file: file.create_dataset("w", (4,), "i4", external=[("", 0, 16)]),
    "external, NUL in the file": lambda file: file.create_dataset("w", (4,), "i4", external=[("a\0b", 0, 16)]),
}


def _check(path: Path) -> None:
    with h5py.File(path) as file:
        assert sorted(file) == ["after", "hours"]
        assert [*file.attrs, *file["hours"].attrs] == []
        assert np.array_equal(file["hours"][()], np.arange(1000))
        assert file["after"][()] == 7
    assert [found.name for found in path.parent.glob("a.h5*")] == ["a.h5"]


@pytest.mark.parametrize("libver", ["v108", "v110", "v200"])
@pytest.mark.parametrize("what", CALLS)
def test_call_is_refused_and_the_file_stays(tmp_path: Path, what: str, libver: str) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w", libver=libver) as file:
        file.create_dataset("hours", data=np.arange(1000), chunks=(100,), compression="gzip")
        with pytest.raises(hyperchunk.HyperchunkError):
            CALLS[what](file)
        file["after"] = 7
    _check(path)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("what", CALLS)
def test_call_is_refused_and_the_edited_file_stays(tmp_path: Path, what: str, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("hours", data=np.arange(1000), chunks=(100,), compression="gzip")
    with hyperchunk.open(path, "r+") as file:
        with pytest.raises(hyperchunk.HyperchunkError):
            CALLS[what](file)
        file["after"] = 7
    _check(path)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_values_that_cannot_be_stored_leave_no_dataset(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, mode) as file:
        with pytest.raises(ValueError, match="NUL"):
            file.create_dataset("w", data="a\0b")
        assert list(file) == []
        file.create_dataset("w", data="ab")
    with h5py.File(path) as file:
        assert file["w"][()] == b"ab"


@pytest.mark.parametrize("extent", [2**63, 2**64 - 1])
@pytest.mark.parametrize("options", [{"maxshape": (None,)}, {}])
def test_an_extent_that_hdf5_cannot_count(tmp_path: Path, extent: int, options: dict[str, Any]) -> None:
    """libhdf5 makes none, and opens none that is there."""
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w") as file:
        with pytest.raises(hyperchunk.HyperchunkError, match="fewer than 2\\^63"):
            file.create_dataset("w", (extent,), "i1", chunks=(10,), **options)
        grows = file.create_dataset("grows", (10,), "i1", chunks=(10,), maxshape=(None,))
        with pytest.raises(hyperchunk.HyperchunkError, match="fewer than 2\\^63"):
            grows.resize((extent,))
        file.create_dataset("most", (2**63 - 1,), "i1", chunks=(10,))
    with h5py.File(path) as file:
        assert {name: file[name].shape for name in file} == {"grows": (10,), "most": (2**63 - 1,)}


def _keeps(path: Path, mode: str, change: Callable[[Any], None]) -> None:
    """Checks that a session in which a change is refused keeps the rest."""
    with hyperchunk.open(path, mode) if mode == "r+" else hyperchunk.create(path) as file:
        file.attrs["precious"] = 1
        change(file)
        file["after"] = 2
    with h5py.File(path) as file:
        assert (file.attrs["precious"], file["after"][()]) == (1, 2)


@pytest.mark.parametrize("number", [32013, 32017, 32018, 32024, 32028, 40123])
@pytest.mark.parametrize("part", [np.s_[0], np.s_[1, 2:5], np.s_[...]])
@pytest.mark.parametrize("mode", ["w", "r+"])
def test_part_of_a_chunk_that_cannot_be_encoded_is_refused_at_once(
    number: int, part: Any, mode: str, tmp_path: Path
) -> None:
    """And not kept in memory until a commit, which would fail whatever the program does."""

    def change(file: Any) -> None:
        options = {"chunks": (8, 8), "filters": [(number, [1])], "allow_unknown_filter": True}
        dataset = file.create_dataset("d", (8, 8), "f4", **options)
        with pytest.raises(
            hyperchunk.exceptions.HyperchunkError, match=r"can be read, but not written|filter"
        ) as caught:
            dataset[part] = 1
        assert "/d" in str(caught.value)
        assert str(number) in str(caught.value)

    if mode == "r+":
        hyperchunk.create(tmp_path / "a.h5").close()
    _keeps(tmp_path / "a.h5", mode, change)
