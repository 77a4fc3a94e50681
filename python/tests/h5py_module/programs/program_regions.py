"""Marks parts of an image by region references, and reads them through a table."""

import h5py
import numpy as np

with h5py.File("regions.h5", "w") as file:
    image = file.create_dataset("images/first", data=np.arange(100, dtype="u1").reshape(10, 10))
    kind = np.dtype([("label", "S8"), ("object", h5py.ref_dtype), ("region", h5py.regionref_dtype)])
    table = file.create_dataset("marks", (3,), dtype=kind)
    table[0] = (b"corner", image.ref, image.regionref[:2, :2])
    table[1] = (b"cross", image.ref, image.regionref[4, :])
    table[2] = (b"grid", image.ref, image.regionref[::5, ::5])
    mask = image[:] % 7 == 0
    file["mask"] = image.regionref[mask]
    image.attrs["interesting"] = image.regionref[2:4, 6:]
    file.attrs["default"] = image.ref
    file.create_dataset("old", data=image.ref, dtype=h5py.special_dtype(ref=h5py.Reference))
    file.create_dataset("group", (2,), dtype=h5py.ref_dtype)[:] = [file["images"].ref, file.ref]
with h5py.File("regions.h5") as file:
    image = file[file.attrs["default"]]
    print(
        image.name,
        image.shape,
        file[file["old"][()]] == image,
        h5py.check_ref_dtype(file["old"].dtype) is h5py.Reference,
    )
    for row in file["marks"]:
        print(row["label"], file[row["object"]].name, file[row["region"]].name, image[row["region"]])
        print(image.regionref.shape(row["region"]), image.regionref.selection(row["region"]))
    print(image[file["mask"][()]], image[image.attrs["interesting"]], bool(file["mask"][()]))
    print(
        h5py.check_dtype(ref=file["marks"].dtype["region"]) is h5py.RegionReference,
        h5py.check_dtype(ref=file["marks"].dtype["label"]),
    )
    print([file[one].name for one in file["group"]], file["group"].dtype)
    print(bool(h5py.h5r.Reference()), type(file["group"][0]).__name__, type(file["mask"][()]).__name__)
    print(h5py.h5r.get_region(file["mask"][()], file.id).get_select_npoints())
