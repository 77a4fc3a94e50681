"""Octave reads strings as C strings: its `load` gets computed ones like stored ones."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import environment

LABELS = """
def dynamic_dataset():
    labels = lib.getData("labels")
    for i in range(3):
        lib.setString(labels[i], "label %d" % i)
"""
SHOW = "d = load('{file}'); disp(size(d.labels)); disp(d.labels); disp(class(d.labels)); disp(d.y)"


@pytest.mark.skipif(not shutil.which("octave-cli"), reason="Octave is not installed (octave)")
def test_strings_and_what_is_behind_them(tmp_path: Path, attach: Any) -> None:
    """Octave stopped at the first computed string, and lost every later dataset."""
    stored, computed = tmp_path / "stored.h5", tmp_path / "computed.h5"
    with h5py.File(stored, "w") as made:
        made["labels"] = np.array(["label 0", "label 1", "label 2"], "S16")
        made["x"], made["y"] = np.arange(6.0), np.arange(6.0) * 2
    with h5py.File(computed, "w") as made:
        made["x"] = np.arange(6.0)
    attach(computed, "py", LABELS, "labels:3:string(16)")
    hyperchunk.udf.attach(computed, outputs="y", expression="x * 2")
    shown = []
    for file in (stored, computed):
        words = ["octave-cli", "--no-gui", "--quiet", "--norc", "--eval", SHOW.format(file=file)]
        done = subprocess.run(words, env=environment(HOME=str(tmp_path)), capture_output=True, text=True, check=False)
        shown.append(done.stdout)
    assert "label 2" in shown[0]
    assert shown[1] == shown[0]
