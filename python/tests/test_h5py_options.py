"""Each h5py keyword for a new file or dataset takes effect, as shown by the property lists of the written file, or is
an error that names it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from h5py._hl import dataset as hl_dataset


def write(path: Path, **options: Any) -> h5py.File:
    with hyperchunk.open(path, "w", **options) as file:
        file.create_group("g")
        for number in range(5):
            file.create_dataset(f"d{number}", data=np.arange(1000.0) + number, chunks=(100,))
        file["small"] = [1, 2, 3]
    found = h5py.File(path)
    for number in range(5):
        assert np.array_equal(found[f"d{number}"], np.arange(1000.0) + number)
    return found


def offsets(file: h5py.File) -> list[int]:
    return [file["d0"].id.get_chunk_info(number).byte_offset for number in range(10)]


def test_pages(tmp_path: Path) -> None:
    with write(tmp_path / "a.h5", fs_strategy="page", fs_page_size=16384) as file:
        plist = file.id.get_create_plist()
        assert plist.get_file_space_strategy()[0] == h5py.h5f.FSPACE_STRATEGY_PAGE
        assert plist.get_file_space_page_size() == 16384
    with write(tmp_path / "b.h5", fs_strategy="page") as file:
        assert file.id.get_create_plist().get_file_space_page_size() == 4096
    with write(tmp_path / "c.h5", fs_strategy="fsm") as file:
        assert file.id.get_create_plist().get_file_space_strategy()[0] == h5py.h5f.FSPACE_STRATEGY_FSM_AGGR


@pytest.mark.parametrize("threshold", [1, 500, 10_000])
def test_alignment(threshold: int, tmp_path: Path) -> None:
    with write(tmp_path / "a.h5", alignment_threshold=threshold, alignment_interval=4096) as file:
        aligned = all(offset % 4096 == 0 for offset in offsets(file))
        assert aligned == (threshold <= 800)
        assert (file["small"].id.get_offset() % 4096 == 0) == (threshold <= 24)


def test_user_block_order_and_version(tmp_path: Path) -> None:
    with write(tmp_path / "a.h5", userblock_size=1024, track_order=True, libver="v110") as file:
        assert file.userblock_size == 1024
        assert list(file)[:2] == ["g", "d0"]
        assert file["/"].id.get_create_plist().get_link_creation_order() == 3
    with write(tmp_path / "b.h5") as file:
        assert file["/"].id.get_create_plist().get_link_creation_order() == 0


def test_times(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w", track_times=True) as file:
        file.create_group("timed", track_times=True)
        file.create_group("group")
        file.create_dataset("data", data=[1, 2], track_times=True)
        file.create_dataset("plain", data=[1, 2])
        file["data"].attrs["x"] = 1
    with h5py.File(path) as file:
        times = {name: h5py.h5o.get_info(file[name].id).mtime for name in file}
        assert all(abs(times[name] - path.stat().st_mtime) < 100 for name in ("timed", "data"))
        assert times["group"] == times["plain"] == 0
        assert h5py.h5o.get_info(file["/"].id).mtime > 0
        assert file["data"].id.get_create_plist().get_obj_track_times()
        assert not file["plain"].id.get_create_plist().get_obj_track_times()


def test_memory_and_disk(tmp_path: Path) -> None:
    with hyperchunk.File(tmp_path / "a.h5", "w", driver="core", backing_store=True) as file:
        file["x"] = 3
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][()] == 3
    with hyperchunk.File(tmp_path / "b.h5", "w", driver="core", backing_store=False) as file:
        file["x"] = 3
    assert not (tmp_path / "b.h5").exists()


REFUSED: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "fs_strategy": (NotImplementedError, {"fs_strategy": "aggregate"}),
    "fs_persist": (NotImplementedError, {"fs_strategy": "page", "fs_persist": True}),
    "fs_threshold": (NotImplementedError, {"fs_strategy": "page", "fs_threshold": 100}),
    "fs_page_size": (ValueError, {"fs_page_size": 4096}),
    "backing_store": (TypeError, {"backing_store": True}),
    "swmr": (NotImplementedError, {"swmr": True}),
    "alignment_interval": (TypeError, {"alignment": 8, "alignment_interval": 16}),
    "driver": (ValueError, {"driver": "mpio"}),
    "libver": (ValueError, {"libver": "v1"}),
    "zzz": (TypeError, {"zzz": 1}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_honoured_is_an_error(name: str, tmp_path: Path) -> None:
    kind, options = REFUSED[name]
    with pytest.raises(kind, match=name):
        hyperchunk.open(tmp_path / "a.h5", "w", **options)
    assert not list(tmp_path.glob("*.h5*"))


# Options that tune libhdf5's caches and do not affect the file.
CACHES = {
    "rdcc_nslots": 101,
    "rdcc_nbytes": 1 << 20,
    "rdcc_w0": 0.5,
    "page_buf_size": 65536,
    "min_meta_keep": 10,
    "min_raw_keep": 10,
    "meta_block_size": 4096,
    "locking": True,
}
TESTED = {
    "name",
    "mode",
    "driver",
    "libver",
    "userblock_size",
    "swmr",
    "track_order",
    "track_times",
    "fs_strategy",
    "fs_persist",
    "fs_threshold",
    "fs_page_size",
    "alignment_threshold",
    "alignment_interval",
    "kwds",
    "self",
}


def test_every_keyword_of_a_file_is_known(tmp_path: Path) -> None:
    names = set(inspect.signature(h5py.File.__init__).parameters)
    assert names <= TESTED | set(CACHES), names - TESTED - set(CACHES)
    with write(tmp_path / "a.h5", **CACHES):
        pass


DATASETS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (7, 3)},
    "maxshape": {"maxshape": (None, 40)},
    "compression": {"compression": "gzip", "compression_opts": 7},
    "compression by level": {"compression": 3},
    "lzf": {"compression": "lzf"},
    "szip": {"compression": "szip", "compression_opts": ("nn", 16)},
    "shuffle": {"shuffle": True, "compression": "gzip"},
    "fletcher32": {"fletcher32": True},
    "scaleoffset": {"scaleoffset": 9},
    "fillvalue": {"fillvalue": 7},
    "fill_time": {"fill_time": "never", "chunks": True},
    "fill_time alloc": {"fill_time": "alloc"},
    "track_order": {"track_order": True},
    "track_times": {"track_times": True},
    "rdcc_nslots": {"rdcc_nslots": 101, "rdcc_nbytes": 1000, "rdcc_w0": 0.1, "chunks": True},
    "external": {"external": [("raw.bin", 0, 8000)]},
}


def listed(dataset: h5py.Dataset) -> dict[str, Any]:
    """Returns the properties of a dataset from its property lists."""
    plist = dataset.id.get_create_plist()
    layout = plist.get_layout()
    return {
        "chunks": dataset.chunks,
        "layout": layout,
        "maxshape": dataset.maxshape,
        "filters": [plist.get_filter(number)[:3:2] for number in range(plist.get_nfilters())],
        "fill": dataset.fillvalue,
        "fill_time": plist.get_fill_time(),
        "times": plist.get_obj_track_times(),
        "order": plist.get_attr_creation_order(),
        "external": dataset.external,
    }


@pytest.mark.parametrize("name", DATASETS)
def test_a_keyword_of_a_dataset_is_honoured(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for module in (h5py, hyperchunk):
        path = tmp_path / f"{module.__name__}.h5"
        # Older versions of object headers always store times.
        with module.File(path, "w", libver="v110") as file:
            # We do not write data to external files.
            data = None if name == "external" else np.arange(200).reshape(20, 10)
            file.create_dataset("x", (20, 10), "i4", data=data, **DATASETS[name])
        with h5py.File(path) as file:
            found.append(listed(file["x"]) | {"values": None if name == "external" else file["x"][...].tolist()})
    if "chunks" in name or "chunks" not in DATASETS[name]:
        for side in found:
            # h5py guesses chunks by its own rule.
            if "chunks" not in DATASETS[name] and side["chunks"] is not None:
                side["chunks"] = ()
    else:
        for side in found:
            side["chunks"] = ()
    if name == "szip":
        # libhdf5 stores additional flags of its own.
        assert [filter[0] for filter in found[0].pop("filters")] == [filter[0] for filter in found[1].pop("filters")]
    different = {key: (value, found[1][key]) for key, value in found[0].items() if value != found[1][key]}
    assert not different


REFUSED_OF_DATASETS: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "efile_prefix": (NotImplementedError, {"efile_prefix": "/tmp"}),
    "virtual_prefix": (NotImplementedError, {"virtual_prefix": "/tmp"}),
    "dcpl": (TypeError, {"dcpl": h5py.h5p.create(h5py.h5p.DATASET_CREATE)}),
    "dapl": (TypeError, {"dapl": h5py.h5p.create(h5py.h5p.DATASET_ACCESS)}),
    "31999": (ValueError, {"compression": 31999}),
    "rdcc_w0": (ValueError, {"rdcc_w0": 7.0}),
    "zzz": (TypeError, {"zzz": 7}),
}


@pytest.mark.parametrize("name", REFUSED_OF_DATASETS)
def test_a_keyword_of_a_dataset_that_is_not_honoured_is_an_error(name: str, tmp_path: Path) -> None:
    kind, options = REFUSED_OF_DATASETS[name]
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        with pytest.raises(kind, match=name):
            file.create_dataset("x", (9,), "i4", **options)
        assert list(file) == []


def test_every_keyword_of_a_dataset_is_known() -> None:
    names = set(inspect.signature(hl_dataset.make_new_dset).parameters)
    tested = {"parent", "shape", "dtype", "data", "name", "allow_unknown_filter", "compression_opts"}
    tested |= {key for options in DATASETS.values() for key in options}
    tested |= set(REFUSED_OF_DATASETS)
    assert names <= tested, names - tested


def test_a_filter_that_is_unknown_here_for_chunks_as_they_are(tmp_path: Path) -> None:
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (9,), "i4", chunks=(9,), compression=31999, allow_unknown_filter=True)
        data.id.write_direct_chunk((0,), b"stored as it is")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].id.read_direct_chunk((0,)) == (0, b"stored as it is")
