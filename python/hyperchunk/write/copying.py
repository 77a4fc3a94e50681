"""Copies of objects, from any open file to one that is being written."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hyperchunk import _core, selections
from hyperchunk.dataset import Dataset
from hyperchunk.datatype import Datatype
from hyperchunk.dtypes import Description, _has_handle, to_dtype
from hyperchunk.exceptions import NameExistsError, ReadOnlyError, UnsupportedError, also
from hyperchunk.group import Group
from hyperchunk.objects import HLObject, encode
from hyperchunk.references import Reference
from hyperchunk.typing import Array
from hyperchunk.virtual import _parts
from hyperchunk.write import creation, elements
from hyperchunk.write.dataset import WritableDataset
from hyperchunk.write.group import WritableGroup

# Approximate size in bytes of the pieces in which values are copied.
_COPY_BYTES = 64 << 20
_HARD, _SOFT, _EXTERNAL = 0, 1, 2


def copy(
    source: HLObject,
    target: HLObject,
    name: str | bytes,
    *,
    shallow: bool,
    follow: tuple[bool, bool],
    attributes: bool,
) -> None:
    """Copies an object and everything below it to a new name in a group."""
    if not isinstance(target, WritableGroup):
        message = "cannot copy: expected a group of a file opened for writing as the destination, or a path in one"
        raise also(ReadOnlyError(message), TypeError)
    copier = _Copier(target, follow, attributes)
    if copier.stays(source):
        # The destination may be below the source: only members that exist now are copied.
        copier.list_members(source, 1 if shallow else -1)
    with target._new_link(name) as (parent, last):
        if parent.has_link(last):
            raise NameExistsError(f"Unable to copy object (name already exists: {name!r})")
        try:
            copier.one(source, parent, last, 1 if shallow else -1)
        except BaseException:
            # A partial copy is removed.
            if parent.has_link(last):
                parent.unlink(last)
            raise


class _Copier:
    """State of one copy: an object with several links is copied once."""

    def __init__(self, target: WritableGroup, follow: tuple[bool, bool], attributes: bool) -> None:
        self.opened = target._opened
        self.writer = target._writing.writer
        self.soft, self.external = follow
        self.with_attributes = attributes
        self.made: dict[tuple[str, int], _core.Node] = {}
        #: Links of groups as they were before the copy.
        self.listed: dict[tuple[str, int], list[tuple[str, Description]]] = {}

    @cached_property
    def copied_addresses(self) -> set[object]:
        """Addresses of the members of the listed groups."""
        return {link[1] for links in self.listed.values() for _, link in links if link[0] == _HARD}

    def list_members(self, source: HLObject, depth: int) -> None:
        """Lists a group and the groups below it: `depth` levels, or all."""
        key = source._identity()
        if not isinstance(source, Group) or key in self.listed:
            return
        self.listed[key] = source._object.links()
        if depth:
            for name, link in self.listed[key]:
                if self.leads_on(source, name, link):
                    self.list_members(source[name], depth - 1)

    def one(self, source: HLObject, parent: _core.Node, name: bytes, depth: int) -> None:
        """Copies one object; of groups, `depth` levels, or all."""
        key = source._identity()
        if key in self.made:
            parent.link_hard(name, self.made[key])
            return
        members = []
        if isinstance(source, Group):
            # Listed before the new group is created, which may become a member of the source.
            members = self.listed[key] if key in self.listed else source._object.links()
            node = parent.create_group(name, source.track_order)
        elif isinstance(source, Dataset):
            node = self.dataset(source, parent, name, self.committed(source, parent, source._data.committed))
        elif isinstance(source, Datatype):
            node = parent.commit_datatype(name, source._object.datatype())
        else:
            raise TypeError(f"cannot copy a {type(source).__name__}")
        self.made[key] = node
        self.details(source, node)
        if isinstance(source, Group) and depth:
            for called, link in members:
                self.link(source, called, link, node, depth - 1)

    def details(self, source: HLObject, node: _core.Node) -> None:
        """Copies the comment and the attributes of an object."""
        comment = source._object.comment
        if comment is not None:
            node.set_comment(encode(comment))
        if self.with_attributes:
            self.attributes(source, node)

    def link(self, source: Group, name: str, link: Description, node: _core.Node, depth: int) -> None:
        """Copies one link of a group, or its target."""
        last = encode(name)
        if self.leads_on(source, name, link):
            self.one(source[name], node, last, depth)
        elif link[0] == _SOFT:
            node.link_soft(last, encode(link[1]))
        elif link[0] == _EXTERNAL:
            node.link_external(last, encode(link[1]), encode(link[2]))
        else:
            raise UnsupportedError(f"{name!r} is a link that only its application can copy")

    def leads_on(self, source: Group, name: str, link: Description) -> bool:
        """True if the link's target is copied instead of the link."""
        expand = (link[0] == _SOFT and self.soft) or (link[0] == _EXTERNAL and self.external)
        return link[0] == _HARD or (expand and source.get(name) is not None)

    # --- Values ---

    def stays(self, source: HLObject) -> bool:
        """True if references stay valid in the copy."""
        return source._opened is self.opened

    def committed(self, source: HLObject, parent: _core.Node, address: int | None) -> _core.Node | None:
        """Returns the committed datatype of the copy: the same one, or a copy of it if that is copied, too, or belongs
        to another file. A copy that no copied group links has no name.
        """
        if address is None:
            return None
        if self.stays(source):
            node = self.writer.object(address)
            if node.address not in self.copied_addresses:
                return node
            address = node.address
        key = source._opened.filename, address
        if key not in self.made:
            found = source._opened.need().object(address)
            self.made[key] = node = parent.commit_datatype(b"", found.datatype())
            self.details(Datatype(source._opened, found, None), node)
        return self.made[key]

    def dataset(self, source: Dataset, parent: _core.Node, name: bytes, committed: _core.Node | None) -> _core.Node:
        data = source._data
        description = data.datatype.description
        shape = source.shape
        options = creation.like(source)
        if data.layout == "virtual":
            bounds = None if source.maxshape in (None, shape) else list(source.maxshape or ())
            mappings = [(_parts(file), _parts(path), there, here) for file, path, here, there in data.mappings()]
            return creation.virtual(
                parent, name, datatype=data.datatype, committed=committed, shape=list(shape or ()), max_shape=bounds,
                mappings=mappings, fill=data.fill, track_order=source.track_order,
            )  # fmt: skip
        if data.external:
            options = {"external": data.external, "track_order": source.track_order}
        node = creation.create(self.writer, parent, name, description, committed, source.dtype, shape, options)
        if shape is None or data.external or 0 in shape:
            return node
        made = WritableDataset(self.opened, node, None)
        if data.layout == "chunked" and not _has_handle(description):
            stored = data.snapshot() if isinstance(data, _core.DatasetWriter) else data
            # Names of filters are free text.
            own, given = ([(number, rest) for number, _, rest in one.filters] for one in (made._data, data))
            if own == given:
                try:
                    made._out.copy_chunks(stored)
                except UnsupportedError:
                    pass
                else:
                    return node
        self.values(source, made)
        return node

    def values(self, source: Dataset, made: WritableDataset) -> None:
        """Copies elements, piece by piece along the first dimension: the stored bytes, or the values if the file
        keeps them in a heap.
        """
        data, shape = source._data, source.shape or ()
        size = None if _has_handle(data.datatype.description) else data.datatype.size
        if not shape and size is not None:
            stored, everything = np.empty(size, "u1"), _core.Selection.all()
            data.read(everything, None, stored)
            made._out.write(everything, None, stored)
            return
        if not shape:
            value = _boxed(source) if source.dtype.kind == "O" else np.asarray(source[()], source.dtype.base)
            made._write_all(self.kept(source, value))
            return
        row = int(np.prod(shape[1:], dtype=np.int64)) * max(source.dtype.itemsize, 1)
        step = max(1, _COPY_BYTES // max(row, 1))
        if source.chunks is not None:
            step = max(step // source.chunks[0] * source.chunks[0], source.chunks[0])
        for first in range(0, shape[0], step):
            index = slice(first, min(first + step, shape[0]))
            slab = selections.slab(shape, (index, *(slice(None) for _ in shape[1:])))
            if size is not None and slab is not None:
                stored = np.empty(size * int(np.prod(slab[1])), "u1")
                data.read_slab(slab[0], None, stored)
                made._out.write_slab(slab[0], None, stored)
            else:
                made._write((index,), self.kept(source, source[index]))

    def kept(self, source: HLObject, values: Array) -> Array:
        """Returns values without references that would dangle."""
        return values if self.stays(source) else _without_references(values)

    def attributes(self, source: HLObject, node: _core.Node) -> None:
        """Copies all attributes."""
        for name in source.attrs:
            found = source._object.attribute(encode(name))
            if found is None:
                continue
            datatype, shape, stored = found
            description = datatype.description
            if shape is not None and _has_handle(description):
                array = elements.as_array(source.attrs[name], to_dtype(description))
                ready = elements.ready(self.writer, description, self.kept(source, array))
                stored = elements.stored_bytes(ready, description)
            extent = None if shape is None else list(shape)
            raw = encode(name)
            committed = self.committed(source, node, source._object.attribute_committed(raw))
            node.set_attribute(raw, datatype, extent, stored, utf8=not raw.isascii(), committed=committed)


def _boxed(source: Dataset) -> Array:
    """Returns the only element of a dataset, which may be an array itself (variable length), without dimensions."""
    box = np.empty(1, source.dtype)
    box[0] = source[()]
    return box.reshape(())


def _without_references(values: Array) -> Array:
    if values.dtype.names is not None:
        out = values.copy()
        for name in values.dtype.names:
            out[name] = _without_references(values[name])
        return out
    if values.dtype.kind != "O":
        return values
    out = values.copy()
    for index in np.ndindex(values.shape):
        value: object = values[index]
        if isinstance(value, Reference):
            out[index] = None
        elif isinstance(value, np.ndarray):
            out[index] = _without_references(value)
    return out
