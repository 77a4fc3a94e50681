"""Virtual datasets of VirtualiZarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.zarr.arrays import ChunkLocation, ZarrArray
from hyperchunk.zarr.commits import to_url
from hyperchunk.zarr.metadata import array_metadata
from hyperchunk.zarr.tree import Tree

if TYPE_CHECKING:
    import xarray
    from virtualizarr.manifests import ChunkManifest

#: ``xarray.Dataset`` with ``ManifestArray`` of VirtualiZarr.
VirtualDataset: TypeAlias = "xarray.Dataset"


def virtual_dataset(collection: Collection, group: str = "") -> VirtualDataset:
    """Returns a virtual dataset: see :meth:`hyperchunk.Collection.to_virtualizarr`."""
    import_optional("virtualizarr")
    import xarray
    from virtualizarr.manifests import ManifestArray

    from hyperchunk.xarray_engine import HyperchunkBackendEntrypoint

    tree = Tree(collection)
    path = group.strip("/")
    if path not in tree.groups:
        raise KeyError(f"there is no group {group!r}")
    names = [to_url(name) for name in collection.files]
    given: Any = collection  # xarray's annotations do not allow it
    found = xarray.open_dataset(given, engine=HyperchunkBackendEntrypoint, group=path or None)
    virtual = {}
    for name in found.variables:
        array = tree.array(f"{path}/{name}".lstrip("/"))
        manifest = None if array is None or not array.is_exact else _manifest(array, names)
        if array is None or manifest is None:
            continue
        try:
            metadata = array_metadata(array)
        except UnsupportedError:
            continue
        made = ManifestArray(metadata=metadata, chunkmanifest=manifest)
        attributes = dict(metadata.attributes)
        virtual[name] = xarray.Variable(array.dimensions, made, attributes)
    coordinates = set(found.coords)
    return xarray.Dataset(
        {name: virtual.get(name, variable) for name, variable in found.variables.items() if name not in coordinates},
        {name: virtual.get(name, variable) for name, variable in found.variables.items() if name in coordinates},
        found.attrs,
    )


def _manifest(array: ZarrArray, names: list[str]) -> ChunkManifest | None:
    """Returns the locations of the chunks; None if one of them must be encoded."""
    from virtualizarr.manifests import ChunkManifest

    grid = array.grid
    paths = np.empty(grid, np.dtypes.StringDType())
    offsets, lengths = np.zeros(grid, np.uint64), np.zeros(grid, np.uint64)
    for chunk_index, found in array.places():
        if found is True:
            return None
        if isinstance(found, ChunkLocation):
            paths[chunk_index] = names[found.number]
            offsets[chunk_index], lengths[chunk_index] = found.offset, found.length
    if not lengths.any():
        return ChunkManifest(entries={}, shape=grid)
    return ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)


__all__ = ["virtual_dataset"]
