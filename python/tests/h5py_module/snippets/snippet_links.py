"""Prints results for the topic 'links' of h5py's documentation."""

import h5py

with h5py.File("a.h5", "w") as f:
    f["x"], f["g/y"] = 1, 2
    f["soft"], f["ext"] = h5py.SoftLink("/g/y"), h5py.ExternalLink("b.h5", "/z")
with h5py.File("a.h5") as f:
    links = f.id.links
    print(links.exists(b"soft"), links.exists(b"nope"), links.get_val(b"soft"), links.get_val(b"ext"))
    print(
        links.get_info(b"soft").type == h5py.h5l.TYPE_SOFT,
        links.get_info(b"ext").type == h5py.h5l.TYPE_EXTERNAL,
        links.get_info(b"x").type,
    )
    names = []
    links.visit(lambda name: names.append(name))
    print(
        names,
        f.get("ext", getlink=True).filename,
        f.get("soft", getlink=True).path,
        f.get("x", getlink=True, getclass=True).__name__,
    )
    print(repr(f.get("soft", getlink=True)), f.get("x", getclass=True).__name__)
