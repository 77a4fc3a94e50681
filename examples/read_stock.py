"""Reads a dataset with h5py alone, without Hyperchunk, and reports the time.

    HDF5_PLUGIN_PATH=… python examples/read_stock.py scene.h5 NDVI [values.npy]

Prints one line of JSON: the milliseconds of the first read and the median of nine more without HDF5's chunk
cache, and the slice [10:20, 5]; or, after a read that failed, the exception. Saves the values if
there is a third argument.
"""

import json
import statistics
import sys
import time

import h5py
import numpy as np


def main() -> None:
    path, name, *save = sys.argv[1:]
    milliseconds = []
    with h5py.File(path, rdcc_nbytes=0) as file:  # no chunk cache: each read computes again
        dataset = file[name]
        try:
            for _ in range(10):
                start = time.perf_counter()
                values = dataset[...]
                milliseconds.append((time.perf_counter() - start) * 1000)
        except OSError as error:
            print(json.dumps({"error": f"OSError: {error}"}))
            return
        part = dataset[(slice(10, 20), 5)[: dataset.ndim]].tolist()
    if save:
        np.save(save[0], values)
    assert "hyperchunk" not in sys.modules
    print(json.dumps({"cold": milliseconds[0], "warm": statistics.median(milliseconds[1:]), "slice": part}))


if __name__ == "__main__":
    main()
