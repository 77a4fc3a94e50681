"""Results cached on disk: keyed by their inputs, never used when damaged."""

import re
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment, read, run_python

# The result shows each execution: a different number each time.
COUNTS = """
import random

def dynamic_dataset():
    a, out = lib.array("a"), lib.array("out")
    out[:] = a * 0 + random.SystemRandom().random()
"""
READ = "import sys, h5py; print(h5py.File(sys.argv[1])['out'][...].tolist())"
OPEN = "import sys, hyperchunk; print(hyperchunk.open(sys.argv[1])['out'][...].tolist())"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An enabled cache folder."""
    path = tmp_path / "results"
    monkeypatch.setenv("HYPERCHUNK_RESULT_CACHE", str(path))
    return path


@pytest.fixture
def counted(scene: Any, attach: Any) -> Path:
    """A live dataset whose values show whether it was recomputed."""
    file: Path = scene(a=np.arange(12, dtype="f4").reshape(6, 2))
    attach(file, "py", COUNTS, chunks="2x2")
    return file


def fresh(file: Path, code: str = READ, cache: str = "") -> str:
    """Reads in a separate process."""
    return run_python(code, file, HYPERCHUNK_RESULT_CACHE=cache).stdout


def test_off_unless_asked_for(counted: Path, tmp_path: Path) -> None:
    assert fresh(counted) != fresh(counted)
    assert fresh(counted, cache="0") != fresh(counted, cache="0")
    assert not (tmp_path / "results").exists()


def test_from_one_process_to_the_next(counted: Path, folder: Path) -> None:
    first = fresh(counted, cache=str(folder))
    assert len(list(folder.iterdir())) == 3
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert fresh(counted, cache=str(folder)) == first
    # The other reader got the same bytes.
    assert fresh(counted, OPEN, cache=str(folder)) == first
    assert fresh(counted) != first


def test_other_inputs_are_another_result(counted: Path, folder: Path) -> None:
    first = read(counted, "out")
    with h5py.File(counted, "a") as opened:
        opened["a"][0, 0] = 99
    second = read(counted, "out")
    assert (second[2:] == first[2:]).all()
    assert not (second[:2] == first[:2]).any()
    del folder


def test_another_function_is_another_result(counted: Path, folder: Path, attach: Any) -> None:
    first = read(counted, "out")
    attach(counted, "py", COUNTS + "# another\n", "out", chunks="2x2", overwrite=True)
    assert not (read(counted, "out") == first).any()
    assert len(list(folder.iterdir())) == 6


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "link"])
def test_damage_is_not_believed(damage: str, counted: Path, folder: Path, tmp_path: Path) -> None:
    first = fresh(counted, cache=str(folder))
    for path in list(folder.iterdir()):
        data = bytearray(path.read_bytes())
        data[45] ^= 1
        if damage == "link":
            (tmp_path / path.name).write_bytes(path.read_bytes())
            path.unlink()
            path.symlink_to(tmp_path / path.name)
        elif damage == "foreign":
            path.chmod(0o666)
        else:
            path.write_bytes({"cut": data[:-1], "flip": data, "empty": b""}[damage])
    assert fresh(counted, cache=str(folder)) != first


def test_a_folder_that_others_can_write_is_not_used(counted: Path, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert fresh(counted, cache=str(folder)) != fresh(counted, cache=str(folder))
    assert list(folder.iterdir()) == []
    done = subprocess.run(
        [HYPERCHUNK, "udf", "cache"],
        env=environment(HYPERCHUNK_RESULT_CACHE=str(folder)),
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0


def test_functions_with_files_are_computed(counted: Path, folder: Path, config: Path, tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    own = config / "hyperchunk" / "profiles" / "self" / "profile.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"version = 1\n[grant]\nread = ['{granted}']\n")
    assert fresh(counted, cache=str(folder)) != fresh(counted, cache=str(folder))
    assert not folder.exists() or list(folder.iterdir()) == []


def test_the_setting_and_the_command(counted: Path, config: Path, tmp_path: Path, command: Any) -> None:
    assert "results are not cached" in command("udf", "cache").stdout
    folder = tmp_path / "kept"
    setting = config / "hyperchunk" / "cache.toml"
    setting.parent.mkdir(parents=True, exist_ok=True)
    setting.write_text(f"version = 1\nenabled = true\nfolder = '{folder}'\nmax_mib = 1\n")
    first = read(counted, "out")
    np.testing.assert_array_equal(read(counted, "out"), first)
    assert re.match(r"3 results, \d+ bytes of 1048576 at most", command("udf", "cache").stdout)
    assert "results    " in command("doctor").stdout
    assert "removed 3 results" in command("udf", "cache", "clear").stdout
    assert not (read(counted, "out") == first).any()
    setting.write_text("version = 2\nenabled = true\n")
    assert command("udf", "cache").returncode != 0
    assert read(counted, "out").shape == (6, 2)


def test_it_stays_within_its_size(scene: Any, attach: Any, config: Path, tmp_path: Path) -> None:
    setting = config / "hyperchunk" / "cache.toml"
    setting.parent.mkdir(parents=True, exist_ok=True)
    setting.write_text(f"version = 1\nenabled = true\nfolder = '{tmp_path / 'kept'}'\nmax_mib = 1\n")
    file = scene(a=np.zeros((400, 2000), "f4"))
    attach(file, "py", COUNTS, chunks="10x2000")
    read(file, "out")
    total = sum(path.stat().st_size for path in (tmp_path / "kept").iterdir())
    assert 400_000 < total <= 1 << 20


def test_a_wrong_setting_does_no_harm(counted: Path) -> None:
    assert fresh(counted, cache="relative") != fresh(counted, cache="relative")
    assert hyperchunk.udf.show(counted, "out").error is None
