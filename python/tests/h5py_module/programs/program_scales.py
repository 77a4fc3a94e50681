"""Dimension scales as netCDF programs use them."""

import h5py
import numpy as np

with h5py.File("scales.h5", "w") as file:
    data = file.create_dataset("temperature", data=np.arange(24.0).reshape(2, 3, 4))
    file["time"], file["lat"], file["lon"] = [0, 6], [10.0, 20.0, 30.0], np.linspace(0, 270, 4)
    for number, name in enumerate(("time", "lat", "lon")):
        file[name].make_scale(f"{name} axis")
        data.dims[number].attach_scale(file[name])
        data.dims[number].label = name[0]
    file["second"] = [1, 2, 3]
    file["second"].make_scale("more")
    data.dims[1].attach_scale(file["second"])
with h5py.File("scales.h5", "r+") as file:
    data = file["temperature"]
    print(len(data.dims), [dim.label for dim in data.dims], [len(dim) for dim in data.dims])
    for dim in data.dims:
        print(repr(dim), dim.keys(), [name for name, scale in dim.items()], [scale.name for scale in dim.values()])
        print("  ", dim[0][:], "lat axis" in dim, list(dim))
    print(data.dims[1]["more"][:], data.dims[1][1].name, data.dims[2]["lon axis"] == file["lon"])
    print(file["lat"].is_scale, data.is_scale, sorted(file["lat"].attrs), sorted(data.attrs))
    print(file["lat"].attrs["CLASS"], file["lat"].attrs["NAME"], data.attrs["DIMENSION_LABELS"])
    print(data.attrs["DIMENSION_LIST"].shape, file[data.attrs["DIMENSION_LIST"][2][0]].name)
    back = file["lat"].attrs["REFERENCE_LIST"]
    print(back.dtype.names, [(file[one[0]].name, int(one[1])) for one in back])
    data.dims[1].detach_scale(file["second"])
    print(len(data.dims[1]), "REFERENCE_LIST" in file["second"].attrs, data.dims[1].keys())
    print(
        h5py.h5ds.is_scale(file["time"].id),
        h5py.h5ds.get_scale_name(file["time"].id),
        h5py.h5ds.get_num_scales(data.id, 0),
    )
    print(h5py.h5ds.is_attached(data.id, file["time"].id, 0), h5py.h5ds.get_label(data.id, 2))
    for bad in (5, -4):
        try:
            data.dims[bad]
        except IndexError as error:
            print(type(error).__name__)
    data.dims[0].label = "changed"
    print(data.dims[0].label, h5py.version.hdf5_version_tuple[0] >= 1)
