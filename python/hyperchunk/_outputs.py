"""New HDF5 files that get their names when they are complete."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperchunk import _core

if TYPE_CHECKING:
    from hyperchunk.write.file import WritableFile


def path_beside(path: str | Path) -> str:
    """Returns an unpredictable name in the same folder."""
    path = Path(path)
    return str(path.with_name(f".{path.name}.{secrets.token_hex(16)}.tmp"))


@contextmanager
def new_file(path: Path, overwrite: bool, inputs: list[str], **options: Any) -> Iterator[WritableFile]:
    """Opens a new file for writing. A link at its path is replaced; after an exception, everything is as it was.

    Args:
        path: The new file.
        overwrite: True to replace an existing one.
        inputs: Files that it must not be.
        options: Options of :func:`hyperchunk.open`.
    """
    import hyperchunk

    _core.check_output(path, overwrite, inputs)
    beside = path_beside(path)
    file: Any = hyperchunk.open(beside, "x", **options)
    try:
        yield file
        file.close()
        _core.put_output(beside, path, overwrite)
    except BaseException:
        if file:
            file._opened.discard()
        Path(beside).unlink(missing_ok=True)
        raise


__all__ = ["new_file", "path_beside"]
