"""Copies objects within a file and between files, shallow, expanded and without attributes."""

import h5py
import numpy as np

with h5py.File("outside.h5", "w") as file:
    file["far"] = [7, 8]
with h5py.File("from.h5", "w") as source, h5py.File("to.h5", "w") as target:
    group = source.create_group("group")
    group.attrs["note"] = "kept"
    group["x"] = np.arange(10)
    group["x"].attrs["unit"] = "m"
    group["inner/y"] = "text"
    group["inner/z"] = np.array([b"a", b"bc"])
    source["elsewhere"] = [1.5]
    group["soft"] = h5py.SoftLink("/elsewhere")
    group["ext"] = h5py.ExternalLink("outside.h5", "far")
    group.create_dataset("packed", data=np.zeros((50, 50)), chunks=(10, 10), compression="gzip", compression_opts=9)
    group.create_dataset("vlen", (2,), dtype=h5py.vlen_dtype("i4"))[0] = [1, 2, 3]
    source.copy("group", target)
    source.copy(group, target, "renamed", without_attrs=True)
    source.copy("group/x", target["renamed"], name="copied")
    source.copy("group", target, "shallow", shallow=True)
    source.copy("group", target, "soft", expand_soft=True)
    source.copy("group", target, "external", expand_external=True)
    source.copy("group", source, "twin")
    source.copy(group["x"], "path/of/x")
    group.copy("inner", group, "again")
    target.copy(source["elsewhere"], target)
    for file in (source, target):
        file.visititems(lambda name, item: print(name, type(item).__name__, dict(item.attrs)))
    print(
        target["soft/soft"][:],
        target["group"].get("soft", getlink=True).path,
        isinstance(target["soft"].get("soft", getlink=True), h5py.HardLink),
    )
    print(
        target["external/ext"][:],
        isinstance(target["external"].get("ext", getlink=True), h5py.HardLink),
        target["group/packed"].compression_opts,
    )
    print(
        target["group/vlen"][0],
        target["group/inner/y"].asstr()[()],
        list(target["shallow"]),
        list(target["shallow/inner"]),
    )
    print(source["twin/x"] == source["group/x"], source["twin/x"][-1])
    try:
        source.copy("none", target)
    except KeyError:
        print("no such source")
    try:
        source.copy("group", target)
    except RuntimeError:
        print("it is there")
    for name in source:
        source.copy(name, target, name + " (copy)")
    print(sorted(target))
