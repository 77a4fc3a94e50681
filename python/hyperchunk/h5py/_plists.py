"""Creation properties of existing objects, and datasets made from creation properties."""

from __future__ import annotations

from typing import Any

from hyperchunk import _core, dtypes
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py import _headers, h5d, h5p
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.write import creation
from hyperchunk.write.dataset import WritableDataset

_LAYOUTS = {"compact": h5d.COMPACT, "contiguous": h5d.CONTIGUOUS, "chunked": h5d.CHUNKED, "virtual": h5d.VIRTUAL}
_LAYOUT_NAMES = {number: name for name, number in _LAYOUTS.items()}
_FILL_TIMES = {h5d.FILL_TIME_ALLOC: "alloc", h5d.FILL_TIME_NEVER: "never", h5d.FILL_TIME_IFSET: "ifset"}
# Flags with which HDF5's own functions add filters; those of others are optional.
_MANDATORY = frozenset((3,))


def _header(oid: Any) -> _headers.Header | None:
    try:
        return _headers.of(oid)
    except UnsupportedError:
        return None


def _common(plist: h5p.PropOCID, oid: Any, header: _headers.Header | None) -> None:
    tracked = oid._hc._object.attribute_order_tracked
    plist.set_attr_creation_order(3 * int(tracked) if header is None else header.attribute_order)
    plist.set_obj_track_times(header is not None and any(header.times))
    if header is not None:
        plist.set_attr_phase_change(*header.phases)


def group_plist(oid: Any) -> h5p.PropGCID:
    """Returns the creation properties of a group."""
    header = _header(oid)
    plist = h5p.PropGCID()
    _common(plist, oid, header)
    tracked = oid._hc._object.attribute_order_tracked
    plist.set_link_creation_order(3 * int(tracked) if header is None else header.link_order)
    return plist


def dataset_plist(oid: Any) -> h5p.PropDCID:
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
    hc: Any, name: bytes | None, tid: Any, description: tuple[Any, ...], space: SpaceID, dcpl: h5p.PropDCID | None
) -> WritableDataset:
    """Creates a dataset from a datatype, a dataspace and properties."""
    plist = h5p.PropDCID() if dcpl is None else dcpl
    shown = dtypes.to_dtype(description)
    committed = tid._found._object if tid.committed() and tid._found._opened is hc._opened else None
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
                committed,
                shown,
                space._dims,
                options,  # type: ignore[arg-type]
            )
    return WritableDataset(hc._opened, made, hc._made(name))


def kept(plist: h5p.PropDCID) -> dict[str, Any]:
    """Returns the properties that cannot be seen in a new dataset before it is committed."""
    return {name: plist._values[name] for name in ("fill_time", "track_times") if name in plist._values}


def creation_options(plist: h5p.PropDCID) -> dict[str, Any]:
    """Returns the options of ``create_dataset`` for creation properties."""
    options: dict[str, Any] = {}
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
        options["external"] = [tuple(entry) for entry in plist._external]
    return options


def _mapping(target: SpaceID, file: str, dataset: str, source: SpaceID) -> tuple[Any, ...]:
    from hyperchunk.virtual import _parts

    return _parts(file), _parts(dataset), _selected(source), _selected(target)


def _selected(space: SpaceID) -> tuple[Any, ...]:
    if space._selected == ("all",):
        return ("regular", tuple((0, 1, 1, length) for length in space._need()))
    return space._selected
