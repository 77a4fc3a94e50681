"""Prints results for the topic 'attributes' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f.attrs["text"], f.attrs["number"], f.attrs["list"] = "Zürich", 3, [1.5, 2.5]
    f.attrs.create("typed", 7, dtype="u1")
    f.attrs.create("row", np.arange(6), shape=(2, 3))
    f.attrs.modify("number", 4)
    f.attrs["gone"] = 1
    del f.attrs["gone"]
with h5py.File("a.h5") as f:
    print(sorted(f.attrs), {k: (type(v).__name__, str(v)) for k, v in sorted(f.attrs.items())}, "gone" in f.attrs)
    print(f.attrs.get("gone", "none"), len(f.attrs), f.attrs.get_id("typed").dtype, f.attrs.get_id("row").shape)
