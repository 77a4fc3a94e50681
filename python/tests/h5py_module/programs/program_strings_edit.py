"""Changes texts in place, compares them, and sorts rows by a column of texts."""

import h5py
import numpy as np

kind = np.dtype([("name", h5py.string_dtype()), ("code", "S4"), ("population", "i8")])
rows = [("Bern", b"BE", 134_000), ("Basel", b"BS", 178_000), ("Genève", b"GE", 203_000)]
with h5py.File("cities.h5", "w") as file:
    table = file.create_dataset("cities", data=np.array(rows, dtype=kind), maxshape=(None,), chunks=True)
    table.attrs["source"] = "census"
with h5py.File("cities.h5", "r+") as file:
    table = file["cities"]
    table.resize((4,))
    table[3] = ("Zürich", b"ZH", 421_000)
    table["population"] = table["population"] + 1000
    row = table[0]
    row["name"] = "Bern/Berne"
    table[0] = row
    table[1, "code"] = b"BS1"
    table[2:4, "population"] = [1, 2]
with h5py.File("cities.h5") as file:
    table = file["cities"]
    print(table.dtype.names, table.dtype["name"], table.dtype["code"], table.shape)
    print(table[:], table["name"][1:], table[0], type(table[0]).__name__)
    print([name.decode() for name in table["name"]], table["code"].tolist())
    order = np.argsort(table["population"])
    print(table[:][order]["name"], table.fields("code")[::2], table.fields(["name", "population"])[1])
    print(table["name", "code"][:2], table["code", "population"][-1])
    print(table[table["population"] > 100_000]["name"], len(table.fields("name")), table.fields(["code"]).dtype)
    print(table[0]["name"], table[0][1], table[-1].item(), table.dtype.itemsize, table.nbytes)
