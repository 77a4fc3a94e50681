"""Errors in processes with low resource limits."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fresh import environment

READ = """
import h5py, os, resource, sys
file = h5py.File(sys.argv[1])
used = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (used + int(sys.argv[2]), 4096))
try:
    print(file["out"][0])
except OSError as error:
    print(error)
"""


def test_few_descriptors(scene: Any, attach: Any, config: Path) -> None:
    """The error names the limit and has no other effect; with enough descriptors, the read works."""
    file = scene()
    attach(file, "lua", "function dynamic_dataset() lib.getData('out')[1] = 7 end", "out:10:double")
    env = environment(config) | {"PATH": os.environ["PATH"]}
    said = []
    for free in (0, 2, 4, 8, 60):
        words = [sys.executable, "-c", READ, str(file), str(free)]
        said.append(subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert said[-1] == "7.0\n"
    for text in said[:3]:
        assert "Too many open files" in text or "can't open directory" in text, text
    assert any("ulimit -n" in text for text in said)
