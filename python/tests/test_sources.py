"""Files opened through Python sources of bytes, batched reads, and files passed to other processes."""

from __future__ import annotations

import asyncio
import gzip
import io
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError, NotHdf5Error, ObjectNotFoundError, ReadError, UnsupportedError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with objects of each kind that is fetched in its own way."""
    path = tmp_path_factory.mktemp("sources") / "made.h5"
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as f:
        for beam in ("left", "right"):
            group = f.create_group(beam)
            group.attrs["name"] = f"the {beam} one"
            values = rng.normal(size=50_000).astype("f4")
            group.create_dataset("height", data=values, chunks=(1000,), shuffle=True, compression="gzip")
            group.create_dataset("flag", data=rng.integers(0, 3, (300, 70)).astype("u1"), chunks=(100, 30))
            group.create_dataset("plain", data=np.arange(20_000).reshape(100, 200))
        f["text"] = [f"number {n}" * (n % 7) for n in range(3000)]
        f["one"] = 42.5
        f["empty"] = h5py.Empty("f8")
        f["pairs"] = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
        f.create_dataset("sparse", (1000, 1000), "i4", chunks=(10, 10), fillvalue=7)[500, 500] = 1
    return path


@contextmanager
def ways(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the same file through each kind of source."""
    memory = fsspec.filesystem("memory")
    memory.pipe("/made.h5", path.read_bytes())
    local = fsspec.filesystem("file")
    file = path.open("rb")
    found = {
        "file object": file,
        "BytesIO": io.BytesIO(path.read_bytes()),
        "fsspec open": memory.open("/made.h5", "rb"),
        "fsspec OpenFile": fsspec.open(f"file://{path}"),
        "fsspec pair": (local, str(path)),
    }
    obstore = pytest.importorskip("obstore")
    store = obstore.store.LocalStore(str(path.parent))
    found["obstore pair"] = (store, path.name)
    with file:
        yield found


def equal(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, h5py.Empty):
        return isinstance(ours, hyperchunk.Empty) and ours.dtype == theirs.dtype
    return bool(np.array_equal(np.asarray(ours), np.asarray(theirs)))


WANTED: list[tuple[str, Any]] = [
    ("left/height", ...),
    ("right/height", np.s_[1234:40_000:3]),
    ("left/flag", np.s_[:, 5]),
    ("left/flag", np.s_[10:20, [1, 5, 30]]),
    ("right/plain", np.s_[3:90:7, 100:]),
    ("right/plain", np.s_[-1]),
    ("text", np.s_[100:200]),
    ("one", ()),
    ("empty", ()),
    ("pairs", "b"),
    ("sparse", np.s_[495:505, 495:505]),
    ("sparse", np.s_[0]),
    ("left/height", np.s_[0:0]),
]


def test_every_source(made: Path) -> None:
    with h5py.File(made) as theirs, ways(made) as sources:
        for way, source in sources.items():
            with hyperchunk.open(source, network={"block": 512}) as ours:
                assert list(ours) == list(theirs), way
                names: list[str] = []
                ours.visit(names.append)
                expected: list[str] = []
                theirs.visit(expected.append)
                assert names == expected, way
                assert ours["left"].attrs["name"] == "the left one"
                for path, index in WANTED:
                    assert equal(ours[path][index], theirs[path][index]), (way, path, index)


def test_many_reads_as_one(made: Path) -> None:
    with h5py.File(made) as theirs, ways(made) as sources:
        for way, source in [*sources.items(), ("path", made)]:
            network = None if way == "path" else {"block": 512}
            with hyperchunk.open(source, network=network) as ours:
                for found, (path, index) in zip(ours.read_many(WANTED), WANTED, strict=True):
                    assert equal(found, theirs[path][index]), (way, path, index)
                named = ours["left"].read_many({"height": np.s_[5:9], "plain": ...})
                assert list(named) == ["height", "plain"]
                assert equal(named["height"], theirs["left/height"][5:9])
                slices = [np.s_[n : n + 5, n] for n in range(0, 65, 3)]
                for found, index in zip(ours["left/flag"].read_slices(slices), slices, strict=True):
                    assert equal(found, theirs["left/flag"][index])


def test_distant_parts_of_an_unfiltered_chunk(tmp_path: Path) -> None:
    """Only they are fetched, and not what lies between them."""
    data = np.random.default_rng(1).random((2048, 512))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=data.shape)
        file.create_dataset("edges", data=data, chunks=(1500, 400))
    memory = fsspec.filesystem("memory")
    memory.pipe("/distant.h5", (tmp_path / "a.h5").read_bytes())
    with hyperchunk.open((memory, "/distant.h5"), network={"read_ahead": 0}) as file:
        for name in ("x", "edges"):
            dataset = file[name]
            dataset[0, 0]
            for index in (
                np.s_[[0, 2047], 0],
                np.s_[::1000],
                np.s_[::500, ::511],
                np.s_[[5, 1999], 3:500:2],
                np.s_[[1999, 5, 2], 10:20],
            ):
                before = file.stats()
                np.testing.assert_array_equal(dataset[index], data[index])
                np.testing.assert_array_equal(dataset.astype("f4")[index], data[index].astype("f4"))
                after = file.stats()
                assert before is not None
                assert after is not None
                assert after.bytes - before.bytes < 64 << 10, (name, index)
        # More parts than are fetched one by one.
        np.testing.assert_array_equal(file["x"][::2, ::7], data[::2, ::7])


def test_compressed_files_of_fsspec(made: Path, tmp_path: Path) -> None:
    packed = tmp_path / "made.h5.gz"
    packed.write_bytes(gzip.compress(made.read_bytes(), 1))
    for compression in ("gzip", "infer"):
        source = fsspec.open(f"file://{packed}", compression=compression)
        with h5py.File(made) as theirs, hyperchunk.open(source) as ours:
            for path, index in WANTED:
                assert equal(ours[path][index], theirs[path][index]), (path, index)
            again = pickle.loads(pickle.dumps(ours["one"]))
            assert again[()] == 42.5
    before = packed.read_bytes()
    target = fsspec.open(f"file://{packed}", "wb", compression="gzip")
    with pytest.raises(UnsupportedError, match="compression='gzip'"):
        hyperchunk.open(target, "w")
    assert packed.read_bytes() == before
    with pytest.raises(NotHdf5Error):
        hyperchunk.open(fsspec.open(f"file://{packed}"))


def test_a_round_trip_a_level(made: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/made.h5", made.read_bytes())
    with hyperchunk.open((memory, "/made.h5"), network={"block": 256}) as f:
        f.prefetch()
        before = f.stats()
        assert before is not None
        assert before.rounds < 12
        seen = []
        f.visititems(lambda name, item: seen.append((name, dict(item.attrs), getattr(item, "shape", None))))
        assert len(seen) == 13
        assert f.stats() == before
        f.read_many(["left/height", "right/height", "left/plain"])
        after = f.stats()
        assert after is not None
        # The chunk indexes, with their levels, and the chunks.
        assert after.rounds - before.rounds <= 4


def test_errors_name_what_is_missing(made: Path) -> None:
    with hyperchunk.open(made) as f:
        with pytest.raises(ObjectNotFoundError, match="nothing"):
            f.read_many(["left/height", "left/nothing"])
        with pytest.raises(TypeError, match="left"):
            f.read_many(["left"])
        with pytest.raises((ValueError, IndexError)):
            f["left/flag"].read_slices([np.s_[1000]])
    with pytest.raises(TypeError, match="over a network"):
        hyperchunk.open(made, storage_options={"anonymous": True})
    with pytest.raises(TypeError, match="bloc"):
        hyperchunk.open(io.BytesIO(made.read_bytes()), network={"bloc": 1})


class Torn(io.BytesIO):
    """A file object that ends too early."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size)[:100] if self.tell() < 50_000 else b""


def test_a_source_that_breaks_off(made: Path) -> None:
    with pytest.raises(ReadError, match="instead of"), hyperchunk.open(Torn(made.read_bytes())) as f:
        f["right/height"][...]


def test_in_the_background(made: Path) -> None:
    with hyperchunk.open(made) as f:
        expected = f["left/height"][10:20]
        assert equal(f["left/height"].read_future(np.s_[10:20]).result(), expected)
        assert equal(f.read_many_future({"left/height": np.s_[10:20]}).result()["left/height"], expected)

        async def both() -> list[Any]:
            dataset = f["left/height"]
            return list(await asyncio.gather(dataset.read_async(np.s_[10:20]), f.read_many_async(["one"])))

        first, second = asyncio.run(both())
        assert equal(first, expected)
        assert second == [42.5]


def test_files_travel_light(made: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/made.h5", made.read_bytes())
    for source in (made, (memory, "/made.h5")):
        with hyperchunk.open(source) as f:
            texts = [pickle.dumps(thing) for thing in (f, f["left"], f["left/height"])]
            assert all(len(text) < 1500 for text in texts)
            file, group, dataset = map(pickle.loads, texts)
            expected = f["left/height"][:10]
        # Unpickled files open on first use, even after the first one was closed.
        assert equal(file["left/height"][:10], expected)
        assert group.name == "/left"
        assert equal(group["height"][:10], expected)
        assert dataset == group["height"]
        assert equal(dataset[:10], expected)
        file.close()
        assert equal(dataset[:10], expected)
    missing = pickle.loads(pickle.dumps(hyperchunk.open(made)).replace(b"made.h5", b"gone.h5"))
    with pytest.raises(FileNotFoundError):
        missing["left"]


def test_threads_share_blocks(made: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/threads.h5", made.read_bytes())
    with hyperchunk.open((memory, "/threads.h5"), network={"block": 128}) as f, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: f["right/height"][n : n + 3000], range(0, 40_000, 1000)))
        whole = f["right/height"][...]
        for start, part in zip(range(0, 40_000, 1000), found, strict=True):
            assert equal(part, whole[start : start + 3000])


def test_a_file_that_is_written_meanwhile(made: Path, tmp_path: Path) -> None:
    obstore = pytest.importorskip("obstore")
    before, after = made.read_bytes(), bytearray(made.read_bytes())
    with h5py.File(made) as f:
        place = f["left/plain"].id.get_offset()
    after[place : place + 8] = b"\xff" * 8
    copy = tmp_path / "copy.h5"
    memory = fsspec.filesystem("memory")
    for write, source in (
        (lambda data: memory.pipe("/copy.h5", bytes(data)), (memory, "/copy.h5")),
        (lambda data: copy.write_bytes(data), (obstore.store.LocalStore(str(tmp_path)), "copy.h5")),
    ):
        write(before)
        with hyperchunk.open(source) as f:
            assert f["left/plain"][0, 0] == 0
            write(after)
            with pytest.raises(ChangedError, match="copy"):
                f["left/plain"][...]
        with hyperchunk.open(source) as f:
            assert f["left/plain"][0, 0] == -1


def test_each_name_is_there() -> None:
    for name in hyperchunk.__all__:
        assert getattr(hyperchunk, name) is not None
