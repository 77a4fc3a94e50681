"""One attack in this process, without our sandbox; runs in the jail. Arguments: language and file.

Prints whether the attack worked. Imports nothing that starts threads: some attacks need a single-threaded process.
"""

from __future__ import annotations

import array
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail

MEMORY = ctypes.create_string_buffer(b"canary-in-memory-" + b"5a17" * 4)


class Lib:
    """Bare replacement of the `lib` that a function sees."""

    def __init__(self) -> None:
        self.slots: dict[str, Any] = {
            "out": array.array("d", [0] * 4),
            "target": array.array("Q", [os.getpid(), ctypes.addressof(MEMORY)]),
        }

    def getData(self, name: str) -> Any:  # noqa: N802
        """Returns a dataset."""
        return self.slots[name]


class Slot(ctypes.Structure):
    """Layout of the C++ prelude's structure."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("datatype", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_uint64),
        ("dims", ctypes.POINTER(ctypes.c_uint64)),
    )


class Table(ctypes.Structure):
    """Layout of the C++ prelude's structure."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("slots", ctypes.POINTER(Slot)),
        ("file_path", ctypes.c_char_p),
        ("connect", ctypes.c_void_p),
        ("starts", ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64))),
        ("seed", ctypes.c_int64),
        ("clock", ctypes.c_void_p),
        ("wide", ctypes.c_uint64),
    )


def run_python(path: Path, lib: Lib) -> None:
    """Runs a Python function in this process."""
    scope: dict[str, Any] = {"lib": lib, "__name__": "udf"}
    exec(compile(path.read_text(), "udf.py", "exec"), scope)
    scope["dynamic_dataset"]()


def run_cpp(path: Path, lib: Lib) -> None:
    """Runs a C++ object in this process."""
    slots = (Slot * 2)()
    dims = [(ctypes.c_uint64 * 1)(len(data)) for data in lib.slots.values()]
    for slot, (name, data), shape in zip(slots, lib.slots.items(), dims, strict=True):
        slot.name, slot.datatype, slot.rank = name.encode(), b"double", 1
        slot.data, slot.dims = data.buffer_info()[0], shape
    starts = (ctypes.POINTER(ctypes.c_uint64) * 2)(*[(ctypes.c_uint64 * 1)(0) for _ in dims])
    table = Table(2, slots, b"file", None, starts, -1, None, 0)
    text = ctypes.create_string_buffer(1024)
    if ctypes.CDLL(str(path)).hyperchunk_run_3(ctypes.byref(table), text, 1024):
        print(text.value.decode())


def main(language: str, path: str) -> None:
    """Runs one attack in this process."""
    jail.require_confined()
    # Descriptors that a careless reader left open: to be found, truncated and hole-punched.
    for n in range(4):
        os.open(jail.WORK / f"open-{os.getpid()}-{n}", os.O_RDWR | os.O_CREAT)
    lib = Lib()
    {"py": run_python, "cpp": run_cpp}[language](Path(path), lib)
    print("WORKED" if lib.slots["out"][0] == 77 else "did nothing", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
