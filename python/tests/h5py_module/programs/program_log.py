"""Appends the readings of a sensor to datasets that grow, and reads the last ones."""

import h5py
import numpy as np


class Log:
    """Datasets of a group that grow by a row with each reading."""

    def __init__(self, group, **columns):
        self.columns = {
            name: group.require_dataset(name, (0,), dtype, maxshape=(None,), chunks=(64,), exact=False)
            for name, dtype in columns.items()
        }

    def append(self, **values):
        for name, dataset in self.columns.items():
            value = np.atleast_1d(values[name])
            dataset.resize(dataset.shape[0] + len(value), axis=0)
            dataset[-len(value) :] = value


rng = np.random.default_rng(7)
for run in range(3):
    with h5py.File("log.h5", "a") as file:
        group = file.require_group(f"runs/{run:03}")
        log = Log(group, time="f8", value="i4", note=h5py.string_dtype())
        for step in range(50):
            log.append(time=step / 10, value=rng.integers(0, 100, 1), note=f"step {step}")
        log.append(time=[5.1, 5.2], value=[1, 2], note=["a", "ö"])
        group.attrs.create("finished", run, dtype="u1")
        group.attrs["columns"] = list(log.columns)
        print(file["runs"].attrs.get("none", "no such"), len(file["runs"]), group.attrs["columns"])
with h5py.File("log.h5") as file:
    for name, group in file["runs"].items():
        print(name, {key: (column.shape, column.maxshape, column.chunks) for key, column in group.items()})
        print(group["value"][-5:], group["time"][-1], group["note"].asstr()[-3:], group["note"][-1])
    print(sum(int(group["value"][()].sum()) for group in file["runs"].values()))
    for run in file["runs"]:
        print(np.asarray(file[f"runs/{run}/time"])[::10].round(2).tolist(), file["runs"][run].attrs["finished"].dtype)
