"""Commits of collections to Icechunk."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hyperchunk import netcdf
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection
from hyperchunk.exceptions import InvalidError
from hyperchunk.file import is_url
from hyperchunk.typing import Shape
from hyperchunk.zarr.arrays import ChunkLocation, Strings, ZarrArray
from hyperchunk.zarr.tree import Tree
from hyperchunk.zarr.versions import Version, check_settled, digest_versions, versions

if TYPE_CHECKING:
    import icechunk

    from hyperchunk.zarr.metadata import Document

#: An ``icechunk.Repository``.
Repository: TypeAlias = "icechunk.Repository"
#: Key of the metadata of a commit: :class:`_Before` as JSON.
_KEY = "hyperchunk"
#: Number of references that are passed to Icechunk together.
_BATCH = 10_000


class _Before(NamedTuple):
    """State of the collection in a branch."""

    #: Number of files; 0 if the branch is empty.
    files: int
    #: True if the files are still the versions that were committed, and joined as they were.
    is_current: bool
    #: Names of the collection's attributes of each group and array, by path.
    attributes: dict[str, list[str]]
    #: Paths of arrays whose metadata were changed in the branch since then, and of those with changed chunks.
    changed: set[str]
    touched: set[str]


def commit(
    collection: Collection, repository: Repository, branch: str, message: str | None, strings: Strings = "text"
) -> str:
    """Commits a collection: see :meth:`hyperchunk.Collection.to_icechunk`."""
    import_optional("icechunk")
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    from hyperchunk.zarr.zarr_store import documents

    session = repository.writable_session(branch)
    store = session.store
    make_buffer = default_buffer_prototype().buffer.from_bytes

    def get(path: str) -> Document | None:
        found = sync(store.get(_key(path), default_buffer_prototype()))
        return None if found is None else dict(json.loads(found.to_bytes()))

    def put(key: str, data: bytes) -> None:
        sync(store.set(key, make_buffer(data)))

    found = versions(collection)
    names = [to_url(name) for name in collection.files]
    is_empty = get("") is None
    known = _Before(0, False, {}, set(), set()) if is_empty else _known(repository, branch, collection, names, found)
    tree = Tree(collection, strings)
    # Converted to JSON and back, so that equal documents compare equal to the branch's.
    made: dict[str, Document] = json.loads(json.dumps(documents(tree)))
    for path, document in made.items():
        _leave_out_nan(path, document)
    for path, document in made.items():
        array = tree.array(path)
        before = None if is_empty else get(path)
        if before is not None:
            _check_own(path, before, document, known)
            _keep_attributes(before, document, known.attributes.get(path))
        is_equal = before == document
        first: int | None = None
        if array is not None:
            is_touched = path in known.touched or (path in known.changed and not is_equal)
            first = _first_new(array, None if is_touched else before, document, known)
            if first == 0 and before is not None:
                sync(store.delete_dir(path))
                is_equal = False
        if not is_equal:
            put(_key(path), json.dumps(document).encode())
        if array is not None and first is not None:
            if array.source.first.is_virtual:
                array.check_sources()
            _put_chunks(array, path, store, put, names, found, first)
    for path in set(known.attributes) - set(made):
        if (get(path) or {}).get("node_type") == "array":
            sync(store.delete_dir(path))
    if not session.has_uncommitted_changes:
        return str(session.snapshot_id)
    check_settled(found[known.files :] if known.is_current else found)
    told = {
        "files": len(names),
        "digest": _digest(names),
        "versions": digest_versions(found, collection.concat),
        "attributes": {path: sorted(set(tree.names_of_attributes(path))) for path in made},
    }
    return str(session.commit(message or _message(known, len(names)), metadata={_KEY: json.dumps(told)}))


def _key(path: str) -> str:
    return f"{path}/zarr.json".lstrip("/")


def _message(known: _Before, count: int) -> str:
    new = count - known.files if known.is_current else count
    return f"{new} of {count} files" if new else f"{count} files, as they are"


def _check_own(path: str, before: Document, document: Document, known: _Before) -> None:
    """Checks that a branch's group or array may be replaced.

    Raises:
        InvalidError: It belongs to another program.
    """
    is_group = before["node_type"] == document["node_type"] == "group"
    # Commits of older versions do not name the collection's arrays.
    is_own = path in known.attributes or not known.attributes
    if not is_group and (not is_own or before["node_type"] != document["node_type"]):
        raise InvalidError(
            f"cannot commit /{path}: expected no {before['node_type']} of another program in the branch; "
            "move it, or commit to another branch or repository"
        )


def _keep_attributes(before: Document, document: Document, own: list[str] | None) -> None:
    """Adds a branch's attributes that are not the collection's."""
    if own is None and before["node_type"] == "array":
        return
    told = before.get("attributes", {})
    others = {name: value for name, value in told.items() if name not in (own or ())}
    document["attributes"] = {**others, **document.get("attributes", {})}


def _leave_out_nan(path: str, document: Document) -> None:
    """Removes attributes with NaN or infinity, which Icechunk does not allow in JSON."""
    for name, value in list(document.get("attributes", {}).items()):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            reason = "Icechunk does not allow NaN and infinity in attributes"
            netcdf.left_out(f"the attribute {name!r} of /{path}", reason)
            del document["attributes"][name]


def _first_new(array: ZarrArray, before: Document | None, document: Document, known: _Before) -> int | None:
    """Returns the first chunk index along the joined axis that is to be written; None if none are.

    Args:
        array: The array.
        before: Its metadata in the branch; None if it does not exist there, or has other chunks.
        document: Its metadata now.
        known: State of the branch.
    """
    axis = array.source.axis
    if before is None or not known.is_current or not _is_longer(before, document, axis):
        return 0
    if axis is None or known.files == len(array.source.spans()):
        return None
    end = array.source.spans()[known.files - 1][1]
    # The last chunk may have had fewer rows.
    return end // array.chunks[axis]


def _is_longer(before: Document, document: Document, axis: int | None) -> bool:
    """True if two arrays differ only in their extents along an axis."""
    shapes = [[length for at, length in enumerate(told["shape"]) if at != axis] for told in (before, document)]
    rest = [{name: value for name, value in told.items() if name != "shape"} for told in (before, document)]
    return shapes[0] == shapes[1] and rest[0] == rest[1]


def _put_chunks(
    array: ZarrArray,
    path: str,
    store: icechunk.IcechunkStore,
    put: Callable[[str, bytes], None],
    names: list[str],
    found: list[Version],
    first: int,
) -> None:
    from icechunk import VirtualChunkSpec

    axis = array.source.axis
    # Icechunk refuses chunks of files that are changed later. It counts whole seconds.
    started = datetime.now(UTC) + timedelta(seconds=1)
    for batch in _batches(_new_places(array, axis, first)):
        specs = []
        for chunk_index, stored in batch:
            if isinstance(stored, ChunkLocation):
                version = found[stored.number]
                limit = None if version.etag else version.written or started
                specs.append(
                    VirtualChunkSpec(
                        list(chunk_index), names[stored.number], stored.offset, stored.length, version.etag, limit
                    )
                )
            elif stored:
                put("/".join([path, "c", *map(str, chunk_index)]), array.encoded(chunk_index))
        if specs:
            refused = store.set_virtual_refs(f"/{path}", specs, validate_containers=True)
            if refused:
                raise InvalidError(
                    f"cannot commit {array.name}: the repository has no virtual chunk container for {specs[0].location}"
                    "; add one to its configuration"
                )


def _new_places(array: ZarrArray, axis: int | None, first: int) -> Iterator[tuple[Shape, ChunkLocation | bool]]:
    found = array.places()
    return found if axis is None else (entry for entry in found if entry[0][axis] >= first)


def _batches(
    entries: Iterable[tuple[Shape, ChunkLocation | bool]],
) -> Iterator[list[tuple[Shape, ChunkLocation | bool]]]:
    left = iter(entries)
    while batch := list(itertools.islice(left, _BATCH)):
        yield batch


def _known(
    repository: Repository, branch: str, collection: Collection, names: list[str], found: list[Version]
) -> _Before:
    """Returns the state of a branch.

    Raises:
        InvalidError: The branch has other data than the collection's first files.
    """
    tip = None
    for snapshot in repository.ancestry(branch=branch):
        tip = tip or snapshot.id
        text = snapshot.metadata.get(_KEY)
        if text is None:
            continue
        told = json.loads(text)
        count = int(told["files"])
        if count <= len(names) and told["digest"] == _digest(names[:count]):
            is_current = told.get("versions") == digest_versions(found[:count], collection.concat)
            changed, touched = _changes(repository, snapshot.id, tip)
            return _Before(count, is_current, told.get("attributes", {}), changed, touched)
        break
    raise InvalidError(
        f"cannot commit to the branch {branch!r}: expected an earlier state of this collection, got other data; "
        "commit to another branch or repository"
    )


def _changes(repository: Repository, ours: str, tip: str) -> tuple[set[str], set[str]]:
    """Returns the paths of arrays whose metadata, and of those whose chunks were changed between two snapshots."""
    if ours == tip:
        return set(), set()
    told = repository.diff(from_snapshot_id=ours, to_snapshot_id=tip)
    touched = {*told.updated_chunks, *told.new_arrays, *told.deleted_arrays}
    return {path.strip("/") for path in told.updated_arrays}, {path.strip("/") for path in touched}


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def to_url(name: str) -> str:
    """Returns the URL of a file."""
    return name if is_url(name) else Path(name.removeprefix("file://")).absolute().as_uri()


__all__ = ["commit", "to_url"]
