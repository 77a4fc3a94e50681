"""Model of a store: a plain tree in memory, and the effect of a commit on it."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Op = tuple[Any, ...]
#: Operations that change elements or extents of datasets.
ELEMENTS = ("write", "member", "resize", "append")
Extent = tuple[int, ...]
#: What a writer commits: its operations, the extents that it found, priority, and number in the order of begins.
Commit = tuple[list[Op], dict[str, Extent], int, int]


def dtype(name: str) -> np.dtype[Any]:
    """Returns the dtype for a name in an operation."""
    return np.dtype([("a", "<i2"), ("b", ">f8")]) if name == "pair" else np.dtype(name)


def plain(value: Any) -> Any:
    """Converts an attribute or a small dataset to a comparable form: type, shape and bytes."""
    array = np.asarray(value)
    if hasattr(value, "dtype") and not hasattr(value, "shape"):
        return ("empty", np.dtype(value.dtype).str)
    if type(value).__name__ == "Empty":
        return ("empty", np.dtype(value.dtype).str)
    if array.dtype.kind in "OU" or isinstance(value, str | bytes):
        flat = [one.encode() if isinstance(one, str) else bytes(one) for one in array.astype(object).ravel().tolist()]
        return ("text", array.shape, tuple(flat))
    return (array.dtype.descr if array.dtype.names else array.dtype.str, array.shape, array.tobytes())


@dataclass
class Entry:
    """An object, or a soft or external link."""

    kind: str
    attrs: dict[str, Any] = field(default_factory=dict)
    #: Target of a link, value of a small dataset, or name of a type.
    what: Any = None
    #: For a dataset: its definition and its elements.
    spec: dict[str, Any] | None = None
    values: np.ndarray[Any, Any] | None = None
    #: Identity of a dataset and of its copy sources: path and definition of each.
    origins: frozenset[tuple[str, str]] = frozenset()
    #: Mask of the bytes that the session with this view has written.
    mask: np.ndarray[Any, Any] | None = None

    def shown(self) -> Any:
        """Returns everything that a reader sees of it."""
        if self.values is None:
            return (self.kind, self.what, tuple(sorted(self.attrs.items())))
        assert self.spec is not None
        return (self.kind, described(self.values, self.spec["maxshape"]), tuple(sorted(self.attrs.items())))


def described(values: np.ndarray[Any, Any], maxshape: Any) -> Any:
    """Converts a dataset to a comparable form."""
    return (str(values.dtype), values.shape, tuple(maxshape), values.tobytes())


Tree = dict[str, Entry]


def empty() -> Tree:
    """Returns an empty file."""
    return {"/": Entry("group")}


def shown(tree: Tree) -> dict[str, Any]:
    """Returns the contents as a reader sees them, path by path, and the paths that name the same object."""
    found: dict[str, Any] = {path: entry.shown() for path, entry in tree.items()}
    names: dict[int, list[str]] = {}
    for path, entry in tree.items():
        if entry.kind not in ("soft", "external", "group"):
            names.setdefault(id(entry), []).append(path)
    found["<one object>"] = sorted(sorted(paths) for paths in names.values() if len(paths) > 1)
    return found


def parents(path: str) -> list[str]:
    """Returns the groups on a path, without the root."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]


def below(tree: Tree, path: str) -> list[str]:
    """Returns the path of an object and of all objects in it."""
    return [one for one in tree if one == path or one.startswith(path + "/")]


def dataset(spec: dict[str, Any]) -> Entry:
    """Returns a dataset without written elements."""
    values = np.empty(spec["shape"], dtype(spec["dtype"]))
    values[...] = fill(spec)
    return Entry("dataset", spec=spec, values=values)


def fill(spec: dict[str, Any]) -> Any:
    """Returns the value of unwritten elements."""
    return np.zeros((), dtype(spec["dtype"])) if spec["fill"] is None else np.array(spec["fill"], dtype(spec["dtype"]))


def apply(tree: Tree, op: Op) -> None:
    """Applies an operation to the structure of a tree; :func:`merge` handles elements and extents."""
    verb, path, *rest = op
    for group in parents(path):
        tree.setdefault(group, Entry("group"))
    if verb == "group":
        tree.setdefault(path, Entry("group"))
    elif verb == "dataset":
        if path not in tree:
            tree[path] = dataset(rest[0])
            tree[path].origins = frozenset({(path, repr(rest[0]))})
    elif verb == "small":
        if path in tree and tree[path].kind == "small" and rest[1:] == [True]:
            # Two objects created under one name are one object, with all its names.
            tree[path].what = plain(rest[0])
        else:
            attrs = dict(tree[path].attrs) if path in tree else {}
            tree[path] = Entry("small", attrs, plain(rest[0]))
    elif verb == "type":
        tree.setdefault(path, Entry("type", what=str(dtype(rest[0]))))
    elif verb == "soft":
        tree.setdefault(path, Entry("soft", what=rest[0]))
    elif verb == "external":
        tree.setdefault(path, Entry("external", what=tuple(rest)))
    elif verb == "hard":
        tree.setdefault(path, tree[rest[0]])
    elif verb == "attr":
        tree[path].attrs[rest[0]] = plain(rest[1])
    elif verb == "delattr":
        tree[path].attrs.pop(rest[0], None)
    elif verb == "delete":
        for one in below(tree, path):
            del tree[one]
    elif verb == "move":
        for one in below(tree, path):
            tree[rest[0] + one[len(path) :]] = tree.pop(one)
    elif verb == "copy":
        copied = copy.deepcopy({one: tree[one] for one in below(tree, path)})
        for one, entry in copied.items():
            new = rest[0] + one[len(path) :]
            tree[new] = entry
            if entry.values is not None:
                entry.origins |= {(new, repr(entry.spec))}
    elif verb not in ELEMENTS:
        raise AssertionError(verb)


@dataclass
class Part:
    """A writer's operations on one dataset: its elements and extents, in order."""

    start: Extent
    priority: int = 0
    #: The number of its writer, in the order in which they began.
    began: int = 0
    steps: list[Op] = field(default_factory=list)


def write_key(step: Op) -> Any:
    """Returns what two writers' writes have in common if they do the same, also by selections that read differently."""
    verb, *rest = step
    rest[0] = [list(range(one.start, one.stop, one.step)) for one in rest[0]]
    return repr((verb, rest))


def common_writes(parts: list[Part]) -> int:
    """Returns the number of writes with which all that write begin alike: a store takes them for one, below the others.
    It does so only for writers of one priority, and if nobody changes the extent.
    """
    writes = [[step for step in part.steps if step[0] in ("write", "member")] for part in parts]
    writing = [part for part, own in zip(parts, writes, strict=True) if own]
    is_resized = any(step[0] == "resize" for part in parts for step in part.steps)
    if len(writing) < 2 or len({part.priority for part in writing}) > 1 or is_resized:
        return 0
    alike = (len(set(keys)) == 1 for keys in zip(*[map(write_key, own) for own in writes if own], strict=False))
    return len(list(itertools.takewhile(bool, alike)))


def elements(spec: dict[str, Any], before: np.ndarray[Any, Any], parts: list[Part]) -> tuple[Any, set[str]]:
    """Returns the elements of a dataset after a commit, with the writers in order; and whether two disagree:
    "conflict", or "maybe" if the disagreement is cut off, or if their operations start identically: a store treats
    that as one common write, over which each may continue.
    """
    reach = [before.shape, *(part.start for part in parts)]
    for part in parts:
        reach += [step[1] for step in part.steps if step[0] == "resize"]
    whole = tuple(max(extent[axis] for extent in reach) for axis in range(before.ndim))
    canvas = np.empty(whole, before.dtype)
    canvas[...] = fill(spec)
    canvas[tuple(slice(length) for length in before.shape)] = before
    layers: list[Any] = []
    rows: list[tuple[tuple[int, int], Any]] = []
    names = before.dtype.names or (None,)

    def member(values: np.ndarray[Any, Any], name: str | None) -> np.ndarray[Any, Any]:
        return values if name is None else values[name]

    together = common_writes(parts)
    is_first = True
    grown, shrunk = list(before.shape), list(before.shape)
    for part in parts:
        count = 0
        values, last = np.zeros(whole, before.dtype), part.start
        mask = {name: np.zeros(whole, bool) for name in names}
        for verb, *rest in part.steps:
            if verb in ("write", "member"):
                count += 1
                if count <= together and not is_first:
                    continue
            if verb == "write":
                values[rest[0]] = rest[1]
                for one in mask.values():
                    one[rest[0]] = True
            elif verb == "member":
                values[rest[1]][rest[0]] = rest[2]
                mask[rest[1]][rest[0]] = True
            elif verb == "append":
                rows.append(((part.priority, part.began), rest[0]))
            else:
                for axis, (new, old) in enumerate(zip(rest[0], last, strict=True)):
                    if new < old:
                        beyond = (slice(None),) * axis + (slice(new, None),)
                        for one in mask.values():
                            one[beyond] = False
                        canvas[beyond] = fill(spec)
                last = rest[0]
        is_first = is_first and count == 0
        for axis, (end, start) in enumerate(zip(last, part.start, strict=True)):
            shrunk[axis] = min(shrunk[axis], end) if end < start else shrunk[axis]
            grown[axis] = max(grown[axis], end)
        layers.append((values, mask, part.priority))
    extent = tuple(g if g > b else s for g, b, s in zip(grown, before.shape, shrunk, strict=True))
    crop = tuple(slice(length) for length in extent)
    found = set()
    for index, (values, mask, _) in enumerate(layers):
        for (other, others, priority), name in itertools.product(layers[:index], names):
            both = mask[name] & others[name]
            pairs = zip(member(values, name)[both], member(other, name)[both], strict=True)
            differ = np.array([a.tobytes() != b.tobytes() for a, b in pairs], bool)
            if differ.any():
                inside = np.zeros(whole, bool)
                inside[crop] = True
                certain = parts[index].priority == priority and not together
                found.add("conflict" if certain and differ[inside[both]].any() else "maybe")
        for name in names:
            member(canvas, name)[mask[name]] = member(values, name)[mask[name]]
    result = canvas[crop]
    # Unlike elements, which the larger id decides, rows are in the order in which their writers began.
    for _, added in sorted(rows, key=lambda row: row[0]):
        # Rows of another length lack elements, or have invisible ones.
        more = np.empty((len(added), *result.shape[1:]), before.dtype)
        more[...] = fill(spec)
        both = tuple(slice(min(pair)) for pair in zip(added.shape, more.shape, strict=True))
        more[both] = added[both]
        result = np.concatenate([result, more]).astype(before.dtype)
    return np.ascontiguousarray(result), found


def merge(tree: Tree, writers: list[Commit]) -> tuple[Tree, dict[str, set[str]]]:
    """Returns the tree after a commit, and the paths about which writers disagree. `writers` are in the order of
    precedence, lowest first.
    """
    tree = copy.deepcopy(tree)
    parts: dict[int, list[Part]] = {}
    objects: dict[int, Entry] = {}
    conflicts: dict[str, set[str]] = {}
    attrs: dict[tuple[str, str], Any] = {}
    smalls: dict[str, Any] = {}
    old_smalls = {path: entry.what for path, entry in tree.items() if entry.kind == "small"}
    first = writers[0][2] if writers else 0
    #: A value that equals the committed one is no change.
    changed: dict[tuple[str, str], Any] = {}
    changed_smalls: dict[str, Any] = {}
    old = {(path, name): value for path, entry in tree.items() for name, value in entry.attrs.items()}
    for ops, extents, priority, began in writers:
        own: dict[int, Part] = {}
        mine: dict[tuple[str, str], Any] = {}
        mine_small: dict[str, Any] = {}
        extents = dict(extents)
        for op in ops:
            before = dict(tree)
            apply(tree, op)
            verb, path = op[0], op[1]
            if verb == "hard" and op[2] in extents and path not in before:
                extents[path] = extents[op[2]]
            if verb in ("move", "copy"):
                for one in below(before, path):
                    new = op[2] + one[len(path) :]
                    if one in extents:
                        extents[new] = extents[one]
                    part = own.get(id(before[one]))
                    if verb == "copy" and part is not None and id(tree[new]) not in own:
                        objects[id(tree[new])] = tree[new]
                        own[id(tree[new])] = Part(part.start, priority, began, list(part.steps))
                        parts[id(tree[new])] = [own[id(tree[new])]]
            if verb in ELEMENTS:
                entry = tree[path]
                assert entry.spec is not None
                if id(entry) not in own:
                    objects[id(entry)] = entry
                    own[id(entry)] = Part(extents.get(path, tuple(entry.spec["shape"])), priority, began)
                    parts.setdefault(id(entry), []).append(own[id(entry)])
                own[id(entry)].steps.append((verb, *op[2:]))
            elif verb == "attr":
                mine[path, op[2]] = plain(op[3])
            elif verb == "small":
                mine_small[path] = plain(op[2])
        for (path, name), value in mine.items():
            if attrs.setdefault((path, name), value) != value:
                certain = priority == first and old.get((path, name)) not in (value, attrs[path, name])
                conflicts.setdefault(path, set()).add("conflict" if certain else "maybe")
            if value != old.get((path, name)):
                changed[path, name] = value
        for path, value in mine_small.items():
            if smalls.setdefault(path, value) != value:
                certain = priority == first and old_smalls.get(path) not in (value, smalls[path])
                conflicts.setdefault(path, set()).add("conflict" if certain else "maybe")
            if value != old_smalls.get(path):
                changed_smalls[path] = value
    for path, value in changed_smalls.items():
        if path in tree and tree[path].kind == "small":
            tree[path].what = value
    for (path, name), value in changed.items():
        if path in tree and name in tree[path].attrs:
            tree[path].attrs[name] = value
    for key, entry in objects.items():
        assert entry.spec is not None
        assert entry.values is not None
        entry.values, found = elements(entry.spec, entry.values, parts[key])
        for path in [path for path, one in tree.items() if one is entry]:
            conflicts.setdefault(path, set()).update(found)
    return tree, {path: found for path, found in conflicts.items() if found}
