"""Reads into arrays that exist, converts on the way, and writes from parts of arrays."""

import h5py
import numpy as np

with h5py.File("direct.h5", "w") as file:
    data = file.create_dataset("x", data=np.arange(30, dtype="i2").reshape(5, 6))
    rows = file.create_dataset(
        "rows", data=np.array([(1, 2.5, b"a"), (3, 4.5, b"b")], [("a", "i4"), ("b", "f8"), ("c", "S1")])
    )
    out = np.zeros((5, 6), "f8")
    data.read_direct(out)
    part = np.full((3, 10), -1, "i4")
    data.read_direct(part, np.s_[1:3, ::2], np.s_[0:2, 4:7])
    one = np.zeros(4, "i2")
    data.read_direct(one, source_sel=np.s_[0, 1:3], dest_sel=np.s_[1:3])
    print(out, part, one)
    data.write_direct(np.arange(100, 112, dtype="i2").reshape(3, 4), np.s_[0:2, 1:3], np.s_[3:5, 0:2])
    print(data[:])
    print(data.astype("f4")[0], data.astype("f4").dtype, data.astype(">u8")[1:3, 0].dtype)
    print(np.asarray(data.astype("i8")).dtype, data.astype("f8")[data[:] > 105], len(data.astype("u1")))
    print(
        rows.fields("b")[:],
        rows.fields(["c", "a"])[0],
        np.array(rows.fields("a")),
        rows.fields("b")[1],
        rows.fields(["a", "b"])[:].dtype,
    )
    print(
        np.array(data, dtype="f8")[0, 1],
        np.asarray(data).flags.writeable,
        np.mean(data),
        np.add(data, 1)[0],
        data[0] + data[1],
    )
    print(
        (data[()] * 2)[0],
        np.sqrt(data[0].astype(float)).round(3),
        np.array_equal(data, data[:]),
        5 in data[:],
        max(data[0]),
    )
    for bad in (
        lambda: data.read_direct(np.zeros((2, 2), "i2")),
        lambda: data.read_direct(np.zeros((5, 6), "i2", order="F")),
    ):
        try:
            bad()
            print("read")
        except TypeError:
            print("cannot read into it")
    low = np.zeros((2, 6), "i2")
    space = data.id.get_space()
    space.select_hyperslab((1, 0), (2, 6))
    data.id.read(h5py.h5s.create_simple((2, 6)), space, low)
    print(low)
    space.select_hyperslab((0, 0), (1, 3))
    data.id.write(h5py.h5s.create_simple((3,)), space, np.array([7, 8, 9], "i2"))
    print(data[0], space.get_select_npoints(), space.get_select_bounds())
    large = file.create_dataset("large", (1000,), "f4")
    large[:] = np.linspace(0, 1, 1000)
    buffer = np.empty(100, "f4")
    total = 0.0
    for start in range(0, 1000, 100):
        large.read_direct(buffer, np.s_[start : start + 100])
        total += float(buffer.sum())
    print(round(total, 2))
