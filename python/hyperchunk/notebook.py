"""HTML of files, groups and datasets, for notebooks: a tree to unfold, without scripts. The module `notebook_parts` has
tables, queries and stores.

Its cost is bounded, however large the file is: at most :data:`MAX_SHOWN` objects are visited, and
:data:`MAX_MEMBERS` of each group. Every text of the file is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.dtypes import Description, Empty
from hyperchunk.exceptions import HyperchunkError

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject

#: Maximum number of objects, of members of the group itself and of those below it, of levels, and of attributes.
MAX_SHOWN, MAX_MEMBERS, MAX_MEMBERS_BELOW, MAX_LEVELS, MAX_ATTRIBUTES = 200, 75, 25, 8, 50
#: Maximum number of chunks whose sizes are looked up.
_MAX_CHUNKS = 20_000
_MAX_TEXT = 80
_BY = " \N{MULTIPLICATION SIGN} "
_STYLE = (
    "<style>.hyperchunk{font:13px/1.5 ui-monospace,monospace;max-width:60em}"
    ".hyperchunk ul{list-style:none;margin:0;padding-left:1.4em}.hyperchunk summary{cursor:pointer}"
    ".hyperchunk table{border-collapse:collapse;margin:.2em 0 .2em 1.2em}"
    ".hyperchunk td{text-align:left;padding:0 1em 0 0;border:0;background:none}"
    ".hyperchunk .d{opacity:.65}.hyperchunk li{padding-left:.95em}.hyperchunk li.g{padding-left:0}"
    ".hyperchunk .h{margin:.2em 0 .2em 1.2em}</style>"
)


def render(found: HLObject) -> str:
    """Returns the HTML of a file, a group or a dataset."""
    if not found._opened.is_open:
        return f'<div class="hyperchunk">{escape(repr(found))}</div>'
    from hyperchunk.dataset import Dataset

    body = _dataset(found) if isinstance(found, Dataset) else _group(found)  # type: ignore[arg-type]
    return wrapped(body)


def wrapped(body: str) -> str:
    """Returns HTML with the style that it needs."""
    return f'{_STYLE}<div class="hyperchunk">{body}</div>'


def _shown(text: object) -> str:
    """Returns text of a file for HTML: short, printable and escaped."""
    found = printable(str(text))
    return escape(found if len(found) <= _MAX_TEXT else found[: _MAX_TEXT - 1] + "…")


def _group(group: Group) -> str:
    kind = "file" if group.name == "/" else "group"
    where = group._opened.filename if kind == "file" else group.name or "(anonymous)"
    tree = _Tree(group)
    below, count = tree.members(group._object, 0)
    head = f"<b>{_shown(where)}</b> <span class=d>{kind}, {_counted(count, 'member')}</span>"
    return f"<details open><summary>{head}</summary>{_attributes(group)}{below}</details>"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _Tree:
    """The members of a group, and of the groups in it, up to `MAX_SHOWN` objects."""

    def __init__(self, group: Group) -> None:
        self.core = group._opened.need()
        self.left = MAX_SHOWN
        self.above: set[int] = set()

    def members(self, group: _core.Object | _core.Node, level: int) -> tuple[str, int]:
        """Returns the list of a group's members, and their number."""
        links = group.links()
        count = len(links)
        lines: list[str] = []
        self.above.add(group.address)
        wanted = min(MAX_MEMBERS_BELOW if level else MAX_MEMBERS, self.left)
        for name, target in links[:wanted]:
            self.left -= 1
            lines.append(self._member(name, target, level))
        self.above.discard(group.address)
        if count > len(lines):
            lines.append(f"<li class=d>… and {count - len(lines):,} more</li>")
        return f"<ul>{''.join(lines)}</ul>", count

    def _member(self, name: str, target: Description, level: int) -> str:
        shown = _shown(name)
        if target[0] != 0:
            kind = {1: "soft link", 2: "external link"}.get(target[0], "link")
            return (
                f"<li>{shown} <span class=d>{kind} to {_shown(' in '.join(map(_decoded, target[:0:-1])))}</span></li>"
            )
        try:
            found = self.core.object(target[1], None)
            if found.kind == 1:
                return f"<li>{shown} <span class=d>{_brief(found.dataset())}</span></li>"
            if found.kind == 0:
                return self._below(shown, found, level)
        except HyperchunkError as error:
            return f"<li>{shown} <span class=d>cannot be read: {_shown(error)}</span></li>"
        return f"<li>{shown} <span class=d>datatype</span></li>"

    def _below(self, shown: str, group: _core.Object | _core.Node, level: int) -> str:
        if group.address in self.above or level + 1 >= MAX_LEVELS or self.left <= 0:
            # Counting its members would take a read, too.
            return f"<li>{shown} <span class=d>group</span></li>"
        below, count = self.members(group, level + 1)
        head = f"{shown} <span class=d>{_counted(count, 'member')}</span>"
        return f"<li class=g><details><summary>{head}</summary>{below}</details></li>"


def _decoded(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _extent(shape: Sequence[int] | None) -> str:
    if shape is None:
        return "null"
    return _BY.join(f"{length:,}" for length in shape) if shape else "scalar"


def type_name(description: Description) -> str:
    """Returns a short name of a datatype."""
    match description:
        case ("integer", size, _, signed, *_):
            return f"{'' if signed else 'u'}int{8 * size}"
        case ("float", size, *_):
            return f"float{8 * size}"
        case ("string", size, *_):
            return f"string of {size} bytes"
        case ("vlen-string", *_):
            return "string"
        case ("compound", _, members):
            names = ", ".join(_decoded(name) for name, _, _ in members[:4])
            return f"compound ({names}{', …' if len(members) > 4 else ''})"
        case ("array", _, dims, element):
            return f"{type_name(element)} array of {_extent(dims)}"
        case ("vlen", _, element, *_):
            return f"sequences of {type_name(element)}"
        case ("enum", _, base, members):
            is_bool = {name for name, _ in members} == {b"FALSE", b"TRUE"}
            return "bool" if is_bool else f"enumeration of {type_name(base)}"
    return str(description[0])


def _brief(data: _core.Dataset | _core.DatasetWriter) -> str:
    """Returns extent, type, chunks and filters of a dataset."""
    parts = [_extent(data.shape), _shown(type_name(data.datatype.description))]
    if data.chunks is not None:
        parts.append(f"chunks {_extent(data.chunks)}")
    if filters := data.filters:
        parts.append(" + ".join(_shown(_filter_name(number, name)) for number, name, _ in filters))
    return " · ".join(parts)


def _filter_name(number: int, name: str) -> str:
    from hyperchunk.likeness import FILTERS

    return FILTERS.get(number) or name.partition(";")[0] or str(number)


def _dataset(dataset: Dataset) -> str:
    data = dataset._data
    rows = [
        ("extent", _extent(data.shape)),
        ("largest extent", _extent_or_unlimited(data.max_shape) if data.max_shape != data.shape else ""),
        ("type", _shown(type_name(data.datatype.description))),
        ("layout", escape(data.layout) + (f", chunks {_extent(data.chunks)}" if data.chunks else "")),
        ("filters", " + ".join(_shown(_filter_name(number, name)) for number, name, _ in data.filters)),
        ("size", _size(dataset, data)),
    ]
    table = "".join(f"<tr><td class=d>{name}</td><td>{value}</td></tr>" for name, value in rows if value)
    head = f"<b>{_shown(dataset.name or '(anonymous)')}</b> <span class=d>dataset</span>"
    drawn = ""
    if data.shape and data.datatype.description[0] in ("integer", "float"):
        from hyperchunk.notebook_parts import render_statistics

        drawn = render_statistics(dataset, data, math.prod(data.shape) * data.datatype.size)
    return f"<details open><summary>{head}</summary><table>{table}</table>{drawn}{_attributes(dataset)}</details>"


def _extent_or_unlimited(shape: Sequence[int | None] | None) -> str:
    return _BY.join("unlimited" if length is None else f"{length:,}" for length in shape or ())


def _size(dataset: Dataset, data: _core.Dataset | _core.DatasetWriter) -> str:
    """Returns the size of the elements, and for chunks of a local file the size that is stored."""
    if data.shape is None:
        return ""
    size = math.prod(data.shape) * data.datatype.size
    text = _bytes(size)
    if data.chunks is None or not isinstance(data, _core.Dataset) or dataset._opened.driver == "network":
        return text
    count = math.prod(-(-length // max(chunk, 1)) for length, chunk in zip(data.shape, data.chunks, strict=True))
    if count > _MAX_CHUNKS:
        return f"{text} in {count:,} chunks"
    chunks = data.stored_chunks()
    stored = sum(chunk[-1] for chunk in chunks)
    ratio = f", {size / stored:.1f} times smaller" if 0 < stored < size else ""
    return f"{text}; stored: {_bytes(stored)} in {_counted(len(chunks), 'chunk')}{ratio}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def _attributes(found: HLObject) -> str:
    """Returns the table of an object's attributes."""
    names = found._object.attribute_names()
    if not names:
        return ""
    rows = "".join(
        f"<tr><td class=d>{_shown(name)}</td><td>{_value(found, name)}</td></tr>" for name in names[:MAX_ATTRIBUTES]
    )
    more = f"<div class=d>… and {len(names) - MAX_ATTRIBUTES:,} more</div>" if len(names) > MAX_ATTRIBUTES else ""
    head = f"<span class=d>{_counted(len(names), 'attribute')}</span>"
    return f"<details><summary>{head}</summary><table>{rows}</table>{more}</details>"


def _value(found: HLObject, name: str) -> str:
    try:
        value = found.attrs[name]
    except (HyperchunkError, TypeError, ValueError) as error:
        return f"<span class=d>cannot be read: {_shown(error)}</span>"
    if isinstance(value, Empty):
        return "<span class=d>empty</span>"
    if isinstance(value, np.ndarray):
        flat = ", ".join(_plain(item) for item in value.ravel()[:6].tolist())
        return _shown(f"[{flat}{', …' if value.size > 6 else ''}]")
    return _shown(_plain(value))


def _plain(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
