"""``Dataset.cuda()`` of live datasets: results of kernels stay on the GPU, bit-identical to a read.

The test driver counts bus transfers and freed memory.
"""

import ctypes
import gc
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import HAS_NVRTC, LISTING_5, NDVI, OUT, REGIONS, attach_endless
from hyperchunk import _core
from hyperchunk.cuda import CudaArray
from hyperchunk.exceptions import HyperchunkError, LimitError, RefusedError, UdfError
from people import Person
from programs import ndvi
from test_cuda import Counts, Managed, counts, elements, pointer
from test_cuda_stored import DEFLATE, kernel, two_inputs

pytestmark = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")

#: The driver's settings, by number.
MEMORY, EXPORTS = 1, 7
#: More bytes than a worker copies from its GPU in the trial before its lock-down, and than the tables of box
#: positions.
LITTLE = 60_000


class Bus:
    """Bus transfers of this process and of workers, if the driver is the test driver."""

    def __init__(self, driver: Path | None, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def here(self) -> Counts:
        assert self.driver is not None
        return counts(self.driver)

    def workers(self) -> list[Counts]:
        """Returns the counters of each worker, oldest first."""
        paths = sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime)
        return [Counts.from_buffer_copy(path.read_bytes()) for path in paths]

    def set(self, knob: int, value: int) -> None:
        ctypes.CDLL(str(self.driver)).hyperchunk_fake_set(ctypes.c_uint32(knob), ctypes.c_uint64(value))


@pytest.fixture
def bus(gpu: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    folder = tmp_path / "counts"
    folder.mkdir()
    if not gpu:
        yield Bus(None, folder)
        return
    # The driver of this process starts first: the folder is for workers.
    hyperchunk.cuda.devices()
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA_COUNTS", str(folder))
    bus = Bus(Path(gpu["HYPERCHUNK_CUDA_DRIVER"]), folder)
    yield bus
    bus.set(MEMORY, 1 << 30)
    bus.set(EXPORTS, 1)
    assert bus.here().mistakes == 0
    assert sum(found.mistakes for found in bus.workers()) == 0


def check(file: Path, name: str, selection: Any = ..., host_fallback_reason: str | None = None) -> CudaArray:
    """Checks that the array on the GPU equals a read, and how it was transferred."""
    with hyperchunk.open(file) as opened:
        found, expected = opened[name].cuda(selection), opened[name][selection]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.to_numpy().tobytes() == expected.tobytes()
    if host_fallback_reason is None:
        assert found.host_fallback_reason is None
        assert found.report is not None
        assert found.report.computed > 0
    else:
        assert found.report is None
        assert re.search(host_fallback_reason, found.host_fallback_reason or ""), found.host_fallback_reason
    return found


BOXES = [..., (), np.s_[3:20], np.s_[5], np.s_[5, 7], np.s_[:, 39:], np.s_[29:30, 1:33], np.s_[8:9, 8:9]]


@pytest.mark.parametrize("text", [NDVI, LISTING_5], ids=["alone", "listing 5"])
@pytest.mark.parametrize("chunks", [None, "auto", "7x8", "1x40", "30x7"])
def test_blocks_and_boxes(text: str, chunks: str | None, scene: Any, attach: Any, bus: Bus) -> None:
    file = scene()
    attach(file, "cu", text, chunks=chunks)
    name = "NDVI"
    for selection in BOXES:
        check(file, name, selection)
    # A selection that is not a box is computed as usual.
    check(file, name, np.s_[::7], host_fallback_reason="not a box")
    check(file, name, np.s_[[1, 4, 20], 5:9], host_fallback_reason="not a box")
    with hyperchunk.open(file) as opened:
        assert opened[name].cuda(np.s_[3:3]).shape == (0, 40)


TYPES = ["char", "uint8_t", "short", "uint16_t", "int", "uint32_t", "int64_t", "uint64_t", "float", "double"]


@pytest.mark.parametrize("c_type", TYPES)
def test_types(c_type: str, tmp_path: Path, attach: Any, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    name = {"char": "int8", "short": "int16", "int": "int32"}.get(c_type, c_type.removesuffix("_t"))
    numpy_name = {"float": "float32", "double": "float64"}.get(name, name)
    with h5py.File(file, "w") as opened:
        for dataset in ("a", "b"):
            opened[dataset] = (np.arange(1200) % 120).reshape(30, 40).astype(numpy_name)
    attach(file, "cu", kernel("out", c_type=c_type), f"out:30x40:{name}", chunks="16x32")
    check(file, "out")
    check(file, "out", np.s_[7:25, 30:])


def test_neighbours_with_a_halo(tmp_path: Path, attach: Any, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["image"] = np.random.default_rng(3).random((60, 80), dtype="f4")
    attach(file, "cu", REGIONS, "smooth:60x80:float", chunks="16x80", halo=1)
    check(file, "smooth", np.s_[10:50, 3:])


def test_the_result_never_leaves_the_gpu(tmp_path: Path, attach: Any, fake_cuda: Path, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    a, b = two_inputs(file)
    attach(file, "cu", kernel("out"), "out:300x200:float", chunks="64x48")
    before = bus.here()
    with hyperchunk.open(file) as opened:
        found = opened["out"].cuda()
    after = bus.here()
    assert after.down == before.down
    assert after.up - before.up < LITTLE
    [worker] = bus.workers()
    assert worker.down < LITTLE < a.nbytes
    # The worker's trial and its loan; both were released, in both processes.
    assert (worker.imported, worker.shared, after.shared, after.created - before.created) == (2, 0, 0, 1)
    assert found.report is not None
    assert found.report.computed == 25
    np.testing.assert_array_equal(found.to_numpy(), 3 * a + b)
    # Another array by the same worker, and an ordinary read by any worker.
    check(file, "out")
    workers = bus.workers()
    assert sum(worker.imported for worker in workers) == len(workers) + 2
    assert sum(worker.shared for worker in workers) == 0


def test_memory_lives_as_long_as_somebody_has_it(tmp_path: Path, attach: Any, fake_cuda: Path, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    a, b = two_inputs(file)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    gc.collect()
    before = bus.here()
    with hyperchunk.open(file) as opened:
        array = opened["out"].cuda()
    assert bus.here().allocations == before.allocations + 1
    capsule = array.__dlpack__()
    tensor = Managed.from_address(pointer(capsule, b"dltensor")).tensor
    assert tensor.data == array.__cuda_array_interface__["data"][0]
    assert array.__dlpack_device__() == (2, 0)
    # The worker is gone, but the array is still valid.
    for pid in _core.idle_workers():
        os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(elements(tensor), 3 * a + b)
    del capsule
    gc.collect()
    assert bus.here().allocations == before.allocations + 1
    del array
    gc.collect()
    after = bus.here()
    assert (after.allocations, after.bytes, after.shared) == (before.allocations, before.bytes, before.shared)


@pytest.mark.parametrize(
    ("knobs", "why"),
    [("exports=0", "cannot be shared"), ("fail_import=1", "NOT_SUPPORTED"), ("fail_import=2", "NOT_SUPPORTED")],
)
def test_workers_that_cannot_take_memory(
    knobs: str, why: str, scene: Any, attach: Any, fake_cuda: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene()
    attach(file, "cu", NDVI, chunks="7x8")
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", knobs)
    check(file, "NDVI", host_fallback_reason=why)
    assert sum(worker.shared for worker in bus.workers()) == 0


def test_a_worker_that_ends_when_it_takes_memory(
    scene: Any, attach: Any, fake_cuda: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates the sandbox stopping a driver that makes a denied system call."""
    file = scene()
    attach(file, "cu", NDVI)
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", "die_import=2")
    check(file, "NDVI", host_fallback_reason="signal|ended|abort")
    assert bus.here().shared == 0


def test_a_gpu_whose_memory_cannot_be_shared(scene: Any, attach: Any, fake_cuda: Path, bus: Bus) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    bus.set(EXPORTS, 0)
    check(file, "NDVI", host_fallback_reason="cannot be shared between processes")


def test_a_worker_that_dies_in_the_middle(
    scene: Any, attach: Any, fake_cuda: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene()
    attach(file, "cu", NDVI, chunks="7x8")
    with hyperchunk.open(file) as opened:
        # The first array of a process takes memory that stays.
        opened["Red"].cuda()
    gc.collect()
    before = bus.here()
    # One launch is the worker's trial.
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", "die=4")
    with hyperchunk.open(file) as opened, pytest.raises(HyperchunkError, match=r"s2.h5:/?NDVI") as caught:
        opened["NDVI"].cuda()
    assert "signal" in str(caught.value) or "ended" in str(caught.value)
    del caught
    gc.collect()
    after = bus.here()
    assert (after.allocations, after.bytes, after.shared) == (before.allocations, before.bytes, 0)


def test_a_kernel_that_goes_wrong(tmp_path: Path, attach: Any, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    two_inputs(file)
    attach(file, "cu", kernel("out", "a[i + (size_t) 1000000000000]"), "out:300x200:float")
    with hyperchunk.open(file) as opened, pytest.raises(UdfError, match=r"out.*CUDA_ERROR_ILLEGAL_ADDRESS"):
        opened["out"].cuda()
    # The fault was an error of the kernel.
    for path in bus.folder.iterdir():
        path.unlink()


def test_too_little_memory_of_the_gpu(tmp_path: Path, attach: Any, fake_cuda: Path, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    a, _ = two_inputs(file)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    gc.collect()
    used = bus.here().bytes
    with hyperchunk.open(file) as opened:
        # Memory for the array, and for the block that becomes it.
        for room in (1000, a.nbytes + 1000):
            bus.set(MEMORY, used + room)
            with pytest.raises(LimitError, match=r"/out: .*bytes on the GPU"):
                opened["out"].cuda()
        bus.set(MEMORY, 1 << 30)
        assert opened["out"].cuda().report is not None
    gc.collect()
    assert bus.here().bytes == used


@pytest.mark.parametrize("language", ["lua", "cpp", "py"])
def test_other_languages_compute_here(language: str, scene: Any, attach: Any, bus: Bus) -> None:
    file = scene()
    attach(file, language, ndvi(language), chunks="auto")
    for selection in (..., np.s_[3:9, 5:]):
        check(file, "NDVI", selection, host_fallback_reason="which computes on the processor")


def test_expressions_compute_here(scene: Any, bus: Bus) -> None:
    file = scene()
    hyperchunk.udf.attach(file, expression="Red + NIR", outputs="sum")
    check(file, "sum", host_fallback_reason="in expression, which computes on the processor")


def test_strangers_get_nothing_there(ada: Person, adas: Any, bus: Bus) -> None:
    file = adas("cu", OUT, "out:4:uint8")
    with hyperchunk.open(file) as opened, pytest.raises(RefusedError, match="profile untrusted does not run cuda"):
        opened["out"].cuda()
    assert bus.workers() == []


def test_refusals_are_those_of_reading(scene: Any, attach: Any, bus: Bus, profile: Any) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    for granted in ("[grant]\ngpu = false", '[grant]\ngpu = true\n[allow]\nlanguages = ["lua"]'):
        profile("self", granted)
        told = []
        with hyperchunk.open(file) as opened:
            for read in (lambda dataset: dataset[...], lambda dataset: dataset.cuda()):
                with pytest.raises(HyperchunkError) as caught:
                    read(opened["NDVI"])
                told.append((caught.type, str(caught.value)))
        assert told[0] == told[1]
    assert bus.workers() == []


def test_decoding_takes_its_memory_once(tmp_path: Path, attach: Any, fake_cuda: Path, bus: Bus) -> None:
    """Inputs are decoded on the GPU for each block; memory for that is allocated only once."""
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **DEFLATE)
    attach(file, "cu", kernel("out"), "out:300x200:float", chunks="64x48")
    taken = []
    for _ in range(3):
        with hyperchunk.open(file) as opened:
            np.testing.assert_array_equal(opened["out"].cuda().to_numpy(), 3 * a + b)
        [worker] = bus.workers()
        taken.append(worker.taken)
        assert worker.decompressed > 25
    # Another whole read allocates no more.
    assert taken[1] == taken[2]
    assert taken[1] - taken[0] <= 2


def test_any_amount_of_memory_gives_the_values_or_an_error(
    tmp_path: Path, attach: Any, fake_cuda: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too little memory, cached buffers are freed first, then decoding moves to the host; then an error names the
    size.
    """
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **DEFLATE)
    attach(file, "cu", kernel("out"), "out:300x200:float")
    check(file, "out")
    most = max(worker.peak for worker in bus.workers())
    told = []
    for memory in range(most - 1, 2 * a.nbytes - 300_000, -60_000):
        monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", f"memory={memory}")
        # New workers, with this memory limit.
        for pid in _core.idle_workers():
            os.kill(pid, signal.SIGKILL)
        with hyperchunk.open(file) as opened:
            try:
                found = opened["out"].cuda()
            except UdfError as error:
                told.append(str(error))
            else:
                np.testing.assert_array_equal(found.to_numpy(), 3 * a + b)
    assert told
    assert all("bytes on the GPU for" in text for text in told)


def test_what_is_converted_and_what_is_kept(tmp_path: Path, attach: Any, bus: Bus, config: Path) -> None:
    file = tmp_path / "a.h5"
    two_inputs(file)
    text = "__global__ void k(const float *a, bool *large, size_t count) {\n"
    text += "size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; if (i < count) large[i] = a[i] > 50; }"
    attach(file, "cu", text, "large:300x200:bool")
    check(file, "large", host_fallback_reason="converted")
    attach(file, "cu", kernel("out"), "out:300x200:float")
    (config / "hyperchunk" / "cache.toml").write_text("version = 1\nenabled = true\n")
    check(file, "out", host_fallback_reason="its results are cached")


def test_many_threads_at_once(tmp_path: Path, attach: Any, bus: Bus) -> None:
    file = tmp_path / "a.h5"
    a, b = two_inputs(file, **DEFLATE)
    attach(file, "cu", kernel("out"), "out:300x200:float", chunks="64x48")
    with hyperchunk.open(file) as opened, ThreadPoolExecutor(4) as threads:
        boxes = [np.s_[n * 20 : n * 20 + 70, n * 9 :] for n in range(12)]
        for box, found in zip(boxes, threads.map(lambda box: opened["out"].cuda(box), boxes), strict=True):
            np.testing.assert_array_equal(found.to_numpy(), (3 * a + b)[box])
            assert found.host_fallback_reason is None


def test_a_kernel_that_does_not_end(tmp_path: Path, attach: Any, bus: Bus, profile: Any) -> None:
    file = tmp_path / "a.h5"
    attach_endless(file, attach, profile)
    with hyperchunk.open(file) as opened, pytest.raises(LimitError, match="longer than the limit of 2 s"):
        opened["out"].cuda()
    if bus.driver:
        assert bus.here().shared == 0
