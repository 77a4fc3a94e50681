"""Selections for reading: dtypes of fields, and scalars."""

from __future__ import annotations

import numpy as np

from hyperchunk.h5py._hl.selections import Selection, select
from hyperchunk.h5py.h5d import DatasetID
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.typing import Dtype, Index, Shape


def read_dtypes(dataset_dtype: Dtype, names: tuple[str, ...]) -> tuple[Dtype, Dtype]:
    """Returns the dtype of the values that are read, and that of the elements, for fields of a compound."""
    if not names:
        return dataset_dtype, dataset_dtype
    if dataset_dtype.names is None:
        raise ValueError("Field names only allowed for compound types")
    if unknown := [name for name in names if name not in dataset_dtype.names]:
        raise ValueError(f"Field {unknown[0]} does not appear in this type.")
    format_dtype = np.dtype([(name, dataset_dtype[name]) for name in names])
    return (format_dtype[names[0]] if len(names) == 1 else format_dtype), format_dtype


def read_selections_scalar(dsid: DatasetID, args: tuple[object, ...]) -> tuple[Shape | None, SpaceID]:
    """Returns the shape of the array, and the dataspace, for an index of a scalar dataset."""
    if dsid.shape != ():
        raise RuntimeError("Illegal selection function for non-scalar dataset")
    if args == ():
        return None, dsid.get_space()
    if args == (Ellipsis,):
        return (), dsid.get_space()
    raise ValueError("Illegal slicing argument for scalar dataspace")


def select_read(fspace: SpaceID, args: Index | Selection) -> Selection:
    """Returns the selection of an index."""
    return select(fspace._need(), args)
