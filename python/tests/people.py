"""Another user with a key, and files signed by it."""

import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment

A = np.arange(6.0, dtype="f4").reshape(2, 3)
LUA = 'function dynamic_dataset() lib.getData("out")[1] = 7 end'
CPP = 'extern "C" void dynamic_dataset() { lib.getData<double>("out")[0] = 7; }'
OUT = "out:1:double"


class Person:
    """A user with a separate configuration folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.config = folder
        assert self("key", "new", "--name", name).returncode == 0
        self.fingerprint = self("key", "show").stdout.split()[-1]

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Runs the command as this person."""
        done = [str(HYPERCHUNK), *map(str, words)]
        return subprocess.run(done, env=environment(self.config), capture_output=True, text=True, check=False)


def read(path: Path, dataset: str = "out") -> Any:
    """Reads the values in this process."""
    with h5py.File(path) as file:
        return file[dataset][...]


def refused(path: Path, *texts: str) -> str:
    """Checks that the read fails with an error that has these texts and names the dataset."""
    with pytest.raises(OSError, match=r"hyperchunk udf") as caught:
        read(path)
    message = str(caught.value)
    for text in (f"{path}:/out", *texts):
        assert text in message, message
    return message
