"""Ctrl-C ends long reads of live datasets."""

import shutil
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


H5PY = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    try:
        f["o"][...]
    except KeyboardInterrupt:
        f["a"][...]
        print("heard")
        sys.exit(130)
"""
# netCDF4 raises netCDF's error, and swallows the KeyboardInterrupt, even of successful reads.
NETCDF = """
import sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as f:
    try:
        f["o"][...]
    except (RuntimeError, KeyboardInterrupt):
        f["a"][...]
        print("heard")
        sys.exit(130)
"""
# A C program that dies of SIGINT, and one with a handler of its own.
C = r"""
#include <hdf5.h>
#include <signal.h>
#include <string.h>
static volatile sig_atomic_t heard;
static void handler(int signal) { heard = signal; }
int main(int count, char **words) {
    static double values[8][4];
    struct sigaction before, now;
    memset(&now, 0, sizeof now);
    now.sa_handler = handler;
    now.sa_flags = SA_RESTART;
    if (!strcmp(words[2], "handler")) sigaction(SIGINT, &now, NULL);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fopen(words[1], H5F_ACC_RDONLY, H5P_DEFAULT), data = H5Dopen2(file, "o", H5P_DEFAULT);
    herr_t status = H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    sigaction(SIGINT, NULL, &before);
    if (strcmp(words[2], "handler") || before.sa_handler != handler) return 3;
    return status < 0 && heard == SIGINT ? 130 : 4;
}
"""


def program_in_c(folder: Path) -> Path:
    (folder / "read.c").write_text(C, encoding="utf-8")
    subprocess.run(["h5cc", "-shlib", "-o", "read", "read.c"], cwd=folder, check=True, capture_output=True)
    return folder / "read"


@pytest.mark.parametrize("who", ["h5py", "netCDF4", "handler", "default", "open", "dump", "get"])
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
    if who in ("handler", "default") and not shutil.which("h5cc"):
        pytest.skip("no h5cc")
    words = {
        "h5py": [sys.executable, "-c", H5PY, file],
        "netCDF4": [sys.executable, "-c", NETCDF, file],
        "handler": lambda: [program_in_c(tmp_path), file, "handler"],
        "default": lambda: [program_in_c(tmp_path), file, "default"],
        "open": [sys.executable, "-c", OPEN, file],
        "dump": [HYPERCHUNK, "dump", file],
        "get": [HYPERCHUNK, "get", file, "o", "-o", tmp_path / "o.npy"],
    }[who]
    words = words() if callable(words) else words
    # Background jobs of a shell ignore SIGINT.
    heard = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    reader = subprocess.Popen(
        [sys.executable, "-c", heard, *map(str, words)],
        env=environment(config),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Waits until its worker computes.
    end = time.monotonic() + 60
    while not any(task.read_text() for task in Path(f"/proc/{reader.pid}/task").glob("*/children")):
        assert reader.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1)
    start = time.monotonic()
    reader.send_signal(signal.SIGINT)
    told, _ = reader.communicate(timeout=30)
    took = time.monotonic() - start
    assert reader.returncode == (-signal.SIGINT if who == "default" else 130), told
    assert took < 10
    assert "Traceback" not in told
    assert not (tmp_path / "o.npy").exists()
