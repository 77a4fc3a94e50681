"""Virtual datasets over the files of a collection, for other HDF5 programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hyperchunk import dtypes, netcdf
from hyperchunk._outputs import new_file
from hyperchunk.exceptions import InvalidError, UnsupportedError
from hyperchunk.file import is_url
from hyperchunk.objects import HLObject
from hyperchunk.typing import PathLike
from hyperchunk.virtual import VirtualLayout, VirtualSource

if TYPE_CHECKING:
    from hyperchunk.collection import Collection
    from hyperchunk.collection_dataset import CollectionDataset
    from hyperchunk.write.dataset import WritableDataset
    from hyperchunk.write.file import WritableFile


def write_virtual(collection: Collection, path: PathLike, overwrite: bool) -> None:
    """Writes an HDF5 file of virtual datasets: see :meth:`hyperchunk.Collection.to_virtual`."""
    remote = next((name for name in collection.files if is_url(name)), None)
    if remote is not None:
        raise UnsupportedError(
            f"cannot write virtual datasets over {remote}: HDF5 reads their sources from local files only; "
            "open the collection itself"
        )
    odd = next((dataset for dataset in collection.values() if dataset.units), None)
    if odd is not None:
        raise InvalidError(f"cannot write a virtual dataset of {odd.name}: its units differ between the files")
    target = Path(path)
    sources = [_source_name(Path(name), target) for name in collection.files]
    first = collection.file(0)
    top = netcdf.Group(first, paths=collection)
    with new_file(target, overwrite, list(collection.files), libver="v110") as file:
        _copy_attributes(first, file)
        for group in list(top.walk()):
            if group.path != "/":
                _copy_attributes(group.hdf5, file.create_group(group.path))
        for name in collection:
            dataset = _write(file, collection[name], sources)
            _copy_attributes(collection[name].first, dataset)
        _attach_scales(top, file)


def _source_name(found: Path, target: Path) -> str:
    """Returns the name of a file in a virtual dataset: relative to the target's folder for files below that."""
    absolute, folder = Path(os.path.abspath(found)), Path(os.path.abspath(target)).parent  # noqa: PTH100 (links stay)
    name = absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute
    # In names of sources, HDF5 replaces %b by a number and %% by a percent sign.
    return str(name).replace("%", "%%")


def _write(file: WritableFile, dataset: CollectionDataset, sources: list[str]) -> WritableDataset:
    kept = dataset.collected_values()
    if kept is not None:
        return file.create_dataset(dataset.name, data=kept)
    axis = dataset.axis
    if axis is None and (not dataset.shape or 0 in dataset.shape):
        # HDF5 has no virtual datasets without dimensions. The type and the value are the first file's.
        file.copy(dataset.first, file, dataset.name, without_attrs=True)
        return file.dataset(dataset.name)
    layout = VirtualLayout(dataset.shape, dataset.dtype)
    if axis is None:
        layout[...] = VirtualSource(sources[0], dataset.name, dataset.shape)
    else:
        shape = list(dataset.shape)
        for source, (start, end) in zip(sources, dataset.spans(), strict=True):
            if start == end:
                continue
            shape[axis] = end - start
            layout[(slice(None),) * axis + (slice(start, end),)] = VirtualSource(source, dataset.name, tuple(shape))
    return file.create_virtual_dataset(dataset.name, layout, fillvalue=dataset.first.fillvalue)


def _copy_attributes(found: HLObject, made: HLObject) -> None:
    """Copies attributes, except references and those of dimension scales: they point to objects of the first file."""
    for name in found.attrs:
        dtype = dtypes.to_dtype(found.attrs.get_id(name)[0].description)
        if name not in netcdf.HIDDEN and dtypes.check_ref_dtype(dtype) is None:
            made.attrs.create(name, found.attrs[name], dtype=dtype)


def _attach_scales(top: netcdf.Group, file: WritableFile) -> None:
    made: dict[str, WritableDataset] = {}
    for group in top.walk():
        for variable in group.variables.values():
            path = str(variable.hdf5.name)
            if variable.dimensions == (variable.name,):
                made[path] = file.dataset(path)
                made[path].make_scale(variable.name)
        for dimension in group.dimensions:
            path = f"{group.path.rstrip('/')}/{dimension}"
            if path not in made and path in file and dimension not in group.variables:
                made[path] = file.dataset(path)
                made[path].make_scale(f"{netcdf.NOT_A_VARIABLE.decode()}{group.dimensions[dimension]:10d}")
    for group in top.walk():
        for variable in group.variables.values():
            path = str(variable.hdf5.name)
            if path in made:
                continue
            for axis, dimension in enumerate(variable.dimensions):
                scale = _scale(made, group.path, dimension)
                if scale is not None:
                    file.dataset(path).dims[axis].attach_scale(scale)


def _scale(made: dict[str, WritableDataset], group: str, dimension: str) -> WritableDataset | None:
    """Returns the scale of a dimension, in a group or the ones above it."""
    parts = [part for part in group.split("/") if part]
    for depth in range(len(parts), -1, -1):
        path = "/" + "/".join([*parts[:depth], dimension])
        if path in made:
            return made[path]
    return None
