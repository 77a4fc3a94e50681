"""Live datasets: programs stored in HDF5 files as datasets."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.exceptions import NotFoundError
from hyperchunk.typing import PathLike

__all__ = ["LiveDataset", "Verdict", "attach", "convert", "explain", "extend", "ls", "rebuild", "rm", "show", "verify"]

Path: TypeAlias = PathLike
#: Record of a live dataset: parsed JSON.
Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class LiveDataset:
    """A live dataset as described by its file; nothing has been run."""

    path: str
    """Its path in the file."""
    record: Record
    """The record: back end, inputs, output, source, signature; of one that HDF5-UDF wrote, its header
    (``api_version`` 2). Empty when it is damaged beyond reading."""
    stub_bytes: int
    """Size of its chunks in the file, in bytes."""
    signer: str | None
    """The fingerprint of the key that signed it, or ``None``."""
    profile: str | None
    """The trust profile that it would run in here, or ``None`` when it would be refused."""
    error: str | None
    """Reason why the record is not valid, or ``None``."""


@dataclass(frozen=True)
class Verdict:
    """Result of checking a live dataset without running its function."""

    path: str
    """Its path in the file."""
    signer: str | None
    """The fingerprint of the key that signed it, or ``None``."""
    chunks: int | None
    """The number of its chunks, all with the expected content; ``None`` when it is not valid."""
    profile: str | None
    """The trust profile that decides here, if one lets it run."""
    sandbox: str | None
    """The layers of the sandbox that it would run in, or ``None`` when it would not run."""
    reason: str | None
    """Reason why it is not valid, or would not run here; else ``None``."""

    @property
    def valid(self) -> bool:
        """True if record, signature and chunks are valid."""
        return self.chunks is not None

    @property
    def runs(self) -> bool:
        """True if a read would run its function here."""
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
) -> list[Record]:
    """Stores a program, or an expression, in an HDF5 file as one or more live datasets.

    Of the datasets that the program names with ``lib.getData``, the ones that exist in the file are its inputs, the
    others its outputs. All datasets that an expression names are its inputs, and it has one output. The file must not
    be open for writing elsewhere; close your own ``h5py.File`` first.

    Args:
        file: The HDF5 file, which is changed.
        source: The program: ``.py``, ``.lua``, ``.cpp``, ``.c``, ``.wasm``, a WebAssembly module, or ``.expr``, a file
            with an expression.
        outputs: Descriptions ``"NAME:RESOLUTION:TYPE"``, such as ``"NDVI:4000x4000:float"``. An output without one
            takes the shape and type of the inputs, if these are all the same. The output of an expression must be
            named, and takes the type that the expression has by NumPy's rules.
        expression: Instead of a source: an element-wise expression, as in ``"(NIR - Red) / (NIR + Red)"``.
        backend: ``"wasm"``: compile a C++ source to WebAssembly, with Zig (``pip install ziglang``); C always is.
        inputs: The datasets that a module reads, if it does not declare them itself.
        chunks: ``None``: a function sees whole arrays; an expression chooses its own blocks. ``"auto"`` or a shape: the
            function runs once per chunk and sees that block as if it were the whole; inputs of the output's shape
            are cut to the block, others stay whole.
        halo: With ``chunks``, number of extra elements on each side of the inputs' blocks, clipped to the dataset: one
            number per dimension, or one for all. ``lib.getOffset()`` returns the offsets of blocks.
        maxshape: The largest shape to which `extend` may enlarge the dataset: ``"inputs"``, as far as its inputs can
            grow, or a shape with ``None`` in an unlimited dimension. Only for block-wise computation.
        seed: Seed of random numbers, for ``lib.seed()`` and for the language's own generators. By default one is chosen
            if the source calls ``lib.seed``. It is stored in the record: each reader gets the same values.
        attrs: Attributes that each output gets: text, or numbers.
        overwrite: Replace existing objects with an output's name.
        unsigned: Do not sign; readers run it in the profile ``untrusted``, which refuses C++.
        dry_run: Check everything, write nothing.

    Returns:
        The record of each output, as stored.

    Raises:
        UdfSyntaxError: The source, the expression or a description cannot be parsed.
        TypeError: Neither a source nor an expression is given, or both are.
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
    )
    return [json.loads(record) for record in records]


def ls(file: Path) -> list[LiveDataset]:
    """Lists the live datasets of a file, by path.

    Raises:
        NotFoundError: There is no such file.

    Example:
        >>> with hyperchunk.open("plain.h5", "w") as file:
        ...     file["x"] = [1, 2, 3]
        >>> hyperchunk.udf.ls("plain.h5")
        []
    """
    rows = _core.list_live(os.fspath(file))
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
    """Returns one live dataset of a file.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.

    Example:
        >>> hyperchunk.udf.show("scene.h5", "NDVI").record["backend"]  # doctest: +SKIP
        'expression'
    """
    path = "/" + dataset.lstrip("/")
    for live in ls(file):
        if live.path == path:
            return live
    raise NotFoundError(f"{printable(os.fspath(file))}:{printable(path)}: there is no live dataset of this name")


def extend(file: Path, dataset: str, to: Sequence[int] | None = None) -> tuple[int, ...]:
    """Extends a growable live dataset (``attach(…, maxshape=…)``) to the current shape of its inputs, or to ``to``.

    Needs no key: the signed record permits the growth.

    Returns:
        The new shape.

    Raises:
        InvalidRecordError: The dataset is not growable, or not to this shape.
        NotFoundError: There is no such file, or no live dataset of that name in it.

    Example:
        >>> hyperchunk.udf.extend("scene.h5", "NDVI")  # doctest: +SKIP
        (5000, 4000)
    """
    return tuple(_core.extend(os.fspath(file), dataset, None if to is None else [int(n) for n in to]))


def rm(file: Path, dataset: str) -> None:
    """Removes a live dataset from a file. Its inputs stay.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.

    Example:
        >>> hyperchunk.udf.rm("scene.h5", "NDVI")  # doctest: +SKIP
    """
    _core.remove(os.fspath(file), dataset)


def verify(file: Path, dataset: str | None = None) -> list[Verdict]:
    """Checks the records, signatures and chunks of a file, or of one live dataset, and whether it would run here.

    Runs none of its functions, only an empty one, to find the layers of the sandbox that are available.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.

    Example:
        >>> [verdict.runs for verdict in hyperchunk.udf.verify("scene.h5")]  # doctest: +SKIP
        [True]
    """
    rows = _core.verify_live(os.fspath(file), None if dataset is None else "/" + dataset.lstrip("/"))
    return [Verdict(*row) for row in rows]


def explain(file: Path, dataset: str) -> str:
    """Describes a live dataset as text: its contents, its signer, and its permissions here.

    Raises:
        NotFoundError: There is no such file, or no live dataset of that name in it.
        InvalidRecordError: Its record is invalid.

    Example:
        >>> print(hyperchunk.udf.explain("scene.h5", "NDVI"))  # doctest: +SKIP
    """
    return _core.explain_live(os.fspath(file), "/" + dataset.lstrip("/"))


def rebuild(file: Path, dataset: str, *, take_over: bool = False) -> Record:
    """Recompiles the stored source for this machine and signs it with your key; returns the record.

    Args:
        file: The HDF5 file, which is changed.
        dataset: The live dataset.
        take_over: Accept a dataset that is unsigned or signed by another key, and sign it. Read its source first.

    Raises:
        RefusedError: The dataset is not signed by your key, and ``take_over`` is not set.

    Example:
        >>> hyperchunk.udf.rebuild("scene.h5", "NDVI", take_over=True)  # doctest: +SKIP
    """
    record = _core.rebuild_live(os.fspath(file), "/" + dataset.lstrip("/"), take_over)
    return _record(record)


def convert(file: Path, dataset: str, *, dry_run: bool = False) -> list[Record]:
    """Converts a dataset written by HDF5-UDF to a live dataset, from its stored source; returns the records.

    You sign it, so read its source first (:func:`show`): HDF5-UDF's signature does not cover it.

    Raises:
        NotFoundError: There is no such dataset, or its source was not stored.
        UnsupportedError: HDF5-UDF did not write it, or it was renamed later.

    Example:
        >>> hyperchunk.udf.convert("old.h5", "NDVI", dry_run=True)  # doctest: +SKIP
    """
    records = _core.convert_live(os.fspath(file), "/" + dataset.lstrip("/"), dry_run)
    return [_record(record) for record in records]


def _record(text: str) -> Record:
    record: Record = json.loads(text)
    return record
