"""The examples with external data: each compares the values read with their source."""

import subprocess
import sys
from pathlib import Path

import pytest
from fresh import environment

TRY = Path(__file__).parents[2] / "examples" / "live" / "try.py"


@pytest.mark.parametrize("name", ["csv", "geotiff", "postgres", "http", "reproject"])
def test_example(name: str, tmp_path: Path) -> None:
    words = [sys.executable, str(TRY), name, "--folder", str(tmp_path / "try")]
    done = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, timeout=100, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{name}: ")
