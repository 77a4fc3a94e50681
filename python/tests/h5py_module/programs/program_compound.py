"""Nested compound values: rows, fields, arrays in fields, and updates of single fields."""

import h5py
import numpy as np

point = np.dtype([("x", "f4"), ("y", "f4")])
kind = np.dtype(
    [
        ("id", "u4"),
        ("at", point),
        ("path", point, (3,)),
        ("image", "u1", (2, 2)),
        ("ok", "?"),
        ("z", "c8"),
        ("t", ">i2"),
    ]
)
rows = np.zeros(6, kind)
rows["id"] = np.arange(6)
rows["at"]["x"], rows["at"]["y"] = np.arange(6) / 2, 1
rows["path"]["x"] = np.arange(18).reshape(6, 3)
rows["image"] = np.arange(24).reshape(6, 2, 2)
rows["ok"] = rows["id"] % 2 == 0
rows["z"] = 1 + 2j
with h5py.File("rows.h5", "w") as file:
    data = file.create_dataset("rows", data=rows, chunks=(4,), maxshape=(None,), compression="gzip", shuffle=True)
    file["type"] = kind
    file.attrs["first"] = rows[0]
    file.attrs.create("some", rows[:2]["at"])
    file.create_dataset("scalar", data=rows[3])
    file.create_dataset("filled", (2,), dtype=point, fillvalue=np.array((1, 2), point))
with h5py.File("rows.h5", "r+") as file:
    data = file["rows"]
    print(data.dtype, data.shape, data[1], data["id"], data["at"]["x"], data[2:4]["at"])
    print(data["path"][0], data["image"][5], data["ok"], data["z"][0], data["t"].dtype, data["id", "ok"][:2])
    data["id"] = data["id"] * 10
    data["ok", 1] = True
    data[2:4, "t"] = [7, 8]
    values = data[:]
    values["image"] = 1
    data[:] = values
    one = data[4]
    one["at"] = (9, 9)
    data[4] = one
    print(data[:]["id"], data["ok"], data["t"], data["image"].sum(), data[4]["at"], data[4].dtype.names[:2])
    print(file["scalar"][()]["id"], file["scalar"]["id"], file["filled"][:], file["filled"].fillvalue)
    print(file.attrs["first"]["id"], file.attrs["first"].dtype == kind, file.attrs["some"], file["type"].dtype == kind)
    low = data.id.get_type()
    print(low.get_nmembers(), [low.get_member_name(n) for n in range(7)], [low.get_member_offset(n) for n in range(7)])
    print(low.get_size(), data.dtype.itemsize, [low.get_member_class(n) for n in range(7)])
    aligned = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    file.create_dataset("aligned", data=np.array([(1, 2.5)], aligned))
    print(
        file["aligned"].dtype,
        file["aligned"].dtype.itemsize,
        file["aligned"][0],
        h5py.h5t.py_create(aligned).get_size(),
    )
    data.resize((8,))
    print(data[6:], data[-1]["path"].shape)
    for name in ("none", "at.x"):
        try:
            data[name]
        except ValueError:
            print("no such field")
