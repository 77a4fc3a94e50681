"""Filters of pyarrow with values of other types than the columns': statistics change no answer."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "f2"]
FILES = 4
OPERATORS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
SCALARS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float16()]
SCALARS += [pa.float32(), pa.float64(), pa.decimal128(20, 2), pa.string(), pa.timestamp("s")]


def column(numbers: Any, dtype: str) -> Any:
    """Values near each other, some of which other types lack."""
    kind, rows = np.dtype(dtype), int(numbers.integers(1, 6))
    if kind.kind == "f":
        large = [16777217, 1e30] if kind.itemsize > 2 else [2049, 60000]
        values = numbers.choice([0.1, 0.2, 0.3, 1, 2.5, -0.0, 0, *large], rows).astype(kind)
        values[numbers.random(rows) < 0.1] = np.nan
        return values
    ends = np.iinfo(kind)
    near = [0, 1, ends.max - 1, ends.min, min(ends.max - 1, 2**53), min(ends.max - 1, 2**24)]
    return np.full(rows, numbers.choice(np.array(near, kind)), kind) + (numbers.random(rows) < 0.3).astype(kind)


def value(numbers: Any, values: Any) -> Any:
    """A value of any type: Python's, NumPy's or pyarrow's."""
    base = numbers.choice(values) if numbers.random() < 0.6 else numbers.choice([0.1, 255, 1, 300, 0.5, -1, 2.0**53])
    python = base.item()
    kind = numbers.integers(8)
    if kind == 0:
        return float(python)
    if kind == 1:
        return np.float64(python)
    if kind == 2:
        return np.float32(python)
    if kind < 5 and python == python and abs(python) < 2**63:
        return int(python)
    if kind == 5:
        return pa.scalar(decimal.Decimal(1), pa.decimal128(20, 2))
    try:
        return pa.scalar(python, SCALARS[int(numbers.integers(len(SCALARS)))])
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return python


def listed(numbers: Any, values: Any) -> Any:
    """A list of values of one type, some of them null or NaN."""
    some = [numbers.choice(values).item() if numbers.random() < 0.5 else 0.1, 255, None][: numbers.integers(1, 4)]
    if numbers.random() < 0.1:
        some.append(float("nan"))
    if numbers.random() < 0.1:
        some = [*range(1000, 1010), *some, *range(1000, 1010)]
    kind = None if numbers.random() < 0.3 else SCALARS[int(numbers.integers(len(SCALARS)))]
    try:
        return pa.array(some, kind)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return pa.array(some[:1])


def expression(numbers: Any, columns: dict[str, Any], depth: int = 0) -> ds.Expression:
    choice = numbers.integers(10)
    if depth < 2 and choice == 0:
        return ~expression(numbers, columns, depth + 1)
    if depth < 2 and choice < 3:
        how = operator.and_ if choice == 1 else operator.or_
        return how(expression(numbers, columns, depth + 1), expression(numbers, columns, depth + 1))
    name = str(numbers.choice(list(columns)))
    field, values = pc.field(name), columns[name]
    if choice < 4:
        return [field.is_valid, field.is_null, field.is_nan][int(numbers.integers(3))]()
    if choice < 7:
        return field.isin(listed(numbers, values))
    compare = OPERATORS[int(numbers.integers(len(OPERATORS)))]
    if choice == 7:
        field = field.cast([pa.float64(), pa.float32(), pa.int64(), pa.int8()][int(numbers.integers(4))], safe=False)
    return compare(field, value(numbers, values))


def answer(call: Callable[[], pa.Table]) -> Any:
    try:
        return [[repr(value) for value in column] for column in call().to_pydict().values()]
    except (pa.ArrowException, TypeError):
        return "an error"


@pytest.mark.parametrize("dtype", TYPES)
def test_answers_are_the_same_with_statistics(tmp_path: Path, dtype: str) -> None:
    numbers = np.random.default_rng(TYPES.index(dtype))
    paths, columns = [], []
    for number in range(FILES):
        paths.append(tmp_path / f"{number}.h5")
        x = column(numbers, dtype)
        columns.append({"x": x, "y": np.full(len(x), number, "i8") + numbers.integers(0, 2, len(x))})
        with h5py.File(paths[-1], "w") as file:
            for name, values in columns[-1].items():
                file[name] = values
    names = ["y"] if dtype == "f2" else ["x", "y"]
    plain = hyperchunk.open_collection(paths, concat=0).table().to_dataset()
    kept = hyperchunk.open_collection(paths, concat=0, statistics=names).table().to_dataset()
    joined = {name: np.concatenate([own[name] for own in columns]) for name in ("x", "y")}
    whole = tmp_path / "whole.h5"
    with h5py.File(whole, "w") as file:
        for name, values in joined.items():
            file[name] = np.repeat(values, 50)
    analysed = tmp_path / "analysed.h5"
    analysed.write_bytes(whole.read_bytes())
    hyperchunk.analyze(analysed)
    one, other = (hyperchunk.open(path).table("/").to_dataset() for path in (whole, analysed))
    left_out = 0
    for _ in range(80):
        asked = expression(numbers, joined)
        expected = answer(lambda asked=asked: plain.to_table(filter=asked))
        assert answer(lambda asked=asked: kept.to_table(filter=asked)) == expected, str(asked)
        expected = answer(lambda asked=asked: one.to_table(filter=asked))
        assert answer(lambda asked=asked: other.to_table(filter=asked)) == expected, str(asked)
        report = kept.scanned
        left_out += report is not None and report.bytes_candidate < report.total
    assert left_out > 3


def test_lists_that_a_column_lacks(tmp_path: Path) -> None:
    for number, (some, small) in enumerate([([0.1, 0.1], [-1, 0]), ([0.2, 0.3], [1, 2])]):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"], file["n"] = np.array(some, "f4"), np.array(small, "i1")
    table = hyperchunk.open_collection(tmp_path / "?.h5", concat=0, statistics=["x", "n"]).table()
    dataset = table.to_dataset()
    assert dataset.to_table(filter=pc.field("x").isin([0.1])).num_rows == 2
    # pyarrow finds no type for both, whichever files statistics rule out.
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        dataset.to_table(filter=pc.field("n").isin(pa.array([255], pa.uint8())))
    # A list of which the column has all values still leaves out a file.
    assert dataset.to_table(filter=pc.field("n").isin([1, 2])).num_rows == 2
    assert table.scanned is not None
    assert table.scanned.bytes_candidate == table.scanned.total // 2
    hyperchunk.analyze(tmp_path / "0.h5")
    with hyperchunk.open(tmp_path / "0.h5") as file:
        assert file.table("/").to_dataset().to_table(filter=pc.field("x").isin([0.1])).num_rows == 2


def test_nan_in_a_long_list(tmp_path: Path) -> None:
    # pyarrow's text of the filter leaves it out.
    for number, values in enumerate([[np.nan, 1.0], [2.0, 3.0]]):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.array(values)
    dataset = hyperchunk.open_collection(tmp_path / "?.h5", concat=0, statistics=["x"]).table().to_dataset()
    numbers = [float(number) for number in range(100, 120)]
    assert dataset.to_table(filter=pc.field("x").isin([*numbers, float("nan"), *numbers])).num_rows == 1
