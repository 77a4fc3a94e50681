"""Dimension scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperchunk.h5py._objects import identifier, missing


def set_scale(dset: Any, dimname: bytes = b"") -> None:
    """Makes a dataset a dimension scale."""
    dset._hc.make_scale(dimname.decode("utf-8", "surrogateescape"))


def is_scale(dset: Any) -> bool:
    """Returns whether a dataset is a dimension scale."""
    return bool(dset._hc.is_scale)


def attach_scale(dset: Any, dscale: Any, idx: int) -> None:
    """Attaches a scale to a dimension."""
    dset._hc.dims[idx].attach_scale(dscale._hc)


def is_attached(dset: Any, dscale: Any, idx: int) -> bool:
    """Returns whether a scale is attached to a dimension."""
    return dscale._hc in dset._hc.dims[idx].values()


def detach_scale(dset: Any, dscale: Any, idx: int) -> None:
    """Detaches a scale from a dimension."""
    dset._hc.dims[idx].detach_scale(dscale._hc)


def get_num_scales(dset: Any, dim: int) -> int:
    """Returns the number of scales of a dimension."""
    return len(dset._hc.dims[dim])


def set_label(dset: Any, idx: int, label: bytes) -> None:
    """Changes the label of a dimension."""
    dset._hc.dims[idx].label = label.decode("utf-8", "surrogateescape")


def get_label(dset: Any, idx: int) -> bytes:
    """Returns the label of a dimension."""
    label: str = dset._hc.dims[idx].label
    return label.encode("utf-8", "surrogateescape")


def get_scale_name(dscale: Any) -> bytes:
    """Returns the name of a scale."""
    name = dscale._hc.attrs.get("NAME", b"")
    text: bytes = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")
    return text.split(b"\0", 1)[0]


def iterate(loc: Any, dim: int, func: Callable[[Any], Any], startidx: int = 0) -> Any:
    """Calls a function with each scale of a dimension until it returns a value."""
    for scale in loc._hc.dims[dim].values()[startidx:]:
        found = func(identifier(scale, loc._handle))
        if found is not None:
            return found
    return None


_missing: Any = missing(__name__)


def __getattr__(name: str) -> Any:
    return _missing(name)
