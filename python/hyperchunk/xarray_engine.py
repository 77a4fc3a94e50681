"""The xarray engine ``"hyperchunk"``: lazy variables, groups, CF decoding by xarray, chunks as in the file.

xarray finds it through the entry point of the package, and imports it at the first file that it opens. That import also
registers ``ds.hyperchunk``, which writes; a program that opens no file imports this module itself.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np
from xarray import Dataset as XarrayDataset
from xarray import Variable as XarrayVariable
from xarray import conventions
from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing
from xarray.core.utils import FrozenDict, close_on_error

from hyperchunk import netcdf, xarray_accessors
from hyperchunk.collection import Collection, open_collection
from hyperchunk.dtypes import check_string_dtype
from hyperchunk.exceptions import ReadError
from hyperchunk.file import File, is_hdf5
from hyperchunk.netcdf_encoding import encoded_filters
from hyperchunk.typing import Array, AttributeValue, OpenOptions, StorageOptions, Values

if TYPE_CHECKING:
    from xarray import DataTree

    from hyperchunk.dataset import Dataset as HyperchunkDataset
    from hyperchunk.views import AsStrView


#: Argument for a file, of any type: an error unless :func:`hyperchunk.open` takes it.
XarrayName: TypeAlias = Any


class DecodingOptions(TypedDict, total=False):
    """Options of xarray for decoding."""

    mask_and_scale: bool
    decode_times: bool
    concat_characters: bool
    decode_coords: bool
    drop_variables: str | Iterable[str] | None
    use_cftime: bool | None
    decode_timedelta: bool | None


class GroupOptions(DecodingOptions, total=False):
    """Options for opening groups."""

    group: str | None
    phony_dims: str | None
    decode_vlen_strings: bool
    open_kwargs: OpenOptions | None
    storage_options: StorageOptions | None


_SUFFIXES = {".cdf", ".h5", ".hcx", ".hdf", ".hdf5", ".he5", ".nc", ".nc4"}


# The first bytes of a file without a user block.
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def _is_file_object(source: XarrayName) -> bool:
    return all(hasattr(source, name) for name in ("read", "seek", "tell"))


def _is_unusual(variable: XarrayVariable) -> bool:
    """True if CF decoding of a variable may fail: its values or an attribute are neither numbers nor text. Only
    such variables are decoded as a test, since that would read the times of others.
    """
    kinds = [np.asarray(value).dtype.kind for value in variable.attrs.values()]
    return variable.dtype.kind == "V" or "V" in kinds or "O" in kinds


def _in_xarray(values: Values) -> Values:
    """Converts times in units that xarray lacks, such as months, to units that it supports."""
    if np.asarray(values).dtype.kind not in "Mm":
        return values
    converted: Values = XarrayVariable([str(axis) for axis in range(np.ndim(values))], values).to_numpy()
    return converted


class HyperchunkArray(BackendArray):
    """A variable whose values are read on demand."""

    def __init__(self, variable: netcdf.Variable, decode_strings: bool) -> None:
        # Keeps the dataset, not the variable with its group: this object is pickled for other processes.
        self.dataset = dataset = variable.hdf5
        text = check_string_dtype(dataset.dtype)
        self.shape = variable.shape
        self._text = text is not None and text.length is None and decode_strings
        vlen: Any = create_vlen_dtype  # xarray has no types for it
        self.dtype = vlen(str) if self._text else _in_xarray(np.empty(0, dataset.dtype)).dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Values:
        support = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: tuple[int | slice | Array, ...]) -> Values:
        source: HyperchunkDataset | AsStrView = self.dataset
        if self._text:
            source = self.dataset.asstr(errors="surrogateescape")
        stored = self.dataset.shape or ()
        if stored == self.shape:
            return _in_xarray(source[key if key else ()])
        # Elements beyond this variable's stored extent have the fill value.
        whole = np.full(self.shape, "" if self._text else self.dataset.fillvalue, dtype=self.dtype)
        whole[tuple(slice(0, length) for length in stored)] = _in_xarray(source[()])
        return whole[key]


class HyperchunkStore(AbstractDataStore):
    """A group of a file as an xarray data store."""

    def __init__(self, file: File, group: netcdf.Group, source: str | None, decode_strings: bool) -> None:
        self.file = file
        self.group = group
        self.source = source
        self.decode_strings = decode_strings

    def load(self) -> tuple[Mapping[str, XarrayVariable], Mapping[str, AttributeValue]]:
        return self.get_variables(), self.get_attrs()

    def get_attrs(self) -> Mapping[str, AttributeValue]:
        return FrozenDict(self.group.attrs)

    def get_dimensions(self) -> Mapping[str, int]:
        return FrozenDict(self.group.dimensions)

    def get_encoding(self) -> dict[str, object]:
        used = {dimension for variable in self.group.variables.values() for dimension in variable.dimensions}
        return {"unlimited_dims": self.group.unlimited & (used | set(self.group.dimensions))}

    def get_variables(self) -> Mapping[str, XarrayVariable]:
        found = {}
        for name, variable in self.group.variables.items():
            made = self._variable(variable)
            if not _is_unusual(made):
                found[name] = made
                continue
            try:
                conventions.decode_cf_variable(name, made)
            except ReadError:
                raise
            except Exception as error:
                if not made.attrs:
                    raise
                plain = XarrayVariable(made.dims, made._data, {}, made.encoding)
                try:
                    conventions.decode_cf_variable(name, plain)
                except ReadError:
                    raise
                except Exception:
                    netcdf.left_out(str(variable.hdf5.name), str(error).splitlines()[0])
                    continue
                made = self._without_undecodable(variable, made)
            found[name] = made
        return FrozenDict(found)

    def _without_undecodable(self, variable: netcdf.Variable, made: XarrayVariable) -> XarrayVariable:
        """Removes the attributes with which xarray cannot decode a variable."""
        for attribute in list(made.attrs):
            alone = XarrayVariable(made.dims, made._data, {attribute: made.attrs[attribute]}, made.encoding)
            try:
                conventions.decode_cf_variable(variable.name, alone)
            except ReadError:
                raise
            except Exception as error:
                del made.attrs[attribute]
                what = f"the attribute {attribute!r} of {variable.hdf5.name}"
                netcdf.left_out(what, str(error).splitlines()[0])
        return made

    def _variable(self, variable: netcdf.Variable) -> XarrayVariable:
        dataset = variable.hdf5
        data = HyperchunkArray(variable, self.decode_strings)
        text = check_string_dtype(dataset.dtype)
        encoding: dict[str, object] = {}
        if dataset.dtype.kind not in "Mm":  # xarray stores times as numbers
            encoding["dtype"] = str if text is not None and text.length is None else dataset.dtype
        encoding["contiguous"] = dataset.chunks is None
        encoding["chunksizes"] = dataset.chunks
        if dataset.chunks:
            encoding["preferred_chunks"] = dict(zip(variable.dimensions, dataset.chunks, strict=True))
        encoding["fletcher32"] = dataset.fletcher32
        encoding |= encoded_filters(dataset)
        encoding["source"] = self.source
        encoding["original_shape"] = data.shape
        lazy = indexing.LazilyIndexedArray(data)
        return XarrayVariable(variable.dimensions, lazy, dict(variable.attrs), encoding)

    def close(self) -> None:
        self.file.close()


class HyperchunkBackendEntrypoint(BackendEntrypoint):
    """Opens HDF5 and netCDF-4 files without libhdf5, and reads them from many threads at once."""

    description = "Read HDF5 and netCDF-4 files (.h5, .nc) in xarray with hyperchunk, without libhdf5"
    url = "https://github.com/hyperchunk/hyperchunk"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: XarrayName) -> bool:
        if isinstance(filename_or_obj, str | os.PathLike):
            path = Path(filename_or_obj)
            if path.suffix == ".hcx":
                return True
            return path.is_file() and is_hdf5(path) if path.exists() else path.suffix in _SUFFIXES
        if isinstance(filename_or_obj, bytes | bytearray | memoryview):
            return bytes(filename_or_obj[: len(_SIGNATURE)]) == _SIGNATURE
        if _is_file_object(filename_or_obj):
            at = filename_or_obj.tell()
            filename_or_obj.seek(0)
            found = filename_or_obj.read(len(_SIGNATURE))
            filename_or_obj.seek(at)
            return bool(found == _SIGNATURE)
        return isinstance(filename_or_obj, Collection)

    def open_dataset(
        self,
        filename_or_obj: XarrayName,
        *,
        mask_and_scale: bool = True,
        decode_times: bool = True,
        concat_characters: bool = True,
        decode_coords: bool = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: bool | None = None,
        group: str | None = None,
        phony_dims: str | None = "access",
        decode_vlen_strings: bool = True,
        open_kwargs: OpenOptions | None = None,
        storage_options: StorageOptions | None = None,
    ) -> XarrayDataset:
        """Opens one group. `phony_dims`: naming scheme for anonymous dimensions (``"access"``), or ``None`` for an
        error. `storage_options` set the access to a store; they and `open_kwargs` go to :func:`hyperchunk.open`.
        Bytes are the contents of a file.
        A collection (:class:`hyperchunk.Collection`, or a name that ends with ``.hcx``) is one dataset.
        """
        collection = _collection(filename_or_obj, open_kwargs, storage_options)
        if collection is not None:
            from hyperchunk.xarray_collection import CollectionStore

            decoding = {
                "mask_and_scale": mask_and_scale,
                "decode_times": decode_times,
                "use_cftime": use_cftime,
                "decode_timedelta": decode_timedelta,
            }
            joined = CollectionStore(collection, group or "/", phony_dims, decode_vlen_strings, decoding)
            return StoreBackendEntrypoint().open_dataset(
                joined,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=concat_characters,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )
        file, source = _open(filename_or_obj, open_kwargs, storage_options)
        with close_on_error(file):
            found = netcdf.Group(file, phony_dims=phony_dims).child(group or "/")
            store = HyperchunkStore(file, found, source, decode_vlen_strings)
            return StoreBackendEntrypoint().open_dataset(
                store,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=concat_characters,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )

    def open_datatree(self, filename_or_obj: XarrayName, **options: Unpack[GroupOptions]) -> DataTree:
        """Opens all groups as a tree."""
        from xarray import DataTree

        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def open_groups_as_dict(
        self,
        filename_or_obj: XarrayName,
        *,
        group: str | None = None,
        phony_dims: str | None = "access",
        decode_vlen_strings: bool = True,
        open_kwargs: OpenOptions | None = None,
        storage_options: StorageOptions | None = None,
        **decoding: Unpack[DecodingOptions],
    ) -> dict[str, XarrayDataset]:
        """Opens a group and all groups below it: path → dataset."""
        file, source = _open(filename_or_obj, open_kwargs, storage_options)
        with close_on_error(file):
            file.group(group or "/").prefetch()
            top = netcdf.Group(file, phony_dims=phony_dims).child(group or "/")
            opened = {}
            for found in top.walk():
                path = "/" + found.path[len(top.path) :].strip("/") if group else found.path
                store = HyperchunkStore(file, found, source, decode_vlen_strings)
                opened[path] = StoreBackendEntrypoint().open_dataset(store, **decoding)
            return opened


def _collection(
    filename_or_obj: XarrayName, open_kwargs: OpenOptions | None, storage_options: StorageOptions | None
) -> Collection | None:
    """Returns the collection that a name stands for, if it does."""
    if isinstance(filename_or_obj, Collection):
        return filename_or_obj
    is_name = isinstance(filename_or_obj, str | os.PathLike)
    if not is_name or not os.fspath(filename_or_obj).endswith(".hcx"):
        return None
    options = open_kwargs or {}
    name = os.path.expanduser(os.fspath(filename_or_obj))  # noqa: PTH111 (a URL must stay as it is)
    return open_collection(
        name,
        threads=options.get("threads"),
        limits=options.get("limits"),
        storage_options=storage_options or options.get("storage_options"),
        network=options.get("network"),
    )


def _open(
    filename_or_obj: XarrayName, open_kwargs: OpenOptions | None, storage_options: StorageOptions | None
) -> tuple[File, str | None]:
    if isinstance(filename_or_obj, str | os.PathLike):
        filename_or_obj = os.path.expanduser(os.fspath(filename_or_obj))  # noqa: PTH111 (a URL must stay as it is)
    source = filename_or_obj if isinstance(filename_or_obj, str) else None
    if isinstance(filename_or_obj, bytes | bytearray | memoryview):  # the contents of a file, as in xarray's engines
        filename_or_obj = io.BytesIO(filename_or_obj)
    options: OpenOptions = {**(open_kwargs or {})}
    if storage_options:
        options["storage_options"] = storage_options
    return File(filename_or_obj, "r", **options), source


xarray_accessors.register()

__all__ = ["HyperchunkArray", "HyperchunkBackendEntrypoint", "HyperchunkStore"]
