"""Compares hyperchunk's and h5py's readings of HDF5 files: `python compare.py FILE…` prints a JSON line for each
file. Runs as a separate process, since libhdf5 crashes on some damaged files.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from h5py import h5o, h5r

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401 -- h5py then reads more filters

#: Larger values are compared in part.
LARGE = 64 << 20
PROPERTIES = (
    "shape",
    "size",
    "ndim",
    "maxshape",
    "chunks",
    "compression",
    "compression_opts",
    "shuffle",
    "fletcher32",
    "scaleoffset",
    "filter_ids",
    "external",
    "is_virtual",
    "is_scale",
)


class Comparison:
    """Comparison of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.differences: list[str] = []
        self.datasets = 0
        self.attributes = 0
        self.beyond = 0

    def differ(self, where: str, what: str, theirs: Any, ours: Any) -> None:
        self.differences.append(f"{where}: {what}: h5py {_short(theirs)}, hyperchunk {_short(ours)}")

    def run(self) -> None:
        try:
            theirs = h5py.File(self.path, "r")
        except OSError:
            # Hyperchunk may open it or not, but must raise a proper error.
            with contextlib.suppress(hyperchunk.HyperchunkError):
                hyperchunk.File(self.path).close()
            return
        try:
            ours = hyperchunk.File(self.path)
        except hyperchunk.HyperchunkError as error:
            # h5py may open a file in which it can then read nothing.
            with contextlib.suppress(RuntimeError, OSError, KeyError):
                list(theirs["/"])
                self.differ("/", "open", "opens", error)
            with contextlib.suppress(RuntimeError, OSError):
                theirs.close()
            return
        with ours:
            self.file, self.real = ours, theirs
            # libhdf5 may detect the damage only now, and then fail to close the file.
            with contextlib.suppress(RuntimeError, OSError):
                self.walk("/", theirs["/"], ours["/"], set())
        with contextlib.suppress(RuntimeError, OSError):
            theirs.close()

    def walk(self, path: str, theirs: Any, ours: Any, seen: set[int]) -> None:
        address = h5o.get_info(theirs.id).addr
        if address in seen:
            return
        seen.add(address)
        if ours._object.address != address:
            self.differ(path, "address", address, ours._object.address)
        if type(theirs).__name__.replace("File", "Group") != type(ours).__name__.replace("File", "Group"):
            self.differ(path, "class", type(theirs), type(ours))
            return
        self.attrs(path, theirs, ours)
        if isinstance(theirs, h5py.Dataset):
            self.dataset(path, theirs, ours)
        elif isinstance(theirs, h5py.Datatype):
            self.attempt(path, "dtype", lambda: theirs.dtype, lambda: ours.dtype)
        else:
            self.group(path, theirs, ours, seen)

    def group(self, path: str, theirs: Any, ours: Any, seen: set[int]) -> None:
        names = self.attempt(path, "names", lambda: list(theirs), lambda: list(ours))
        for name in names or ():
            below = f"{path.rstrip('/')}/{name}"
            link = self.attempt(
                below,
                "link",
                lambda n=name: _link(theirs.get(n, getlink=True)),
                lambda n=name: _link(ours.get(n, getlink=True)),
            )
            if link == "hard" and len(below) < 400:
                try:
                    found = theirs[name]
                except Exception:
                    continue
                try:
                    mine = ours[name]
                except Exception as error:
                    self.differ(below, "open", "opens", error)
                    continue
                self.walk(below, found, mine, seen)

    def attrs(self, path: str, theirs: Any, ours: Any) -> None:
        names = self.attempt(path, "attributes", lambda: list(theirs.attrs), lambda: list(ours.attrs))
        for name in names or ():
            if not _safe(theirs, name):
                continue
            self.attributes += 1
            self.attempt(f"{path}@{name}", "value", lambda n=name: theirs.attrs[n], lambda n=name: ours.attrs[n])

    def dataset(self, path: str, theirs: Any, ours: Any) -> None:
        self.datasets += 1
        for name in PROPERTIES:
            self.attempt(path, name, lambda n=name: getattr(theirs, n), lambda n=name: getattr(ours, n))
        self.attempt(path, "dtype", lambda: theirs.dtype, lambda: ours.dtype)
        self.attempt(path, "fillvalue", lambda: theirs.fillvalue, lambda: ours.fillvalue)
        try:
            part: Any = () if theirs.nbytes <= LARGE else tuple(slice(0, 100) for _ in theirs.shape)
        except Exception:
            part = ()
        self.attempt(path, "value", lambda: theirs[part], lambda: ours[part])
        if theirs.shape and 0 not in theirs.shape and theirs.size < 1 << 20:
            every = tuple(slice(0, None, 2) for _ in theirs.shape)
            last = tuple(length - 1 for length in theirs.shape)
            self.attempt(path, "every other", lambda: theirs[every], lambda: ours[every])
            self.attempt(path, "last", lambda: theirs[last], lambda: ours[last])
        self.attempt(
            path,
            "dims",
            lambda: [(d.label, [n for n, _ in d.items()]) for d in theirs.dims],
            lambda: [(d.label, [n for n, _ in d.items()]) for d in ours.dims],
        )

    def attempt(self, where: str, what: str, theirs: Any, ours: Any) -> Any:
        """Performs an operation with both; where h5py fails, we may succeed, or fail with an error of our own."""
        try:
            expected = theirs()
        except Exception:
            try:
                ours()
                self.beyond += 1
            except (hyperchunk.HyperchunkError, TypeError, ValueError, IndexError, KeyError, MemoryError):
                pass
            except Exception as error:
                self.differ(where, what, "an error", repr(error))
            return None
        try:
            found = ours()
        except Exception as error:
            self.differ(where, what, expected, repr(error))
            return expected
        try:
            difference = self.difference(expected, found)
        except Exception as error:
            difference = f"cannot be compared: {error!r}"
        if difference:
            self.differ(where, f"{what}: {difference}", expected, found)
        return expected

    def difference(self, theirs: Any, ours: Any) -> str | None:
        """Describes the difference of two values."""
        if isinstance(theirs, np.dtype):
            return _dtypes(theirs, ours)
        if isinstance(theirs, h5py.Empty):
            return _dtypes(theirs.dtype, ours.dtype) if isinstance(ours, hyperchunk.Empty) else "class"
        if isinstance(theirs, h5r.Reference):
            return self.references(theirs, ours)
        if isinstance(theirs, np.ndarray | np.generic):
            return self.arrays(theirs, ours)
        if isinstance(theirs, tuple | list):
            if type(theirs) is not type(ours) or len(theirs) != len(ours):
                return "length"
            return next(filter(None, map(self.difference, theirs, ours)), None)
        if type(theirs) is not type(ours):
            return f"type {type(theirs).__name__} / {type(ours).__name__}"
        return None if theirs == ours or (theirs != theirs and ours != ours) else "value"

    def arrays(self, theirs: Any, ours: Any) -> str | None:
        if type(theirs) is not type(ours):
            return f"type {type(theirs).__name__} / {type(ours).__name__}"
        if theirs.shape != ours.shape:
            return "shape"
        if difference := _dtypes(theirs.dtype, ours.dtype):
            return difference
        if theirs.dtype.names is not None:
            for name in theirs.dtype.names:
                if difference := self.difference(theirs[name], ours[name]):
                    return f"member {name!r}: {difference}"
            return None
        if theirs.dtype.hasobject:
            pairs = zip(theirs.ravel(), ours.ravel(), strict=True)
            return next(filter(None, (self.difference(a, b) for a, b in pairs)), None)
        if theirs.tobytes() == ours.tobytes():
            return None
        if theirs.dtype.kind in "fc" and np.array_equal(theirs, ours, equal_nan=True):
            return None
        return "bytes"

    def references(self, theirs: Any, ours: Any) -> str | None:
        if theirs.typecode != ours.typecode:
            return "kind of reference"
        if bool(theirs) != bool(ours):
            return "null"
        if not theirs:
            return None
        try:
            target = h5r.dereference(theirs, self.real.id)
            address = h5o.get_info(target).addr
        except Exception:
            return None
        found = self.file[ours]
        if found._object.address != address:
            return "target"
        if theirs.typecode == 1:
            real = h5py.Dataset(target)
            if real.regionref.selection(theirs) != found.regionref.selection(ours):
                return "selection"
            if real.nbytes <= LARGE:
                return self.difference(real[theirs], found[ours])
        return None


def _short(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) < 200 else f"{text[:200]}…"


def _link(link: Any) -> Any:
    match type(link).__name__:
        case "HardLink":
            return "hard"
        case "SoftLink":
            return link.path
        case "ExternalLink":
            return (link.filename, link.path)
    return None


def _safe(owner: Any, name: str) -> bool:
    """False for attributes with sequences of region references, on which h5py crashes."""
    try:
        kind = owner.attrs.get_id(name).dtype
    except Exception:
        return True
    inner = h5py.check_vlen_dtype(kind)
    return not (isinstance(inner, np.dtype) and h5py.check_ref_dtype(inner) is h5py.RegionReference)


def _dtypes(theirs: np.dtype[Any], ours: np.dtype[Any]) -> str | None:
    """Describes the difference of two dtypes, including their metadata."""
    if theirs != ours:
        return f"dtype {theirs} / {ours}"
    if theirs.names is not None:
        return next(filter(None, (_dtypes(theirs[name], ours[name]) for name in theirs.names)), None)
    if theirs.subdtype is not None and ours.subdtype is not None:
        return _dtypes(theirs.subdtype[0], ours.subdtype[0])
    mine, yours = dict(theirs.metadata or {}), dict(ours.metadata or {})
    if set(mine) != set(yours):
        return f"metadata {mine} / {yours}"
    for key, value in mine.items():
        other = yours[key]
        if isinstance(value, np.dtype):
            if difference := _dtypes(value, other):
                return difference
        elif key == "ref":
            if value.__name__ != other.__name__:
                return f"reference {value} / {other}"
        elif value != other:
            return f"metadata {mine} / {yours}"
    return None


def main() -> None:
    for name in sys.argv[1:]:
        print(json.dumps({"start": name}), flush=True)
        comparison = Comparison(Path(name))
        comparison.run()
        line = {
            "path": name,
            "differences": comparison.differences,
            "datasets": comparison.datasets,
            "attributes": comparison.attributes,
            "beyond": comparison.beyond,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
