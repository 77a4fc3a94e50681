"""Prints results for the topic 'direct' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("x", (4, 5), "i4", chunks=(2, 5))
    d.write_direct(np.arange(20, dtype="i4").reshape(4, 5), np.s_[1:3], np.s_[0:2])
    d.id.write_direct_chunk((2, 0), np.full((2, 5), 9, "i4").tobytes())
    out = np.zeros((2, 2), "f8")
    d.read_direct(out, np.s_[0:2, 3:5])
    print(
        d[:],
        out,
        d.id.read_direct_chunk((2, 0))[0],
        d.astype("f4")[0, :2],
        np.asarray(d).sum(),
        np.array(d, dtype="f8").dtype,
    )
    buffer = bytearray(100)
    print(len(d.id.read_direct_chunk((2, 0), out=buffer)[1]))
