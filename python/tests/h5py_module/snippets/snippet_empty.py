"""Prints results for the topic 'empty' of h5py's documentation."""

import h5py

with h5py.File("a.h5", "w") as f:
    f["nothing"] = h5py.Empty("f4")
    f.attrs["nothing"] = h5py.Empty("S10")
    f.create_dataset("also", dtype="i8")
with h5py.File("a.h5") as f:
    print(f["nothing"].shape, f["nothing"].size, f["nothing"][()], f.attrs["nothing"], f["also"], f["also"].maxshape)
    print(f["nothing"].id.get_space().get_simple_extent_type() == h5py.h5s.NULL, f["nothing"][()] == h5py.Empty("f4"))
