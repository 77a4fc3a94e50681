"""The programs in `bench/`: each prints its usage without any rival installed, and names unavailable rivals."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
pytestmark = pytest.mark.skipif(not BENCH.exists(), reason="not in a checkout")

# Started by other programs, not by people.
PARTS = {
    "environments.py",
    "gpu_driver.py",
    "arrow/flight.py",
    "arrow/programs.py",
    "cloud/make.py",
    "cloud/jobs.py",
    "cloud/readers.py",
    "sharded/environment.py",
    "sharded/gate.py",
    "sharded/ours.py",
    "sharded/pattern.py",
    "sharded/peers.py",
    "sharded/report.py",
    "sharded/vol_program.py",
}


def programs() -> list[str]:
    found = (path.relative_to(BENCH).as_posix() for path in BENCH.rglob("*.py"))
    return sorted(name for name in found if name not in PARTS and not name.startswith("udf/"))


@pytest.mark.parametrize("name", programs())
def test_program_says_how_it_is_used(name, tmp_path):
    variables = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(BENCH / name), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=variables, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
    assert not any((tmp_path / "cache").glob("**/*")), "--help makes nothing"


def test_fresh_processes_smallest(tmp_path):
    command = [
        sys.executable,
        str(BENCH / "fresh_processes.py"),
        "--processes",
        "1",
        "--rounds",
        "1",
        "--mebibytes",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "contiguous / pread" in done.stdout


def wheel(folder: Path, name: str, needs: str) -> None:
    """Makes a package of one module, for Pythons that satisfy `needs`."""
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as made:
        made.writestr(f"{name}.py", "")
        info = f"{name}-1.0.dist-info"
        made.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: {needs}\n"
        )
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "")


def test_rival_of_another_python_is_left_out_by_name(tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(str(BENCH))
    import environments

    wheel(tmp_path, "rival_here", ">=3.8")
    wheel(tmp_path, "rival_later", ">=99")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("# Two rivals.\nrival_later==1.0  # needs another Python\nrival_here==1.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(environments, "PREFERRED", ())
    for _ in range(2):  # The second time, nothing is installed, and the message is repeated.
        python = environments.environment(tmp_path / "venv", requirements)
        said = capfd.readouterr().err
        assert "left out: rival_later==1.0: " in said
        assert "rival_here" not in said
    assert environments.lacking(python, ["rival_here"], os.environ) is None
    assert "rival_later" in environments.lacking(python, ["rival_here", "rival_later"], os.environ)
