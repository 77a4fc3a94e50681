"""Views that read a dataset in another form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import methodcaller
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hyperchunk import values
from hyperchunk.typing import Array, Dtype, Index, Values
from hyperchunk.values import Plan

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset


class AbstractView(ABC):
    """Base class of views that read a dataset in another form."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @property
    @abstractmethod
    def dtype(self) -> Dtype:
        """Dtype of the values that are read."""

    @abstractmethod
    def __getitem__(self, args: Index) -> Values: ...

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def ndim(self) -> int:
        """Number of dimensions of the dataset."""
        return self._dataset.ndim

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent of the dataset."""
        return self._dataset.shape

    @property
    def size(self) -> int | None:
        """Number of elements of the dataset."""
        return self._dataset.size

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(
                f"{type(self).__name__}.__array__ received {copy=} but memory allocation cannot be avoided on read"
            )
        return np.asarray(self[()], dtype=dtype or self.dtype)


class AsTypeView(AbstractView):
    """View whose values are converted on reading."""

    def __init__(self, dataset: Dataset, plan: Plan) -> None:
        super().__init__(dataset)
        self._plan = plan

    def __reduce__(self) -> tuple[object, ...]:
        return methodcaller("astype", self._plan.dtype), (self._dataset,)

    @property
    def dtype(self) -> Dtype:
        """Dtype of the values that are read."""
        return self._plan.dtype

    def __getitem__(self, args: Index) -> Values:
        return self._dataset._read(args if isinstance(args, tuple) else (args,), self._plan)


class AsStrView(AbstractView):
    """View whose strings are decoded on reading."""

    def __init__(self, dataset: Dataset, encoding: str, errors: str) -> None:
        super().__init__(dataset)
        self.encoding = encoding
        self.errors = errors

    @property
    def dtype(self) -> Dtype:
        """Dtype of the values that are read: objects."""
        return np.dtype(object)

    def __getitem__(self, args: Index) -> Values:
        found = self._dataset[args]
        if isinstance(found, bytes):
            return found.decode(self.encoding, self.errors)
        text = np.empty(found.size, dtype=object)
        text[:] = [value.decode(self.encoding, self.errors) for value in found.flat]
        return text.reshape(found.shape)


class FieldsView(AbstractView):
    """View of some members of a compound dataset."""

    def __init__(self, dataset: Dataset, prior: Dtype, names: str | list[str] | tuple[str, ...]) -> None:
        super().__init__(dataset)
        self._single = names if isinstance(names, str) else None
        wanted = [names] if isinstance(names, str) else list(names)
        if prior.names is None:
            raise ValueError("Field names only allowed for compound types")
        for name in wanted:
            if name not in prior.names:
                raise ValueError(f"Field {name} does not appear in this type.")
        members = np.dtype([(name, prior[name]) for name in wanted])
        self._plan = values.plan_as(dataset._data.datatype.description, members)
        self._arguments = (dataset, prior, names)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments

    @property
    def dtype(self) -> Dtype:
        """Dtype of the values that are read."""
        return self._plan.dtype if self._single is None else self._plan.dtype[self._single]

    def __getitem__(self, args: Index) -> Values:
        found = self._dataset._read(args if isinstance(args, tuple) else (args,), self._plan)
        return found if self._single is None else found[self._single]


class ChunkIterator:
    """Iterator over the intersections of a selection with each chunk, as slices."""

    def __init__(
        self,
        shape: tuple[int, ...],
        chunks: tuple[int, ...] | None,
        sel: slice | int | tuple[slice | int, ...] | None = None,
    ) -> None:
        if not chunks:
            raise TypeError("Chunked dataset required")
        if sel is None:
            sel = tuple(slice(0, length) for length in shape)
        elif isinstance(sel, slice | int):
            sel = (sel,)
        if len(sel) != len(shape):
            raise ValueError("Invalid selection - selection region must have same rank as dataset")
        bounds = [_bounds(part, length) for part, length in zip(sel, shape, strict=True)]
        self._bounds = bounds
        self._chunks = chunks
        index_ranges = [
            range(start // side, (stop - 1) // side + 1) for (start, stop), side in zip(bounds, chunks, strict=True)
        ]
        self._chunk_indices = _product(index_ranges)

    def __iter__(self) -> Iterator[tuple[slice, ...]]:
        return self

    def __next__(self) -> tuple[slice, ...]:
        chunk_index = next(self._chunk_indices)
        return tuple(
            slice(max(index * side, start), min((index + 1) * side, stop), 1)
            for index, side, (start, stop) in zip(chunk_index, self._chunks, self._bounds, strict=True)
        )


def _bounds(part: slice | int, length: int) -> tuple[int, int]:
    if isinstance(part, slice):
        start, stop = part.start or 0, part.stop or length
    elif isinstance(part, int):
        start, stop = part, part + 1
    else:
        raise TypeError(f"{part}: Selection object must be a slice or integer")
    if start < 0 or stop > length or stop <= start:
        raise ValueError("Invalid selection - selection region must be within dataset space")
    return start, stop


def _product(ranges: list[range]) -> Iterator[tuple[int, ...]]:
    """Yields all combinations; unlike `itertools.product`, does not expand the ranges to lists."""
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _product(ranges[1:]):
            yield (first, *rest)
