"""Creation properties of existing objects, and datasets made from creation properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from hyperchunk import _core, dtypes
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py import _headers, h5d, h5p
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.write import creation
from hyperchunk.write.dataset import WritableDataset

if TYPE_CHECKING:
    from hyperchunk.dtypes import Description
    from hyperchunk.h5py._objects import Location
    from hyperchunk.h5py.h5g import GroupID
    from hyperchunk.h5py.h5t import TypeID
    from hyperchunk.selections import StoredSelection
    from hyperchunk.typing import DatasetOptions
    from hyperchunk.write.group import WritableGroup

_LAYOUTS = {"compact": h5d.COMPACT, "contiguous": h5d.CONTIGUOUS, "chunked": h5d.CHUNKED, "virtual": h5d.VIRTUAL}
_LAYOUT_NAMES = {number: name for name, number in _LAYOUTS.items()}
_FILL_TIMES = {h5d.FILL_TIME_ALLOC: "alloc", h5d.FILL_TIME_NEVER: "never", h5d.FILL_TIME_IFSET: "ifset"}
#: File, dataset, and the selections in it and in the virtual dataset.
_Mapping: TypeAlias = "tuple[list[bytes], list[bytes], StoredSelection, StoredSelection]"
# Flags with which HDF5's own functions add filters; those of others are optional.
_MANDATORY = frozenset((3,))


def _header(oid: Location) -> _headers.Header | None:
    try:
        return _headers.of(oid)
    except UnsupportedError:
        return None


def _common(plist: h5p.PropOCID, oid: Location, header: _headers.Header | None) -> None:
    tracked = oid._hc._object.attribute_order_tracked
    plist.set_attr_creation_order(3 * int(tracked) if header is None else header.attribute_order)
    plist.set_obj_track_times(header is not None and any(header.times))
    if header is not None:
        plist.set_attr_phase_change(*header.phases)


def group_plist(oid: GroupID) -> h5p.PropGCID:
    """Returns the creation properties of a group."""
    header = _header(oid)
    plist = h5p.PropGCID()
    _common(plist, oid, header)
    tracked = oid._hc._object.attribute_order_tracked
    plist.set_link_creation_order(3 * int(tracked) if header is None else header.link_order)
    return plist


def dataset_plist(oid: h5d.DatasetID) -> h5p.PropDCID:
    """Returns the creation properties of a dataset."""
    hc, header = oid._hc, _header(oid)
    data = hc._data
    plist = h5p.PropDCID()
    _common(plist, oid, header)
    if data.chunks is not None:
        plist.set_chunk(data.chunks)
    plist.set_layout(_LAYOUTS.get(data.layout, h5d.CONTIGUOUS))
    flags = {} if header is None else {found.number: found.flags for found in header.filters}
    plist._values["filters"] = [
        (number, flags.get(number, int(number not in _MANDATORY)), tuple(parameters), name.encode())
        for number, name, parameters in data.filters
    ]
    if data.fill is not None:
        plist._values["fill"] = hc.fillvalue
    if header is not None and header.fill is not None:
        allocation, written, _ = header.fill
        plist.set_alloc_time(allocation)
        plist.set_fill_time(written)
    plist._values |= oid._handle.session.created.get(hc._object.address, {})
    for name, offset, size in hc.external or ():
        plist.set_external(name, offset, size)
    if hc.is_virtual:
        for source in hc.virtual_sources():
            target = SpaceID(hc.shape, hc.maxshape, selected=source.vspace.selection)
            plist.set_virtual(
                target,
                source.file_name,
                source.dset_name,
                SpaceID(source.src_space.shape, selected=source.src_space.selection),
            )
    return plist


def create_dataset(
    hc: WritableGroup,
    name: bytes | None,
    tid: TypeID,
    description: Description,
    space: SpaceID,
    dcpl: h5p.PropDCID | None,
) -> WritableDataset:
    """Creates a dataset from a datatype, a dataspace and properties."""
    plist = h5p.PropDCID() if dcpl is None else dcpl
    shown = dtypes.to_dtype(description)
    type_found = tid._found if tid.committed() else None
    committed = None if type_found is None or type_found._opened is not hc._opened else type_found._object
    options = creation_options(plist)
    if space._dims is not None and space._bounds != space._dims:
        options["maxshape"] = space._bounds
    with hc._new_link(name) as (parent, last):
        if plist.get_virtual_count():
            made = creation.virtual(
                parent,
                last,
                datatype=_core.Datatype(description),
                committed=committed,
                shape=list(space._need()),
                max_shape=None if space._bounds == space._dims else list(space._bounds),
                mappings=[_mapping(*mapping) for mapping in plist._mappings],
                fill=creation.fill(hc._writing.writer, description, shown, plist._values.get("fill")),
            )
        else:
            made = creation.create(
                hc._writing.writer,
                parent,
                last,
                description,
                cast("_core.Node | None", committed),
                shown,
                space._dims,
                options,
            )
    return WritableDataset(hc._opened, made, hc._made(name))


def kept(plist: h5p.PropDCID) -> h5p.Properties:
    """Returns the properties that cannot be seen in a new dataset before it is committed."""
    found: h5p.Properties = {}
    if "fill_time" in plist._values:
        found["fill_time"] = plist._values["fill_time"]
    if "track_times" in plist._values:
        found["track_times"] = plist._values["track_times"]
    return found


def creation_options(plist: h5p.PropDCID) -> DatasetOptions:
    """Returns the options of ``create_dataset`` for creation properties."""
    options: DatasetOptions = {}
    values = plist._values
    if "layout" in values and values["layout"] != h5d.VIRTUAL:
        options["layout"] = _LAYOUT_NAMES[values["layout"]]
    if "chunk" in values:
        options["chunks"] = values["chunk"]
    if plist.get_nfilters():
        options["filters"] = [(number, list(parameters)) for number, _, parameters, _ in plist._pipeline]
        options["allow_unknown_filter"] = True
    if "fill" in values:
        options["fillvalue"] = values["fill"]
    if "fill_time" in values:
        options["fill_time"] = _FILL_TIMES[values["fill_time"]]
    if values.get("attribute_order"):
        options["track_order"] = True
    if values.get("track_times"):
        options["track_times"] = True
    if plist.get_external_count():
        options["external"] = list(plist._external)
    return options


def _mapping(target: SpaceID, file: str, dataset: str, source: SpaceID) -> _Mapping:
    from hyperchunk.virtual import _parts

    return _parts(file), _parts(dataset), _selected(source), _selected(target)


def _selected(space: SpaceID) -> StoredSelection:
    if space._selected == ("all",):
        return ("regular", tuple((0, 1, 1, length) for length in space._need()))
    return space._selected
