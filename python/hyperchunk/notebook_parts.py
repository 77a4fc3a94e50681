"""HTML of tables, queries, zones and stores, for notebooks, in the style of :mod:`hyperchunk.notebook`.

For it, only existing statistics and the names in a store's folder are read. Its size is bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from hyperchunk import _core
from hyperchunk.exceptions import HyperchunkError
from hyperchunk.notebook import MAX_MEMBERS, _bytes, _counted, _extent, _shown, type_name, wrapped

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.frame import Frame
    from hyperchunk.queries import Query, Zone, Zones
    from hyperchunk.store.handle import Epoch, Store

#: Maximum number of bars of a histogram, of zones that are read, of boxes, and of files of a store's folder.
MAX_BARS, MAX_ZONES, MAX_BOXES, MAX_FILES = 60, 20_000, 20, 10_000
_BAR_WIDTH, _HEIGHT = 6, 40


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    """Returns a table of names and values; values are HTML."""
    body = "".join(f"<tr><td class=d>{name}</td><td>{value}</td></tr>" for name, value in rows if value)
    return f"<table>{body}</table>"


def _shell(title: str, kind: str, body: str) -> str:
    head = f"<b>{_shown(title)}</b> <span class=d>{escape(kind)}</span>"
    return wrapped(f"<details open><summary>{head}</summary>{body}</details>")


def _listed(lines: Sequence[str], count: int, noun: str) -> str:
    """Returns a collapsible table of rows, with the number of rows that are not shown."""
    more = f"<div class=d>… and {count - len(lines):,} more</div>" if count > len(lines) else ""
    table = f"<table>{''.join(lines)}</table>{more}"
    return f"<details open><summary><span class=d>{_counted(count, noun)}</span></summary>{table}</details>"


def _cells(first: str, *others: str) -> str:
    rest = "".join(f"<td>{cell}</td>" for cell in others)
    return f"<tr><td class=d>{first}</td>{rest}</tr>"


# --- Tables ---


def render_table(table: Table) -> str:
    """Returns the HTML of a table: its columns with their types, and the cost of the last scan with a filter."""
    from hyperchunk.frames.frame import Frame

    if isinstance(table, Frame):
        return _frame(table)
    core = table._core
    count, rows = len(core.types), core.num_rows
    copied = {name: number for name, _, number in core.storage()}
    lines = [
        _cells(_shown(name), _shown(kind), "" if copied.get(name) == 0 else "decoded on access")
        for name, kind in core.types[:MAX_MEMBERS]
    ]
    facts = [("size", _bytes(core.nbytes))]
    if (scanned := table.scanned) is not None:
        text = f"{_bytes(scanned.bytes_scanned)} of {_bytes(scanned.total)} read"
        facts.append(("last filter", text))
    return _shell("Table", _counted(rows, "row"), _rows(facts) + _listed(lines, count, "column"))


def _frame(frame: Frame) -> str:
    names, index = frame.column_names, set(frame.index_names)
    lines = [_cells(_shown(name), "index" if name in index else "") for name in names[:MAX_MEMBERS]]
    condition = frame._condition
    rows = "the rows of a condition" if condition is not None else _counted(frame.num_rows, "row")
    return _shell("Frame", f"{frame.format}, {rows}", _listed(lines, len(names), "column"))


# --- Queries ---


def render_query(query: Query) -> str:
    """Returns the HTML of a query: its condition, the boxes that may match, and the bytes that statistics save."""
    dataset = query._dataset
    part = f" ({query.bytes_candidate / query.total:.1%})" if query.total else ""
    facts = [
        ("dataset", _shown(dataset.name or "(anonymous)")),
        ("condition", _shown(query.predicate)),
        ("may match", f"{_bytes(query.bytes_candidate)} of {_bytes(query.total)}{part}"),
        ("without statistics", _bytes(query.unknown) if query.unknown else ""),
        ("scanned until now", _bytes(query.bytes_scanned)),
    ]
    lines = [_cells(_box(box)) for box in query.boxes[:MAX_BOXES]]
    return _shell("Query", "of values", _rows(facts) + _listed(lines, len(query.boxes), "part"))


def _box(box: Sequence[slice]) -> str:
    return "[" + ", ".join(f"{axis.start:,}:{axis.stop:,}" for axis in box) + "]"


# --- Statistics ---


def render_zones(zones: Zones) -> str:
    """Returns the HTML of a dataset's zones: a histogram of their ranges."""
    name = zones._dataset.name or "(anonymous)"
    return _shell(name, "zones", histogram(list(islice(zones, MAX_ZONES))) or "<div class=d>no statistics</div>")


def render_statistics(dataset: Dataset, data: object, size: int) -> str:
    """Returns the histogram of a local dataset with statistics in a companion file or a store; else empty text."""
    from hyperchunk.queries import Zones

    if not isinstance(data, _core.Dataset) or dataset._opened.driver != "sec2" or size >> 20 > MAX_ZONES:
        return ""
    try:
        return histogram(list(islice(Zones(dataset), MAX_ZONES)))
    except HyperchunkError:
        return ""  # no statistics


def histogram(zones: Sequence[Zone]) -> str:
    """Returns a picture of the minimum and maximum of zones, in their order: a bar for each, or for neighbours."""
    known = [(zone.summary.min, zone.summary.max) for zone in zones if zone.summary is not None]
    ranges = [(float(low), float(high)) for low, high in known if low is not None and high is not None]
    ranges = [(low, high) for low, high in ranges if abs(low) < float("inf") and abs(high) < float("inf")]
    if not ranges:
        return ""
    bottom, top = min(low for low, _ in ranges), max(high for _, high in ranges)
    each = -(-len(ranges) // MAX_BARS)
    groups = [ranges[at : at + each] for at in range(0, len(ranges), each)]
    # Halves, since the difference of two large numbers may be infinite.
    span = top / 2 - bottom / 2

    def to_y(value: float) -> float:
        return _HEIGHT * (1 - (value / 2 - bottom / 2) / span) if span > 0 else _HEIGHT / 2

    bars = []
    for number, group in enumerate(groups):
        high, low = to_y(max(value for _, value in group)), to_y(min(value for value, _ in group))
        size = f'width="{_BAR_WIDTH - 1}" height="{max(low - high, 1):.1f}"'
        bars.append(f'<rect x="{number * _BAR_WIDTH}" y="{high:.1f}" {size}/>')
    drawn = "".join(bars)
    width = len(groups) * _BAR_WIDTH
    text = f"{bottom:.6g} to {top:.6g}, {_counted(len(zones), 'zone')}"
    svg = f'<svg width="{width}" height="{_HEIGHT + 1}" fill="currentColor" opacity=".65">{drawn}</svg>'
    return f"<div class=h>{svg}<div class=d>minimum to maximum of each zone: {text}</div></div>"


# --- Stores ---


def render_store(store: Store) -> str:
    """Returns the HTML of a store: its datasets as of now, its epochs and its writers' logs."""
    definitions, epoch, trouble = store._defined(), None, ""
    try:
        known, encoded = _core.store_look_up(store.path, store._network)
        epoch = known[1] if known is not None else 0
        definitions = [_core.StoreDefinition.decode(path, definition) for path, definition in encoded] or definitions
    except HyperchunkError as error:
        trouble = _shown(error)
    facts = [("newest epoch", f"{epoch:,}" if epoch else ("none: nothing is committed yet" if epoch == 0 else ""))]
    facts += _folder(f"{store.path}.d")
    facts.append(("cannot be read", trouble))
    lines = []
    for definition in definitions[:MAX_MEMBERS]:
        parts = [_extent(definition.shape), _shown(type_name(definition.datatype.description))]
        if definition.chunks is not None:
            parts.append(f"chunks {_extent(definition.chunks)}")
        lines.append(_cells(_shown(os.fsdecode(definition.path)), " · ".join(parts)))
    return _shell(store.path, "store", _rows(facts) + _listed(lines, len(definitions), "dataset"))


def _folder(path: str) -> list[tuple[str, str]]:
    """Returns the number of epochs and of logs in the folder of a local store."""
    logs = size = epochs = 0
    try:
        with os.scandir(path) as entries:
            for entry in islice(entries, MAX_FILES):
                if entry.name.endswith(".log"):
                    logs, size = logs + 1, size + entry.stat().st_size
                epochs += entry.name.endswith(".manifest")
    except OSError:
        return []  # no writers yet, or a URL
    return [("epochs kept", f"{epochs:,}" if epochs else ""), ("writers", f"{logs:,}; their logs: {_bytes(size)}")]


def render_epoch(epoch: Epoch) -> str:
    """Returns the HTML of an epoch: its writers, conflicts, and what is missing."""
    facts = [
        ("writers", f"{len(epoch.writers):,}"),
        ("not committed", _shown(", ".join(epoch.uncommitted))),
        ("read by plain HDF5", f"{len(epoch.linked):,} of {len(epoch.linked) + len(epoch.unlinked):,} datasets"),
    ]
    for what, reasons in (("not read by it", epoch.unlinked), ("set aside", epoch.set_aside)):
        facts += [(f"{what}: {_shown(name)}", _shown(why)) for name, why in islice(reasons.items(), MAX_BOXES)]
    lines = [
        _cells(_shown(conflict.path), _shown(conflict.what), f"{_shown(conflict.kept)} counts")
        for conflict in epoch.conflicts[:MAX_BOXES]
    ]
    conflicts = _listed(lines, len(epoch.conflicts), "conflict") if lines else ""
    return _shell(f"Epoch {epoch.number}", "of a store", _rows(facts) + conflicts)
