"""A writer in SWMR mode and a reader that follows it."""

import h5py
import numpy as np

writer = h5py.File("swmr.h5", "w", libver="latest")
data = writer.create_dataset("x", (0, 3), "i4", maxshape=(None, 3), chunks=(8, 3))
stamps = writer.create_dataset("t", (0,), "f8", maxshape=(None,), chunks=(16,))
writer.attrs["state"] = "running"
print(writer.swmr_mode, writer.mode)
writer.swmr_mode = True
print(writer.swmr_mode)
reader = h5py.File("swmr.h5", "r", libver="latest", swmr=True)
follow, seen = reader["x"], reader["t"]
print(reader.swmr_mode, follow.shape)
for step in range(5):
    data.resize(data.shape[0] + 4, axis=0)
    data[-4:] = step
    stamps.resize((step + 1,))
    stamps[step] = step / 2
    data.flush()
    stamps.flush()
    writer.flush()
    follow.refresh()
    seen.id.refresh()
    print(follow.shape, follow[-1], seen[:], int(np.asarray(follow).sum()))
reader.close()
writer.close()
with h5py.File("swmr.h5", "r+", libver="latest") as file:
    print(file["x"].shape, file.attrs["state"], file.swmr_mode)
    file.attrs["state"] = "done"
with h5py.File("swmr.h5", "r", swmr=True) as file:
    print(file.attrs["state"], file["t"][:])
