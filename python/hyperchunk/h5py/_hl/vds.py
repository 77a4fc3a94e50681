"""Layouts of virtual datasets."""

from __future__ import annotations

from typing import Any

from hyperchunk.dataset import VDSmap
from hyperchunk.h5py._hl import base
from hyperchunk.virtual import VirtualLayout as NativeLayout
from hyperchunk.virtual import VirtualSource

vds_support = True


class VirtualLayout(NativeLayout):
    """Layout of a new virtual dataset: assign ``layout[index] = source`` for each part."""

    def __init__(self, shape: Any, dtype: Any, maxshape: Any = None, filename: Any = None) -> None:
        super().__init__(shape, base.datatype(dtype), maxshape, filename)

    def make_dataset(self, parent: Any, name: Any, fillvalue: Any = None) -> Any:
        """Creates the dataset in a group; returns its identifier."""
        return parent.create_virtual_dataset(name, self, fillvalue).id


__all__ = ["VDSmap", "VirtualLayout", "VirtualSource", "vds_support"]
