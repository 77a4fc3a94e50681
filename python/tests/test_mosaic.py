"""The guide's mosaic: a live dataset over links into other files."""

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from people import read

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "live-datasets.md"


def test_the_mosaic_of_the_guide(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, scene: Any) -> None:
    scene()
    section = GUIDE.read_text(encoding="utf-8").split("### Inputs in other files")[1]
    (snippet,) = re.findall(r"```python\n(.*?)```", section.split("\n### ")[0], re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for name, value in (("west.h5", 1), ("east.h5", 2)):
        with h5py.File(name, "w") as file:
            file["height"] = np.full((4, 3), value, "f4")
    exec(compile(snippet, "guide.py", "exec"), {})
    assert read(tmp_path / "mosaic.h5", "mean").tolist() == np.full((4, 3), 1.5).tolist()
    # All files moved to another folder together.
    (tmp_path / "there").mkdir()
    for name in ("mosaic.h5", "west.h5", "east.h5"):
        (tmp_path / name).rename(tmp_path / "there" / name)
    assert read(tmp_path / "there" / "mosaic.h5", "mean")[0, 0] == 1.5
