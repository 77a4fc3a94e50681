"""Files in object stores: indexes with which a read takes one round trip, and checks of the cost of reads.

The commands ``hyperchunk index`` and ``hyperchunk check``, as functions.
"""

from __future__ import annotations

import json
import math
import os
from typing import TypedDict, Unpack

from hyperchunk import _core, observing
from hyperchunk.file import File, to_path
from hyperchunk.sources import python_source
from hyperchunk.typing import FileName, OpenOptions, PathLike

__all__ = ["CheckResult", "Cost", "DatasetCost", "Finding", "IndexResult", "Omission", "ReadFailure", "check", "index"]


class Omission(TypedDict):
    """A part of a file that was left out."""

    path: str
    why: str


class IndexResult(TypedDict):
    """Result of :func:`index`."""

    #: Path of the index; None if only references were requested.
    index: str | None
    #: Size of the index, of its structure and of its chunk tables.
    bytes: int
    structure_bytes: int
    table_bytes: int
    #: Contents of the file.
    objects: int
    datasets: int
    chunks: int
    #: Number of unreadable objects, and their list. They are not in the index: readers look them up in the file.
    left_out: int
    errors: list[Omission]
    #: Features that references to chunks cannot express.
    not_in_references: list[Omission]


class Cost(TypedDict):
    """Cost of one operation, such as reading a dataset."""

    #: Sequential round trips, and the minimum that the file's structure forces.
    round_trips: int
    round_trips_forced: int
    requests: int
    #: Bytes fetched, and bytes needed.
    bytes: int
    bytes_needed: int
    seconds: float


class DatasetCost(TypedDict):
    """Cost of reading a dataset from a file that was not open before."""

    shape: list[int]
    #: Size of its elements, and of their stored form.
    bytes: int
    stored: int
    #: Shape of a chunk, and number of stored chunks; None if it has no chunks.
    chunk: list[int] | None
    chunks: int | None
    #: Round trips for its chunk index.
    index_round_trips: int
    whole: Cost
    #: Cost of 1 % of the dataset along the first axis, and its stored size.
    slice: Cost
    slice_stored: int


class Finding(TypedDict):
    """A strength or weakness of a file."""

    #: ``"note"``, ``"slow"`` or ``"serious"``.
    weight: str
    kind: str
    what: str
    advice: str
    paths: list[str]


class ReadFailure(TypedDict):
    """A part of a file that cannot be read."""

    path: str
    error: str


_Findings = list[Finding]
_Errors = list[ReadFailure]


class CheckResult(TypedDict):
    """Result of :func:`check`."""

    file: str
    #: True if nothing serious was found, and everything could be read.
    fit: bool
    size: int
    groups: int
    attributes: int
    structure_bytes: int
    #: Page size, if the file uses paged aggregation.
    page: int | None
    latency_ms: float
    bandwidth_mb_s: float
    #: Cost of listing all objects and attributes.
    list: Cost
    #: Datasets by path; at most ten thousand.
    datasets: dict[str, DatasetCost]
    findings: _Findings
    errors: _Errors


def index(
    file: FileName,
    output: PathLike | None = None,
    *,
    cache: bool = False,
    kerchunk: PathLike | None = None,
    virtualizarr: PathLike | None = None,
    name: str | None = None,
    from_kerchunk: PathLike | None = None,
    overwrite: bool = False,
    **options: Unpack[OpenOptions],
) -> IndexResult:
    """Makes the index of a file, a companion with its structure and the locations of its chunks. With it, a read takes
    one round trip.

    Without `output` and `cache`, the index of a local file is ``FILE.hcindex`` beside it, and the index of a URL goes
    to the cache folder. Does the same as ``hyperchunk index``.

    Args:
        file: A path or URL, or anything else that :func:`hyperchunk.open` takes; for an object without a name,
            `output`, `kerchunk` or `virtualizarr` is required.
        output: Path of the index.
        cache: Put the index into the cache folder, where it is found by the file's path or URL.
        kerchunk: Write references here, as kerchunk's JSON. No index is written then, unless `output` or `cache` asks
            for it.
        virtualizarr: Write metadata and chunk manifests for VirtualiZarr here.
        name: Name of the file in references, if not `file`.
        from_kerchunk: Take the chunk locations from this JSON, instead of the file's own chunk indexes.
        overwrite: Replace `output`, `kerchunk` and `virtualizarr` if they exist.
        options: As for :func:`hyperchunk.open`: ``storage_options``, ``network`` and the rest.

    Raises:
        ReadError: The file cannot be read, or a result cannot be written.
        InvalidError: The references belong to another file, or the version of the file cannot be determined.
        ValueError: The file has no name and `output` is missing; or both `output` and `cache` are given.

    Example:
        >>> with hyperchunk.open("scene.h5", "w") as file:
        ...     x = file.create_dataset("x", data=numpy.zeros((100, 100)), chunks=(10, 100))
        >>> made = hyperchunk.index("scene.h5")
        >>> made["index"], made["chunks"]
        ('scene.h5.hcindex', 10)
    """
    if output is not None and cache:
        raise ValueError("output and cache cannot be combined: both set the location of the index")
    nameless = python_source(file) is not None
    if nameless and (cache or (output is None and kerchunk is None and virtualizarr is None)):
        raise ValueError("cannot choose the location of the index of a file without a path or URL: set output")
    with _opened(file, options) as opened, observing.work("index", opened.filename):
        made = _native_file(opened).make_index(
            opened.filename if nameless else to_path(file),
            output=_path(output),
            cache=cache,
            kerchunk=_path(kerchunk),
            virtualizarr=_path(virtualizarr),
            name=name,
            from_kerchunk=_path(from_kerchunk),
            overwrite=overwrite,
        )
    result: IndexResult = json.loads(made)
    return result


def check(
    file: FileName, *, latency: float = 25.0, bandwidth: float = 80.0, **options: Unpack[OpenOptions]
) -> CheckResult:
    """Checks whether a file is fit for object stores: the cost of reading it there without an index, and advice.

    Does the same as ``hyperchunk check --json``. Names that are not UTF-8 keep their bytes as lone surrogates.

    Args:
        file: A path or URL, or anything else that :func:`hyperchunk.open` takes.
        latency: Milliseconds to the first byte of a response.
        bandwidth: MB per second of one request.
        options: As for :func:`hyperchunk.open`: ``storage_options``, ``network`` and the rest.

    Raises:
        ReadError: The file cannot be read.
        ValueError: `latency` or `bandwidth` is negative or not finite.

    Example:
        >>> with hyperchunk.open("scene.h5", "w", layout="cloud") as file:
        ...     file["B04"] = numpy.zeros((100, 100))
        >>> found = hyperchunk.check("scene.h5", latency=50)
        >>> found["fit"], found["datasets"]["/B04"]["shape"]
        (True, [100, 100])
    """
    for what, number in (("latency", latency), ("bandwidth", bandwidth)):
        if not math.isfinite(number) or number < 0:
            raise ValueError(f"{what} must be finite and not negative: {number}")
    with _opened(file, options) as opened:
        given = opened.filename if python_source(file) is not None else to_path(file)
        result: CheckResult = json.loads(_native_file(opened).check(given, float(latency), float(bandwidth)))
    return result


def _opened(file: FileName, options: OpenOptions) -> File:
    if "index" in options:
        raise TypeError("the option index is not supported here: the file is read without an index")
    options["index"] = "never"
    return File(file, **options)


def _native_file(file: File) -> _core.File:
    core = file._opened.need()
    assert isinstance(core, _core.File), "it is open for reading"
    return core


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
