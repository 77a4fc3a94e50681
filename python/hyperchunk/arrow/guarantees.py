"""Zone pruning for pyarrow filters, done by pyarrow itself.

Each zone becomes a fragment of a dataset that is never read, with a guarantee made of its statistics. pyarrow drops
fragments whose guarantee contradicts a filter, by the rules with which it evaluates the filter.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from hyperchunk.arrow.zones import BoolArray, Column, Zones

# NaN in the text of a filter.
_NAN = re.compile(r"\bnan\b")
# Number of zones that are tested together before each is tested by itself.
_GROUP_ZONES = 32
# Maximum number of cases for a zone: a number or NaN, for each column.
_MAX_CASES = 8


def candidate_zones(zones: Zones, schema: pa.Schema, expression: ds.Expression) -> BoolArray | None:
    """Returns for each zone whether a filter may be true of a row; None if pyarrow cannot decide."""
    if _NAN.search(str(expression)):
        # pyarrow's rules for guarantees treat NaN as a number.
        return None
    levels = [zones.columns]
    while len(next(iter(levels[-1].values())).known) > _GROUP_ZONES:
        length = len(next(iter(levels[-1].values())).known)
        firsts = np.arange(0, length, _GROUP_ZONES)
        levels.append({name: column.grouped(firsts) for name, column in levels[-1].items()})
    indices = np.arange(len(next(iter(levels[-1].values())).known))
    for level, columns in enumerate(reversed(levels)):
        if level:
            length = len(next(iter(columns.values())).known)
            indices = (indices[:, None] * _GROUP_ZONES + np.arange(_GROUP_ZONES)).ravel()
            indices = indices[indices < length]
        satisfiable = _satisfiable({name: column.take(indices) for name, column in columns.items()}, schema, expression)
        if satisfiable is None:
            return None
        indices = indices[satisfiable]
    found = np.zeros(len(zones), np.bool_)
    found[indices] = True
    return found


def _satisfiable(columns: dict[str, Column], schema: pa.Schema, expression: ds.Expression) -> BoolArray | None:
    filesystem, kind = fs.SubTreeFileSystem("", fs.LocalFileSystem()), ds.IpcFileFormat()
    count = len(next(iter(columns.values())).known)
    fragments = [
        kind.make_fragment(str(number), filesystem, partition_expression=guarantee)
        for number in range(count)
        for guarantee in _guarantees(number, columns, schema)
    ]
    found = np.zeros(count, np.bool_)
    try:
        for fragment in ds.FileSystemDataset(fragments, schema, kind, filesystem).get_fragments(filter=expression):
            found[int(fragment.path)] = True
    except (pa.ArrowException, TypeError, ValueError):
        # An invalid filter is reported when it is evaluated.
        return None
    return found


def _guarantees(number: int, columns: dict[str, Column], schema: pa.Schema) -> list[ds.Expression]:
    """Returns the guarantees of a zone: each of its rows satisfies one of them."""
    cases: list[list[ds.Expression]] = []
    room = _MAX_CASES
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


def _all(expressions: tuple[ds.Expression, ...]) -> ds.Expression:
    found = ds.scalar(True)
    for number, expression in enumerate(expressions):
        found = expression if number == 0 else found & expression
    return found
