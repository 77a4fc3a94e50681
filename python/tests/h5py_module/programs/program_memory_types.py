"""Writes and reads arrays as elements of a datatype in memory of another size, as libhdf5 does: one after another."""

import h5py
import numpy as np
from h5py import h5a, h5d, h5s, h5t

with h5py.File("sizes.h5", "w") as file:
    for shape in ((), (3,), (2, 2)):
        for stored, given in (("S1", "S18"), ("S4", "S6"), ("i2", "i8"), ("u1", "S6"), ("f4", "f8"), ("i4", "i4")):
            name = f"{len(shape)}{stored}{given}"
            array = np.arange(8).reshape(2, 4).astype(given)
            datatype = h5t.py_create(np.dtype(stored))
            space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
            dataset = h5d.create(file.id, name.encode(), datatype, space)
            dataset.write(h5s.ALL, h5s.ALL, array, mtype=dataset.get_type())
            print(name, np.asarray(file[name]).tolist())
            out = np.zeros(8, given)
            dataset.read(h5s.ALL, h5s.ALL, out, mtype=dataset.get_type())
            print(name, out.tolist())
            attribute = h5a.create(file.id, name.encode(), datatype, space)
            attribute.write(array, mtype=attribute.get_type())
            print(name, np.asarray(file.attrs[name]).tolist())
            out = np.zeros(8, given)
            attribute.read(out, mtype=attribute.get_type())
            print(name, out.tolist())
            if len(shape) == 1:
                memory, part = h5s.create_simple((4,)), dataset.get_space()
                memory.select_hyperslab((1,), (2,))
                part.select_hyperslab((0,), (2,))
                dataset.write(memory, part, array, mtype=dataset.get_type())
                print(name, np.asarray(file[name]).tolist())
