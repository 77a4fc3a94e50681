"""New HDF5 files, written under temporary names and renamed when they are complete."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from hyperchunk import _core

if TYPE_CHECKING:
    from hyperchunk.typing import CreateOptions
    from hyperchunk.write.file import WritableFile


def path_beside(path: str | Path) -> str:
    """Returns an unpredictable name in the folder of `path`."""
    path = Path(path)
    return str(path.with_name(f".{path.name}.{secrets.token_hex(16)}.tmp"))


def open_beside(path: str | Path, **options: Unpack[CreateOptions]) -> tuple[str, WritableFile]:
    """Creates a temporary file that will replace `path`, in the same folder; returns its path and the file. If `path`
    exists, only its user may read the new file until it is complete and gets the permissions of the old one.
    """
    import hyperchunk

    beside = path_beside(path)
    mode: Literal["w", "x"] = "x"
    with suppress(OSError):
        if stat.S_ISREG(Path(path).lstat().st_mode):
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            mode = "w"
    try:
        file = hyperchunk.open(beside, mode, **options)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return beside, file


@contextmanager
def new_file(
    path: Path, overwrite: bool, inputs: list[str], **options: Unpack[CreateOptions]
) -> Iterator[WritableFile]:
    """Opens a new file for writing. A link at its path is replaced. After an exception, nothing has changed.

    Args:
        path: The new file.
        overwrite: True to replace an existing one.
        inputs: Files that must not be overwritten.
        options: Options of :func:`hyperchunk.open`.
    """
    _core.check_output(path, overwrite, inputs)
    beside, file = open_beside(path, **options)
    try:
        yield file
        file.close()
        _core.put_output(beside, path, overwrite)
    except BaseException:
        if file:
            file.discard()
        Path(beside).unlink(missing_ok=True)
        raise


__all__ = ["new_file", "open_beside", "path_beside"]
