"""Empty datasets, scalars, and datasets with an extent of zero."""

import h5py
import numpy as np

with h5py.File("empty.h5", "w") as file:
    file["null"] = h5py.Empty("f8")
    file.create_dataset("null of type", dtype="i2")
    file.create_dataset("null text", data=h5py.Empty(h5py.string_dtype()))
    file.create_dataset("zero", (0,), "f4", maxshape=(None,))
    file.create_dataset("zero wide", (0, 5), "i8", maxshape=(None, 5), chunks=(10, 5))
    file.create_dataset("no chunks", (0,), "i4")
    file["list"] = []
    file["scalar"] = 5
    file["array"] = np.float32(2.5)
    file.create_dataset("unset", (), "i4", fillvalue=9)
    file.attrs["null"] = h5py.Empty("S3")
    file.attrs["zero"] = np.array([], "i4")
with h5py.File("empty.h5", "r+") as file:
    for name, data in file.items():
        print(name, data, data.shape, data.size, data.ndim, data.maxshape, data.chunks, repr(data[()]), repr(data[...]))
        for call in (len, list, lambda data: data[0], lambda data: data[:], lambda data: float(data[()])):
            try:
                print("  ", repr(call(data)))
            except (TypeError, ValueError, IndexError) as error:
                print("  ", type(error).__name__)
    print(repr(file.attrs["null"]), repr(file.attrs["zero"]), file.attrs["null"] == h5py.Empty("S3"))
    print(
        file["null"][()].dtype,
        file["null"].nbytes,
        file["null"].is_virtual,
        file["null"].compression,
        file["null"].fillvalue,
    )
    print(isinstance(file["null"][()], h5py.Empty), h5py.Empty("f8") == file["null"][()], h5py.is_hdf5("empty.h5"))
    file["scalar"][()] = 6
    file["scalar"][...] = file["scalar"][()] + 1
    print(file["scalar"][()], int(file["scalar"][()]), file["scalar"][...].shape, type(file["array"][()]).__name__)
    file["zero"].resize((3,))
    file["zero"][:] = [1, 2, 3]
    file["zero wide"].resize(2, axis=0)
    print(file["zero"][:], file["zero wide"][:], file["no chunks"][:], np.array(file["zero"][0:0]).shape)
    try:
        file["null"][...] = 5
    except OSError:
        print("nothing can be written")
    space = file["null"].id.get_space()
    print(
        space.get_simple_extent_type() == h5py.h5s.NULL,
        file["scalar"].id.get_space().get_simple_extent_type() == h5py.h5s.SCALAR,
    )
