"""Groups and arrays of a file or a collection, as Zarr shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

from hyperchunk import netcdf
from hyperchunk.collection import Collection
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.file import File
from hyperchunk.zarr.arrays import FileDataset, Source, Strings, ZarrArray
from hyperchunk.zarr.attributes import Json, attributes, without_odd_fill
from hyperchunk.zarr.times import Times

#: A file that is open for reading, or a collection.
Shown: TypeAlias = File | Collection


class Tree:
    """The groups and arrays of a file or a collection. Paths have no slash at their ends; the root group's is empty.

    Args:
        shown: The file or the collection.
        strings: Form of variable-length strings.
        stored: False to decode all chunks.
    """

    def __init__(self, shown: Shown, strings: Strings = "text", stored: bool = True) -> None:
        self.shown = shown
        self._strings: Strings = strings
        self._stored = stored
        found = netcdf.Group(shown.file(0), paths=shown) if isinstance(shown, Collection) else netcdf.Group(shown)
        self._groups = dict(_named(found))
        self._arrays: dict[str, ZarrArray | None] = {}

    @property
    def groups(self) -> list[str]:
        """Paths of the groups."""
        return list(self._groups)

    def attributes(self, group: str) -> dict[str, Json]:
        """Returns the attributes of a group."""
        return attributes(self._groups[group].hdf5)

    def names_of_attributes(self, path: str) -> list[str]:
        """Returns the names of the attributes of a group or an array."""
        array = self.array(path)
        return list(self.attributes(path) if array is None else array.attributes)

    @cached_property
    def _variables(self) -> dict[str, netcdf.Variable]:
        return {
            f"{path}/{name}".lstrip("/"): variable
            for path, group in self._groups.items()
            for name, variable in group.variables.items()
            if _is_name(name, str(variable.hdf5.name))
        }

    def arrays(self) -> Iterator[tuple[str, ZarrArray]]:
        """Iterates over the arrays and their paths. Warns about datasets that Zarr cannot represent."""
        for path in self._variables:
            found = self.array(path)
            if found is not None:
                yield path, found

    def array(self, path: str) -> ZarrArray | None:
        """Returns an array; None if it does not exist."""
        if path not in self._arrays:
            self._arrays[path] = self._make(path)
        return self._arrays[path]

    def _make(self, path: str) -> ZarrArray | None:
        variable = self._variables.get(path)
        if variable is None:
            return None
        try:
            source = self._source(variable)
            told = without_odd_fill(attributes(variable.hdf5), variable.hdf5, source.dtype)
            return ZarrArray(source, variable.dimensions, told, self._strings, self._stored)
        except UnsupportedError as error:
            netcdf.left_out(str(variable.hdf5.name), str(error))
            return None

    def _source(self, variable: netcdf.Variable) -> Source:
        if isinstance(self.shown, File):
            return FileDataset(variable.hdf5, variable.shape)
        return self._times.joined(variable) or self.shown[str(variable.hdf5.name)]

    @cached_property
    def _times(self) -> Times:
        assert isinstance(self.shown, Collection)
        return Times(self.shown)


def _named(group: netcdf.Group, path: str = "") -> Iterator[tuple[str, netcdf.Group]]:
    """Iterates over a group and those below it that have names that Zarr allows."""
    yield path, group
    for name, inner in group.groups():
        if _is_name(name, inner.path):
            yield from _named(inner, f"{path}/{name}".lstrip("/"))


def _is_name(name: str, path: str) -> bool:
    """Returns whether Zarr allows a name; warns otherwise."""
    try:
        name.encode()
        fine = "\\" not in name and name.strip(".") != "" and not name.startswith("__") and name != "zarr.json"
    except UnicodeEncodeError:
        fine = False
    if not fine:
        netcdf.left_out(path, "Zarr does not allow this name")
    return fine


__all__ = ["Shown", "Tree"]
