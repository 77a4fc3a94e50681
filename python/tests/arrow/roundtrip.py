"""Compares HDF5 files with the results of a round trip through Arrow.

`python roundtrip.py FOLDER FILE…` exports each file, imports it again and compares the two with h5py. Prints a JSON
line before and after each file. Runs as a separate process, since libhdf5 crashes on some damaged files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5o, h5r, h5s

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401 -- h5py then reads more filters

#: The command, from the environment or beside this Python.
HYPERCHUNK = os.environ.get("HYPERCHUNK_COMMAND") or shutil.which("hyperchunk", path=str(Path(sys.executable).parent))
#: Maximum size in bytes of an exported dataset.
MOST = 64 << 20


class Comparison:
    """Comparison of two files."""

    def __init__(self, old: h5py.File, new: h5py.File, missing: set[str]) -> None:
        self.old, self.new, self.missing = old, new, missing
        self.differences: list[str] = []
        self.datasets = self.attributes = self.links = self.unreadable = 0
        self.seen: set[int] = set()

    def differ(self, where: str, what: str) -> None:
        self.differences.append(f"{where}: {what}")

    def walk(self, path: str, old: Any, new: Any) -> None:
        address = h5o.get_info(old.id).addr
        if address in self.seen:
            return
        self.seen.add(address)
        if type(old) is not type(new) and not (isinstance(old, h5py.Group) and isinstance(new, h5py.Group)):
            self.differ(path, f"class {type(old)} / {type(new)}")
            return
        self.compare_attributes(path, old, new)
        if isinstance(old, h5py.Dataset):
            self.compare_dataset(path, old, new)
        elif isinstance(old, h5py.Datatype):
            self.compare_types(path, old.id, new.id)
        else:
            self.compare_links(path, old, new)

    def compare_links(self, path: str, old: Any, new: Any) -> None:
        names = list(old.id)
        gone = [name for name in names if name not in new.id and not self.is_missing(path, name)]
        more = [name for name in new.id if name not in old.id]
        if gone or more:
            self.differ(path, f"links {gone} / {more}")
        for raw in names:
            if raw not in new.id:
                continue
            name = raw.decode("utf-8", "surrogateescape")
            below = f"{path.rstrip('/')}/{name}"
            self.links += 1
            first, second = old.id.links.get_info(raw), new.id.links.get_info(raw)
            if first.type != second.type:
                self.differ(below, f"link {first.type} / {second.type}")
            elif first.type == h5py.h5l.TYPE_HARD:
                try:
                    found = old[name]
                except Exception:
                    self.unreadable += 1
                    continue
                if len(below) < 400:
                    self.walk(below, found, new[name])
            elif first.type in (h5py.h5l.TYPE_SOFT, h5py.h5l.TYPE_EXTERNAL):
                one, other = old.id.links.get_val(raw), new.id.links.get_val(raw)
                if one != other:
                    self.differ(below, f"link {one!r} / {other!r}")

    def is_missing(self, path: str, name: bytes) -> bool:
        """True if the object was left out, under this name or another."""
        below = f"{path.rstrip('/')}/{name.decode('utf-8', 'surrogateescape')}"
        return below in self.missing or self.place(below) in {self.place(other) for other in self.missing}

    def place(self, path: str) -> Any:
        """Returns the address of an object, also of one that cannot be opened."""
        parent, _, name = path.rpartition("/")
        with contextlib.suppress(Exception):
            return self.old[parent or "/"].id.links.get_info(name.encode("utf-8", "surrogateescape")).u
        return path

    def compare_types(self, where: str, old: Any, new: Any) -> bool:
        try:
            same = old.equal(new)
        except Exception:
            self.unreadable += 1
            return False
        if not same:
            self.differ(where, "datatype")
        return bool(same)

    def compare_attributes(self, path: str, old: Any, new: Any) -> None:
        try:
            count = h5py.h5a.get_num_attrs(old.id)
            names = [h5py.h5a.open(old.id, index=n).name for n in range(count)]
        except Exception:
            self.unreadable += 1
            return
        others = [h5py.h5a.open(new.id, index=n).name for n in range(h5py.h5a.get_num_attrs(new.id))]
        if sorted(names) != sorted(others):
            self.differ(path, f"attributes {sorted(set(names) ^ set(others))}")
        for name in names:
            where = f"{path}@{name.decode('utf-8', 'replace')}"
            if name not in others:
                continue
            self.attributes += 1
            first, second = h5py.h5a.open(old.id, name), h5py.h5a.open(new.id, name)
            self.compare_types(where, first.get_type(), second.get_type())
            self.compare_spaces(where, first.get_space(), second.get_space())
            if risky(first.get_type()):
                self.unreadable += 1
                continue
            text = name.decode("utf-8", "surrogateescape")
            self.compare_values(where, lambda t=text: old.attrs[t], lambda t=text: new.attrs[t])

    def compare_spaces(self, where: str, old: Any, new: Any) -> None:
        kinds = old.get_simple_extent_type(), new.get_simple_extent_type()
        if kinds[0] != kinds[1]:
            self.differ(where, f"extent {kinds}")
        elif kinds[0] == h5s.SIMPLE:
            first = old.get_simple_extent_dims(), old.get_simple_extent_dims(True)
            second = new.get_simple_extent_dims(), new.get_simple_extent_dims(True)
            if first != second:
                self.differ(where, f"extent {first} / {second}")

    def compare_dataset(self, path: str, old: Any, new: Any) -> None:
        self.datasets += 1
        self.compare_types(path, old.id.get_type(), new.id.get_type())
        if old.is_virtual:
            if old.shape != new.shape:
                self.differ(path, f"extent {old.shape} / {new.shape}")
        else:
            self.compare_spaces(path, old.id.get_space(), new.id.get_space())
        if risky(old.id.get_type()):
            self.unreadable += 1
            return
        self.compare_values(path, lambda: old[()], lambda: new[()])
        with contextlib.suppress(Exception):
            fill = old.fillvalue
            if not old.dtype.hasobject and not same_bytes(np.asarray(fill), np.asarray(new.fillvalue)):
                self.differ(path, f"fill value {fill!r} / {new.fillvalue!r}")

    def compare_values(self, where: str, old: Any, new: Any) -> None:
        try:
            expected = old()
        except Exception:
            self.unreadable += 1
            return
        try:
            difference = self.difference(expected, new())
        except Exception as error:
            difference = f"cannot be read: {error!r}"
        if difference:
            self.differ(where, difference)

    def difference(self, old: Any, new: Any) -> str | None:
        """Describes the difference of two values."""
        if isinstance(old, h5py.Empty):
            return None if isinstance(new, h5py.Empty) else "not empty"
        if isinstance(old, h5r.Reference):
            return self.references(old, new)
        if isinstance(old, np.ndarray | np.generic):
            return self.arrays(np.asarray(old), np.asarray(new))
        return None if old == new or (old != old and new != new) else f"value {old!r:.80} / {new!r:.80}"

    def arrays(self, old: Any, new: Any) -> str | None:
        if old.shape != new.shape or old.dtype != new.dtype:
            return f"{old.shape} {old.dtype} / {new.shape} {new.dtype}"
        if old.dtype.names is not None:
            pairs = ((name, self.arrays(old[name], new[name])) for name in old.dtype.names)
            return next((f"member {name}: {found}" for name, found in pairs if found), None)
        if old.dtype.hasobject:
            elements = zip(old.ravel(), new.ravel(), strict=True)
            return next(filter(None, (self.difference(a, b) for a, b in elements)), None)
        return None if same_bytes(old, new) else f"values {old.ravel()[:4]} / {new.ravel()[:4]}"

    def references(self, old: Any, new: Any) -> str | None:
        if old.typecode != new.typecode or bool(old) != bool(new):
            return f"reference {old} / {new}"
        if not old:
            return None
        try:
            target = h5r.dereference(old, self.old.id)
            name = h5r.get_name(old, self.old.id)
        except Exception:
            return None
        found = h5r.dereference(new, self.new.id)
        if name is not None and h5r.get_name(new, self.new.id) != name:
            # A second link to the same object.
            expected = h5o.get_info(self.new[name].id).addr
            if h5o.get_info(found).addr != expected:
                return f"reference to {name!r} / {h5r.get_name(new, self.new.id)!r}"
        if old.typecode == 1 and isinstance(target, h5py.h5d.DatasetID):
            first, second = h5py.Dataset(target).regionref, h5py.Dataset(found).regionref
            if first.selection(old) != second.selection(new):
                return "selection of a region"
            spaces = h5r.get_region(old, self.old.id), h5r.get_region(new, self.new.id)
            if spaces[0].get_select_bounds() != spaces[1].get_select_bounds():
                return "bounds of a region"
        return None


def same_bytes(old: Any, new: Any) -> bool:
    if old.dtype.kind in "fc" and np.array_equal(old, new, equal_nan=True):
        return True
    return bool(old.tobytes() == new.tobytes())


def risky(kind: Any) -> bool:
    """True for sequences of region references, on which h5py crashes."""
    try:
        dtype = kind.dtype
    except Exception:
        return False
    inner = h5py.check_vlen_dtype(dtype)
    return isinstance(inner, np.dtype) and h5py.check_ref_dtype(inner) is h5py.RegionReference


def command(*words: str | Path, folder: Path | None = None) -> dict[str, Any]:
    """Returns the JSON output of `hyperchunk arrow`, or its error."""
    assert HYPERCHUNK, "no hyperchunk command"
    told = subprocess.run(
        [HYPERCHUNK, "arrow", *map(str, words), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    if told.returncode == 0:
        return dict(json.loads(told.stdout))
    return {"failed": told.stderr.strip(), "status": told.returncode}


def roundtrip(path: Path, folder: Path) -> dict[str, Any]:
    exported, back = folder / "exported", folder / "back.h5"
    shutil.rmtree(exported, ignore_errors=True)
    back.unlink(missing_ok=True)
    words: tuple[str | Path, ...] = (
        "export",
        path,
        exported,
        "--keep-going",
        "--most-bytes",
        str(MOST),
        "--index",
        "never",
    )
    out = command(*words, folder=path.parent)
    if "failed" in out:
        return {"export": out}
    told = command("import", exported, back)
    if "failed" in told:
        return {"export": out, "import": told}
    with h5py.File(path, "r") as old, h5py.File(back, "r") as new:
        comparison = Comparison(old, new, {entry["path"] for entry in out["missing"]})
        comparison.walk("/", old["/"], new["/"])
    counts = {key: getattr(comparison, key) for key in ("datasets", "attributes", "links", "unreadable")}
    return {"export": out, "import": told, "differences": comparison.differences, **counts}


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        print(json.dumps({"start": name}), flush=True)
        try:
            told = roundtrip(Path(name), folder)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            told = {"unreadable by h5py": repr(error)}
        print(json.dumps({"path": name, **told}), flush=True)


if __name__ == "__main__":
    main()
