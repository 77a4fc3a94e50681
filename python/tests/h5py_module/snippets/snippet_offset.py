"""Prints results for the topic 'offset' of h5py's documentation."""

from pathlib import Path

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["x"] = np.arange(10, dtype="<i4")
    f.create_dataset("never", (5,), "i4")
with h5py.File("a.h5") as f:
    at = f["x"].id.get_offset()
    print(
        np.frombuffer(Path("a.h5").read_bytes()[at : at + 40], "<i4"),
        f["never"].id.get_offset(),
        f["x"].id.get_storage_size(),
    )
