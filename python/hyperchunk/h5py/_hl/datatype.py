"""Committed datatypes."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hyperchunk.h5py import h5t
from hyperchunk.h5py._hl.base import HLObject
from hyperchunk.typing import Dtype


class Datatype(HLObject):
    """A datatype, which may be a member of a group."""

    _id: h5t.TypeID

    def __init__(self, bind: object) -> None:
        if not isinstance(bind, h5t.TypeID):
            raise ValueError(f"{bind} is not a TypeID")
        super().__init__(bind)

    if TYPE_CHECKING:

        @property
        def id(self) -> h5t.TypeID: ...

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype."""
        return self._id.dtype

    def __repr__(self) -> str:
        if not self._id:
            return "<Closed HDF5 named type>"
        name = self.name if self._id.committed() else None
        shown = '("anonymous")' if name is None else f'"{posixpath.basename(name)}"'
        return f"<HDF5 named type {shown} (dtype {self.dtype.str})>"
