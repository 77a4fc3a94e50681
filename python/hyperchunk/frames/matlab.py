"""MATLAB v7.3: arrays, texts, cells, structures, sparse matrices and objects as Python values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError, LimitError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.sparse import Sparse
from hyperchunk.references import Reference
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.matlab_objects import Objects
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject

#: Groups of a file that are not variables.
_HIDDEN = ("#refs#", "#subsystem#")
#: Maximum depth of cells in cells.
_MAX_DEPTH = 100
#: Maximum number of elements of an array that is stored without them, and of rows of a text without columns.
_MAX_EMPTY, _MAX_EMPTY_ROWS = 1 << 40, 1 << 20
_CLASSES = frozenset(
    (
        *("double", "single", "logical", "char", "cell", "struct", "canonical empty"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)


#: Properties of an object, by name. Their types depend on its class.
Properties: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Opaque:
    """An object of a MATLAB class that is not converted to a Python type."""

    #: Name of the class.
    class_name: str
    #: Properties by name; None if they are not known.
    properties: Properties | None


def read(found: HLObject, squeeze: bool = True) -> Any:
    """Returns a variable of a MATLAB file (v7.3) as a Python value; of the file, a dictionary of all variables.

    Numeric and logical arrays are NumPy arrays with MATLAB's shape, so that ``a[i, j]`` is MATLAB's ``a(i+1, j+1)``.
    Character arrays are `str`, or a list of a `str` for each row. Cell arrays are lists, structures dictionaries, and
    structure arrays lists of dictionaries; with more than one dimension, object arrays. Sparse matrices are SciPy's if
    SciPy is installed. Objects: `string` is `str` or an array of them, `datetime` and `duration` arrays of
    ``datetime64`` and ``timedelta64``, `categorical` :class:`pandas.Categorical`, `table` and `timetable`
    :class:`hyperchunk.frames.Frame`, `containers.Map` and `dictionary` dictionaries; others are :class:`Opaque`.

    Args:
        found: A file, a group or a dataset.
        squeeze: Drop dimensions of length 1: a row or a column is a one-dimensional array, a single number a scalar.

    Raises:
        UnsupportedError: The file has an object in an unknown form.
        CorruptError: A part is missing.
    """
    from hyperchunk.group import Group

    reader = Reader(found, squeeze)
    if isinstance(found, Group) and "MATLAB_class" not in found.attrs:
        return {name: reader.value(member) for name, member in found.items() if name not in _HIDDEN}
    return reader.value(found)


class Reader:
    """Reads the values of a file, each object once."""

    def __init__(self, found: HLObject, squeeze: bool) -> None:
        self.file = found.file
        self.squeeze = squeeze
        self._known: dict[int, object] = {}
        self._open: set[int] = set()
        self._objects: Objects | None = None
        #: True while properties of objects are read, in which arrays of numbers may stand for objects.
        self.in_properties = False

    def value(self, found: HLObject) -> object:
        """Returns the value of an object."""
        from hyperchunk.dataset import Dataset
        from hyperchunk.group import Group

        address = found._object.address
        if address in self._known:
            return self._known[address]
        if address in self._open:
            raise UnsupportedError(f"cannot read a value that contains itself ({attributes.where(found)})")
        if len(self._open) >= _MAX_DEPTH:
            raise LimitError(f"cannot read cells that are nested {_MAX_DEPTH} deep ({attributes.where(found)})")
        self._open.add(address)
        try:
            if isinstance(found, Dataset):
                made = self._dataset(found)
            elif isinstance(found, Group):
                made = self._group(found)
            else:
                raise CorruptError(f"expected a value of MATLAB, got a datatype ({attributes.where(found)})")
        finally:
            self._open.discard(address)
        self._known[address] = made
        return made

    @property
    def objects(self) -> Objects:
        """Objects of classes, in the file's subsystem."""
        if self._objects is None:
            from hyperchunk.frames.matlab_objects import Objects

            self._objects = Objects(self)
        return self._objects

    # --- Datasets ---

    def _dataset(self, found: Dataset) -> object:
        kind = attributes.text(found, "MATLAB_class") or ""
        decode = found.attrs.get("MATLAB_object_decode")
        if (decode is not None and int(decode) == 3) or attributes.text(found, "MATLAB_class") == "FileWrapper__":
            return self.objects.value(found, kind)
        shape = self._empty_shape(found)
        if shape is not None:
            return self._empty(kind, shape, found)
        if kind == "char":
            return self._text(np.asarray(found[()]))
        if kind == "cell" or _is_references(found):
            return self._cells(found)
        if decode is not None or (kind not in _CLASSES and kind):
            return Opaque(kind, None)
        if self.in_properties and kind == "uint32" and self.objects.stands_for_objects(found):
            return self.objects.value(found, "object")
        return self.squeezed(self._numbers(found, kind))

    def _empty_shape(self, found: Dataset) -> tuple[int, ...] | None:
        """Returns the shape of an array without elements, which is stored as its shape."""
        if not found.attrs.get("MATLAB_empty", 0):
            return None
        shape = tuple(int(length) for length in np.asarray(found[()]).ravel())
        size = 1
        for length in shape:
            size *= max(length, 1)
        if len(shape) > 32 or size > _MAX_EMPTY:
            raise CorruptError(f"expected the shape of an empty array, got {shape[:32]} ({attributes.where(found)})")
        return shape

    def _empty(self, kind: str, shape: tuple[int, ...], found: Dataset) -> object:
        if kind == "char":
            rows = shape[0] if len(shape) > 1 else 1
            if rows > _MAX_EMPTY_ROWS:
                raise LimitError(
                    f"cannot read {rows} empty texts: more than {_MAX_EMPTY_ROWS} ({attributes.where(found)})"
                )
            return "" if rows <= 1 else [""] * rows
        if kind == "cell":
            return []
        if kind == "struct":
            # A structure without fields, or an array without structures.
            return {} if np.prod(shape) == 1 else []
        if kind == "canonical empty":
            return np.zeros((0, 0))
        if kind not in _CLASSES:
            return Opaque(kind, None)
        names = {"double": "f8", "single": "f4", "logical": "bool"}
        dims = shape if 0 in shape else (0, *shape)
        return np.zeros(dims, names.get(kind, kind))

    def _numbers(self, found: Dataset, kind: str) -> Array:
        stored = np.asarray(found[()])
        if stored.dtype.names is not None and set(stored.dtype.names) == {"real", "imag"}:
            part = np.result_type(stored.dtype["real"], np.float32)
            made = np.empty(stored.shape, np.result_type(part, np.complex64))
            made.real, made.imag = stored["real"], stored["imag"]
            stored = made
        if kind == "logical":
            stored = stored.astype(bool)
        return stored.T

    def squeezed(self, array: Array) -> object:
        """Returns an array without its dimensions of length 1; a single element as a scalar."""
        if not self.squeeze or array.size == 0:
            return array
        found = np.squeeze(array)
        return found if found.ndim else found[()]

    def _text(self, stored: Array) -> str | list[str]:
        codes = stored.T
        if codes.ndim < 2:
            codes = codes.reshape(1, -1)
        rows = (
            codes.reshape(-1, codes.shape[-1])
            if codes.ndim == 2
            else np.moveaxis(codes, 1, -1).reshape(-1, codes.shape[1])
        )
        found = [_units(row) for row in rows]
        return found[0] if len(found) == 1 else found

    def _cells(self, found: Dataset) -> list[object] | Array:
        references = np.asarray(found[()], "O").T
        made = np.empty(references.shape, "O")
        for number, reference in enumerate(references.flat):
            made.flat[number] = self.referred(reference, found)
        if made.ndim <= 1 or made.size in made.shape:
            return list(made.ravel())
        return made

    def referred(self, reference: object, owner: HLObject) -> object:
        """Returns the value that a reference points to."""
        if not isinstance(reference, Reference):
            raise CorruptError(f"expected references, got a {type(reference).__name__} ({attributes.where(owner)})")
        return self.value(self.file[reference])

    # --- Groups ---

    def _group(self, found: Group) -> object:
        kind = attributes.text(found, "MATLAB_class") or "struct"
        if "MATLAB_sparse" in found.attrs:
            return self._sparse(found, kind)
        if kind == "function_handle":
            return self._function(found)
        names = self._field_names(found)
        members = {name: found[name] for name in names}
        columns = {name: member for name, member in members.items() if _is_field_of_array(member)}
        if members and len(columns) == len(members):
            return self._structures(found, columns, kind)
        values = {name: self.value(member) for name, member in members.items()}
        return values if kind == "struct" else Opaque(kind, values)

    def _field_names(self, found: Group) -> list[str]:
        """Returns the names of fields, in MATLAB's order."""
        stored = found.attrs.get("MATLAB_fields")
        present = list(found)
        if stored is None:
            return present
        if isinstance(first := np.atleast_1d(stored).ravel()[0], Reference):
            # A long list of names is in a dataset of its own.
            stored = self.file.dataset(first)[()]
        names = [
            b"".join(np.asarray(name).ravel().tolist()).decode("utf-8", "replace") for name in np.atleast_1d(stored)
        ]
        known = set(present)
        ordered = [name for name in dict.fromkeys(names) if name in known]
        return [*ordered, *(name for name in present if name not in set(ordered))]

    def _structures(self, found: Group, members: dict[str, Dataset], kind: str) -> list[object] | Array:
        """Returns an array of structures: each field is a dataset of references."""
        shapes = {member.shape for member in members.values()}
        if len(shapes) != 1:
            raise CorruptError(
                f"expected fields of one extent, got {sorted(map(str, shapes))} ({attributes.where(found)})"
            )
        columns = {name: np.asarray(member[()], "O").T for name, member in members.items()}
        shape = next(iter(columns.values())).shape
        made = np.empty(shape, "O")
        for number in range(made.size):
            values = {name: self.referred(column.flat[number], found) for name, column in columns.items()}
            made.flat[number] = values if kind == "struct" else Opaque(kind, values)
        return list(made.ravel()) if made.ndim <= 1 or made.size in made.shape else made

    def _sparse(self, found: Group, kind: str) -> object:
        from hyperchunk.dataset import Dataset

        rows = int(np.asarray(found.attrs["MATLAB_sparse"]).ravel()[0])
        pointers = found.get("jc")
        if not isinstance(pointers, Dataset):
            raise CorruptError(f"expected a sparse matrix with `jc`, got none ({attributes.where(found)})")
        positions = np.asarray(pointers[()]).astype(np.int64).ravel()
        columns = len(positions) - 1
        data, indices = found.get("data"), found.get("ir")
        if not isinstance(data, Dataset) or not isinstance(indices, Dataset):
            values: Array = np.zeros(0, "bool" if kind == "logical" else "f8")
            row_indices: Array = np.zeros(0, np.int64)
        else:
            values = self._numbers(data, kind).ravel()
            row_indices = np.asarray(indices[()]).astype(np.int64).ravel()
        ends = positions.tolist()
        outside = row_indices.size and not 0 <= row_indices.max() < rows
        if rows < 0 or ends != sorted(ends) or ends[-1] > len(values) or outside:
            raise CorruptError(
                f"expected a sparse matrix of {rows} rows, got positions outside of it ({attributes.where(found)})"
            )
        return Sparse("csc", (rows, columns), values, row_indices, positions).or_scipy()

    def _function(self, found: Group) -> Opaque:
        """Returns a function handle: the text of the function, and the variables that it captured."""
        values: Properties = {}
        for name, member in found.items():
            try:
                values[name] = self.value(member)
            except (UnsupportedError, CorruptError):
                # Captured variables that cannot be read are left out.
                continue
        return Opaque("function_handle", values)


def _units(row: Array) -> str:
    """Returns the text of UTF-16 code units."""
    return np.ascontiguousarray(row, "<u2").tobytes().decode("utf-16-le", "surrogatepass")


def _is_references(found: Dataset) -> bool:
    return bool(found._data.datatype.description[0] == "reference")


def _is_field_of_array(member: HLObject) -> TypeGuard[Dataset]:
    """Returns whether an object is a field of an array of structures: references without a class."""
    from hyperchunk.dataset import Dataset

    return isinstance(member, Dataset) and "MATLAB_class" not in member.attrs and _is_references(member)


def describe(value: object) -> str:
    """Returns the class of a value, for messages."""
    return printable(value.class_name) if isinstance(value, Opaque) else type(value).__name__
