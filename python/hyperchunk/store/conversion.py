"""Conversion of values to the elements of a store's datasets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.typing import Array, Dtype
from hyperchunk.values import memory_description


def as_elements(values: npt.ArrayLike, dtype: Dtype) -> Array:
    """Converts values to an array of a dtype. Numbers that it cannot hold become the nearest ones, as in HDF5.

    Raises:
        TypeError: The values are complex numbers, and the elements are real.
        OverflowError: A number in a list does not fit.
    """
    array = np.asarray(values)
    if array.dtype.kind == "c" and dtype.kind in "biuf":
        raise TypeError(f"cannot write complex numbers: expected values for {dtype}; take .real or .imag")
    if isinstance(values, np.ndarray | np.generic) or (array.dtype.kind == "f" and dtype.kind in "iu"):
        if array.dtype.kind in "iuf" and dtype.kind in "iuf" and not np.can_cast(array.dtype, dtype):
            return _converted(array, dtype)
        return np.asarray(array, dtype)
    return np.asarray(values, dtype)


def _converted(array: Array, dtype: Dtype) -> Array:
    out: Array = np.empty(array.shape, dtype)
    if array.size:
        steps = [_core.Datatype(memory_description((None,), one)) for one in (array.dtype, dtype)]
        _core.Conversion(*steps).run(np.ascontiguousarray(array).reshape(-1), out.reshape(-1))
    return out
