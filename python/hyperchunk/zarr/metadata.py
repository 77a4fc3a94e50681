"""Metadata of Zarr, versions 3 and 2."""

from __future__ import annotations

import base64
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.typing import Dtype
from hyperchunk.zarr.arrays import ZarrArray
from hyperchunk.zarr.attributes import Json, with_encoded_fill

if TYPE_CHECKING:
    from zarr.core.metadata.v3 import ArrayV3Metadata

#: A document of metadata, as JSON has it.
Document: TypeAlias = dict[str, Any]
#: Name of a dtype in version 2: text, a list of the members of a compound, a member, or its shape.
DtypeV2: TypeAlias = "str | int | list[DtypeV2]"


def array_metadata(array: ZarrArray) -> ArrayV3Metadata:
    """Returns the metadata of version 3, as zarr-python's ``ArrayV3Metadata``.

    Raises:
        UnsupportedError: Zarr has no such elements.
    """
    import_optional("zarr")
    from zarr.core.metadata.v3 import ArrayV3Metadata

    with warnings.catch_warnings():
        # zarr-python warns about codecs and data types that the specification lacks.
        warnings.simplefilter("ignore")
        data_type = _data_type(array)
        codecs: list[dict[str, Json]]
        match array.strings:
            case "text":
                codecs = [{"name": "vlen-utf8"}]
            case "bytes":
                codecs = [{"name": "vlen-bytes"}]
            case _:
                order = "big" if array.dtype.byteorder == ">" else "little"
                codecs = [{"name": "bytes", "configuration": {"endian": order}}]
        for config in array.filters:
            rest = {name: value for name, value in config.items() if name != "id"}
            codecs.append({"name": f"numcodecs.{config['id']}", "configuration": rest})
        raw = array.source.first.attrs["_FillValue"] if "_FillValue" in array.attributes else None
        return ArrayV3Metadata(
            shape=array.shape,
            data_type=data_type,
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": array.chunks}},
            chunk_key_encoding={"name": "default"},
            fill_value=array.fill,
            codecs=codecs,
            attributes=with_encoded_fill(array.attributes, raw, array.dtype),
            dimension_names=array.dimensions,
        )


def array_document(array: ZarrArray) -> Document:
    """Returns the contents of ``zarr.json``, version 3.

    Raises:
        UnsupportedError: Zarr has no such elements.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Document = array_metadata(array).to_dict()
        return found


def _data_type(array: ZarrArray) -> Any:
    from zarr.dtype import VariableLengthBytes, VariableLengthUTF8, parse_dtype

    if array.strings is not None:
        return VariableLengthBytes() if array.strings == "bytes" else VariableLengthUTF8()
    try:
        return parse_dtype(array.dtype, zarr_format=3)
    except (ValueError, TypeError) as error:
        raise UnsupportedError(
            f"cannot make {array.name} an array of Zarr: Zarr has no elements of dtype {array.dtype}"
        ) from error


def array_v2(array: ZarrArray, fill: object) -> Document:
    """Returns the contents of ``.zarray``.

    Args:
        array: The array.
        fill: Its fill value in JSON's form; None for none, which reads as zeros.
    """
    filters = list(array.filters)
    if array.strings is not None:
        filters = [{"id": "vlen-utf8" if array.strings == "text" else "vlen-bytes"}]
    return {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": "|O" if array.strings is not None else dtype_v2(array.dtype),
        "compressor": None,
        "filters": filters or None,
        "fill_value": fill,
        "order": "C",
    }


def dtype_v2(dtype: Dtype) -> DtypeV2:
    """Returns Zarr's name of a dtype, version 2: text, or a list of the members of a compound."""
    if dtype.names is None:
        return dtype.str
    members: list[DtypeV2] = []
    for name in dtype.names:
        member = dtype[name]
        base, shape = member.subdtype or (member, ())
        members.append([name, dtype_v2(base), *([list(shape)] if shape else [])])
    return members


def fill_v2(value: npt.ArrayLike, dtype: Dtype) -> Json:
    """Returns a fill value in JSON's form, version 2."""
    scalar = np.asarray(value).astype(dtype).reshape(-1)[0]
    if dtype.kind == "f":
        number = float(scalar)
        return (
            "NaN" if np.isnan(number) else ("Infinity" if number > 0 else "-Infinity") if np.isinf(number) else number
        )
    if dtype.kind == "c":
        return [fill_v2(part, part.dtype) for part in (scalar.real, scalar.imag)]
    if dtype.kind in "SV":
        return base64.standard_b64encode(np.asarray(scalar, dtype).tobytes()).decode()
    found: Json = scalar.item()
    return found


__all__ = ["Document", "array_document", "array_metadata", "array_v2", "dtype_v2", "fill_v2"]
