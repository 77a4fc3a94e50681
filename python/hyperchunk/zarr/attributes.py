"""Attributes in JSON, as xarray reads them from Zarr."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hyperchunk import netcdf
from hyperchunk.dtypes import Empty
from hyperchunk.objects import HLObject
from hyperchunk.typing import Dtype

#: A value in JSON.
Json: TypeAlias = "str | int | float | Mapping[str, Json] | Sequence[Json] | None"


def attributes(found: HLObject) -> dict[str, Json]:
    """Returns the attributes of an object that JSON can represent; warns about the others."""
    return {
        name: value
        for name, value in ((name, _plain(value, name, found)) for name, value in netcdf.attributes(found).items())
        if value is not None
    }


def without_odd_fill(told: dict[str, Json], found: HLObject, dtype: Dtype) -> dict[str, Json]:
    """Returns attributes without a ``_FillValue`` that is not a valid element of the dataset, with a warning.

    Args:
        told: The attributes.
        found: The dataset.
        dtype: Dtype of its elements.
    """
    if "_FillValue" not in told:
        return told
    raw = found.attrs["_FillValue"]
    try:
        if isinstance(raw, Empty) or np.size(raw) == 0:
            raise ValueError("it has no value")
        value = np.asarray(raw).reshape(-1)[0]
        if dtype.kind in "biufc":
            {"f": float, "c": complex}.get(dtype.kind, int)(value)
            np.asarray(value).astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        reason = f"it is not a valid element of the dataset: {error}"
        netcdf.left_out(f"the attribute '_FillValue' of {found.name}", reason)
        return {name: value for name, value in told.items() if name != "_FillValue"}
    return told


def _plain(value: object, name: str, found: HLObject) -> Json:
    if isinstance(value, str | list):
        texts = [value] if isinstance(value, str) else value
        if all(isinstance(text, str) for text in texts):
            clean = [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in texts]
            return clean[0] if isinstance(value, str) else clean
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        numbers: Json = value.tolist()
        return numbers
    netcdf.left_out(f"the attribute {name!r} of {found.name}", f"JSON has no such values ({type(value).__name__})")
    return None


def with_encoded_fill(attributes: Mapping[str, Json], raw: object, dtype: Dtype) -> dict[str, Json]:
    """Returns attributes with ``_FillValue`` as xarray encodes it for Zarr's version 3.

    Args:
        attributes: The attributes.
        raw: The value of ``_FillValue``.
        dtype: Dtype of the elements.
    """
    found = dict(attributes)
    if "_FillValue" not in found:
        return found
    value = np.asarray(raw).reshape(-1)[0]
    if dtype.kind == "f":
        found["_FillValue"] = base64.standard_b64encode(struct.pack("<d", float(value))).decode()
    elif dtype.kind == "c":
        parts = (float(value.real), float(value.imag))
        found["_FillValue"] = [base64.standard_b64encode(struct.pack("<d", part)).decode() for part in parts]
    elif dtype.kind == "S":
        text = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        found["_FillValue"] = base64.standard_b64encode(text).decode()
    elif dtype.kind == "b":
        found["_FillValue"] = bool(value)
    elif dtype.kind in "iu":
        found["_FillValue"] = int(value)
    return found


__all__ = ["Json", "attributes", "with_encoded_fill", "without_odd_fill"]
