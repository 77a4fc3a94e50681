"""A read-only store of zarr-python."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from hyperchunk import netcdf
from hyperchunk.exceptions import ReadError, UnsupportedError
from hyperchunk.zarr.arrays import Strings, ZarrArray
from hyperchunk.zarr.metadata import Document, array_document
from hyperchunk.zarr.tree import Shown, Tree

#: Maximum number of chunks that are fetched at a time.
_THREADS = 64
_DOCUMENT = "zarr.json"


class HyperchunkStore(Store):
    """A file or a collection as a store of zarr-python, version 3; made by :func:`hyperchunk.zarr.store`."""

    def __init__(self, shown: Shown, strings: Strings = "text", stored: bool = True) -> None:
        super().__init__(read_only=True)
        self._shown = shown
        self._strings: Strings = strings
        self._stored = stored
        self._is_open = True
        self._lock = threading.Lock()
        self._documents_found: dict[str, bytes] | None = None

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self._shown, self._strings, self._stored)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="hyperchunk-zarr")

    def __reduce__(self) -> tuple[type[HyperchunkStore], tuple[Shown, Strings, bool]]:
        return type(self), (self._shown, self._strings, self._stored)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, HyperchunkStore)
            and (self._shown is other._shown or self._shown == other._shown)
            and (self._strings, self._stored) == (other._strings, other._stored)
        )

    def __hash__(self) -> int:
        return hash((HyperchunkStore, id(self._shown)))

    def __repr__(self) -> str:
        return f"<HyperchunkStore of {self._shown!r}>"

    # --- Contents ---

    def _documents(self) -> dict[str, bytes]:
        """Returns the metadata of all groups and arrays, by key. A group's includes those below it."""
        with self._lock:
            if self._documents_found is None:
                self._documents_found = {
                    key: json.dumps(document).encode() for key, document in self._make_documents().items()
                }
            return self._documents_found

    def _make_documents(self) -> dict[str, Document]:
        found = documents(self._tree)
        for path in self._tree.groups:
            below = f"{path}/" if path else ""
            inside = {
                key.removeprefix(below): document
                # zarr-python expects parents before children, and siblings together.
                for key, document in sorted(found.items(), key=lambda item: (item[0].count("/"), item[0]))
                if key != path and key.startswith(below)
            }
            found[path] = {
                **found[path],
                "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": inside},
            }
        return {f"{path}/{_DOCUMENT}".strip("/"): document for path, document in found.items()}

    def _read(self, key: str) -> bytes | None:
        """Returns the value of a key; None if it does not exist."""
        if key == _DOCUMENT or key.endswith(f"/{_DOCUMENT}"):
            return self._documents().get(key)
        found = self._chunk(key)
        return None if found is None else found[0].stored(found[1])

    def _chunk(self, key: str) -> tuple[ZarrArray, tuple[int, ...]] | None:
        """Returns the array and the indices of the chunk with a key ``PATH/c/0/1``; None for other keys."""
        parts = key.split("/")
        at = len(parts)
        while at and parts[at - 1].isdecimal():
            at -= 1
        if at == 0 or parts[at - 1] != "c":
            return None
        array = self._tree.array("/".join(parts[: at - 1]))
        chunk_index = tuple(map(int, parts[at:]))
        if array is None or len(chunk_index) != len(array.grid):
            return None
        inside = all(index < count for index, count in zip(chunk_index, array.grid, strict=True))
        return (array, chunk_index) if inside else None

    # --- The interface of a store ---

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Returns the value of a key, or a part of it; None if it does not exist."""
        loop = asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(self._threads, self._read, key)
        except (KeyError, FileNotFoundError) as error:
            # zarr-python would take these errors for missing keys.
            raise ReadError(f"cannot read {key} of {self!r}: {error}") from error
        return None if data is None else prototype.buffer.from_bytes(_part(data, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Returns parts of values."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Returns whether a key has a value."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._has, key)

    def _has(self, key: str) -> bool:
        if key == _DOCUMENT or key.endswith(f"/{_DOCUMENT}"):
            return key in self._documents()
        found = self._chunk(key)
        return found is not None and found[0]._place(found[1]) is not False

    supports_writes = False
    supports_deletes = False
    supports_listing = True
    supports_partial_writes = False

    async def set(self, key: str, value: Buffer) -> None:
        """Raises an error: the store is read-only."""
        raise UnsupportedError(f"cannot write {key}: the store is read-only; edit the HDF5 file with hyperchunk.open")

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, object]]) -> None:
        """Raises an error: the store is read-only."""
        raise UnsupportedError("cannot write: the store is read-only; edit the HDF5 file with hyperchunk.open")

    async def delete(self, key: str) -> None:
        """Raises an error: the store is read-only."""
        raise UnsupportedError(f"cannot delete {key}: the store is read-only; edit the HDF5 file with hyperchunk.open")

    async def list(self) -> AsyncIterator[str]:
        """Iterates over all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Iterates over the keys that begin with a prefix."""
        for key in self._documents():
            if key.startswith(prefix):
                yield key
        for path, array in self._tree.arrays():
            start = f"{path}/c"
            if not start.startswith(prefix) and not prefix.startswith(start):
                continue
            for chunk_index, found in array.places():
                key = "/".join([start, *map(str, chunk_index)])
                if found is not False and key.startswith(prefix):
                    yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Iterates over the names directly below a prefix."""
        folder = f"{prefix.strip('/')}/".lstrip("/")
        seen: set[str] = set()
        for key in self._documents():
            if key.startswith(folder):
                seen.add(key[len(folder) :].split("/")[0])
        if self._tree.array(folder.rstrip("/")) is not None:
            seen.add("c")
        elif "/c/" in f"/{folder}":
            async for key in self.list_prefix(folder):
                seen.add(key[len(folder) :].split("/")[0])
        for name in sorted(seen):
            yield name


def documents(tree: Tree) -> dict[str, Document]:
    """Returns the contents of ``zarr.json`` of all groups and arrays, by path. Warns about datasets that Zarr cannot
    represent.
    """
    found: dict[str, Document] = {}
    for path in tree.groups:
        found[path] = {"zarr_format": 3, "node_type": "group", "attributes": tree.attributes(path)}
    for path, array in tree.arrays():
        try:
            found[path] = array_document(array)
        except UnsupportedError as error:
            netcdf.left_out(array.name, str(error))
    return found


def _part(data: bytes, asked: ByteRequest | None) -> bytes:
    match asked:
        case None:
            return data
        case RangeByteRequest(start, end):
            return data[start:end]
        case OffsetByteRequest(offset):
            return data[offset:]
        case SuffixByteRequest(suffix):
            return data[max(0, len(data) - suffix) :]
    raise UnsupportedError(f"cannot read a part of a value: got the request {asked!r}")


__all__ = ["HyperchunkStore", "documents"]
