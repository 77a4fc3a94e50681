"""Random programs that write parts of records, by h5py and by Hyperchunk's module of its names: equal files."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk.h5py
import numpy as np
import pytest

#: Members of a record: name, and dtype or members.
Members = list[tuple[str, Any]]
NUMBERS = ["<i2", ">i4", "<u8", "i1", ">u2", "<f4", ">f8", "<f2"]
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"chunks": (3,), "maxshape": (None,)},
    {"chunks": (2,), "maxshape": (None,), "compression": "gzip", "shuffle": True},
]


def random_members(source: random.Random, depth: int = 0) -> Members:
    """Returns members whose names are unique at every depth: h5py takes a member for the one inside of it that has its
    name. Strings and sequences of variable length are left out: libhdf5 2.0 damages the members beside them.
    """
    found: Members = []
    for name in source.sample("abcdeü", source.randint(1, 4)):
        kind = source.random()
        if kind < 0.5:
            member: Any = source.choice(NUMBERS)
        elif kind < 0.6:
            member = source.choice(["S3", "S7"])
        elif kind < 0.8 and depth < 2:
            member = random_members(source, depth + 1)
        elif kind < 0.9:
            member = np.dtype(("<i4", (source.randint(1, 3),)))
        else:
            member = source.choice(["?", "<c8", h5py.enum_dtype({"A": 1, "B": 3}, "i1")])
        found.append((f"{name}{depth}", member))
    return found


def to_dtype(members: Members) -> np.dtype[Any]:
    return np.dtype([(name, to_dtype(member) if isinstance(member, list) else member) for name, member in members])


def some_members(source: random.Random, members: Members) -> Members:
    """Returns some members, in another order, with some of theirs, and some numbers of other types."""
    found: Members = []
    for name, member in source.sample(members, source.randint(1, len(members))):
        if isinstance(member, list) and source.random() < 0.6:
            found.append((name, some_members(source, member)))
        elif member in NUMBERS and source.random() < 0.3:
            found.append((name, source.choice(["<i8", "<f8", ">i4"])))
        else:
            found.append((name, member))
    return found


def random_records(source: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    made = np.zeros(shape, dtype)
    for name in dtype.names or ():
        base, field = dtype[name].base, made[name]
        if base.names:
            made[name] = random_records(source, base, field.shape)
        elif base.kind == "S":
            made[name] = np.array([b"%d" % source.randint(0, 99) for _ in range(field.size)]).reshape(field.shape)
        else:
            most = 1 if base.kind == "b" else 3 if h5py.check_enum_dtype(base) else 100
            numbers = [source.randint(0 if most == 1 else 1, most) for _ in range(field.size)]
            made[name] = np.array(numbers).reshape(field.shape)
    return made


def random_selection(source: random.Random, length: int) -> Any:
    start = source.randint(0, length - 1)
    return source.choice(
        [
            np.s_[...],
            np.s_[start : source.randint(start, length)],
            np.s_[::2],
            start,
            sorted(source.sample(range(length), source.randint(1, length))),
            np.array([source.random() < 0.5 for _ in range(length)]),
        ]
    )


def run(library: ModuleType, path: Path, seed: int) -> list[Any]:
    """Runs a program; returns what the file had after each step."""
    source = random.Random(seed)
    members = random_members(source)
    dtype, length = to_dtype(members), source.randint(1, 9)
    layout = source.choice(LAYOUTS) if length >= 3 else {}
    file = library.File(path, "w")
    dataset = file.create_dataset("d", (length,), dtype, **layout)
    dataset[...] = random_records(source, dtype, (length,))

    def assign() -> None:
        part = random_selection(source, dataset.shape[0])
        wanted = to_dtype(some_members(source, members))
        dataset[part] = random_records(source, wanted, np.empty(dataset.shape)[part].shape)

    def assign_member() -> None:
        part, member = random_selection(source, dataset.shape[0]), source.choice(members)
        records = random_records(source, to_dtype([member]), np.empty(dataset.shape)[part].shape)
        dataset[member[0], part] = records[member[0]]

    def write_direct() -> None:
        records = random_records(source, to_dtype(some_members(source, members)), dataset.shape)
        start = source.randint(0, dataset.shape[0] - 1)
        rows = np.s_[start : source.randint(start + 1, dataset.shape[0])]
        dataset.write_direct(records, rows, rows)

    def write_low_level() -> None:
        records = random_records(source, to_dtype(some_members(source, members)), dataset.shape)
        everything = library.h5s.ALL
        dataset.id.write(everything, everything, records, library.h5t.py_create(records.dtype))

    def read_direct() -> None:
        out = random_records(source, to_dtype([*some_members(source, members), ("more", "<i4")]), dataset.shape)
        dataset.read_direct(out)
        found.append(str(out.tolist()))

    def resize() -> None:
        if layout:
            dataset.resize((source.randint(1, 12),))

    steps: list[Callable[[], None]] = [
        assign,
        assign,
        assign_member,
        write_direct,
        write_low_level,
        read_direct,
        resize,
    ]
    found: list[Any] = []
    for _ in range(source.randint(2, 8)):
        if source.random() < 0.2:
            file.close()
            file = library.File(path, "r+")
            dataset = file["d"]
        step = source.choice(steps)
        try:
            step()
        except (TypeError, ValueError, OSError) as error:
            found.append(error)
        found.append(str(dataset[...].tolist()))
    file.close()
    return found


@pytest.mark.parametrize("seed", range(150))
def test_parts_of_records_are_written_as_by_h5py(tmp_path: Path, seed: int) -> None:
    stock, own = (run(library, tmp_path / f"{seed}.h5", seed) for library in (h5py, hyperchunk.h5py))
    for step, (wanted, found) in enumerate(zip(stock, own, strict=False)):
        if isinstance(wanted, Exception):
            break  # Hyperchunk writes some values that h5py refuses.
        assert found == wanted, step
    with h5py.File(tmp_path / f"{seed}.h5") as file:
        assert str(file["d"][...].tolist()) == own[-1]
