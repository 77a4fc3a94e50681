"""A 3x3 mean, in blocks: hyperchunk udf attach image.h5 smooth.py --chunks auto --halo 1."""

import numpy as np


def dynamic_dataset():
    image, smooth = lib.array("image"), lib.array("smooth")
    # Offset of the computed block within the input's wider block.
    top, left = np.subtract(lib.getOffset(), lib.getOffset("image"))
    sums, counts = np.zeros(image.shape), np.zeros(image.shape)
    rows, columns = image.shape
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            to = np.s_[max(i, 0) : rows + min(i, 0), max(j, 0) : columns + min(j, 0)]
            of = np.s_[max(-i, 0) : rows + min(-i, 0), max(-j, 0) : columns + min(-j, 0)]
            sums[to] += image[of]
            counts[to] += 1
    rows, columns = lib.getChunk()
    smooth[:] = (sums / counts)[top : top + rows, left : left + columns]
