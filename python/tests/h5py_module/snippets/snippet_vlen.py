"""Prints results for the topic 'vlen' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    ds = f.create_dataset("v", (3,), dtype=h5py.vlen_dtype("i4"))
    ds[0], ds[1] = [1, 2, 3], np.arange(2)
    ds[2] = np.zeros(0, "i4")
with h5py.File("a.h5") as f:
    print([x.tolist() for x in f["v"][:]], h5py.check_vlen_dtype(f["v"].dtype), f["v"].id.get_type().get_super().dtype)
    print(f["v"].id.get_type().get_class() == h5py.h5t.VLEN, f["v"].id.get_type().get_size())
