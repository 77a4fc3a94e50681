"""Storage of netCDF-4 variables: dtypes, fill values, chunks and filters, from encodings with netCDF4's names."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hyperchunk.dtypes import string_dtype
from hyperchunk.exceptions import LeftOutWarning, UnsupportedError
from hyperchunk.likeness import class_of_h5py
from hyperchunk.typing import DatasetOptions, Dtype, FilterLike

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

#: Encoding of a variable, with netCDF4's names. A caller gives it, so that a value may be of a wrong type.
Encoding: TypeAlias = Mapping[str, Any]
# netCDF's fill values of elements that were never written.
FILL_VALUES: dict[str, int | float] = {
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.9692099683868690e36,
    "f8": 9.9692099683868690e36,
}
_VALID = {
    "_FillValue",
    "blosc_shuffle",
    "chunksizes",
    "complevel",
    "compression",
    "compression_opts",
    "contiguous",
    "dtype",
    "endian",
    "fletcher32",
    "hdf5_filters",
    "shuffle",
    "szip_coding",
    "szip_pixels_per_block",
    "zlib",
    "zstd",
    "bzip2",
    "blosc",
    "szip",
}
# Keys of an encoding by which xarray records the origin of a variable.
_ORIGIN = {"source", "original_shape", "preferred_chunks"}
_BLOSC = {"blosc_blosclz": 0, "blosc_lz": 0, "blosc_lz4": 1, "blosc_lz4hc": 2, "blosc_zlib": 4, "blosc_zstd": 5}
_DEFAULT_LEVEL = 4
_GZIP, _SHUFFLE, _FLETCHER32, _SZIP, _BZIP2, _BLOSC_ID, _ZSTD = 1, 2, 3, 4, 307, 32001, 32015
# Filters that can be written, but that netCDF4 has no name for.
_UNNAMED = {32000: "lzf", 32003: "snappy", 32004: "lz4", 32008: "bitshuffle", 32026: "blosc2"}
_SZIP_MASKS = {"ec": 4, "nn": 32}
_SZIP_PIXELS = 8
#: Size of a chunk whose shape is not given, in bytes.
_CHUNK_BYTES = 1 << 20
#: Minimum number of elements in a chunk of a one-dimensional variable that can grow.
_MIN_CHUNK_ELEMENTS = 1024


class Compression(str):
    """The name of a stored variable's compression in netCDF4, as a value of an encoding. For h5py, which has no such
    names, it is the number of the filter with its options, or gzip if that HDF5 library lacks the filter.

    Args:
        name: netCDF4's name.
        number: Number of the filter.
        options: Options of the filter.

    Example:
        >>> hyperchunk.netcdf_encoding.Compression("zstd", 32015, (5,))
        'zstd'
    """

    __slots__ = ("number", "options")

    number: int
    options: tuple[int | str, ...]

    def __new__(cls, name: str, number: int, options: tuple[int | str, ...]) -> Compression:
        made = super().__new__(cls, name)
        made.number, made.options = number, options
        return made

    # h5py's `create_dataset` asks an object of its own class for the filter.
    __class__ = class_of_h5py("FilterRefBase", "h5py._hl.filters")

    @property
    def filter_id(self) -> int | str:
        """The filter, for h5py."""
        if self.number == _SZIP:
            return "szip"
        if _can_write(self.number, self.options):
            return self.number
        why = "h5py's HDF5 library cannot write it here, so gzip replaces it; load a plugin, or set the encoding"
        warnings.warn(f"the compression {str(self)!r} is left out: {why}", LeftOutWarning, stacklevel=2)
        return "gzip"

    @property
    def filter_options(self) -> tuple[int | str, ...] | int:
        """Options of the filter, for h5py."""
        if self.number == _SZIP or _can_write(self.number, self.options):
            return self.options
        return _DEFAULT_LEVEL

    def get(self, name: str, default: object = None) -> object:
        """Returns an argument of h5py's `create_dataset`."""
        found = {"compression": self.number, "compression_opts": self.options}
        return found.get(name, default)

    def __reduce__(self) -> tuple[type[Compression], tuple[str, int, tuple[int | str, ...]]]:
        return Compression, (str(self), self.number, self.options)


@lru_cache
def _can_write(number: int, options: tuple[int | str, ...]) -> bool:
    """Returns whether h5py can write with a filter. Only an attempt shows it: h5py's HDF5 library may find a plugin for
    netCDF4's, which fails in it.
    """
    h5py: Any = sys.modules.get("h5py")
    try:
        with h5py.File("filter", "w", driver="core", backing_store=False) as file:
            file.create_dataset("x", data=np.zeros(64), chunks=(64,), compression=number, compression_opts=options)
            file.flush()
    except (AttributeError, OSError, RuntimeError, ValueError):
        return False
    return True


def encoded_filters(dataset: Dataset) -> dict[str, object]:
    """Returns the compression of a stored dataset as an encoding that writers understand: netCDF4's names, and
    `hdf5_filters`, which others ignore, for pipelines that netCDF4 has no name for.
    """
    pipeline = [(number, tuple(parameters)) for number, _, parameters in dataset._data.filters]
    found: dict[str, object] = {"shuffle": dataset.shuffle, "zlib": dataset.compression == "gzip"}
    compressors = [stage for stage in pipeline if stage[0] not in (_SHUFFLE, _FLETCHER32)]
    if not compressors:
        return found
    number, parameters = compressors[0]
    if len(compressors) == 1 and number == _GZIP:
        found["complevel"] = dataset.compression_opts
    elif len(compressors) == 1 and (named := _named(number, parameters, shuffled=dataset.shuffle)) is not None:
        found |= named
    else:
        from hyperchunk.write.creation import _options

        found["zlib"] = False
        found["hdf5_filters"] = tuple((stage, *_options(stage, list(given))) for stage, given in pipeline)
    return found


def _named(number: int, parameters: tuple[int, ...], *, shuffled: bool) -> dict[str, object] | None:
    """Returns the encoding of a compressor by netCDF4's names, if it has any."""
    name = {_ZSTD: "zstd", _BZIP2: "bzip2"}.get(number)
    if name is not None and len(parameters) == 1:
        return {"compression": Compression(name, number, parameters), "complevel": parameters[0]}
    if number == _SZIP and len(parameters) > 1:
        coding = next((name for name, bit in _SZIP_MASKS.items() if parameters[0] & bit), "nn")
        options = (coding, parameters[1])
        named = Compression("szip", number, options)
        return {"compression": named, "szip_coding": coding, "szip_pixels_per_block": parameters[1]}
    if number == _BLOSC_ID and len(parameters) > 6 and not shuffled:
        name = {code: name for name, code in _BLOSC.items()}.get(parameters[6])
        if name is not None:
            named = Compression(name, number, (0, 0, 0, 0, *parameters[4:7]))
            return {"compression": named, "complevel": parameters[4], "blosc_shuffle": parameters[5]}
    return None


class Storage(NamedTuple):
    """The way to store a variable."""

    dtype: Dtype
    options: DatasetOptions
    #: Value of the attribute _FillValue; None without it.
    fill: object


def netcdf_dtype(name: str, dtype: Dtype, *, text: bool) -> Dtype:
    """Returns the stored dtype of a variable.

    Raises:
        UnsupportedError: netCDF-4 has no such type.
    """
    if text:
        return string_dtype()
    if dtype.kind == "S" and dtype.itemsize == 1:
        return dtype
    if dtype.kind in "iuf" and dtype.str[1:] in FILL_VALUES:
        return dtype.newbyteorder("=")
    raise UnsupportedError(
        f"cannot write the variable {name!r}: expected integers, floats of 4 or 8 bytes, or text, got {dtype}, which "
        "netCDF-4 does not have; convert it with astype()"
    )


def storage(
    name: str,
    dtype: Dtype,
    shape: tuple[int, ...],
    unlimited: tuple[bool, ...],
    encoding: Encoding,
    fill: object,
    *,
    asked: bool,
) -> Storage:
    """Plans the storage of a variable.

    Args:
        name: Name of the variable, for errors.
        dtype: Stored dtype.
        shape: Extent.
        unlimited: Dimensions that can grow.
        encoding: Encoding with netCDF4's names.
        fill: Value of _FillValue, or None.
        asked: The encoding was given for this write, so that unknown names in it are errors; otherwise it comes from
            the file that was read, and what does not apply is dropped.

    Raises:
        ValueError: The encoding has an unknown name or contradicts itself.
        UnsupportedError: The encoding has a name that is known but not supported.
    """
    given = {key: value for key, value in encoding.items() if key not in _ORIGIN and value is not None}
    _check(name, given, asked=asked)
    options: DatasetOptions = {}
    growing = any(unlimited)
    text = dtype.kind == "O"
    filters = [] if text or not shape else _filters(name, dtype, given, asked=asked)
    if given.get("fletcher32") and shape and not text:
        filters.append(3)
    chunks = _chunks(name, shape, unlimited, given, encoding, asked=asked)
    if given.get("contiguous") and (filters or growing):
        if asked and given["contiguous"] is True and (growing or chunks):
            raise ValueError(f"variable {name!r}: contiguous=True cannot be used with chunks or unlimited dimensions")
        if asked and filters:
            raise ValueError(f"variable {name!r}: contiguous=True cannot be used with filters")
        filters = filters if growing or not given.get("contiguous") else []
    if shape and (filters or growing or chunks):
        options["chunks"] = chunks or default_chunks(shape, unlimited, dtype.itemsize)
        if filters:
            options["filters"] = filters
        if growing:
            options["maxshape"] = tuple(None if free else length for free, length in zip(unlimited, shape, strict=True))
    if fill is not None and not text:
        fill = np.asarray(fill, dtype).reshape(())[()] if dtype.kind != "S" else np.bytes_(fill)
        options["fillvalue"] = fill
    elif dtype.str[1:] in FILL_VALUES:
        options["fillvalue"] = dtype.type(FILL_VALUES[dtype.str[1:]])
    return Storage(dtype, options, fill)


def _check(name: str, given: Encoding, *, asked: bool) -> None:
    unknown = sorted(set(given) - _VALID)
    if asked and unknown:
        lossy = {"least_significant_digit", "significant_digits", "quantize_mode"} & set(unknown)
        if lossy:
            raise UnsupportedError(f"variable {name!r}: {', '.join(sorted(lossy))} is not supported; round the values")
        raise ValueError(
            f"variable {name!r}: unexpected encoding {', '.join(map(repr, unknown))}; expected "
            f"{', '.join(sorted(_VALID))}"
        )
    if given.get("endian", "native") not in ("native", "little" if np.little_endian else "big"):
        raise UnsupportedError(f"variable {name!r}: endian={given['endian']!r}: values are written in native order")
    if (metadata := getattr(given.get("dtype"), "metadata", None)) and "enum" in metadata:
        raise UnsupportedError(
            f"cannot write the variable {name!r} as an enumeration; write its numbers: ds[name].encoding.pop('dtype')"
        )


def _filters(name: str, dtype: Dtype, given: Encoding, *, asked: bool) -> list[FilterLike]:
    """Returns the filters except the checksum, as `create_dataset` takes them."""
    given = _in_one_form(given)
    names = [short for short in ("zlib", "zstd", "bzip2", "szip") if given.get(short)]
    compression = given.get("compression")
    if compression == "unknown" and not asked:
        # h5netcdf's name for filters that h5py does not name.
        compression = None
    compression = compression or (names[-1] if names else None)
    if compression is None:
        return [*_stored_filters(name, given.get("hdf5_filters") or (), asked=asked)]
    level = given.get("complevel", given.get("compression_opts"))
    if compression in ("zlib", "gzip"):
        found: list[FilterLike] = [(1, _level(name, level, 9))]
    elif compression == "zstd":
        found = [(32015, _level(name, level, 22))]
    elif compression == "bzip2":
        found = [(307, max(1, _level(name, level, 9)))]
    elif compression == "lzf":
        found = ["lzf"]
    elif compression == "szip":
        coding = given.get("szip_coding") or "nn"
        if coding not in _SZIP_MASKS:
            raise ValueError(f"variable {name!r}: szip_coding must be 'nn' or 'ec', not {coding!r}")
        return [(_SZIP, _SZIP_MASKS[coding], int(given.get("szip_pixels_per_block") or _SZIP_PIXELS))]
    elif compression in _BLOSC:
        shuffle = int(given.get("blosc_shuffle", 1))
        return [(32001, 0, 0, 0, 0, _level(name, level, 9), shuffle, _BLOSC[compression])]
    elif isinstance(compression, int):
        options = given.get("compression_opts") or ()
        found = [(compression, *(options if isinstance(options, tuple | list) else (options,)))]
    else:
        raise UnsupportedError(
            f"variable {name!r}: cannot write with compression={compression!r}: expected zlib, zstd, bzip2, szip, lzf, "
            f"{', '.join(sorted(_BLOSC))} or the number of a filter"
        )
    if given.get("shuffle", compression in ("zlib", "gzip")) and dtype.itemsize > 1:
        found.insert(0, 2)
    return found


def _in_one_form(given: Encoding) -> dict[str, Any]:
    """Replaces the mappings by which netCDF4 describes szip and Blosc with single keys."""
    found = dict(given)
    szip, blosc = found.pop("szip", None), found.pop("blosc", None)
    if isinstance(szip, Mapping):
        found |= {"szip_coding": szip.get("coding"), "szip_pixels_per_block": szip.get("pixels_per_block")}
    if szip:
        found["szip"] = True
    if isinstance(blosc, Mapping) and found.get("compression") is None:
        found |= {"compression": blosc.get("compressor"), "blosc_shuffle": blosc.get("shuffle", 1)}
    options = found.get("compression_opts")
    if found.get("compression") == "szip" and isinstance(options, tuple | list) and len(options) == 2:
        # h5py's form.
        found |= {"szip_coding": options[0], "szip_pixels_per_block": options[1]}
    return found


def _stored_filters(name: str, pipeline: Collection[tuple[int, ...]], *, asked: bool) -> list[tuple[int, ...]]:
    """Returns the filters, except the checksum, with which a variable was stored; none if one cannot be written."""
    chosen = [tuple(stage) for stage in pipeline if stage[0] != _FLETCHER32]
    written = {_GZIP, _SHUFFLE, _SZIP, _BZIP2, _BLOSC_ID, _ZSTD, *_UNNAMED}
    foreign = sorted({number for number, *_ in chosen} - written)
    if not foreign:
        return chosen
    if asked:
        raise UnsupportedError(
            f"variable {name!r}: cannot write with hdf5_filters: the filter {foreign[0]} is supported only for reading"
        )
    why = "it can be read, but not written; the variable is stored without compression"
    warnings.warn(f"the filter {foreign[0]} of the variable {name!r} is left out: {why}", LeftOutWarning, stacklevel=2)
    return []


def _level(name: str, level: object, most: int) -> int:
    if level is None:
        return _DEFAULT_LEVEL
    if not isinstance(level, int | np.integer) or not 0 <= level <= most:
        raise ValueError(f"variable {name!r}: complevel must be an integer from 0 to {most}, not {level!r}")
    return int(level)


def _chunks(
    name: str,
    shape: tuple[int, ...],
    unlimited: tuple[bool, ...],
    given: Encoding,
    encoding: Encoding,
    *,
    asked: bool,
) -> tuple[int, ...] | None:
    """Returns the shape of a chunk if it is given and fits the variable."""
    if given.get("chunksizes") is None or not shape:
        return None
    sizes = tuple(int(size) for size in np.atleast_1d(given["chunksizes"]))
    fits = len(sizes) == len(shape) and all(
        size >= 1 and (free or size <= max(length, 1))
        for size, length, free in zip(sizes, shape, unlimited, strict=len(sizes) == len(shape))
    )
    if asked:
        if not fits:
            raise ValueError(f"variable {name!r}: chunksizes {sizes} do not fit the shape {shape}")
        return sizes
    changed = encoding.get("original_shape", shape) != shape
    return sizes if fits and not changed else None


def default_chunks(shape: tuple[int, ...], unlimited: Collection[bool], size: int) -> tuple[int, ...]:
    """Returns a shape of chunks of at most 1 MiB: the extent, whose longest side is halved until it fits."""
    sides = [max(1, length) for length in shape]
    if len(sides) == 1 and any(unlimited):
        sides[0] = max(sides[0], _MIN_CHUNK_ELEMENTS)
    while int(np.prod(sides)) * size > _CHUNK_BYTES and max(sides) > 1:
        longest = sides.index(max(sides))
        sides[longest] = (sides[longest] + 1) // 2
    return tuple(sides)
