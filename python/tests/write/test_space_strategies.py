"""Edits of files that manage their space: pages, kept free space, B-trees of other widths. h5py goes on with them."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK

PAGE = 4096
STRATEGIES: dict[str, dict[str, Any]] = {
    "pages": {"fs_strategy": "page", "fs_page_size": PAGE},
    "small pages": {"fs_strategy": "page", "fs_page_size": 512},
    "large pages": {"fs_strategy": "page", "fs_page_size": 1 << 17, "libver": "latest"},
    "kept": {"fs_strategy": "fsm", "fs_persist": True},
    "kept, user block": {"fs_strategy": "fsm", "fs_persist": True, "userblock_size": 1024},
    "kept, latest": {"fs_strategy": "fsm", "fs_persist": True, "libver": "latest"},
    "kept pages": {"fs_strategy": "page", "fs_page_size": PAGE, "fs_persist": True},
    "kept pages, latest": {"fs_strategy": "page", "fs_page_size": PAGE, "fs_persist": True, "libver": "latest"},
    "pages, user block": {"fs_strategy": "page", "fs_page_size": PAGE, "userblock_size": PAGE},
    "aggregate": {"fs_strategy": "aggregate"},
    "none": {"fs_strategy": "none"},
}


def make(path: Path, options: dict[str, Any]) -> None:
    """Makes a file with free space, in two sessions of h5py."""
    with h5py.File(path, "w", **options) as file:
        file["x"] = np.arange(1000.0)
        file.create_dataset("c", data=np.arange(5000), chunks=(100,), maxshape=(None,), compression="gzip")
        file.create_dataset("strings", data=["a", "b"], dtype=h5py.string_dtype(), chunks=(4,), maxshape=(None,))
        file.create_group("g").attrs["a"] = 1
        file["gone"] = np.zeros(9000)
        for number in range(20):
            file[f"many/{number}"] = np.full(number, number)
    with h5py.File(path, "r+") as file:
        del file["gone"]
        del file["many/7"]


def first(file: Any, number: int) -> None:
    """Changes a file in each kind of place."""
    file.attrs["new"] = np.arange(10 + number)
    rows = file["c"].shape[0]
    file["c"].resize(rows + 100, axis=0)
    file["c"][rows:] = number
    file["c"][7:300:3] = number
    file["x"][5:50] = number
    file["strings"].resize(3 + number, axis=0)
    file["strings"][2 + number] = f"text {number}"
    file.create_dataset(f"made{number}/small", data=np.arange(70))
    file.create_dataset(f"made{number}/large", data=np.arange(700 * (number + 1)))
    file.create_dataset(f"made{number}/chunks", data=np.arange(2000) % 7, chunks=(300,), compression="gzip")
    for each in range(20):
        file["g"].attrs[f"k{number}.{each}"] = "x" * each
    file.flush()
    del file[f"many/{number}"]
    file.move(f"many/{number + 8}", f"moved{number}")
    for each in range(12):
        file.create_group(f"groups{number}/{each}")["d"] = np.arange(each)


def contents(path: Path, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        attributes = {key: np.asarray(value).tolist() for key, value in item.attrs.items()}
        value = np.asarray(item[()]).tolist() if isinstance(item, h5py.Dataset) else sorted(item)
        found[name] = [value, attributes]

    with h5py.File(path, **options) as file:
        visit("/", file)
        file.visititems(visit)
    return found


@pytest.mark.parametrize("kind", STRATEGIES)
def test_edits_beside_h5pys(kind: str, tmp_path: Path) -> None:
    options = STRATEGIES[kind]
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    make(ours, options)
    shutil.copy(ours, theirs)
    with h5py.File(ours) as file:
        strategy = file.id.get_create_plist().get_file_space_strategy()
    for number in range(3):
        # h5py edits in between: it allocates, frees, and writes its managers.
        for path, module in [(ours, hyperchunk), (theirs, h5py)]:
            with module.File(path, "r+") as file:
                first(file, number)
        assert contents(ours) == contents(theirs)
        for path in (ours, theirs):
            with h5py.File(path, "r+") as file:
                file[f"h5py{number}"] = np.arange(3000)
                del file[f"made{number}/large"]
                file["g"].attrs[f"h5py{number}"] = "y" * 3000
                file["c"][::2] = number
        assert contents(ours) == contents(theirs)
        subprocess.run(["h5dump", ours], check=True, capture_output=True)
        subprocess.run(["h5stat", ours], check=True, capture_output=True)
    with h5py.File(ours) as file:
        assert file.id.get_create_plist().get_file_space_strategy() == strategy
    if options["fs_strategy"] == "page":
        assert (ours.stat().st_size - options.get("userblock_size", 0)) % options["fs_page_size"] == 0
        assert contents(ours, page_buf_size=1 << 20) == contents(theirs)
    subprocess.run([HYPERCHUNK, "check", ours], check=True, capture_output=True)
    assert ours.stat().st_size < 2 * theirs.stat().st_size + 16 * options.get("fs_page_size", PAGE)


def chunks_of(path: Path) -> list[tuple[int, int]]:
    """Returns start and length of all chunks of a file."""
    with h5py.File(path) as file:
        chunks: list[tuple[int, int]] = []

        def visit(_: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.chunks and item.id.get_num_chunks():
                infos = [item.id.get_chunk_info(number) for number in range(item.id.get_num_chunks())]
                chunks.extend((info.byte_offset, info.size) for info in infos)

        file.visititems(visit)
    return chunks


@pytest.mark.parametrize("kind", ["pages", "small pages", "large pages", "kept pages, latest"])
def test_chunks_of_a_paged_file_are_in_pages(kind: str, tmp_path: Path) -> None:
    """A chunk smaller than a page is in one page; a larger one begins with one."""
    path, size = tmp_path / "a.h5", STRATEGIES[kind]["fs_page_size"]
    make(path, STRATEGIES[kind])
    with hyperchunk.open(path, "r+", sync="never") as file:
        for number in range(5):
            first(file, number)
        file["big"] = np.arange(10000)
        data = np.random.default_rng(1).integers(0, 1 << 62, 9000)
        file.create_dataset("noise", data=data, chunks=(1000,), compression="gzip")
    for start, length in chunks_of(path):
        assert start % size + length <= size if length < size else start % size == 0, (start, length)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["noise"], data)


def test_a_paged_file_does_not_grow_in_one_session(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    make(path, STRATEGIES["pages"])
    with hyperchunk.open(path, "r+", sync="never") as file:
        sizes = []
        for number in range(300):
            file.attrs["n"] = np.arange(number % 50)
            file["c"][:] = np.random.default_rng(number).integers(0, 1 << 30, len(file["c"]))
            file.flush()
            sizes.append(path.stat().st_size)
    assert sizes[-1] <= sizes[20] + 4 * PAGE
    assert contents(path)["/"][1]["n"] == list(range(299 % 50))


@pytest.mark.parametrize("k", [1, 2, 16, 200])
def test_btrees_of_other_widths(k: int, tmp_path: Path) -> None:
    """h5py has no name for `H5Pset_istore_k`: the file's field is set, before it has any B-tree."""
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    library = h5py_library()
    assert library.H5Pset_istore_k(plist.id, k) >= 0
    made = h5py.h5f.create(str(ours).encode(), h5py.h5f.ACC_TRUNC, fcpl=plist)
    with h5py.File(made) as file:
        file.create_dataset("c", data=np.arange(900), chunks=(10,), maxshape=(None,))
        file.create_dataset("two", data=np.ones((12, 12)), chunks=(2, 2), compression="gzip", maxshape=(None, None))
    shutil.copy(ours, theirs)
    for number in range(4):
        for path, module in [(ours, hyperchunk), (theirs, h5py)]:
            with module.File(path, "r+") as file:
                file["c"].resize(file["c"].shape[0] + 155, axis=0)
                file["c"][-155:] = number
                file["two"][number::3] = number
                file.create_dataset(f"new{number}", data=np.arange(700), chunks=(3,))
        assert contents(ours) == contents(theirs)
        for path in (ours, theirs):
            with h5py.File(path, "r+") as file:
                file["c"].resize(file["c"].shape[0] + 55, axis=0)
                file["c"][-55:] = -number
                file[f"new{number}"][5:] = number
        assert contents(ours) == contents(theirs)
    subprocess.run(["h5dump", ours], check=True, capture_output=True)


def h5py_library() -> Any:
    """Returns the HDF5 library that h5py has loaded."""
    maps = Path("/proc/self/maps").read_text()
    names = {line.split()[-1] for line in maps.splitlines() if "libhdf5" in line and "_hl" not in line}
    # Other packages, such as netCDF4, may have loaded their own.
    (name,) = (name for name in names if "h5py" in Path(name).parent.name) if len(names) > 1 else names
    library = ctypes.CDLL(name)
    library.H5Pset_istore_k.argtypes = [ctypes.c_int64, ctypes.c_uint]
    return library
