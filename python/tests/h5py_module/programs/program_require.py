"""Makes groups and datasets if they are not there, and refuses other shapes and types."""

import h5py
import numpy as np

with h5py.File("require.h5", "w") as file:
    first = file.require_dataset("a/b/c", (4, 5), "f4", chunks=(2, 5), compression="lzf")
    first[:] = 3
    again = file.require_dataset("a/b/c", (4, 5), "f4")
    print(first == again, again[0, 0], again.compression, file.require_group("a/b") == file["a"]["b"])
    print(
        file.require_dataset("a/b/c", (4, 5), "f2").dtype,
        file.require_dataset("list", data=[1, 2], shape=(2,), dtype="i8")[:],
    )
    for arguments in (
        {"shape": (5, 5), "dtype": "f4"},
        {"shape": (4, 5), "dtype": "i8"},
        {"shape": (4, 5), "dtype": "f2", "exact": True},
        {"shape": (4,), "dtype": "f4"},
    ):
        try:
            file.require_dataset("a/b/c", **arguments)
        except TypeError as error:
            print(type(error).__name__, arguments)
    for call in (
        lambda: file.require_group("a/b/c"),
        lambda: file.require_dataset("a", (1,), "i1"),
        lambda: file.create_group("a"),
    ):
        try:
            call()
        except TypeError:
            print("of another kind")
        except ValueError:
            print("it is there")
    like = file.create_dataset_like("like", first)
    other = file.create_dataset_like("other", first, shape=(8, 5), compression=None)
    print(like.shape, like.dtype, like.chunks, like.compression, other.shape, other.compression, like[0, 0])
    nameless = file.create_dataset(None, data=np.arange(3))
    print(nameless.name, nameless[:])
    file["named later"] = nameless
    group = file.create_group(None)
    group["x"] = 1
    file["adopted"] = group
    print(file["named later"][:], file["adopted/x"][()], list(file), file["adopted"].name)
    file.create_dataset("deep/er/est", (2,), "i4")
    file["a/b"].create_dataset("/absolute", data=1)
    print(list(file), file["deep"]["er"]["est"].name, file["absolute"][()])
    subset = file.create_dataset("auto", (100, 1000), chunks=True)
    print(
        subset.chunks is not None,
        subset.dtype,
        file.create_dataset("shape only", (3,)).dtype,
        file.create_dataset("int", 5).shape,
    )
    for options in (
        {"data": [1, 2, 3], "shape": (2,)},
        {},
        {"shape": (2,), "maxshape": (1,)},
        {"shape": (2,), "chunks": (5,)},
    ):
        try:
            print(file.create_dataset("bad", **options).shape)
        except (TypeError, ValueError):
            print("refused", options)
    reshaped = file.create_dataset("reshaped", data=np.arange(6), shape=(2, 3), dtype="f8")
    print(reshaped[:], file.create_dataset("cast", data=[1.7, 2.2], dtype="i4")[:])
