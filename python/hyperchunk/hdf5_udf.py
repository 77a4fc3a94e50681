"""HDF5-UDF's command and Python interface, for programs that migrate from it.

``from hyperchunk.hdf5_udf import UserDefinedFunction`` replaces ``from hdf5_udf import UserDefinedFunction``, and the
command ``hdf5-udf`` takes the arguments of HDF5-UDF 2.1. Both write Hyperchunk's live datasets, which include the
source and a signature of everything relevant, and are read through the same filter. New programs use
:func:`hyperchunk.udf.attach`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, cast

from hyperchunk import _core, udf
from hyperchunk.exceptions import HyperchunkError

__all__ = ["UserDefinedFunction", "main"]

_OPTIONS = ("overwrite", "save_sourcecode")
_SHOWN = 60

USAGE = """\
usage: hdf5-udf [--overwrite] [--save-sourcecode] HDF5_FILE UDF_FILE [UDF_DATASET ...]

HDF5-UDF's command, by Hyperchunk: stores a function in an HDF5 file as one dataset or more.

  HDF5_FILE            the file, which is changed
  UDF_FILE             the function: .lua, .py or .cpp
  UDF_DATASET          what an output looks like: NAME:RESOLUTION:TYPE, or
                       NAME:{MEMBER:TYPE[,MEMBER:TYPE...]}:RESOLUTION;
                       without any, names come from the source, types and shapes from the inputs
  --overwrite          replace datasets of these names
  --save-sourcecode    of no effect: the source is always stored
  --help               this text

`hyperchunk udf attach` does more, such as blocks that are computed as they are read (--chunks).
"""


class UserDefinedFunction:
    """Stores a user-defined function in an HDF5 file; PyHDF5-UDF's class.

    Args:
        hdf5_file: The file, which must exist.
        udf_file: The function: ``.py``, ``.lua`` or ``.cpp``.

    Example:
        >>> from hyperchunk.hdf5_udf import UserDefinedFunction
        >>> with UserDefinedFunction(hdf5_file="a.h5", udf_file="simple.py") as function:  # doctest: +SKIP
        ...     function.push_dataset({"name": "simple", "datatype": "float", "resolution": [1000]})
        ...     function.compile()
        ...     function.store()
    """

    def __init__(self, hdf5_file: str | os.PathLike[str] = "", udf_file: str | os.PathLike[str] = "") -> None:
        self._file, self._source = hdf5_file, udf_file
        self._options: dict[str, bool] = {}
        self._descriptions: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.destroy()

    def set_option(self, option: str | bytes = "", value: str | bytes | bool = "") -> bool:
        """Sets ``overwrite`` or ``save_sourcecode`` to ``"true"`` or ``"false"``; returns whether the option exists.

        The source is always stored, independent of ``save_sourcecode``.

        Raises:
            TypeError: The option or the value is of another type.
        """
        if not isinstance(option, str | bytes) or not isinstance(value, str | bytes | bool):
            raise TypeError("expected an option of type str or bytes, and a value of type str, bytes or bool")
        name = option.decode() if isinstance(option, bytes) else option
        text = (value.decode() if isinstance(value, bytes) else str(value)).lower()
        if name not in _OPTIONS or text not in ("true", "false"):
            return False
        self._options[name] = text == "true"
        return True

    def push_dataset(self, description: Mapping[str, object]) -> bool:
        """Declares an output: ``name``, ``datatype``, ``resolution`` (a number or a list of numbers), and, for
        datatype ``"compound"``, ``members``: ``name`` and ``datatype`` of each.

        Raises:
            TypeError, ValueError: The description is invalid.
        """
        self._descriptions.append(described(description))
        return True

    def compile(self) -> bool:
        """Checks the function and loads it in the sandbox; writes nothing.

        Raises:
            HyperchunkError: The function is invalid, with the reason.
        """
        self._attach(dry_run=True)
        return True

    def store(self) -> list[udf.Record] | dict[str, str]:
        """Writes the datasets; returns a list with the header of each, or a dictionary with ``error``."""
        try:
            return self._attach(dry_run=False)
        except HyperchunkError as error:
            return {"error": str(error)}

    def get_metadata(self, dataset: str) -> udf.Record:
        """Returns the header of a dataset in the file, or a dictionary with ``error``."""
        try:
            return udf.show(self._file, dataset).record
        except HyperchunkError as error:
            return {"error": str(error)}

    def destroy(self) -> None:
        """Clears options and descriptions. No resources are held."""
        self._options.clear()
        self._descriptions.clear()

    def _attach(self, *, dry_run: bool) -> list[udf.Record]:
        _make_key()
        overwrite = self._options.get("overwrite", False)
        return udf.attach(self._file, self._source, self._descriptions, overwrite=overwrite, dry_run=dry_run)


def described(description: Mapping[str, object]) -> str:
    """Converts a description to text, in the form of the command's argument.

    Example:
        >>> described({"name": "out", "datatype": "float", "resolution": [10, 20]})
        'out:10x20:float'
        >>> members = [{"name": "id", "datatype": "int32"}, {"name": "who", "datatype": "string(8)"}]
        >>> described({"name": "out", "datatype": "compound", "resolution": 5, "members": members})
        'out:{id:int32,who:string(8)}:5'
    """
    if unknown := set(description) - {"name", "datatype", "resolution", "members"}:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}: expected name, datatype, resolution or members")
    name, datatype = (_text(description, key) for key in ("name", "datatype"))
    resolution = description.get("resolution", [])
    numbers = resolution if isinstance(resolution, Sequence) and not isinstance(resolution, str) else [resolution]
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers):
        raise ValueError("`resolution` must be a positive integer, or a list of positive integers")
    shape = "x".join(map(str, numbers))
    if datatype != "compound":
        return f"{name}:{shape}:{datatype}"
    members = [
        f"{_text(member, 'name')}:{_text(member, 'datatype')}"
        for member in cast("Iterable[Mapping[str, object]]", description.get("members", ()))
    ]
    if not members:
        raise ValueError("a compound needs `members`")
    return f"{name}:{{{','.join(members)}}}:{shape}"


def _text(description: Mapping[str, object], key: str) -> str:
    value = description.get(key)
    if not isinstance(value, str) or not value:
        raise TypeError(f"`{key}` must be a non-empty string")
    return value


def _make_key() -> None:
    """Creates the user's signing key if it does not exist, as HDF5-UDF does, and reports it on standard error."""
    if made := _core.make_missing_key():
        fingerprint, path = made
        print(f"hyperchunk: made your signing key {fingerprint} ({path})", file=sys.stderr)


def main() -> None:
    """Runs the command ``hdf5-udf``."""
    flags = [word for word in sys.argv[1:] if word.startswith("--")]
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--help" in flags:
        print(USAGE, end="")
        return
    unknown = [flag for flag in flags if flag not in ("--overwrite", "--save-sourcecode")]
    if unknown or len(words) < 2:
        what = f"unrecognized option {unknown[0]!r}" if unknown else "HDF5_FILE and UDF_FILE are needed"
        print(f"hdf5-udf: {what}\n\n{USAGE}", end="", file=sys.stderr)
        sys.exit(1)
    try:
        _make_key()
        headers = udf.attach(words[0], words[1], words[2:], overwrite="--overwrite" in flags)
    except HyperchunkError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    # Long texts, such as sources and compiled forms, would hide the rest.
    shown = json.dumps([_shown(header) for header in headers], indent=4, ensure_ascii=False)
    try:
        print("Dataset header:\n" + shown, flush=True)
    except BrokenPipeError:
        # The reader closed the pipe; without this, the interpreter would report an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(value: object) -> object:
    """Returns the value with long texts truncated."""
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    return value[:_SHOWN] + "…" if isinstance(value, str) and len(value) > _SHOWN else value
