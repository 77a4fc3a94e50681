"""Accessors of xarray's classes: ``ds.hyperchunk.to_netcdf(path)``, for datasets, arrays and trees."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, TypedDict, Unpack

from hyperchunk.progress import ProgressLike
from hyperchunk.typing import StorageOptions
from hyperchunk.xarray_writer import Encodings, write

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from xarray import DataArray, DataTree
    from xarray import Dataset as XarrayDataset

#: Where a file is written: a path, a URL, or a binary file-like object; None returns the bytes.
Target: TypeAlias = str | os.PathLike[str] | BinaryIO | None
#: The bytes of a file without a target, a ``Delayed`` of Dask with ``compute=False``, or None.
Written: TypeAlias = "memoryview | Delayed | None"
# Names that xarray gives to an array without a usable name; it restores the array's own when it reads the file.
_ARRAY = "__xarray_dataarray_variable__"
_ARRAY_NAME = "__xarray_dataarray_name__"


class NetcdfOptions(TypedDict, total=False):
    """Options of :meth:`DatasetAccessor.to_netcdf`."""

    format: Literal["NETCDF4"] | None
    group: str | None
    encoding: Encodings | None
    unlimited_dims: Iterable[Hashable] | str | None
    compute: bool
    storage_options: StorageOptions | None
    progress: ProgressLike


def _run(
    target: Target, work: Callable[[str | os.PathLike[str] | BinaryIO], Callable[[], None]], *, compute: bool
) -> Written:
    """Plans and writes a file. Returns the bytes if there is no target, and a Dask ``Delayed`` without `compute`."""
    if target is None:
        if not compute:
            raise ValueError("cannot return the bytes of a file with compute=False: pass a path or a file-like object")
        memory = io.BytesIO()
        work(memory)()
        return memory.getbuffer()
    planned = work(target)
    if compute:
        planned()
        return None
    import dask

    tools: Any = dask
    delayed: Delayed = tools.delayed(planned, pure=False, traverse=False)()
    return delayed


class DatasetAccessor:
    """``ds.hyperchunk``: writes a dataset of xarray.

    Example:
        >>> import xarray, hyperchunk.xarray_engine
        >>> ds = xarray.Dataset({"t": ("time", [20.5, 21.0])})
        >>> ds.hyperchunk.to_netcdf("a.nc")
        >>> xarray.open_dataset("a.nc", engine="hyperchunk")["t"].values.tolist()
        [20.5, 21.0]
    """

    def __init__(self, dataset: XarrayDataset) -> None:
        self._dataset = dataset

    def to_netcdf(
        self,
        path: Target = None,
        mode: str = "w",
        *,
        format: Literal["NETCDF4"] | None = None,
        group: str | None = None,
        encoding: Encodings | None = None,
        unlimited_dims: Iterable[Hashable] | str | None = None,
        compute: bool = True,
        storage_options: StorageOptions | None = None,
        progress: ProgressLike = None,
    ) -> Written:
        """Writes a netCDF-4 file, compressing on all processors. A new file appears when it is complete.

        Args:
            path: File, URL of an object in a store, or file-like object that is open for writing bytes. Without it,
                the bytes of the file are returned, as a `memoryview`.
            mode: ``"w"`` makes a file, replacing another; ``"a"`` adds to one, or makes it.
            format: xarray's name of the format.
            group: Path of the group to write; it is made.
            encoding: Encodings of variables, with netCDF4's names: ``{"t": {"zlib": True, "complevel": 4}}``.
            unlimited_dims: Dimensions that can grow; by default, the ones of the file that was read.
            compute: False returns a Dask ``Delayed`` that writes when it is computed.
            storage_options: Access to a store.
            progress: Shows the bytes of the values: True, a function of the finished part and the total, or a tqdm
                object (:mod:`hyperchunk.progress`).

        Raises:
            ValueError: A name, an encoding or an option is not valid.
            UnsupportedError: netCDF-4 has no type for a variable.
            TypeError: netCDF-4 has no type for an attribute.
        """
        if format not in (None, "NETCDF4"):
            raise ValueError(f"cannot write the format {format!r}: expected 'NETCDF4'")
        groups = [(group or "/", self._dataset, encoding, unlimited_dims)]
        return _run(path, lambda target: write(target, groups, mode, storage_options, progress), compute=compute)


class DataArrayAccessor:
    """``da.hyperchunk``: writes an array of xarray.

    Example:
        >>> import xarray, hyperchunk.xarray_engine
        >>> xarray.DataArray([20.5, 21.0], dims="time", name="t").hyperchunk.to_netcdf("a.nc")
        >>> xarray.open_dataarray("a.nc", engine="hyperchunk").name
        't'
    """

    def __init__(self, array: DataArray) -> None:
        self._array = array

    def to_netcdf(self, path: Target = None, mode: str = "w", **options: Unpack[NetcdfOptions]) -> Written:
        """Writes a netCDF-4 file with this array and its coordinates.

        Args:
            path: As in :meth:`DatasetAccessor.to_netcdf`.
            mode: ``"w"`` makes a file, replacing another; ``"a"`` adds to one, or makes it.
            options: The other options of :meth:`DatasetAccessor.to_netcdf`. In `encoding`, an array without a name,
                or with the name of a coordinate, is ``"__xarray_dataarray_variable__"``, as in xarray.
        """
        array = self._array
        if array.name is not None and array.name not in array.coords and array.name not in array.dims:
            return DatasetAccessor(array.to_dataset()).to_netcdf(path, mode, **options)
        dataset = array.to_dataset(name=_ARRAY)
        if array.name is not None:
            dataset.attrs[_ARRAY_NAME] = array.name
        return DatasetAccessor(dataset).to_netcdf(path, mode, **options)


class DataTreeAccessor:
    """``tree.hyperchunk``: writes a tree of xarray, each node as a group."""

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree

    def to_netcdf(
        self,
        path: Target = None,
        mode: str = "w",
        *,
        encoding: Mapping[str, Encodings] | None = None,
        unlimited_dims: Mapping[str, Iterable[Hashable]] | None = None,
        write_inherited_coords: bool = False,
        compute: bool = True,
        storage_options: StorageOptions | None = None,
        progress: ProgressLike = None,
    ) -> Written:
        """Writes a netCDF-4 file: see :meth:`DatasetAccessor.to_netcdf`. `encoding` and `unlimited_dims` are by the
        path of the node.
        """
        encodings, growing = dict(encoding or {}), dict(unlimited_dims or {})
        if unknown := (set(encodings) | set(growing)) - set(self._tree.groups):
            raise ValueError(f"the tree has no group {', '.join(sorted(map(repr, unknown)))}")
        groups = []
        for node in self._tree.subtree:
            whole = write_inherited_coords or node is self._tree
            dataset = node.to_dataset(inherit=whole)
            at = node.path if self._tree.parent is None else "/" + node.relative_to(self._tree).strip(".")
            groups.append((at, dataset, encodings.get(node.path), growing.get(node.path)))
        return _run(path, lambda target: write(target, groups, mode, storage_options, progress), compute=compute)


def register() -> None:
    """Registers the accessors ``hyperchunk`` of xarray's classes."""
    import xarray

    for owner, register_accessor, accessor in (
        ("Dataset", "register_dataset_accessor", DatasetAccessor),
        ("DataArray", "register_dataarray_accessor", DataArrayAccessor),
        ("DataTree", "register_datatree_accessor", DataTreeAccessor),
    ):
        known = getattr(xarray, owner, None)
        if known is not None and hasattr(xarray, register_accessor) and not hasattr(known, "hyperchunk"):
            getattr(xarray, register_accessor)("hyperchunk")(accessor)


__all__ = ["DataArrayAccessor", "DataTreeAccessor", "DatasetAccessor"]
