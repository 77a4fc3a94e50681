"""Cache of compiled modules across processes: entries that another user could have made are never used."""

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import run_python
from modules import module

READ = "import sys, h5py; print(h5py.File(sys.argv[1])['out'][...].tolist())"
OPEN = "import sys, hyperchunk; print(hyperchunk.open(sys.argv[1])['out'][...].tolist())"
HEADER = 8 + 32
"""Before the code: the mark and the key."""


def writes(number: int) -> bytes:
    """Returns a module whose function computes this number."""
    return module(f"i32.const 0 call data  i32.const {number} i32.store8 0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    path = tmp_path / "kept"
    monkeypatch.setenv("HYPERCHUNK_CODE_CACHE", str(path))
    return path


@pytest.fixture
def attached(folder: Path, scene: Any, tmp_path: Path) -> Callable[[int], Path]:
    """Makes a file with a module that computes a number, attached with another cache."""

    def make(number: int) -> Path:
        file: Path = scene(f"{number}.h5", a=np.zeros(1, "u1"))
        path = tmp_path / f"{number}.wasm"
        path.write_bytes(writes(number))
        hyperchunk.udf.attach(file, path, ["out:1:uint8"])
        shutil.rmtree(folder, ignore_errors=True)
        return file

    return make


def fresh(file: Path, code: str = READ, **env: str) -> str:
    """Reads in a separate process."""
    return run_python(code, file, **env).stdout.strip()


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_second_process_takes_what_the_first_left(attached: Any, folder: Path) -> None:
    file = attached(7)
    assert fresh(file) == "[7]"
    (entry,) = entries(folder)
    assert entry.suffix == ".code"
    assert entry.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    before = entry.stat()
    assert fresh(file) == "[7]"
    assert fresh(file, OPEN) == "[7]"
    assert (entry.stat().st_mtime_ns, entry.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_it_is_that_code_that_runs(attached: Any, folder: Path) -> None:
    """Control: another module's code, under this one's name and with correct digests, is used."""
    file, other = attached(7), attached(8)
    fresh(file)
    (entry,) = entries(folder)
    fresh(other)
    (another,) = set(entries(folder)) - {entry}
    mark_and_key, code = entry.read_bytes()[:HEADER], another.read_bytes()[HEADER:-32]
    changed = mark_and_key + code
    entry.write_bytes(changed + hashlib.sha256(changed).digest())
    assert fresh(file) == "[8]"


def test_each_module_has_an_entry_of_its_own(attached: Any, folder: Path) -> None:
    first, second = attached(1), attached(2)
    assert [fresh(first), fresh(second)] == ["[1]", "[2]"]
    assert len(entries(folder)) == 2
    assert [fresh(second), fresh(first)] == ["[2]", "[1]"]
    assert len(entries(folder)) == 2


def test_code_that_the_worker_cannot_take_is_made_anew(attached: Any, folder: Path) -> None:
    """Code with correct digests that the worker cannot load, such as of another version, is recompiled."""
    file = attached(7)
    fresh(file)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    for code in [b"junk", whole[HEADER : len(whole) // 2], b"\x7fELF" + bytes(4000)]:
        changed = whole[:HEADER] + code
        entry.write_bytes(changed + hashlib.sha256(changed).digest())
        assert fresh(file) == "[7]"
        assert entries(folder) == []
        assert fresh(file) == "[7]"
        assert entries(folder) == [entry]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "link", "folder"])
def test_damage_is_not_believed(damage: str, attached: Any, folder: Path, tmp_path: Path) -> None:
    file = attached(7)
    fresh(file)
    (entry,) = entries(folder)
    data = bytearray(entry.read_bytes())
    data[HEADER + 100] ^= 1
    before = entry.stat().st_ino
    if damage in ("link", "folder"):
        target = tmp_path / "target"
        entry.rename(target)
        entry.symlink_to(target) if damage == "link" else entry.mkdir()
    elif damage == "foreign":
        entry.chmod(0o666)
    else:
        entry.write_bytes({"cut": bytes(data[:-1]), "flip": bytes(data), "empty": b""}[damage])
    assert fresh(file) == "[7]"
    if damage != "folder":
        assert not entry.is_symlink()
        assert entry.stat().st_mode & 0o777 == 0o600
        assert entry.stat().st_ino != before or damage in ("cut", "flip", "empty")
        kept = entry.stat().st_mtime_ns
        assert fresh(file) == "[7]"
        assert entry.stat().st_mtime_ns == kept


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755])
def test_a_folder_that_others_can_enter_is_not_used(mode: int, attached: Any, folder: Path) -> None:
    file = attached(7)
    folder.mkdir()
    folder.chmod(mode)
    assert fresh(file) == "[7]"
    assert entries(folder) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_owns_is_not_believed(attached: Any, folder: Path) -> None:
    file = attached(7)
    fresh(file)
    (entry,) = entries(folder)
    os.chown(entry, 1234, 1234)
    before = entry.stat().st_ino
    assert fresh(file) == "[7]"
    assert entry.stat().st_uid == 0
    assert entry.stat().st_ino != before
    os.chown(folder, 1234, 1234)
    entry.unlink()
    assert fresh(file) == "[7]"
    assert entries(folder) == []


def test_switched_off(attached: Any, folder: Path, config: Path, tmp_path: Path) -> None:
    file = attached(7)
    home = tmp_path / "home"
    home.mkdir()
    for off in ("0", "relative"):
        assert fresh(file, HYPERCHUNK_CODE_CACHE=off, HOME=str(home)) == "[7]"
    setting = config / "hyperchunk" / "cache.toml"
    setting.parent.mkdir(parents=True, exist_ok=True)
    setting.write_text("version = 1\nenabled = false\ncode = false\n")
    assert fresh(file) == "[7]"
    setting.write_text("this is no setting\n")
    assert fresh(file) == "[7]"
    assert (entries(folder), entries(home)) == ([], [])
    setting.write_text("version = 1\nenabled = false\ncode = true\n")
    assert fresh(file) == "[7]"
    assert len(entries(folder)) == 1


def test_where_there_is_no_home(attached: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a usable home (none, not creatable, or another user's), no code is cached, and reads work."""
    file = attached(7)
    monkeypatch.delenv("HYPERCHUNK_CODE_CACHE")
    assert fresh(file) == "[7]"
    home = tmp_path / "home"
    assert fresh(file, HOME="/proc/nothing", XDG_CACHE_HOME="/proc/nothing") == "[7]"
    home.mkdir()
    (home / ".cache").write_text("a file")
    assert fresh(file, HOME=str(home)) == "[7]"
    (home / ".cache").unlink()
    if os.geteuid() == 0:
        os.chown(home, 1234, 1234)
        assert fresh(file, HOME=str(home)) == "[7]"
        assert entries(home) == []
        os.chown(home, 0, 0)
    assert fresh(file, HOME=str(home)) == "[7]"
    assert len(entries(home / ".cache" / "hyperchunk" / "code")) == 1


def test_a_module_that_does_not_compile(folder: Path, scene: Any, tmp_path: Path) -> None:
    """A module that does not compile is not cached, and both readers give the reason."""
    file = scene(a=np.zeros(1, "u1"))
    path = tmp_path / "bad.wasm"
    path.write_bytes(module("i32.const 0"))
    with pytest.raises(Exception, match="does not compile"):
        hyperchunk.udf.attach(file, path, ["out:1:uint8"])
    assert entries(folder) == []


def test_the_command(attached: Any, folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = attached(7)
    assert "0 compiled modules, 0 bytes" in command("udf", "cache").stdout
    fresh(file)
    assert "1 compiled modules, " in command("udf", "cache").stdout
    assert f"code       {folder}: " in command("doctor").stdout
    assert "removed " in command("udf", "cache", "clear").stdout
    assert entries(folder) == []
    monkeypatch.setenv("HYPERCHUNK_CODE_CACHE", "0")
    assert "modules are not cached" in command("udf", "cache").stdout
    assert "code       not kept" in command("doctor").stdout


def test_many_processes_at_once(attached: Any, folder: Path) -> None:
    file = attached(7)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: fresh(file), range(8))) == {"[7]"}
    assert len(entries(folder)) == 1
    with h5py.File(file) as opened:
        assert opened["out"][0] == 7
