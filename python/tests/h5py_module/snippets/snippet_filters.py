"""Prints results for the topic 'filters' of h5py's documentation."""

import h5py
import numpy as np

x = np.arange(1000, dtype="i4").reshape(10, 100)
with h5py.File("a.h5", "w") as f:
    f.create_dataset("gzip", data=x, compression="gzip", compression_opts=9, shuffle=True, fletcher32=True)
    f.create_dataset("lzf", data=x, compression="lzf", chunks=(5, 50))
    f.create_dataset("so", data=x, scaleoffset=0, chunks=True)
    f.create_dataset("obj", data=x, compression=h5py.filters.Gzip(3))
    f.create_dataset("level", data=x, compression=6)
with h5py.File("a.h5") as f:
    for n in f:
        d = f[n]
        print(
            n,
            d.compression,
            d.compression_opts,
            d.shuffle,
            d.fletcher32,
            d.scaleoffset,
            (d[:] == x).all(),
            d.filter_ids,
        )
    p = f["gzip"].id.get_create_plist()
    print([p.get_filter(i) for i in range(p.get_nfilters())], p.get_filter_by_id(h5py.h5z.FILTER_DEFLATE))
    print(
        f["lzf"].chunks,
        f["gzip"]._filters,
        p.get_chunk() == f["gzip"].chunks,
        h5py.h5z.filter_avail(h5py.h5z.FILTER_LZF),
    )
