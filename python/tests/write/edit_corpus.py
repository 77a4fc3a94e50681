"""Edits copies of files, and compares everything else in them, before and after, by h5py.

`python edit_corpus.py FOLDER FILE…` prints a line of JSON for each file: what was edited, why not, or what differs.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np


def digest(value: Any) -> str:
    """Returns a digest of a value that h5py read."""
    array = np.asarray(value)
    plain = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return hashlib.sha256(plain).hexdigest()[:16]


def attempt(read: Any) -> Any:
    """Returns what a function returns, or the kind of error that it raises."""
    try:
        return read()
    except Exception as error:
        return type(error).__name__


def stored(dataset: Any) -> list[Any]:
    """Returns the stored chunks of a dataset."""
    count = dataset.id.get_num_chunks()
    infos = [dataset.id.get_chunk_info(number) for number in range(min(count, 2000))]
    chunks = [(info.chunk_offset, info.filter_mask, info.size) for info in infos]
    return [count, hashlib.sha256(repr(sorted(chunks)).encode()).hexdigest()[:16]]


def attributes(item: Any) -> dict[str, Any]:
    """Returns digests of the attributes of an object."""
    names = attempt(lambda: list(item.attrs))
    if not isinstance(names, list):
        return {"": names}
    return {name: attempt(lambda name=name: digest(item.attrs[name])) for name in names}


def contents(path: Path) -> dict[str, Any]:
    """Returns digests of all objects, links and attributes of a file."""
    found: dict[str, Any] = {}
    seen: set[Any] = set()

    def visit(group: Any, name: str) -> None:
        keys = attempt(lambda: sorted(group))
        if isinstance(keys, str):
            found[name]["error"] = keys
            return
        for key in keys:
            place = f"{name.rstrip('/')}/{key}"
            link = attempt(lambda key=key: group.get(key, getlink=True))
            found[place] = {"link": type(link).__name__, "path": getattr(link, "path", None)}
            if not isinstance(link, h5py.HardLink):
                continue
            item = attempt(lambda key=key: group[key])
            if isinstance(item, str):
                found[place]["error"] = item
                continue
            number = attempt(lambda item=item: h5py.h5o.get_info(item.id).addr)
            if number in seen:
                continue
            seen.add(number)
            found[place]["attributes"] = attributes(item)
            if isinstance(item, h5py.Group):
                visit(item, place)
            elif isinstance(item, h5py.Dataset):
                found[place]["shape"] = attempt(lambda item=item: [item.shape, item.maxshape, str(item.dtype)])
                found[place]["values"] = attempt(lambda item=item: digest(item[()]))
                if attempt(lambda item=item: item.chunks) is not None:
                    found[place]["chunks"] = attempt(lambda item=item: stored(item))

    with h5py.File(path) as file:
        found["/"] = {"attributes": attributes(file)}
        seen.add(attempt(lambda: h5py.h5o.get_info(file.id).addr))
        visit(file, "/")
    return found


def growing(before: dict[str, Any]) -> str | None:
    """Returns the path of a dataset of numbers with an unlimited first dimension."""
    for name, told in before.items():
        shape = told.get("shape")
        is_read = len(told.get("values", "")) == 16
        if is_read and isinstance(shape, list) and shape[0] and shape[1][0] is None and shape[2][:1] in "iuf<>":
            return name
    return None


def is_same(before: Any, after: Any) -> bool:
    """Returns whether an object is as it was; h5py's errors may change, as memory does that it did not set."""
    if before is None or after is None or before.keys() != after.keys():
        return before == after
    return all(before[key] == after[key] or "Error" in str(before[key]) for key in before)


def edit(path: Path) -> dict[str, Any]:
    """Edits a file: adds an attribute, appends a row, moves a link. Returns the differences that should not be."""
    before = contents(path)
    grown = growing(before)
    links = [name for name in before if name.count("/") == 1 and name != "/" and name != grown]
    moved = next((name for name in links if grown is None or not grown.startswith(name + "/")), None)
    # It stays between its neighbours, so that objects with several links are found by the same ones.
    new_name = f"{moved} moved"
    told: dict[str, Any] = {}
    with hyperchunk.open(path, "r+", sync="never") as file:
        try:
            file.attrs["hyperchunk edited"] = np.arange(5.0)
            if grown is not None:
                dataset = file[grown]
                rows = dataset.shape[0]
                dataset.resize(rows + 1, axis=0)
                told["grown"] = grown
                dataset[rows] = np.ones(dataset.shape[1:], dataset.dtype)
            if moved is not None:
                file.move(moved, new_name)
                told["moved"] = moved
        except (hyperchunk.exceptions.HyperchunkError, TypeError, OSError) as error:
            told["failed"] = f"{type(error).__name__}: {error}"
    after = contents(path)
    new = after["/"]["attributes"].pop("hyperchunk edited", None)
    wrong = [] if new == digest(np.arange(5.0)) or "" in after["/"]["attributes"] else [f"the new attribute: {new}"]

    def renamed(name: str) -> str:
        if "moved" in told and (name == moved or name.startswith(f"{moved}/")):
            return new_name + name[len(moved or "") :]
        return name

    if "grown" in told and "failed" not in told:
        old, grown_now = before.pop(grown), after.pop(renamed(grown))
        if old["attributes"] != grown_now["attributes"]:
            wrong.append(f"{grown}: attributes")
        if grown_now["shape"][0] != (old["shape"][0][0] + 1, *old["shape"][0][1:]):
            wrong.append(f"{grown}: shape {grown_now['shape']}")
        with h5py.File(path) as file:
            data = file[grown]
            if digest(data[:-1]) != old["values"] or not (data[-1] == 1).all():
                wrong.append(f"{grown}: values")
    elif "grown" in told:
        before.pop(grown), after.pop(renamed(grown))
    expected = {renamed(name): item for name, item in before.items()}
    for name in sorted({*expected, *after}):
        if not is_same(expected.get(name), after.get(name)):
            wrong.append(f"{name}: {expected.get(name)} → {after.get(name)}")
    return {"wrong": wrong, **told}


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        print(json.dumps({"start": name}), flush=True)
        copy = folder / "edited.h5"
        shutil.copyfile(name, copy)
        told: dict[str, Any] = {"path": name}
        try:
            told |= edit(copy)
        except (hyperchunk.exceptions.HyperchunkError, OSError) as error:
            told["refused"] = f"{type(error).__name__}: {error}"
            if copy.read_bytes() != Path(name).read_bytes():
                told["wrong"] = ["a refused file changed"]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
