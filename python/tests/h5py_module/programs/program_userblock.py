"""User blocks, versions of the format, strategies of file space, and modes of opening."""

import pathlib

import h5py

with h5py.File("user.h5", "w", userblock_size=512) as file:
    file["x"] = [1, 2, 3]
    print(file.userblock_size)
with pathlib.Path("user.h5").open("r+b") as raw:
    raw.write(b"text in front".ljust(512, b"."))
with h5py.File("user.h5", "r+") as file:
    print(file.userblock_size, file["x"][:])
    file["y"] = 4
with pathlib.Path("user.h5").open("rb") as raw:
    print(raw.read(13))
for wrong in (100, 513):
    try:
        h5py.File("bad.h5", "w", userblock_size=wrong)
    except ValueError:
        print("no power of two")
for libver in ("earliest", "latest", ("earliest", "v110"), ("v108", "v110"), "v110", ("v110", "latest")):
    with h5py.File("version.h5", "w", libver=libver) as file:
        file.create_group("g")["x"] = 1
        print(libver, file.libver[0])
for strategy in ("fsm", "page"):
    with h5py.File("space.h5", "w", fs_strategy=strategy) as file:
        file["x"] = [1]
        print(strategy, file.id.get_create_plist().get_file_space_strategy())
with h5py.File("paged.h5", "w", fs_strategy="page", fs_page_size=8192) as file:
    file["x"] = [1]
    print(file.id.get_create_plist().get_file_space_page_size())
path = pathlib.Path("modes.h5")
for mode in ("x", "x", "r", "r+", "a", "w-", "w", "a"):
    try:
        with h5py.File(path, mode) as file:
            file.attrs["opened"] = int(file.attrs.get("opened", 0)) + 1 if file.mode == "r+" else 0
            print(mode, file.mode, file.attrs["opened"], file.filename)
    except FileExistsError:
        print(mode, "it exists")
    except KeyError:
        print(mode, "cannot be changed")
with h5py.File(b"bytes.h5", "w") as file:
    print(file.filename, type(file.filename).__name__)
print(h5py.File(path).mode)
with h5py.File("track.h5", "w", track_times=True) as file:
    file.create_dataset("t", data=1, track_times=True)
with h5py.File("track.h5") as file:
    print(h5py.h5g.get_objinfo(file["t"].id).mtime > 0)
