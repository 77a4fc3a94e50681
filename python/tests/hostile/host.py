"""Reading process: an ordinary h5py program that performs given reads and reports the results.

Arguments: a JSON file with a list of reads, a file with good datasets, and a descriptor, to which lines of JSON go
for each read. Whatever a read does, this process must survive, and read a good dataset afterwards.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail

GOOD = [1.0, 4.0, 9.0, 16.0]
SECRET_IN_MEMORY = b"canary-in-memory-" + b"5a17" * 4


def descendants() -> dict[int, str]:
    """Returns the descendants of this process, by number, with their state; without the warm Python, which stays."""
    parents: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            parents[int(folder.name)] = int(parent), state
    found: dict[int, str] = {}
    front = {os.getpid()}
    while front:
        front = {pid for pid, (parent, _) in parents.items() if parent in front and pid not in found}
        found |= {pid: parents[pid][1] for pid in front}
    return {pid: state for pid, state in found.items() if not (parents[pid][0] == os.getpid() and is_warm_python(pid))}


def is_warm_python(pid: int) -> bool:
    """True for the process that forks the workers of Python functions."""
    try:
        return b"zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def open_descriptors() -> int:
    """Returns the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def settled(before: set[int], kept: int, seconds: float = 2.0) -> list[str]:
    """Returns the processes that remain after a read, if more than `kept`, after some time to be reaped."""
    end = time.monotonic() + seconds
    while True:
        left = {pid: state for pid, state in descendants().items() if pid not in before}
        if len(left) <= kept:
            return []
        if time.monotonic() > end:
            return [f"{pid} {state}" for pid, state in left.items()]
        time.sleep(0.02)


def read(row: dict[str, Any]) -> dict[str, Any]:
    """Performs one read and returns its result."""
    import h5py

    if row.get("target"):
        # Tells the function the address of this process's secret, as if it had guessed it.
        with h5py.File(row["file"], "r+") as file:
            file["target"][:] = [os.getpid(), ctypes.addressof(MEMORY)]
    result: dict[str, Any] = {"name": row["name"]}
    start = time.monotonic()
    try:
        with h5py.File(row["file"], row.get("mode", "r")) as file:
            if "pieces" in row:
                return result | pieces(file[row["dataset"]], row["pieces"], start)
            data = file[row["dataset"]][...]
        result |= {"outcome": "value", "value": data.ravel()[:8].tolist()}
    except Exception as error:
        result |= {"outcome": type(error).__name__, "text": str(error)}
    result["seconds"] = round(time.monotonic() - start, 3)
    return result


def pieces(dataset: Any, count: int, start: float) -> dict[str, Any]:
    """Reads the first elements one by one; they must all fail."""
    texts = set()
    for n in range(count):
        try:
            dataset[n]
        except OSError as error:
            texts.add(str(error))
        else:
            return {"outcome": "value", "value": [n], "seconds": time.monotonic() - start}
    seconds = round((time.monotonic() - start) / count, 3)
    return {"outcome": "OSError", "text": " | ".join(sorted(texts))[:4000], "seconds": seconds}


def good(path: str, name: str = "good") -> bool:
    """Returns whether a good dataset can still be read."""
    import h5py

    with h5py.File(path, "r") as file:
        return bool(file[name][...].tolist() == GOOD)


def main(cases: str, good_file: str, descriptor: str) -> None:
    """Performs all reads."""
    jail.require_confined()
    import hyperchunk

    hyperchunk.plugins.enable()
    import h5py  # noqa: F401

    report = os.fdopen(int(descriptor), "w", buffering=1)
    os.set_inheritable(int(descriptor), False)
    # Resources that a function must not inherit: descriptors without close-on-exec, and the environment.
    os.set_inheritable(os.open(os.environ["HOSTILE_SECRET_FILE"], os.O_RDWR), True)
    # Warms up both, so that any further process comes from a hostile read.
    assert good(good_file)
    assert good(good_file, "good_python")
    for row in json.loads(Path(cases).read_text()):
        before, descriptors = set(descendants()), open_descriptors()
        report.write(json.dumps({"start": row["name"]}) + "\n")
        result = read(row)
        # A worker that has served well may stay for the next read. Live datasets that an unfinished read has computed
        # keep their workers, too.
        finished = result["outcome"] == "value" or row.get("workers", 1) > 1
        kept = row.get("workers", 1) if finished else 0
        result["left"] = settled(before, kept)
        result["descriptors"] = 0 if kept else max(0, open_descriptors() - descriptors)
        result["memory"] = bytes(MEMORY) == SECRET_IN_MEMORY
        result["pid"] = os.getpid()
        result["good"] = good(good_file)
        report.write(json.dumps(result) + "\n")


MEMORY = (ctypes.c_char * len(SECRET_IN_MEMORY)).from_buffer(bytearray(SECRET_IN_MEMORY))

if __name__ == "__main__":
    main(*sys.argv[1:])
