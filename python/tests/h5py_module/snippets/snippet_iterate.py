"""Prints results for the topic 'iterate' of h5py's documentation."""

import h5py

with h5py.File("a.h5", "w", track_order=True) as f:
    for n in ("zeta", "alpha", "mid"):
        f[n] = n
    f["grp/inner"] = 1
with h5py.File("a.h5") as f:
    print(list(f), list(reversed(f)), f.keys(), list(f.values()), [k for k, v in f.items()], len(f))
    print(
        f.visit(lambda n: n if "inner" in n else None),
        f.visititems(lambda n, o: o if isinstance(o, h5py.Group) else None),
    )
    print(f.items(), f.get("nope"), f.get("nope", 3), "grp/inner" in f, "grp/none" in f)
