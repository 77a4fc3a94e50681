"""Ctrl-C ends reads of live datasets that take long."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment

OPEN = """
import sys, hyperchunk
with hyperchunk.open(sys.argv[1]) as f:
    try:
        f["o"][...]
    except KeyboardInterrupt:
        print("heard")
        sys.exit(130)
"""


@pytest.mark.parametrize("who", ["open", "dump", "get"])
@pytest.mark.parametrize("language", ["lua", "py"])
def test_ctrl_c(language: str, who: str, tmp_path: Path, attach: Any, config: Path) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.zeros((8, 4))
    text = {
        "lua": 'function dynamic_dataset() local o, a = lib.getData("o"), lib.getData("a") while true do end end',
        "py": 'def dynamic_dataset():\n    o, a = lib.getData("o"), lib.getData("a")\n    while True:\n        pass\n',
    }[language]
    for name in ("o", "p"):
        attach(file, language, text.replace('"o"', f'"{name}"'), f"{name}:8x4:double", chunks="1x4")
    words = {
        "open": [sys.executable, "-c", OPEN, file],
        "dump": [HYPERCHUNK, "dump", file],
        "get": [HYPERCHUNK, "get", file, "o", "-o", tmp_path / "o.npy"],
    }[who]
    reader = subprocess.Popen(
        words, env=environment(config), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # Until it has a worker, which computes.
    end = time.monotonic() + 60
    while not any(task.read_text() for task in Path(f"/proc/{reader.pid}/task").glob("*/children")):
        assert reader.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1)
    start = time.monotonic()
    reader.send_signal(signal.SIGINT)
    told, _ = reader.communicate(timeout=30)
    assert reader.returncode == 130, told
    assert time.monotonic() - start < 10
    assert "Traceback" not in told
    assert not (tmp_path / "o.npy").exists()
