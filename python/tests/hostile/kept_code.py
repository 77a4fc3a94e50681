"""Forged machine code in the cache of compiled WebAssembly modules; runs in the jail. Prints JSON."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import sys
from pathlib import Path

import h5py
import hyperchunk

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from modules import module

from hostile import jail, places


def text_of(elf: bytes) -> slice:
    """Returns the location of the section `.text` in a 64-bit ELF file."""
    table, size = struct.unpack_from("<Q", elf, 0x28)[0], struct.unpack_from("<H", elf, 0x3A)[0]
    count, names = struct.unpack_from("<HH", elf, 0x3C)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + n * size) for n in range(count)]
    for row in rows:
        if elf[rows[names][4] + row[0] :].startswith(b".text\0"):
            return slice(row[4], row[4] + row[5])
    raise AssertionError("no .text")


def read(path: Path) -> str:
    """Reads with a newly started worker; returns the result or the error."""
    os.utime(path)
    try:
        with h5py.File(path) as file:
            return str(file["out"][0])
    except OSError as error:
        return str(error)


def call(number: int, *numbers: int) -> bytes:
    """Encodes a system call, then an invalid instruction. (x86-64: mov to eax, edi, esi, edx; syscall; ud2)"""
    registers = zip(b"\xb8\xbf\xbe\xba", (number, *numbers, *[0] * (3 - len(numbers))), strict=True)
    return b"".join(struct.pack("<BI", *pair) for pair in registers) + b"\x0f\x05\x0f\x0b"


def main() -> None:
    """Puts each piece of code into a module's cache entry, and reports unexpected results."""
    jail.require_confined()
    hyperchunk.plugins.enable()
    places.make()
    folder = places.FILES
    os.environ["HYPERCHUNK_CODE_CACHE"] = str(folder / "code")
    path = folder / "live.h5"
    (folder / "seven.wasm").write_bytes(module("i32.const 0 call data  i32.const 7 i32.store8 0"))
    with h5py.File(path, "w"):
        pass
    hyperchunk.udf.attach(path, folder / "seven.wasm", ["out:1:uint8"])
    results = {"own": [read(path), "^7$"]}
    (entry,) = (folder / "code").iterdir()
    whole = entry.read_bytes()
    head, code = whole[:40], whole[40:-32]
    place = text_of(code)
    for name, instructions, expected in [
        # Control: this code really runs.
        ("exit", call(231, 42), "exit status 42"),
        ("socket", call(41, 2, 1), "tried system call socket "),
        ("openat", call(257), "tried system call openat "),
        ("open", call(2), "tried system call open "),
        ("stat", call(4), "tried system call stat "),
        ("kill", call(62, os.getppid(), 9), "tried system call kill "),
        ("mprotect", call(10, 0x10000, 4096, 5), "tried to make memory executable"),
        ("mmap", call(9, 0, 4096, 7), "tried to make memory executable"),
        ("ptrace", call(101, 16, os.getppid()), "tried a system call that is not allowed"),
        ("execve", call(59), "tried a system call that is not allowed"),
        ("crash", b"\x0f\x0b", "unreachable|crashed|gave up|fault"),
    ]:
        slide = b"\x90" * (place.stop - place.start - len(instructions))
        changed = head + code[: place.start] + slide + instructions + code[place.stop :]
        assert len(changed) == len(head) + len(code)
        entry.write_bytes(changed + hashlib.sha256(changed).digest())
        results[name] = [read(path), expected]
    entry.unlink()
    results["again"] = [read(path), "^7$"]
    wrong = {name: said for name, (said, expected) in results.items() if not re.search(expected, said)}
    print(json.dumps({"number": len(results), "wrong": wrong}))


if __name__ == "__main__":
    main()
