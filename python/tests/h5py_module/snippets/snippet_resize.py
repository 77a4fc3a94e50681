"""Prints results for the topic 'resize' of h5py's documentation."""

import h5py

with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("x", (2, 3), "i2", maxshape=(None, 6), fillvalue=-1)
    d[:] = 1
    d.resize((4, 4))
    d.resize(2, axis=1)
    print(d[:], d.shape, d.maxshape, d.chunks, d.id.get_space().get_simple_extent_dims(True))
    for bad in (
        lambda: d.resize((4, 7)),
        lambda: d.resize((1,)),
        lambda: f.create_dataset("y", (2,), "i1").resize((3,)),
    ):
        try:
            bad()
        except (TypeError, ValueError, RuntimeError):
            print("refused")
    d.shape = (5, 5)
    d.id.set_extent((6, 6))
    print(len(d), d.len(), d.size, d.nbytes, d.ndim)
