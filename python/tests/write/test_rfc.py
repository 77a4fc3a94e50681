"""The requirements of the RFC "Direct Chunk Write", section by section."""

import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

RAW = np.arange(6 * 4, dtype="<i4").reshape(6, 4)


def shuffled(array: np.ndarray) -> bytes:
    return array.reshape(-1).view("u1").reshape(-1, array.itemsize).T.tobytes()


def make(new: Any, **options: Any) -> Any:
    settings = {"chunks": (6, 4), "compression": "gzip", "shuffle": True} | options
    return new.file.create_dataset("d", (12, 8), "<i4", **settings)


def test_rfc_3_1_accepts_a_chunk_that_was_compressed_elsewhere(new: Any) -> None:
    make(new).write_chunk((0, 0), zlib.compress(shuffled(RAW)))
    with new.h5py() as file:
        assert np.array_equal(file["d"][:6, :4], RAW)
        assert not file["d"][6:].any()


def test_rfc_3_1_offset_is_that_of_the_first_element(new: Any) -> None:
    dataset = make(new)
    for at, (row, column) in enumerate([(0, 0), (0, 4), (6, 0), (6, 4)]):
        dataset.write_chunk((row, column), zlib.compress(shuffled(RAW + 100 * at)))
    with new.h5py() as file:
        for at, (row, column) in enumerate([(0, 0), (0, 4), (6, 0), (6, 4)]):
            assert np.array_equal(file["d"][row : row + 6, column : column + 4], RAW + 100 * at)


@pytest.mark.parametrize(
    ("mask", "data"),
    [
        (0, zlib.compress(shuffled(RAW))),
        (1, zlib.compress(RAW.tobytes())),
        (2, shuffled(RAW)),
        (3, RAW.tobytes()),
    ],
)
def test_rfc_3_1_filter_mask_says_which_were_left_out_0_for_none(new: Any, mask: int, data: bytes) -> None:
    dataset = make(new)
    dataset.write_chunk((6, 4), data, mask) if mask else dataset.write_chunk((6, 4), data)
    assert np.array_equal(dataset[6:, 4:], RAW)
    with new.h5py() as file:
        assert np.array_equal(file["d"][6:, 4:], RAW)
        assert file["d"].id.read_direct_chunk((6, 4)) == (mask, data)


def test_rfc_3_2_no_copy_of_the_chunk_is_made(new: Any) -> None:
    data = np.zeros(32 << 20, "u1")
    dataset = new.file.create_dataset("d", (4, data.size), "u1", chunks=(1, data.size))
    dataset.write_chunk((0, 0), data)
    with Path("/proc/self/status").open() as status:
        before = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    tracemalloc.start()
    for row in range(1, 4):
        dataset.write_chunk((row, 0), data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with Path("/proc/self/status").open() as status:
        after = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert after - before < 8 << 10


def test_rfc_3_2_the_bytes_are_neither_changed_nor_looked_at(new: Any) -> None:
    dataset = make(new)
    rubbish = np.random.default_rng(1).bytes(1000)
    copy = bytearray(rubbish)
    dataset.write_chunk((0, 0), copy)
    assert copy == rubbish
    assert dataset.read_chunk((0, 0)) == (0, rubbish)
    with new.h5py() as file:
        assert file["d"].id.read_direct_chunk((0, 0)) == (0, rubbish)
        with pytest.raises(OSError, match="filter"):
            file["d"][0, 0]


@pytest.mark.parametrize("size", [1, 7, 95, 96, 97, 100_000])
def test_rfc_3_2_any_size_that_is_not_zero(new: Any, size: int) -> None:
    dataset = make(new)
    dataset.write_chunk((0, 4), bytes(range(256)) * (size // 256) + bytes(range(size % 256)))
    with new.h5py() as file:
        assert file["d"].id.get_chunk_info(0).size == size


def test_a_size_that_the_index_of_newer_files_cannot_say_is_an_error_at_once(tmp_path: Path) -> None:
    with hyperchunk.File(tmp_path / "a.h5", "w", libver="v110") as file:
        dataset = file.create_dataset("d", (12, 8), "<i4", chunks=(6, 4), compression="gzip")
        with pytest.raises(hyperchunk.exceptions.LimitError, match="65536"):
            dataset.write_chunk((0, 0), bytes(65536))
        dataset.write_chunk((0, 0), bytes(65535))


def test_rfc_3_2_no_bytes_are_an_error(new: Any) -> None:
    with pytest.raises(ValueError, match="without bytes"):
        make(new).write_chunk((0, 0), b"")


def test_rfc_3_2_the_buffer_is_free_on_return(new: Any) -> None:
    dataset = make(new, compression=None, shuffle=False)
    buffer = np.empty((6, 4), "<i4")
    for at, row in enumerate((0, 6)):
        buffer[:] = RAW + at
        dataset.write_chunk((row, 0), buffer)
        buffer[:] = -1
    with new.h5py() as file:
        assert np.array_equal(file["d"][:, :4], np.concatenate([RAW, RAW + 1]))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, "u1")])
def test_rfc_3_2_any_contiguous_memory(new: Any, kind: Any) -> None:
    make(new).write_chunk([0, 0], kind(zlib.compress(shuffled(RAW))))
    with new.h5py() as file:
        assert np.array_equal(file["d"][:6, :4], RAW)


def test_rfc_3_2_memory_that_is_not_contiguous_is_an_error(new: Any) -> None:
    with pytest.raises((BufferError, ValueError)):
        make(new).write_chunk((0, 0), np.zeros((6, 8), "<i4")[:, ::2])


def test_rfc_3_2_partial_edge_chunks_are_whole_chunks(new: Any) -> None:
    dataset = new.file.create_dataset("d", (8, 5), "<i4", chunks=(6, 4), compression="gzip", shuffle=True)
    for row in (0, 6):
        for column in (0, 4):
            dataset.write_chunk((row, column), zlib.compress(shuffled(RAW)))
    with new.h5py() as file:
        assert np.array_equal(file["d"][6:, 4:], RAW[:2, :1])
        assert np.array_equal(file["d"][:6, :4], RAW)


@pytest.mark.parametrize("flush", [False, True], ids=["before", "after a flush"])
@pytest.mark.parametrize("level", [9, 0, 6], ids=["smaller", "larger", "the same"])
def test_rfc_3_2_chunks_are_written_over(new: Any, level: int, flush: bool) -> None:
    dataset = make(new, shuffle=False)
    dataset.write_chunk((0, 0), zlib.compress(RAW.tobytes(), 6))
    dataset.write_chunk((6, 4), zlib.compress(RAW.tobytes(), 6))
    if flush:
        new.file.flush()
    again = zlib.compress((RAW[::-1] if level == 6 else RAW * 0 if level == 9 else RAW).tobytes(), level)
    dataset.write_chunk((0, 0), again)
    assert dataset.read_chunk((0, 0)) == (0, again)
    with new.h5py() as file:
        assert file["d"].id.read_direct_chunk((0, 0)) == (0, again)
        assert file["d"].id.get_num_chunks() == 2
        assert np.array_equal(file["d"][6:, 4:], RAW)


def test_rfc_3_2_space_of_what_was_written_over_is_used_again(new: Any) -> None:
    dataset = new.file.create_dataset("d", (4, 100_000), "u1", chunks=(1, 100_000), compression=1)
    for size in [10_000, 30_000, 20_000] * 20:
        for row in range(4):
            dataset.write_chunk((row, 0), b"x" * size)
    new.close()
    assert new.path.stat().st_size < 3 * 4 * 30_000


@pytest.mark.parametrize("offset", [(1, 0), (0, 2), (6, 5), (12, 0), (0, 8), (0,), (0, 0, 0), (-6, 0)])
def test_rfc_3_2_offsets_are_validated(new: Any, offset: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        make(new).write_chunk(offset, b"x")


def test_rfc_3_2_a_chunk_is_made_on_first_use(new: Any) -> None:
    dataset = make(new)
    with pytest.raises(KeyError, match="never written"):
        dataset.read_chunk((6, 0))
    dataset.write_chunk((6, 0), zlib.compress(shuffled(RAW)))
    assert dataset.read_chunk((6, 0))[0] == 0
    with new.h5py() as file:
        assert file["d"].id.get_num_chunks() == 1


def test_rfc_3_2_only_chunked_datasets(new: Any) -> None:
    with pytest.raises(ValueError, match="not stored in chunks"):
        new.file.create_dataset("d", (4,), "i4").write_chunk((0,), b"1234")


def test_rfc_read_chunk_mirrors_write_chunk(new: Any) -> None:
    dataset = make(new)
    chunk = zlib.compress(RAW.tobytes())
    dataset.write_chunk((6, 4), chunk, 1)
    assert dataset.read_chunk((6, 4)) == (1, chunk)
    dataset[:6, :4] = RAW
    mask, stored = dataset.read_chunk((0, 0))
    assert mask == 0
    assert zlib.decompress(stored) == shuffled(RAW)
    new.close()
    with hyperchunk.File(new.path) as file:
        assert file["d"].read_chunk((6, 4)) == (1, chunk)
        with pytest.raises(KeyError):
            file["d"].read_chunk((0, 4))
        with pytest.raises(ValueError):
            file["d"].read_chunk((1, 4))


def test_rfc_direct_and_ordinary_writes_mix(new: Any) -> None:
    dataset = make(new)
    dataset[2, 3] = 7
    dataset.write_chunk((0, 0), zlib.compress(shuffled(RAW)))
    assert np.array_equal(dataset[:6, :4], RAW)
    dataset[2, 3] = -7
    expected = RAW.copy()
    expected[2, 3] = -7
    with new.h5py() as file:
        assert np.array_equal(file["d"][:6, :4], expected)


def test_rfc_growing_datasets(new: Any) -> None:
    dataset = new.file.create_dataset("d", (0, 4), "<i4", chunks=(6, 4), maxshape=(None, 4))
    for frame in range(5):
        dataset.resize(6 * (frame + 1), axis=0)
        dataset.write_chunk((6 * frame, 0), RAW + frame)
    with new.h5py() as file:
        assert np.array_equal(file["d"][...], np.concatenate([RAW + frame for frame in range(5)]))


def test_many_chunks_at_once(new: Any) -> None:
    dataset = new.file.create_dataset("d", (1000, 8), "<i2", chunks=(1, 8), compression=1)
    frames = np.arange(8000, dtype="<i2").reshape(1000, 8)
    dataset.write_chunks(((row, 0), zlib.compress(frames[row].tobytes())) for row in range(0, 1000, 2))
    dataset.write_chunks([((row, 0), frames[row], 1) for row in range(1, 1000, 2)])
    with pytest.raises(ValueError):
        dataset.write_chunks([((0, 0), b"x"), ((0, 1), b"x")])
    with new.h5py() as file:
        assert np.array_equal(file["d"][...], frames)


def test_many_chunks_of_one_buffer(new: Any) -> None:
    dataset = new.file.create_dataset("d", (1000, 8), "<i2", chunks=(1, 8), compression=1)
    frames = np.arange(8000, dtype="<i2").reshape(1000, 8)
    offsets = np.stack([np.arange(1000), np.zeros(1000, int)], axis=1)
    # Uncompressed, from one array; compressed, from a list; compressed, contiguous.
    dataset.write_chunks(offsets[:300], frames[:300], filter_masks=1)
    deflated = [zlib.compress(frame.tobytes()) for frame in frames]
    dataset.write_chunks(offsets[300:600].tolist(), deflated[300:600])
    sizes = [len(chunk) for chunk in deflated[600:]]
    dataset.write_chunks(offsets[600:].astype("<u2"), b"".join(deflated[600:]), sizes=sizes)
    masked = np.array([1, 0])
    dataset.write_chunks(offsets[:2], [frames[0], deflated[1]], filter_masks=masked)
    assert dataset.read_chunk((0, 0))[0] == 1
    assert dataset.read_chunk((1, 0))[0] == 0
    dataset.write_chunks(offsets[:0], b"")
    for bad in (
        lambda: dataset.write_chunks(offsets[:2], [b"x"]),
        lambda: dataset.write_chunks(offsets[:2], b"xyz"),
        lambda: dataset.write_chunks(offsets[:2], b"xyz", sizes=[1, 1]),
        lambda: dataset.write_chunks(offsets[:2], b"xyz", sizes=[1, 2, 3]),
        lambda: dataset.write_chunks(offsets[:2, :1], b"xy"),
        lambda: dataset.write_chunks(offsets[0], b"xy"),
        lambda: dataset.write_chunks(-offsets[1:3], b"xy"),
        lambda: dataset.write_chunks(offsets[:2], b"xy", filter_masks=1 << 32),
        lambda: dataset.write_chunks(offsets[:2], b"xy", filter_masks=[1, 2, 3]),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError):
        dataset.write_chunks([((0, 0), b"x")], sizes=[1])
    with pytest.raises(TypeError):
        dataset.write_chunks(offsets[:2] * 1.0, b"xy")
    line = new.file.create_dataset("line", (12,), "<i4", chunks=(4,))
    line.write_chunks(np.arange(0, 12, 4), np.arange(12, dtype="<i4"))
    with new.h5py() as file:
        assert np.array_equal(file["d"][...], frames)
        assert np.array_equal(file["line"][...], np.arange(12))


def test_chunks_from_many_threads(new: Any) -> None:
    dataset = new.file.create_dataset("d", (64, 1000), "<i4", chunks=(1, 1000), compression=1)
    frames = np.arange(64_000, dtype="<i4").reshape(64, 1000)

    def work(start: int) -> None:
        for row in range(start, 64, 4):
            dataset.write_chunk((row, 0), zlib.compress(frames[row].tobytes()))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with new.h5py() as file:
        assert np.array_equal(file["d"][...], frames)


def test_h5py_writes_the_same_chunks(new: Any, tmp_path: Path) -> None:
    chunk = zlib.compress(shuffled(RAW))
    make(new).write_chunk((6, 0), chunk)
    with h5py.File(tmp_path / "control.h5", "w") as control:
        dataset = control.create_dataset("d", (12, 8), "<i4", chunks=(6, 4), compression="gzip", shuffle=True)
        dataset.id.write_direct_chunk((6, 0), chunk)
        with new.h5py() as file:
            assert np.array_equal(file["d"][...], dataset[...])
            assert file["d"].id.get_chunk_info(0).size == dataset.id.get_chunk_info(0).size
