"""Dimension scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from hyperchunk.h5py._objects import R, identifier, missing

if TYPE_CHECKING:
    from hyperchunk.h5py.h5d import DatasetID


def set_scale(dset: DatasetID, dimname: bytes = b"") -> None:
    """Makes a dataset a dimension scale."""
    dset._hc.make_scale(dimname.decode("utf-8", "surrogateescape"))


def is_scale(dset: DatasetID) -> bool:
    """Returns whether a dataset is a dimension scale."""
    return bool(dset._hc.is_scale)


def attach_scale(dset: DatasetID, dscale: DatasetID, idx: int) -> None:
    """Attaches a scale to a dimension."""
    dset._hc.dims[idx].attach_scale(dscale._hc)


def is_attached(dset: DatasetID, dscale: DatasetID, idx: int) -> bool:
    """Returns whether a scale is attached to a dimension."""
    return dscale._hc in dset._hc.dims[idx].values()


def detach_scale(dset: DatasetID, dscale: DatasetID, idx: int) -> None:
    """Detaches a scale from a dimension."""
    dset._hc.dims[idx].detach_scale(dscale._hc)


def get_num_scales(dset: DatasetID, dim: int) -> int:
    """Returns the number of scales of a dimension."""
    return len(dset._hc.dims[dim])


def set_label(dset: DatasetID, idx: int, label: bytes) -> None:
    """Changes the label of a dimension."""
    dset._hc.dims[idx].label = label.decode("utf-8", "surrogateescape")


def get_label(dset: DatasetID, idx: int) -> bytes:
    """Returns the label of a dimension."""
    label = dset._hc.dims[idx].label
    return label.encode("utf-8", "surrogateescape")


def get_scale_name(dscale: DatasetID) -> bytes:
    """Returns the name of a scale."""
    name = dscale._hc.attrs.get("NAME", b"")
    text: bytes = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")
    return text.split(b"\0", 1)[0]


def iterate(loc: DatasetID, dim: int, func: Callable[[DatasetID], R | None], startidx: int = 0) -> R | None:
    """Calls a function with each scale of a dimension until it returns a value."""
    for scale in loc._hc.dims[dim].values()[startidx:]:
        found = func(cast("DatasetID", identifier(scale, loc._handle)))
        if found is not None:
            return found
    return None


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
