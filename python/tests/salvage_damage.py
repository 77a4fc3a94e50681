"""Damages copies of a file, salvages them, and compares the result with h5py's reading of the undamaged file:
`python salvage_damage.py FOLDER SEED CUTS FLIPS FILE…` prints a JSON line for each case. FOLDER is for the copies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import signal
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from salvage_places import Bytes

with contextlib.suppress(ImportError):
    import hdf5plugin  # type: ignore[import-not-found] # noqa: F401 -- h5py then reads more filters

#: Larger datasets are not compared.
LARGE = 16 << 20
#: Bytes that a damaged copy gets.
FLIPPED_BYTES = 20
#: Time for h5py to read a damaged file, which may make it loop.
PEER_SECONDS = 60


def digest(value: Any) -> str:
    """Returns a digest of a value, or the word for one that depends on addresses."""
    hasher = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, h5py.Reference | h5py.RegionReference):
            hasher.update(b"reference")
        elif isinstance(one, np.ndarray) and one.dtype.hasobject:
            hasher.update(repr(one.shape).encode())
            for part in one.reshape(-1):
                add(part)
        elif isinstance(one, np.void) and one.dtype.hasobject:
            for name in one.dtype.names or ():
                add(one[name])
        elif isinstance(one, np.ndarray | np.generic):
            hasher.update(repr((one.dtype, one.shape)).encode() + one.tobytes())
        else:
            hasher.update(repr(one).encode())

    add(value)
    return hasher.hexdigest()


def attributes(item: Any) -> dict[str, str]:
    found = {}
    for name in item.attrs:
        try:
            found[os.fsdecode(name)] = digest(item.attrs[name])
        except Exception:
            found[os.fsdecode(name)] = "unreadable"
    return found


def value(item: h5py.Dataset) -> str:
    try:
        if item.shape is None:
            return "null"
        if item.is_virtual:
            # The sources beside the file are not beside its copy.
            return "virtual"
        # A damaged datatype may have no equivalent in NumPy: h5py then raises ValueError here.
        if item.size * item.dtype.itemsize > LARGE:
            return "large"
        return digest(item[()])
    except Exception:
        return "unreadable"


def extents(item: h5py.Dataset) -> list[tuple[int, int]]:
    """Returns the ranges of a dataset's data in the file."""
    offset = item.id.get_offset()
    if offset is not None:
        return [(offset, offset + item.id.get_storage_size())]
    if item.chunks is None:
        return []
    with contextlib.suppress(Exception):
        chunks = [item.id.get_chunk_info(number) for number in range(item.id.get_num_chunks())]
        # HDF5 2.0 counts from the start of the file, user block included.
        return [(chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks]
    return []


def stored(item: h5py.Dataset, content: bytes, ranges: list[tuple[int, int]]) -> list[bytes]:
    """Returns a dataset's elements as they are stored, without their filters."""
    if item.chunks is None:
        return [content[start:end] for start, end in ranges]
    found = []
    filters = [
        item.id.get_create_plist().get_filter(number) for number in range(item.id.get_create_plist().get_nfilters())
    ]
    for number in range(item.id.get_num_chunks()):
        with contextlib.suppress(Exception):
            info = item.id.get_chunk_info(number)
            mask, data = item.id.read_direct_chunk(info.chunk_offset)
            for place, (code, _, options, _) in reversed(list(enumerate(filters))):
                if mask & 1 << place:
                    continue
                if code == h5py.h5z.FILTER_DEFLATE:
                    data = zlib.decompress(data)
                elif code == h5py.h5z.FILTER_FLETCHER32:
                    data = data[:-4]
                elif code == h5py.h5z.FILTER_SHUFFLE:
                    size = options[0]
                    whole = len(data) // size * size
                    data = np.frombuffer(data[:whole], "u1").reshape(size, -1).T.tobytes() + data[whole:]
            found.append(bytes(data))
    return found


def read(path: Path, with_extents: bool = False) -> dict[str, dict[str, Any]]:
    """Reads all objects of a file with h5py: by path."""
    found: dict[str, dict[str, Any]] = {}
    content = path.read_bytes() if with_extents else b""
    with h5py.File(path, "r") as file:
        base = file.userblock_size
        source = Bytes(content, base) if with_extents else None

        def visit(name: str | bytes, item: Any) -> None:
            name = os.fsdecode(name)
            info = h5py.h5o.get_info(item.id)
            entry: dict[str, Any] = {"address": info.addr, "attributes": attributes(item)}
            raw: list[bytes] = []
            if isinstance(item, h5py.Dataset):
                entry["value"] = value(item)
                if with_extents:
                    entry["extents"] = extents(item)
                    plain = entry["value"] == "unreadable" or not item.dtype.hasobject
                    raw = [] if plain else stored(item, content, entry["extents"])
            if source is not None:
                entry["places"] = asdict(source.places(info.addr, raw))
                entry["names"] = source.names() if name == "" else []
            found[name] = entry

        visit("", file)
        file.visititems(visit)
    return found


def apart(work: Callable[[], Any]) -> Any:
    """Runs work in a process of its own; None if it crashes, or takes too long."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(theirs, "w") as pipe:
                json.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], PEER_SECONDS)[0]:
        part = os.read(ours, 1 << 20)
        if not part:
            break
        text += part
    os.close(ours)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def peer_yield(path: Path, original: dict[str, dict[str, Any]]) -> int:
    """Counts the datasets that h5py reads from a damaged file as from the undamaged one."""
    count = 0
    with contextlib.suppress(Exception), h5py.File(path, "r") as file:
        for name, entry in original.items():
            if "value" in entry:
                with contextlib.suppress(Exception):
                    count += value(file[name]) == entry["value"]
    return count


def touches(damage: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> bool:
    return any(begin < end and start < stop for start, end in map(tuple, ranges) for begin, stop in damage)


def case(path: Path, original: dict[str, dict[str, Any]], damage: list[tuple[int, int]], cut: bool) -> dict[str, Any]:
    """Salvages a damaged file, and counts what came back."""
    output = path.with_suffix(".good")
    output.unlink(missing_ok=True)
    datasets = {entry["address"]: entry for entry in original.values() if "value" in entry}
    told: dict[str, Any] = {"datasets": len(datasets), "equal": 0, "differs": [], "stranger": [], "missing": []}
    told.update(named=0, attributes=0, wrong_attributes=[], error=None)
    told["h5py"] = apart(lambda: peer_yield(path, original)) or 0
    try:
        report = hyperchunk.salvage(path, output)
    except hyperchunk.HyperchunkError as error:
        told["error"] = str(error)
        told["missing"] = [name for name, entry in original.items() if "value" in entry and untouched(entry, damage)]
        return told
    new = apart(lambda: read(output))
    assert new is not None, f"h5py crashes on the output of {path}"
    equal = set[int]()
    for item in report.objects:
        if not item.written or item.condition != "whole":
            continue
        name = next((name for name, old in original.items() if old["address"] == item.address), None)
        if name is None:
            told["stranger"].append([item.path, item.kind, sum(stop - start for start, stop in damage) if cut else 0])
            continue
        old = original[name]
        # A damaged name may not be printable as it is.
        entry = new.get(item.path.strip("/")) or next(
            (one for one in new.values() if one.get("value") == old.get("value")), {"attributes": {}}
        )
        if "value" in old:
            if entry.get("value") == old["value"]:
                equal.add(old["address"])
            else:
                told["differs"].append([item.path, why(item, old, damage, original[""]["names"], entry)])
        for key, one in entry["attributes"].items():
            if old["attributes"].get(key) == one:
                told["attributes"] += 1
            else:
                told["wrong_attributes"].append([item.path, key, why_attribute(item, key, old, damage)])
    told["equal"] = len(equal)
    if not cut:
        told["damage"] = sorted(start for start, _ in damage)
    named = {item.address for item in report.objects if item.condition != "whole"}
    told["named"] = len(named & set(datasets))
    told["missing"] = [
        name
        for name, entry in original.items()
        if "value" in entry and entry["address"] not in equal and untouched(entry, damage)
    ]
    return told


def untouched(entry: dict[str, Any], damage: list[tuple[int, int]]) -> bool:
    """True if no byte of a dataset was damaged: header, index, data, committed datatype, heaps."""
    places = entry["places"]
    parts = [entry["extents"], *(places[name] for name in ("header", "index", "committed", "heap"))]
    return not any(touches(damage, part) for part in parts)


def why(
    item: hyperchunk.SalvagedObject,
    entry: dict[str, Any],
    damage: list[tuple[int, int]],
    names: list[tuple[int, int]],
    new: dict[str, Any],
) -> str:
    """Returns the damaged part of a dataset that has no checksum, and that the report calls so. Anything else is a
    fault."""
    places = entry["places"]
    if item.checked != "checksum" and touches(damage, entry["extents"]):
        return "data without a checksum"
    if item.structure != "checksum":
        if places["version"] == 1 and touches(damage, places["header"]):
            return "a header without a checksum"
        if touches(damage, places["index"]):
            return "an index without a checksum"
        if touches(damage, places["committed"]):
            return "a committed datatype without a checksum"
        if item.checked != "checksum" and touches(damage, places["heap"]):
            return "a heap without a checksum"
    if "value" not in new and touches(damage, names):
        return "a name without a checksum"
    return "unexplained"


def why_attribute(
    item: hyperchunk.SalvagedObject, key: str, entry: dict[str, Any], damage: list[tuple[int, int]]
) -> str:
    """Returns why an attribute differs: a damaged part without a checksum, or objects that the report says are lost."""
    if f"references of {key}" in item.losses:
        return "references to lost objects"
    places = entry["places"]
    if places["version"] == 1 and item.structure != "checksum" and touches(damage, places["header"]):
        return "a header without a checksum"
    if touches(damage, places["heap"]):
        return "a heap without a checksum"
    return "unexplained"


def cases(path: Path, folder: Path, seed: int, cuts: int, flips: int) -> None:
    original = apart(lambda: read(path, with_extents=True))
    if not original or all("value" not in entry for entry in original.values()):
        return
    content = path.read_bytes()
    chance = random.Random(f"{seed} {path.name}")
    copy = folder / "damaged.h5"
    for number in range(1 + cuts + flips):
        damaged = bytearray(content)
        damage: list[tuple[int, int]] = []
        kind = "none"
        if 0 < number <= cuts:
            kind, end = "cut", chance.randrange(len(content))
            damaged, damage = damaged[:end], [(end, len(content))]
        elif number > cuts:
            kind = "flip"
            for _ in range(FLIPPED_BYTES):
                place = chance.randrange(len(content))
                damaged[place] ^= chance.randrange(1, 256)
                damage.append((place, place + 1))
        copy.write_bytes(damaged)
        told = case(copy, original, damage, kind == "cut")
        print(json.dumps({"file": str(path), "kind": kind, "number": number, **told}), flush=True)


def main() -> None:
    folder, seed, cuts, flips, *paths = sys.argv[1:]
    for path in paths:
        print(json.dumps({"start": path}), flush=True)
        cases(Path(path), Path(folder), int(seed), int(cuts), int(flips))


if __name__ == "__main__":
    main()
