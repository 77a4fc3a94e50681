"""Collecting files in batches, so that an interrupted call can be resumed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.exceptions import HyperchunkError, InvalidError
from hyperchunk.progress import Progress

#: Number of files after which the finished part is saved.
BATCH_FILES = 1000


def collect_into(
    names: list[str],
    output: str,
    overwrite: bool,
    concat: str | int | None,
    skip: bool,
    statistics: list[bytes],
    shown: Progress,
    options: dict[str, object],
) -> _core.Collection:
    """Collects files, and saves the collection. Until then, the finished part is saved in ``NAME.partial.hcx``.

    Args:
        names: Paths or URLs of the files.
        output: The new file, ``NAME.hcx``.
        overwrite: True to replace an existing one.
        concat, skip, options: As for ``_core.Collection.collect``.
        statistics: Paths of datasets whose statistics are kept.
        shown: Progress, in files.

    Raises:
        ExistsError: `output` exists.
        InvalidError: `output` is one of the files; or ``NAME.partial.hcx`` has other files or another order, is joined
            along another dimension, is not a finished part, or could have been made by another user.
    """
    _core.check_output(output, overwrite, [name for name in names if "://" not in name])
    partial = Path(f"{output.removesuffix('.hcx')}.partial.hcx")
    done, made = 0, _core.Collection.open_part(partial, **options)
    has_part = made is not None
    if made is not None:
        done = _finished(made, printable(str(partial)), names, concat, skip)
        shown.add(done)

    def report(_: int) -> None:
        shown.add(1)

    while made is None or done < len(names):
        batch = names[done : done + BATCH_FILES]
        if made is None:
            made = _core.Collection.collect(batch, concat=concat, skip=skip, progress=report, **options)
        else:
            made.append(batch, skip=skip, progress=report)
        made.gather(statistics, progress=None)
        done += len(batch)
        if done < len(names):
            made.save_part(partial, has_part)
            has_part = True
    made.gather(statistics, progress=None)
    made.save(output, overwrite)
    if has_part:
        made.delete_part(partial)
    return made


def _finished(made: _core.Collection, partial: str, names: list[str], concat: str | int | None, skip: bool) -> int:
    """Returns the number of files in a finished part, including those that were left out."""
    told = made.concat or 0
    if concat is not None and concat != told:
        raise InvalidError(f"cannot resume from {partial}: it is joined along {told!r}, not {concat!r}; delete it")
    left_out = Counter(_absolute(name) for name, _ in made.skipped())
    if left_out and not skip:
        name, reason = map(printable, made.skipped()[0])
        raise InvalidError(
            f"cannot resume from {partial}: it leaves out {name} ({reason}); delete it, or set on_mismatch='skip'"
        )
    waiting = [_absolute(name) for name in made.names()][::-1]
    done = 0
    for name in map(_absolute, names):
        if waiting and waiting[-1] == name:
            waiting.pop()
        elif left_out[name]:
            left_out[name] -= 1
        else:
            break
        done += 1
    if waiting or left_out.total():
        raise InvalidError(
            f"cannot resume from {partial}: expected the files that are collected now, in their order; delete it"
        )
    for number, name in enumerate(made.names()):
        if "://" not in name:
            # Raises an error if the file has changed or does not exist. Files over a network are checked by reads.
            try:
                made.open_file(number).release_locks()
            except HyperchunkError as error:
                raise type(error)(f"{error}; delete {partial} to collect it again") from None
    return done


def _absolute(name: str) -> str:
    return name if "://" in name else os.path.abspath(name)  # noqa: PTH100 (links stay)


__all__ = ["BATCH_FILES", "collect_into"]
