"""Programs of several users, and files that one of them forges: the parts of the scenarios of `users.py`."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import hyperchunk

OWNER, STRANGER = 54321, 54322
SCRATCH = Path("/tmp/scratch")
FILE = SCRATCH / "data.h5"
MEMORY = 3 << 30
SECONDS = 20.0

PREPARE = """
import h5py, numpy as np, os
with h5py.File("/tmp/scratch/data.h5", "w") as file:
    values = np.arange(4096, dtype="f8").reshape(64, 64)
    file.create_dataset("temperature", data=values, chunks=(16, 16))
    file["small"] = np.arange(8, dtype="u1")
"""
LYING = """
import h5py, numpy as np, os, subprocess, sys
path, size = "/tmp/h54322/data.h5", os.path.getsize("/tmp/scratch/data.h5")
with h5py.File(path, "w") as file:
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((64, 64))
    made = h5py.h5d.create(file.id, b"temperature", h5py.h5t.NATIVE_DOUBLE, space, create)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.full((64, 64), -666.0))
whole = bytearray(open(path, "rb").read())
assert len(whole) <= size
whole += bytes(size - len(whole))
whole[40:48] = size.to_bytes(8, "little")
open(path, "wb").write(whole)
import hyperchunk
hyperchunk.index(path, "/tmp/h54322/lie.hcindex")
hyperchunk.analyze(path)
"""
READ = """
import hyperchunk
file = hyperchunk.open("/tmp/scratch/data.h5")
print(float(file["temperature"][0, 3]))
"""
QUERY = """
import hyperchunk
try:
    print(len(hyperchunk.query("/tmp/scratch/data.h5", "temperature", "value == 3").read()[1]))
except hyperchunk.exceptions.UnsupportedError:
    print("not analyzed")
"""


class NotKeptError(AssertionError):
    """A security promise is broken."""


def run(user: int, program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program as a user, with limits on time and memory."""
    home = Path(f"/tmp/h{user}")
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    command += ["--bounding-set=-all", "--inh-caps=-all", "prlimit", f"--as={MEMORY}", "--core=0"]
    command += [sys.executable, "-c", program, *arguments]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **more}
    environment["PYTHONPATH"] = str(Path(hyperchunk.__file__).parents[1])
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=home, env=environment
        )
    except subprocess.TimeoutExpired:
        raise NotKeptError(f"it waits: {program[:200]}") from None
    print(f"{user}: {time.monotonic() - start:.1f} s", done, file=sys.stderr)
    return done


def expect(done: subprocess.CompletedProcess[str], printed: str, *, warned: bool | None = None) -> None:
    """Checks the output of a program, and whether it warned exactly once."""
    if done.returncode != 0 or done.stdout.strip() != printed:
        raise NotKeptError(f"expected {printed!r}, got {done.returncode} {done.stdout!r}: {done.stderr[-1500:]}")
    times = done.stderr.count("is not used: ")
    if warned is not None and times != warned:
        raise NotKeptError(f"{times} warnings, {int(warned)} expected: {done.stderr[-1500:]}")


def varint(number: int) -> bytes:
    """Encodes a number as sidecars do."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def forged(companion: bytes) -> bytes:
    """Returns a sidecar that claims to belong to the owner's file."""
    meta = FILE.stat()
    (length,) = struct.unpack_from("<I", companion, 12)
    head, sections = companion[56 : 56 + length], companion[56 + length :]
    at = 0
    for _ in range(2):
        start = at
        while head[at] & 0x80:
            at += 1
        at += 1
    count = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(head[start:at]))
    times = [divmod(ns, 10**9) for ns in (meta.st_mtime_ns, meta.st_ctime_ns)]
    version = "time:{}.{:09};changed:{}.{:09}".format(*times[0], *times[1]).encode()
    head = varint(meta.st_size) + varint(len(version)) + version + head[at + count :]
    start_ = companion[:12] + struct.pack("<IQ", len(head), 56 + len(head) + len(sections))
    return start_ + hashlib.sha256(start_ + head).digest() + head + sections


def place(path: Path, content: bytes, user: int, mode: int = 0o644) -> None:
    """Writes a file owned by a user."""
    path.write_bytes(content)
    path.chmod(mode)
    os.chown(path, user, user)


def lie(suffix: str) -> bytes:
    """Makes a sidecar owned by the stranger, for the owner's file."""
    done = run(STRANGER, LYING)
    if done.returncode:
        raise NotKeptError(done.stderr)
    made = {".hcindex": "/tmp/h54322/lie.hcindex", ".hczones": "/tmp/h54322/data.h5.hczones"}[suffix]
    return forged(Path(made).read_bytes())
