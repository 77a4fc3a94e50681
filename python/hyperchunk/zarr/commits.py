"""Commits of collections to Icechunk."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection
from hyperchunk.exceptions import InvalidError
from hyperchunk.file import is_url
from hyperchunk.typing import Shape
from hyperchunk.zarr.arrays import Stored, ZarrArray
from hyperchunk.zarr.tree import Tree

#: An ``icechunk.Repository``.
Repository: TypeAlias = Any
#: Key of the metadata of a commit: number of files, and digest of their names.
_KEY = "hyperchunk"
#: Number of references that are passed on together.
_BATCH = 10_000


def commit(collection: Collection, repository: Repository, branch: str, message: str | None) -> str:
    """Commits a collection: see :meth:`hyperchunk.Collection.to_icechunk`."""
    import_optional("icechunk")
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    from hyperchunk.zarr.zarr_store import documents

    session = repository.writable_session(branch)
    store = session.store
    make_buffer = default_buffer_prototype().buffer.from_bytes

    def get(key: str) -> dict[str, Any] | None:
        found = sync(store.get(key, default_buffer_prototype()))
        return None if found is None else dict(json.loads(found.to_bytes()))

    def put(key: str, data: bytes) -> None:
        sync(store.set(key, make_buffer(data)))

    names = [url_of(name) for name in collection.files]
    known = _known(repository, branch, names) if get("zarr.json") is not None else 0
    if known == len(names):
        return str(session.snapshot_id)
    tree = Tree(collection)
    # Stores count whole seconds.
    started = datetime.now(UTC) + timedelta(seconds=1)
    for path, document in documents(tree).items():
        key = f"{path}/zarr.json".lstrip("/")
        before = get(key) if known else None
        array = tree.array(path)
        if array is None:
            if before != document:
                put(key, json.dumps(document).encode())
            continue
        first = _first_new(array, before, document, known)
        if first == 0 and before is not None:
            sync(store.delete_dir(path))
        if before != document:
            put(key, json.dumps(document).encode())
        _put_chunks(array, path, store, put, names, started, first)
    text = message or f"{len(names) - known} of {len(names)} files"
    told = {"files": len(names), "digest": _digest(names)}
    return str(session.commit(text, metadata={_KEY: json.dumps(told)}))


def _first_new(array: ZarrArray, before: dict[str, Any] | None, document: dict[str, Any], known: int) -> int | None:
    """Returns the first place along the joined axis whose chunks are to be written; None if none are.

    Args:
        array: The array.
        before: Its metadata in the repository; None if it is not there.
        document: Its metadata now.
        known: Number of files of the repository.
    """
    axis = array.source.axis
    if before is None or not _is_longer(before, document, axis):
        return 0
    if axis is None:
        return None
    end = array.source.spans()[known - 1][1]
    # The last chunk may have had fewer rows.
    return end // array.chunks[axis]


def _is_longer(before: dict[str, Any], document: dict[str, Any], axis: int | None) -> bool:
    """True if two arrays are the same but for their extents along an axis."""
    shapes = [[length for at, length in enumerate(told["shape"]) if at != axis] for told in (before, document)]
    rest = [{name: value for name, value in told.items() if name != "shape"} for told in (before, document)]
    return shapes[0] == shapes[1] and rest[0] == rest[1]


def _put_chunks(
    array: ZarrArray, path: str, store: Any, put: Any, names: list[str], started: datetime, first: int | None
) -> None:
    if first is None:
        return
    from icechunk import VirtualChunkSpec

    axis = array.source.axis
    for batch in _batches(_new_places(array, axis, first)):
        specs = []
        for place, found in batch:
            if isinstance(found, Stored):
                name = names[found.number]
                # Icechunk refuses chunks of files that are changed later.
                specs.append(VirtualChunkSpec(list(place), name, found.offset, found.length, None, started))
            elif found:
                put("/".join([path, "c", *map(str, place)]), array.encoded(place))
        if specs:
            refused = store.set_virtual_refs(f"/{path}", specs, validate_containers=True)
            if refused:
                raise InvalidError(
                    f"cannot commit {array.name}: the repository has no virtual chunk container for {specs[0].location}"
                    "; add one to its configuration"
                )


def _new_places(array: ZarrArray, axis: int | None, first: int) -> Iterator[tuple[Shape, Stored | bool]]:
    found = array.places()
    return found if axis is None else (entry for entry in found if entry[0][axis] >= first)


def _batches(entries: Iterable[tuple[Shape, Stored | bool]]) -> Iterator[list[tuple[Shape, Stored | bool]]]:
    left = iter(entries)
    while batch := list(itertools.islice(left, _BATCH)):
        yield batch


def _known(repository: Repository, branch: str, names: list[str]) -> int:
    """Returns the number of files in a branch.

    Raises:
        InvalidError: The branch has something else than the collection's first files.
    """
    for snapshot in repository.ancestry(branch=branch):
        told = snapshot.metadata.get(_KEY)
        if told is None:
            continue
        found = json.loads(told)
        count = int(found["files"])
        if count <= len(names) and found["digest"] == _digest(names[:count]):
            return count
        break
    raise InvalidError(
        f"cannot commit to the branch {branch!r}: expected an earlier state of this collection, got other data; "
        "commit to another branch or repository"
    )


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def url_of(name: str) -> str:
    """Returns the URL of a file."""
    return name if is_url(name) else Path(name.removeprefix("file://")).absolute().as_uri()


__all__ = ["commit", "url_of"]
