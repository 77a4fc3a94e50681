"""The multi-process programs in the documentation."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


def snippet(page: str) -> str:
    """Returns the program of a page that starts a pool."""
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```python\n")[1:]
    (found,) = [block.split("```")[0] for block in blocks if "multiprocessing.Pool" in block]
    return found


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("page", ["README.md", "docs/guide/sharded-stores.md"])
def test_the_snippet_runs_however_processes_start(page: str, method: str, tmp_path: Path) -> None:
    start = f"import multiprocessing\n\nmultiprocessing.set_start_method({method!r}, force=True)\n"
    (tmp_path / "program.py").write_text(start + snippet(page))
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with h5py.File(tmp_path / "run.h5") as file:
        assert np.array_equal(file["energy"][::1_000_000], np.arange(8, dtype="f4"))
