"""References of kerchunk to the chunks of a file or a collection, as JSON and as Parquet."""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hyperchunk import _core, netcdf
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection
from hyperchunk.exceptions import ExistsError
from hyperchunk.file import is_url
from hyperchunk.typing import PathLike
from hyperchunk.zarr.arrays import ChunkLocation, Strings, ZarrArray
from hyperchunk.zarr.metadata import Document, array_v2, fill_v2
from hyperchunk.zarr.tree import Shown, Tree

#: A chunk: its data in base 64, or the name of a file with an offset and a length.
Stored: TypeAlias = str | list[str | int]
#: A key of version 2 and its value.
Entry: TypeAlias = tuple[str, Document | Stored]
_PARQUET_SUFFIXES = (".parq", ".parquet")


def write_kerchunk(shown: Shown, path: PathLike, overwrite: bool, inline: int, records: int, strings: Strings) -> None:
    """Writes references: see :meth:`hyperchunk.Collection.to_kerchunk`."""
    target = Path(path)
    names = shown.files if isinstance(shown, Collection) else (shown.filename,)
    inputs = [name for name in names if not is_url(name)]
    if target.suffix not in _PARQUET_SUFFIXES:
        with _core.OutputFile(target, overwrite, inputs) as out:
            _write_json(_references(Tree(shown, strings), list(names), inline), out)
        return
    import_optional("pyarrow")
    if not target.is_dir():
        _core.check_output(target, overwrite, inputs)
    if overwrite:
        _check_replaced(target)
    with _core.OutputFolder(target, overwrite) as folder:
        _write_parquet(_references(Tree(shown, strings), list(names), inline), folder, records)


def _check_replaced(target: Path) -> None:
    """Raises an error for a file or folder that is not one of references, since it would be deleted. A link is
    replaced, and its target stays.
    """
    if os.path.lexists(target) and not target.is_symlink() and not (target / ".zmetadata").is_file():
        raise ExistsError(f"cannot write {target}: expected a folder of references, got something else; move it away")


def _write_json(entries: Iterator[Entry], out: _core.OutputFile) -> None:
    out.write(b'{"version": 1, "refs": {')
    for number, (key, value) in enumerate(entries):
        text = json.dumps(value) if isinstance(value, dict) else value
        out.write(f"{',' if number else ''}\n{json.dumps(key)}: {json.dumps(text)}".encode())
    out.write(b"\n}}\n")


def _write_parquet(entries: Iterator[Entry], folder: Path, records: int) -> None:
    """Writes fsspec's layout: ``.zmetadata``, and for each array files of `records` references, in C order."""
    metadata: dict[str, Document] = {}
    arrays = itertools.groupby(entries, key=lambda entry: entry[0].rpartition("/")[0])
    for path, members in arrays:
        rows: dict[int, Stored] = {}
        for key, value in members:
            name = key.rpartition("/")[2]
            if isinstance(value, dict):
                metadata[key] = value
                continue
            told = metadata[f"{path}/.zarray"]
            grid = [math.ceil(length / chunk) for length, chunk in zip(told["shape"], told["chunks"], strict=True)]
            number = 0
            for at, count in zip(map(int, name.split(".")) if grid else (), grid, strict=True):
                number = number * count + at
            rows[number] = value
        for record in sorted({number // records for number in rows}):
            end = min((record + 1) * records, math.prod(grid))
            part = [rows.get(number) for number in range(record * records, end)]
            _write_record(part, folder / path / f"refs.{record}.parq")
    text = json.dumps({"metadata": metadata, "record_size": records})
    (folder / ".zmetadata").write_text(text, encoding="utf-8")


def _write_record(rows: list[Stored | None], path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    references = [row if isinstance(row, list) else [None, 0, 0] for row in rows]
    columns = {
        "path": pa.array([reference[0] for reference in references], pa.string()),
        "offset": pa.array([reference[1] for reference in references], pa.int64()),
        "size": pa.array([reference[2] for reference in references], pa.int64()),
    }
    if any(isinstance(row, str) for row in rows):
        raw = [base64.b64decode(row.removeprefix("base64:")) if isinstance(row, str) else None for row in rows]
        columns["raw"] = pa.array(raw, pa.binary())
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, compression="zstd")


def _references(tree: Tree, names: list[str], inline: int) -> Iterator[Entry]:
    """Iterates over the keys of version 2 and their values: a dict for JSON, text for data in base 64, or the name of a
    file with an offset and a length.
    """
    for path in tree.groups:
        below = f"{path}/" if path else ""
        yield f"{below}.zgroup", {"zarr_format": 2}
        attributes = tree.attributes(path)
        if attributes:
            yield f"{below}.zattrs", attributes
    left = inline
    for path, array in tree.arrays():
        if any(member.names for member, *_ in (array.dtype.fields or {}).values()):
            netcdf.left_out(
                array.name, "references have no compounds in compounds; use Icechunk or hyperchunk.zarr.store"
            )
            continue
        made = _of_array(array, path, names, left)
        if made is None:
            netcdf.left_out(
                array.name,
                f"more than {left} bytes would be stored in the references, since {array.why_decoded}; "
                "raise inline, or use Icechunk or hyperchunk.zarr.store",
            )
            continue
        entries, used = made
        left -= used
        yield from entries


def _of_array(array: ZarrArray, path: str, names: list[str], inline: int) -> tuple[list[Entry], int] | None:
    """Returns the references of an array and the size of the data in them; None if that is more than `inline`."""
    if array.source.first.is_virtual:
        array.check_sources()
    entries: list[Entry] = []
    used = 0
    told = array.source.first.attrs["_FillValue"] if "_FillValue" in array.attributes else None
    fill = None if told is None or array.strings else fill_v2(told, array.dtype)
    # xarray treats a fill value as the marker of missing data, so only a `_FillValue` of the file becomes one.
    read = np.zeros((), array.dtype) if fill is None else np.asarray(told).reshape(-1)[0].astype(array.dtype)
    is_default = array.strings is None and np.asarray(array.fill, array.dtype).tobytes() == read.tobytes()
    absent: str | None = None
    for chunk_index, found in array.places():
        key = f"{path}/{'.'.join(map(str, chunk_index)) if chunk_index else '0'}"
        if isinstance(found, ChunkLocation):
            entries.append((key, [names[found.number], found.offset, found.length]))
            continue
        if not found and is_default:
            continue
        if found or absent is None:
            data = "base64:" + base64.b64encode(array.encoded(chunk_index)).decode()
            absent = absent if found else data
        value = data if found else absent
        assert value is not None
        used += len(value)
        if used > inline:
            return None
        entries.append((key, value))
    attributes = {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dimensions)}
    return [(f"{path}/.zarray", array_v2(array, fill)), (f"{path}/.zattrs", attributes), *entries], used


__all__ = ["write_kerchunk"]
