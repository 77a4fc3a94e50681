"""Prints the storage of datasets, written and not."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["written"] = np.arange(3)
    f.create_dataset("never", (10,), ">f4")
    f.create_dataset("filled", (10,), "f4", fillvalue=3)
    f.create_dataset("scalar", (), "f8")
    f.create_dataset("none", (0,), "f8")
    f.create_dataset("chunked", (10,), "f8", chunks=(5,))
    f.create_dataset("text", (2,), h5py.string_dtype())
    f["texts"] = ["a", "b"]
    f["null"] = h5py.Empty("f4")
with h5py.File("a.h5") as f:
    for name, dataset in f.items():
        known = dataset.id.get_offset() is not None
        print(name, dataset.id.get_storage_size(), dataset.id.get_space_status(), known)
