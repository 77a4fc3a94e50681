"""Prints results for the topic 'objects' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["g/x"] = np.arange(3)
    f["hard"] = f["g/x"]
    f["t"] = np.dtype("f8")
with h5py.File("a.h5") as f:
    info = h5py.h5o.get_info(f["g/x"].id)
    print(info.type, info.rc, h5py.h5o.get_info(f.id, b"g").type, h5py.h5o.get_info(f["t"].id).type, info.mtime)
    print(
        h5py.h5i.get_name(f["g/x"].id),
        h5py.h5i.get_type(f["g/x"].id),
        h5py.h5i.get_type(f.id),
        h5py.h5i.get_file_id(f["g"].id).name,
    )
    print(h5py.h5o.exists_by_name(f.id, b"g/x"), h5py.h5g.get_objinfo(f["g"].id).type, f["t"], f["t"].dtype)
    found = []
    h5py.h5o.visit(f.id, lambda name: found.append(name))
    print(
        sorted(found), f["hard"] == f["g/x"], hash(f["hard"]) == hash(f["g/x"]), f["g"].parent.name, f["g/x"].file == f
    )
