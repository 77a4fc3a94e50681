"""Kernels of live datasets on a driver without a GPU: `gpu/hyperchunk-cuda-fake` interprets their PTX.

Values are compared with those of C++.
"""

import base64
import re
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import (
    COMPOUNDS,
    HAS_NVRTC,
    LISTING_5,
    NDVI,
    REGIONS,
    SEVERAL,
    SMOOTH_CPP,
    TEMPLATES,
    attach_endless,
)
from fresh import HYPERCHUNK, environment, failure, read
from hostile import records
from programs import TYPES, elementwise, ndvi

pytestmark = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")


def both(file: Path, name: str, selection: Any = ...) -> Any:
    """Returns the values, the same in both readers."""
    values = read(file, name, selection)
    with hyperchunk.open(file) as own:
        np.testing.assert_array_equal(own[name][selection], values)
    return values


def same_bits(a: Any, b: Any) -> None:
    """Compares values except NaN payloads, which processors and GPUs choose freely."""
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("text", [NDVI, LISTING_5], ids=["alone", "listing 5"])
@pytest.mark.parametrize("chunks", [None, "auto", "7x8", "1x40"])
def test_ndvi_is_that_of_cpp(text: str, chunks: str | None, scene: Any, attach: Any, gpu: dict[str, str]) -> None:
    file = scene()
    attach(file, "cu", text, chunks=chunks)
    attach(file, "cpp", ndvi("cpp", "C"))
    same_bits(both(file, "NDVI"), read(file, "C"))
    same_bits(both(file, "NDVI", np.s_[3:9, 17]), read(file, "C")[3:9, 17])


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_that_of_cpp(name: str, tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    file = tmp_path / "a.h5"
    dtype, c_type = TYPES[name]
    random = np.random.default_rng(4)
    values = random.integers(1, 100, (2, 40, 30)).astype(dtype)
    with h5py.File(file, "w") as opened:
        opened["a"], opened["b"] = values
    expression = (
        "(b[i] - a[i]) / (b[i] + a[i]) + a[i] * b[i] % 7" if dtype[0] != "f" else "(b[i] - a[i]) / (b[i] + a[i]) * a[i]"
    )
    attach(file, "cpp", elementwise("cpp", expression, "C", ["a", "b"], name), f"C:40x30:{name}")
    text = f"""__global__ void k(const {c_type} *a, const {c_type} *b, {c_type} *out, size_t count)
{{
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    if (i < count) out[i] = {expression};
}}"""
    attach(file, "cu", text, f"out:40x30:{name}", chunks="13x30")
    same_bits(both(file, "out"), read(file, "C"))


@pytest.mark.parametrize("chunks", [None, "5x7"])
def test_neighbours_with_a_halo(chunks: str | None, tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["image"] = np.random.default_rng(1).random((23, 31), dtype="f4")
    attach(file, "cpp", SMOOTH_CPP, "C:23x31:float")
    attach(file, "cu", REGIONS, "smooth:23x31:float", chunks=chunks, **({"halo": 1} if chunks else {}))
    same_bits(both(file, "smooth"), read(file, "C"))


def test_several_outputs_and_names_that_are_no_identifiers(tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    file = tmp_path / "a.h5"
    values = np.arange(700, dtype="i2").reshape(7, 100)
    with h5py.File(file, "w") as opened:
        opened["bands/NIR"] = values.astype(">i2")
    records = attach(file, "cu", SEVERAL, "sum:7x100:int32", "mean:7x100:double", chunks="2x100")
    assert [r["output_dataset"] for r in records] == ["sum", "mean"]
    np.testing.assert_array_equal(both(file, "sum"), values.astype("i4") + 1_000_000)
    np.testing.assert_array_equal(both(file, "mean"), (values.astype("i4") + 1_000_000) / 2)


def test_compounds(tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    file = tmp_path / "a.h5"
    dtype = np.dtype([("Serial number", ">i4"), ("low", "f4"), ("high", "f8"), ("place", "S8")])
    rows = np.zeros(50, dtype)
    rows["Serial number"], rows["low"], rows["high"], rows["place"] = np.arange(50), 1.5, np.arange(50) * 3, b"abcdefgh"
    with h5py.File(file, "w") as opened:
        opened["Sites"] = rows
    attach(file, "cu", COMPOUNDS, "report:{id:uint32,place:string(8),mean:double}:50")
    values = both(file, "report")
    np.testing.assert_array_equal(values["id"], np.arange(50) * 2)
    np.testing.assert_array_equal(values["mean"], (rows["low"] + rows["high"]) / 2)
    assert set(values["place"]) == {b"hgfedcba"}


def test_templates_and_launches_in_order(tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    file = tmp_path / "a.h5"
    values = np.arange(1000, dtype="i4")
    with h5py.File(file, "w") as opened:
        opened["a"] = values
    attach(file, "cu", TEMPLATES, chunks="300")
    expected = 2 * (2 * values + 3) + 5
    expected[299] = 2 * values[299] + 3
    np.testing.assert_array_equal(both(file, "out"), expected)


def test_what_is_not_written_is_zero(tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    """Unwritten elements are zero, also in the second block, whose memory had values."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w"):
        pass
    text = "__global__ void k(int *out, Region out_region) { if (out_region.start[0] == 0) out[threadIdx.x % 8] = 5; }"
    attach(file, "cu", text, "out:24:int32", chunks="8")
    np.testing.assert_array_equal(both(file, "out"), [5] * 8 + [0] * 16)


def test_kernels_that_go_wrong(tmp_path: Path, attach: Any, gpu: dict[str, str]) -> None:
    """Reading values that a kernel did not finish is an error."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w"):
        pass
    attach(file, "cu", "__global__ void k(int *out) { out[threadIdx.x * 1000000] = 5; }", "out:8:int32")
    told = failure(file, "out")
    assert "CUDA_ERROR" in told or "illegal" in told.lower()


def test_without_a_gpu(
    tmp_path: Path, attach: Any, gpu: dict[str, str], fake_cuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w"):
        pass
    attach(file, "cu", "__global__ void k(int *out) { out[threadIdx.x] = 5; }", "out:8:int32")
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", "devices=0")
    told = failure(file, "out")
    assert "no GPU to run its kernels on" in told


def test_a_kernel_that_does_not_end_is_stopped(tmp_path: Path, attach: Any, gpu: dict[str, str], profile: Any) -> None:
    file = tmp_path / "a.h5"
    attach_endless(file, attach, profile)
    assert "it ran longer than the limit of 2 s (profile self, `wall_s`)" in failure(file, "out")
    with h5py.File(file, "a") as opened:
        opened["a"][...] = 1
    assert both(file, "out").tolist() == [1, 0, 0, 0]


def test_a_compiled_form_of_another_source_is_refused(
    tmp_path: Path, attach: Any, gpu: dict[str, str], config: Path
) -> None:
    """Also with the author's own signature: a kernel gets only arguments that it declares."""
    file, forged = tmp_path / "a.h5", tmp_path / "forged.h5"
    with h5py.File(file, "w"):
        pass
    first, second = "__global__ void k(int *out, int count) { out[0] = count; }", "__global__ void k(int *other) {}"
    [one] = attach(file, "cu", first, "out:4:int32")
    [other] = attach(file, "cu", second, "other:4:int32")
    seed = re.search(r"^seed (.*)$", (config / "hyperchunk" / "keys" / "self.key").read_text(), re.M)
    assert seed is not None
    key = records.Key(base64.b64decode(seed[1]))
    cases = {
        "the kernel k, with parameters of": {part: other[part] for part in ("compiled", "bytecode_size")},
        "its compiled form is for another": {"compiled": one["compiled"] | {"target": "ptx/compute_60"}},
        "which a GPU does not support": {"api_version": 6, "seed": 7},
        "the source has no kernel": {"source_code": "void k() {}"},
        "is not translated": {"source_code": first + "\nvoid dynamic_dataset() { for (;;) k<<<1, 1>>>(o); }"},
    }
    for n, (expected, changes) in enumerate(cases.items()):
        with h5py.File(forged, "a") as opened:
            header = one | changes | {"output_dataset": f"out{n}", "id": f"{n:032x}"}
            records.store(opened, records.sign(header, key))
        assert expected in failure(forged, f"out{n}"), expected


def test_too_little_memory_is_an_error(
    scene: Any, attach: Any, gpu: dict[str, str], fake_cuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    monkeypatch.setenv("HYPERCHUNK_FAKE_CUDA", "out_of_memory=3")
    told = failure(file, "NDVI")
    assert "bytes on the GPU for" in told or "no GPU to run its kernels on" in told


def test_doctor_tries_it_where_it_is_granted(gpu: dict[str, str], config: Path) -> None:
    variables = environment(config, **gpu)
    told = subprocess.run(
        [str(HYPERCHUNK), "doctor"], env=variables, capture_output=True, text=True, check=False
    ).stdout
    assert re.search(r"^self +cuda +runs, contained by .*seccomp", told, re.M), told
    assert re.search(r"^untrusted +cuda +does not run", told, re.M)


def test_live_inputs_of_live_datasets(scene: Any, attach: Any, gpu: dict[str, str]) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    text = NDVI.replace("NDVI", "twice").replace("(NIR[i] - Red[i]) / (NIR[i] + Red[i])", "2 * v[i]")
    text = text.replace("const float *Red, const float *NIR", 'DATASET("NDVI") const float *v')
    attach(file, "cu", text, chunks="auto")
    same_bits(both(file, "twice"), 2 * read(file, "NDVI"))
