"""Columns of a frame: values as NumPy arrays, with the information that NumPy's dtypes lack."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError, HyperchunkError, LimitError
from hyperchunk.typing import Array

#: Time zone; None for times without one.
Zone: TypeAlias = str | datetime.tzinfo | None


@dataclass(frozen=True)
class Values:
    """Values of some rows of a column.

    `kind` is one of these:

    - ``"plain"``: a NumPy array of numbers, booleans, times or durations; times are UTC if there is a `zone`.
    - ``"text"``: an object array of `str`, None where a text is missing.
    - ``"objects"``: an object array of anything.
    - ``"category"``: numbers of `categories` in `data`, negative where a value is missing.
    - ``"level"``: the same, a level of an index.
    - ``"period"``: numbers of periods of the frequency `freq`.
    - ``"nullable"``: values that are missing where `mask` is true.
    - ``"ragged"``: rows of any length: `data` are the values of all rows one after the other, an array or
      :class:`Values`, and `ends` tells where each row ends.
    """

    data: Any
    kind: str = "plain"
    mask: Array | None = None
    zone: Zone = None
    freq: object = None
    categories: Values | None = None
    ordered: bool = False
    ends: Array | None = None
    #: pandas' dtype; None for the one that pandas infers.
    dtype: str | None = None

    def __len__(self) -> int:
        return len(self.data if self.ends is None else self.ends)

    def take(self, chosen: Array) -> Values:
        """Returns the rows where `chosen` is true, or the rows of the given numbers."""
        if self.ends is not None:
            starts = np.concatenate([[0], self.ends[:-1]]).astype(np.int64)[chosen]
            ends = self.ends.astype(np.int64)[chosen]
            pieces = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
            inside = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
            inner = self.data.take(inside) if isinstance(self.data, Values) else self.data[inside]
            return replace(self, data=inner, ends=np.cumsum(ends - starts))
        return replace(self, data=self.data[chosen], mask=None if self.mask is None else self.mask[chosen])


@dataclass(frozen=True)
class Field:
    """A column of a frame."""

    #: Name of the column in Arrow.
    name: str
    #: Label that the writing program shows: any Python value.
    label: object
    #: True if it is a level of the index.
    is_index: bool = False
    #: Offset between the times of an index.
    freq: object = None


@dataclass(frozen=True)
class Axis:
    """Names of the columns, as pandas has them."""

    #: Values of the labels: one for each level.
    levels: tuple[Values, ...]
    #: Names of the levels.
    names: tuple[object, ...]
    #: True if labels are tuples.
    is_multi: bool = False
    #: Number of labels at the start that pandas has made levels of the index.
    skip: int = 0
    #: Offset between labels that are times.
    freq: object = None


@contextmanager
def consistent(where: str) -> Iterator[None]:
    """Converts the errors of NumPy and pandas about inconsistent data to an error about the file.

    Raises:
        CorruptError: Parts of the object are inconsistent.
        LimitError: The object needs more memory than there is.
    """
    try:
        yield
    except HyperchunkError:
        raise
    except MemoryError as error:
        raise LimitError(f"cannot read the object: it needs more memory than there is ({where})") from error
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError) as error:
        reason = printable(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise CorruptError(f"cannot read the object: its parts do not fit together: {reason} ({where})") from error


class Source:
    """Columns of equal length, read on demand. The base class of each format's reader."""

    #: All columns, the index first.
    fields: list[Field]
    #: Number of rows.
    num_rows: int
    #: Number of rows that are stored, and so read, together.
    chunk_rows: int = 1
    #: Names of the columns, if they are not plain text.
    axis: Axis | None = None
    #: True for a series: one column, which is shown without a frame.
    is_series: bool = False
    #: Name of that column.
    series_name: object = None
    #: Name of the format, and names of the object and its file, for messages.
    format: str = ""
    where: str = "in memory"

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        """Returns the values of columns, by their numbers in `fields`, of the rows from `start` to `stop`."""
        raise NotImplementedError


@dataclass
class Unique:
    """Names in Arrow for labels: the label as text, made unique."""

    taken: set[str] = field(default_factory=set)

    def name(self, label: object, otherwise: str) -> str:
        """Returns the name of a label; `otherwise` if the label is None."""
        wanted = otherwise if label is None else label if isinstance(label, str) else str(label)
        found, number = wanted, 1
        while found in self.taken:
            found, number = f"{wanted}_{number}", number + 1
        self.taken.add(found)
        return found


def decode_texts(stored: Array, encoding: str = "utf-8", errors: str = "strict") -> Array:
    """Returns an object array of texts for an array of fixed-length or variable-length strings."""
    flat = stored.ravel()
    if flat.dtype.kind == "S" and len(flat):
        try:
            # ASCII, the usual case, in one step.
            return flat.astype(f"U{max(flat.dtype.itemsize, 1)}").astype("O").reshape(stored.shape)
        except UnicodeDecodeError:
            pass
    found = np.empty(flat.shape, "O")
    found[:] = [value.decode(encoding, errors) if isinstance(value, bytes) else value for value in flat.tolist()]
    return found.reshape(stored.shape)


def is_missing(value: object) -> bool:
    """Returns whether an object stands for a missing value: None, NaN, and pandas' NA and NaT."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
