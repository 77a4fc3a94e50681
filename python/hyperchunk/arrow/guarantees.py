"""Which rows a filter of pyarrow can be true of: pyarrow itself says it.

Each stretch of rows is a fragment of a dataset that is never read, with a guarantee made of what is known of its
values. pyarrow leaves out fragments whose guarantee contradicts a filter, with the rules by which it evaluates the
filter."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from hyperchunk.arrow.zones import Column, Truths, Zones

# A value that is not a number, in a filter's text.
_NAN = re.compile(r"\bnan\b")
# So many stretches are looked at together before each by itself.
_GROUP = 32
# A stretch is not taken apart into more cases than these: a number or not, for each column.
_CASES = 8


def kept(zones: Zones, schema: pa.Schema, expression: ds.Expression) -> Truths | None:
    """For each stretch, whether a filter may be true of a row; None if pyarrow does not say it."""
    if _NAN.search(str(expression)):
        # pyarrow's rules for guarantees take it for a number.
        return None
    levels = [zones.columns]
    while len(next(iter(levels[-1].values())).known) > _GROUP:
        length = len(next(iter(levels[-1].values())).known)
        firsts = np.arange(0, length, _GROUP)
        levels.append({name: column.grouped(firsts) for name, column in levels[-1].items()})
    chosen = np.arange(len(next(iter(levels[-1].values())).known))
    for level, columns in enumerate(reversed(levels)):
        if level:
            length = len(next(iter(columns.values())).known)
            chosen = (chosen[:, None] * _GROUP + np.arange(_GROUP)).ravel()
            chosen = chosen[chosen < length]
        left = _satisfiable({name: column.of(chosen) for name, column in columns.items()}, schema, expression)
        if left is None:
            return None
        chosen = chosen[left]
    found = np.zeros(len(zones), np.bool_)
    found[chosen] = True
    return found


def _satisfiable(columns: dict[str, Column], schema: pa.Schema, expression: ds.Expression) -> Truths | None:
    nowhere, kind = fs.SubTreeFileSystem("", fs.LocalFileSystem()), ds.IpcFileFormat()
    count = len(next(iter(columns.values())).known)
    fragments = [
        kind.make_fragment(str(number), nowhere, partition_expression=guarantee)
        for number in range(count)
        for guarantee in _guarantees(number, columns, schema)
    ]
    found = np.zeros(count, np.bool_)
    try:
        for fragment in ds.FileSystemDataset(fragments, schema, kind, nowhere).get_fragments(filter=expression):
            found[int(fragment.path)] = True
    except (pa.ArrowException, TypeError, ValueError):
        # What is wrong with the filter is told by who evaluates it.
        return None
    return found


def _guarantees(number: int, columns: dict[str, Column], schema: pa.Schema) -> list[ds.Expression]:
    """What holds for the rows of a stretch: one of these for each row."""
    cases: list[list[ds.Expression]] = []
    room = _CASES
    for name, column in columns.items():
        if not column.known[number]:
            continue
        found, field, dtype = [], ds.field(name), schema.field(name).type
        if column.numbers[number]:
            low, high = (pa.scalar(end[number].item(), dtype) for end in (column.low, column.high))
            found.append((field >= low) & (field <= high))
        if column.nan[number]:
            found.append(field == pa.scalar(float("nan"), dtype))
        if len(found) <= room:
            room //= len(found)
            cases.append(found)
    return [_all(case) for case in itertools.product(*cases)]


def _all(expressions: tuple[Any, ...]) -> ds.Expression:
    found = ds.scalar(True)
    for number, expression in enumerate(expressions):
        found = expression if number == 0 else found & expression
    return found
