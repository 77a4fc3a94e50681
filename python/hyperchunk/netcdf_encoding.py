"""Storage of netCDF-4 variables: dtypes, fill values, chunks and filters, from encodings with netCDF4's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from hyperchunk.dtypes import string_dtype
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.typing import DatasetOptions, Dtype

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
    "shuffle",
    "szip_coding",
    "szip_pixels_per_block",
    "zlib",
    "zstd",
    "bzip2",
    "szip",
}
# Names of xarray that say where a variable came from.
_ORIGIN = {"source", "original_shape", "preferred_chunks"}
_BLOSC = {"blosc_blosclz": 0, "blosc_lz": 0, "blosc_lz4": 1, "blosc_lz4hc": 2, "blosc_zlib": 4, "blosc_zstd": 5}
_DEFAULT_LEVEL = 4
#: Size of a chunk whose shape is not given, in bytes.
_CHUNK_BYTES = 1 << 20
#: Least number of elements in a chunk of a growing line.
_LINE = 1024


class Storage(NamedTuple):
    """The way to store a variable."""

    dtype: Dtype
    options: DatasetOptions
    #: Value of the attribute _FillValue; None without it.
    fill: Any


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
    encoding: Mapping[str, Any],
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
    filters = [] if text or not shape else _filters(name, dtype, given)
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


def _check(name: str, given: dict[str, Any], *, asked: bool) -> None:
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


def _filters(name: str, dtype: Dtype, given: Mapping[str, Any]) -> list[Any]:
    """Returns the filters but the checksum, as `create_dataset` takes them."""
    names = [short for short in ("zlib", "zstd", "bzip2", "szip") if given.get(short)]
    compression = given.get("compression") or (names[-1] if names else None)
    if compression is None:
        return []
    level = given.get("complevel", given.get("compression_opts"))
    if compression in ("zlib", "gzip"):
        found: list[Any] = [(1, _level(name, level, 9))]
    elif compression == "zstd":
        found = [(32015, _level(name, level, 22))]
    elif compression == "bzip2":
        found = [(307, max(1, _level(name, level, 9)))]
    elif compression == "lzf":
        found = ["lzf"]
    elif compression in _BLOSC:
        shuffle = int(given.get("blosc_shuffle", 1))
        return [(32001, 0, 0, 0, 0, _level(name, level, 9), shuffle, _BLOSC[compression])]
    elif isinstance(compression, int):
        options = given.get("compression_opts") or ()
        found = [(compression, *(options if isinstance(options, tuple | list) else (options,)))]
    else:
        raise UnsupportedError(
            f"variable {name!r}: cannot write with compression={compression!r}: expected zlib, zstd, bzip2, lzf, "
            f"{', '.join(sorted(_BLOSC))} or the number of a filter"
        )
    if given.get("shuffle", compression in ("zlib", "gzip")) and dtype.itemsize > 1:
        found.insert(0, 2)
    return found


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
    given: Mapping[str, Any],
    encoding: Mapping[str, Any],
    *,
    asked: bool,
) -> tuple[int, ...] | None:
    """Returns the shape of a chunk if it is given and fits."""
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
        sides[0] = max(sides[0], _LINE)
    while int(np.prod(sides)) * size > _CHUNK_BYTES and max(sides) > 1:
        longest = sides.index(max(sides))
        sides[longest] = (sides[longest] + 1) // 2
    return tuple(sides)
