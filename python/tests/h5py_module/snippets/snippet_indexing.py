"""Prints results for the topic 'indexing' of h5py's documentation."""

import h5py
import numpy as np

x = np.arange(60).reshape(3, 4, 5)
with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("x", data=x, chunks=(1, 2, 5))
    for s in (
        np.s_[0],
        np.s_[..., 1],
        np.s_[1:, ::2, -1],
        np.s_[:, [0, 2]],
        np.s_[x > 50],
        np.s_[h5py.MultiBlockSlice(0, 2, 1, 1)],
        np.s_[()],
        np.s_[2, 3, 4],
        np.s_[[0, -1]],
        np.s_[..., [1, -2]],
    ):
        print(np.shape(d[s]), np.sum(d[s]))
    d[0, :, 1:3] = 0
    d[1] = np.arange(5)
    d[2, [0, 3]] = 7
    print(d[:].tolist())
    for bad in (
        np.s_[::-1],
        np.s_[[2, 1]],
        np.s_[[1, 1]],
        np.s_[[-1, -2]],
        np.s_[..., [1, -4]],
        np.s_[[0, 1], [0, 1]],
        np.s_[[[0, 1]]],
        np.s_[3],
        np.s_[0, 0, 0, 0],
        np.s_["a"],
    ):
        try:
            d[bad]
        except (TypeError, ValueError, IndexError) as error:
            print([k.__name__ for k in (TypeError, ValueError, IndexError) if isinstance(error, k)])
