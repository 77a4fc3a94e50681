"""Filters of new datasets, from h5py's arguments or the name of a preset."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, SupportsIndex, SupportsInt, cast

from hyperchunk.typing import DatasetOptions, Dtype, FilterLike

_SHUFFLE, _FLETCHER32, _SZIP, _SCALEOFFSET, _SNAPPY = 2, 3, 4, 6, 32003
_NAMES = {"gzip": 1, "szip": _SZIP, "lzf": 32000}
# Presets that have a compressor, by its name.
_PRESETS_WITH = {"zstd": "small", "lz4": "fast", "bitshuffle": "fast", "snappy": "snappy"}
#: h5py's options of filters.
FILTER_OPTIONS = ("compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset")
# Numbers of filters have 16 bits.
_MOST_FILTERS = 1 << 16
# Bits of szip's option mask.
_SZIP_MASKS = {"ec": 4, "nn": 32}


class Filters(NamedTuple):
    """Filters of a dataset."""

    #: Number and options of each filter.
    filters: list[tuple[int, list[int]]]
    #: Name of the preset, if any.
    preset: str | None

    def __bool__(self) -> bool:
        return bool(self.filters) or self.preset not in (None, "none")


def build_filters(
    dtype: Dtype,
    *,
    filters: str | Sequence[FilterLike] | None = None,
    compression: FilterLike | bool | None = None,
    compression_opts: object = None,
    shuffle: bool | None = None,
    fletcher32: bool | None = None,
    scaleoffset: int | bool | None = None,
) -> Filters:
    """Converts the arguments of ``create_dataset`` to filters."""
    if filters is not None:
        if any(argument not in (None, False) for argument in (compression, compression_opts, shuffle, scaleoffset)):
            raise TypeError("filters cannot be combined with compression, compression_opts, shuffle or scaleoffset")
        if isinstance(filters, str):
            if fletcher32:
                raise TypeError("fletcher32 cannot be combined with a preset: list the filters instead")
            return Filters([], filters)
        listed = [_one(item) for item in filters]
        return Filters([*listed, (_FLETCHER32, [])] if fletcher32 else listed, None)
    found: list[tuple[int, list[int]]] = []
    scaled = scaleoffset is not None and scaleoffset is not False
    compressor = _compressor(compression, compression_opts)
    if scaled:
        if fletcher32:
            raise ValueError("fletcher32 cannot be used with potentially lossy scale/offset filter")
        found.append((_SCALEOFFSET, _scaleoffset(dtype, scaleoffset or 0)))
    if shuffle:
        found.append((_SHUFFLE, []))
    if compressor is not None:
        found.append(compressor)
    if fletcher32:
        found.append((_FLETCHER32, []))
    return Filters(found, None)


def replaced(stored: list[tuple[int, list[int]]], options: DatasetOptions, dtype: Dtype) -> list[tuple[int, list[int]]]:
    """Returns the filters of a dataset, with h5py's options in place of the filters of their kind."""
    # The method of the scale-offset filter depends on the elements.
    stored = [
        (number, _scaleoffset(dtype, setting[1]) if number == _SCALEOFFSET and dtype.kind in "iuf" else setting)
        for number, setting in stored
    ]
    if not any(option in options for option in FILTER_OPTIONS):
        return stored
    kinds = {_SCALEOFFSET: "scaleoffset", _SHUFFLE: "shuffle", _FLETCHER32: "fletcher32"}
    compressors = [item for item in stored if item[0] not in kinds]
    compression, setting = options.get("compression"), options.get("compression_opts")
    if "compression" not in options and "compression_opts" in options and compressors:
        number = compressors[0][0]
        compression = {number: name for name, number in _NAMES.items()}.get(number, number)
    if compression == "gzip" and setting is None and compressors and compressors[0][0] == _NAMES["gzip"]:
        setting = compressors[0][1][0]
    new = build_filters(
        dtype,
        compression=compression,
        compression_opts=setting,
        shuffle=options.get("shuffle"),
        fletcher32=options.get("fletcher32"),
        scaleoffset=options.get("scaleoffset"),
    ).filters
    chosen: list[tuple[int, list[int]]] = []
    for number in (_SCALEOFFSET, _SHUFFLE):
        chosen += [item for item in (new if kinds[number] in options else stored) if item[0] == number]
    changed = "compression" in options or "compression_opts" in options
    chosen += [item for item in new if item[0] not in kinds] if changed else compressors
    chosen += [item for item in (new if "fletcher32" in options else stored) if item[0] == _FLETCHER32]
    if {_SCALEOFFSET, _FLETCHER32} <= {number for number, _ in chosen}:
        raise ValueError("fletcher32 cannot be used with potentially lossy scale/offset filter")
    return chosen


def _one(item: FilterLike) -> tuple[int, list[int]]:
    """Converts a filter given by its number, with its options, or as an object of a plugin package."""
    if isinstance(item, Mapping):
        options = cast("Iterable[SupportsIndex]", item.get("compression_opts", ()))
        return int(cast("SupportsInt", item["compression"])), _numbers(options)
    if isinstance(item, str):
        known = {**_NAMES, "shuffle": _SHUFFLE, "fletcher32": _FLETCHER32, "snappy": _SNAPPY}
        if item not in known:
            raise ValueError(f"unknown filter {item!r}: use its number")
        return known[item], []
    if isinstance(item, Sequence):
        number, *rest = cast("Sequence[SupportsIndex]", item)
        listed = rest[0] if len(rest) == 1 and not isinstance(rest[0], int) else rest
        return int(cast("SupportsInt", number)), _numbers(cast("Iterable[SupportsIndex]", listed))
    return operator.index(item), []


def _advice(compression: str) -> str:
    """Returns what to pass in place of a name that h5py does not have, either."""
    if preset := _PRESETS_WITH.get(compression):
        return f': pass filters="{preset}", or the filter\'s number, or an object of hdf5plugin'
    return ": pass gzip, lzf, szip, the number of another filter, or an object of hdf5plugin"


def _numbers(options: Iterable[SupportsIndex]) -> list[int]:
    return [operator.index(option) & 0xFFFF_FFFF for option in options]


def _scaleoffset(dtype: Dtype, setting: int | bool) -> list[int]:
    if not isinstance(setting, bool) and setting < 0:
        raise ValueError("scale factor must be >= 0")
    if dtype.kind in "iu":
        bits = 0 if setting is True else operator.index(setting)
        return [2, bits]
    if dtype.kind == "f":
        if setting is True:
            raise ValueError("integer scaleoffset must be provided for floating point types")
        return [0, operator.index(setting) & 0xFFFF_FFFF]
    raise TypeError("scale/offset filter only supported for integer and floating-point types")


def _compressor(compression: FilterLike | bool | None, options: object) -> tuple[int, list[int]] | None:
    if isinstance(compression, Mapping):
        return _one(compression)
    if compression is None:
        if options is not None:
            raise TypeError("Compression method must be specified")
        return None
    if compression is True:
        compression = "gzip"
    # As in h5py, False is level 0.
    if isinstance(compression, int) and 0 <= compression < 10:
        if options is not None:
            raise TypeError("Conflict in compression options")
        compression, options = "gzip", compression
    if compression == "gzip":
        level = 4 if options is None else options
        if level not in range(10):
            raise ValueError(f"GZIP setting must be an integer from 0-9, not {level!r}")
        return 1, [int(cast("SupportsInt", level))]
    if compression == "lzf":
        if options is not None:
            raise ValueError("LZF compression filter accepts no options")
        return _NAMES["lzf"], []
    if compression == "szip":
        return _SZIP, _szip(("nn", 8) if options is None else options)
    if isinstance(compression, str):
        raise ValueError(f'Compression filter "{compression}" is unavailable{_advice(compression)}')
    numbers = cast("Iterable[SupportsIndex]", options or ())
    number = operator.index(cast("SupportsIndex", compression))
    if not 0 <= number < _MOST_FILTERS:
        raise ValueError(f"Invalid filter number: {number}")
    return number, _numbers(numbers)


def _szip(options: object) -> list[int]:
    try:
        method, pixels = cast("tuple[str, int]", options)
    except (TypeError, ValueError):
        raise TypeError("SZIP options must be a 2-tuple") from None
    if method not in _SZIP_MASKS:
        raise ValueError("SZIP compression method must be 'ec' or 'nn'")
    if not (0 < pixels <= 32 and pixels % 2 == 0):
        raise ValueError("SZIP pixels-per-block must be an even number, at most 32")
    return [_SZIP_MASKS[method], pixels]
