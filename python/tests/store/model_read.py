"""Contents of a file as read by a library, in the model's form."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

if __package__:
    from store.model_tree import described, plain
else:
    from model_tree import described, plain


def same(library: ModuleType, one: Any, other: Any) -> bool:
    """True if two handles are of the same object. (In h5py, types with equal contents compare equal.)"""
    if library.__name__ == "hyperchunk":
        return bool(one == other)
    return bool(library.h5o.get_info(one.id).addr == library.h5o.get_info(other.id).addr)


def tree(library: ModuleType, path: str, **options: Any) -> dict[str, Any]:
    """Returns the contents of a file."""
    with library.File(path, "r", **options) as file:
        return contents(library, file)


def contents(library: ModuleType, file: Any) -> dict[str, Any]:
    """Returns the contents of an open file."""
    found: dict[str, Any] = {}
    objects: list[tuple[Any, list[str]]] = []

    def visit(path: str, thing: Any) -> None:
        attrs = tuple(sorted((name, plain(value)) for name, value in thing.attrs.items()))
        if isinstance(thing, library.Group):
            found[path] = ("group", None, attrs)
            for name in thing:
                below = f"{path.rstrip('/')}/{name}"
                link = thing.get(name, getlink=True)
                if isinstance(link, library.SoftLink):
                    found[below] = ("soft", link.path, ())
                elif isinstance(link, library.ExternalLink):
                    found[below] = ("external", (str(link.filename), link.path), ())
                else:
                    visit(below, thing[name])
            return
        for other, names in objects:
            if same(library, other, thing):
                names.append(path)
                break
        else:
            objects.append((thing, [path]))
        if isinstance(thing, library.Datatype):
            found[path] = ("type", str(thing.dtype), attrs)
        elif thing.shape is None or thing.shape == () or thing.dtype.kind == "O":
            value = thing[()] if thing.dtype.kind != "S" or thing.shape is None else np.array(thing[()], thing.dtype)
            found[path] = ("small", plain(value), attrs)
        else:
            try:
                values = np.asarray(thing[...])
            except OSError as error:
                found[path] = ("refused", str(error), attrs)
            else:
                found[path] = ("dataset", described(values, thing.maxshape), attrs)

    visit("/", file["/"])
    found["<one object>"] = sorted(sorted(names) for _, names in objects if len(names) > 1)
    return found
