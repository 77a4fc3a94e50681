"""Prints results for the topic 'references' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    f["g/x"] = np.arange(20).reshape(4, 5)
    f.attrs["ref"] = f["g/x"].ref
    f.create_dataset("refs", (2,), dtype=h5py.ref_dtype)[0] = f["g"].ref
    f.create_dataset("regions", (1,), dtype=h5py.regionref_dtype)[0] = f["g/x"].regionref[1:3, 2:]
with h5py.File("a.h5") as f:
    region = f["regions"][0]
    print(f[f.attrs["ref"]].name, f[f["refs"][0]], bool(f["refs"][1]), f["refs"].dtype == h5py.ref_dtype)
    print(f[region].name, f["g/x"][region], f["g/x"].regionref.shape(region), f["g/x"].regionref.selection(region))
    print(h5py.h5r.get_name(f.attrs["ref"], f.id), h5py.h5r.get_obj_type(f.attrs["ref"], f.id))
    print(h5py.h5r.get_region(region, f.id).get_select_bounds(), type(region).__name__)
