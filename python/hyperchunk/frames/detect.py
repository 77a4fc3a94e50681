"""Detection of the program that wrote an object, by the attributes that it sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperchunk.frames import attributes

if TYPE_CHECKING:
    from hyperchunk.objects import HLObject

#: Classes of PyTables' datasets.
_PYTABLES = ("TABLE", "ARRAY", "CARRAY", "EARRAY", "VLARRAY")


def kind(found: HLObject) -> str | None:
    """Returns the format of an object: ``"pandas"``, ``"anndata"``, ``"nwb"``, ``"nexus"``, ``"keras"``, ``"matlab"``,
    ``"pytables"``, or None if no program is recognised. Reads attributes only.

    Args:
        found: A file, a group or a dataset.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file.attrs["NX_class"] = "NXroot"
        >>> hyperchunk.frames.kind(hyperchunk.open("a.h5"))
        'nexus'
    """
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

    names = set(found.attrs)
    if "pandas_type" in names and isinstance(found, Group):
        return "pandas"
    if "MATLAB_class" in names:
        return "matlab"
    if "neurodata_type" in names or "nwb_version" in names:
        return "nwb"
    if "encoding-type" in names:
        return "anndata"
    if "NX_class" in names:
        return "nexus"
    if isinstance(found, Dataset):
        return "pytables" if _is_pytables(found, names) else None
    if names & {"keras_version", "layer_names", "weight_names"}:
        return "keras"
    if isinstance(found, Group):
        return _kind_of_members(found, names)
    return None


def _is_pytables(found: HLObject, names: set[str]) -> bool:
    return {"CLASS", "VERSION"} <= names and attributes.text(found, "CLASS") in _PYTABLES


def _kind_of_members(group: HLObject, names: set[str]) -> str | None:
    """Recognises the root of a file, or a group of it, by some of its members."""
    from hyperchunk.group import Group

    assert isinstance(group, Group)
    if group.name == "/" and _is_matlab_root(group):
        return "matlab"
    if "PYTABLES_FORMAT_VERSION" in names:
        return "pytables"
    members = set(group) if len(group) <= 64 else set()
    if group.name == "/" and {"obs", "var"} <= members and "encoding-type" in (group["obs"].attrs or ()):
        # AnnData before 0.8 has no attributes at the root.
        return "anndata"
    if {"layers", "_layer_checkpoint_dependencies"} & members and _has_vars(group):
        return "keras"
    return None


def _is_matlab_root(group: HLObject) -> bool:
    """Returns whether one of the first members has MATLAB's attribute, or the file has a group that MATLAB makes."""
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

    assert isinstance(group, Group)
    for number, name in enumerate(group):
        if number == 8:
            break
        link = group.get(name)
        if isinstance(link, Dataset | Group) and "MATLAB_class" in link.attrs:
            return True
    return "#refs#" in group or "#subsystem#" in group


def _has_vars(group: HLObject) -> bool:
    """Returns whether a group of Keras 3 has variables: groups `vars` below it."""
    from hyperchunk.group import Group

    waiting: list[tuple[HLObject, int]] = [(group, 0)]
    seen = 0
    while waiting and seen < 200:
        at, depth = waiting.pop()
        assert isinstance(at, Group)
        seen += 1
        for number, (name, member) in enumerate(at.items()):
            if number == 64:
                break
            if isinstance(member, Group):
                if name == "vars":
                    return True
                if depth < 4:
                    waiting.append((member, depth + 1))
    return False
