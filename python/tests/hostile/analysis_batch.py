"""Attacks of `cases` as analyses of a store's writes; runs in the jail. Prints JSON.

Arguments: substrings of the names to run; by default all.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from hyperchunk import store

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import cases, jail, lanes, places, records

TIME = "1s"
DATA = np.arange(48, dtype="f4").reshape(8, 6)
CANARY = ctypes.create_string_buffer(b"memory of the writer" * 8)

#: Conversion of an attack's source to an analysis; in C++, the replacement of `dynamic_dataset`.
ENTRY = {
    "cpp": """
hyperchunk::pairs on_write(const std::string &, const hyperchunk::box &, const hyperchunk::array &) {
    const uint64_t target[] = {@TARGET@};
    output_page = lib.getData<char>("results");
    target_pid = target[0], target_address = target[1];
    if (when("call")) early = attack();
    double worked = early ? 77 : 0;
    return {{"worked", worked}, {"process", double(getpid())}, {"process_of_load", double(process_of_load)}};
}
""",
    "py": """
TARGET[:] = @TARGET@

def on_write(dataset, box, array):
    worked = getattr(Attacks, NAME)() if PHASE == "call" else EARLY
    return {"worked": 77 if worked else 0, "process": os.getpid(), "process_of_load": PROCESS_OF_LOAD}
""",
    "lua": """
target = {@TARGET@}
function on_write(dataset, box, array)
  if phase == "call" then early = attacks[name]() end
  return {worked = early and 77 or 0, process = C.getpid(), process_of_load = process_of_load}
end
""",
}

# Results that no honest function returns: the caller of `on_write` is replaced.
FORGED = """
local ffi = require("ffi")
local evil = function()
  local out = ffi.cast("uint8_t *", lib.getData("results") + 1)
  local room = lib.getDims("results")[1]
  local u32 = function(n) return ffi.string(ffi.new("uint32_t[1]", n), 4) end
  local put = function(length, text) ffi.copy(out, u32(length) .. text, math.min(4 + #text, room)) end
  local key = u32(1) .. "k"
  @ATTACK@
end
setmetatable(_G, {__newindex = function(t, k, v) rawset(t, k, k == "dynamic_dataset" and evil or v) end})
on_write = function() end
"""
#: The attack, and the text of the failure.
RESULTS = {
    "length": ("put(0xffffffff, '')", "claims 4294967295 bytes"),
    "one_too_long": ("put(room - 3, '')", "claims 4097 bytes"),
    "keys": ("put(4, u32(0xffffffff))", "results are invalid"),
    "short": ("put(2, 'xx')", "results are invalid"),
    "key_length": ("put(8, u32(1) .. u32(0xffffffff))", "results are invalid"),
    "no_key": ("put(17, u32(1) .. u32(0) .. ('\\0'):rep(9))", "results are invalid"),
    "kind": ("put(18, u32(1) .. key .. '\\9' .. ('\\0'):rep(8))", "results are invalid"),
    "list": ("put(14, u32(1) .. key .. '\\4' .. u32(0xffffffff))", "results are invalid"),
    "list_in_list": ("put(23, u32(1) .. key .. '\\4' .. u32(1) .. '\\4' .. ('\\0'):rep(8))", "results are invalid"),
    "text": ("put(15, u32(1) .. key .. '\\3' .. u32(1) .. '\\255')", "results are invalid"),
    "twice": ("put(32, u32(2) .. key .. ('\\0'):rep(9) .. key .. ('\\0'):rep(9))", "results are invalid"),
    "more": ("put(19, u32(1) .. key .. ('\\0'):rep(10))", "results are invalid"),
    "beyond": ("put(0xff, '') ffi.fill(out, room + 4000, 255)", "claims 4294967295 bytes"),
    "input": ("ffi.cast('float *', lib.getData('data') + 1)[0] = 7", "SIGSEGV"),
    "control": ("ffi.cast('char *', lib.getData('control') + 1)[0] = 7", "SIGSEGV"),
}


def analysis(name: str, source: str, language: str) -> bytes:
    """Returns an unsigned record of an analysis that was never tried."""
    path = jail.WORK / f"benign.{language}"
    path.write_text("def on_write(*a): pass" if language == "py" else "function on_write() end")
    made = store.Analysis(path, ["/a"], name="evil", time=TIME, failure="mark", unsigned=True).record()
    record: dict[str, Any] = json.loads(made)
    record["source_code"] = source
    return json.dumps(record, separators=(",", ":")).encode()


def compiled(target: str) -> dict[str, Any]:
    """Returns the record of all C++ attacks, signed by the user's own key."""
    text = (places.SOURCES / "attacks.cpp").read_text()
    kept, found, _ = text.partition('extern "C" void dynamic_dataset()')
    assert found
    path = jail.WORK / "attacks.cpp"
    path.write_text(kept + ENTRY["cpp"].replace("@TARGET@", target))
    made = store.Analysis(path, ["/a"], name="evil", time=TIME, failure="mark").record()
    record: dict[str, Any] = json.loads(made)
    return record


def of_case(record: dict[str, Any], case: cases.Case, own: records.Key) -> bytes:
    """Returns the record of one attack, with its name patched into the object."""
    built = zlib.decompress(base64.b64decode(record["compiled"]["deflate"]), -15)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    data = deflate.compress(places.attack_object(built, case)) + deflate.flush()
    packed = record["compiled"] | {"deflate": base64.b64encode(data).decode()}
    return json.dumps(places.signed(record | {"compiled": packed}, case.trust, own)).encode()


def attack(name: str, record: bytes) -> dict[str, Any]:
    """Writes while an analysis attacks; returns the outcome of the analysis and of the data."""
    path = places.FILES / f"{name.replace(':', '-')}.h5"
    memory = bytes(CANARY)
    start = time.monotonic()
    datasets = {"/a": store.Dataset(DATA.shape, "f4"), "/b": store.Dataset((4,), "i2")}
    run = store.create(path, datasets, analyses=[record])
    with run.writer() as writer:
        writer["/a"][:4] = DATA[:4]
        first = time.monotonic() - start
        writer["/a"][4:] = DATA[4:]
        writer["/b"][...] = 5
    seconds = time.monotonic() - start
    run.commit()
    # None if the function returned none.
    boxes = [box for results in run.results("/a") for box in results.boxes]
    with h5py.File(path) as file, hyperchunk.open(path) as ours:
        data = all((f["a"][...] == DATA).all() and (f["b"][...] == 5).all() for f in (file, ours))
    return {
        "boxes": [{"values": box.values, "failure": box.failure} for box in boxes],
        "first": first,
        "seconds": seconds,
        "data": bool(data),
        "memory": bytes(CANARY) == memory,
    }


def chosen() -> list[cases.Case]:
    """Returns the attacks: unsigned ones, and in C++, which runs for the user only, the user's own."""
    return [c for c in cases.ALL if c.trust == ("self" if c.language == "cpp" else "unsigned")]


def left() -> list[str]:
    """Lists processes other than this one, its parents, and the warm interpreter that forks workers."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                state = (folder / "stat").read_text().rpartition(") ")[2][0]
            except OSError:
                continue
            if state != "Z" and any("worker" in word for word in words):
                found.append(" ".join(words))
    return found


def main(*only: str) -> None:
    """Runs the attacks, and reports."""
    jail.require_confined()
    own = places.make()
    before = places.digest(places.HOME)
    target = f"{os.getpid()}, {ctypes.addressof(CANARY)}"
    jobs: list[tuple[str, bytes]] = []
    objects = compiled(target)
    for case in chosen():
        if case.language == "cpp":
            jobs.append((case.name, of_case(objects, case, own)))
        else:
            source = places.attack_source(case) + ENTRY[case.language].replace("@TARGET@", target)
            jobs.append((case.name, analysis(case.name, source, case.language)))
    for name, (text, _) in RESULTS.items():
        jobs.append((f"results:{name}", analysis(name, FORGED.replace("@ATTACK@", text), "lua")))
    jobs = [job for job in jobs if not only or any(part in job[0] for part in only)]
    results: dict[str, Any] = {}

    def some(number: int) -> None:
        for name, record in jobs[number::3]:
            results[name] = attack(name, record)

    lanes.side_by_side(some, range(3))
    some_left = left()
    report = {
        "process": os.getpid(),
        "cases": results,
        "left": some_left,
        "home_unchanged": places.digest(places.HOME) == before,
        "marks": sorted(path.name for path in places.MARKS.iterdir()),
    }
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
