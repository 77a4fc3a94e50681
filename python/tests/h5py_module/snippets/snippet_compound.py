"""Prints results for the topic 'compound' of h5py's documentation."""

import h5py
import numpy as np

dt = np.dtype([("name", h5py.string_dtype()), ("v", "f8"), ("xy", "i4", (2,))])
with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("t", (3,), dt, maxshape=(None,))
    d[0] = ("one", 1.5, (1, 2))
    d["v"] = [9.0, 8.0, 7.0]
    d[1, "xy"] = (5, 6)
    d.resize((4,))
    d[3] = np.array([("four", 4.0, (7, 8))], dt)[0]
with h5py.File("a.h5") as f:
    d = f["t"]
    print(d[0], d["v"], d["xy", 1:3], d.fields(["v", "xy"])[:2], d.fields("v")[:], d.dtype.names, d[3]["name"], d.shape)
    print(d["name"], d.id.get_type().get_member_type(0).is_variable_str())
