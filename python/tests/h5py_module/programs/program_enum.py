"""Enumerations, booleans and bit fields."""

import h5py
import numpy as np

colors = {"RED": 0, "GREEN": 1, "BLUE": 42}
kind = h5py.enum_dtype(colors, basetype="i2")
with h5py.File("enum.h5", "w") as file:
    pixels = file.create_dataset("pixels", (3, 4), dtype=kind, fillvalue=42)
    pixels[0] = colors["GREEN"]
    pixels[1, 1:3] = [0, 1]
    file["type"] = kind
    file.create_dataset("named", (2,), dtype=file["type"])
    file["flags"] = np.array([[True, False], [False, True]])
    file["one"] = np.bool_(True)
    file["python"] = [True, False, True]
    file.attrs["flag"] = True
    file.attrs["flags"] = [True, False]
    file.attrs["color"] = np.array([42, 0], dtype=kind)
    file.attrs.create("single", 1, dtype=kind)
    file.create_dataset("old", (2,), dtype=h5py.special_dtype(enum=("u1", {"ON": 1, "OFF": 0})))
with h5py.File("enum.h5", "r+") as file:
    pixels = file["pixels"]
    found = h5py.check_enum_dtype(pixels.dtype)
    names = {value: name for name, value in found.items()}
    print(pixels[:], pixels.dtype, sorted(found), [[names[value] for value in row] for row in pixels])
    print(pixels[()] == colors["BLUE"], pixels.fillvalue, (pixels[:] == 42).sum())
    print(file["type"], file["type"].dtype, h5py.check_enum_dtype(file["type"].dtype) == colors, file["named"].dtype)
    print(file["flags"][:], file["flags"].dtype, file["one"][()], type(file["one"][()]).__name__, file["python"][:])
    print({name: (value, getattr(value, "dtype", None)) for name, value in file.attrs.items()})
    print(h5py.check_dtype(enum=file["old"].dtype), h5py.check_enum_dtype(file["flags"].dtype), file["old"][:])
    print(file["flags"].id.get_type().get_class() == h5py.h5t.ENUM, file["flags"].id.get_type().get_nmembers())
    low = pixels.id.get_type()
    print([(low.get_member_name(n), low.get_member_value(n)) for n in range(low.get_nmembers())])
    print(low.enum_nameof(42), low.enum_valueof(b"GREEN"), low.get_super().get_size())
    file["flags"][0, 1] = True
    file["flags"][1] = np.logical_not(file["flags"][1])
    print(file["flags"][:], file["flags"][:][file["flags"][:]].size, np.count_nonzero(file["flags"]))
