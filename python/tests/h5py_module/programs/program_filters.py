"""Filters by name and by number, their options, and what is refused."""

import h5py
import numpy as np

values = np.arange(2000, dtype="i4").reshape(50, 40) // 7
with h5py.File("filters.h5", "w") as file:
    for name, options in {
        "gzip": {"compression": "gzip"},
        "gzip 9": {"compression": "gzip", "compression_opts": 9},
        "number": {"compression": 3},
        "lzf": {"compression": "lzf"},
        "shuffle": {"compression": "lzf", "shuffle": True},
        "checksum": {"fletcher32": True},
        "scale": {"scaleoffset": 12},
        "level": {"compression": 5},
        "chunks": {"chunks": (10, 10)},
        "auto": {"compression": "gzip", "chunks": True},
        "none": {},
    }.items():
        data = file.create_dataset(name, data=values, **options)
        plist = data.id.get_create_plist()
        print(name, data.compression, data.compression_opts, data.shuffle, data.fletcher32, data.scaleoffset)
        print(
            "  ",
            (data.chunks is not None),
            [plist.get_filter(n)[:1] + plist.get_filter(n)[3:] for n in range(plist.get_nfilters())],
        )
        print("  ", np.array_equal(data[:], values), data.filter_names)
    for options in (
        {"compression": "zip"},
        {"compression": "gzip", "compression_opts": 10},
        {"compression": "lzf", "compression_opts": 3},
        {"compression": 10},
        {"compression": 32999},
        {"compression_opts": 4},
        {"scaleoffset": -1},
        {"chunks": False, "compression": "gzip"},
        {"chunks": (60, 10)},
        {"chunks": (10,)},
        {"szip": 3},
        {"fletcher32": True, "scaleoffset": 2},
    ):
        try:
            file.create_dataset("bad", data=values, **options)
            print("made", options)
            del file["bad"]
        except (ValueError, TypeError, RuntimeError, OSError):
            print("refused", options)
    try:
        file.create_dataset("scalar", data=1, compression="gzip")
    except TypeError as error:
        print(type(error).__name__)
    print(
        h5py.h5z.filter_avail(h5py.h5z.FILTER_DEFLATE),
        h5py.h5z.filter_avail(h5py.h5z.FILTER_SHUFFLE),
        h5py.h5z.filter_avail(33333),
    )
    print(h5py.h5z.get_filter_info(h5py.h5z.FILTER_DEFLATE) & h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED)
    for level in range(10):
        name = f"level {level}"
        file.create_dataset(name, data=values, compression="gzip", compression_opts=level, shuffle=bool(level % 2))
    print({name: (file[name].compression_opts, file[name].shuffle) for name in file if name.startswith("level ")})
    like = file.create_dataset_like("like", file["gzip 9"], compression_opts=2, shuffle=True)
    plain = file.create_dataset_like("plain", file["lzf"], compression=None, chunks=None)
    print(like.compression, like.compression_opts, like.shuffle, like.chunks == file["gzip 9"].chunks)
    print(plain.compression, plain.chunks, file.create_dataset_like("wide", file["shuffle"], dtype="f8").compression)
