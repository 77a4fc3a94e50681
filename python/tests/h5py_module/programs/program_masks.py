"""Selects by masks, lists, steps, ellipses and new axes, for reading and for writing."""

import h5py
import numpy as np

rng = np.random.default_rng(0)
values = rng.integers(0, 1000, (20, 30)).astype("i4")
with h5py.File("mask.h5", "w") as file:
    data = file.create_dataset("x", data=values, chunks=(7, 8))
    line = file.create_dataset("line", data=np.arange(100.0), chunks=(9,))
    cube = file.create_dataset("cube", data=np.arange(2 * 3 * 4).reshape(2, 3, 4))
    print(data[data[:] > 900], (data[values > 500] == values[values > 500]).all())
    data[values > 990] = -1
    data[values < 5] = np.arange(np.count_nonzero(values < 5)) - 100
    print(sorted(data[data[:] < 0].tolist()))
    print(line[line[:] % 10 == 0], line[[1, 5, 60]], line[np.array([3, 4])], line[2:50:7], line[-3:], line[...][3])
    print(data[[1, 4, 5], 3:6], data[2, [1, 2, 29]], data[-1, -5:], data[::6, ::9], data[5:5].shape, data[3].shape)
    print(data[np.s_[2:4, 0]], data[..., 0][:3], data[0, ...].shape, data[:, np.arange(30) % 10 == 0][0])
    row_mask = np.zeros(20, dtype=bool)
    row_mask[[2, 17]] = True
    print(data[row_mask, :2], data[row_mask].shape, data[row_mask, 4])
    data[row_mask, 0] = [7, 8]
    data[[0, 3], 1:3] = [[1, 2], [3, 4]]
    data[10:12] = 5
    data[:, 29] = np.arange(20)
    data[15, 2:8:2] = (9, 9, 9)
    print(data[:, 0], data[[0, 3], 1:3], data[10:12].sum(), data[:, 29], data[15, :9])
    line[[2, 4, 8]] = 0
    line[np.array([True] + [False] * 99)] = 55
    line[-1] = np.pi
    print(line[:10], line[-1], cube[1, :, [0, 3]], cube[..., 1], cube[:, 1], cube[0, 1, 2], cube[()].sum())
    for bad in ((99,), (0, 0, 0), ("name",), (1.5,), (slice(0, 5, 0),)):
        try:
            print(data[bad].shape)
        except (IndexError, ValueError, TypeError):
            print("refused", bad)
    for bad in (np.zeros(3), np.zeros((20, 29)), "text"):
        try:
            data[...] = bad
        except (TypeError, ValueError):
            print("cannot assign")
    print(data.size, len(data), data.ndim, next(iter(data)).shape, bool(data), data[0:0, 0:0].shape)
