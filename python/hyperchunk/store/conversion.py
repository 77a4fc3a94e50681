"""Conversion of values to the elements of a store's datasets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.typing import Array, Dtype
from hyperchunk.values import memory_description


def as_elements(values: npt.ArrayLike, dtype: Dtype) -> Array:
    """Converts values to an array of a dtype. Numbers that it cannot hold become the nearest ones, and members of
    records are those of the same names, as in HDF5.

    Raises:
        TypeError: The values are complex numbers, and the elements are real; or records with other members.
        OverflowError: A number in a list does not fit.
    """
    array = np.asarray(values)
    if array.dtype.kind == "c" and dtype.kind in "biuf":
        raise TypeError(f"cannot write complex numbers: expected values for {dtype}; take .real or .imag")
    if array.dtype.names is not None and dtype.names is not None and array.dtype != dtype:
        return _records(array, dtype)
    if isinstance(values, np.ndarray | np.generic) or (array.dtype.kind == "f" and dtype.kind in "iu"):
        if array.dtype.kind in "iuf" and dtype.kind in "iuf" and not np.can_cast(array.dtype, dtype):
            return _converted(array, dtype)
        return np.asarray(array, dtype)
    return np.asarray(values, dtype)


def _records(array: Array, dtype: Dtype) -> Array:
    """Converts records by the names of their members: NumPy would assign them in order."""
    given, wanted = array.dtype.names or (), dtype.names or ()
    if set(given) != set(wanted):
        message = f"cannot write records: expected values for the members {', '.join(wanted)}, got {', '.join(given)}"
        raise TypeError(message)
    out: Array = np.zeros(array.shape, dtype)
    for name in wanted:
        member = dtype[name]
        out[name] = as_elements(array[name], member if member.subdtype is None else member.subdtype[0])
    return out


def _converted(array: Array, dtype: Dtype) -> Array:
    out: Array = np.empty(array.shape, dtype)
    if array.size:
        steps = [_core.Datatype(memory_description((None,), one)) for one in (array.dtype, dtype)]
        _core.Conversion(*steps).run(np.ascontiguousarray(array).reshape(-1), out.reshape(-1))
    return out
