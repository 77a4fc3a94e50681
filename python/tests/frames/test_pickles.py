"""Pickles are read as data: types on the list equal Python's, everything else is an error, in bounded time."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import os
import pickle
import random
import subprocess
import time
import zoneinfo
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pandas as pd
import pytest
from hyperchunk.frames.pickled_types import Offset
from hyperchunk.frames.pickles import loads

VALUES: list[Any] = [
    None,
    True,
    -5,
    2**100,
    1.5,
    float("inf"),
    3j,
    "ü" * 300,
    b"\0\xff" * 300,
    bytearray(b"12"),
    [1, [2, (3,)], {"a": {1, 2}, (1, "b"): frozenset([3])}],
    np.float32(1.5),
    np.datetime64(3, "ns"),
    np.arange(6).reshape(2, 3),
    np.arange(6).reshape(2, 3).T,
    np.array(["a", None, 1.5], "O"),
    np.array([["a", 1], [None, 2.5]], "O").T,
    np.array([1, 2], "M8[s]"),
    np.array(["x", "yy"]),
    np.zeros(2, [("a", "i4"), ("b", ">f8", (2,))]),
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    datetime.date(2020, 1, 2),
    datetime.time(1, 2, 3),
    datetime.timedelta(days=1, microseconds=5),
    datetime.UTC,
    zoneinfo.ZoneInfo("Europe/Berlin"),
    decimal.Decimal("1.50"),
    pd.Timestamp("2020-01-01 12:00", tz="Europe/Berlin"),
    pd.Timestamp("2020-01-01").as_unit("s"),
    pd.Timedelta("1 day"),
    pd.NaT,
    pd.NA,
    pd.Period("2020-01", "M"),
    pd.Interval(1, 2),
    pd.offsets.MonthEnd(2),
    pd.offsets.Week(weekday=2),
    pd.offsets.BusinessDay(),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values(value: Any, protocol: int) -> None:
    found = loads(pickle.dumps(value, protocol), "a test")
    if isinstance(found, Offset):
        found = found.to_pandas()
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        assert found.shape == value.shape
        assert found.tolist() == value.tolist() if value.dtype.hasobject else found.tobytes() == value.tobytes()
    else:
        assert found is value or found == value


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "call",
    [
        Call(os.system, "true"),
        Call(eval, "1"),
        Call(subprocess.Popen, ["true"]),
        Call(getattr, "", "join"),
        Call(np.load, "x"),
        Call(pd.read_csv, "x"),
        Call(open, "x"),
        Call(__import__, "os"),
    ],
    ids=lambda call: call.call[0].__name__,
)
def test_calls_are_errors(call: Call, protocol: int) -> None:
    with pytest.raises(hyperchunk.HyperchunkError, match="cannot read pickled objects"):
        loads(pickle.dumps(call, protocol), "a test")


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b".",
        b"N",
        b"NN.",
        b"cos\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"cnumpy\ndtype\n(S'i4,' * 99\ntR.",
        b"cnumpy\ndtype\n(Vi4,i4,i4\nI0\nI1\ntR.",
        b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntc_codecs\nencode\n(Vb\nVlatin1\ntRtR.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"\x8b\xff\xff\xff\x7f.",
        b"czoneinfo\nZoneInfo\n.",
        b"cbuiltins\ngetattr\n(czoneinfo\nZoneInfo\nV_unpickle\ntR(V../../etc/passwd\nI1\ntR.",
        b"P1\n.",
        b"]q\x00h\x00a.",
        b"(" * 100_000 + b".",
        b"]" + b"2a" * 100_000 + b".",
    ],
    ids=range(18),
)
def test_hostile_pickles(stored: bytes) -> None:
    start = time.process_time()
    with pytest.raises(hyperchunk.HyperchunkError):
        loads(stored, "a test")
    assert time.process_time() - start < 20


def test_shared_values_do_not_grow() -> None:
    """Sixty tuples, each with the former one twice: 2**60 values."""
    value: Any = ()
    for _ in range(60):
        value = (value, value)
    start = time.process_time()
    with pytest.raises(hyperchunk.HyperchunkError, match="more than"):
        loads(pickle.dumps(value, 4), "a test")
    # As a key, it would be hashed.
    with pytest.raises(hyperchunk.HyperchunkError, match="a key has more than"):
        loads(pickle.dumps(value, 4)[:-1].replace(b"\x80\x04", b"\x80\x04}", 1) + b"Ns.", "a test")
    assert time.process_time() - start < 20


def test_random_damage() -> None:
    rng = random.Random(5)
    seeds = [pickle.dumps(value, protocol) for value in VALUES for protocol in (0, 2, 5)]
    for _ in range(10_000):
        damaged = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(hyperchunk.HyperchunkError):
            loads(damaged, "a test")


def test_the_interpreter_imports_nothing_of_a_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(hyperchunk.HyperchunkError, match="evil_module"):
        loads(b"cevil_module\nf\n(tR.", "a test")
