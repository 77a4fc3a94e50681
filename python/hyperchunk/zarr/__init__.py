"""Files and collections as stores of zarr-python, version 3: :func:`store`. It needs the package zarr from 3.1 on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack, cast

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection, open_collection
from hyperchunk.file import File
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import FileName, OpenOptions

if TYPE_CHECKING:
    from hyperchunk.zarr.arrays import Strings
    from hyperchunk.zarr.tree import Shown
    from hyperchunk.zarr.zarr_store import HyperchunkStore

#: Options of :func:`hyperchunk.open` that a collection has, too.
_OF_COLLECTIONS = ("threads", "limits", "storage_options", "network")


def _shown(source: FileName | Shown, options: OpenOptions) -> Shown:
    """Returns a file or a collection, opened if it is a name."""
    if isinstance(source, File | Collection):
        if options:
            raise TypeError(f"option {min(options)!r} is for opening a file, but the file is already open")
        return source
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".hcx"):
        known = {name: value for name, value in options.items() if name in _OF_COLLECTIONS}
        if other := set(options) - set(known):
            raise unexpected_keyword("store", other, _OF_COLLECTIONS)
        return open_collection(source, **cast("dict[str, Any]", known))
    return File(source, **options)


def store(
    source: FileName | Shown, *, strings: Strings = "text", stored: bool = True, **options: Unpack[OpenOptions]
) -> HyperchunkStore:
    """Returns a file or a collection as a read-only store of zarr-python, with Zarr's version 3.

    Metadata are made on request. Chunks are passed on as stored if Zarr's codecs decode them; all others are decoded
    here, and passed on without filters: variable-length strings, other filters, live and virtual datasets, data that
    were converted, and joined datasets whose files do not end at chunks.

    Args:
        source: A collection, the path or URL of one (``.hcx``), an open file, or an argument of
            :func:`hyperchunk.open`.
        strings: ``"text"`` for variable-length strings as text, which must be UTF-8; ``"bytes"`` for their bytes.
        stored: False to decode all chunks here, on all processors, instead of by Zarr's codecs.
        options: As for :func:`hyperchunk.open`, if `source` is a name.

    Raises:
        NotFoundError: There is no such file.
        ModuleNotFoundError: zarr is not installed.

    Warns:
        LeftOutWarning: A dataset has elements that Zarr lacks: sequences, references, long doubles.

    Example:
        >>> import zarr
        >>> for number in range(2):
        ...     with hyperchunk.create(f"part{number}.h5") as file:
        ...         file["x"] = [number, number + 10]
        >>> parts = hyperchunk.open_collection(["part0.h5", "part1.h5"], concat=0)
        >>> group = zarr.open_group(hyperchunk.zarr.store(parts), mode="r")
        >>> group["x"][:].tolist()
        [0, 10, 1, 11]
    """
    import_optional("zarr")
    from hyperchunk.zarr.zarr_store import HyperchunkStore

    return HyperchunkStore(_shown(source, options), strings, stored)


__all__ = ["store"]
