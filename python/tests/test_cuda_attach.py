"""Live datasets in CUDA without a GPU: attached, signed, shown, and refused unless the GPU is granted."""

import base64
import os
import re
import subprocess
import zlib
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import FEATURES, HAS_NVRTC, LISTING_5, NDVI, OUT, REGIONS, SEVERAL, TEMPLATES, installed
from fresh import failure
from hyperchunk.exceptions import HyperchunkError, RefusedError, UdfError, UdfSyntaxError, UnsupportedError
from people import Person, refused
from stored_records import put_record, record_of

pytestmark = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")


def test_attached_shown_and_signed_without_a_gpu(scene: Any, attach: Any, command: Any) -> None:
    file = scene()
    (record,) = attach(file, "cu", NDVI)
    assert (record["backend"], record["input_datasets"], record["output_dataset"]) == ("CUDA", ["Red", "NIR"], "NDVI")
    assert re.fullmatch(r"ptx/compute_\d+", record["compiled"]["target"])
    assert record["source_code"] == NDVI
    assert record["signature"]
    target = f"{file}:/NDVI"
    assert NDVI.strip() in command("udf", "show", "--source", target).stdout
    told = command("udf", "explain", target).stdout
    assert "kernels on a GPU (CUDA)" in told
    assert "compiled for GPUs of ptx/compute_" in told
    assert "It does not run here: refused to run: profile self does not grant the GPU" in told
    assert command("udf", "verify", target).returncode == 3
    done = command("udf", "rebuild", target)
    assert (done.returncode, "cuda for ptx/compute_" in done.stdout) == (0, True), done
    [again] = hyperchunk.udf.ls(file)
    assert (again.path, again.error) == ("/NDVI", None)
    assert again.record["compiled"]["target"] == record["compiled"]["target"]
    assert command("udf", "rm", target).returncode == 0
    assert hyperchunk.udf.ls(file) == []


def test_refused_unless_granted(scene: Any, attach: Any, config: Path, profile: Any) -> None:
    """The refusal tells how to grant the GPU."""
    file = scene()
    attach(file, "cu", NDVI)
    where = config / "hyperchunk" / "profiles" / "self" / "profile.toml"
    told = failure(file, "NDVI")
    assert f"profile self does not grant the GPU; write gpu = true below [grant] in {where}" in told
    with hyperchunk.open(file) as own, pytest.raises(RefusedError, match="does not grant the GPU"):
        own["NDVI"][...]
    profile("self", "[grant]\ngpu = true")
    if os.environ.get("HYPERCHUNK_TEST_GPU") != "1":  # then the GPU exists, and computes
        assert "does not grant" not in failure(file, "NDVI")


def test_strangers_and_everybody_get_no_gpu(ada: Person, adas: Any, profile: Any, command: Any) -> None:
    file = adas("cu", OUT, "out:4:uint8")
    refused(file, ada.fingerprint, "profile untrusted does not run cuda (native code)")
    profile("untrusted", "[grant]\ngpu = true")
    refused(file, "profile untrusted cannot grant anything")
    profile("untrusted", "")
    assert command("trust", "add", ada.fingerprint, "--profile", "default").returncode == 0
    refused(file, "profile default does not grant the GPU")


def test_an_administrator_can_forbid_it(
    scene: Any, attach: Any, gpu_granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    folder = tmp_path / "etc" / "hyperchunk"
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text("version = 1\ngpu = false\n")
    monkeypatch.setenv("HYPERCHUNK_SYSTEM_CONFIG", str(folder))
    assert "this machine's administrator grants no profile the GPU" in failure(file, "NDVI")


def test_a_read_without_a_driver_says_what_is_missing(
    scene: Any, attach: Any, gpu_granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scene()
    attach(file, "cu", NDVI)
    nothing = tmp_path / "libcuda.so.1"
    nothing.write_bytes(b"no library")
    monkeypatch.setenv("HYPERCHUNK_CUDA_DRIVER", str(nothing))
    told = failure(file, "NDVI")
    for part in ("/NDVI", "cuda", "no GPU to run its kernels on", "C++, Lua or Python, or an expression"):
        assert part in told


def test_unsigned_runs_nowhere(scene: Any, source: Any, command: Any) -> None:
    done = command("udf", "attach", scene(), source("cu", NDVI), "--unsigned")
    assert "unsigned CUDA runs nowhere" in done.stderr


HOST = '__global__ void k(float *out) {{}}\nvoid dynamic_dataset() {{ auto o = lib.getData<float>("out"); {} }}'
MISTAKES = {
    "__global__ void k(const float *Red, float *out) { out[0] = Redd[0]; }": 'identifier "Redd" is undefined',
    "__global__ void k(const int *Red, float *out) {}": "but the source declares int",
    "__global__ void k(float *Red, float *out) {}": '"Red" is an input: write `const float',
    "__global__ void k(const float *Red, const float *out) {}": '"out" is an output',
    "__global__ void k(float *out) { lib.seed(); }": '"lib" is undefined',
    "typedef int N; __global__ void k(float *out, N count) {}": "count of k is bound to no dataset",
    "#define W wide\nstruct wide {}; __global__ void k(W *out) {}": "the source declares wide",
    "void k(float *out) {}": "the source has no kernel",
    HOST.format("for (;;) k<<<1, 1>>>(o);"): "line 2: `for` is not translated",
    HOST.format("k<<<1, 2000>>>(o);"): "a GPU allows 1 to 1024 in a block",
    "THREADS(16, 16) __global__ void k(float *out) {}": '"out" has one dimension',
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_show_when_it_is_attached(text: str, scene: Any, attach: Any) -> None:
    with pytest.raises(HyperchunkError, match=re.escape(MISTAKES[text])):
        attach(scene(), "cu", text, "out:3:float")


def test_what_a_macro_hides_is_seen_by_the_compiler(scene: Any, attach: Any) -> None:
    """Our parser reads `float`, and the compiler a different type."""
    text = "#define MAKE(a) a\n#define float double\n#undef float\n__global__ void k(float *out) {}"
    with pytest.raises(UdfSyntaxError, match="float is a macro"):
        attach(scene(), "cu", text, "out:3:float")
    text = "namespace n { typedef short int32_t; __global__ void k(int32_t *out) {} }"
    with pytest.raises(UdfError, match="the compiler sees other parameters of a kernel"):
        attach(scene(), "cu", text, "out:3:int32")


def test_what_a_gpu_has_not(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["words"] = ["a", "b"]
    text = "__global__ void k(const words_t *words, int *out) {}"
    with pytest.raises(UnsupportedError, match="strings of variable length, which cannot go to a GPU"):
        attach(file, "cu", text, "out:2:int32")
    with pytest.raises(UdfSyntaxError, match="only programs that run on a processor"):
        attach(file, "cu", OUT, "out:2:uint8", seed=5)


def test_a_changed_compiled_form_runs_nothing(scene: Any, attach: Any, gpu: Path, tmp_path: Path) -> None:
    """The signature covers the compiled form, and an author's own signature requires the kernels of the source."""
    file = scene()
    attach(file, "cu", NDVI)
    with h5py.File(file, "a") as opened:
        text = record_of(opened["NDVI"]).decode()
        at = text.index('"deflate":"') + 40
        other = "A" if text[at] != "A" else "B"
        changed = text[:at] + other + text[at + 1 :]
        put_record(opened["NDVI"], changed.encode())
    told = failure(file, "NDVI")
    assert "record" in told or "signature" in told


@pytest.mark.parametrize("machine", [70, 75, 80, 86, 89, 90])
@pytest.mark.parametrize("text", [NDVI, LISTING_5, REGIONS, SEVERAL, TEMPLATES, FEATURES], ids=range(6))
def test_ptx_is_valid_for_each_machine(
    text: str, machine: int, scene: Any, source: Any, attach: Any, tmp_path: Path, ptxas: Path
) -> None:
    arrays = {name: np.zeros((4, 4), "f4") for name in ("Red", "NIR", "image")}
    arrays |= {"a": np.zeros(4, "i4"), "bands/NIR": np.zeros((4, 4), "i2")}
    outputs = {REGIONS: ["smooth:4x4:float"], SEVERAL: ["sum:4x4:int32", "mean:4x4:double"], TEMPLATES: ["out:4:int32"]}
    outputs[FEATURES] = ["out:4x4:float"]
    record, *_ = attach(scene(**arrays), "cu", text, *outputs.get(text, ["NDVI:4x4:float"]))
    ptx = tmp_path / "udf.ptx"
    ptx.write_bytes(zlib.decompress(base64.b64decode(record["compiled"]["deflate"]), -15))
    words = [str(ptxas), f"-arch=sm_{machine}", str(ptx), "-o", str(tmp_path / "udf.cubin")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Older drivers accept the version, too.
    version = re.search(rb"^\.version (\d+)\.(\d+)$", ptx.read_bytes(), re.M)
    assert version is not None
    assert (int(version[1]), int(version[2])) <= (6, 3)


@pytest.fixture(scope="session")
def ptxas() -> Path:
    """NVIDIA's assembler, from the package `nvidia-cuda-nvcc-cu12`."""
    programs = [folder / "bin" / "ptxas" for folder in installed("cuda_nvcc")]
    if not any(program.is_file() for program in programs):
        pytest.skip("ptxas is missing: pip install nvidia-cuda-nvcc-cu12")
    return next(program for program in programs if program.is_file())
