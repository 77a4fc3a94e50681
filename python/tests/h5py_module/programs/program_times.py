"""Times, opaque values and other types that HDF5 does not have."""

import datetime

import h5py
import numpy as np

times = np.array(["2020-01-01T12:00", "2021-06-05T00:00", "NaT"], dtype="datetime64[s]")
with h5py.File("times.h5", "w") as file:
    file["opaque"] = times.astype(h5py.opaque_dtype(times.dtype))
    file.create_dataset("made", (2,), dtype=h5py.opaque_dtype("M8[us]"))[0] = np.datetime64("1999-12-31T23:59:59", "us")
    file["steps"] = np.array([1, 90], "m8[m]").astype(h5py.opaque_dtype("m8[m]"))
    file["seconds"] = times[:2].astype("i8")
    file["seconds"].attrs["units"] = "seconds since 1970-01-01"
    file["void"] = np.void(b"\x00\x01raw\x00")
    file["voids"] = np.array([b"abc", b"def"], dtype="V3")
    file.attrs["void"] = np.void(b"\xff\x00")
    file.attrs["made"] = datetime.datetime(2020, 5, 17, 1, 2, 3).isoformat()
    for bad in (lambda: file.create_dataset("bad", data=times), lambda: file.attrs.__setitem__("bad", times[0])):
        try:
            bad()
        except TypeError as error:
            print(type(error).__name__)
with h5py.File("times.h5") as file:
    for name, data in file.items():
        print(name, data.dtype, h5py.check_opaque_dtype(data.dtype), data.shape, repr(data[()]))
    print(file["opaque"][0], file["opaque"][1:].dtype, file["steps"][:] + np.timedelta64(1, "m"), file["made"][0])
    print(file["seconds"][:].astype("M8[s]"), file["void"][()].tobytes(), file["voids"][1].tobytes(), dict(file.attrs))
    print(file["opaque"].id.get_type().get_tag(), file["void"].id.get_type().get_class() == h5py.h5t.OPAQUE)
    print(datetime.datetime.fromisoformat(file.attrs["made"]), bytes(file.attrs["void"]))
with h5py.File("pickles.h5", "w") as file:
    import pickle

    file["object"] = np.void(pickle.dumps({"a": [1, 2], "b": None}))
    print(pickle.loads(file["object"][()].tobytes()), pickle.loads(bytes(file["object"][()])))
    file.create_dataset("bytes", data=np.frombuffer(b"binary \x00 data", dtype="u1"))
    print(file["bytes"][:].tobytes())
