"""Prints results for the topic 'twice' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["x"] = np.arange(3)
    with h5py.File("a.h5", "r") as g:
        print(g["x"][:], g.mode, g == f, g["x"] == f["x"])
    f["y"] = 1
    with h5py.File("a.h5", "a") as g:
        g["z"] = 2
    print(sorted(f), bool(g), bool(f))
    try:
        h5py.File("a.h5", "w")
    except OSError:
        print("open already")
d = h5py.File("a.h5")["x"]
print(d[:], bool(d.file))
