"""Analyses: functions that compute results from the data of a store as they are written."""

from __future__ import annotations

import builtins
import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hyperchunk import _core

#: Result value of a key.
Value = int | float | str | list[int | float]

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {prefix + unit: 1 << 10 * power for power, prefix in enumerate("kmgt", 1) for unit in ("", "ib")}
_TIMES = {"ms": 1.0, "s": 1e3, "min": 6e4}


@dataclass(frozen=True)
class Analysis:
    """A function that sees the data written to `datasets`. Its source, a file with the suffix ``.lua``, ``.py`` or
    ``.cpp``, defines ``on_write(dataset, box, array)``, which returns keys with values, and may define
    ``merge(a, b)``, which merges two results.

    It runs in the sandbox of live datasets, and its record is signed like theirs (:mod:`hyperchunk.trust`). One call
    may take `time`, use `memory` in addition to the data, and return `bytes`. If it fails, the data are written
    anyway, and `failure` selects the reaction: none (``"skip"``), a note with the reason (``"mark"``), or also an
    exception after the data are written (``"raise"``). `merge` gives for each key the rule that merges its values
    without the function: ``"max"``, ``"min"``, ``"sum"``, ``"first"``, ``"last"``, or ``"with KEY"``, the value that
    accompanies the largest or smallest of another key.

    >>> Analysis("waves.lua", ["/ocean/h"], merge={"max": "max", "at": "with max"})  # doctest: +SKIP
    """

    #: File of the source.
    source: str | os.PathLike[str]
    #: Paths of the datasets that it reads.
    datasets: Sequence[str]
    #: Name; by default the name of the file.
    name: str | None = None
    #: Version, assigned by its author.
    version: str = "1"
    #: Time limit of a call: ``"50ms"``, ``"2s"``, or seconds.
    time: str | float = "1s"
    #: Memory limit in addition to the data: ``"64MiB"``, or bytes.
    memory: str | int = "256MiB"
    #: Maximum size of a call's results in bytes.
    bytes: int = 4096
    #: Reaction to a failure.
    failure: str = "skip"
    #: Rule that merges the values of a key.
    merge: Mapping[str, str] = field(default_factory=dict)
    #: If set, the record is not signed and runs in the profile ``untrusted`` everywhere.
    unsigned: bool = False
    #: ``"wasm"`` for C++ compiled to WebAssembly (``pip install ziglang``), which runs on every machine.
    backend: str | None = None

    def record(self) -> builtins.bytes:
        """Makes the record for a store: tries the source in the sandbox, and signs it with the user's key."""
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
    """An analysis of a store."""

    #: Id: half of the SHA-256 of its record.
    id: str
    #: True if it runs on data written from now on.
    runs: bool
    #: Reason why its record is invalid; the other fields are empty then.
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
    #: Fingerprint of the signing key, and label of the signature.
    signer: str | None = None
    signed_by: str | None = None
    #: Profile in which it runs here, or reason why it does not run.
    profile: str | None = None
    refused: str | None = None
    #: Record of the analysis.
    record: builtins.bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class BoxResult:
    """Results of an analysis for a box, or the reason of its failure."""

    #: First element and extent.
    start: tuple[int, ...]
    count: tuple[int, ...]
    #: Writer, or process that ran the analysis later, and the epoch of the commit.
    writer: str
    epoch: int
    #: Keys with their values.
    values: dict[str, Value] | None
    #: Reason of the failure.
    failure: str | None


@dataclass(frozen=True)
class Part:
    """Results of an analysis for one writer, between two flushes."""

    writer: str
    epoch: int
    #: Number of boxes.
    boxes: int
    #: Merged results, if there are rules or the function has merged them.
    values: dict[str, Value] | None


@dataclass(frozen=True)
class Results:
    """Results of an analysis for a dataset."""

    #: The analysis.
    id: str
    name: str | None
    version: str | None
    #: Merged results, by the rules of the analysis; None without rules.
    values: dict[str, Value] | None
    #: Results by writer.
    parts: list[Part]
    #: Results by box.
    boxes: list[BoxResult]
    #: Bytes read for the results.
    bytes_scanned: int
    #: Reason why the record of the analysis is invalid.
    damage: str | None

    @property
    def failures(self) -> list[BoxResult]:
        """Boxes for which the analysis failed, with the reasons."""
        return [found for found in self.boxes if found.failure is not None]


@dataclass(frozen=True)
class Report:
    """Execution statistics of an analysis in a writer."""

    id: str
    name: str
    #: Number of calls, and of failed or refused ones.
    calls: int
    failures: int
    #: Total time of the calls.
    seconds: float
    #: Reason of the last failure.
    reason: str | None


def records(analyses: Sequence[Analysis | bytes]) -> tuple[bytes, ...]:
    """Returns the records of analyses."""
    return tuple(one if isinstance(one, bytes) else one.record() for one in analyses)


def listed(path: str, epoch: int | None) -> list[StoredAnalysis]:
    """Lists the analyses of an epoch."""
    return [StoredAnalysis(**row) for row in _core.store_analyses(path, epoch)]


def results(path: str, dataset: str | bytes, epoch: int | None, run: bool) -> list[Results]:
    """Returns the results of analyses for a dataset."""
    name = dataset if isinstance(dataset, bytes) else dataset.encode("utf-8", "surrogateescape")
    found = []
    for row in _core.store_results(path, b"/" + name.strip(b"/"), epoch, run):
        boxes = [BoxResult(tuple(start), tuple(count), *rest) for start, count, *rest in row["boxes"]]
        parts = [Part(*part) for part in row["parts"]]
        about = (row["id"], row["name"], row["version"], row["whole"])
        found.append(Results(*about, parts, boxes, row["bytes_scanned"], row["damage"]))
    return found


def size(given: str | int) -> int:
    """Parses a size in bytes: ``"64MiB"``."""
    if not isinstance(given, str):
        return operator.index(given)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
    if match is None or match[2].lower() not in _SIZES:
        raise ValueError(f"invalid size {given!r}: expected a number with a unit, such as '64MiB'")
    return int(float(match[1]) * _SIZES[match[2].lower()])


def milliseconds(given: str | float) -> int:
    """Parses a duration and returns milliseconds: ``"50ms"``, ``"2s"``; a number is seconds."""
    if not isinstance(given, str):
        return round(given * 1000)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min)\s*", given)
    if match is None:
        raise ValueError(f"invalid time {given!r}: expected a number with a unit, such as '50ms'")
    return round(float(match[1]) * _TIMES[match[2]])
