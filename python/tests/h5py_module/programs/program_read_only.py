"""Low-level calls that write to a file that is open for reading, and calls with identifiers that they do not take."""

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5s, h5t

with h5py.File("a.h5", "w") as file:
    file["x"] = np.arange(4.0)
    file["x"].attrs["a"] = 1
    file.create_group("g")


def refused(label, call, kind):
    """Prints whether the exception of a call is of a class."""
    try:
        result = call()
    except Exception as error:
        print(label, kind.__name__ if isinstance(error, kind) else type(error).__mro__)
    else:
        print(label, result)


with h5py.File("a.h5") as file:
    one, number, data = h5s.create_simple((1,)), h5t.NATIVE_INT32, file["x"].id
    refused("create attribute", lambda: h5a.create(file.id, b"n", number, one), OSError)
    refused("delete attribute", lambda: h5a.delete(data, b"a"), KeyError)
    refused("rename attribute", lambda: h5a.rename(data, b"a", b"b"), RuntimeError)
    refused("write attribute", lambda: h5a.open(data, b"a").write(np.array(2)), OSError)
    refused("create dataset", lambda: h5d.create(file.id, b"n", number, one), ValueError)
    refused("write dataset", lambda: data.write(h5s.ALL, h5s.ALL, np.arange(4.0)), OSError)
    refused("extend", lambda: data.set_extent((8,)), RuntimeError)
    refused("comment", lambda: h5o.set_comment(data, b"c"), RuntimeError)
    refused("comment of a member", lambda: file.id.set_comment(b"x", b"c"), RuntimeError)
    refused("commit datatype", lambda: number.copy().commit(file.id, b"t"), KeyError)
    refused("create group", lambda: h5g.create(file.id, b"n"), ValueError)
    refused("move", lambda: file.id.links.move(b"x", file.id, b"y"), ValueError)
    refused("unlink", lambda: file.id.unlink(b"x"), KeyError)
    refused("soft link", lambda: file.id.links.create_soft(b"s", b"/x"), OSError)
    refused("hard link", lambda: file.id.links.create_hard(b"s", file.id, b"x"), OSError)
    refused("external link", lambda: file.id.links.create_external(b"s", b"o.h5", b"x"), RuntimeError)
    refused("link object", lambda: h5o.link(data, file.id, b"n"), OSError)
    refused("SWMR", lambda: file.id.start_swmr_write(), RuntimeError)
    refused("name of a datatype", lambda: h5py.Datatype(number).name, RuntimeError)
    refused("flush a datatype", lambda: h5f.flush(number), RuntimeError)
    refused("member of a dataset", lambda: h5o.get_info(data, index=0), RuntimeError)
    refused("file of a dataspace", lambda: h5py.File(one), ValueError)
    print(h5py.File(data)["x"].shape)
