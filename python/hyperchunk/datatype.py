"""Committed datatypes."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NoReturn

from hyperchunk import dtypes
from hyperchunk._printable import printable
from hyperchunk.likeness import class_of_h5py
from hyperchunk.objects import HLObject
from hyperchunk.typing import Dtype, Index


class Datatype(HLObject):
    """A committed datatype: one that is a member of a group, and may be the type of several datasets.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["kelvin"] = numpy.dtype("f4")
        ...     file.create_dataset("t", (10,), dtype=file["kelvin"]).dtype.name
        'float32'
    """

    __slots__ = ()

    __class__ = class_of_h5py("Datatype")

    if TYPE_CHECKING:
        # A datatype has no elements. Type checkers need this in ``file["x"][0]``, since ``file["x"]`` may be one.
        def __getitem__(self, index: Index) -> NoReturn: ...

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype of the datatype."""
        self._opened.need()
        return dtypes.to_dtype(self._object.datatype().description)

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 named type>"
        name = '("anonymous")' if self.name is None else f'"{printable(posixpath.basename(self.name))}"'
        return f"<HDF5 named type {name} (dtype {self.dtype.str})>"
