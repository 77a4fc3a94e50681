"""Pytest plugin that runs h5py's own tests with hyperchunk as the reader.

The tests make their files with h5py. Their reads through h5py's high-level classes (data, attributes, links,
properties) are answered by hyperchunk: the file is flushed and reopened by hyperchunk, the object is found by its
address, and the test sees hyperchunk's result or exception. Results that can be written again (objects, references,
links) are converted to h5py's. `HYPERCHUNK_SUITE_REPORT` names a file for the outcome of each test and the number of
hyperchunk's answers in it; with `HYPERCHUNK_SUITE_BASELINE` set, h5py stays unchanged.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from h5py import h5f, h5fd, h5i, h5o, h5r, h5s
from h5py._hl import attrs, base, dataset, datatype, dims, files, group
from hyperchunk import selections
from hyperchunk.objects import Opened
from hyperchunk.references import OBJECT1, REGION1

CLASSES = {
    hyperchunk.Group: h5py.Group,
    hyperchunk.Dataset: h5py.Dataset,
    hyperchunk.Datatype: h5py.Datatype,
    hyperchunk.SoftLink: h5py.SoftLink,
    hyperchunk.ExternalLink: h5py.ExternalLink,
    hyperchunk.HardLink: h5py.HardLink,
}

calls = 0


# --- From h5py's objects to hyperchunk's ---


def opened(identifier: Any) -> hyperchunk.File:
    """Opens the file of a low-level identifier, in its current state, with hyperchunk."""
    file_id = h5i.get_file_id(identifier)
    h5f.flush(file_id)
    name = os.fsdecode(h5f.get_name(file_id))
    if file_id.get_access_plist().get_driver() in (h5fd.SEC2, h5fd.STDIO):
        return hyperchunk.File(name, ignore_locks=True, allow_truncated=True)
    return hyperchunk.File.from_bytes(file_id.get_file_image(), name, ignore_locks=True, allow_truncated=True)


def closed() -> Opened:
    """Returns a closed file."""
    file = hyperchunk.File.from_bytes(SAMPLE)
    state = file._opened
    file.close()
    return state


def sample() -> bytes:
    with h5py.File.in_memory() as file:
        file.create_group("group")
        file["dataset"] = 0
        file["datatype"] = np.dtype("i4")
        file.flush()
        return bytes(file.id.get_file_image())


SAMPLE = sample()


def wrapped(real: Any, cls: type) -> Any:
    """Returns hyperchunk's object for one of h5py's."""
    if not real.id:
        state = closed()
        found = hyperchunk.File.from_bytes(SAMPLE)
        if cls is hyperchunk.File:
            return _raw(cls, state, found)
        name = {hyperchunk.Dataset: "dataset", hyperchunk.Datatype: "datatype"}.get(cls, "group")
        return cls(state, found[name]._object, None)
    file = opened(real.id)
    if cls is hyperchunk.File:
        return file
    core = file._opened.core.object(h5o.get_info(real.id).addr)
    name = getattr(real, "_hyperchunk_name", None)
    if name is None:
        name = h5i.get_name(real.id)
        name = None if name is None else name.decode("utf-8", "surrogateescape")
    return cls(file._opened, core, name)


def _raw(cls: type, state: Opened, file: hyperchunk.File) -> Any:
    made = cls.__new__(cls)
    hyperchunk.Group.__init__(made, state, file._object, "/")
    return made


def for_hyperchunk(value: Any, owner: Any) -> Any:
    """Converts an h5py argument for hyperchunk."""
    if isinstance(value, tuple):
        return tuple(for_hyperchunk(item, owner) for item in value)
    if isinstance(value, h5r.RegionReference):
        if not value:
            return hyperchunk.RegionReference()
        target = h5r.dereference(value, owner.id)
        address = h5o.get_info(target).addr.to_bytes(8, "little")
        return hyperchunk.RegionReference(REGION1, address, region_of(h5r.get_region(value, owner.id)))
    if isinstance(value, h5r.Reference):
        if not value:
            return hyperchunk.Reference()
        address = h5o.get_info(h5r.dereference(value, owner.id)).addr
        return hyperchunk.Reference(OBJECT1, address.to_bytes(8, "little"))
    if isinstance(value, h5py.MultiBlockSlice):
        return hyperchunk.MultiBlockSlice(value.start, value.stride, value.count, value.block)
    if isinstance(value, h5py.Dataset | h5py.Group | h5py.Datatype):
        return wrapped(value, KINDS[type(value)])
    return value


def region_of(space: h5s.SpaceID) -> selections.Selection:
    kind = space.get_select_type()
    if kind == h5s.SEL_NONE:
        selection: tuple[Any, ...] = ("none",)
    elif kind == h5s.SEL_ALL:
        selection = ("all",)
    elif kind == h5s.SEL_POINTS:
        selection = ("points", len(space.shape), [int(n) for n in space.get_select_elem_pointlist().ravel()])
    elif space.is_regular_hyperslab():
        selection = ("regular", tuple(zip(*(map(int, part) for part in space.get_regular_hyperslab()), strict=True)))
    else:
        selection = ("blocks", len(space.shape), [int(n) for n in space.get_select_hyper_blocklist().ravel()])
    return selections.referred(space.shape, selection)


# --- From hyperchunk's results to h5py's ---


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype with h5py's classes in its metadata."""
    if dtype.subdtype is not None:
        return np.dtype((real_dtype(dtype.subdtype[0]), dtype.subdtype[1]))
    if dtype.names is not None:
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [real_dtype(dtype[name]) for name in dtype.names],
                "offsets": [dtype.fields[name][1] for name in dtype.names],
                "itemsize": dtype.itemsize,
            }
        )
    if dtype.metadata is None:
        return dtype
    metadata = dict(dtype.metadata)
    if metadata.get("ref") is not None:
        metadata["ref"] = h5py.RegionReference if metadata["ref"] is hyperchunk.RegionReference else h5py.Reference
    if isinstance(metadata.get("vlen"), np.dtype):
        metadata["vlen"] = real_dtype(metadata["vlen"])
    # Made from the plain dtype: NumPy would keep existing metadata.
    return np.dtype(dtype.str, metadata=metadata)


def real_reference(reference: hyperchunk.Reference, owner: Any, file: Any) -> Any:
    if not reference:
        return h5r.RegionReference() if isinstance(reference, hyperchunk.RegionReference) else h5r.Reference()
    target = file[reference]
    found = owner.file[target.name]
    if not isinstance(reference, hyperchunk.RegionReference):
        return h5r.create(found.id, b".", h5r.OBJECT)
    space = found.id.get_space()
    _, description, _ = file._opened.core.dereference(reference._kind, reference._raw)
    select_in(space, description)
    return h5r.create(found.id, b".", h5r.DATASET_REGION, space)


def select_in(space: h5s.SpaceID, selection: tuple[Any, ...]) -> None:
    kind, *rest = selection
    if kind == "none":
        space.select_none()
    elif kind == "points":
        space.select_elements(np.array(rest[1], "u8").reshape(-1, rest[0]))
    elif kind == "regular":
        start, stride, count, block = zip(*rest[0], strict=True)
        space.select_hyperslab(start, count, stride, block)
    elif kind == "blocks":
        space.select_none()
        for first, last in np.array(rest[1], "u8").reshape(-1, 2, rest[0]):
            space.select_hyperslab(tuple(map(int, first)), tuple(int(n) for n in last - first + 1), op=h5s.SELECT_OR)


def real_array(array: Any, owner: Any, file: Any) -> Any:
    dtype = real_dtype(array.dtype)
    if not array.dtype.hasobject:
        return array.view(dtype) if array.dtype.metadata else array
    out = np.empty(array.shape, dtype)
    if array.dtype.names is not None:
        for name in array.dtype.names:
            out[name] = real_array(array[name], owner, file)
        return out
    for place in np.ndindex(array.shape):
        out[place] = for_h5py(array[place], owner, file)
    return out


def for_h5py(value: Any, owner: Any, file: Any) -> Any:
    """Converts a result of hyperchunk to h5py's."""
    if isinstance(value, hyperchunk.Reference):
        return real_reference(value, owner, file)
    if isinstance(value, hyperchunk.HLObject):
        return real_object(value, owner)
    if isinstance(value, hyperchunk.SoftLink):
        return h5py.SoftLink(value.path)
    if isinstance(value, hyperchunk.ExternalLink):
        return h5py.ExternalLink(value.filename, value.path)
    if isinstance(value, hyperchunk.HardLink):
        return h5py.HardLink()
    if isinstance(value, hyperchunk.Empty):
        return h5py.Empty(real_dtype(value.dtype))
    if isinstance(value, type):
        return CLASSES.get(value, value)
    if isinstance(value, np.dtype):
        return real_dtype(value)
    if isinstance(value, np.ndarray):
        return real_array(value, owner, file)
    if isinstance(value, np.void) and value.dtype.names is not None:
        return real_array(np.array(value), owner, file)[()]
    if type(value) is list:
        return [for_h5py(item, owner, file) for item in value]
    if type(value) is tuple:
        return tuple(for_h5py(item, owner, file) for item in value)
    return value


def real_object(value: hyperchunk.HLObject, owner: Any) -> Any:
    """Returns h5py's object for one of hyperchunk's: opened by h5py, under hyperchunk's name."""
    where = owner.file
    here = os.fsdecode(h5f.get_name(where.id))
    if value._opened.filename != here and Path(value._opened.filename).is_file():
        where = open_real(value._opened.filename)
    address = value._object.address
    found = ORIGINAL[group.Group, "__getitem__"](where, value.name)
    assert h5o.get_info(found.id).addr == address, "hyperchunk and h5py found different objects"
    found._hyperchunk_name = value.name
    return found


def open_real(path: str) -> Any:
    made = files.File.__new__(files.File)
    ORIGINAL[files.File, "__init__"](made, path, "r")
    return made


# --- Replaced methods ---

ORIGINAL: dict[Any, Any] = {}
KINDS = {
    h5py.Dataset: hyperchunk.Dataset,
    h5py.Group: hyperchunk.Group,
    h5py.Datatype: hyperchunk.Datatype,
    h5py.File: hyperchunk.File,
}


def answer(real: Any, cls: type, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    global calls
    calls += 1
    mine = wrapped(real, cls)
    found = getattr(type(mine), name)
    if isinstance(found, property):
        return for_h5py(getattr(mine, name), real, mine.file if mine else None)
    arguments = for_hyperchunk(args, real)
    result = found(mine, *arguments, **keywords)
    return for_h5py(result, real, mine.file if mine else None)


def method(cls: type, mine: type, name: str) -> None:
    ORIGINAL[cls, name] = getattr(cls, name)

    def replaced(self: Any, *args: Any, **keywords: Any) -> Any:
        return answer(self, mine, name, args, keywords)

    setattr(cls, name, replaced)


def attribute(cls: type, mine: type, name: str) -> None:
    original = getattr(cls, name)
    ORIGINAL[cls, name] = original
    setter = original.fset if isinstance(original, property) else None

    def replaced(self: Any) -> Any:
        if cls is datatype.Datatype and self.id and not self.id.committed():
            return original.__get__(self)
        return answer(self, mine, name, (), {})

    setattr(cls, name, property(replaced, setter))


def iterator(cls: type, mine: type, name: str) -> None:
    ORIGINAL[cls, name] = getattr(cls, name, None)

    def replaced(self: Any) -> Any:
        return iter([for_h5py(item, self, None) for item in answer(self, mine, name, (), {})])

    setattr(cls, name, replaced)


METHODS = {
    (dataset.Dataset, hyperchunk.Dataset): [
        "__len__",
        "len",
        "__array__",
        "__repr__",
        "virtual_sources",
        "iter_chunks",
        "read_direct",
    ],
    (group.Group, hyperchunk.Group): ["__len__", "__contains__", "__repr__", "get"],
    (files.File, hyperchunk.File): ["__repr__"],
    (datatype.Datatype, hyperchunk.Datatype): ["__repr__"],
}
ATTRIBUTES = {
    (dataset.Dataset, hyperchunk.Dataset): [
        "shape", "size", "nbytes", "ndim", "dtype", "chunks", "compression", "compression_opts", "filter_ids",
        "filter_names", "shuffle", "fletcher32", "scaleoffset", "external", "maxshape", "fillvalue", "is_virtual",
        "is_scale",
    ],
    (datatype.Datatype, hyperchunk.Datatype): ["dtype"],
    (files.File, hyperchunk.File): ["userblock_size"],
}  # fmt: skip


def install() -> None:
    """Replaces h5py's methods by hyperchunk's."""
    for (cls, mine), names in METHODS.items():
        for name in names:
            method(cls, mine, name)
    for (cls, mine), names in ATTRIBUTES.items():
        for name in names:
            attribute(cls, mine, name)
    iterator(group.Group, hyperchunk.Group, "__iter__")
    iterator(group.Group, hyperchunk.Group, "__reversed__")
    iterator(dataset.Dataset, hyperchunk.Dataset, "__iter__")
    install_getitem()
    install_visits()
    install_attributes()
    install_dimensions()
    install_regions()
    install_file()


def install_getitem() -> None:
    ORIGINAL[group.Group, "__getitem__"] = group.Group.__getitem__
    method(group.Group, hyperchunk.Group, "__getitem__")
    ORIGINAL[group.Group, "__getitem__"] = group.Group._get
    ORIGINAL[base.HLObject, "name"] = base.HLObject.name

    def name(self: Any) -> Any:
        found = self.__dict__.get("_hyperchunk_name")
        return found if found is not None and self.id else ORIGINAL[base.HLObject, "name"].__get__(self)

    base.HLObject.name = property(name)
    ORIGINAL[dataset.Dataset, "__getitem__"] = dataset.Dataset.__getitem__

    def getitem(self: Any, args: Any, new_dtype: Any = None) -> Any:
        if new_dtype is None:
            return answer(self, hyperchunk.Dataset, "__getitem__", (args,), {})
        global calls
        calls += 1
        mine = wrapped(self, hyperchunk.Dataset)
        view = mine.astype(new_dtype)
        return for_h5py(view[for_hyperchunk(args, self)], self, mine.file)

    dataset.Dataset.__getitem__ = getitem

    def viewing(name: str) -> Any:
        def replaced(self: Any, *args: Any, **keywords: Any) -> Any:
            found = View(self, name, args, {key: value for key, value in keywords.items() if key != "_prior_dtype"})
            return self if isinstance(found.now(), hyperchunk.Dataset) else found

        return replaced

    for name in ("fields", "astype", "asstr"):
        setattr(dataset.Dataset, name, viewing(name))


class View:
    """A view of a dataset that is created for each access, from its current state."""

    def __init__(self, real: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.__dict__["_now"] = real, name, args, keywords

    def now(self) -> Any:
        global calls
        calls += 1
        real, name, args, keywords = self._now
        return getattr(wrapped(real, hyperchunk.Dataset), name)(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now(), name)

    def __getitem__(self, args: Any) -> Any:
        return self.now()[for_hyperchunk(args, self._now[0])]

    def __len__(self) -> int:
        return len(self.now())

    def __array__(self, *args: Any, **keywords: Any) -> Any:
        return self.now().__array__(*args, **keywords)


def install_visits() -> None:
    def visiting(name: str) -> Any:
        def replaced(self: Any, func: Any) -> Any:
            global calls
            calls += 1
            mine = wrapped(self, hyperchunk.Group)
            return getattr(mine, name)(lambda *found: func(*(for_h5py(item, self, mine.file) for item in found)))

        return replaced

    for name in ("visit", "visititems", "visit_links", "visititems_links"):
        setattr(group.Group, name, visiting(name))


def install_attributes() -> None:
    def mine(self: Any) -> Any:
        global calls
        calls += 1
        owner = Owner(self._id)
        return owner, hyperchunk.AttributeManager(wrapped(owner, hyperchunk.Group))

    def getitem(self: Any, name: Any) -> Any:
        owner, found = mine(self)
        return for_h5py(found[name], owner, found._opened and hyperchunk.File._of(found._opened))

    attrs.AttributeManager.__getitem__ = getitem
    attrs.AttributeManager.__iter__ = lambda self: iter(mine(self)[1])
    attrs.AttributeManager.__len__ = lambda self: len(mine(self)[1])
    attrs.AttributeManager.__contains__ = lambda self, name: name in mine(self)[1]


class Owner:
    """Attributes of a low-level identifier that the functions here use."""

    def __init__(self, identifier: Any) -> None:
        self.id = identifier

    @property
    def file(self) -> Any:
        return files.File(self.id)


def install_dimensions() -> None:
    def mine(self: Any) -> Any:
        global calls
        calls += 1
        owner = Owner(self._id)
        return owner, hyperchunk.Dataset.dims.__get__(wrapped(owner, hyperchunk.Dataset))

    def proxied(name: str) -> Any:
        def replaced(self: Any, *args: Any) -> Any:
            owner, found = mine(self)
            return for_h5py(getattr(found[self._dimension], name)(*args), owner, None)

        return replaced

    for name in ("__len__", "__getitem__", "items", "keys", "values"):
        setattr(dims.DimensionProxy, name, proxied(name))
    original = dims.DimensionProxy.label

    def label(self: Any) -> Any:
        _, found = mine(self)
        return found[self._dimension].label

    dims.DimensionProxy.label = property(label, original.fset)
    dims.DimensionManager.__len__ = lambda self: len(mine(self)[1])


def install_regions() -> None:
    def proxied(name: str) -> Any:
        def replaced(self: Any, ref: Any) -> Any:
            global calls
            calls += 1
            mine = wrapped(self.obj, KINDS.get(type(self.obj), hyperchunk.Group))
            return getattr(mine.regionref, name)(for_hyperchunk(ref, self.obj))

        return replaced

    base._RegionProxy.shape = proxied("shape")
    base._RegionProxy.selection = proxied("selection")


def install_file() -> None:
    original = files.File.__init__
    ORIGINAL[files.File, "__init__"] = original

    def init(self: Any, name: Any, mode: str = "r", driver: Any = None, *args: Any, **keywords: Any) -> None:
        global calls
        plain = isinstance(name, str | bytes | os.PathLike) or (hasattr(name, "read") and hasattr(name, "seek"))
        if plain and mode == "r" and driver in (None, "sec2", "fileobj"):
            calls += 1
            position = name.tell() if hasattr(name, "tell") else None
            # In h5py, writes through another handle of the same process take no lock either.
            locking = {"locking": keywords["locking"]} if "locking" in keywords else {}
            hyperchunk.File(name, mode, driver, ignore_locks=True, **locking).close()
            if position is not None:
                name.seek(position)
        original(self, name, mode, driver, *args, **keywords)

    files.File.__init__ = init
    original_is_hdf5 = h5py.is_hdf5

    def is_hdf5(name: Any) -> bool:
        global calls
        calls += 1
        found = hyperchunk.is_hdf5(name)
        assert found == original_is_hdf5(name)
        return found

    h5py.is_hdf5 = base.is_hdf5 = is_hdf5


# --- pytest ---

report: dict[str, dict[str, Any]] = {}
BASELINE = "HYPERCHUNK_SUITE_BASELINE" in os.environ
if not BASELINE:
    install()


def pytest_runtest_logstart(nodeid: str) -> None:
    global calls
    calls = 0


def pytest_runtest_logreport(report: Any) -> None:
    entry = globals()["report"].setdefault(report.nodeid, {"outcome": "passed", "calls": 0, "message": ""})
    if report.when == "call" or report.outcome != "passed":
        entry["outcome"] = report.outcome if not hasattr(report, "wasxfail") else "xfailed"
        if report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            entry["message"] = (crash.message if crash is not None else str(report.longrepr))[:500]
    entry["calls"] = calls


def pytest_sessionfinish() -> None:
    if path := os.environ.get("HYPERCHUNK_SUITE_REPORT"):
        Path(path).write_text(json.dumps(report, indent=1), encoding="utf-8")
