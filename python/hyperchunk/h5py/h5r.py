"""References."""

from __future__ import annotations

from hyperchunk.h5py import h5o
from hyperchunk.h5py._objects import Location, identifier, missing
from hyperchunk.h5py.h5d import DatasetID
from hyperchunk.h5py.h5g import GroupID
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.h5py.h5t import TypeID
from hyperchunk.objects import resolve_region
from hyperchunk.references import Reference, RegionReference

OBJECT, DATASET_REGION = 0, 1


def create(loc: Location, name: bytes, ref_type: int, space: SpaceID | None = None) -> Reference:
    """Makes a reference to an object or, with ``DATASET_REGION``, to a selection of a dataset."""
    found = h5o.open(loc, name)
    reference = found._hc.ref
    if ref_type == OBJECT:
        return reference
    if ref_type != DATASET_REGION:
        raise ValueError("Unknown reference typecode")
    if space is None:
        raise ValueError("Dataspace required for region reference")
    made = space._selection()
    return RegionReference(raw=reference._raw, region=made)


def dereference(ref: Reference, loc: Location) -> GroupID | DatasetID | TypeID | None:
    """Opens the object to which a reference points; None for a null one."""
    if not ref:
        return None
    return identifier(loc._hc.file[ref], loc._handle)


def get_region(ref: RegionReference, loc: Location) -> SpaceID | None:
    """Returns the dataspace of the dataset to which a reference points, with the selection."""
    if not ref:
        return None
    dataset, selection = resolve_region(loc._hc._opened, ref)
    shape = dataset.shape or ()
    return SpaceID(shape, dataset.maxshape, selected=selection.native.description(list(shape)))


def get_obj_type(ref: Reference, loc: Location) -> int | None:
    """Returns the type of the object to which a reference points, as ``h5g`` numbers it."""
    found = dereference(ref, loc)
    return None if found is None else h5o.get_info(found).type


def get_name(ref: Reference, loc: Location) -> bytes | None:
    """Returns the path of the object to which a reference points."""
    from hyperchunk.h5py.h5i import get_name as name_of

    found = dereference(ref, loc)
    return None if found is None else name_of(found)


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
