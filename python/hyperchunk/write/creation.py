"""Creation of datasets from h5py's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from hyperchunk import _core, dtypes
from hyperchunk.dataset import Dataset
from hyperchunk.dtypes import Description
from hyperchunk.exceptions import (
    HyperchunkError,
    InvalidError,
    NotFoundError,
    ObjectNotFoundError,
    UnsupportedError,
    also,
)
from hyperchunk.file import check_cache
from hyperchunk.objects import encode
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import Array, DatasetOptions, Dtype, ExternalFile, ExternalFiles, MaxShape, Shape, ShapeLike
from hyperchunk.write import chunking, elements
from hyperchunk.write.filters import FILTER_OPTIONS, build_filters, replaced
from hyperchunk.write.opened import Writing

if TYPE_CHECKING:
    from hyperchunk.write.group import WritableGroup


# h5py options without effect on the file.
_IGNORED = frozenset(("rdcc_nslots", "rdcc_nbytes", "rdcc_w0"))


#: Values of datasets by their paths, or pairs of an index and values.
ManyValues: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]]"


def parse_shape(shape: ShapeLike) -> Shape:
    """Returns a shape as a tuple."""
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(length) for length in shape)


# Lengths have 64 bits.
_MOST_ELEMENTS = 2**64 - 1


def extent(shape: ShapeLike | None, array: Array | None, shown: Dtype) -> Shape:
    """Returns the requested extent of a dataset, checked against the data."""
    own = None
    if array is not None:
        inner = shown.subdtype[1] if shown.subdtype is not None else ()
        own = array.shape[: array.ndim - len(inner)] if inner else array.shape
    if shape is None:
        if own is None:
            raise TypeError("One of data, shape or dtype must be specified")
        return own
    if isinstance(shape, str | bytes):
        raise TypeError(f"expected a shape, got {shape!r}")
    wanted = parse_shape(shape)
    if any(length < 0 for length in wanted):
        message = f"cannot make a dataset of the shape {wanted}: lengths must not be negative"
        raise also(InvalidError(message), OverflowError)
    if any(length > _MOST_ELEMENTS for length in wanted):
        message = f"cannot make a dataset of the shape {wanted}: expected lengths below 2**64"
        raise also(InvalidError(message), OverflowError)
    if own is not None and int(np.prod(wanted, dtype=np.int64)) != int(np.prod(own, dtype=np.int64)):
        raise ValueError("Shape tuple is incompatible with data")
    return wanted


def create(
    writer: _core.Writer,
    parent: _core.Node,
    name: bytes,
    description: Description,
    committed: _core.Node | None,
    shown: Dtype,
    shape: Shape | None,
    options: DatasetOptions,
) -> _core.Node:
    """Creates a dataset; `shape` is None for a null dataspace."""
    given = options.copy()
    track_times = given.pop("track_times", None)
    if track_times not in (None, True, False):
        raise TypeError("track_times must be either True or False")
    made = parent.create_dataset(name, **keywords(writer, description, committed, shown, shape, given))
    if track_times:
        made.track_times()
    return made


def keywords(
    writer: _core.Writer,
    description: Description,
    committed: _core.Node | None,
    shown: Dtype,
    shape: Shape | None,
    options: DatasetOptions,
) -> dict[str, object]:
    """Returns `_core`'s keywords for a dataset."""
    given = options.copy()
    base = shown if shown.subdtype is None else shown.subdtype[0]
    wanted = build_filters(
        base,
        filters=given.pop("filters", None),
        compression=given.pop("compression", None),
        compression_opts=given.pop("compression_opts", None),
        shuffle=given.pop("shuffle", None),
        fletcher32=given.pop("fletcher32", None),
        scaleoffset=given.pop("scaleoffset", None),
    )
    chunks, maxshape = given.pop("chunks", None), given.pop("maxshape", None)
    layout, external = given.pop("layout", None), given.pop("external", None)
    fillvalue, fill_time = given.pop("fillvalue", None), given.pop("fill_time", None) or "ifset"
    track_order = given.pop("track_order", None)
    for option, prefix in (
        ("efile_prefix", given.pop("efile_prefix", None)),
        ("virtual_prefix", given.pop("virtual_prefix", None)),
    ):
        if prefix is not None:
            raise UnsupportedError(f"{option} is not supported: other files are searched for beside the dataset's own")
    if not given.pop("allow_unknown_filter", False):
        for number, _ in wanted.filters:
            if not _core.knows_filter(number):
                raise ValueError(
                    f"Unknown compression filter number: {number}; allow_unknown_filter=True allows it for chunks "
                    "that are written in their stored form"
                )
    check_cache(given)
    if unknown := set(given) - _IGNORED:
        raise unexpected_keyword("create_dataset", unknown, DatasetOptions.__optional_keys__)
    if fill_time not in ("alloc", "never", "ifset"):
        raise ValueError(f"fill_time must be one of 'alloc', 'never' or 'ifset', not {fill_time!r}")
    if fill_time == "never" and dtypes.has_sequences(description):
        # Of elements that were not written, libhdf5 would follow whatever the file has there.
        message = (
            "cannot create the dataset: strings and sequences of any length need a fill value; omit fill_time='never'"
        )
        raise InvalidError(message)
    bounds = _bounds(shape, maxshape)
    laid = _layout(layout, shape, bounds, chunks, bool(wanted), external)
    extent = _chunks(chunks, shape, bounds, description[1]) if laid == "chunked" else ()
    files = _external(external)
    _check_external(files, shape, description[1])
    return {
        "datatype": _core.Datatype(description),
        "committed": committed,
        "shape": None if shape is None else list(shape),
        "max_shape": None if bounds is None else list(bounds),
        "layout": laid,
        "chunks": list(extent),
        "external": files,
        "preset": wanted.preset,
        "filters": wanted.filters,
        "fill": fill(writer, description, shown, fillvalue),
        "fill_time": fill_time,
        "track_order": bool(track_order),
    }


def virtual(parent: _core.Node, name: bytes, **options: object) -> _core.Node:
    """Creates a virtual dataset."""
    rest: dict[str, object] = {
        "chunks": [],
        "external": [],
        "preset": None,
        "filters": [],
        "fill_time": "ifset",
        "track_order": False,
    }
    return parent.create_dataset(name, layout="virtual", **(rest | options))


def _bounds(shape: Shape | None, maxshape: MaxShape) -> tuple[int | None, ...] | None:
    if maxshape is None or maxshape is False:
        return None
    if shape == () and maxshape == ():
        return None
    if not shape:
        raise TypeError("Scalar/empty datasets don't support extensible dimensions")
    if maxshape is True:
        return (None,) * len(shape)
    bounds = (maxshape,) if isinstance(maxshape, int) else tuple(maxshape)
    if len(bounds) != len(shape):
        raise ValueError(f"maxshape {bounds} has another rank than the shape {shape}")
    return bounds


def _layout(
    layout: str | None,
    shape: Shape | None,
    bounds: tuple[int | None, ...] | None,
    chunks: int | Sequence[int] | bool | None,
    filtered: bool,
    external: ExternalFiles | None,
) -> str:
    has_chunks = chunks is not None and chunks is not False and not (not shape and chunks == ())
    needs_chunks = filtered or (bounds is not None and not external) or has_chunks
    if layout not in (None, "compact", "contiguous", "chunked"):
        raise ValueError(f"layout must be 'compact', 'contiguous' or 'chunked', not {layout!r}")
    if external:
        if filtered or has_chunks or layout not in (None, "contiguous"):
            raise ValueError("External storage cannot be used with chunks or filters")
        return "external"
    if layout is not None and layout != "chunked" and needs_chunks:
        raise ValueError("Chunked format required for given storage options")
    if chunks is False and needs_chunks:
        raise ValueError("Chunked format required for given storage options")
    if not shape:
        if needs_chunks or layout == "chunked":
            raise TypeError("Scalar/empty datasets don't support chunk/filter options")
        return layout or "contiguous"
    return layout or ("chunked" if needs_chunks else "contiguous")


def _chunks(
    chunks: int | Sequence[int] | bool | None, shape: Shape | None, bounds: tuple[int | None, ...] | None, size: int
) -> Shape:
    assert shape is not None
    if chunks is None or chunks is True:
        return chunking.guess(shape, bounds, size)
    extent = (chunks,) * len(shape) if isinstance(chunks, int) else tuple(int(length) for length in chunks)
    if len(extent) != len(shape):
        raise ValueError("Chunk shape must have the same rank as the dataset")
    for chunk, length, bound in zip(extent, shape, bounds or shape, strict=True):
        if chunk < 1:
            raise ValueError(f"Chunk shape must not have dimensions of no elements: {extent}")
        if bound is not None and chunk > max(bound, length):
            raise ValueError(
                f"Chunk shape must not be greater than data shape in any dimension. {extent} is not compatible with "
                f"{shape}"
            )
    return extent


def _check_external(files: list[tuple[bytes, int, int | None]], shape: Shape | None, size: int) -> None:
    """Checks that external files have space for all elements."""
    wanted = int(np.prod(shape or (), dtype=object)) * size
    if files and all(room is not None for _, _, room in files):
        room = sum(room or 0 for _, _, room in files)
        if room < wanted:
            raise ValueError(f"cannot store {wanted} bytes in external files with room for {room}")


def _external(external: ExternalFiles | None) -> list[tuple[bytes, int, int | None]]:
    if not external:
        return []
    if isinstance(external, str | bytes | Path):
        external = [(external,)]
    found = []
    for item in external:
        parts = (item,) if isinstance(item, str | bytes | Path) else tuple(item)
        given = (*parts, *(0, _core_unlimited)[len(parts) - 1 :])[:3]
        name, offset, size = cast("tuple[ExternalFile, int, int]", given)
        bounded = None if size in (_core_unlimited, -1) else int(size)
        found.append((encode(str(name) if isinstance(name, Path) else name), int(offset), bounded))
    return found


_core_unlimited = 2**64 - 1


def _number(value: object, shown: Dtype) -> object:
    """Returns a NumPy scalar or NaN as HDF5 converts it for a fill value: NumPy's conversion wraps around, or is an
    error.
    """
    if not isinstance(value, np.generic) and not (isinstance(value, float) and value != value):
        return value
    base = shown if shown.subdtype is None else shown.subdtype[0]
    array = np.asarray(value)
    if array.dtype.kind == "f" and base.kind in "iu" and base.isnative and np.isnan(array):
        # libhdf5 leaves NaN to the compiler, as NumPy does.
        with np.errstate(invalid="ignore"):
            return array.astype(base)
    return array


def fill(writer: _core.Writer, description: Description, shown: Dtype, value: object) -> bytes | None:
    """Returns a fill value in its stored form."""
    if value is None:
        return None
    if shown.names is not None and not isinstance(value, tuple) and np.asarray(value).dtype.names is None:
        raise ValueError(f"cannot make a fill value of type {shown} of {value!r}: expected a tuple of its members")
    value = _number(value, shown)
    try:
        array = elements.as_array(value, shown)
    except ValueError as error:
        raise also(InvalidError(f"cannot make a fill value of type {shown} of {value!r}: {error}"), TypeError) from None
    inner = shown.subdtype[1] if shown.subdtype is not None else ()
    if inner and array.shape != inner:
        array = np.broadcast_to(array, inner)
    elif not inner and array.shape != ():
        array = array.reshape(())
    return elements.to_stored(writer, description, array)


def like(other: Dataset) -> DatasetOptions:
    """Returns the options that make a dataset like another one."""
    data = other._data
    found: DatasetOptions = {"maxshape": None, "track_order": other.track_order}
    if other.shape is not None and other.maxshape != other.shape:
        found["maxshape"] = other.maxshape
    if data.layout in ("chunked", "compact"):
        found["layout"] = data.layout
    if data.chunks is not None:
        found["chunks"] = data.chunks
        found["allow_unknown_filter"] = True
        found["filters"] = [(number, _options(number, parameters)) for number, _, parameters in data.filters]
    if data.fill is not None and not dtypes._has_handle(data.datatype.description):
        found["fillvalue"] = other.fillvalue
    return found


def overridden(found: DatasetOptions, options: DatasetOptions, dtype: Dtype) -> DatasetOptions:
    """Returns the options of a dataset, overridden by others. h5py's options of filters replace the filters of their
    kind, and keep the others.
    """
    given: DatasetOptions = {**found, **options}
    if "chunks" in options and not options["chunks"]:
        given.pop("layout", None)
    stored = found.get("filters")
    if "filters" not in options and isinstance(stored, list):
        given["filters"] = replaced(cast("list[tuple[int, list[int]]]", stored), options, dtype)
        for option in FILTER_OPTIONS:
            given.pop(option, None)  # type: ignore[misc]
    return given


# Stored filter parameters that come from the user: index of the first, and maximum number.
_USER_PARAMETERS = {1: (0, 1), 2: (0, 0), 3: (0, 0), 4: (0, 2), 5: (0, 0), 6: (0, 2), 32000: (0, 0), 32008: (3, 3)}


def _options(number: int, parameters: list[int]) -> list[int]:
    start, most = _USER_PARAMETERS.get(number, (0, len(parameters)))
    if number in (32001, 32026):
        return parameters[:7]
    options = parameters[start : start + most]
    return [options[0] & 36, options[1]] if number == 4 and len(options) == 2 else options


def write_many(group: WritableGroup, values: ManyValues) -> None:
    """Writes values to datasets, by their paths."""
    for path, value in dict(values).items():
        index: Any
        elements: Any
        index, elements = value if isinstance(value, tuple) and len(value) == 2 else (..., value)
        dataset = group[path]
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{path!r} is a {type(dataset).__name__}, not a Dataset")
        dataset[index] = elements


def elsewhere(opened: Writing, filename: str, path: str) -> _core.Object:
    """Returns the object in another file that an external link points to."""
    from hyperchunk.file import File

    beside = Path(opened.recipe.folder, opened.filename).parent / filename
    try:
        other = File(beside if beside.exists() else filename)
        found = other._first_look(lambda: other._find(encode(path or "/")))
    except NotFoundError:
        message = f"the external link points to the file {filename!r}, which does not exist (file {opened.filename})"
        raise ObjectNotFoundError(message) from None
    except HyperchunkError as error:
        raise also(error, KeyError) from None
    assert isinstance(found, _core.Object)
    return found
