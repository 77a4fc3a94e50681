"""Functions whose file refers, for its inputs, to other files of the reader. A program for the jail."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail, records
from hostile.records import Slot, make, store

SECRET = bytes(range(65, 97))
SUM = """
function dynamic_dataset()
  local a, o = lib.getData("A"), lib.getData("out")
  for i = 1, 32 do o[i] = a[i] end
end"""
WAYS = ("raw", "raw_relative", "link", "link_to_raw", "virtual", "virtual_of_raw", "symbolic", "environ", "fifo")
PLACES = {"outside": "home", "beside": "data/near"}


def make_input(file: Any, how: str, folder: Path) -> None:
    """Puts an input that refers to `folder` into a file."""
    import h5py

    raw, other = folder / "secret.txt", folder / "other.h5"
    named = {
        "raw": raw,
        "raw_relative": Path(os.path.relpath(raw)),
        "symbolic": Path("data/link.txt").resolve().parent / f"{folder.name}.txt",
        "environ": Path("/proc/self/environ"),
        "fifo": Path("data/fifo").resolve(),
    }
    if how in named:
        file.create_dataset("A", (32,), "u1", external=[(str(named[how]), 0, 32)])
    elif how == "link":
        file["A"] = h5py.ExternalLink(str(other), "/private")
    elif how == "link_to_raw":
        file["A"] = h5py.ExternalLink(str(Path("data/raw_of_" + folder.name + ".h5").resolve()), "/A")
    else:
        source = (other, "private") if how == "virtual" else (Path(f"data/raw_of_{folder.name}.h5").resolve(), "A")
        layout = h5py.VirtualLayout((32,), "u1")
        layout[:] = h5py.VirtualSource(str(source[0]), source[1], (32,))
        file.create_virtual_dataset("A", layout)


def outcome(opened: Any, path: str, name: str) -> str:
    """Returns the result of a read."""
    import hyperchunk

    start = time.monotonic()
    try:
        with opened(path) as file:
            value = file[name][...].astype("u1").tobytes()
    except (OSError, hyperchunk.HyperchunkError) as error:
        return f"{type(error).__name__} {error}"[:600]
    assert time.monotonic() - start < 10
    return "secret" if value == SECRET else repr(value)


def main() -> None:
    """Tries every kind of reference to every place, with both readers, for a stranger's function, and the controls."""
    jail.require_confined()
    import hyperchunk

    hyperchunk.plugins.enable()
    import h5py
    import numpy as np

    records.BACKENDS["expression"] = "Expression"
    results: dict[str, str] = {}
    Path("data/near").mkdir(parents=True)
    Path("home").mkdir(exist_ok=True)
    os.mkfifo("data/fifo")
    for folder in map(Path, PLACES.values()):
        (folder / "secret.txt").write_bytes(SECRET)
        Path(f"data/{folder.name}.txt").symlink_to((folder / "secret.txt").resolve())
        with h5py.File(folder / "other.h5", "w") as file:
            file["private"] = np.frombuffer(SECRET, "u1")
        with h5py.File(f"data/raw_of_{folder.name}.h5", "w") as file:
            make_input(file, "raw", folder.resolve())
    for how in WAYS:
        for place, folder in PLACES.items():
            path = f"data/{how}_{place}.h5"
            with h5py.File(path, "w") as file:
                make_input(file, how, Path(folder).resolve())
                store(file, make(SUM, "lua", Slot("out", "uint8", (32,)), [Slot("A", "uint8", (32,))]))
                store(file, make("A + 0", "expression", Slot("computed", "double", (32,)), [Slot("A", "uint8", (32,))]))
            for reader, opened in (("h5py", h5py.File), ("hyperchunk", hyperchunk.open)):
                for name in ("out", "computed"):
                    results[f"{how} {place} {reader} {name}"] = outcome(opened, path, name)
                if how not in ("environ", "fifo"):
                    # A direct read by the reader is no function's input.
                    results[f"{how} {place} {reader} control"] = outcome(opened, path, "A")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
