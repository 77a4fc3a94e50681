"""Prints results for the topic 'virtual' of h5py's documentation."""

import h5py
import numpy as np

for n in range(3):
    with h5py.File(f"{n}.h5", "w") as f:
        f["data"] = np.arange(4) + 10 * n
layout = h5py.VirtualLayout(shape=(4, 4), dtype="i8")
for n in range(3):
    layout[n] = h5py.VirtualSource(f"{n}.h5", "data", shape=(4,))
with h5py.File("v.h5", "w") as f:
    f.create_virtual_dataset("v", layout, fillvalue=-5)
    with f.build_virtual_dataset("w", (2, 2), "i8") as part:
        part[0] = h5py.VirtualSource("1.h5", "data", shape=(4,))[:2]
with h5py.File("v.h5") as f:
    print(f["v"][:], f["v"].is_virtual, f["w"][:], f["v"].fillvalue)
    for source in f["v"].virtual_sources():
        print(source.file_name, source.dset_name, source.vspace.get_regular_hyperslab())
    plist = f["v"].id.get_create_plist()
    print(plist.get_layout() == h5py.h5d.VIRTUAL, plist.get_virtual_count(), plist.get_virtual_filename(1))
