"""Schema metadata from which pyarrow restores a frame of pandas: index, labels and dtypes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa

from hyperchunk.frames.model import Field, Source, Values
from hyperchunk.frames.to_pandas import frame


def pandas_metadata(
    pandas: ModuleType, source: Source, fields: Sequence[Field], values: Sequence[Values]
) -> dict[bytes, bytes] | None:
    """Returns pyarrow's metadata for a frame, with `Field.name` as the name of each column; None if Arrow lacks a type.

    Args:
        pandas: The module.
        source, fields: The frame.
        values: Its columns without rows; their types matter.
    """
    made = frame(source, fields, values, False)
    if isinstance(made, pandas.Series):
        made = made.to_frame("values" if made.name is None else made.name)
    try:
        stored = pa.Schema.from_pandas(made, preserve_index=True).metadata[b"pandas"]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, KeyError, ValueError, TypeError):
        # Columns for which Arrow has no type: an error when they are read, not here.
        return None
    found = json.loads(stored)
    index = [field for field in fields if field.is_index]
    columns = [field for field in fields if not field.is_index]
    # pyarrow's order: the columns, then the index.
    described = found["columns"]
    for entry, field in zip(described, [*columns, *index], strict=False):
        entry["field_name"] = field.name
    names = [field.name for field in index]
    if names:
        found["index_columns"] = names
    return {b"pandas": json.dumps(found).encode()}
