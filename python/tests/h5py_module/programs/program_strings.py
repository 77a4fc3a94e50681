"""Stores texts in all the ways that people do, and reads them as str and as bytes."""

import h5py
import numpy as np

names = ["Zürich", "", "日本", "plain", "with\nlines"]
with h5py.File("texts.h5", "w") as file:
    file["list"] = names
    file["scalar"] = "one text"
    file["bytes"] = b"one text of bytes"
    file["narrow"] = np.array([b"a", b"bcd", b""])
    file["fixed"] = np.array([name.encode() for name in names])
    file.create_dataset("objects", data=np.array(names, dtype=object), dtype=h5py.string_dtype())
    file.create_dataset("ascii", (3,), dtype=h5py.string_dtype("ascii"))
    file.create_dataset("utf8-10", data=np.array([b"abc", "é".encode()], dtype=h5py.string_dtype("utf-8", 10)))
    file.create_dataset("old", data=["x", "yy"], dtype=h5py.special_dtype(vlen=str))
    file.create_dataset("old bytes", data=[b"x", b"yy"], dtype=h5py.special_dtype(vlen=bytes))
    file.create_dataset("grid", (2, 2), dtype=h5py.string_dtype(), fillvalue="none")
    file["grid"][0, 1] = "set"
    file["ascii"][1] = "word"
    file["ascii"][2:] = ["last"]
    file.attrs["text"] = "Grüße"
    file.attrs["bytes"] = np.bytes_("fixed")
    file.attrs["texts"] = names
    file.attrs["array"] = np.array([b"a", b"bcd"])
    file.attrs.create("of length", "ab", dtype="S5")
with h5py.File("texts.h5") as file:
    for name, dataset in file.items():
        print(name, dataset.shape, dataset.dtype, h5py.check_string_dtype(dataset.dtype), repr(dataset[()]))
        if name != "fixed":
            print("  ", repr(dataset.asstr()[()]), dataset.asstr()[..., :1].tolist() if dataset.shape else "")
    print(file["list"].asstr()[1], file["list"][1:3], file["list"].asstr()[[0, 2]], len(file["list"].asstr()))
    print(file["fixed"].asstr("utf-8")[:].tolist(), file["fixed"].asstr("latin-1")[0])
    print(file["fixed"].asstr("ascii", errors="replace")[0], file["fixed"].asstr(errors="ignore")[0])
    for error in (lambda: file["fixed"].asstr("ascii", "strict")[:], lambda: file["list"][9]):
        try:
            error()
        except (UnicodeDecodeError, IndexError) as found:
            print(type(found).__name__)
    for name, value in file.attrs.items():
        print(name, repr(value), type(value).__name__)
    print(file["scalar"][()].decode(), file["scalar"].asstr()[()], type(file["scalar"][()]).__name__)
    print(np.array(file["list"])[0], file["grid"].fillvalue, [text.decode() for text in file["grid"][:].ravel()])
    print(
        file["old"].dtype.metadata, h5py.check_dtype(vlen=file["old"].dtype), h5py.check_vlen_dtype(file["old"].dtype)
    )
    print(file["list"].id.get_type().is_variable_str(), file["utf8-10"].id.get_type().get_cset())
