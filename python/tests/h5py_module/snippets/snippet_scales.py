"""Prints results for the topic 'scales' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["t"], f["x"], f["data"] = [0.0, 1.0], [1, 2, 3], np.zeros((2, 3))
    f["t"].make_scale("time")
    d = f["data"]
    d.dims[0].label, d.dims[1].label = "T", "X"
    d.dims[0].attach_scale(f["t"])
    f["x"].make_scale()
    d.dims[1].attach_scale(f["x"])
with h5py.File("a.h5") as f:
    d = f["data"]
    print(
        [(dim.label, dim.keys(), [s.name for s in dim.values()], len(dim)) for dim in d.dims],
        d.dims[0]["time"][:],
        f["t"].is_scale,
    )
    print(
        h5py.h5ds.is_attached(d.id, f["t"].id, 0),
        h5py.h5ds.get_scale_name(f["t"].id),
        h5py.h5ds.get_label(d.id, 1),
        h5py.h5ds.get_num_scales(d.id, 0),
    )
