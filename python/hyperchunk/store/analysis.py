"""Analyses: functions that see what is written to a store, while it is written."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperchunk import _core

#: What a function may find under a key.
Value = int | float | str | list[int | float]

_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_TIMES = {"ms": 1.0, "s": 1e3, "min": 6e4}


@dataclass(frozen=True)
class Analysis:
    """A function that sees what is written to `datasets`: the source of it, in a file that ends in ``.lua``, ``.py`` or
    ``.cpp``, defines ``on_write(dataset, box, array)``, which gives keys with values, and may define ``merge(a, b)``,
    which makes one result of two.

    It runs in the sandbox of live datasets, and its record is signed as theirs is (:mod:`hyperchunk.trust`). One call
    may take `time`, `memory` beside the data, and give `bytes`. If it fails, the data are written all the same, and
    `failure` says what else happens: nothing (``"skip"``), a note with the reason (``"mark"``), or also an exception
    once the data are written (``"raise"``). `merge` says for each key how values become one without the function:
    ``"max"``, ``"min"``, ``"sum"``, ``"first"``, ``"last"``, or ``"with KEY"``, the one beside the largest or smallest
    of another key.

    >>> Analysis("waves.lua", ["/ocean/h"], merge={"max": "max", "at": "with max"})  # doctest: +SKIP
    """

    #: The file with the source.
    source: str | os.PathLike[str]
    #: The datasets that it looks at.
    datasets: Sequence[str]
    #: Its name; that of the file, if there is none.
    name: str | None = None
    #: Its version, as its author counts.
    version: str = "1"
    #: What one call may take: ``"50ms"``, ``"2s"``, or seconds.
    time: str | float = "1s"
    #: Memory beside the data: ``"64MiB"``, or bytes.
    memory: str | int = "256MiB"
    #: Bytes that the results of one call may have.
    bytes: int = 4096
    #: What happens if it fails.
    failure: str = "skip"
    #: How the values of a key become one.
    merge: Mapping[str, str] = field(default_factory=dict)
    #: Not signed: it runs in the profile ``untrusted`` everywhere.
    unsigned: bool = False
    #: ``"wasm"`` for C++ that is compiled to WebAssembly (``pip install ziglang``), which runs on every machine.
    backend: str | None = None

    def record(self) -> builtins.bytes:
        """Its record, as stores have it: the source is tried in the sandbox, and signed with the user's key."""
        path = Path(self.source)
        names = [self.datasets] if isinstance(self.datasets, str) else list(self.datasets)
        return _core.analysis_make(
            str(path),
            path.read_text("utf-8"),
            name=self.name or path.stem,
            version=self.version,
            datasets=["/" + name.strip("/") for name in names],
            time_ms=milliseconds(self.time),
            memory=size(self.memory),
            bytes=self.bytes,
            failure=self.failure,
            merge=dict(self.merge),
            unsigned=self.unsigned,
            backend=self.backend,
        )


@dataclass(frozen=True)
class StoredAnalysis:
    """An analysis that a store has."""

    #: Its identity: half of the SHA-256 of its record.
    id: str
    #: Whether it looks at what is written from now on.
    runs: bool
    #: Why its record does not hold; the rest is empty then.
    damage: str | None
    name: str = ""
    version: str = ""
    language: str = ""
    datasets: list[str] = field(default_factory=list)
    time_ms: int = 0
    memory: int = 0
    bytes: int = 0
    failure: str = ""
    merge: dict[str, str] = field(default_factory=dict)
    source: str = ""
    #: The fingerprint of the key that signed it, and the label that the signature has.
    signer: str | None = None
    signed_by: str | None = None
    #: The profile that it runs in here, or why it does not run.
    profile: str | None = None
    refused: str | None = None
    #: Its record.
    record: Any = field(default=b"", repr=False)


@dataclass(frozen=True)
class Found:
    """What an analysis found in a box, or why it found nothing."""

    #: The first element and the extent.
    start: tuple[int, ...]
    count: tuple[int, ...]
    #: Who wrote it, or looked at it later, and the epoch in which that was committed.
    writer: str
    epoch: int
    #: The keys with their values.
    values: dict[str, Value] | None
    #: Why there are none.
    failure: str | None


@dataclass(frozen=True)
class Part:
    """What an analysis found of one writer, from one flush to the next."""

    writer: str
    epoch: int
    #: How many boxes.
    boxes: int
    #: All of it in one, if there are rules or the function made one.
    values: dict[str, Value] | None


@dataclass(frozen=True)
class Results:
    """What an analysis found in a dataset."""

    #: The analysis.
    id: str
    name: str | None
    version: str | None
    #: All of it in one, by the rules of the analysis; None without any.
    values: dict[str, Value] | None
    #: Writer by writer.
    parts: list[Part]
    #: Box by box.
    boxes: list[Found]
    #: How many bytes were read for it.
    looked_at: int
    #: Why the record of the analysis does not hold.
    damage: str | None

    @property
    def failures(self) -> list[Found]:
        """The boxes of which nothing was found, with the reasons."""
        return [found for found in self.boxes if found.failure is not None]


@dataclass(frozen=True)
class Report:
    """What became of an analysis in a writer."""

    id: str
    name: str
    #: How often it was called, and how often it failed or was not let run.
    calls: int
    failures: int
    #: How long the calls took.
    seconds: float
    #: Why it failed last.
    reason: str | None


def records(analyses: Sequence[Analysis | bytes]) -> tuple[bytes, ...]:
    """The records of analyses."""
    return tuple(one if isinstance(one, bytes) else one.record() for one in analyses)


def listed(path: str, epoch: int | None) -> list[StoredAnalysis]:
    """The analyses of an epoch."""
    return [StoredAnalysis(**row) for row in _core.store_analyses(path, epoch)]


def results(path: str, dataset: str | bytes, epoch: int | None, run: bool) -> list[Results]:
    """What analyses found in a dataset."""
    name = dataset if isinstance(dataset, bytes) else dataset.encode("utf-8", "surrogateescape")
    found = []
    for row in _core.store_results(path, b"/" + name.strip(b"/"), epoch, run):
        boxes = [Found(tuple(start), tuple(count), *rest) for start, count, *rest in row["boxes"]]
        parts = [Part(*part) for part in row["parts"]]
        about = (row["id"], row["name"], row["version"], row["whole"])
        found.append(Results(*about, parts, boxes, row["looked_at"], row["damage"]))
    return found


def size(given: str | int) -> int:
    """So many bytes: ``"64MiB"``."""
    if isinstance(given, int):
        return given
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
    if match is None or match[2].lower() not in _SIZES:
        raise ValueError(f"{given!r} is not a size, such as '64MiB'")
    return int(float(match[1]) * _SIZES[match[2].lower()])


def milliseconds(given: str | float) -> int:
    """So many milliseconds: ``"50ms"``, ``"2s"``; a number is seconds."""
    if not isinstance(given, str):
        return round(given * 1000)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min)\s*", given)
    if match is None:
        raise ValueError(f"{given!r} is not a time, such as '50ms'")
    return round(float(match[1]) * _TIMES[match[2]])
