"""Sparse matrices, of AnnData and MATLAB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.exceptions import CorruptError
from hyperchunk.frames import attributes
from hyperchunk.typing import Array, Dtype

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group


class Sparse:
    """A sparse matrix in a file, by rows (``"csr"``) or by columns (``"csc"``). A slice reads only that part.

    Example:
        >>> matrix = hyperchunk.frames.read(hyperchunk.open("cells.h5ad")["X"])  # doctest: +SKIP
        >>> matrix[:100]  # doctest: +SKIP
    """

    def __init__(
        self, layout: str, shape: tuple[int, int], data: Dataset | Array, indices: Dataset | Array, pointers: Array
    ) -> None:
        #: ``"csr"`` or ``"csc"``.
        self.layout = layout
        #: Number of rows and of columns.
        self.shape = shape
        self._data, self._indices, self._pointers = data, indices, pointers

    @staticmethod
    def from_group(group: Group, layout: str) -> Sparse:
        """Returns the matrix of a group with `data`, `indices` and `indptr`."""
        from hyperchunk.dataset import Dataset

        parts = [group.get(name) for name in ("data", "indices", "indptr")]
        shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
        where = attributes.where(group)
        found = [part for part in parts if isinstance(part, Dataset)]
        if shape is None or len(found) != len(parts):
            raise CorruptError(f"expected a sparse matrix with data, indices, indptr and a shape ({where})")
        rows, columns = (int(length) for length in np.asarray(shape).ravel())
        data, indices, stored = found
        pointers = np.asarray(stored[()])
        major = rows if layout == "csr" else columns
        if len(pointers) != major + 1 or (np.diff(pointers.astype(np.int64)) < 0).any() or pointers[-1] > len(data):
            raise CorruptError(f"expected {major + 1} increasing positions in `indptr`, got others ({where})")
        return Sparse(layout, (rows, columns), data, indices, pointers)

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype of the elements."""
        return self._data.dtype

    @property
    def nnz(self) -> int:
        """Number of stored elements."""
        return int(self._pointers[-1])

    def parts(self, start: int = 0, stop: int | None = None) -> tuple[Array, Array, Array]:
        """Returns data, indices and positions of rows (of columns in the layout ``"csc"``) from `start` to `stop`."""
        count = len(self._pointers) - 1
        stop = count if stop is None else stop
        pointers = self._pointers[start : stop + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        return np.asarray(self._data[first:last]), np.asarray(self._indices[first:last]), pointers - pointers[0]

    def or_scipy(self) -> Any:
        """Returns the matrix as SciPy's, or this one if SciPy is not installed."""
        try:
            return self.to_scipy()
        except ModuleNotFoundError:
            return self

    def to_scipy(self) -> Any:
        """Returns the matrix as :class:`scipy.sparse.csr_matrix` or :class:`scipy.sparse.csc_matrix`."""
        return self._scipy(0, len(self._pointers) - 1)

    def _scipy(self, start: int, stop: int) -> Any:
        sparse = import_optional("scipy.sparse")
        data, indices, pointers = self.parts(start, stop)
        made = sparse.csr_matrix if self.layout == "csr" else sparse.csc_matrix
        shape = (stop - start, self.shape[1]) if self.layout == "csr" else (self.shape[0], stop - start)
        return made((data, indices, pointers), shape=shape)

    def __getitem__(self, key: slice | int | tuple[Any, ...]) -> Any:
        """Returns a part as a matrix of SciPy: a slice of rows (of columns in ``"csc"``) reads only those."""
        axes = key if isinstance(key, tuple) else (key,)
        axes = (*axes, *[slice(None)] * (2 - len(axes)))
        major = 0 if self.layout == "csr" else 1
        wanted, count = axes[major], self.shape[major]
        if isinstance(wanted, slice) and wanted.step in (None, 1):
            start, stop, _ = wanted.indices(count)
            found = self._scipy(start, max(start, stop))
            rest = (slice(None), axes[1]) if major == 0 else (axes[0], slice(None))
            return found[rest]
        return self.to_scipy()[axes]

    def to_numpy(self) -> Array:
        """Returns the dense matrix."""
        data, indices, pointers = self.parts()
        found = np.zeros(self.shape, self.dtype)
        ends = pointers.astype(np.int64)
        major = np.repeat(np.arange(len(ends) - 1), ends[1:] - ends[:-1])
        rows, columns = (major, indices) if self.layout == "csr" else (indices, major)
        np.add.at(found, (rows, columns), data)
        return found

    def __repr__(self) -> str:
        extent = f"{self.shape[0]} x {self.shape[1]}"
        return f"<hyperchunk.frames.Sparse {self.layout}: {extent}, {self.nnz} elements of {self.dtype}>"
