"""Prints results for the topic 'enum' of h5py's documentation."""

import h5py
import numpy as np

dt = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 42}, basetype="i1")
with h5py.File("a.h5", "w") as f:
    ds = f.create_dataset("e", (10,), dtype=dt)
    ds[3] = 42
    f["flag"] = np.array([True, False])
with h5py.File("a.h5") as f:
    t = f["e"].id.get_type()
    print(h5py.check_enum_dtype(f["e"].dtype), f["e"][:], f["flag"][:], f["flag"].dtype)
    print(t.get_nmembers(), t.get_member_name(1), t.get_member_value(2), t.enum_nameof(42), t.enum_valueof(b"GREEN"))
    print(t.get_class() == h5py.h5t.ENUM, t.get_super().get_size(), t.dtype)
