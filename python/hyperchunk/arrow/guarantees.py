"""Zone pruning for pyarrow filters, done by pyarrow itself.

Each zone becomes a fragment of a dataset that is never read, with a guarantee made of its statistics. pyarrow drops
fragments whose guarantee contradicts a filter, by the rules with which it evaluates the filter. Where the rules
differ, nothing is dropped.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from hyperchunk.arrow.zones import BoolArray, Column, Zones

# Argument of a membership test and the number of its options, in the metadata of a serialized filter.
_LOOKUP = re.compile(r"^call: '(?:is_in|index_in)'\nfield_ref: '(.*)'\noptions: '(\d+)'$", re.MULTILINE)
# NaN in the text of a filter.
_NAN = re.compile(r"\bnan\b")
# Number of zones that are tested together before each is tested alone.
_GROUP_ZONES = 32
# Maximum number of cases for a zone: a number or NaN, for each column.
_MAX_CASES = 8


def candidate_zones(zones: Zones, schema: pa.Schema, expression: ds.Expression) -> BoolArray | None:
    """Returns for each zone whether a filter may be true of a row; None if pyarrow cannot decide."""
    if _NAN.search(str(expression)):
        # pyarrow's rules for guarantees treat NaN as a number.
        return None
    if _fails(zones.columns, schema, expression) or not _lists_are_exact(zones.columns, schema, expression):
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


def _fails(columns: dict[str, Column], schema: pa.Schema, expression: ds.Expression) -> bool:
    """True if a filter raises an error for the smallest or the largest values, such as a cast that does not fit:
    skipped rows would hide the error.
    """
    ends = {}
    for field in schema:
        column = columns.get(field.name)
        if column is None or not column.numbers.any() or field.type != pa.from_numpy_dtype(column.low.dtype):
            ends[field.name] = pa.nulls(2, field.type)
            continue
        low, high = column.low[column.numbers].min(), column.high[column.numbers].max()
        ends[field.name] = pa.array([low.item(), high.item()], field.type)
    try:
        pa.table(ends, schema=schema).filter(expression)
    except (pa.ArrowException, TypeError, ValueError):
        return True
    return False


def _lists_are_exact(columns: dict[str, Column], schema: pa.Schema, expression: ds.Expression) -> bool:
    """True if the columns' types can represent all values of the lists with which columns are compared.

    pyarrow evaluates ``isin`` after a cast of the list to the column's type, but compares the list as it is with the
    bounds of a guarantee.
    """
    try:
        written = pa.ipc.open_file(expression.__reduce__()[1][0])
        options = written.get_batch(0)
    except (pa.ArrowException, TypeError):
        return False
    lists = {
        number: column.field("value_set")[0].values
        for number, column in enumerate(options.columns)
        if pa.types.is_struct(column.type) and column.type.get_field_index("value_set") >= 0
    }
    if not lists:
        return True
    if any(re.search(r"[\n\r']", name) for name in schema.names):
        # Such names make the text ambiguous.
        return False
    text = written.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
    asked = {int(number): name for name, number in _LOOKUP.findall(text)}
    # An expression that is tested may have the values of a column.
    return asked.keys() == lists.keys() and all(
        name not in columns or _has_all(schema.field(name).type, lists[number]) for number, name in asked.items()
    )


def _has_all(dtype: pa.DataType, values: pa.Array) -> bool:
    """True if a type can represent all values of a list, none of them NaN."""
    values = values.drop_null()
    kind = values.type
    if pa.types.is_null(kind):
        return True
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return False
    try:
        # NaN is unequal to itself.
        return bool(values.cast(dtype).cast(kind).equals(values))
    except pa.ArrowException:
        return False


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
    cases_left = _MAX_CASES
    for name, column in columns.items():
        found, field, dtype = [], ds.field(name), schema.field(name).type
        if not column.known[number] or dtype != pa.from_numpy_dtype(column.low.dtype):
            continue
        if column.numbers[number]:
            low, high = (pa.scalar(end[number].item(), dtype) for end in (column.low, column.high))
            found.append((field >= low) & (field <= high))
        if column.nan[number]:
            found.append(field == pa.scalar(float("nan"), dtype))
        if len(found) <= cases_left:
            cases_left //= len(found)
            cases.append(found)
    return [_all(case) for case in itertools.product(*cases)]


def _all(expressions: tuple[ds.Expression, ...]) -> ds.Expression:
    found = ds.scalar(True)
    for number, expression in enumerate(expressions):
        found = expression if number == 0 else found & expression
    return found
