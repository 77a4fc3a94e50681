"""Attributes of all kinds: created, modified, renamed, deleted, empty and large."""

import h5py
import numpy as np

with h5py.File("attrs.h5", "w") as file:
    group = file.create_group("g")
    attrs = group.attrs
    attrs["int"], attrs["float"], attrs["complex"], attrs["none"] = 5, 2.5, 1 + 2j, h5py.Empty("f4")
    attrs["list"], attrs["array"], attrs["big endian"] = [1, 2, 3], np.arange(6).reshape(2, 3), np.array([1, 2], ">u2")
    attrs["empty list"], attrs["zero"], attrs["f2"] = np.zeros((0, 3)), np.float32(0), np.float16(1.5)
    attrs["mixed"] = [1, 2.5]
    attrs["nested"] = [["a", "b"], ["c", "d"]]
    attrs["tuple"] = (1, 2)
    attrs["empty text"] = ""
    attrs["rows"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    attrs.create("typed", [1, 2, 3, 4], shape=(2, 2), dtype="i1")
    attrs.create("scalar array", 5, shape=(1,))
    attrs.create("empty string", h5py.Empty("S10"))
    attrs.modify("int", 7)
    attrs.modify("typed", [[9, 8], [7, 6]])
    attrs.modify("new", "made by modify")
    attrs["float"] = "now a text"
    del attrs["tuple"]
    for name in ("nope", "tuple"):
        try:
            del attrs[name]
        except KeyError:
            print("no such attribute")
    try:
        attrs["nope"]
    except KeyError:
        print("no such attribute")
    attrs.update({"u": 1, "v": "w"}, x=2)
    print(
        attrs.setdefault("u", 5),
        attrs.setdefault("fresh", 6),
        attrs.pop("v"),
        attrs.pop("gone", None),
        attrs.get("int"),
    )
with h5py.File("attrs.h5", "r+") as file:
    attrs = file["g"].attrs
    print(len(attrs), "int" in attrs, "tuple" in attrs, attrs.get("missing", -1), sorted(attrs))
    for name in sorted(attrs):
        value = attrs[name]
        print(name, repr(value), type(value).__name__, getattr(value, "dtype", None))
    low = attrs.get_id("typed")
    print(low.shape, low.dtype, low.get_type().get_size(), low.name, low.get_storage_size())
    print(h5py.h5a.get_num_attrs(file["g"].id), h5py.h5a.exists(file["g"].id, b"int"))
    h5py.h5a.rename(file["g"].id, b"int", b"renamed")
    print("int" in attrs, attrs["renamed"], dict(file.attrs), list(attrs.keys())[:2], attrs.keys() >= {"u"})
    try:
        attrs.modify("array", [1])
        print(attrs["array"])
    except TypeError:
        print("another shape")
    attrs.clear()
    print(list(attrs), len(attrs), attrs)
    for number in range(30):
        attrs[f"a{number:02}"] = np.full(number, number)
    print([int(value.sum()) for value in attrs.values()])
