"""The netCDF-4 view of HDF5 files: variables with named dimensions.

Source: *NetCDF-4 Format Specification* (dimension scales, ``_Netcdf4Dimid``, ``_Netcdf4Coordinates``); h5netcdf's
names for anonymous dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from functools import cached_property

import numpy as np

from hyperchunk.dataset import Dataset
from hyperchunk.dtypes import Empty, check_string_dtype, check_vlen_dtype
from hyperchunk.exceptions import HyperchunkError, LeftOutWarning, NotFoundError, ObjectNotFoundError, ReadError
from hyperchunk.group import Group as HDF5Group
from hyperchunk.objects import HLObject
from hyperchunk.references import Reference
from hyperchunk.typing import AttributeValue, Member

# Attributes reserved for netCDF or dimension scales.
HIDDEN = frozenset(
    {
        "CLASS",
        "DIMENSION_LABELS",
        "DIMENSION_LIST",
        "NAME",
        "REFERENCE_LIST",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_nc3_strict",
    }
)
NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
NOT_A_COORDINATE = "_nc4_non_coord_"


class DimensionError(HyperchunkError, ValueError):
    """The dimensions of a variable cannot be determined."""


def attributes(found: HLObject) -> dict[str, AttributeValue]:
    """Returns the attributes of an object in netCDF's form: text decoded, single values as scalars."""
    plain = {}
    for name in found.attrs:
        if name in HIDDEN:
            continue
        try:
            plain[name] = _plain(found.attrs[name])
        except ReadError:
            raise
        except (HyperchunkError, TypeError, ValueError) as error:
            left_out(f"the attribute {name!r} of {found.name}", str(error))
    return plain


def left_out(what: str, why: str) -> None:
    """Warns that a part of a file is omitted, since netCDF or xarray cannot represent it."""
    warnings.warn(f"{what} is left out: {why}", LeftOutWarning, stacklevel=3)


def members(found: HDF5Group) -> Iterator[tuple[str, Member]]:
    """Iterates over the members of a group that can be opened. Dangling links, user-defined links and damaged objects
    are omitted with a warning.
    """
    for name in found:
        try:
            yield name, found[name]
        except ReadError:
            raise
        except (HyperchunkError, TypeError, ValueError) as error:
            is_dangling = isinstance(error, NotFoundError | ObjectNotFoundError)
            why = f"it is a dangling link: {error}" if is_dangling else str(error)
            left_out(f"{(found.name or '').rstrip('/')}/{name}", why)


def references(listed: AttributeValue, axis: int) -> list[Reference]:
    """Returns the scales of an axis from an attribute DIMENSION_LIST: sequences of references, or one reference for
    each axis, as some writers store it.
    """
    if listed is None:
        return []
    if isinstance(listed, Reference):
        listed = [listed]
    if axis >= len(listed):
        return []
    of_axis = listed[axis]
    if isinstance(of_axis, Reference):
        return [of_axis] if of_axis else []
    return [reference for reference in of_axis if isinstance(reference, Reference) and reference]


def _plain(value: AttributeValue) -> AttributeValue:
    if isinstance(value, Empty):
        return "" if value.dtype.kind in "SOU" else np.array([], value.dtype)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "S":
            value = np.char.decode(value, "utf-8", "surrogateescape").astype(object)
        if value.dtype.kind == "O":
            texts = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for v in value.flat]
            return texts[0] if len(texts) == 1 else texts
        if value.shape == (1,):
            return value[0]
    return value


class Group:
    """A group of a netCDF-4 file: `variables`, `dimensions` (name → length, without the enclosing groups'), `groups`.

    Args:
        found: The HDF5 group.
        parent: The enclosing group.
        phony_dims: Handling of anonymous dimensions. ``"access"`` and ``"sort"`` number them by their lengths, in each
            group, in the order of the variables; ``None`` makes them an error.
        paths: Paths of the datasets that can be variables, here and below; None for all. The others are left out with a
            warning.

    Example:
        >>> with hyperchunk.open("a.nc", "w") as file:
        ...     file["time"] = numpy.arange(3.0)
        ...     file["time"].make_scale()
        ...     file["t"] = numpy.zeros(3)
        ...     file["t"].dims[0].attach_scale(file["time"])
        >>> group = hyperchunk.netcdf.Group(hyperchunk.open("a.nc"))
        >>> group.dimensions, group.variables["t"].dimensions
        ({'time': 3}, ('time',))
    """

    def __init__(
        self,
        found: HDF5Group,
        parent: Group | None = None,
        phony_dims: str | None = "access",
        paths: Collection[str] | None = None,
    ) -> None:
        self.hdf5 = found
        self.parent = parent
        self.phony_dims = phony_dims
        self._paths: Collection[str] | None = paths if parent is None else parent._paths
        self._phony: list[tuple[int, str]] = []
        self._members = list(members(found))
        self._datasets = [
            (name, item) for name, item in self._members if isinstance(item, Dataset) and _is_variable(item)
        ]

    @property
    def path(self) -> str:
        """Path of the group."""
        return self.hdf5.name or "/"

    @cached_property
    def attrs(self) -> dict[str, AttributeValue]:
        """Attributes in netCDF's form: text decoded, single values as scalars."""
        return attributes(self.hdf5)

    @cached_property
    def _scales(self) -> dict[bytes, str]:
        """Dimension scales of this group: reference → name."""
        found: dict[bytes, str] = {}
        for name, dataset in self._datasets:
            if _text(dataset.attrs.get("CLASS")) == b"DIMENSION_SCALE":
                found[dataset.ref._raw] = name.removeprefix(NOT_A_COORDINATE)
        return found

    @cached_property
    def _by_id(self) -> dict[int, str]:
        """Dimensions of this group and the enclosing ones, by netCDF's dimension id."""
        found = dict(self.parent._by_id) if self.parent else {}
        for _, dataset in self._datasets:
            if dataset.ref._raw in self._scales and "_Netcdf4Dimid" in dataset.attrs:
                number = int(np.ravel(dataset.attrs["_Netcdf4Dimid"])[0])
                # A multi-dimensional coordinate variable repeats the id of its first dimension.
                if "_Netcdf4Coordinates" not in dataset.attrs or number not in found:
                    found[number] = self._scales[dataset.ref._raw]
        return found

    def _scale(self, raw: bytes) -> str | None:
        return self._scales.get(raw) or (self.parent._scale(raw) if self.parent else None)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Variables by name, without datasets that only represent a dimension."""
        found = {}
        for name, dataset in self._datasets:
            if dataset.ref._raw in self._scales and _text(dataset.attrs.get("NAME")).startswith(NOT_A_VARIABLE):
                continue
            if self._paths is not None and dataset.name not in self._paths:
                left_out(str(dataset.name), self._why_unlisted(dataset))
                continue
            shown = name.removeprefix(NOT_A_COORDINATE)
            found[shown] = Variable(self, shown, dataset, self._find_dimensions(name, dataset))
        return found

    def _why_unlisted(self, dataset: Dataset) -> str:
        """Returns the reason why a dataset is not among the paths, which have only one name of each dataset."""
        found = next((path for path in self._paths or () if self.hdf5.file.get(path) == dataset), None)
        return "the collection does not have it" if found is None else f"it is a second name of {found}"

    def _named_dimensions(self, dataset: Dataset) -> tuple[str | None, ...]:
        """Returns the names of a dataset's dimensions; None for an anonymous one."""
        shape = dataset.shape or ()
        if not shape:
            return ()
        attrs = dataset.attrs
        if "_Netcdf4Coordinates" in attrs:
            numbers = np.ravel(attrs["_Netcdf4Coordinates"])
            names = [self._by_id.get(int(number)) for number in numbers]
            if len(names) == len(shape) and all(names):
                return tuple(str(n) for n in names)
        if dataset.ref._raw in self._scales:
            own = self._scales[dataset.ref._raw]
            return (own, *(None for _ in shape[1:]))
        listed = attrs.get("DIMENSION_LIST")
        # If an axis has several scales, the last one is used, as by the netCDF library.
        scales = (reversed(references(listed, axis)) for axis in range(len(shape)))
        return tuple(next(filter(None, (self._scale(r._raw) for r in of_axis)), None) for of_axis in scales)

    def _find_dimensions(self, name: str, dataset: Dataset) -> tuple[str, ...]:
        dimensions: list[str] = []
        for found, length in zip(self._named_dimensions(dataset), dataset.shape or (), strict=True):
            there = None if found is None or found in self.unlimited else self._scale_length(found)
            if there is not None and there != length:
                why = (
                    f"its scale has {there} elements, but the variable has {length}; a dimension without a name is used"
                )
                left_out(f"the dimension {found!r} of {dataset.name}", why)
                found = None
            dimensions.append(found or self._unnamed(name, length, dimensions))
        return tuple(dimensions)

    @cached_property
    def _scale_lengths(self) -> dict[str, int]:
        """Lengths of the dimension scales of this group."""
        scales = ((self._scales.get(dataset.ref._raw), dataset.shape) for _, dataset in self._datasets)
        return {name: shape[0] for name, shape in scales if name is not None and shape}

    def _scale_length(self, dimension: str) -> int | None:
        found = self._scale_lengths.get(dimension)
        return self.parent._scale_length(dimension) if found is None and self.parent else found

    def _unnamed(self, name: str, length: int, taken: list[str] | None = None) -> str:
        if self.phony_dims is None:
            raise DimensionError(
                f"variable {name!r} has no dimension scale for an axis of length {length}; phony_dims='access' names it"
            )
        for known, phony in self._phony:
            if known == length and phony not in (taken or ()):
                return phony
        root: Group = self
        while root.parent:
            root = root.parent
        number = getattr(root, "_phony_count", 0)
        root._phony_count = number + 1
        self._phony.append((length, f"phony_dim_{number}"))
        return self._phony[-1][1]

    _phony_count: int

    @cached_property
    def dimensions(self) -> dict[str, int]:
        """Dimensions of this group and their lengths."""
        found = dict(self._scale_lengths)
        for variable in self.variables.values():
            for dimension, length in zip(variable.dimensions, variable.hdf5.shape or (), strict=True):
                if any(dimension == phony for _, phony in self._phony):
                    found[dimension] = length
        growing = self._growing & set(found)
        if growing:
            for group in self.walk():
                for length, dimension in group._lengths():
                    if dimension in growing and group._owner(dimension) is self:
                        found[dimension] = max(found[dimension], length)
        return found

    def _lengths(self) -> Iterator[tuple[int, str]]:
        """Iterates over the lengths of this group's datasets along their named dimensions."""
        for _, dataset in self._datasets:
            for name, length in zip(self._named_dimensions(dataset), dataset.shape or (), strict=True):
                if name is not None:
                    yield length, name

    def _owner(self, dimension: str) -> Group | None:
        """Returns the group that defines a dimension visible here."""
        found: Group | None = self
        while found is not None and dimension not in found._scales.values():
            found = found.parent
        return found

    @cached_property
    def _growing(self) -> set[str]:
        """Unlimited dimensions of this group: each is as long as its longest variable, here and below."""
        return {
            self._scales[dataset.ref._raw]
            for _, dataset in self._datasets
            if dataset.ref._raw in self._scales and (dataset.maxshape or (0,))[0] is None
        }

    @cached_property
    def unlimited(self) -> set[str]:
        """Unlimited dimensions of this group and the enclosing ones."""
        around = self.parent.unlimited - set(self._scales.values()) if self.parent else set()
        return around | self._growing

    def length(self, dimension: str) -> int | None:
        """Returns the length of a dimension of this group or the enclosing ones."""
        found = self.dimensions.get(dimension)
        return self.parent.length(dimension) if found is None and self.parent else found

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Iterates over the names and groups directly below this one."""
        for name, item in self._members:
            if not isinstance(item, HDF5Group):
                continue
            around: Group | None = self
            while around is not None and around.hdf5 != item:
                around = around.parent
            if around is not None:
                left_out(f"{self.path.rstrip('/')}/{name}", f"it is a link to {around.path}, a group that contains it")
                continue
            yield name, Group(item, self, self.phony_dims)

    def child(self, path: str) -> Group:
        """Returns the group at a path below this one.

        Raises:
            KeyError: There is no such group.
        """
        found = self
        for name in path.strip("/").split("/"):
            if name:
                item = found.hdf5[name]
                if not isinstance(item, HDF5Group):
                    raise KeyError(f"{item.name} is not a group")
                found = Group(item, found, self.phony_dims)
        return found

    def walk(self) -> Iterator[Group]:
        """Iterates over this group and all groups below it."""
        yield self
        for _, group in self.groups():
            yield from group.walk()


class Variable:
    """A variable: a dataset with named dimensions; made by :attr:`Group.variables`.

    Example:
        >>> with hyperchunk.open("a.nc", "w") as file:
        ...     file["t"] = numpy.zeros((2, 3))
        >>> hyperchunk.netcdf.Group(hyperchunk.open("a.nc")).variables["t"].shape
        (2, 3)
    """

    def __init__(self, group: Group, name: str, dataset: Dataset, dimensions: tuple[str, ...]) -> None:
        self.group = group
        self.name = name
        self.hdf5 = dataset
        self.dimensions = dimensions

    @cached_property
    def attrs(self) -> dict[str, AttributeValue]:
        """Attributes in netCDF's form: text decoded, single values as scalars."""
        return attributes(self.hdf5)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions. Along an unlimited one, other variables may be longer than this one's stored
        extent.
        """
        stored = self.hdf5.shape or ()
        unlimited = self.group.unlimited
        lengths = [self.group.length(d) if d in unlimited else None for d in self.dimensions]
        return tuple(n if m is None else max(n, m) for n, m in zip(stored, lengths, strict=True))


def _is_variable(item: object) -> bool:
    """Returns whether a member can be a variable; warns about a dataset that cannot."""
    if not isinstance(item, Dataset):
        return False
    try:
        if item.shape is None:
            left_out(str(item.name), "its dataspace is null, which xarray cannot represent")
            return False
        dtype = item.dtype
    except ReadError:
        raise
    except (HyperchunkError, TypeError, ValueError) as error:
        left_out(str(item.name), str(error))
        return False
    if check_string_dtype(dtype) is None and check_vlen_dtype(dtype) is not None:
        left_out(str(item.name), "its elements are variable-length sequences, which xarray cannot represent")
        return False
    return True


def _text(value: object) -> bytes:
    """Returns an attribute's value as bytes if it is text, else empty bytes."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return bytes(value) if isinstance(value, bytes) else b""


__all__ = ["DimensionError", "Group", "Variable"]
