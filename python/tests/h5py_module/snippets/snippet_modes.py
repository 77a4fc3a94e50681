"""Prints results for the topic 'modes' of h5py's documentation."""

from pathlib import Path

import h5py

for mode in ("r", "r+"):
    try:
        h5py.File("a.h5", mode)
    except FileNotFoundError as error:
        print(mode, error.errno)
with h5py.File("a.h5", "w-") as f:
    f["x"] = 1
    print(f.mode, f.filename, bool(f))
try:
    h5py.File("a.h5", "x")
except FileExistsError:
    print("exists")
with h5py.File("a.h5", "r+") as f:
    f["y"] = 2
    print(f.mode)
with h5py.File("a.h5") as f:
    print(f.mode, sorted(f), f)
    try:
        f["z"] = 1
    except ValueError:
        print("refused")
try:
    h5py.File("a.h5", "q")
except ValueError as error:
    print(error)
Path("b.h5").write_text("no HDF5")
try:
    h5py.File("b.h5")
except OSError:
    print("not HDF5", h5py.is_hdf5("b.h5"), h5py.is_hdf5("a.h5"), h5py.is_hdf5("none.h5"))
print(repr(f), bool(f), bool(f.id.valid))
