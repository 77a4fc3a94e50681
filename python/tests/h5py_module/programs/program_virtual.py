"""Joins the files of an acquisition by virtual datasets: stacked, interleaved, with gaps and unlimited."""

import h5py
import numpy as np

FRAMES, SIZE = 5, 6
for part in range(3):
    with h5py.File(f"part{part}.h5", "w") as file:
        data = file.create_dataset("entry/frames", (FRAMES, SIZE), "i4", maxshape=(None, SIZE), chunks=(2, SIZE))
        data[:] = np.arange(FRAMES * SIZE).reshape(FRAMES, SIZE) + 1000 * part
layout = h5py.VirtualLayout(shape=(3, FRAMES, SIZE), dtype="i4")
for part in range(3):
    layout[part] = h5py.VirtualSource(f"part{part}.h5", "entry/frames", shape=(FRAMES, SIZE))
woven = h5py.VirtualLayout(shape=(3 * FRAMES, SIZE), dtype="i4")
for part in range(3):
    with h5py.File(f"part{part}.h5") as file:
        woven[part::3] = h5py.VirtualSource(file["entry/frames"])
gaps = h5py.VirtualLayout((4, SIZE), "f8", maxshape=(4, SIZE))
gaps[0] = h5py.VirtualSource("part1.h5", "entry/frames", (FRAMES, SIZE))[2]
gaps[1, :2] = h5py.VirtualSource("part0.h5", "entry/frames", (FRAMES, SIZE))[0, 4:]
gaps[2] = h5py.VirtualSource("not there.h5", "x", (SIZE,))
with h5py.File("all.h5", "w") as file:
    file.create_virtual_dataset("stack", layout, fillvalue=-1)
    file.create_virtual_dataset("woven", woven)
    file.create_virtual_dataset("gaps", gaps, fillvalue=np.nan)
    file["own"] = np.arange(4)
    inner = h5py.VirtualLayout((2, 4), "i8")
    inner[0] = h5py.VirtualSource(".", "own", (4,))
    inner[1] = h5py.VirtualSource(file["own"])
    file.create_virtual_dataset("inner", inner)
    grows = h5py.VirtualLayout((FRAMES, SIZE), "i4", maxshape=(None, SIZE))
    source = h5py.VirtualSource("part2.h5", "entry/frames", (FRAMES, SIZE), maxshape=(None, SIZE))
    grows[: h5py.UNLIMITED] = source[: h5py.UNLIMITED]
    file.create_virtual_dataset("grows", grows)
with h5py.File("all.h5") as file:
    for name, data in file.items():
        print(name, data.shape, data.maxshape, data.dtype, data.is_virtual, data.chunks, data.fillvalue)
        print(data[...].tolist())
        for one in data.virtual_sources() if data.is_virtual else ():
            print("  ", one.file_name, one.dset_name, one.vspace.get_regular_hyperslab())
    print(file["stack"][1, 2:4, ::2], file["woven"][[0, 4, 5], 1], file["gaps"][1])
with h5py.File("part2.h5", "a") as file:
    file["entry/frames"].resize(7, axis=0)
    file["entry/frames"][5:] = 7
with h5py.File("all.h5") as file:
    print(file["grows"].shape, file["grows"][-1], file["stack"].shape)
