"""Walks through a file: prints a tree, counts, finds by a condition, and turns groups into dictionaries."""

import h5py
import numpy as np

with h5py.File("tree.h5", "w") as file:
    file.attrs["title"] = "tree"
    for path, value in {"a/x": 1, "a/b/y": [1.5, 2], "c": "text", "a/b/d/z": np.zeros((2, 3), "u2")}.items():
        file[path] = value
        file[path].attrs["path"] = path
    file.create_group("empty")
    file["again"] = file["a/b"]
    file["type"] = np.dtype("i4")


def show(name, item):
    level = name.count("/")
    text = f"{item.shape} {item.dtype}" if isinstance(item, h5py.Dataset) else type(item).__name__
    print("  " * level + name.split("/")[-1], text, dict(item.attrs), item.name)


def tree(group, indent=""):
    for name, item in group.items():
        print(indent + name, item)
        if isinstance(item, h5py.Group):
            tree(item, indent + "  ")


def values(group):
    return {
        name: values(item) if isinstance(item, h5py.Group) else item[()] if hasattr(item, "shape") else item.dtype
        for name, item in group.items()
    }


with h5py.File("tree.h5") as file:
    print(file.visititems(show), file.visit(print))
    print(file.visit(lambda name: name if name.endswith("z") else None))
    print(file.visititems(lambda name, item: item if isinstance(item, h5py.Dataset) and item.ndim == 2 else None))
    tree(file)
    print(values(file))
    found = []
    file["a"].visititems(lambda name, item: found.append((name, isinstance(item, h5py.Group))))
    print(found, list(file["a"].items()), list(file.values()), list(file["empty"]), bool(file["empty"]))
    print(file.keys(), file["a"].keys(), file.items(), "a/b" in file, file.get("nope"), file.get("nope", 3))
    print([name for name in file if isinstance(file[name], h5py.Dataset)], max(file), sorted(file, reverse=True)[0])
    print(sorted(file.keys() | {"other"}), file.keys() & {"a", "q"}, ("c" in file), len(file.values()))
    try:
        file.visit(lambda name: 1 / 0)
    except ZeroDivisionError as error:
        print(type(error).__name__)
    print(
        file == file["/"],
        file["a"] == file["a"],
        file["a"] != file["a/b"],
        hash(file["a"]) == hash(file["a"]),
        {file["a"]: 1}[file["a"]],
    )
    print(repr(file["a"]), repr(file["c"]), repr(file["type"]), file["a/b/d/z"].file == file, repr(file.attrs))
print(file, bool(file))
