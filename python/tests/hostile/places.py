"""The jail's folders: keys, profiles, a canary, and lures for functions."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import h5py
import numpy as np

from hostile import cases, records
from hostile.jail import WORK
from hostile.records import Key, Slot

HOME = WORK / "home"
CONFIG = HOME / ".config" / "hyperchunk"
MARKS = WORK / "marks"
FILES = WORK / "files"
READER = WORK / "reader"
LOOKUP = WORK / "lookup"
RESULTS = WORK / "results"
SOURCES = Path(__file__).parent / "sources"
CANARY = "canary-in-file-" + "7e91" * 4
COMMAND = [sys.executable, "-I", "-c", "from hyperchunk._command import main; main()"]

TRUSTED = Key(b"trusted by the user, profile one"[:32])
GRANTED = Key(b"in a profile that grants files.."[:32])
STRANGER = Key(b"nobody knows this one at all...."[:32], "../allow/evil", "../allow/evil")
PROFILE = f"""version = 1
[limits]
wall_s = {cases.LIMIT}
cpu_s = {cases.LIMIT}
memory = "{cases.MEMORY}"
data = "{cases.DATA}"
"""
EVIL = f"from pathlib import Path\nPath({str(MARKS)!r}, 'imported').touch()\n"
GOOD_PYTHON = """
import numpy as np

def dynamic_dataset():
    np.asarray(lib.getData("good_python"))[:] = np.arange(1, 5) ** 2
"""
GOOD_LUA = """
function dynamic_dataset()
  local out = lib.getData("good")
  for i = 1, 4 do out[i] = i * i end
end
"""


def make() -> Key:
    """Creates all folders, and returns the user's own key."""
    for folder in (MARKS, FILES, READER):
        folder.mkdir()
    (HOME / "secret.txt").write_text(CANARY)
    (HOME / "secret.txt").chmod(0o600)
    for name in ("victim.txt", "spare.txt", "spare-py.txt", "spare-lua.txt", "spare-cpp.txt"):
        (HOME / name).write_text(name)
    (WORK / "link").symlink_to(HOME / "secret.txt")
    for name in ("evilmod.py", "colorsys.py", "sitecustomize.py", "usercustomize.py", "numpy.py"):
        (READER / name).write_text(EVIL)
    (READER / "evilmod.lua").write_text(f"io.open('{MARKS}/imported', 'w')")
    shutil.copy(READER / "evilmod.lua", WORK)
    subprocess.run([*COMMAND, "key", "new", "--name", "Me"], check=True, capture_output=True)
    for name in ("untrusted", "default", "self"):
        folder = CONFIG / "profiles" / name / "keys"
        folder.mkdir(parents=True)
        (folder.parent / "profile.toml").write_text(PROFILE)
    (CONFIG / "profiles" / "default" / "keys" / f"{TRUSTED.stem}.pub").write_text(TRUSTED.text())
    granted = CONFIG / "profiles" / "granted"
    (granted / "keys").mkdir(parents=True)
    (granted / "keys" / f"{GRANTED.stem}.pub").write_text(GRANTED.text())
    for folder in (LOOKUP, RESULTS):
        folder.mkdir()
    grants = f"[grant]\nread = ['{LOOKUP}']\nwrite = ['{RESULTS}']\nimports = ['quopri']\n"
    (granted / "profile.toml").write_text(PROFILE + grants)
    for folder in [CONFIG, *(p for p in CONFIG.rglob("*") if p.is_dir())]:
        folder.chmod(0o755)
    (CONFIG / "keys").chmod(0o700)
    return own_key()


def own_key() -> Key:
    """Returns the key made by `hyperchunk key new`."""
    found = re.search(r"^seed (.*)$", (CONFIG / "keys" / "self.key").read_text(), re.MULTILINE)
    assert found
    return Key(b64decode(found[1]), "Me", "")


def good_file() -> Path:
    """Makes a file with two good live datasets, `good` and `good_python`."""
    path = FILES / "good.h5"
    if not path.exists():
        with h5py.File(path, "w") as file:
            records.store(file, records.make(GOOD_LUA, "lua", Slot("good")))
            records.store(file, records.make(GOOD_PYTHON, "py", Slot("good_python")))
    return path


def signed(header: records.Header, trust: str, own: Key) -> records.Header:
    """Signs a record with the key that `trust` names."""
    keys = {"unsigned": None, "self": own, "default": TRUSTED, "granted": GRANTED, "stranger": STRANGER}
    key = keys[trust]
    return header if key is None else records.sign(header, key)


def attack_source(case: cases.Case) -> str:
    """Returns the source of a case."""
    text = (SOURCES / f"attacks.{case.language}").read_text()
    return text.replace("@CASE@", f"{case.phase}:{case.attack}")


def attack_object(built: bytes, case: cases.Case) -> bytes:
    """Returns the C++ object, with the case patched into it."""
    room = b"HOSTILE-CASE:" + b"." * 40
    assert built.count(room) == 1, "the place for the case's name is not in the object"
    return built.replace(room, f"HOSTILE-CASE:{case.phase}:{case.attack}".encode().ljust(len(room), b"\0"))


def build_cpp(name: str = "attacks.cpp") -> bytes:
    """Compiles a C++ source as `hyperchunk udf attach` does, and returns the object."""
    import json
    import zlib

    path = WORK / "build.h5"
    with h5py.File(path, "w") as file:
        file["target"] = np.zeros(2, "u8")
    command = [*COMMAND, "udf", "attach", "--json", path, SOURCES / name, "out:4:double"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiled = json.loads(done.stdout)[0]["compiled"]
    return zlib.decompress(b64decode(compiled["deflate"]), -15)


def write_case(case: cases.Case, own: Key, built: bytes) -> Path:
    """Writes the file of a case: `out` is the live dataset, `target` holds the address to attack."""
    path = FILES / case.file
    compiled = attack_object(built, case) if case.language == "cpp" else None
    inputs = [Slot("target", "uint64", (2,))]
    header = records.make(attack_source(case), case.language, Slot("out"), inputs, compiled=compiled)
    with h5py.File(path, "w") as file:
        file["target"] = np.zeros(2, "u8")
        records.store(file, signed(header, case.trust, own))
    return path


def digest(folder: Path) -> str:
    """Returns a digest of everything in a folder: names, kinds, modes, change times and contents."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        meta = path.lstat()
        total.update(f"{path} {meta.st_mode:o} {meta.st_size} {meta.st_mtime_ns} {meta.st_ino}\n".encode())
        if path.is_symlink():
            total.update(os.fsencode(path.readlink()))
        elif path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()
