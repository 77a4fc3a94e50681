"""Programs of h5py 2: special_dtype, check_dtype, value types and names that are still there."""

import h5py
import numpy as np

text, ints = h5py.special_dtype(vlen=str), h5py.special_dtype(vlen=np.dtype("int32"))
ref, region = h5py.special_dtype(ref=h5py.Reference), h5py.special_dtype(ref=h5py.RegionReference)
flag = h5py.special_dtype(enum=("i", {"NO": 0, "YES": 1}))
for kind in (text, ints, ref, region, flag):
    print(
        kind,
        h5py.check_dtype(vlen=kind),
        h5py.check_dtype(ref=kind) is h5py.Reference,
        h5py.check_dtype(enum=kind),
        h5py.check_ref_dtype(kind) is h5py.RegionReference,
        h5py.check_vlen_dtype(kind),
        h5py.check_string_dtype(kind),
    )
with h5py.File("old.h5", "w", libver="earliest") as hf:
    grp = hf.create_group("subgroup")
    dset = grp.create_dataset("ragged", (4,), dtype=ints)
    dset[0], dset[1] = [1, 2, 3], np.arange(5)
    dset[2] = np.array([], "i4")
    names = hf.create_dataset("names", (3,), dtype=text)
    names[...] = np.array(["a", "bb", "ccc"], dtype=object)
    hf.create_dataset("flags", data=np.array([0, 1, 1]), dtype=flag)
    hf.create_dataset("compressed", data=np.random.RandomState(0).rand(40, 40), compression=6, chunks=(10, 40))
    hf["data"] = np.arange(10)
    hf.flush()
    print(hf.name, hf.filename, hf.mode, hf.driver, hf.libver, hf.userblock_size, hf.id.valid)
f = h5py.File("old.h5", "r")
dset = f["subgroup/ragged"]
print(dset[:], dset[0].dtype, dset[1:3], dset.dtype.metadata, h5py.check_dtype(vlen=dset.dtype))
print(
    f["flags"][:], h5py.check_dtype(enum=f["flags"].dtype), f["names"][...].tolist(), f["compressed"].compression_opts
)
print(f["compressed"][...].sum().round(8), np.array(f.get("data")), f["data"][...], f["data"][()], list(f["data"]))
print(list(f.keys()), [value.shape for value in f.values() if isinstance(value, h5py.Dataset)])
for key, value in f.items():
    print(key, type(value) is h5py.Dataset, type(value) is h5py.Group, isinstance(value, h5py.HLObject))
print(hasattr(f["data"], "value"), "data" in f, f.get("none") is None)
f.close()
print(bool(f), f.id.valid if f.id else None)
try:
    f["data"]
except KeyError:
    print("closed")
f.close()
