"""Columns of pyarrow tables as NumPy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hyperchunk.exceptions import UnsupportedError
from hyperchunk.typing import Array

_EXTENSION_KEY = b"ARROW:extension:name"


def to_numpy(table: pa.Table) -> dict[str, Array]:
    """Returns a NumPy array for each column, without a copy of contiguous values in NumPy's representation."""
    return {
        field.name: _array(_combine_chunks(column), field)
        for field, column in zip(table.schema, table.columns, strict=True)
    }


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _array(values: pa.Array, field: pa.Field) -> Array:
    extension = (field.metadata or {}).get(_EXTENSION_KEY, b"")
    shape = [len(values)]
    kind, missing = values.type, values.is_null()
    if isinstance(kind, pa.FixedShapeTensorType):
        shape += list(kind.shape)
        values = _cells(values.storage)
    elif isinstance(values, pa.ExtensionArray):
        extension = kind.extension_name.encode()
        values = values.storage
    while isinstance(values, pa.FixedSizeListArray):
        shape.append(values.type.list_size)
        extension = (values.type.value_field.metadata or {}).get(_EXTENSION_KEY, extension)
        values = _cells(values)
        if isinstance(values, pa.ExtensionArray):
            extension = values.type.extension_name.encode()
            values = values.storage
    if extension == b"arrow.bool8" and values.null_count:
        truths = [None if value is None else bool(value) for value in values.to_pylist()]
        return np.array(truths, object).reshape(shape)
    array: Array = values.to_numpy(zero_copy_only=False)
    if extension == b"arrow.bool8":
        array = array.view(np.bool_)
    array = array.reshape(shape)
    if len(shape) > 1 and missing.true_count:
        if array.dtype.kind != "f":
            raise UnsupportedError(
                f"cannot make a NumPy array of the column {field.name}: expected no nulls in rows of several elements, "
                f"got {missing.true_count}; use to_pyarrow() or to_pandas()"
            )
        array = np.where(missing.to_numpy(zero_copy_only=False).reshape(-1, *[1] * (len(shape) - 1)), np.nan, array)
    if extension == b"h5.complex" and array.dtype.kind == "f" and array.dtype.itemsize in (4, 8):
        array = array.view(f"c{2 * array.dtype.itemsize}")[..., 0]
    return array


def _cells(values: pa.FixedSizeListArray) -> pa.Array:
    """Returns the elements of all rows, also of those that are null."""
    size = values.type.list_size
    return values.values.slice(values.offset * size, len(values) * size)


def with_arrow_booleans(table: pa.Table) -> pa.Table:
    """Converts columns of ``arrow.bool8``, which pandas takes for integers, to Arrow's booleans."""
    bool8 = getattr(pa, "bool8", None)
    for number, field in enumerate(table.schema):
        if bool8 is not None and field.type == bool8():
            chunks = [chunk.storage.cast(pa.bool_()) for chunk in table.column(number).chunks]
            table = table.set_column(number, field.name, pa.chunked_array(chunks, pa.bool_()))
    return table
