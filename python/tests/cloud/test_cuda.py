"""Datasets in object stores read to a GPU: their chunks go there as they were fetched."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from cuda_programs import HAS_NVRTC, NDVI
from hyperchunk.exceptions import FilterError

pytestmark = pytest.mark.usefixtures("cuda")

CHUNKED = {"chunks": (50, 60)}
STORED: dict[str, dict[str, Any]] = {
    "plain": CHUNKED,
    "deflate": CHUNKED | {"compression": "gzip", "shuffle": True},
    "snappy": CHUNKED | {"compression": 32003},
    "lzf": CHUNKED | {"compression": "lzf"},
    "sparse": CHUNKED | {"compression": "gzip", "fillvalue": 7},
    "contiguous": {},
}


def values(dtype: str) -> np.ndarray:
    return (np.arange(300 * 200).reshape(300, 200) % 3000 // 11).astype(dtype)


@pytest.fixture
def made(server: s3server.Server, tmp_path: Path) -> Path:
    """A file in the bucket, ``f.h5``, with a dataset of each kind; and its local copy."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        for dtype in ("<i4", ">f8"):
            for name, options in STORED.items():
                dataset = file.create_dataset(f"{name} {dtype[1:]}", (300, 200), dtype, **options)
                dataset[40:] = values(dtype)[40:]
                if name != "sparse":
                    dataset[:40] = values(dtype)[:40]
    server.put("tests", "f.h5", path)
    return path


def test_values(made: Path, open_s3: Callable[..., hyperchunk.File]) -> None:
    file = open_s3("f.h5")
    with h5py.File(made) as local:
        for name in local:
            for selection in (..., np.s_[10:120, 55:], np.s_[5], np.s_[::3, 7]):
                expected = local[name][selection]
                found = file[name].cuda(selection)
                assert found.dtype == expected.dtype.newbyteorder("=")
                np.testing.assert_array_equal(found.to_numpy(), expected, err_msg=f"{name} {selection}")
            report = file[name].cuda().report
            kind = name.split()[0]
            if kind == "contiguous":
                assert report is None
                continue
            assert report is not None
            assert (report.on_gpu > 0, report.on_cpu > 0) == (kind not in ("plain", "lzf"), kind == "lzf")


def test_what_is_fetched_is_what_is_stored(made: Path, open_s3: Callable[..., hyperchunk.File]) -> None:
    """Few requests are made, and each chunk is fetched once."""
    file = open_s3("f.h5")
    dataset = file["deflate i4"]
    dataset[0, 0]
    before = file.stats()
    report = dataset.cuda().report
    fetched = file.stats().bytes - before.bytes
    with h5py.File(made) as local:
        stored = local["deflate i4"].id.get_storage_size()
    assert report.stored == stored
    assert fetched <= 2 * stored
    assert file.stats().requests - before.requests <= 8


def test_more_than_is_fetched_at_once(
    server: s3server.Server, tmp_path: Path, open_s3: Callable[..., hyperchunk.File]
) -> None:
    """A read larger than one group is fetched group by group."""
    noise = np.random.default_rng(1).integers(0, 255, (160, 1 << 20), "u1")
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("d", data=noise, chunks=(3, 1 << 20))
    server.put("tests", "large.h5", tmp_path / "large.h5")
    array = open_s3("large.h5")["d"].cuda()
    assert np.array_equal(array.to_numpy(), noise)
    assert array.report.stored >= 160 << 20


def test_damage_is_an_error(server: s3server.Server, made: Path, open_s3: Callable[..., hyperchunk.File]) -> None:
    with h5py.File(made) as local:
        at = local["deflate i4"].id.get_chunk_info(4).byte_offset
    damaged = bytearray(made.read_bytes())
    damaged[at + 10 : at + 30] = b"\xff" * 20
    made.write_bytes(damaged)
    server.put("tests", "damaged.h5", made)
    file = open_s3("damaged.h5")
    with pytest.raises(FilterError, match=f"the chunk at byte {at}"):
        file["deflate i4"].cuda()
    np.testing.assert_array_equal(file["snappy i4"].cuda().to_numpy(), values("i4"))


def test_a_live_datasets_inputs(
    server: s3server.Server,
    tmp_path: Path,
    open_s3: Callable[..., hyperchunk.File],
    attach: Callable[..., Any],
    gpu: dict[str, str],
) -> None:
    """Chunks for kernels go to the worker as they were fetched."""
    pytest.importorskip("nvidia.cuda_nvrtc")
    path = tmp_path / "live.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=values("f4"), chunks=(50, 60), compression="gzip", shuffle=True)
    text = """__global__ void k(const float *a, float *out, size_t count)
{
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] * 2;
}"""
    attach(path, "cu", text, "out:300x200:float", chunks="100x200")
    server.put("tests", "live.h5", path)
    np.testing.assert_array_equal(open_s3("live.h5")["out"][...], values("f4") * 2)


@pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")
@pytest.mark.parametrize("chunks", [None, "7x8"])
def test_kernels_of_live_datasets(
    chunks: str | None, scene: Any, attach: Any, gpu: Any, server: s3server.Server, open_s3: Any
) -> None:
    """Kernels run locally on inputs in the object store, and the results stay on the GPU."""
    path = scene()
    attach(path, "cu", NDVI, chunks=chunks)
    server.put("tests", "live.h5", path)
    file = open_s3("live.h5")
    for selection in (..., np.s_[3:20, 5:]):
        found = file["NDVI"].cuda(selection)
        assert (found.host_fallback_reason, found.report is None) == (None, False)
        assert found.to_numpy().tobytes() == file["NDVI"][selection].tobytes()
