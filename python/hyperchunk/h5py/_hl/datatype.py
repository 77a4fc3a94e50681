"""Committed datatypes."""

from __future__ import annotations

import posixpath
from typing import Any

from hyperchunk.h5py import h5t
from hyperchunk.h5py._hl.base import HLObject


class Datatype(HLObject):
    """A datatype, which may be a member of a group."""

    def __init__(self, bind: Any) -> None:
        if not isinstance(bind, h5t.TypeID):
            raise ValueError(f"{bind} is not a TypeID")
        super().__init__(bind)

    @property
    def dtype(self) -> Any:
        """NumPy dtype."""
        return self._id.dtype

    def __repr__(self) -> str:
        if not self._id:
            return "<Closed HDF5 named type>"
        name = self.name if self._id.committed() else None
        shown = '("anonymous")' if name is None else f'"{posixpath.basename(name)}"'
        return f"<HDF5 named type {shown} (dtype {self.dtype.str})>"
