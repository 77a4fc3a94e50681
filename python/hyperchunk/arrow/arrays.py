"""Columns of pyarrow tables as NumPy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
    kind = values.type
    if isinstance(kind, pa.FixedShapeTensorType):
        shape += list(kind.shape)
        values = values.storage.flatten()
    elif isinstance(values, pa.ExtensionArray):
        extension = kind.extension_name.encode()
        values = values.storage
    while isinstance(values, pa.FixedSizeListArray):
        shape.append(values.type.list_size)
        extension = (values.type.value_field.metadata or {}).get(_EXTENSION_KEY, extension)
        values = values.flatten()
        if isinstance(values, pa.ExtensionArray):
            extension = values.type.extension_name.encode()
            values = values.storage
    array: Array = values.to_numpy(zero_copy_only=False)
    if extension == b"arrow.bool8":
        array = array.view(np.bool_)
    array = array.reshape(shape)
    if extension == b"h5.complex" and array.dtype.kind == "f" and array.dtype.itemsize in (4, 8):
        array = array.view(f"c{2 * array.dtype.itemsize}")[..., 0]
    return array


def with_arrow_booleans(table: pa.Table) -> pa.Table:
    """Converts columns of ``arrow.bool8``, which pandas takes for integers, to Arrow's booleans."""
    bool8 = getattr(pa, "bool8", None)
    for number, field in enumerate(table.schema):
        if bool8 is not None and field.type == bool8():
            chunks = [chunk.storage.cast(pa.bool_()) for chunk in table.column(number).chunks]
            table = table.set_column(number, field.name, pa.chunked_array(chunks, pa.bool_()))
    return table
