"""One class for each reader: ours and the rivals, each used as documented.

A reader has `open(name)`, `listing()` (every object and every attribute's value; returns the number of objects),
`read(path, selection)`, `read_many(paths)` and `read_slices(path, selections)`. `modules` are imported before the clock
starts. `index` is set if the reader needs a prepared index on the local disk: it is not compared with readers that use
the file alone. `python` names another environment to run in.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

KEY, SECRET, REGION, BUCKET = "benchkey", "benchsecret", "us-east-1", "bench"
ENDPOINT = os.environ.get("BENCH_ENDPOINT", "")
INDEXES = Path(os.environ.get("BENCH_INDEXES", "."))
ALL = Ellipsis
READERS: dict[str, type[Reader]] = {}


class Reader:
    """Base class of the readers."""

    modules: ClassVar[list[str]] = []
    index = False
    python = "venv"
    name = ""

    def __init_subclass__(cls, label: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if label:
            cls.name = label
            READERS[label] = cls

    @classmethod
    def prepare(cls) -> None:
        for module in cls.modules:
            importlib.import_module(module)

    def open(self, name: str) -> None:
        raise NotImplementedError

    def listing(self) -> int:
        raise NotImplementedError

    def read(self, path: str, selection: Any = ALL) -> Any:
        raise NotImplementedError

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        return [self.read(path) for path in paths]

    def read_slices(self, path: str, selections: Sequence[Any]) -> list[Any]:
        return [self.read(path, selection) for selection in selections]

    def read_rows(self, paths: Sequence[str], rows: slice) -> list[Any]:
        return [self.read(path, rows) for path in paths]

    def stats(self) -> dict[str, Any]:
        """Returns the reader's own request counters."""
        return {}


def in_slices(selection: Any) -> list[slice]:
    """Converts a selection to slices."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    return [part if isinstance(part, slice) else slice(part, part + 1) for part in parts]


def obstore_store() -> Any:
    from obstore.store import S3Store

    return S3Store(
        BUCKET,
        endpoint=ENDPOINT,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region=REGION,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def s3_file(name: str, **options: Any) -> Any:
    import s3fs

    client = {"endpoint_url": ENDPOINT, "region_name": REGION}
    system = s3fs.S3FileSystem(key=KEY, secret=SECRET, client_kwargs=client, skip_instance_cache=True)
    return system.open(f"{BUCKET}/{name}", "rb", **options)


BLOCKS = {"cache_type": "blockcache", "block_size": 4 << 20, "cache_options": {"maxblocks": 128}}


class H5pyLocal(Reader, label="h5py, local file"):
    modules: ClassVar[list[str]] = ["h5py"]

    def open(self, name: str) -> None:
        import h5py

        folder = Path(os.environ["BENCH_DATA"])
        path = folder / name
        self.f = h5py.File(path if path.exists() else folder / "copies" / name)

    def listing(self) -> int:
        found: list[str] = []
        self.f.visit(found.append)
        return len(found)

    def read(self, path: str, selection: Any = ALL) -> Any:
        return self.f[path][selection]


class Hyperchunk(Reader, label="hyperchunk"):
    modules: ClassVar[list[str]] = ["hyperchunk", "hyperchunk.file", "hyperchunk.batches"]

    def open(self, name: str) -> None:
        import hyperchunk

        storage = {"endpoint": ENDPOINT, "key": KEY, "secret": SECRET, "region": REGION, "allow_http": True}
        self.f = hyperchunk.open(f"s3://{BUCKET}/{name}", storage_options=storage, **self.named(name))

    def named(self, name: str) -> dict[str, str]:
        return {}

    def listing(self) -> int:
        self.f.prefetch()
        found = []

        def visit(name: str, item: Any) -> None:
            found.append((name, getattr(item, "shape", None), dict(item.attrs)))

        self.f.visititems(visit)
        return len(found)

    def read(self, path: str, selection: Any = ALL) -> Any:
        return self.f[path][selection]

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        found = self.f.read_many(list(paths))
        return [found[path] for path in paths] if isinstance(found, dict) else list(found)

    def read_slices(self, path: str, selections: Sequence[Any]) -> list[Any]:
        return list(self.f[path].read_slices(list(selections)))

    def read_rows(self, paths: Sequence[str], rows: slice) -> list[Any]:
        return list(self.f.read_many([(path, rows) for path in paths]))

    def stats(self) -> dict[str, Any]:
        return dict(self.f.stats()._asdict())


class HyperchunkIndex(Hyperchunk, label="hyperchunk, sidecar"):
    index = True

    def named(self, name: str) -> dict[str, str]:
        return {"index": str(INDEXES / f"{name}.hcindex")}


class H5py(Reader):
    modules: ClassVar[list[str]] = ["h5py", "s3fs", "aiobotocore.session"]
    f: Any

    def listing(self) -> int:
        found = []

        def visit(name: str, item: Any) -> None:
            found.append((name, getattr(item, "shape", None), dict(item.attrs)))

        self.f.visititems(visit)
        return len(found)

    def read(self, path: str, selection: Any = ALL) -> Any:
        return self.f[path][selection]


class H5pyS3fs(H5py, label="h5py + s3fs"):
    options: ClassVar[dict[str, Any]] = {}

    def open(self, name: str) -> None:
        import h5py

        self.f = h5py.File(s3_file(name, **self.options), "r")


class H5pyS3fsBlocks(H5pyS3fs, label="h5py + s3fs, blockcache"):
    options: ClassVar[dict[str, Any]] = BLOCKS


class H5pyRos3(H5py, label="h5py ros3"):
    python = "ros3"
    modules: ClassVar[list[str]] = ["h5py"]

    def open(self, name: str) -> None:
        import h5py

        # The only way to reach an endpoint other than Amazon's (HDF5 2.1).
        os.environ.update({"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL_S3": ENDPOINT})
        options: dict[str, Any] = {"aws_region": REGION.encode()}
        options |= {"secret_id": KEY.encode(), "secret_key": SECRET.encode()}
        if "paged" in name:
            options["page_buf_size"] = 64 << 20
        self.f = h5py.File(f"s3://{BUCKET}/{name}", "r", driver="ros3", **options)


class H5coro(Reader, label="h5coro"):
    modules: ClassVar[list[str]] = ["h5coro", "h5coro.h5coro", "h5coro.s3driver", "boto3"]

    def open(self, name: str) -> None:
        from h5coro import h5coro, s3driver

        os.environ.update({"AWS_ENDPOINT_URL": ENDPOINT, "AWS_DEFAULT_REGION": REGION})
        os.environ.update({"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET})
        self.f = h5coro.H5Coro(f"{BUCKET}/{name}", s3driver.S3Driver)

    def listing(self) -> int:
        def walk(path: str) -> int:
            variables, _, groups = self.f.list(path, w_attr=True)
            below = [walk(f"{path}/{group}" if path else group) for group in groups]
            return len(variables) + len(groups) + sum(below)

        return walk("")

    def read(self, path: str, selection: Any = ALL) -> Any:
        slices = [] if selection is ALL else [(s.start, s.stop) for s in in_slices(selection)]
        return self.f.readDatasets([{"dataset": path, "hyperslice": slices}], block=True)[path]

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        return self._together([{"dataset": path, "hyperslice": []} for path in paths])

    def read_rows(self, paths: Sequence[str], rows: slice) -> list[Any]:
        return self._together([{"dataset": path, "hyperslice": [(rows.start, rows.stop)]} for path in paths])

    def _together(self, wanted: list[dict[str, Any]]) -> list[Any]:
        found = self.f.readDatasets(wanted, block=True)
        return [found[one["dataset"]] for one in wanted]


class Pyfive(H5py, label="pyfive + s3fs"):
    modules: ClassVar[list[str]] = ["pyfive", "s3fs", "aiobotocore.session"]
    options: ClassVar[dict[str, Any]] = {}

    def open(self, name: str) -> None:
        import pyfive

        self.f = pyfive.File(s3_file(name, **self.options))


class PyfiveBlocks(Pyfive, label="pyfive + s3fs, blockcache"):
    options: ClassVar[dict[str, Any]] = BLOCKS


class Zarr(Reader):
    f: Any

    def listing(self) -> int:
        return sum(1 for _, item in self.f.members(max_depth=None) if dict(item.attrs) is not None)

    def read(self, path: str, selection: Any = ALL) -> Any:
        return self.f[path][selection]

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(self.read, paths))


class VirtualiZarr(Zarr, label="VirtualiZarr + zarr"):
    modules: ClassVar[list[str]] = ["zarr", "obstore", "virtualizarr.parsers", "obspec_utils.registry"]

    def open(self, name: str) -> None:
        import zarr
        from obspec_utils.registry import ObjectStoreRegistry
        from virtualizarr.parsers import HDFParser

        registry = ObjectStoreRegistry({f"s3://{BUCKET}": obstore_store()})
        manifest = HDFParser()(f"s3://{BUCKET}/{name}", registry=registry)
        self.f = zarr.open_group(manifest, mode="r", zarr_format=3)


class Kerchunk(Zarr, label="kerchunk + zarr"):
    modules: ClassVar[list[str]] = ["zarr", "fsspec", "s3fs", "aiobotocore.session", "numcodecs"]
    index = True

    def open(self, name: str) -> None:
        import fsspec
        import zarr

        client = {"endpoint_url": ENDPOINT, "region_name": REGION}
        remote = {"key": KEY, "secret": SECRET, "asynchronous": True, "client_kwargs": client}
        system = fsspec.filesystem(
            "reference",
            fo=str(INDEXES / f"{name}.kerchunk.json"),
            remote_protocol="s3",
            asynchronous=True,
            remote_options=remote,
            skip_instance_cache=True,
        )
        store = zarr.storage.FsspecStore(system, read_only=True, path="")
        self.f = zarr.open_group(store, mode="r", zarr_format=2)

    @staticmethod
    def make_index(path: Path) -> None:
        import json

        from kerchunk.hdf import SingleHdf5ToZarr

        with path.open("rb") as file:
            found = SingleHdf5ToZarr(file, f"s3://{BUCKET}/{path.name}", inline_threshold=0).translate()
        (INDEXES / f"{path.name}.kerchunk.json").write_text(json.dumps(found))


class H5coroHidefix(Reader, label="h5coro-hidefix"):
    """The index plans the reads; obstore's `get_ranges` does them, since the package itself reads nothing."""

    modules: ClassVar[list[str]] = ["h5coro_hidefix", "obstore"]
    index = True

    def open(self, name: str) -> None:
        from h5coro_hidefix import Index

        self.index_, self.name_, self.store = Index.load(str(INDEXES / f"{name}.hfx")), name, obstore_store()

    def listing(self) -> int:
        return len(self.index_.datasets())

    def read(self, path: str, selection: Any = ALL) -> Any:
        import obstore

        path = f"/{path}"
        rows, *rest = [slice(None)] if selection is ALL else in_slices(selection)
        starts, lengths, _ = self.index_.read_plan(path, rows.start, rows.stop)
        found = obstore.get_ranges(self.store, self.name_, starts=starts.tolist(), lengths=lengths.tolist())
        values = self.index_.read_from_buffers(path, [memoryview(part) for part in found], rows.start, rows.stop)
        return values[(slice(None), *rest)] if rest else values

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(self.read, paths))

    @staticmethod
    def make_index(path: Path) -> None:
        from h5coro_hidefix import Index

        Index(str(path)).save(str(INDEXES / f"{path.name}.hfx"))


class AsyncHdf5(Reader, label="async-hdf5"):
    """The package returns metadata and stored chunks; it decodes nothing, so libdeflate and NumPy do, on two threads.

    Slices are read one after another: a hundred together transfer 20 GB and take minutes, since each fetches its own
    blocks.
    """

    modules: ClassVar[list[str]] = ["async_hdf5", "async_hdf5.store", "deflate"]

    def open(self, name: str) -> None:
        from async_hdf5 import HDF5File
        from async_hdf5.store import S3Store

        store = S3Store(
            BUCKET,
            endpoint=ENDPOINT,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region=REGION,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

        async def root() -> Any:
            return await (await HDF5File.open(name, store=store)).root_group()

        self.loop = asyncio.new_event_loop()
        self.root = self.loop.run_until_complete(root())
        self.pool = ThreadPoolExecutor(2)

    def listing(self) -> int:
        async def walk(group: Any) -> int:
            count = 0
            await group.attributes()
            for name in await group.dataset_names():
                await (await group.dataset(name)).attributes()
                count += 1
            for name in await group.group_names():
                count += 1 + await walk(await group.group(name))
            return count

        return self.loop.run_until_complete(walk(self.root))

    @staticmethod
    def decode(raw: bytes, filters: list[int], dtype: np.dtype, size: int) -> np.ndarray:
        import deflate

        for number in reversed(filters):
            if number == 1:
                raw = deflate.zlib_decompress(raw, size)
            elif number == 2:
                planes = np.frombuffer(raw, "u1").reshape(dtype.itemsize, -1)
                raw = np.ascontiguousarray(planes.T).tobytes()
        return np.frombuffer(raw, dtype)

    async def _read(self, path: str, selection: Any) -> Any:
        *groups, name = path.split("/")
        group = self.root
        for part in groups:
            group = await group.group(part)
        dataset = await group.dataset(name)
        dtype, shape = np.dtype(dataset.numpy_dtype), dataset.shape
        wanted = [slice(0, size) for size in shape]
        if selection is not ALL:
            asked = [*in_slices(selection), *wanted][: len(shape)]
            wanted = [slice(*s.indices(size)[:2]) for s, size in zip(asked, shape, strict=True)]
        index = await dataset.chunk_index()
        if dataset.chunk_shape is None:
            start = next(iter(index)).byte_offset + wanted[0].start * dtype.itemsize
            length = (wanted[0].stop - wanted[0].start) * dtype.itemsize
            (raw,) = await dataset.batch_fetch_ranges([(start, length)])
            return np.frombuffer(bytes(raw), dtype)
        chunk = dataset.chunk_shape
        filters = [part["id"] for part in dataset.filters]
        size = int(np.prod(chunk)) * dtype.itemsize
        places = [range(s.start // c, -(-s.stop // c)) for s, c in zip(wanted, chunk, strict=True)]
        numbers = list(itertools.product(*places))
        found = [index.get(list(number)) for number in numbers]
        stored = await dataset.batch_fetch_ranges([(part.byte_offset, part.byte_length) for part in found])
        out = np.empty([s.stop - s.start for s in wanted], dtype)

        def put(number: Sequence[int], raw: Any) -> None:
            values = self.decode(bytes(raw), filters, dtype, size).reshape(chunk)
            axes = list(zip(wanted, number, chunk, strict=True))
            source = tuple(slice(max(s.start - n * c, 0), min(s.stop - n * c, c)) for s, n, c in axes)
            starts = [n * c - s.start for s, n, c in axes]
            target = tuple(slice(at + s.start, at + s.stop) for at, s in zip(starts, source, strict=True))
            out[target] = values[source]

        jobs = zip(numbers, stored, strict=True)
        await asyncio.gather(*[self.loop.run_in_executor(self.pool, put, number, raw) for number, raw in jobs])
        return out

    def read(self, path: str, selection: Any = ALL) -> Any:
        return self.loop.run_until_complete(self._read(path, selection))

    def _together(self, wanted: Sequence[tuple[str, Any]]) -> list[Any]:
        async def all_of_them() -> Any:
            return await asyncio.gather(*[self._read(path, selection) for path, selection in wanted])

        return list(self.loop.run_until_complete(all_of_them()))

    def read_many(self, paths: Sequence[str]) -> list[Any]:
        return self._together([(path, ALL) for path in paths])

    def read_rows(self, paths: Sequence[str], rows: slice) -> list[Any]:
        return self._together([(path, rows) for path in paths])
