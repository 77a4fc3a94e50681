"""HDF5-UDF's command and Python interface, for programs that move from it.

``from hyperchunk.hdf5_udf import UserDefinedFunction`` stands in for ``from hdf5_udf import UserDefinedFunction``, and
the command ``hdf5-udf`` takes the words that HDF5-UDF 2.1 takes. What they write are live datasets of Hyperchunk:
signed over all that counts, with the source, read through the same filter. New programs use
:func:`hyperchunk.udf.attach`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

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
        hdf5_file: The file, which has to exist.
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
        """Set ``overwrite`` or ``save_sourcecode`` to ``"true"`` or ``"false"``; whether there is such an option.

        The source is always stored, whatever ``save_sourcecode`` is.

        Raises:
            TypeError: Of other types.
        """
        if not isinstance(option, str | bytes) or not isinstance(value, str | bytes | bool):
            raise TypeError("options and values are str or bytes, values bool, too")
        name = option.decode() if isinstance(option, bytes) else option
        text = (value.decode() if isinstance(value, bytes) else str(value)).lower()
        if name not in _OPTIONS or text not in ("true", "false"):
            return False
        self._options[name] = text == "true"
        return True

    def push_dataset(self, description: Mapping[str, Any]) -> bool:
        """Say what an output looks like: ``name``, ``datatype``, ``resolution`` (a number or a list of them), and,
        where the datatype is ``"compound"``, ``members``: ``name`` and ``datatype`` of each.

        Raises:
            TypeError, ValueError: It is not such a description.
        """
        self._descriptions.append(described(description))
        return True

    def compile(self) -> bool:
        """Check the function, load it in the sandbox, write nothing.

        Raises:
            HyperchunkError: With the reason.
        """
        self._attach(dry_run=True)
        return True

    def store(self) -> Any:
        """Write the datasets: a list with the header of each, or a dictionary with ``error``."""
        try:
            return self._attach(dry_run=False)
        except HyperchunkError as error:
            return {"error": str(error)}

    def get_metadata(self, dataset: str) -> dict[str, Any]:
        """The header of a dataset of the file, or a dictionary with ``error``."""
        try:
            return udf.show(self._file, dataset).record
        except HyperchunkError as error:
            return {"error": str(error)}

    def destroy(self) -> None:
        """Forget what was said. Nothing is held."""
        self._options.clear()
        self._descriptions.clear()

    def _attach(self, *, dry_run: bool) -> list[dict[str, Any]]:
        _make_key()
        overwrite = self._options.get("overwrite", False)
        return udf.attach(self._file, self._source, self._descriptions, overwrite=overwrite, dry_run=dry_run)


def described(description: Mapping[str, Any]) -> str:
    """A description as a text, as the command takes it.

    Example:
        >>> described({"name": "out", "datatype": "float", "resolution": [10, 20]})
        'out:10x20:float'
        >>> members = [{"name": "id", "datatype": "int32"}, {"name": "who", "datatype": "string(8)"}]
        >>> described({"name": "out", "datatype": "compound", "resolution": 5, "members": members})
        'out:{id:int32,who:string(8)}:5'
    """
    if unknown := set(description) - {"name", "datatype", "resolution", "members"}:
        raise ValueError(f"a description has no {sorted(unknown)[0]!r}")
    name, datatype = (_text(description, key) for key in ("name", "datatype"))
    resolution = description.get("resolution", [])
    numbers = resolution if isinstance(resolution, Sequence) and not isinstance(resolution, str) else [resolution]
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers):
        raise ValueError("`resolution` is a number, or a list of numbers, greater than 0")
    shape = "x".join(map(str, numbers))
    if datatype != "compound":
        return f"{name}:{shape}:{datatype}"
    members = [f"{_text(member, 'name')}:{_text(member, 'datatype')}" for member in description.get("members", ())]
    if not members:
        raise ValueError("a compound has `members`")
    return f"{name}:{{{','.join(members)}}}:{shape}"


def _text(description: Mapping[str, Any], key: str) -> str:
    value = description.get(key)
    if not isinstance(value, str) or not value:
        raise TypeError(f"`{key}` is a string")
    return value


def _make_key() -> None:
    """Make the user's signing key if there is none, as HDF5-UDF does, and say so on standard error."""
    if made := _core.make_missing_key():
        fingerprint, path = made
        print(f"hyperchunk: made your signing key {fingerprint} ({path})", file=sys.stderr)


def main() -> None:
    """The command ``hdf5-udf``."""
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
        # Whoever reads it has read enough. The interpreter would complain about the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(value: Any) -> Any:
    """Values with long texts cut."""
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    return value[:_SHOWN] + "…" if isinstance(value, str) and len(value) > _SHOWN else value
