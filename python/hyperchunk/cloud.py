"""Files in object stores: an index that makes reading them take one round trip, and what reading them costs.

The commands ``hyperchunk index`` and ``hyperchunk check``, as functions.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, TypedDict

from hyperchunk import _core
from hyperchunk.file import File
from hyperchunk.sources import source_of

__all__ = ["Checked", "CheckedDataset", "Cost", "Finding", "Indexed", "LeftOut", "Unreadable", "check", "index"]

PathLike = str | os.PathLike[str]


class LeftOut(TypedDict):
    """A part of a file that is left out."""

    path: str
    why: str


class Indexed(TypedDict):
    """What :func:`index` made."""

    #: Where the index is; None where just references were asked for.
    index: str | None
    #: Its bytes, and how many of them are structure and tables of chunks.
    bytes: int
    structure_bytes: int
    table_bytes: int
    #: What the file has.
    objects: int
    datasets: int
    chunks: int
    #: How many objects could not be read, and which: readers read them from the file, and fail there.
    left_out: int
    errors: list[LeftOut]
    #: What references to chunks cannot say.
    not_in_references: list[LeftOut]


class Cost(TypedDict):
    """What a job costs."""

    #: Round trips in sequence, and those that the file's structure forces.
    round_trips: int
    round_trips_forced: int
    requests: int
    #: Bytes that are fetched, and those that are needed.
    bytes: int
    bytes_needed: int
    seconds: float


class CheckedDataset(TypedDict):
    """What reading a dataset costs, of a file that was not open before."""

    shape: list[int]
    #: Bytes of its elements, and what is stored of them.
    bytes: int
    stored: int
    #: The shape of a chunk, and how many are stored; None if it has none.
    chunk: list[int] | None
    chunks: int | None
    #: Round trips that its index of chunks takes.
    index_round_trips: int
    whole: Cost
    #: 1 % of it, along the first axis, and what is stored of that.
    slice: Cost
    slice_stored: int


class Finding(TypedDict):
    """What is good or bad about a file."""

    #: ``"note"``, ``"slow"`` or ``"serious"``.
    weight: str
    kind: str
    what: str
    advice: str
    paths: list[str]


class Unreadable(TypedDict):
    """A part of a file that cannot be read."""

    path: str
    error: str


_Findings = list[Finding]
_Errors = list[Unreadable]


class Checked(TypedDict):
    """What :func:`check` found."""

    file: str
    #: Whether nothing serious was found, and all could be read.
    fit: bool
    size: int
    groups: int
    attributes: int
    structure_bytes: int
    #: The size of its pages, if it is kept in pages.
    page: int | None
    latency_ms: float
    bandwidth_mb_s: float
    #: To list all objects and attributes.
    list: Cost
    #: By path; the first ten thousand.
    datasets: dict[str, CheckedDataset]
    findings: _Findings
    errors: _Errors


def index(
    file: Any,
    output: PathLike | None = None,
    *,
    cache: bool = False,
    kerchunk: PathLike | None = None,
    virtualizarr: PathLike | None = None,
    name: str | None = None,
    from_kerchunk: PathLike | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Indexed:
    """Make a sidecar index of a file: its structure and where its chunks are. With it, reading takes one round trip.

    Without `output` and `cache`, that of a file of this machine is ``FILE.hcindex`` beside it, and that of a URL goes
    to the cache folder. The same as ``hyperchunk index``.

    Args:
        file: A path or URL, or anything else that :func:`hyperchunk.open` takes; `output` is needed then.
        output: Where the index goes.
        cache: Put it into the cache folder, where it is found by the file's path or URL.
        kerchunk: Write references here, as kerchunk's JSON. No index is written then, unless `output` or `cache` asks
            for it.
        virtualizarr: The same as metadata and chunk manifests for VirtualiZarr.
        name: What references call the file, if not `file`.
        from_kerchunk: Take the places of chunks from this JSON, instead of from the file's own indexes of chunks.
        overwrite: Replace `output`, `kerchunk` and `virtualizarr` if they are there.
        options: As for :func:`hyperchunk.open`: ``storage_options``, ``network`` and the rest.

    Raises:
        ReadError: The file cannot be read, or what is made cannot be written.
        InvalidError: The references are not of this file, or its version cannot be told.
        ValueError: It has no name, and `output` is missing; or both `output` and `cache` are given.

    Example:
        >>> made = hyperchunk.index("scene.h5")  # doctest: +SKIP
        >>> made["index"], made["chunks"]  # doctest: +SKIP
        ('scene.h5.hcindex', 5400)
    """
    if output is not None and cache:
        raise ValueError("output and cache say two places for one index")
    nameless = source_of(file) is not None
    if nameless and (cache or (output is None and kerchunk is None and virtualizarr is None)):
        raise ValueError("an object without a path or URL has no place for its index: give output")
    with _opened(file, options) as opened:
        made = _core_of(opened).make_index(
            opened.filename if nameless else os.fsdecode(file),
            output=_path(output),
            cache=cache,
            kerchunk=_path(kerchunk),
            virtualizarr=_path(virtualizarr),
            name=name,
            from_kerchunk=_path(from_kerchunk),
            overwrite=overwrite,
        )
    result: Indexed = json.loads(made)
    return result


def check(file: Any, *, latency: float = 25.0, bandwidth: float = 80.0, **options: Any) -> Checked:
    """Tell whether a file is fit for object stores: what reading it there costs, without an index, and what to change.

    The same as ``hyperchunk check --json``. Names that are not UTF-8 have their bytes as lone surrogates.

    Args:
        file: A path or URL, or anything else that :func:`hyperchunk.open` takes.
        latency: Milliseconds to the first byte of an answer.
        bandwidth: MB per second of one request.
        options: As for :func:`hyperchunk.open`: ``storage_options``, ``network`` and the rest.

    Raises:
        ReadError: The file cannot be read.
        ValueError: `latency` or `bandwidth` is negative or not finite.

    Example:
        >>> found = hyperchunk.check("scene.h5", latency=50)  # doctest: +SKIP
        >>> found["fit"], found["list"]["round_trips"]  # doctest: +SKIP
        (True, 2)
        >>> [finding["advice"] for finding in found["findings"]]  # doctest: +SKIP
        ['larger chunks, of 1 to 4 MB']
    """
    for what, number in (("latency", latency), ("bandwidth", bandwidth)):
        if not math.isfinite(number) or number < 0:
            raise ValueError(f"{what} must not be negative: {number}")
    with _opened(file, options) as opened:
        given = opened.filename if source_of(file) is not None else os.fsdecode(file)
        result: Checked = json.loads(_core_of(opened).check(given, float(latency), float(bandwidth)))
    return result


def _opened(file: Any, options: dict[str, Any]) -> File:
    if "index" in options:
        raise TypeError("an index is not used here")
    return File(file, index="never", **options)


def _core_of(file: File) -> _core.File:
    core = file._opened.need()
    assert isinstance(core, _core.File), "it is open for reading"
    return core


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
