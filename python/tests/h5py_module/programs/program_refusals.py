"""Refused calls, and values of null dataspaces, closed files and links."""

from functools import partial

import h5py
from h5py import h5a, h5d, h5g, h5s


def refused(label, call, kind=Exception):
    """Prints the result of a call, or whether its exception is of a class."""
    try:
        result = call()
    except Exception as error:
        print(label, kind.__name__ if isinstance(error, kind) else type(error).__mro__)
    else:
        print(label, result)


def kind_of(file, name, follow):
    return h5g.get_objinfo(file.id, name, follow_link=follow).type


def put(mapping, key, value):
    mapping[key] = value


def remove(mapping, key):
    del mapping[key]


def look(file):
    """Looks for objects and links."""
    for name in ("loop", "dangling", "dangling_ext", "nope", "a_group/nope", "loop/x"):
        kind = RuntimeError if name.startswith("loop") else KeyError
        refused(f"open {name}", lambda name=name: file[name], kind)
        for follow in (True, False):
            refused(f"info {name} {follow}", partial(kind_of, file, name.encode(), follow), RuntimeError)
    for name in ("loop", "dangling", "dangling_ext", "nope"):
        refused(f"get {name}", lambda name=name: file.get(name), RuntimeError)
        refused(f"link {name}", lambda name=name: type(file.get(name, getlink=True)).__name__)
    for name in (b"there", b"a_group", b"a_group/x", b"."):
        print(name, [h5g.get_objinfo(file.id, name, follow_link=follow).type for follow in (True, False)])
    refused("items", lambda: len(list(file.items())), RuntimeError)
    refused("values", lambda: len(list(file.values())), RuntimeError)
    refused("open dataset", lambda: h5d.open(file.id, b"a_group"), KeyError)
    refused("open dataset", lambda: h5d.open(file.id, b"nope"), KeyError)
    refused("open group", lambda: h5g.open(file.id, b"n"), ValueError)
    refused("open group", lambda: h5g.open(file.id, b"nope"), ValueError)
    refused("open attribute", lambda: h5a.open(file.id, b"nope"), KeyError)


with h5py.File("other.h5", "w") as file:
    file["x"] = 1

file = h5py.File("a.h5", "w")
file.attrs["e"] = h5py.Empty("f4")
attribute = file.attrs.get_id("e")
print(attribute.shape, attribute.get_space().shape, attribute.get_space().get_simple_extent_dims(), attribute.dtype)
print(h5s.create(h5s.NULL).shape, h5s.create(h5s.SCALAR).shape, attribute.get_space().get_simple_extent_ndims())
file["n"] = h5py.Empty("i2")
print(file["n"].shape, file["n"].id.shape, file["n"].id.get_space().shape, file["n"][()], file["n"].id.dtype)

file["loop"] = h5py.SoftLink("/loop2")
file["loop2"] = h5py.SoftLink("/loop")
file["dangling"] = h5py.SoftLink("/nowhere")
file["there"] = h5py.ExternalLink("other.h5", "/x")
file["dangling_ext"] = h5py.ExternalLink("none.h5", "/x")
file["a_group/x"] = [1, 2]
look(file)
file.close()
with h5py.File("a.h5") as file:
    look(file)
file = h5py.File("a.h5", "r+")

refused("attribute", lambda: put(file.attrs, "", 1), RuntimeError)
refused("attribute", lambda: file.attrs.create("", 1), RuntimeError)
refused("attribute", lambda: file.attrs[""], KeyError)
refused("delete /", lambda: remove(file, "/"), KeyError)
refused("delete .", lambda: remove(file, "."), KeyError)
refused("delete nope", lambda: remove(file, "nope"), KeyError)
refused("delete nothing", lambda: remove(file, ""), ValueError)
refused("delete /", lambda: remove(file["a_group"], "/"), KeyError)
refused("space", lambda: h5s.create_simple((3,), (2,)).shape, ValueError)
refused("space", lambda: h5s.create_simple((3,), (h5s.UNLIMITED,)).shape)
refused("space", lambda: h5s.create_simple((3, 2), (3,)).shape, ValueError)
refused("space", lambda: h5s.create_simple((3, 2), (3, 2)).shape)
refused("extent", lambda: h5s.create_simple((3,)).set_extent_simple((3,), (2,)), ValueError)
refused("empty", lambda: file.create_dataset("e0", (0,), data=h5py.Empty("f4")), TypeError)
refused("empty", lambda: file.create_dataset("e1", (3,), data=h5py.Empty("f4")), TypeError)
refused("empty", lambda: file.create_dataset("e2", (), data=h5py.Empty("f4")).shape, TypeError)
refused("empty", lambda: file.create_dataset("e3", data=h5py.Empty("f4")).shape)
refused("empty", lambda: file.create_dataset("e4", data=h5py.Empty("f4"), dtype="i4").shape)
print(sorted(name for name in file if name.startswith("e")))

create = h5py.h5p.create(h5py.h5p.LINK_CREATE)
refused("parents", lambda: h5g.create(file.id, b"p2/q/r").valid, ValueError)
refused("parents", lambda: h5g.create(file.id, b"p4/q", create).valid, ValueError)
refused("parents", lambda: h5g.create(file.id, b"a_group/q").valid)
refused("parents", lambda: h5g.create(file.id, b"/a_group/q2/").valid)
refused("parents", lambda: h5g.create(file.id, b"a_group").valid, ValueError)
create.set_create_intermediate_group(True)
refused("parents", lambda: h5g.create(file.id, b"p3/q/r", create).valid)
refused("parents", lambda: h5g.create(file.id, None).valid)
print(sorted(name for name in file if name.startswith("p")), sorted(file["a_group"]))

data = file["a_group/x"]
print(data.dtype)
file.close()
refused("closed", lambda: data.dtype)
refused("closed", lambda: data.id.dtype)
refused("closed", lambda: data.shape, RuntimeError)
refused("closed", lambda: data[()], RuntimeError)
