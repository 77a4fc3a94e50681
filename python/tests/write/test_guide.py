"""The examples of the guide run."""

import re
from pathlib import Path

import h5py
import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "writing.md"


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(example, str(GUIDE), "exec"), names)
    with h5py.File("new.h5") as file:
        assert file["link"].attrs["unit"] == "K"
        assert (file["link"][10:20, ::2] == 5).all()
    with h5py.File("frames.h5") as file:
        assert (file["data"][...] == names["frames"]).all()
    with h5py.File("log.h5") as file:
        assert file["log"].shape == (30, 4)
