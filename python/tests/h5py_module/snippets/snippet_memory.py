"""Prints results for the topic 'memory' of h5py's documentation."""

import io
from pathlib import Path

import h5py
import numpy as np

b = io.BytesIO()
with h5py.File(b, "w") as f:
    f["x"] = np.arange(4)
    print(f.driver, f.mode)
with h5py.File(b, "r") as f:
    print(f["x"][:], f.mode, f.driver)
with h5py.File(b, "a") as f:
    f["y"] = 5
with h5py.File(b, "r") as f:
    print(sorted(f), f["y"][()])
with h5py.File("core.h5", "w", driver="core", backing_store=False) as f:
    f["x"] = 1
    print(f.driver, f["x"][()])

print(Path("core.h5").exists())
with h5py.File("kept.h5", "w", driver="core") as f:
    f["x"] = 2
print(Path("kept.h5").exists(), h5py.File("kept.h5")["x"][()])
