"""Works chunk by chunk: iter_chunks, reading of raw chunks, allocation and sizes."""

import zlib

import h5py
import numpy as np

with h5py.File("chunks.h5", "w") as file:
    data = file.create_dataset("x", (10, 14), "f4", chunks=(4, 5), compression="gzip", shuffle=True, fletcher32=True)
    for part in data.iter_chunks():
        data[part] = part[0].start * 100 + part[1].start
    print(list(data.iter_chunks(np.s_[2:9, 4:8])), len(list(data.iter_chunks())))
    print(sum(float(data[part].sum()) for part in data.iter_chunks()) == float(data[:].sum()))
    holes = file.create_dataset("holes", (100,), "i8", chunks=(10,), fillvalue=-1)
    holes[25:35] = 1
    print(holes.id.get_num_chunks(), [holes.id.get_chunk_info(n).chunk_offset for n in range(2)], holes[20:40])
    print(holes.id.get_storage_size(), holes.nbytes, holes.size)
    plain = file.create_dataset("plain", (8, 8), "u2", chunks=(4, 4), compression="gzip", compression_opts=4)
    tile = np.arange(16, dtype="u2").reshape(4, 4)
    plain.id.write_direct_chunk((4, 0), zlib.compress(tile.tobytes(), 4))
    plain.id.write_direct_chunk((0, 4), tile.tobytes(), filter_mask=1)
    print(
        plain[:],
        plain.id.read_direct_chunk((0, 4))[0],
        zlib.decompress(plain.id.read_direct_chunk((4, 0))[1]) == tile.tobytes(),
    )
    info = plain.id.get_chunk_info_by_coord((4, 0))
    print(
        info.chunk_offset,
        info.filter_mask,
        info.size == len(zlib.compress(tile.tobytes(), 4)),
        info.byte_offset is not None,
    )
    seen = []
    plain.id.chunk_iter(lambda info: seen.append((info.chunk_offset, info.filter_mask)))
    print(seen, data.chunks, data.compression, data.compression_opts, data.shuffle, data.fletcher32, data.scaleoffset)
    print(data.id.get_create_plist().get_nfilters(), data._filters)
    early = file.create_dataset("early", (4, 4), "i2", fillvalue=3, fill_time="ifset")
    print(early[0, 0], early.id.get_offset() is None, data.id.get_offset())
    early[:] = 4
    print(early.id.get_storage_size(), early.id.get_space_status() == h5py.h5d.SPACE_STATUS_ALLOCATED)
    scale = file.create_dataset("scaled", data=np.round(np.linspace(0, 10, 50), 2), scaleoffset=2, chunks=(25,))
    whole = file.create_dataset("whole", data=np.arange(100, dtype="i4"), scaleoffset=0, chunks=(50,))
    print(
        np.abs(scale[:] - np.round(np.linspace(0, 10, 50), 2)).max() < 0.01,
        whole[:3],
        whole.scaleoffset,
        scale.scaleoffset,
    )
    try:
        next(file.create_dataset("flat", (3,)).iter_chunks())
    except TypeError as error:
        print(type(error).__name__)
with h5py.File("chunks.h5") as file:
    for name, dataset in file.items():
        sizes = (
            [dataset.id.get_chunk_info(n).size for n in range(dataset.id.get_num_chunks())] if dataset.chunks else None
        )
        print(name, dataset.chunks, sizes is not None and len(sizes))
    print(file["x"].id.get_chunk_info(0).chunk_offset, file["holes"].id.get_access_plist().get_chunk_cache()[1] > 0)
