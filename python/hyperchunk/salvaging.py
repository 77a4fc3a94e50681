"""Salvage of damaged files: the command ``hyperchunk salvage``, as a function."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from hyperchunk import _core, observing
from hyperchunk.typing import PathLike

__all__ = ["SalvageReport", "SalvagedObject", "salvage"]


@dataclass(frozen=True)
class SalvagedObject:
    """Outcome for one object of a damaged file."""

    #: Path in the new file; of a lost object, the path in the damaged one.
    path: str
    #: Address of its header in the damaged file.
    address: int | None
    #: ``"group"``, ``"dataset"`` or ``"datatype"``; None if its header is lost.
    kind: str | None
    #: ``"incomplete"`` datasets lack parts; nothing of ``"lost"`` objects can be read.
    condition: Literal["whole", "incomplete", "lost"]
    #: True if it is in the new file.
    written: bool
    #: True if no link leads to it: it is in ``/lost+found``, and may have been deleted before the damage.
    orphan: bool
    #: Evidence for a dataset's data. ``"not checkable"``: damage inside the data would not show. None if the file
    #: has no data of it.
    checked: Literal["checksum", "decoded", "not checkable"] | None
    #: Evidence for its structure: header, index or links, committed datatype and heaps. ``"not checkable"``: damage
    #: there may give other values, shapes, types or names, and would not show. None if the object is lost.
    structure: Literal["checksum", "not checkable"] | None
    #: Reason why it is not whole.
    reason: str | None
    #: Missing parts of an incomplete dataset: start and count along each axis.
    missing: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    #: Reasons by the names of lost attributes; ``"links"`` and ``"attributes"`` if the names are lost, too.
    #: ``"references"`` and ``"references of NAME"`` name the lost objects that its values and attributes referred to.
    losses: dict[str, str]


@dataclass(frozen=True)
class SalvageReport:
    """Result of :func:`salvage`."""

    #: True if nothing is known to be lost.
    whole: bool
    #: Size of the new file in bytes.
    bytes: int
    #: Damage that belongs to no object, and notes.
    damage: tuple[str, ...]
    #: All objects, and those known to be lost.
    objects: tuple[SalvagedObject, ...]


def salvage(
    path: PathLike,
    output: PathLike,
    *,
    partial: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
) -> SalvageReport:
    """Copies the undamaged objects of a truncated, unclosed or damaged file of any writer to a new file.

    Objects keep their paths where the links survive; those that no link leads to are in ``/lost+found``. A dataset is
    copied if all of its data can be read and decoded. The damaged file is not changed.

    Args:
        path: The damaged file.
        output: The new file.
        partial: True to write incomplete datasets, too. Their attribute ``hyperchunk_salvage_missing`` has start and
            count of each missing part, as unsigned integers of shape (parts, 2, rank); these parts read as the fill
            value.
        overwrite: True to replace an existing output.
        threads: Number of threads; one for each processor by default.

    Returns:
        A report of each object and its losses.

    Raises:
        OSError: The file contains no HDF5 object, or the output exists.

    Example:
        >>> with hyperchunk.create("whole.h5") as file:
        ...     file["a"] = [1, 2, 3]
        >>> report = hyperchunk.salvage("whole.h5", "good.h5")
        >>> report.whole, [item.path for item in report.objects]
        (True, ['/', '/a'])
    """
    with observing.work("salvage", path) as facts:
        report: dict[str, Any] = json.loads(_core.salvage(path, output, partial, overwrite, threads or 0))
        objects = tuple(_salvaged(item) for item in report["objects"])
        facts["objects"], facts["lost"] = len(objects), sum(item.condition == "lost" for item in objects)
    return SalvageReport(report["whole"], report["bytes"], tuple(report["damage"]), objects)


def _salvaged(item: dict[str, Any]) -> SalvagedObject:
    missing = tuple((tuple(start), tuple(count)) for start, count in item.pop("missing"))
    return SalvagedObject(missing=missing, **item)
