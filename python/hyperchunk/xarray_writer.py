"""Writing of xarray's datasets as netCDF-4 files: ``ds.hyperchunk.to_netcdf(path)``.

xarray encodes by the CF conventions. All variables are planned before a file is made, so that an unsupported one is
an error without a file. Source of the format: *NetCDF-4 Format Specification*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from xarray import Dataset as XarrayDataset
from xarray import Variable as XarrayVariable
from xarray import conventions
from xarray.backends.common import WritableCFDataStore
from xarray.coding import strings
from xarray.core.utils import FrozenDict

from hyperchunk import _core, netcdf
from hyperchunk._outputs import open_beside
from hyperchunk.dataset import Dataset
from hyperchunk.dtypes import ref_dtype, string_dtype, vlen_dtype
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.file import File, is_url
from hyperchunk.netcdf_encoding import Encoding, Storage, netcdf_dtype, storage
from hyperchunk.objects import encode
from hyperchunk.progress import Progress, ProgressLike, is_wanted
from hyperchunk.typing import Array, DatasetOptions, Index, StorageOptions

if TYPE_CHECKING:
    import dask.array

    from hyperchunk.references import Reference
    from hyperchunk.write.dataset import WritableDataset
    from hyperchunk.write.file import WritableFile
    from hyperchunk.write.group import WritableGroup

#: Encodings of variables by their names.
Encodings = Mapping[Hashable, Encoding]
# Size of the pieces in which values are computed and written, in bytes.
_PIECE_BYTES = 64 << 20
# Size of the pieces of values that are encoded while they are written: larger ones take xarray eight times as long,
# since each of its steps allocates new memory.
_ENCODED_BYTES = 16 << 20
# Keys of encodings that change values.
_CHANGES_VALUES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "dtype")
# Keys of encodings by which netCDF4 rounds values.
_ROUNDS_VALUES = ("least_significant_digit", "significant_digits")
# netCDF's limit of names, in bytes of UTF-8 (NC_MAX_NAME).
_MAX_NAME_BYTES = 256
# Length of a chunk of a scale that grows and has no values.
_GROWING_SCALE = 1024


class _Planned(NamedTuple):
    """A variable to write."""

    name: str
    variable: XarrayVariable
    storage: Storage
    attributes: dict[str, object]
    #: Values before they are encoded, if that is done while they are written; `variable` then has none.
    plain: XarrayVariable | None


class GroupPlan(WritableCFDataStore):
    """The variables, dimensions and attributes to write in a group, as a data store of xarray."""

    def __init__(self, path: str, parent: GroupPlan | None, existing: netcdf.Group | None) -> None:
        self.path = path
        self.parent = parent
        self.existing = existing
        #: Dimensions to make: name → length, and whether it can grow.
        self.made: dict[str, tuple[int, bool]] = {}
        self.attributes: dict[str, object] = {}
        self.planned: list[_Planned] = []
        #: Variables that are encoded while they are written.
        self.plain: dict[Hashable, XarrayVariable] = {}

    def get_dimensions(self) -> Mapping[str, int]:
        found = dict(self.existing.dimensions) if self.existing is not None else {}
        return FrozenDict(found | {name: length for name, (length, _) in self.made.items()})

    def around(self) -> dict[str, int]:
        """Returns the dimensions of this group and the enclosing ones."""
        above = self.parent.around() if self.parent is not None else {}
        return above | dict(self.get_dimensions())

    def set_dimensions(
        self, variables: Mapping[Hashable, XarrayVariable], unlimited_dims: Iterable[Hashable] | None = None
    ) -> None:
        growing = list(unlimited_dims or ())
        lengths: dict[Any, int] = {}
        for variable in variables.values():
            lengths |= variable.sizes
        own = self.get_dimensions()
        for name in [
            *(name for name in growing if name in lengths),
            *(name for name in lengths if name not in growing),
        ]:
            length = lengths[name]
            if name in own:
                if own[name] != length:
                    raise ValueError(
                        f"cannot write the dimension {name!r} of length {length}: the file has length {own[name]}"
                    )
            elif self.around().get(name) != length:
                _check_name("a dimension", name)
                # In netCDF, a dimension that grows has a length of 0.
                self.made[name] = (length, name in growing or length == 0)

    def set_attribute(self, k: str, v: object) -> None:
        self.attributes[k] = _attribute(self.path, k, v)

    def encode(
        self, variables: Mapping[Hashable, XarrayVariable], attributes: Mapping[Hashable, object]
    ) -> tuple[dict[Hashable, XarrayVariable], dict[Hashable, object]]:
        """Encodes variables; of large ones only one element, which determines type and attributes."""
        given = dict(variables)
        for name, variable in variables.items():
            if _is_encoded_later(variable):
                self.plain[name] = variable
                given[name] = variable[(slice(0, 1),) * variable.ndim]
        store: Any = super()
        coded, made = store.encode(given, attributes)
        for name, variable in self.plain.items():
            one = coded[name]
            nothing = np.broadcast_to(np.zeros((), one.dtype), variable.shape)
            coded[name] = XarrayVariable(one.dims, nothing, one.attrs, one.encoding)
        return coded, made

    def encode_variable(self, v: XarrayVariable, name: Hashable = None) -> XarrayVariable:
        if v.dtype.byteorder not in "=|":
            v = XarrayVariable(v.dims, v.data.astype(v.dtype.newbyteorder("=")), v.attrs, v.encoding)
        coders: Any = strings  # xarray has no types for it
        for coder in (coders.EncodedStringCoder(allows_unicode=True), coders.CharacterArrayCoder()):
            v = coder.encode(v, name=name)
        if v.dtype.kind == "S" and v.encoding.get("dtype") is str:
            dtype = coders.create_vlen_dtype(str)
            given = v.data
            data = given.map_blocks(_texts, dtype=dtype) if v.chunks is not None else _texts(v.values).astype(dtype)
            v = XarrayVariable(v.dims, data, v.attrs, v.encoding)
        return v

    def prepare_variable(
        self,
        name: str,
        variable: XarrayVariable,
        check_encoding: bool = False,
        unlimited_dims: Iterable[Hashable] | None = None,
    ) -> tuple[_Planned, XarrayVariable]:
        known = self.existing.variables.get(name) if self.existing is not None else None
        if known is None:
            _check_name("a variable", name)
            self._check_free(name)
        attributes = dict(variable.attrs)
        if not check_encoding:
            attributes |= _rounding(name, variable)
        fill = attributes.pop("_FillValue", None)
        coders: Any = strings
        # Dask's arrays of objects lose the metadata by which xarray knows texts.
        made_text = variable.dtype.kind == "O" and variable.encoding.get("dtype") is str
        text = made_text or coders.is_unicode_dtype(variable.dtype)
        dtype = netcdf_dtype(name, variable.dtype, text=text)
        free = tuple(self._grows(str(dimension)) for dimension in variable.dims)
        planned = storage(name, dtype, variable.shape, free, variable.encoding, fill, asked=check_encoding)
        made = {key: _attribute(name, key, value) for key, value in attributes.items()}
        if known is not None and (known.dimensions != variable.dims or known.shape != variable.shape):
            raise ValueError(
                f"cannot write the variable {name!r} with {dict(variable.sizes)}: in the file, it has "
                f"{dict(zip(known.dimensions, known.shape, strict=True))}"
            )
        one = _Planned(name, variable, planned, made, self.plain.get(name))
        self.planned.append(one)
        return one, variable

    def set_variables(
        self,
        variables: Mapping[Any, XarrayVariable],
        check_encoding_set: Iterable[Hashable],
        writer: object,
        unlimited_dims: Iterable[Hashable] | None = None,
    ) -> None:
        for name, variable in variables.items():
            self.prepare_variable(name, variable, name in check_encoding_set, unlimited_dims)

    def _check_free(self, name: str) -> None:
        """Raises an error for the name of an object of the file that is neither a variable nor a dimension."""
        found = self.existing.hdf5.get(name) if self.existing is not None else None
        if found is not None and not _is_placeholder(found):
            raise ValueError(
                f"cannot write the variable {name!r}: expected a free name, got the one of {found!r} in the file; "
                "rename the variable"
            )

    def _grows(self, dimension: str) -> bool:
        if dimension in self.made:
            return self.made[dimension][1]
        if self.existing is not None and dimension in self.existing.dimensions:
            return dimension in self.existing.unlimited
        return self.parent is not None and self.parent._grows(dimension)


def _is_encoded_later(variable: XarrayVariable) -> bool:
    """True for large arrays of numbers in memory, which can be encoded piece by piece."""
    encoding, data = variable.encoding, variable._data
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "iuf" or data.nbytes <= 2 * _ENCODED_BYTES:
        return False
    if not any(encoding.get(name) is not None for name in _CHANGES_VALUES):
        return False
    # xarray warns about floats that become integers without a fill value; by pieces, it would do so repeatedly.
    filled = encoding.get("_FillValue") is not None or encoding.get("missing_value") is not None
    return filled or data.dtype.kind != "f" or np.dtype(encoding.get("dtype", data.dtype)).kind == "f"


def _is_placeholder(item: object) -> bool:
    """True for a dataset that represents a dimension without a coordinate variable."""
    if not isinstance(item, Dataset):
        return False
    text = item.attrs.get("NAME", b"")
    text = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return "CLASS" in item.attrs and isinstance(text, bytes) and text.startswith(netcdf.NOT_A_VARIABLE)


def _texts(values: Array) -> Array:
    """Returns byte strings as texts."""
    found = np.empty(values.shape, object)
    found[...] = np.char.decode(values, "utf-8")
    return found


def _rounding(name: str, variable: XarrayVariable) -> dict[str, object]:
    """Returns the attribute that records how a variable's values were rounded: netCDF4 writes it, and xarray moves it
    to the encoding. Values of a file are rounded already; of others, it is an error.
    """
    encoding = variable.encoding
    given = [key for key in _ROUNDS_VALUES if encoding.get(key) is not None]
    if given and "source" not in encoding:
        raise UnsupportedError(f"variable {name!r}: {', '.join(given)} is not supported; round the values")
    return {key: encoding[key] for key in given if key == "least_significant_digit"}


def _check_name(what: str, name: object) -> None:
    if name in netcdf.HIDDEN:
        raise ValueError(
            f"cannot write {what} with the name {name!r}: HDF5 or netCDF-4 uses it for itself; rename or drop it"
        )
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
        raise ValueError(f"cannot write {what} with the name {name!r}: expected text without '/', and not '.'")
    # As NC_check_name() of netCDF-C.
    plain = all(" " <= character != "\x7f" for character in name)
    if not plain or name[-1] == " " or (name[0].isascii() and not name[0].isalnum() and name[0] != "_"):
        raise ValueError(
            f"cannot write {what} with the name {name!r}: expected a letter, digit or '_' first, no control characters "
            "and no space at the end, as netCDF does; rename it"
        )
    if (size := len(encode(name))) > _MAX_NAME_BYTES:
        raise ValueError(
            f"cannot write {what} with the name {name[:20]!r}…: expected at most {_MAX_NAME_BYTES} bytes, got {size}; "
            "rename it"
        )


def _attribute(owner: str, name: object, value: object) -> object:
    """Checks an attribute, and returns its value: text, a list of texts, or a one-dimensional array of numbers."""
    _check_name(f"an attribute of {owner}", name)
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US" and array.ndim <= 1:
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.reshape(-1)]
        return texts[0] if len(texts) == 1 else texts
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(text, str) for text in array):
        return [str(text) for text in array]
    if array.dtype.kind in "iuf" and array.dtype.itemsize <= 8 and array.ndim <= 1 and array.dtype != np.float16:
        return np.atleast_1d(array.astype(array.dtype.newbyteorder("=")))
    raise TypeError(
        f"cannot write the attribute {name!r} of {owner}: expected text, a number or a list of them, got {value!r} of "
        f"type {type(value).__name__}"
    )


def _growing(dataset: XarrayDataset, names: Iterable[Hashable] | str | None) -> list[Hashable]:
    """Returns the dimensions that can grow, in the order given: of a set, whose order changes, as in the dataset."""
    given = dataset.encoding.get("unlimited_dims", ()) if names is None else names
    growing = [given] if isinstance(given, str) else list(given)
    missing = [name for name in growing if name not in dataset.sizes]
    if missing and names is not None:
        raise ValueError(f"unlimited_dims: the dataset has no dimension {', '.join(map(repr, missing))}")
    ordered = dataset.sizes if isinstance(given, Set) else growing
    return [name for name in ordered if name in growing and name in dataset.sizes]


def plan_dataset(
    dataset: XarrayDataset,
    plan: GroupPlan,
    encoding: Encodings | None,
    unlimited_dims: Iterable[Hashable] | str | None,
) -> None:
    """Adds a dataset to the plan of a group."""
    growing = _growing(dataset, unlimited_dims)
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    for name, given in (encoding or {}).items():
        if name not in variables:
            raise ValueError(f"encoding: the dataset has no variable {name!r}")
        variables[name].encoding = dict(given)
    store: Any = plan
    store.store(variables, attributes, frozenset(encoding or ()), unlimited_dims=growing)


class _Writing:
    """Writes planned groups to a file."""

    def __init__(self, file: WritableFile) -> None:
        self.file = file
        #: Scales by the path of their group and the name of the dimension; each with its number.
        self.scales: dict[tuple[str, str], tuple[WritableDataset, int]] = {}
        self.uses: dict[tuple[str, str], list[tuple[Reference, int]]] = {}
        self.values: list[tuple[XarrayVariable, WritableDataset]] = []
        #: Values to encode, with the plan that does it and the name.
        self.plain: list[tuple[GroupPlan, _Planned, WritableDataset]] = []
        self.numbered = 0
        self._attached: list[WritableDataset] | None = None

    def count_existing(self, group: netcdf.Group) -> None:
        """Finds the scales of a file that is edited."""
        for found in group.walk():
            for name in found.dimensions:
                scale: Any = found.hdf5.get(name)
                if scale is None or "CLASS" not in scale.attrs:
                    continue
                number = int(np.ravel(scale.attrs.get("_Netcdf4Dimid", self.numbered))[0])
                self.scales[found.path, name] = (scale, number)
                self.numbered = max(self.numbered, number + 1)

    def make(self, plan: GroupPlan) -> None:
        """Makes a group: its dimensions and variables without their values."""
        group: Any = self.file
        for name in plan.path.strip("/").split("/"):
            if name:
                group = group[name] if name in group else group.create_group(name, track_order=True)
        for name, value in plan.attributes.items():
            set_attribute(group, name, value)
        numbers = {name: number for number, name in enumerate(plan.made, self.numbered)}
        self.numbered += len(numbers)
        coordinates = {one.name for one in plan.planned if one.variable.dims[:1] == (one.name,)}
        for name, (length, grows) in plan.made.items():
            if name in coordinates:
                continue
            options: DatasetOptions = {"maxshape": (None,), "chunks": (_GROWING_SCALE,)} if grows else {}
            # As in netCDF-C, the variables determine the length of a dimension that grows; its scale is empty.
            length = 0 if grows else length
            scale = group.create_dataset(name, (length,), ">f4", track_order=True, **options)
            _make_scale(scale, f"{netcdf.NOT_A_VARIABLE.decode()}.{length:10d}", numbers[name])
            self.scales[plan.path, name] = (scale, numbers[name])
        made = [(one, self._variable(group, plan, one, numbers)) for one in plan.planned]
        for one, dataset in made:
            self._attach(plan, one, dataset)

    def _variable(
        self, group: WritableGroup, plan: GroupPlan, one: _Planned, numbers: dict[str, int]
    ) -> WritableDataset:
        name, dims = one.name, one.variable.dims
        own = dims[:1] == (name,) and (name in plan.made or (plan.path, name) in self.scales)
        # A variable with the name of a dimension that is not its first one is not a coordinate variable.
        clashes = not own and (name in plan.made or (plan.path, name) in self.scales)
        link = netcdf.NOT_A_COORDINATE + name if clashes else name
        known: Any = group.get(link)
        replaced: WritableDataset | None = None
        if own and _is_placeholder(known):
            replaced, known = known, None
            del group[link]
        dataset: WritableDataset = known
        if known is None:
            options: DatasetOptions = {**one.storage.options, "track_order": True}
            dataset = group.create_dataset(link, one.variable.shape, one.storage.dtype, **options)
        elif known.shape != one.variable.shape:
            if [max(pair) for pair in zip(known.shape, one.variable.shape, strict=False)] != list(one.variable.shape):
                raise ValueError(
                    f"cannot write the variable {name!r}: expected the shape {known.shape} of the file, got "
                    f"{one.variable.shape}; name another variable"
                )
            # Other variables are longer along a dimension that grows.
            known.resize(one.variable.shape)
        if known is None and own:
            number = numbers[name] if replaced is None else self.scales[plan.path, name][1]
            _make_scale(dataset, name, number)
            self.scales[plan.path, name] = (dataset, number)
            if replaced is not None:
                self._reattach((plan.path, name), replaced)
        # netCDF has no change of a fill value: the elements that were never written have it.
        if known is None and one.storage.fill is not None:
            value = one.storage.fill
            if one.storage.dtype.kind in "OS":
                text = value.decode() if isinstance(value, bytes) else str(value)
                set_attribute(dataset, "_FillValue", text if one.storage.dtype.kind == "S" else [text])
            else:
                set_attribute(dataset, "_FillValue", np.atleast_1d(np.asarray(value)))
        for key, value in one.attributes.items():
            set_attribute(dataset, key, value)
        if one.plain is None:
            self.values.append((one.variable, dataset))
        else:
            self.plain.append((plan, one, dataset))
        return dataset

    def _scale(self, plan: GroupPlan, dimension: str) -> tuple[str, str]:
        """Returns the key of the scale of a dimension that is visible in a group."""
        around: GroupPlan | None = plan
        while around is not None:
            if (around.path, dimension) in self.scales:
                return around.path, dimension
            around = around.parent
        raise UnsupportedError(f"the file has no dimension scale {dimension!r}; write into a new file")

    def _attach(self, plan: GroupPlan, one: _Planned, dataset: WritableDataset) -> None:
        """Attaches the scales of a variable's dimensions."""
        if not one.variable.dims or "DIMENSION_LIST" in dataset.attrs:
            return
        keys = [self._scale(plan, str(dimension)) for dimension in one.variable.dims]
        ids = np.array([self.scales[key][1] for key in keys], np.int32)
        dataset.attrs.create("_Netcdf4Coordinates", ids)
        if "CLASS" in dataset.attrs:
            return
        values = np.empty(len(keys), vlen_dtype(ref_dtype))
        for axis, key in enumerate(keys):
            row = np.empty(1, ref_dtype)
            row[0] = self.scales[key][0].ref
            values[axis] = row
            self.uses.setdefault(key, []).append((dataset.ref, axis))
        dataset.attrs.create("DIMENSION_LIST", values, dtype=vlen_dtype(ref_dtype))

    def _reattach(self, key: tuple[str, str], replaced: WritableDataset) -> None:
        """Attaches a dimension's new scale to the variables that use the replaced one."""
        from hyperchunk.write.dimensions import WritableDimension

        if self._attached is None:
            found: list[Any] = []
            self.file.visititems(lambda _, item: found.append(item) if isinstance(item, Dataset) else None)
            self._attached = [item for item in found if "DIMENSION_LIST" in item.attrs]
        old, new = replaced.ref, self.scales[key][0].ref
        for dataset in self._attached:
            listed = dataset.attrs["DIMENSION_LIST"]
            lists = [netcdf.references(listed, axis) for axis in range(dataset.ndim)]
            axes = [axis for axis, scales in enumerate(lists) if old in scales]
            if axes:
                WritableDimension(dataset, axes[0])._store(
                    [[new if scale == old else scale for scale in scales] for scales in lists]
                )
                self.uses.setdefault(key, []).extend((dataset.ref, axis) for axis in axes)

    def finish_scales(self) -> None:
        """Stores which variables use each scale."""
        from hyperchunk.write.dimensions import _set_uses

        for key, uses in self.uses.items():
            scale = self.scales[key][0]
            earlier = scale.attrs.get("REFERENCE_LIST", ())
            _set_uses(scale, [*((use[0], int(use[1])) for use in earlier), *uses])

    def fill(self, progress: ProgressLike) -> None:
        """Writes the values. Dask's arrays are computed block by block, others in pieces."""
        lazy = [(variable.data, dataset) for variable, dataset in self.values if variable.chunks is not None]
        total = sum(variable.nbytes for variable, _ in self.values)
        total += sum(one.variable.nbytes for _, one, _ in self.plain)
        with Progress(progress, total, "B") as shown:

            def target(dataset: WritableDataset) -> WritableDataset | _Counting:
                return _Counting(dataset, shown) if is_wanted(progress) else dataset

            for variable, dataset in self.values:
                if variable.chunks is None:
                    _fill_by_pieces(variable, target(dataset), is_wanted(progress))
            for plan, one, dataset in self.plain:
                _fill_encoded(plan, one, target(dataset))
            if lazy:
                _fill_by_blocks([(array, target(dataset)) for array, dataset in lazy])


class _Counting:
    """A dataset whose writes are counted, in bytes of the values."""

    def __init__(self, dataset: WritableDataset, progress: Progress) -> None:
        self._dataset, self._progress = dataset, progress
        self.shape, self.dtype, self.chunks = dataset.shape, dataset.dtype, dataset.chunks

    def __setitem__(self, index: Index, values: npt.ArrayLike) -> None:
        self._dataset[index] = values
        self._progress.add(np.asarray(values).nbytes)


def _fill_by_pieces(variable: XarrayVariable, dataset: WritableDataset | _Counting, in_pieces: bool) -> None:
    """Writes values that are in memory or in another file, by pieces of whole chunks. Values in memory are one piece,
    unless the pieces are to be counted.
    """
    if not variable.size:
        return
    if not variable.shape or (variable._in_memory and not in_pieces):
        dataset[...] = variable.to_numpy()
        return
    step = _step(variable, dataset, _PIECE_BYTES)
    for start in range(0, variable.shape[0], step):
        dataset[start : start + step] = variable[start : start + step].to_numpy()


def _step(variable: XarrayVariable, dataset: WritableDataset | _Counting, size: int) -> int:
    """Returns the length of pieces of whole chunks, of about this size in bytes."""
    row = max(1, variable.nbytes // variable.shape[0])
    side = dataset.chunks[0] if dataset.chunks else 1
    return max(1, size // row // side) * side


def _fill_encoded(plan: GroupPlan, one: _Planned, dataset: WritableDataset | _Counting) -> None:
    """Encodes and writes values by pieces of whole chunks."""
    assert one.plain is not None
    step = _step(one.plain, dataset, _ENCODED_BYTES)
    for start in range(0, one.plain.shape[0], step):
        coded = conventions.encode_cf_variable(one.plain[start : start + step], name=one.name)
        dataset[start : start + step] = plan.encode_variable(coded, one.name).to_numpy()


def _fill_by_blocks(pairs: list[tuple[dask.array.Array, WritableDataset | _Counting]]) -> None:
    """Computes and writes Dask's arrays: in threads of this process, or on other workers, which return the blocks."""
    import dask.array

    tools: Any = dask
    scheduler = tools.base.get_scheduler()
    if scheduler is None or scheduler in (tools.threaded.get, tools.get):
        tools.array.store([array for array, _ in pairs], [dataset for _, dataset in pairs], lock=False)
        return
    for array, dataset in pairs:
        blocks = list(zip(tools.array.core.slices_from_chunks(array.chunks), array.blocks.ravel(), strict=True))
        most = max(1, _PIECE_BYTES * 4 // max(1, int(np.prod(array.chunksize)) * array.dtype.itemsize))
        for at in range(0, len(blocks), most):
            some = blocks[at : at + most]
            for (index, _), values in zip(some, tools.compute(*(block for _, block in some)), strict=True):
                dataset[index] = values


def set_attribute(owner: WritableGroup | WritableDataset, name: str, value: object) -> None:
    """Sets an attribute in netCDF's form."""
    if isinstance(value, str) and value.isascii():
        data = encode(value) or b"\0"
        datatype = _core.Datatype(("string", len(data), "null-terminated", "ascii"))
        owner._node.set_attribute(encode(name), datatype, [], data, utf8=not name.isascii())
    elif isinstance(value, str | list):
        texts = np.empty(1 if isinstance(value, str) else len(value), object)
        texts[:] = [value] if isinstance(value, str) else value
        owner.attrs.create(name, texts, dtype=string_dtype())
    else:
        owner.attrs.create(name, value)


def _make_scale(dataset: WritableDataset, name: str, number: int) -> None:
    from hyperchunk.write.dimensions import make_scale

    make_scale(dataset, name)
    dataset.attrs.create("_Netcdf4Dimid", np.int32(number))


def write(
    path: str | os.PathLike[str] | BinaryIO,
    groups: list[tuple[str, XarrayDataset, Encodings | None, Iterable[Hashable] | str | None]],
    mode: str,
    storage_options: StorageOptions | None,
    progress: ProgressLike = None,
) -> Callable[[], None]:
    """Plans datasets in groups; returns the function that writes them.

    Args:
        path: File, URL of an object in a store, or file-like object.
        groups: Path of each group, its dataset, encodings and dimensions that can grow.
        mode: ``"w"`` or ``"a"``.
        storage_options: Access to a store.
        progress: Shows the bytes of the values.

    Raises:
        ValueError: A name, an encoding or an option is not valid.
        UnsupportedError: A variable cannot be represented.
        TypeError: An attribute cannot be represented.
    """
    if mode not in ("w", "a"):
        raise ValueError(f"mode must be 'w' or 'a', not {mode!r}")
    name = None
    if isinstance(path, str | os.PathLike):
        name = os.path.expanduser(os.fspath(path))  # noqa: PTH111 (a URL must stay as it is)
        if not is_url(name):
            name = os.fspath(_core.output_target(Path(name).absolute()))
    elif not hasattr(path, "write"):
        raise TypeError(f"cannot write to {path!r}: expected a path, a URL or a binary file-like object")
    elif mode == "a":
        raise ValueError("cannot add to a file-like object: expected a path; use mode 'w', or write a file")
    edits = mode == "a" and name is not None and Path(name).exists()

    def planned(root: netcdf.Group | None) -> list[GroupPlan]:
        plans: dict[str, GroupPlan] = {"/": GroupPlan("/", None, root)}
        for group, dataset, encoding, unlimited in groups:
            at = "/"
            for part in group.strip("/").split("/"):
                if part:
                    above, at = plans[at], f"{at.rstrip('/')}/{part}"
                    if at not in plans:
                        existing = None
                        if above.existing is None or part not in above.existing.hdf5:
                            _check_name("a group", part)
                        if above.existing is not None and part in above.existing.hdf5:
                            existing = above.existing.child(part)
                        plans[at] = GroupPlan(at, above, existing)
            plan_dataset(dataset, plans[at], encoding, unlimited)
        return list(plans.values())

    if not edits:
        plans = planned(None)
    else:
        assert name is not None
        with File(name) as now:
            planned(netcdf.Group(now))

    def work() -> None:
        import hyperchunk

        access = storage_options or None
        target = name
        file: WritableFile
        if edits:
            assert name is not None
            file = hyperchunk.open(name, "r+", storage_options=access)
        elif name is None or is_url(name):
            file = hyperchunk.open(path if name is None else name, "w", track_order=True, storage_options=access)
        else:
            target, file = open_beside(name, track_order=True, storage_options=access)
        try:
            writing = _Writing(file)
            if edits:
                root = netcdf.Group(file)
                writing.count_existing(root)
            for plan in planned(root) if edits else plans:
                writing.make(plan)
            writing.finish_scales()
            if not edits:
                set_attribute(file, "_NCProperties", f"version=2,hyperchunk={version('hyperchunk')}")
            writing.fill(progress)
            file.close()
            if target is not None and target != name:
                assert name is not None
                _core.put_output(target, name, True)
        except BaseException:
            if file:
                file.discard()
            if target is not None and target != name:
                Path(target).unlink(missing_ok=True)
            raise

    return work


__all__ = ["GroupPlan", "write"]
