"""A parser for VirtualiZarr, which shows HDF5 files as Zarr without copying their chunks.

Hyperchunk reads the structure and the chunk indexes of the file, in few parallel requests, and h5py is not used.
"""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

import numpy as np
from virtualizarr.codecs import zarr_codec_config_to_v3
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.utils import create_v3_array_metadata
from virtualizarr.parsers.utils import encode_cf_fill_value

from hyperchunk.cloud import IndexResult, _native_file
from hyperchunk.dataset import Dataset
from hyperchunk.dtypes import Empty
from hyperchunk.exceptions import LeftOutWarning, ReadError, UnsupportedError
from hyperchunk.file import File
from hyperchunk.group import Group
from hyperchunk.links import HardLink
from hyperchunk.netcdf import HIDDEN, NOT_A_VARIABLE
from hyperchunk.typing import Array, Dtype, FileName, OpenOptions, Shape

if TYPE_CHECKING:
    from obspec_utils.registry import ObjectStoreRegistry


class _Chunk(TypedDict):
    """Location of a chunk."""

    path: str
    offset: int
    length: int


class _Entry(TypedDict):
    """Metadata, attributes and chunks of an array."""

    zarray: dict[str, Any]
    zattrs: dict[str, Any]
    manifest: dict[str, _Chunk]


#: The arrays of a file, by their paths.
_References = dict[str, _Entry]


class HyperchunkParser:
    """Parser of HDF5 and netCDF-4 files for :func:`virtualizarr.open_virtual_dataset`.

    Args:
        group: Group to show; the root group without it.
        drop_variables: Names of datasets to leave out.
        options: Options of :func:`hyperchunk.open`, for the file.

    Example:
        >>> from hyperchunk.virtualizarr import HyperchunkParser  # doctest: +SKIP
        >>> from virtualizarr import open_virtual_dataset  # doctest: +SKIP
        >>> open_virtual_dataset("file:///data/a.nc", registry, parser=HyperchunkParser())  # doctest: +SKIP
    """

    def __init__(
        self,
        group: str | None = None,
        drop_variables: Iterable[str] | None = None,
        **options: Unpack[OpenOptions],
    ) -> None:
        self.group = (group or "").strip("/")
        self.drop_variables = frozenset(drop_variables or ())
        self.options = options

    def __call__(self, url: str, registry: ObjectStoreRegistry[Any]) -> ManifestStore:
        """Returns the Zarr representation of a file.

        Args:
            url: URL of the file.
            registry: VirtualiZarr's registry, which has the store of the URL.

        Raises:
            ReadError: A part of the file is damaged.
            UnsupportedError: The store is not one of obstore.
            KeyError: There is no such group.

        Warns:
            LeftOutWarning: A dataset that Zarr cannot represent was left out.
        """
        options: OpenOptions = {**self.options, "index": "never"}
        with (
            File(_source(url, registry), **options) as file,
            tempfile.TemporaryDirectory(prefix="hyperchunk-") as folder,
        ):
            shown = file[self.group] if self.group else file
            if not isinstance(shown, Group):
                raise ValueError(f"cannot show {self.group!r}: expected a group, got a dataset (file {url})")
            found = self._references(file, url, Path(folder) / "references.json")
            made = self._group(shown, self.group, found, {shown._identity()}, [])
        return ManifestStore(registry=registry, group=made)

    def _references(self, file: File, url: str, output: Path) -> _References:
        """Returns the metadata and the chunks of each array, by its path."""
        made = _native_file(file).make_index(
            url,
            output=None,
            cache=False,
            kerchunk=None,
            virtualizarr=str(output),
            name=url,
            from_kerchunk=None,
            overwrite=False,
        )
        told: IndexResult = json.loads(made)
        if told["errors"]:
            first = told["errors"][0]
            raise ReadError(f"cannot represent {first['path']}: {first['why']} (file {url})")
        for omission in told["not_in_references"]:
            if self._shows(omission["path"].strip("/")):
                warnings.warn(f"left out {omission['path']}: {omission['why']}", LeftOutWarning, stacklevel=4)
        found: _References = json.loads(output.read_text(encoding="utf-8"))
        return found

    def _shows(self, path: str) -> bool:
        inside = not self.group or path.startswith(self.group + "/")
        return inside and path.rpartition("/")[2] not in self.drop_variables

    def _group(
        self, group: Group, path: str, found: _References, seen: set[object], anonymous: list[int]
    ) -> ManifestGroup:
        prefix = f"{path}/" if path else ""
        arrays: dict[str, ManifestArray] = {}
        groups: dict[str, ManifestGroup] = {}
        for name in group:
            if name in self.drop_variables or not isinstance(group.get(name, getlink=True), HardLink):
                continue
            member = group[name]
            if isinstance(member, Dataset) and prefix + name in found and not _is_bare_dimension(member):
                arrays[name] = _array(member, found[prefix + name], anonymous)
            elif isinstance(member, Group) and member._identity() not in seen:
                seen.add(member._identity())
                groups[name] = self._group(member, prefix + name, found, seen, anonymous)
        return ManifestGroup(arrays=arrays, groups=groups, attributes=_attributes(group))


def _source(url: str, registry: ObjectStoreRegistry[Any]) -> FileName:
    """Returns the file of a URL as :func:`hyperchunk.open` takes it."""
    store, path = registry.resolve(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    if not type(store).__module__.startswith("obstore"):
        raise UnsupportedError(f"cannot open {url}: expected a store of obstore in the registry, got {store!r}")
    return store, path


def _is_bare_dimension(dataset: Dataset) -> bool:
    """True for a netCDF dimension that is not a variable: it has no values."""
    name = dataset.attrs.get("NAME")
    text = name.encode() if isinstance(name, str) else bytes(name) if isinstance(name, bytes) else b""
    return text.startswith(NOT_A_VARIABLE)


def _array(dataset: Dataset, entry: _Entry, anonymous: list[int]) -> ManifestArray:
    """Returns a dataset as an array of Zarr; appends the lengths of its unnamed dimensions to `anonymous`."""
    told = entry["zarray"]
    # NumPy's datetimes are opaque bytes in HDF5.
    dtype = np.dtype(dataset.dtype.str) if dataset.dtype.kind in "mM" else _dtype(told["dtype"])
    attributes = dict(entry["zattrs"])
    dimensions = _named(attributes.pop("_ARRAY_DIMENSIONS"), told["shape"], anonymous)
    if "_FillValue" in attributes:
        attributes["_FillValue"] = encode_cf_fill_value(np.asarray(dataset.attrs["_FillValue"]), dtype)
    codecs = [*(told["filters"] or ()), *([told["compressor"]] if told["compressor"] else ())]
    shape, chunks = tuple(told["shape"]), tuple(told["chunks"])
    # The references have no fill value where it is zero.
    fill = np.asarray(dataset.fillvalue)
    metadata = create_v3_array_metadata(
        shape=shape,
        data_type=dtype,
        chunk_shape=chunks,
        fill_value=_scalar(fill if fill.size else np.zeros((), dtype), dtype),
        codecs=[zarr_codec_config_to_v3(codec) for codec in codecs],
        dimension_names=dimensions,
        attributes=attributes,
    )
    return ManifestArray(metadata=metadata, chunkmanifest=_manifest(entry["manifest"], shape, chunks))


def _scalar(fill: Array, dtype: Dtype) -> object:
    """Returns a fill value as Zarr takes it."""
    first = fill.reshape(-1)[0]
    return np.asarray(first).astype(dtype)[()] if dtype.kind in "mMV" and dtype.names is None else first.item()


def _named(told: list[str], shape: list[int], anonymous: list[int]) -> list[str]:
    """Returns the names of dimensions, and numbers unnamed ones. In the whole file, those of equal length are the same
    dimension, so that groups agree with their parents, except within one array.
    """
    found: list[str] = []
    for name, length in zip(told, shape, strict=True):
        if name.startswith("phony_dim_"):
            equal = [f"phony_dim_{number}" for number, other in enumerate(anonymous) if other == length]
            free = [other for other in equal if other not in found]
            if not free:
                free = [f"phony_dim_{len(anonymous)}"]
                anonymous.append(length)
            found.append(free[0])
        else:
            found.append(name)
    return found


def _manifest(entries: dict[str, _Chunk], shape: Shape, chunks: Shape) -> ChunkManifest:
    """Returns the locations of the chunks."""
    grid = tuple(math.ceil(length / chunk) for length, chunk in zip(shape, chunks, strict=True))
    if not entries:
        return ChunkManifest(entries={}, shape=grid)
    paths = np.empty(grid, np.dtypes.StringDType())
    offsets, lengths = np.zeros(grid, np.uint64), np.zeros(grid, np.uint64)
    for key, entry in entries.items():
        # A scalar's only chunk has the key "0".
        index = tuple(map(int, key.split("."))) if grid else ()
        paths[index], offsets[index], lengths[index] = entry["path"], entry["offset"], entry["length"]
    return ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)


def _dtype(told: Any) -> Dtype:
    """Returns the dtype that Zarr's version 2 writes as text, or as lists for a compound."""
    if isinstance(told, str):
        return np.dtype(told)
    return np.dtype([(name, _dtype(inner), *map(tuple, shape)) for name, inner, *shape in told])


def _attributes(group: Group) -> dict[str, object]:
    """Returns the attributes of a group that JSON can represent."""
    found: dict[str, object] = {}
    for name, value in group.attrs.items():
        if name in HIDDEN:
            continue
        if isinstance(value, Empty):
            found[name] = ""
        elif isinstance(value, str):
            found[name] = value
        else:
            array = np.asarray(value)
            if array.dtype.kind == "S":
                array = np.char.decode(array, "utf-8", "replace")
            if array.dtype.kind in "biufU" or (array.dtype.kind == "O" and all(isinstance(x, str) for x in array.flat)):
                found[name] = array.item() if array.size == 1 else array.tolist()
    return found


__all__ = ["HyperchunkParser"]
