"""Random trees of groups, links, attributes, types and layouts, and their writer for a given library."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

NUMBERS = ["i1", "<u2", ">i4", "<i8", ">u8", "<f2", ">f4", "<f8", "?", "<c8", ">c16", "S3", "V4"]
KINDS = [*NUMBERS, "pair", "nested", "enum", "text", "ascii", "fixed", "vlen", "mixed", "ref", "array"]
LAYOUTS = ["plain", "chunked", "growing", "growing twice", "deflate", "checked", "lzf", "scaled"]


def _dtype(library: ModuleType, kind: str) -> np.dtype:
    special = {
        "pair": lambda: np.dtype([("a", "<i2"), ("b", ">f8")]),
        "nested": lambda: np.dtype([("x", "u1"), ("in", [("y", "<f4", (2,)), ("z", "S2")])], align=True),
        "enum": lambda: library.enum_dtype({"ONE": 1, "TWO": 2, "größer": 3}, "<i2"),
        "text": library.string_dtype,
        "ascii": lambda: library.string_dtype("ascii"),
        "fixed": lambda: library.string_dtype("utf-8", 4),
        "vlen": lambda: library.vlen_dtype(np.dtype("<f4")),
        "mixed": lambda: np.dtype([("n", "<i4"), ("s", library.string_dtype()), ("f", "<f8")]),
        "ref": lambda: library.ref_dtype,
        "array": lambda: np.dtype([("grid", "<i4", (2, 2))]),
    }
    return special[kind]() if kind in special else np.dtype(kind)


def _values(library: ModuleType, kind: str, shape: tuple[int, ...], seed: int, target: Any) -> np.ndarray:
    random = np.random.default_rng(seed)
    dtype = _dtype(library, kind)
    count = int(np.prod(shape))
    words = [["", "a", "zwölf", "x" * 200][random.integers(4)] for _ in range(count)]
    out = np.empty(count, dtype)
    for index in range(count):
        if kind == "text":
            out[index] = words[index]
        elif kind == "ascii":
            out[index] = b"word" * int(random.integers(3))
        elif kind == "vlen":
            out[index] = random.integers(0, 9, random.integers(0, 5)).astype("<f4")
        elif kind == "ref":
            out[index] = target.ref
        elif kind == "mixed":
            out[index] = (index, words[index], index / 4)
    if kind not in ("text", "ascii", "vlen", "ref", "mixed"):
        if kind == "enum":
            return random.integers(1, 4, shape).astype(dtype)
        if kind == "?":
            return random.integers(0, 2, shape).astype(bool)
        out = np.frombuffer(random.integers(1, 60, count * dtype.itemsize, dtype="u1").tobytes(), dtype)
    return out.reshape(shape)


@st.composite
def _names(draw: st.DrawFn) -> str:
    return draw(
        st.sampled_from(["a", "b", "c", "data", "größer", "with space", "x" * 300])
        | st.text(
            st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
        )
    ).replace(".", "_")


shapes = st.lists(st.integers(0, 6), max_size=3).map(tuple)
attributes = st.dictionaries(
    _names(),
    st.tuples(st.sampled_from(KINDS), st.lists(st.integers(1, 3), max_size=2).map(tuple), st.integers(0, 99)),
    max_size=3,
)
datasets = st.tuples(
    st.just("dataset"),
    st.sampled_from(KINDS),
    shapes,
    st.sampled_from(LAYOUTS),
    st.booleans(),
    st.integers(0, 99),
    attributes,
)
links = (
    st.tuples(st.just("soft"), st.sampled_from(["/a", "b/c", "/", "größer"]))
    | st.tuples(st.just("external"), st.just("other.h5"), st.sampled_from(["/a", "x"]))
    | st.tuples(st.just("hard"), st.integers(0, 20))
    | st.tuples(st.just("type"), st.sampled_from([*NUMBERS, "pair", "nested", "enum", "text", "vlen", "mixed"]))
)
trees = st.recursive(
    datasets | links,
    lambda inner: st.tuples(st.just("group"), st.booleans(), st.dictionaries(_names(), inner, max_size=12), attributes),
    max_leaves=25,
)
roots = st.tuples(st.just("group"), st.booleans(), st.dictionaries(_names(), trees, max_size=12), attributes)


class Builder:
    """Writes a tree with a library."""

    def __init__(self, library: ModuleType, path: Path, libver: str, tree: Any) -> None:
        self.library = library
        self.known: list[Any] = []
        with library.File(path, "w", libver=libver, track_order=tree[1]) as file:
            self.known.append(file["/"])
            self.fill(file["/"], tree)

    def fill(self, group: Any, tree: Any) -> None:
        self.attributes(group, tree[3])
        for name, node in tree[2].items():
            self.one(group, name, node)

    def attributes(self, target: Any, found: Any) -> None:
        for name, (kind, shape, seed) in found.items():
            values = _values(self.library, kind, shape, seed, self.known[seed % len(self.known)])
            target.attrs.create(name, values, dtype=_dtype(self.library, kind))

    def one(self, group: Any, name: str, node: Any) -> None:
        match node[0]:
            case "group":
                made = group.create_group(name, track_order=node[1])
                self.known.append(made)
                self.fill(made, node)
            case "soft":
                group[name] = self.library.SoftLink(node[1])
            case "external":
                group[name] = self.library.ExternalLink(node[1], node[2])
            case "hard":
                group[name] = self.known[node[1] % len(self.known)]
            case "type":
                group[name] = _dtype(self.library, node[1])
            case "dataset":
                self.dataset(group, name, node)

    def dataset(self, group: Any, name: str, node: Any) -> None:
        _, kind, shape, layout, track_order, seed, attributes = node
        dtype = _dtype(self.library, kind)
        options: dict[str, Any] = {
            "plain": {},
            "chunked": {"chunks": tuple(max(1, length // 2) for length in shape)},
            "growing": {"maxshape": (None, *shape[1:]), "chunks": tuple(max(1, length // 2) for length in shape)},
            "growing twice": {"maxshape": (None,) * len(shape), "chunks": (2,) * len(shape)},
            "deflate": {"compression": 4, "shuffle": True, "chunks": tuple(max(1, length) for length in shape)},
            "checked": {"fletcher32": True, "chunks": tuple(max(1, length) for length in shape)},
            "lzf": {"compression": "lzf", "chunks": tuple(max(1, length) for length in shape)},
            "scaled": {"scaleoffset": 0, "chunks": tuple(max(1, length) for length in shape)},
        }[layout]
        zero_sized = any(length == 0 for length in shape)
        if not shape or (zero_sized and layout != "growing twice"):
            options = {}
        if dtype.hasobject and "fletcher32" in options:
            options = {}
        # Lossy for floats, and undefined for numbers of this range.
        if "scaleoffset" in options and (dtype.kind not in "iu" or kind == "enum"):
            options.pop("scaleoffset", None)
        values = _values(self.library, kind, shape, seed, self.known[seed % len(self.known)])
        # h5py makes an array of rows of equal length.
        if seed % 2 and kind != "vlen":
            made = group.create_dataset(name, shape, dtype, track_order=track_order, **options)
            if shape and shape[0] > 1 and values.size:
                made[1:] = values[1:]
        else:
            made = group.create_dataset(name, data=values, dtype=dtype, track_order=track_order, **options)
        self.known.append(made)
        self.attributes(made, attributes)
