"""Layouts, filters, selections, growth and fill values, each read by h5py."""

import subprocess
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

LIBVERS = ["earliest", "v110", "v200"]


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize(
    ("shape", "chunks", "maxshape"),
    [
        ((10, 10), (10, 10), None),
        ((10, 12), (3, 5), None),
        ((0, 5), (4, 5), (None, 5)),
        ((33, 5), (4, 5), (None, 5)),
        ((20, 20), (7, 6), (None, None)),
        ((20, 20), (7, 6), (40, None)),
        ((70, 30), (1, 1), (70, 30)),
        ((2000,), (3,), (None,)),
        ((5, 4, 3, 2), (2, 2, 2, 2), (None, 4, None, 2)),
        ((1,), (1,), None),
    ],
)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_every_chunk_index(
    library: ModuleType, tmp_path: Path, shape: Any, chunks: Any, maxshape: Any, compression: Any, libver: str
) -> None:
    values = np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)
    with library.File(tmp_path / "a.h5", "w", libver=libver) as file:
        dataset = file.create_dataset("d", shape, "<i4", chunks=chunks, maxshape=maxshape, compression=compression)
        dataset[...] = values
        assert np.array_equal(dataset[...], values)
        file.create_dataset("empty", shape, "<i4", chunks=chunks, maxshape=maxshape, compression=compression)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"].chunks == chunks
        assert file["d"].maxshape == (maxshape or shape)
        assert np.array_equal(file["d"][...], values)
        assert not file["empty"][...].any()


@pytest.mark.parametrize("libver", ["v110", "v200"])
def test_chunks_that_need_no_index_are_edited_by_h5py(tmp_path: Path, libver: str) -> None:
    path, values = tmp_path / "a.h5", np.arange(70, dtype="<i4").reshape(10, 7)
    with hyperchunk.open(path, "w", libver=libver) as file:
        dataset = file.create_dataset("d", (10, 7), "<i4", chunks=(4, 3))
        for row in range(0, 12, 4):
            for column in range(0, 9, 3):
                chunk = np.full((4, 3), -1, "<i4")
                part = values[row : row + 4, column : column + 3]
                chunk[: part.shape[0], : part.shape[1]] = part
                dataset.write_chunk((row, column), chunk)
    with h5py.File(path, "r+") as theirs:
        found = theirs["d"]
        assert found.id.get_create_plist().get_alloc_time() == h5py.h5d.ALLOC_TIME_EARLY
        places = [found.id.get_chunk_info(number) for number in range(found.id.get_num_chunks())]
        assert [place.byte_offset - places[0].byte_offset for place in places] == [48 * number for number in range(9)]
        assert np.array_equal(found[...], values)
        found[3:9, 2:6] = values[3:9, 2:6] = 7
    with h5py.File(path) as theirs:
        assert np.array_equal(theirs["d"][...], values)
    with hyperchunk.open(path) as file:
        assert np.array_equal(file["d"][...], values)


@pytest.mark.parametrize("libver", LIBVERS)
def test_contiguous_and_compact(library: ModuleType, tmp_path: Path, libver: str) -> None:
    with library.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file.create_dataset("c", (3, 4), "f8")[1] = [1, 2, 3, 4]
        file.create_dataset("never", (3, 4), "f8", fillvalue=2.5)
        file.create_dataset("s", (), "i4")[()] = 5
        if library is hyperchunk:
            file.create_dataset("compact", (5,), "i4", layout="compact")[2:4] = [7, 8]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["c"][:].tolist() == [[0] * 4, [1, 2, 3, 4], [0] * 4]
        assert (file["never"][:] == 2.5).all()
        assert file["s"][()] == 5
        if library is hyperchunk:
            assert file["compact"].id.get_create_plist().get_layout() == h5py.h5d.COMPACT
            assert file["compact"][:].tolist() == [0, 0, 7, 8, 0]


def test_what_has_no_room_in_a_compact_dataset(new: Any) -> None:
    with pytest.raises(hyperchunk.exceptions.LimitError, match="the limit is 65520"):
        new.file.create_dataset("d", (70_000,), "u1", layout="compact")


FILTERS: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip"},
    "gzip 9": {"compression": "gzip", "compression_opts": 9},
    "by level": {"compression": 1},
    "True": {"compression": True},
    "lzf": {"compression": "lzf"},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "scaleoffset": {"scaleoffset": 0},
    "scaleoffset and gzip": {"scaleoffset": True, "compression": 4, "shuffle": True},
    "szip": {"compression": "szip"},
    "szip ec": {"compression": "szip", "compression_opts": ("ec", 16)},
    "by number": {"compression": 1, "shuffle": True},
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(library: ModuleType, tmp_path: Path, name: str) -> None:
    options = FILTERS[name]
    values = np.random.default_rng(2).integers(-100, 100, (50, 60), dtype="<i4")
    pipelines = []
    for number, maker in enumerate([library, h5py]):
        with maker.File(tmp_path / f"{number}.h5", "w") as file:
            try:
                dataset = file.create_dataset("d", data=values, chunks=(16, 30), **options)
            except (ValueError, NotImplementedError) as error:
                # Unless libhdf5 or hyperchunk lacks an encoder of szip.
                if "szip" not in name:
                    raise
                pytest.skip(str(error))
            if maker is hyperchunk:
                assert np.array_equal(dataset[...], values)
        with h5py.File(tmp_path / f"{number}.h5") as file:
            assert np.array_equal(file["d"][...], values)
            plist = file["d"].id.get_create_plist()
            pipelines.append([plist.get_filter(at)[:3] for at in range(plist.get_nfilters())])
    assert pipelines[0] == pipelines[1]


@pytest.mark.parametrize("scale", [2, 0, 5])
def test_scaleoffset_of_floats(library: ModuleType, tmp_path: Path, scale: int) -> None:
    values = np.random.default_rng(2).normal(size=(20, 30)).astype("<f4")
    with library.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("d", data=values, chunks=(10, 10), scaleoffset=scale)
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.abs(file["d"][...] - values).max() <= 1.01 * 10.0**-scale


@pytest.mark.parametrize("preset", ["deflate", "none"])
@pytest.mark.parametrize("code", ["u1", "<i4", "<f8"])
def test_presets_that_every_library_reads(new: Any, preset: str, code: str) -> None:
    values = np.arange(5000).reshape(50, 100).astype(code)
    new.file.create_dataset("d", data=values, filters=preset)
    with new.h5py() as file:
        assert np.array_equal(file["d"][...], values)
        assert file["d"].compression == ("gzip" if preset == "deflate" else None)
        assert file["d"].shuffle == (preset == "deflate" and code != "u1")


@pytest.mark.parametrize("preset", ["fast", "small"])
def test_presets_that_need_plugins(new: Any, preset: str) -> None:
    values = np.arange(5000).reshape(50, 100)
    dataset = new.file.create_dataset("d", data=values, filters=preset)
    assert np.array_equal(dataset[...], values)
    new.close()
    with hyperchunk.File(new.path) as file:
        assert np.array_equal(file["d"][...], values)
        assert file["d"].filter_ids == {"fast": (32008,), "small": (2, 32015)}[preset]


def test_filters_one_by_one(new: Any) -> None:
    class Plugin(dict[str, Any]):
        """Filter object in hdf5plugin's form."""

    values = np.arange(5000).reshape(50, 100)
    plugin = Plugin(compression=32015, compression_opts=(5,))
    for name, filters in {
        "names": ["shuffle", (1, 6)],
        "plugin": [plugin],
        "numbers": [2, (32015, [3]), 3],
    }.items():
        assert np.array_equal(new.file.create_dataset(name, data=values, filters=filters)[...], values)
    new.file.create_dataset("h5py", data=values, **plugin)
    new.file.create_dataset("unpacked", data=values, compression=plugin)
    assert new.file["names"].filter_ids == (2, 1)
    assert new.file["numbers"].filter_ids == (2, 32015, 3)
    for name in ("plugin", "h5py", "unpacked"):
        assert new.file[name]._data.filters[0][::2] == (32015, [5])


def test_wrong_options(library: ModuleType, tmp_path: Path) -> None:
    cases: list[tuple[type[Exception] | tuple[type[Exception], ...], dict[str, Any]]] = [
        (ValueError, {"compression": "nonsense"}),
        (ValueError, {"compression": "gzip", "compression_opts": 10}),
        (ValueError, {"compression": "lzf", "compression_opts": 3}),
        (TypeError, {"compression_opts": 3}),
        (TypeError, {"compression": "szip", "compression_opts": 3}),
        (ValueError, {"compression": "szip", "compression_opts": ("nn", 7)}),
        (ValueError, {"chunks": False, "compression": "gzip"}),
        (ValueError, {"chunks": (50, 5)}),
        (ValueError, {"chunks": (5,)}),
        (ValueError, {"maxshape": (5, 5), "shape": (10, 10)}),
        (TypeError, {"nonsense": 5}),
        (ValueError, {"fill_time": "nonsense"}),
        (ValueError, {"scaleoffset": 3, "fletcher32": True}),
        (ValueError, {"dtype": "f4", "scaleoffset": True}),
        (TypeError, {"dtype": "S5", "scaleoffset": 3}),
        (TypeError, {"shape": (), "chunks": True}),
        (TypeError, {"shape": (), "compression": "gzip"}),
        (TypeError, {"shape": (), "maxshape": (None,)}),
    ]
    with library.File(tmp_path / "a.h5", "w") as file:
        for error, options in cases:
            given = {"shape": (10, 10), "dtype": "i4"} | options
            with pytest.raises(error):
                file.create_dataset("d", **given)
        assert "d" not in file


@pytest.mark.parametrize("layout", [{}, {"chunks": (3, 4)}, {"chunks": (3, 4), "compression": 1}], ids=str)
def test_selections(library: ModuleType, tmp_path: Path, layout: dict[str, Any]) -> None:
    expected = np.zeros((10, 12), "i4")
    mask = np.random.default_rng(1).random((10, 12)) > 0.7
    writes: list[tuple[Any, Any]] = [
        (np.s_[0], np.arange(12)),
        (np.s_[1, 2], 5),
        (np.s_[2:5, 3:7], np.arange(16).reshape(4, 4)[:3]),
        (np.s_[::3, ::2], 9),
        (np.s_[..., 5], np.arange(10)),
        (np.s_[4:6], np.arange(12)),
        (np.s_[:, 1:2], np.arange(10).reshape(10, 1)),
        (np.s_[-1, -1], 77),
        (np.s_[[1, 4, 6]], np.ones((3, 12)) * 3),
        (np.s_[2:4, [0, 5, 11]], [[1, 2, 3], [4, 5, 6]]),
        (mask, np.arange(mask.sum())),
        (np.s_[3:3], np.zeros((0, 12))),
        (np.s_[8:, :], np.float64(3.7)),
        (np.s_[np.array([True, False] * 5)], 8),
    ]
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (10, 12), "i4", **layout)
        for index, values in writes:
            if isinstance(index, np.ndarray) and index.ndim == 1:
                values = np.full((5, 12), values)
            dataset[index] = values
            expected[index] = values
            assert np.array_equal(dataset[...], expected), index
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["d"][...], expected)


def test_what_does_not_fit_is_an_error(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (4, 6), "i4")
        for index, values in [
            (np.s_[0], np.zeros(5)),
            (np.s_[...], np.zeros((3, 6))),
            (np.s_[0:2, 0:2], np.zeros((3, 2, 2))),
            (np.s_[[0, 1]], np.zeros(7)),
        ]:
            with pytest.raises(TypeError):
                dataset[index] = values
        with pytest.raises((IndexError, ValueError)):
            dataset[7] = 1
        assert not dataset[...].any()


def test_broadcasting_of_what_is_larger_than_memory_should_hold(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperchunk.write.dataset._BROADCAST_BYTES", 1000)
    rows = np.arange(50).reshape(50, 1)
    for name, options in {"contiguous": {}, "chunked": {"chunks": (7, 9), "compression": 1}}.items():
        new.file.create_dataset(name, (50, 40), "i4", **options)[...] = np.arange(40)
        new.file.create_dataset(name + "2", (50, 40), "i4", **options)[:, 3:30] = rows
        new.file.create_dataset(name + "3", (50, 40), "i4", **options)[1::3] = 5
    with new.h5py() as file:
        for name in ("contiguous", "chunked"):
            assert np.array_equal(file[name][...], np.broadcast_to(np.arange(40), (50, 40)))
            assert np.array_equal(file[name + "2"][:, 3:30], np.broadcast_to(rows, (50, 27)))
            assert file[name + "3"][...].sum() == 17 * 40 * 5


def test_members_of_compounds(library: ModuleType, tmp_path: Path) -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8"), ("c", "S3")])
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (5,), dtype)
        dataset[...] = np.array([(n, n / 2, b"x") for n in range(5)], dtype)
        dataset["a"] = np.arange(10, 15)
        dataset["b", 1:3] = 7.5
        dataset[4] = (1, 2.0, b"yz")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"]["a"].tolist() == [10, 11, 12, 13, 1]
        assert file["d"]["b"].tolist() == [0, 7.5, 7.5, 1.5, 2]
        assert file["d"]["c"].tolist() == [b"x", b"x", b"x", b"x", b"yz"]


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("i4", 7), (">f8", 2.5), ("S5", b"abc"), ("?", True), ([("a", "i2"), ("b", ">f4")], (3, 1.5)), ("<c8", 1j)],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"chunks": (4,)}, {"maxshape": (None,), "compression": 2}], ids=str)
def test_fill_values(library: ModuleType, tmp_path: Path, dtype: Any, fill: Any, options: dict[str, Any]) -> None:
    dtype = np.dtype(dtype)
    value = np.array(fill, dtype)
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (10,), dtype, fillvalue=value if dtype.names else fill, **options)
        dataset[2] = np.zeros((), dtype)
        assert dataset.fillvalue == value
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"].fillvalue == value
        expected = np.full(10, value)
        expected[2] = np.zeros((), dtype)
        assert np.array_equal(file["d"][...], expected)


def test_growing_and_shrinking(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (5, 5), "i4", chunks=(3, 3), maxshape=(None, 10), fillvalue=-1)
        dataset[...] = 1
        dataset.resize((7, 6))
        assert dataset.shape == (7, 6)
        dataset[6] = 2
        dataset.resize(4, axis=0)
        dataset.resize(np.int64(6), axis=np.int64(0))
        with pytest.raises((ValueError, RuntimeError)):
            dataset.resize((7, 11))
        with pytest.raises(TypeError):
            file.create_dataset("fixed", (3,), "i4").resize((4,))
    with h5py.File(tmp_path / "a.h5") as file:
        expected = np.full((6, 6), -1)
        expected[:4, :5] = 1
        assert np.array_equal(file["d"][...], expected)


def test_resize_to_a_number_of_numpy(new: Any) -> None:
    dataset = new.file.create_dataset("d", (2,), "i4", maxshape=(None,), chunks=(3,))
    dataset.resize(np.int64(5))
    assert dataset.shape == (5,)
    for size, axis in ((4.5, None), (4.5, 0), ("4", 0), ((4,), 0), (4, 0.5)):
        with pytest.raises(TypeError, match=r"cannot resize: expected an integer|expected a shape"):
            dataset.resize(size, axis)
    assert dataset.shape == (5,)


def test_appending(new: Any) -> None:
    dataset = new.file.create_dataset("d", (0, 4), "i4", maxshape=(None, None), chunks=(3, 4))
    for row in range(10):
        dataset.append([row] * 4)
    dataset.append(np.full((5, 4), 99))
    dataset.append(np.zeros((15, 2)), axis=1)
    words = new.file.create_dataset("words", (0,), hyperchunk.string_dtype(), maxshape=(None,))
    for word in ("one", "two"):
        words.append([word])
    with pytest.raises(ValueError):
        dataset.append(np.zeros((2, 3)))
    with new.h5py() as file:
        assert file["d"].shape == (15, 6)
        assert file["d"][:10, 0].tolist() == list(range(10))
        assert (file["d"][10:, :4] == 99).all()
        assert file["words"].asstr()[:].tolist() == ["one", "two"]


def test_external_files(library: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(b"\0" * 8 + np.arange(12, dtype="<i4").tobytes())
    with library.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("d", (3, 4), "<i4", external=[(str(tmp_path / "raw.bin"), 8, 48)])
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["d"][...], np.arange(12).reshape(3, 4))
        assert file["d"].external == [(str(tmp_path / "raw.bin"), 8, 48)]


def test_like_another(new: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other.create_dataset("d", (20, 30), ">i2", chunks=(4, 5), compression="gzip", compression_opts=7, shuffle=True)
        other["d"][...] = 5
    with hyperchunk.File(tmp_path / "other.h5") as other:
        made = new.file.create_dataset_like("d", other["d"])
        made[...] = other["d"][...]
        new.file.create_dataset_like("e", made, dtype="f4", shape=(7, 7), chunks=(7, 7))
    with new.h5py() as file:
        assert file["d"].dtype == ">i2"
        assert (file["d"].chunks, file["d"].compression_opts, file["d"].shuffle) == ((4, 5), 7, True)
        assert (file["d"][...] == 5).all()
        assert (file["e"].dtype, file["e"].shape) == ("f4", (7, 7))


def test_chunks_are_guessed(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        for shape, maxshape in [((10_000, 10_000), None), ((0, 3), (None, 3)), ((5,), None), ((10**9,), (None,))]:
            dataset = file.create_dataset(None, shape, "f4", chunks=True, maxshape=maxshape)
            size = int(np.prod(dataset.chunks)) * 4
            assert size <= 1 << 20
            assert all(chunk > 0 for chunk in dataset.chunks)


def test_many_at_once_and_in_the_background(new: Any) -> None:
    import asyncio

    for name in "abc":
        new.file.create_dataset(name, (100,), "f8", chunks=(10,), compression=1)
    new.file.write_many({"a": np.arange(100), "b": (np.s_[:50], 3)})
    new.file["c"].write_future(np.s_[:10], 1).result()
    asyncio.run(new.file["c"].write_async(np.s_[10:20], 2))
    new.file.write_many_future({"c": (np.s_[20:30], 3)}).result()
    with new.h5py() as file:
        assert file["a"][:].tolist() == list(range(100))
        assert file["b"][:].sum() == 150
        assert file["c"][:].sum() == 60


@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_the_tools_of_debian_read_it(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.File(path, "w", libver=libver) as file:
        for name, options in {
            "contiguous": {},
            "chunked": {"chunks": (3, 4)},
            "growing": {"maxshape": (None, 12), "compression": 3, "shuffle": True, "fletcher32": True},
            "both": {"maxshape": (None, None), "chunks": (2, 5)},
            "scaled": {"scaleoffset": 4},
        }.items():
            file.create_dataset(f"group/{name}", (10, 12), "i4", **options)[...] = 7
        file["words"] = ["a", "bc"]
        for number in range(30):
            file.attrs[f"attribute {number}"] = number
    for command in (["h5dump"], ["h5stat"], ["h5ls", "-rv"], ["h5repack", "-i"]):
        more = ["-o", str(tmp_path / "repacked.h5")] if command[0] == "h5repack" else []
        subprocess.run([*command, str(path), *more], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["h5diff", str(path), str(tmp_path / "repacked.h5")], check=True)


def test_newer_formats_are_used_where_they_are_needed_and_then_said(tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    stored = zlib.compress(b"what this inflates to is too short")

    def make(file: Any) -> Any:
        return file.create_dataset("g/large", (10 << 30,), "u1", chunks=(5 << 30,), compression=1)

    for libver in ("v108", "v110", ("earliest", "v110")):
        with (
            hyperchunk.File(path, "w", libver=libver) as file,
            pytest.raises(hyperchunk.HyperchunkError, match="4 GiB"),
        ):
            make(file)
    with hyperchunk.File(path, "w", libver="v200") as file:
        make(file)
    for libver in (None, "earliest", ("earliest", "latest")):
        with hyperchunk.File(path, "w", libver=libver) as file:
            file.create_dataset("plain", (8,), "u1", chunks=(4,))
            warning = hyperchunk.exceptions.NewerFormatWarning
            with pytest.warns(warning, match="dataset large: HDF5 before 2.0 cannot read it"):
                dataset = make(file)
            dataset.write_chunk((5 << 30,), stored)
            assert file.libver == ("earliest", "v200")
        with h5py.File(path) as file:
            info = file["g/large"].id.get_chunk_info(0)
            assert (file["g/large"].chunks, info.chunk_offset, info.size) == ((5 << 30,), (5 << 30,), len(stored))
            assert file["g/large"].id.read_direct_chunk((5 << 30,)) == (0, stored)
            assert file["plain"].chunks == (4,)
