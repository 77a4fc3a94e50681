"""Prints results for the topic 'low_write' of h5py's documentation."""

import h5py
import numpy as np


def write(f):
    space = h5py.h5s.create_simple((4, 6))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((2, 3))
    dcpl.set_deflate(3)
    dcpl.set_fill_value(np.array(7, "i4"))
    dsid = h5py.h5d.create(f.id, b"x", h5py.h5t.STD_I32LE, space, dcpl)
    part = dsid.get_space()
    part.select_hyperslab((1, 0), (2, 6))
    dsid.write(h5py.h5s.create_simple((2, 6)), part, np.arange(12, dtype="i4").reshape(2, 6))
    gid = h5py.h5g.create(f.id, b"group")
    gid.links.create_soft(b"soft", b"/x")
    aid = h5py.h5a.create(gid, b"a", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((2,)))
    aid.write(np.array([1.5, 2.5]))


with h5py.File("a.h5", "w") as f:
    write(f)
with h5py.File("a.h5") as f:
    print(
        f["x"][:],
        f["x"].chunks,
        f["x"].compression_opts,
        f["x"].fillvalue,
        f["group"].attrs["a"],
        f["group/soft"].shape,
    )
    out = np.zeros((2, 2), "i4")
    sel = f["x"].id.get_space()
    sel.select_hyperslab((1, 1), (2, 2))
    h5py.h5d.open(f.id, b"x").read(h5py.h5s.create_simple((2, 2)), sel, out)
    g = f["group"]
    print(out, g.id.links.get_val(b"soft"), len(f["group"]))
