"""Inputs of kernels that go to the GPU in their stored form.

Values are those of C++, and the test driver counts its decompressions.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import HAS_NVRTC, REGIONS, SMOOTH_CPP
from fresh import failure, read
from programs import elementwise
from test_cuda import Counts

pytestmark = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")

SHAPE = (300, 200)
# Before its lock-down, a worker decompresses two pieces in each format on the GPU.
TRIED = 8


class Workers:
    """Workers started since the last check, and the counters of their drivers, if these are the test driver."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def check(self, *, inputs: bool | None, up: float = math.inf, tried: int = TRIED) -> None:
        """Checks the new workers: inputs were decompressed, and fewer than `up` bytes crossed the bus."""
        if self.folder is None:
            return
        paths = sorted(self.folder.iterdir())
        found = [Counts.from_buffer_copy(path.read_bytes()) for path in paths]
        for path in paths:
            path.unlink()
        assert found
        assert sum(counts.mistakes for counts in found) == 0
        decompressed = sum(counts.decompressed - tried for counts in found)
        assert decompressed >= 0
        assert inputs is None or inputs == (decompressed > 0), decompressed
        assert sum(counts.up for counts in found) < up


@pytest.fixture
def workers(gpu: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Workers with a GPU and nvCOMP."""
    if not gpu:
        return Workers(None)
    folder = tmp_path / "counts"
    folder.mkdir()
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA_COUNTS", str(folder))
    return Workers(folder)


def kernel(output: str, expression: str = "3 * a[i] + b[i]", c_type: str = "float") -> str:
    """Returns a kernel that computes one output element from one element of each input."""
    return f"""__global__ void k(const {c_type} *a, const {c_type} *b, {c_type} *{output}, size_t count)
{{
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    if (i < count) {output}[i] = {expression};
}}"""


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> tuple[np.ndarray, np.ndarray]:
    """Returns compressible values."""
    a = np.arange(np.prod(shape)).reshape(shape) % 1000 // 7
    return a.astype(dtype), a[::-1].astype(dtype)


def two_inputs(file: Path, **stored: Any) -> tuple[np.ndarray, np.ndarray]:
    """Makes a file with the datasets `a` and `b`, and returns their values."""
    a, b = values("<f4")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, **stored)
        opened.create_dataset("b", data=b, **stored)
    return a, b


def own(file: Path, name: str) -> np.ndarray:
    """Reads with our own reader."""
    with hyperchunk.open(file) as opened:
        found: np.ndarray = opened[name][...]
    return found


READERS: dict[str, Callable[[Path, str], np.ndarray]] = {"libhdf5": read, "hyperchunk": own}
DEFLATE = {"chunks": (64, 48), "compression": "gzip"}
STORED = {
    "deflate": DEFLATE,
    "shuffle and deflate": DEFLATE | {"shuffle": True},
    "fletcher32": DEFLATE | {"shuffle": True, "fletcher32": True},
    "snappy": {"chunks": (64, 48), "compression": 32003},
    "snappy and shuffle": {"chunks": (50, 200), "compression": 32003, "shuffle": True},
}


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("how", STORED)
def test_compressed_inputs(how: str, dtype: str, tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    a, b = values(dtype)
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, **STORED[how])
        opened.create_dataset("b", data=b, **STORED[how])
    attach(file, "cpp", elementwise("cpp", "3 * a[i] + b[i]", "C", ["a", "b"], "float"), "C:300x200:float")
    expected = read(file, "C")
    rows = STORED[how]["chunks"][0]
    for name, chunks in {"whole": None, "rows": f"{rows}x200", "blocks": "64x48", "askew": "60x70"}.items():
        # A worker started by one reader may also serve the other, so each uses its own function.
        for reader, read_with in READERS.items():
            output = f"{name}_{reader}"
            attach(file, "cu", kernel(output), f"{output}:300x200:float", chunks=chunks)
            np.testing.assert_array_equal(read_with(file, output), expected)
            # Misaligned blocks need chunks with more elements than their own, and hardly anything is compressed. For
            # other blocks, fewer bytes than the elements cross the bus.
            few = a.nbytes + b.nbytes if name in ("whole", "rows") else math.inf
            workers.check(inputs=None if name == "askew" else True, up=few)


def test_other_formats(tmp_path: Path, attach: Any, workers: Workers) -> None:
    """Formats that h5py does not write."""
    file = tmp_path / "a.h5"
    a, b = values("<i4")
    for filters in ([2, 32004], [2, 32015], [32004, 3], [2]):
        with hyperchunk.open(file, "w") as opened:
            opened.create_dataset("a", data=a, chunks=(64, 48), filters=filters)
            opened.create_dataset("b", data=b, chunks=(64, 48), filters=filters)
        attach(file, "cu", kernel("out", c_type="int"), "out:300x200:int32")
        np.testing.assert_array_equal(own(file, "out"), 3 * a + b)
        workers.check(inputs=filters != [2])


@pytest.mark.parametrize("reader", READERS)
def test_without_nvcomp(
    reader: str, tmp_path: Path, attach: Any, fake_cuda: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without nvCOMP the reader decodes, with the same values; uncompressed chunks still go in their stored form."""
    monkeypatch.delenv("HYPERCHUNK_NVCOMP")
    file = tmp_path / "a.h5"
    a, b = values("<i4")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, **DEFLATE)
        opened.create_dataset("b", data=b.astype(">i4"), chunks=(64, 48), shuffle=True, fletcher32=True)
    attach(file, "cu", kernel("out", c_type="int"), "out:300x200:int32")
    np.testing.assert_array_equal(READERS[reader](file, "out"), 3 * a + b)
    workers.check(inputs=False, tried=0)


@pytest.mark.parametrize("reader", READERS)
def test_other_filters_are_the_readers(reader: str, tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    a, b = values("<i4")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, chunks=(64, 48), compression="lzf")
        opened.create_dataset("b", data=b.astype("<i2"), chunks=(64, 48), scaleoffset=0)
    text = kernel("out", c_type="int").replace("const int *b", "const short *b")
    attach(file, "cu", text, "out:300x200:int32")
    np.testing.assert_array_equal(READERS[reader](file, "out"), 3 * a + b)
    workers.check(inputs=False, tried=0)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("dtype", ["<f8", ">f8"])
def test_chunks_that_were_never_written(dtype: str, reader: str, tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        a = opened.create_dataset("a", SHAPE, dtype, fillvalue=2.5, **DEFLATE)
        a[100:150] = 4
        opened.create_dataset("b", data=np.ones(SHAPE, dtype), **DEFLATE)
        expected = 3 * a[...] + 1
    attach(file, "cu", kernel("out", c_type="double"), "out:300x200:double", chunks="150x200")
    np.testing.assert_array_equal(READERS[reader](file, "out"), expected)
    workers.check(inputs=True)


@pytest.mark.parametrize("reader", READERS)
def test_an_input_that_every_block_sees_whole(reader: str, tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    a = np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE) // 50
    table = np.arange(5000, dtype="i4") % 100
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, **DEFLATE)
        opened.create_dataset("table", data=table, chunks=(700,), compression="gzip")
    text = kernel("out", "table[a[i] % 5000]", "int").replace("const int *b", "const int *table")
    attach(file, "cu", text, "out:300x200:int32", chunks="64x200")
    np.testing.assert_array_equal(READERS[reader](file, "out"), table[a % 5000])
    workers.check(inputs=True)


def test_neighbours_with_a_halo(tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("image", data=values("<f4", (60, 80))[0], chunks=(16, 80), compression="gzip")
    attach(file, "cpp", SMOOTH_CPP, "C:60x80:float")
    attach(file, "cu", REGIONS, "smooth:60x80:float", chunks="16x80", halo=1)
    for read_with in READERS.values():
        np.testing.assert_array_equal(read_with(file, "smooth"), read(file, "C"))
        workers.check(inputs=None)


def test_chunks_that_are_not_in_the_file_yet(tmp_path: Path, attach: Any, workers: Workers) -> None:
    """A writing program sees its own unflushed writes."""
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **DEFLATE)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    with h5py.File(file, "r+") as opened:
        np.testing.assert_array_equal(opened["out"][...], 3 * a + b)
        opened["a"][70:90] = 5
        a[70:90] = 5
        np.testing.assert_array_equal(opened["out"][...], 3 * a + b)
    workers.check(inputs=True)


@contextlib.contextmanager
def spoiled(file: Path, name: str) -> Iterator[None]:
    """Damages one chunk of a file."""
    with h5py.File(file) as opened:
        info = opened[name].id.get_chunk_info(3)
    data = file.read_bytes()
    damaged = bytearray(data)
    damaged[info.byte_offset + 20 : info.byte_offset + 40] = b"\xff" * 20
    file.write_bytes(damaged)
    yield
    file.write_bytes(data)


@pytest.mark.parametrize("how", ["deflate", "fletcher32", "snappy and shuffle"])
def test_damage_is_the_error_of_reading_it(how: str, tmp_path: Path, attach: Any, workers: Workers) -> None:
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **STORED[how])
    attach(file, "cpp", elementwise("cpp", "3 * a[i] + b[i]", "C", ["a", "b"], "float"), "C:300x200:float")
    attach(file, "cu", kernel("out"), "out:300x200:float")
    with spoiled(file, "b"):
        assert 'input "b"' in failure(file, "out")
        with hyperchunk.open(file) as opened:
            found = []
            for name in ("C", "out"):
                with pytest.raises(hyperchunk.exceptions.HyperchunkError, match='input "b"') as caught:
                    opened[name][...]
                found.append(caught.type)
            assert found[0] is found[1]
    for read_with in READERS.values():
        np.testing.assert_array_equal(read_with(file, "out"), 3 * a + b)


def test_too_little_memory_for_it_is_none_too_little(
    tmp_path: Path, attach: Any, fake_cuda: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If decoding on the GPU needs too much memory, decoded elements go there instead."""
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **DEFLATE)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", f"memory={3 * a.nbytes + 70_000}")
    for read_with in READERS.values():
        np.testing.assert_array_equal(read_with(file, "out"), 3 * a + b)


def test_the_drivers_threads_are_contained(
    tmp_path: Path, attach: Any, fake_cuda: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that exist before the worker's lock-down get no capabilities, and the same filter."""
    file = tmp_path / "a.h5"
    a, b = two_inputs(file)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", "threads=2")
    np.testing.assert_array_equal(own(file, "out"), 3 * a + b)
    assert workers.folder is not None
    [worker] = [Path("/proc") / path.name for path in workers.folder.iterdir()]
    statuses = [path.read_text() for path in worker.glob("task/*/status")]
    assert len(statuses) == 3
    for status in statuses:
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        held = {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}
        assert (held, fields["NoNewPrivs"], fields["Seccomp"]) == ({0}, "1", "2")
