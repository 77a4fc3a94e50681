"""Live datasets: programs stored in HDF5 files as datasets."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperchunk import _core, _libhdf5
from hyperchunk._printable import printable
from hyperchunk.exceptions import NotFoundError

__all__ = ["LiveDataset", "Verdict", "attach", "convert", "explain", "extend", "ls", "rebuild", "rm", "show", "verify"]

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class LiveDataset:
    """A live dataset as its file tells it; nothing has been run."""

    path: str
    """Its path in the file."""
    record: dict[str, Any]
    """The record: back end, inputs, output, source, signature; of one that HDF5-UDF wrote, its header
    (``api_version`` 2). Empty when it is damaged beyond reading."""
    stub_bytes: int
    """Bytes that its chunks take in the file."""
    signer: str | None
    """The fingerprint of the key that signed it, or ``None``."""
    profile: str | None
    """The trust profile that it would run in here, or ``None`` when it would be refused."""
    error: str | None
    """Why the record is not valid, or ``None``."""


@dataclass(frozen=True)
class Verdict:
    """What was found about a live dataset, running nothing of it."""

    path: str
    """Its path in the file."""
    signer: str | None
    """The fingerprint of the key that signed it, or ``None``."""
    chunks: int | None
    """The number of its chunks, each of which holds what it should; ``None`` when it is not valid."""
    profile: str | None
    """The trust profile that decides here, if one lets it run."""
    sandbox: str | None
    """The layers of the sandbox that it would run in, or ``None`` when it would not run."""
    reason: str | None
    """Why it is not valid, or would not run here."""

    @property
    def valid(self) -> bool:
        """Whether record, signature and chunks hold."""
        return self.chunks is not None

    @property
    def runs(self) -> bool:
        """Whether reading it would run its function here."""
        return self.reason is None


def attach(
    file: Path,
    source: Path | None = None,
    outputs: str | Sequence[str] = (),
    *,
    expression: str | None = None,
    backend: str | None = None,
    inputs: Sequence[str] = (),
    chunks: str | Sequence[int] | None = None,
    halo: int | Sequence[int] = 0,
    maxshape: str | Sequence[int | None] | None = None,
    seed: int | None = None,
    attrs: Mapping[str, str | float] | None = None,
    overwrite: bool = False,
    unsigned: bool = False,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """Store a program, or an expression, in an HDF5 file as one dataset or more.

    The datasets that the program names with ``lib.getData`` and that the file has are its inputs, the others its
    outputs. All datasets that an expression names are its inputs, and it has one output. The file must not be open for
    writing elsewhere; close your own ``h5py.File`` first.

    Args:
        file: The HDF5 file, which is changed.
        source: The program: ``.py``, ``.lua``, ``.cpp``, ``.c``, ``.wasm``, a WebAssembly module, or ``.expr``, a file
            with an expression.
        outputs: Descriptions ``"NAME:RESOLUTION:TYPE"``, such as ``"NDVI:4000x4000:float"``. An output without one
            takes the shape and type of the inputs, if they all have the same. That of an expression has to be named,
            and takes the type that the expression has by NumPy's rules.
        expression: Instead of a source: what is computed, element by element, as in ``"(NIR - Red) / (NIR + Red)"``.
        backend: ``"wasm"``: compile a C++ source to WebAssembly, with Zig (``pip install ziglang``); C always is.
        inputs: The datasets that a module reads, if it does not say so itself.
        chunks: ``None``: a function sees whole arrays, an expression is computed in blocks of its own choice.
            ``"auto"`` or a shape: it runs once a chunk and sees that block as if it were the whole; inputs of the
            output's shape are cut to the block, others stay whole.
        halo: With ``chunks``, blocks of inputs are wider by so many elements at each side, as far as the dataset goes:
            a number for each dimension, or one for all. ``lib.getOffset()`` tells where blocks lie.
        maxshape: The largest shape that the dataset may grow to, by `extend`: ``"inputs"``, as far as its inputs can,
            or a shape with ``None`` where there is no bound. For what is computed in blocks.
        seed: What the function makes random numbers from, by ``lib.seed()`` and by its language's own generators.
            Without it, one is chosen if the source calls ``lib.seed``. It is in the record: each reader gets the same
            values.
        attrs: Attributes that each output gets: text, or numbers.
        overwrite: Replace what has an output's name.
        unsigned: Do not sign; readers run it in the profile ``untrusted``, which refuses C++.
        dry_run: Check everything, write nothing.

    Returns:
        The record of each output, as stored.

    Raises:
        UdfSyntaxError: The source, the expression or a description cannot be understood.
        TypeError: Neither a source nor an expression, or both.
        NotFoundError: The file, the source or the signing key does not exist.
        ExistsError: An output's name is taken.
        UdfError: The source does not compile or load.

    Example:
        >>> hyperchunk.udf.attach("scene.h5", "ndvi.lua", chunks="auto")  # doctest: +SKIP
        >>> ndvi = "(NIR - Red) / (NIR + Red)"
        >>> hyperchunk.udf.attach("scene.h5", outputs="NDVI", expression=ndvi)  # doctest: +SKIP
    """
    if (source is None) == (expression is None):
        raise TypeError("attach takes either a source or an expression=")
    descriptions = [outputs] if isinstance(outputs, str) else list(outputs)
    shape = chunks if chunks is None or isinstance(chunks, str) else "x".join(str(int(n)) for n in chunks)
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        records = _core.attach(
            os.fspath(file),
            None if source is None else os.fspath(source),
            expression,
            backend,
            list(inputs),
            descriptions,
            shape,
            [halo] if isinstance(halo, int) else [int(n) for n in halo],
            maxshape
            if maxshape is None or isinstance(maxshape, str)
            else "x".join("*" if n is None else str(int(n)) for n in maxshape),
            None if seed is None else operator.index(seed),
            list((attrs or {}).items()),
            overwrite,
            unsigned,
            dry_run,
            library,
        )
    return [json.loads(record) for record in records]


def ls(file: Path) -> list[LiveDataset]:
    """The live datasets of a file, by path.

    Raises:
        NotFoundError: There is no such file.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        rows = _core.list_live(os.fspath(file), library)
    return [_row(*row) for row in rows]


def _row(
    path: str, record: str, stub_bytes: int, signer: str | None, profile: str | None, error: str | None
) -> LiveDataset:
    try:
        parsed = json.loads(record) if record else {}
    except ValueError:
        parsed = {}
    return LiveDataset(path, parsed, stub_bytes, signer, profile, error)


def show(file: Path, dataset: str) -> LiveDataset:
    """One live dataset of a file.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.
    """
    path = "/" + dataset.lstrip("/")
    for live in ls(file):
        if live.path == path:
            return live
    raise NotFoundError(f"{printable(os.fspath(file))}:{printable(path)}: there is no live dataset of this name")


def extend(file: Path, dataset: str, to: Sequence[int] | None = None) -> tuple[int, ...]:
    """Give a live dataset that grows (``attach(…, maxshape=…)``) the shape that its inputs have now, or ``to``.

    Needs no key: its record says that it may grow.

    Returns:
        Its shape.

    Raises:
        InvalidRecordError: It does not grow, or not to this shape.
        NotFoundError: There is no such file, or no live dataset of that name in it.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        return tuple(_core.extend(os.fspath(file), dataset, None if to is None else [int(n) for n in to], library))


def rm(file: Path, dataset: str) -> None:
    """Remove a live dataset from a file. What it was computed from stays.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        _core.remove(os.fspath(file), dataset, library)


def verify(file: Path, dataset: str | None = None) -> list[Verdict]:
    """Check the records, signatures and chunks of a file, or of one live dataset, and whether it would run here.

    Nothing of it is run; an empty function is, to see what the sandbox reaches.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        rows = _core.verify_live(os.fspath(file), None if dataset is None else "/" + dataset.lstrip("/"), library)
    return [Verdict(*row) for row in rows]


def explain(file: Path, dataset: str) -> str:
    """What a live dataset is, whose it is, and what it would be allowed to do here, in words.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.
        InvalidRecordError: Its record does not hold.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        return _core.explain_live(os.fspath(file), "/" + dataset.lstrip("/"), library)


def rebuild(file: Path, dataset: str, *, take_over: bool = False) -> dict[str, Any]:
    """Compile and sign anew from the stored source, for this machine and with your key; returns the record.

    Args:
        file: The HDF5 file, which is changed.
        dataset: The live dataset.
        take_over: Also what somebody else signed, or nobody: signed by you from then on. Look at its source first.

    Raises:
        RefusedError: It is not yours, without ``take_over``.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        record = _core.rebuild_live(os.fspath(file), "/" + dataset.lstrip("/"), take_over, library)
    return _record(record)


def convert(file: Path, dataset: str, *, dry_run: bool = False) -> list[dict[str, Any]]:
    """Make a live dataset of one that HDF5-UDF wrote, from the source that it stored; returns the records.

    It is signed by you, so look at its source first (:func:`show`): HDF5-UDF's signature does not cover it.

    Raises:
        NotFoundError: There is no such dataset, or its source was not stored.
        UnsupportedError: HDF5-UDF did not write it, or it was renamed since.
    """
    library = _libhdf5.of_h5py()
    with _libhdf5.exclusive():
        records = _core.convert_live(os.fspath(file), "/" + dataset.lstrip("/"), dry_run, library)
    return [_record(record) for record in records]


def _record(text: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(text)
    return record
