"""Hard, soft and external links: made, listed, followed, broken, moved and deleted."""

from pathlib import Path

import h5py

with h5py.File("other.h5", "w") as file:
    file["deep/data"] = [1, 2, 3]
    file["deep"].attrs["kind"] = "other"
with h5py.File("main.h5", "w") as file:
    file["data/x"] = [10, 20]
    file["hard"] = file["data/x"]
    file["soft"] = h5py.SoftLink("/data/x")
    file["data/relative"] = h5py.SoftLink("x")
    file["dangling"] = h5py.SoftLink("/nothing")
    file["external"] = h5py.ExternalLink("other.h5", "/deep/data")
    file["group elsewhere"] = h5py.ExternalLink("other.h5", "deep")
    file["no file"] = h5py.ExternalLink("none.h5", "/x")
    file["loop"] = h5py.SoftLink("/")
with h5py.File("main.h5", "r+") as file:
    for name in file:
        link = file.get(name, getlink=True)
        print(name, type(link).__name__, getattr(link, "path", None), getattr(link, "filename", None), name in file)
        print("  ", file.get(name, "default") == "default", file.get(name, getlink=True, getclass=True).__name__)
    print(
        file["hard"] == file["soft"],
        file["external"][:],
        Path(file["external"].file.filename).is_absolute(),
        file["external"].name,
    )
    print(file["group elsewhere"].attrs["kind"], file["group elsewhere/data"][1], file["loop/loop/data/relative"].name)
    for name in ("dangling", "no file", "data/none", "data/x/y"):
        try:
            file[name]
        except KeyError:
            print(name, "leads nowhere")
    print(list(file.keys()) == list(file), len(file), "data/x" in file, "/data/x" in file, "data/none" in file)
    del file["soft"]
    file.move("hard", "moved/here")
    print(h5py.h5o.get_info(file["data/x"].id).rc, file["moved/here"].name)
    del file["data/x"]
    print(file["moved/here"][:], "x" in file["data"], file["data"].get("relative"), list(file["data"]))
    try:
        file["moved/here"] = 1
    except (OSError, ValueError, RuntimeError):
        print("it is there")
    try:
        del file["never"]
    except KeyError:
        print("no such link")
    print(file["moved"].parent.name, file["moved/here"].parent.name, file["/"].name, file.parent.name)
    print(h5py.SoftLink("/a").path, h5py.ExternalLink("f", "/b").filename, isinstance(h5py.HardLink(), h5py.HardLink))
    names = []
    file.visit_links(names.append)
    print(names)
    file.visititems_links(lambda name, link: print(name, type(link).__name__))
