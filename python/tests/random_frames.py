"""Random frames, for comparison with the libraries that write them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

TEXTS = ("", "a", "a\0b", "nan", "NaN", "zwölf", "日本", "a b", "x" * 30, "_nan_", "0")
ZONES = ("UTC", "Europe/Berlin", "US/Eastern", "+05:30")
# pandas 2 reads times of other units as nanoseconds.
UNITS = ("s", "ms", "us", "ns") if pd.__version__ >= "3" else ("ns",)
NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "f2", "c8", "c16", "b1")
#: Kinds of columns.
COLUMNS = (*NUMBERS, "text", "text with None", "time", "time with zone", "duration", "category", "ordered", "objects")
INDEXES = (
    "range",
    "i8",
    "f8",
    "text",
    "time",
    "time with zone",
    "regular",
    "regular with zone",
    "duration",
    "period",
    "multi",
    "category",
)


def column(rng: np.random.Generator, kind: str, rows: int) -> Any:
    """Returns values of a kind."""
    missing = rng.random(rows) < 0.2
    if kind in NUMBERS:
        dtype = np.dtype(kind)
        if dtype.kind == "b":
            return rng.random(rows) < 0.5
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return rng.integers(limits.min, limits.max, rows, dtype, endpoint=True)
        found = (rng.standard_normal(rows) * 100).astype(dtype)
        found[missing] = np.nan
        return found
    if kind.startswith("text"):
        found = rng.choice(np.array(TEXTS, "O"), rows) if rows else np.zeros(0, "O")
        if kind == "text with None":
            found[missing] = None
        return pd.array(found, dtype=object)
    if kind.startswith("time"):
        unit = str(rng.choice(UNITS))
        found = pd.DatetimeIndex(rng.integers(0, 2_000_000_000, rows).astype("M8[s]").astype(f"M8[{unit}]"))
        found = found.where(~missing) if kind == "time" or rows == 0 else found
        return found.tz_localize("UTC").tz_convert(str(rng.choice(ZONES))) if kind == "time with zone" else found
    if kind == "duration":
        unit = str(rng.choice(UNITS))
        found = pd.TimedeltaIndex(rng.integers(-(10**6), 10**6, rows).astype("m8[s]").astype(f"m8[{unit}]"))
        return found.where(~missing)
    if kind in ("category", "ordered"):
        categories = [["q", "p", "r"], [3, 1, 2], [1.5, 2.5], ["nan", "x"]][int(rng.integers(4))]
        codes = rng.integers(-1, len(categories), rows)
        return pd.Categorical.from_codes(codes, categories=categories, ordered=kind == "ordered")
    assert kind == "objects"
    choices: list[Any] = [1, 2.5, "x", None, b"y", (1, "z"), True]
    found = np.empty(rows, "O")
    for number in range(rows):
        found[number] = choices[int(rng.integers(len(choices)))]
    return found


def index(rng: np.random.Generator, kind: str, rows: int) -> pd.Index:
    """Returns an index of a kind."""
    name = [None, "name", "ö", 5][int(rng.integers(4))]
    if kind == "range":
        return pd.RangeIndex(rows, name=name)
    if kind.startswith("regular"):
        zone = str(rng.choice(ZONES[:3])) if kind == "regular with zone" else None
        freq = str(rng.choice(["D", "h", "min", "MS", "W", "B"]))
        return pd.date_range("2020-01-01", periods=rows, freq=freq, tz=zone, name=name)
    if kind == "period":
        freq = str(rng.choice(["M", "D", "Y", "Q"]))
        return pd.period_range("2020-01", periods=rows, freq=freq, name=name)
    if kind == "multi":
        names = [["k", None], [None, None], ["k", "l"]][int(rng.integers(3))]
        return pd.MultiIndex.from_arrays([column(rng, "text", rows), column(rng, "i4", rows)], names=names)
    return pd.Index(column(rng, kind, rows), name=name)


@st.composite
def frames(draw: Any, columns: tuple[str, ...] = COLUMNS, indexes: tuple[str, ...] = INDEXES) -> pd.DataFrame:
    """Makes frames of random dtypes."""
    rows = draw(st.sampled_from([0, 1, 2, 7, 40]))
    kinds = draw(st.lists(st.sampled_from(columns), max_size=6))
    of_index = draw(st.sampled_from(indexes))
    labels = draw(st.sampled_from(["text", "number", "multi"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = pd.DataFrame(
            {number: pd.Series(column(rng, kind, rows)) for number, kind in enumerate(kinds)}, index=range(rows)
        )
        made.index = index(rng, of_index, rows)
    if labels == "text":
        made.columns = pd.Index([f"c{number}" for number in range(len(kinds))], dtype="str" if kinds else object)
    elif labels == "multi" and kinds:
        made.columns = pd.MultiIndex.from_tuples([("ab"[number % 2], number) for number in range(len(kinds))])
    return made


#: Kinds of columns of PyTables: dtypes of elements, of cells, and of nested rows.
CELLS: tuple[Any, ...] = (
    *NUMBERS,
    "S1",
    "S7",
    ("i2", (3,)),
    ("f4", (2, 3)),
    ("S3", (2,)),
    [("x", "f8"), ("tag", "S4"), ("pair", "u1", (2,))],
)


@st.composite
def rows_of_tables(draw: Any) -> np.ndarray:
    """Makes rows of random dtypes, as PyTables stores them."""
    rows = draw(st.sampled_from([0, 1, 7, 40]))
    kinds = draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = np.dtype([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    made = np.zeros(rows, dtype)
    for name in made.dtype.names or ():
        _fill(rng, made[name])
    return made.astype(dtype.newbyteorder(draw(st.sampled_from("<>"))))


def _fill(rng: np.random.Generator, part: np.ndarray) -> None:
    if part.dtype.names is not None:
        for name in part.dtype.names:
            _fill(rng, part[name])
    elif part.dtype.kind == "S":
        part[...] = rng.choice(np.array([b"", b"ab", b"\0", b"a\0b", b"\xff\xfe", b"1234567"]), part.shape)
    else:
        part[...] = np.asarray(column(rng, part.dtype.str[1:], part.size)).reshape(part.shape)
