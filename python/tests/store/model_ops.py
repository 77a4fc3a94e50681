"""Random generation of a session's next operation, valid in its current state."""

from __future__ import annotations

from typing import Any

import hyperchunk
import numpy as np
from hypothesis import strategies as st

from store.model_tree import ELEMENTS, Entry, Op, Tree, dtype

DTYPES = ["<i4", ">i2", "<f8", "u1", "S3", "pair", "?"]
GROUPS = ["g", "k"]
# A link's target is a function of its name, so writers that make it agree.
SOFT = {"l0": "/g", "l1": "/g/d0", "l2": "nowhere/at/all"}
EXTERNAL = {"x0": ("other.h5", "/thing"), "x1": ("../more/other.h5", "/")}
ATTRS: list[Any] = [
    *(7, -1.5, True, "text", "", "größer", b"fixed", np.arange(3, dtype="u2"), np.array([b"ab", b"c"])),
    *(np.array(["long", "", "ü"], object), np.zeros((0,), "f4"), hyperchunk.Empty("f4")),
    np.array((1, 2.5), dtype("pair")),
]
SMALL: list[Any] = [
    *(3, 2.5, "", "some text", np.array(["a", "", "some more"], object), np.array("x", "S5"), hyperchunk.Empty("<i4")),
]


def for_h5py(value: Any) -> Any:
    """Converts a value to one that h5py accepts, too."""
    import h5py

    return h5py.Empty(value.dtype) if isinstance(value, hyperchunk.Empty) else value


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Draws the definition of a dataset."""
    rank = draw(st.integers(1, 2))
    kind = draw(st.sampled_from(DTYPES))
    growing = draw(st.booleans())
    # A dataset of a program without elements that stays empty is not stored as data of the store.
    shape = tuple(draw(st.integers(0 if growing and axis == 0 else 1, 5)) for axis in range(rank))
    chunked = growing or draw(st.booleans())
    return {
        "dtype": kind,
        "shape": shape,
        "maxshape": tuple(draw(st.sampled_from([None, 8])) for _ in shape) if growing else shape,
        "chunks": tuple(draw(st.integers(1, 3)) if growing else min(2, length) for length in shape)
        if chunked
        else None,
        "compression": draw(st.sampled_from([None, "gzip"])) if chunked else None,
        "fill": draw(st.sampled_from([None, None, 1])) if kind not in ("S3", "pair", "?") else None,
    }


def elements(draw: Any, spec: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draws elements of a dataset."""
    kind, first = dtype(spec["dtype"]), draw(st.integers(0, 99))
    values = (np.arange(int(np.prod(shape))) + first) % 100
    if kind.names:
        out = np.empty(values.shape, kind)
        out["a"], out["b"] = values, values / 4
    elif kind.kind == "S":
        out = np.array([b"%d" % value for value in values], kind)
    else:
        out = (values % 2 if kind.kind == "b" else values).astype(kind)
    return out.reshape(shape)


def selection(draw: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Draws a strided slab of a non-empty extent."""
    slices = []
    for length in shape:
        start = draw(st.integers(0, length - 1))
        slices.append(slice(start, draw(st.integers(start + 1, length)), draw(st.sampled_from([1, 1, 2]))))
    return tuple(slices)


def extent(draw: Any, spec: dict[str, Any]) -> tuple[int, ...]:
    """Draws an extent within the maximum extent of a dataset."""
    return tuple(draw(st.integers(0 if axis == 0 else 1, bound or 9)) for axis, bound in enumerate(spec["maxshape"]))


def groups(view: Tree) -> list[str]:
    """Returns the groups of a tree."""
    return [path for path, entry in view.items() if entry.kind == "group"]


def fresh(draw: Any, view: Tree, names: list[str], depth: int = 2) -> str:
    """Draws a new path with one of these names in an existing group."""
    parent = draw(st.sampled_from([group for group in groups(view) if group.count("/") <= depth]))
    return f"{parent.rstrip('/')}/{draw(st.sampled_from(names))}"


def following(draw: Any, session: Any, elsewhere: dict[str, Entry], verbs: list[str], *, edits: bool) -> Op | None:
    """Draws the next operation of a session with the contents `session.view`; None if it would be invalid there.
    `elsewhere` has the objects that other sessions make: a path stands for one kind of object, made in one way. With
    `edits` it may also remove existing objects.
    """
    view: Tree = session.view
    verb = draw(st.sampled_from(verbs))
    through_h5py = session.kind == "h5"
    value: Any = for_h5py if through_h5py else (lambda same: same)

    def choose(kind: str, *, own: bool = False, known: bool = False) -> str | None:
        paths = [path for path, entry in view.items() if entry.kind == kind and path != "/"]
        paths = [path for path in paths if not own or path in session.made]
        paths = [path for path in paths if not known or through_h5py or session.knows(path)]
        return draw(st.sampled_from(paths)) if paths else None

    if verb == "group":
        return ("group", fresh(draw, view, GROUPS, 1))
    if verb == "dataset":
        path, spec = fresh(draw, view, ["d0", "d1", "d2"]), draw(specs())
        if path in view:
            return None
        known = elsewhere.get(path)
        return ("dataset", path, spec if known is None else known.spec)
    if verb in ELEMENTS:
        path = choose("dataset", known=True)
        if path is None:
            return None
        entry = view[path]
        assert entry.spec is not None
        assert entry.values is not None
        shape = entry.values.shape
        if verb == "write":
            if 0 in shape:
                return None
            where = selection(draw, shape)
            return ("write", path, where, elements(draw, entry.spec, entry.values[where].shape))
        if verb == "member":
            names = entry.values.dtype.names
            if 0 in shape or names is None or not through_h5py:
                return None
            where, name = selection(draw, shape), draw(st.sampled_from(names))
            return ("member", path, where, name, elements(draw, entry.spec, entry.values[where].shape)[name])
        if verb == "resize":
            growing = entry.spec["maxshape"] != entry.spec["shape"]
            return ("resize", path, extent(draw, entry.spec)) if growing else None
        if through_h5py or entry.spec["maxshape"][0] is not None or entry.spec["maxshape"] == entry.spec["shape"]:
            return None
        return ("append", path, elements(draw, entry.spec, (draw(st.integers(1, 3)), *shape[1:])))
    if verb == "small":
        path = fresh(draw, view, ["s0", "s1"])
        if path in session.made and sum(entry is view.get(path) for entry in view.values()) > 1 and not through_h5py:
            # Another object then, which the model cannot tell from a new value: test_made_twice.py has tests of it.
            return None
        return ("small", path, value(draw(st.sampled_from(SMALL))))
    if verb in ("soft", "external", "type", "hard"):
        table: dict[str, Any] = {"soft": SOFT, "external": EXTERNAL, "type": {"t0": 0}, "hard": {"h0": 0, "h1": 0}}
        path = fresh(draw, view, list(table[verb]))
        if path in view or path in elsewhere:
            return None
        name = path.rsplit("/", 1)[1]
        if verb == "hard":
            target = choose(draw(st.sampled_from(["small", "dataset", "type"])), own=not through_h5py)
            return None if target is None else ("hard", path, target)
        return {"soft": ("soft", path, SOFT.get(name)), "external": ("external", path, *EXTERNAL.get(name, ())),
                "type": ("type", path, "pair")}[verb]  # fmt: skip
    if verb == "attr":
        kind = draw(st.sampled_from(["root", "group", "dataset", "small", "type"]))
        own = not through_h5py and kind in ("small", "type")
        path = "/" if kind == "root" else choose(kind, own=own, known=kind == "dataset")
        name = draw(st.sampled_from(["a", "b", "größer"]))
        return None if path is None else ("attr", path, name, value(draw(st.sampled_from(ATTRS))))
    if not edits:
        return None
    if verb == "delattr":
        named = [(path, name) for path, entry in view.items() for name in entry.attrs]
        return ("delattr", *draw(st.sampled_from(named))) if named else None
    paths = [path for path in view if path != "/"]
    if not paths:
        return None
    path = draw(st.sampled_from(paths))
    if verb == "delete":
        return ("delete", path)
    # The name determines the kind of object.
    kinds = {"g": ["m0", "m1"], "k": ["m0", "m1"], "m": ["m0", "m1"], "d": ["d0", "d1", "d2", "d3"], "s": ["s0", "s1"]}
    last = path.rsplit("/", 1)[1]
    if last[0] not in kinds or (verb == "copy" and view[path].kind in ("soft", "external")):
        return None
    new = fresh(draw, view, kinds[last[0]])
    if new in view or new.startswith(path + "/"):
        return None
    return (verb, path, new)
