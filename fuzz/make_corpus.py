"""Makes the corpus: `make_corpus.py CONFORMANCE`, where CONFORMANCE is what `conformance/make.py` made.

Small conformance files are taken as they are; files with one chunk a filter, and with each kind of chunk index, are
made here with h5py and, for the filters of plugins, hdf5plugin."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

CORPUS = Path(__file__).resolve().parent / "corpus"
LARGEST = 16 << 10

TAKEN = [
    "external/lists",
    "external/lists_old",
    "external/written",
    "files/cache_image",
    "files/cut_short",
    "files/root_properties",
    "files/shifted",
    "files/sizes_2_2_8",
    "files/sizes_5_4_4",
    "files/sizes_5_16_4",
    "files/userblocks_5_1024",
    "fills/kinds",
    "fills/kinds_old",
    "filters/many_filters",
    "filters/masks",
    "floats/half",
    "floats/vax",
    "heaps/emptied",
    "heaps/names_alike",
    "groups/local_heaps",
    "integers/bitfields",
    "integers/odd_sizes",
    "integers/opaques",
    "integers/strings_old",
    "links/external",
    "links/hard",
    "links/hard_old",
    "links/nested_deep",
    "links/user_defined",
    "nested/arrays",
    "nested/compounds_with_strings",
    "nested/unwritten",
    "references/new_attributes",
    "references/new_objects",
    "references/old_regions",
    "shared_messages/committed_and_shared",
    "spaces/attributes",
    "spaces/comments_and_times_old",
    "spaces/creation_order",
    "spaces/maxima",
    "virtual/irregular",
    "virtual/many",
    "virtual/numbered",
    "virtual/same_file",
    "virtual/unlimited",
]


def take(conformance: Path) -> None:
    """Copies the files of `TAKEN`."""
    for name in TAKEN:
        bytes_ = (conformance / f"{name}.h5").read_bytes()
        if len(bytes_) < LARGEST:
            (CORPUS / f"{name.replace('/', '_')}.hdf5").write_bytes(bytes_)
        else:
            print(f"{name}: {len(bytes_)} bytes, left out")


def filters() -> None:
    """A file with a small dataset for each filter."""
    plugins = {
        "blosc": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.SHUFFLE),
        "blosclz": hdf5plugin.Blosc(cname="blosclz", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
        "blosc_zstd": hdf5plugin.Blosc(cname="zstd", shuffle=0),
        "blosc2": hdf5plugin.Blosc2(cname="zstd", filters=hdf5plugin.Blosc2.SHUFFLE),
        "bitshuffle": hdf5plugin.Bitshuffle(cname="lz4"),
        "bitshuffle_zstd": hdf5plugin.Bitshuffle(cname="zstd"),
        "bzip2": hdf5plugin.BZip2(),
        "lz4": hdf5plugin.LZ4(),
        "zstd": hdf5plugin.Zstd(),
        "zfp": hdf5plugin.Zfp(reversible=True),
        "zfp_rate": hdf5plugin.Zfp(rate=8),
        "sz": hdf5plugin.SZ(absolute=0.01),
        "sz3": hdf5plugin.SZ3(absolute=0.01),
        "sperr": hdf5plugin.Sperr(rate=8),
    }
    data = np.add.outer(np.arange(16), np.sin(np.arange(16))).astype("f4")
    with h5py.File(CORPUS / "filters.hdf5", "w", libver="latest") as file:
        for name, plugin in plugins.items():
            file.create_dataset(name, data=data, chunks=data.shape, **plugin)
    whole = (data * 100).astype("i2")
    with h5py.File(CORPUS / "filters_built_in.hdf5", "w", libver="latest") as file:
        file.create_dataset("deflate", data=whole, chunks=(8, 16), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("szip", data=whole, chunks=(16, 16), compression="szip")
        file.create_dataset("lzf", data=whole, chunks=(16, 16), compression="lzf")
        file.create_dataset("scale", data=whole, chunks=(16, 16), scaleoffset=0)
        file.create_dataset("scale_float", data=data, chunks=(16, 16), scaleoffset=2)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((16, 16))
        plist.set_filter(h5py.h5z.FILTER_NBIT)
        datatype = h5py.h5t.STD_I16LE.copy()
        datatype.set_precision(11)
        space = h5py.h5s.create_simple((16, 16))
        dataset = h5py.h5d.create(file.id, b"nbit", datatype, space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, (whole % 500).astype("i2"))


def indexes() -> None:
    """A file with each kind of chunk index."""
    options = {
        "single": {"shape": (4, 4), "chunks": (4, 4)},
        "fixed": {"shape": (9, 9), "chunks": (2, 2)},
        "fixed_filtered": {"shape": (9, 9), "chunks": (2, 2), "compression": 1},
        "extensible": {"shape": (40,), "chunks": (1,), "maxshape": (None,)},
        "extensible_filtered": {"shape": (40,), "chunks": (1,), "maxshape": (None,), "fletcher32": True},
        "tree": {"shape": (6, 6), "chunks": (2, 2), "maxshape": (None, None)},
        "tree_filtered": {"shape": (6, 6), "chunks": (2, 2), "maxshape": (None, None), "compression": 1},
    }
    for name, libver in (("indexes", "latest"), ("indexes_old", "earliest")):
        with h5py.File(CORPUS / f"{name}.hdf5", "w", libver=libver) as file:
            for label, keywords in options.items():
                if libver == "earliest" and not label.startswith("tree"):
                    continue
                count = int(np.prod(keywords["shape"]))
                file.create_dataset(label, data=np.arange(count, dtype="i2").reshape(keywords["shape"]), **keywords)


def main() -> None:
    """Makes all of it."""
    CORPUS.mkdir(exist_ok=True)
    take(Path(sys.argv[1]))
    filters()
    indexes()
    for path in sorted(CORPUS.glob("*.hdf5")):
        size = path.stat().st_size
        if size >= LARGEST:
            print(f"{path.name}: {size} bytes")


if __name__ == "__main__":
    main()
