"""Prints results for the topic 'chunks' of h5py's documentation."""

from pathlib import Path

import h5py
import numpy as np

with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("x", (10, 6), "u2", chunks=(4, 3))
    d[:4, :3] = 1
    d[8:, :] = 2
with h5py.File("a.h5") as f:
    d = f["x"]
    n = d.id.get_num_chunks()
    found = sorted((d.id.get_chunk_info(i).chunk_offset, d.id.get_chunk_info(i).size) for i in range(n))
    print(n, found, d.id.get_chunk_info_by_coord((0, 0)).size, d.id.get_storage_size(), d.id.get_space_status())
    seen = []
    d.id.chunk_iter(lambda info: seen.append((info.chunk_offset, info.filter_mask, info.size)))
    print(sorted(seen), list(d.iter_chunks())[:3], list(d.iter_chunks(np.s_[2:5, :2])))
    info = d.id.get_chunk_info(0)
    raw = Path("a.h5").read_bytes()[info.byte_offset : info.byte_offset + info.size]
    print(d.id.read_direct_chunk(info.chunk_offset)[1] == raw)
