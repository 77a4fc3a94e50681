"""Layouts of virtual datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hyperchunk.dataset import VDSmap
from hyperchunk.h5py._hl import base
from hyperchunk.virtual import VirtualLayout as NativeLayout
from hyperchunk.virtual import VirtualSource

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk import Datatype
    from hyperchunk.h5py._hl.group import Group
    from hyperchunk.h5py.h5d import DatasetID
    from hyperchunk.typing import ShapeLike

vds_support = True


class VirtualLayout(NativeLayout):
    """Layout of a new virtual dataset: assign ``layout[index] = source`` for each part."""

    def __init__(
        self,
        shape: ShapeLike,
        dtype: base.DtypeLike,
        maxshape: int | tuple[int | None, ...] | None = None,
        filename: str | None = None,
    ) -> None:
        super().__init__(shape, cast("npt.DTypeLike | Datatype", base.datatype(dtype)), maxshape, filename)

    def make_dataset(self, parent: Group, name: str | bytes | None, fillvalue: object = None) -> DatasetID:
        """Creates the dataset in a group; returns its identifier."""
        return parent.create_virtual_dataset(name, self, fillvalue).id


__all__ = ["VDSmap", "VirtualLayout", "VirtualSource", "vds_support"]
