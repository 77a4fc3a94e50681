"""Attributes as inputs: ``lib.getAttr`` in each language, ``@name`` in expressions; signed by name, read by value."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import HAS_NVRTC
from fresh import failure
from hyperchunk.exceptions import UdfSyntaxError, UnsupportedError
from stored_records import record_of

RAW = np.arange(12, dtype="i2").reshape(3, 4)
SCALED = RAW * 0.5 + 10


def both(file: Path, name: str) -> np.ndarray:
    """Returns the values, the same in both readers."""
    with h5py.File(file) as opened:
        values: np.ndarray = opened[name][...]
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][...], values)
    return values


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scene.h5"
    with h5py.File(path, "w") as made:
        made.attrs["factor"] = np.float32(3)
        made["NIR"] = RAW
        group = made.create_group("g")
        group.attrs["count"] = np.array([7], dtype=">u2")
        nir = made["NIR"]
        nir.attrs["scale_factor"] = 0.5
        nir.attrs["add_offset"] = np.int32(10)
        nir.attrs["coefficients"] = np.array([1, 2, 3], dtype=">i8")
        nir.attrs["units"] = "K"
        nir.attrs["fixed"] = np.bytes_("metre")
        nir.attrs["names"] = ["a", "bcd"]
    return path


SOURCES = {
    "py": """
def dynamic_dataset():
    out, nir = lib.getData("out"), lib.getData("NIR")
    scale, offset = lib.getAttr("NIR", "scale_factor"), lib.getAttr("NIR", "add_offset")
    assert lib.getAttr("NIR", "units") == "K" and lib.getAttr("/NIR", "fixed") == "metre"
    assert lib.getAttr("NIR", "coefficients") == (1, 2, 3) and lib.getAttr("NIR", "names") == ("a", "bcd")
    assert lib.getAttr("g", "count") == 7 and lib.getAttr("/", "factor") == 3.0
    for i in range(len(out)):
        out[i] = nir[i] * scale + offset
""",
    "lua": """
function dynamic_dataset()
  local out, nir = lib.getData("out"), lib.getData("NIR")
  local scale, offset = lib.getAttr("NIR", "scale_factor"), lib.getAttr("NIR", "add_offset")
  assert(lib.getAttr("NIR", "units") == "K" and lib.getAttr("/NIR", "fixed") == "metre")
  assert(lib.getAttr("NIR", "coefficients")[3] == 3 and lib.getAttr("NIR", "names")[2] == "bcd")
  assert(lib.getAttr("g", "count") == 7 and lib.getAttr("/", "factor") == 3)
  for i = 1, 12 do out[i] = nir[i] * scale + offset end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<double>("out");
    auto nir = lib.getData<int16_t>("NIR");
    double scale = lib.getAttr<double>("NIR", "scale_factor"), offset = lib.getAttr("NIR", "add_offset");
    if (lib.getAttr<std::string>("NIR", "units") != "K") abort();
    if (lib.getAttr<std::string>("/NIR", "fixed") != "metre") abort();
    if (lib.getAttr<std::vector<int>>("NIR", "coefficients") != std::vector<int>{1, 2, 3}) abort();
    if (lib.getAttr<int>("g", "count") != 7 || lib.getAttr<float>("/", "factor") != 3) abort();
    for (size_t i = 0; i < 12; i++) out[i] = nir[i] * scale + offset;
}
""",
    "c": """
void dynamic_dataset(void) {
    double *out = lib.getData("out");
    const int16_t *nir = lib.getData("NIR");
    double scale = lib.getAttr("NIR", "scale_factor"), offset = lib.getAttr("NIR", "add_offset");
    if (strcmp(lib.getAttrText("NIR", "units"), "K") || lib.getAttr("g", "count") != 7) abort();
    for (size_t i = 0; i < 12; i++) out[i] = nir[i] * scale + offset;
}
""",
}


@pytest.mark.parametrize("language", SOURCES)
def test_each_language(language: str, file: Path, attach: Any) -> None:
    if language == "c" and not shutil.which("zig") and not shutil.which("python-zig"):
        pytest.skip("Zig is not installed (pip install ziglang)")
    [record] = attach(file, language, SOURCES[language], "out:3x4:double")
    assert record["api_version"] == 7
    assert record["attributes"]["NIR@scale_factor"] == "scale_factor"
    np.testing.assert_array_equal(both(file, "out"), SCALED)
    with h5py.File(file, "r+") as opened:
        opened["NIR"].attrs["scale_factor"] = 2.0
        opened["NIR"].attrs["add_offset"] = np.int32(-1)
    np.testing.assert_array_equal(both(file, "out"), RAW * 2.0 - 1)


def test_expressions(file: Path) -> None:
    text = 'NIR * NIR@scale_factor + "NIR"@"add_offset" + g@count * 0 + "/"@factor'
    [record] = hyperchunk.udf.attach(file, outputs="out", expression=text)
    assert (record["output_datatype"], record["output_resolution"]) == ("double", [3, 4])
    np.testing.assert_array_equal(both(file, "out"), SCALED + 3)
    with h5py.File(file, "r+") as opened:
        # Some programs write arrays of one element as attributes.
        del opened["NIR"].attrs["scale_factor"]
        opened["NIR"].attrs["scale_factor"] = np.array([2.0])
    np.testing.assert_array_equal(both(file, "out"), RAW * 2.0 + 13)
    assert hyperchunk.udf.verify(file, "/out")[0].runs


def test_blocks_and_growth(tmp_path: Path, attach: Any) -> None:
    """An attribute of the output's shape is passed whole to each block, and does not grow."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as made:
        made.create_dataset("a", data=np.arange(4.0), maxshape=(None,), chunks=(2,))
        made["a"].attrs["weights"] = np.array([1.0, 2.0, 3.0, 4.0])
    source = """
def dynamic_dataset():
    out, a, w = lib.getData("out"), lib.getData("a"), lib.getAttr("a", "weights")
    for i in range(len(out)):
        out[i] = a[i] + sum(w)
"""
    attach(file, "py", source, "out:4:double", chunks="2", maxshape="inputs")
    np.testing.assert_array_equal(both(file, "out"), np.arange(4.0) + 10)
    with h5py.File(file, "r+") as opened:
        opened["a"].resize((6,))
        opened["a"][4:] = [4, 5]
    hyperchunk.udf.extend(file, "out")
    np.testing.assert_array_equal(both(file, "out"), np.arange(6.0) + 10)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda attrs: attrs.__delitem__("scale_factor"), "no such attribute"),
        (lambda attrs: attrs.__setitem__("scale_factor", np.array([1.0, 2.0])), r"\[2\] now"),
        (lambda attrs: attrs.__setitem__("scale_factor", "0.5"), "now, and was double"),
        (lambda attrs: attrs.__setitem__("scale_factor", np.int32(5)), "is int32"),
        (lambda attrs: attrs.__setitem__("units", "x" * 300), "300 bytes"),
    ],
)
def test_another_attribute_is_an_error(change: Any, told: str, file: Path, attach: Any) -> None:
    """Values of an attribute may change, but not its type or shape."""
    attach(file, "lua", SOURCES["lua"], "out:3x4:double")
    with h5py.File(file, "r+") as opened:
        change(opened["NIR"].attrs)
    assert told.replace("\\", "") in failure(file, "out")
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.HyperchunkError, match=told):
        opened["out"][...]


def test_the_signature_covers_the_attributes(file: Path, attach: Any) -> None:
    from stored_records import fit_stubs, put_record

    attach(file, "lua", SOURCES["lua"], "out:3x4:double")
    with h5py.File(file, "r+") as opened:
        record = json.loads(record_of(opened["out"]))
        del record["attributes"]["g@count"]
        put_record(opened["out"], json.dumps(record).encode())
        fit_stubs(opened["out"])
    assert "signature" in failure(file, "out")


def test_what_cannot_be(file: Path) -> None:
    def attach(text: str) -> None:
        hyperchunk.udf.attach(file, outputs="out", expression=text)

    with pytest.raises(UdfSyntaxError, match="no dataset"):
        attach("NIR * NIR@nothing")
    with pytest.raises(UnsupportedError, match="one element"):
        attach("NIR * NIR@coefficients")
    with pytest.raises(UnsupportedError, match="is not a number"):
        attach("NIR * NIR@units")
    with pytest.raises(UdfSyntaxError, match="after @"):
        attach("NIR@ scale_factor")


def test_a_dataset_with_such_a_name(file: Path) -> None:
    """A dataset with such a name takes precedence."""
    with h5py.File(file, "r+") as opened:
        opened["NIR@scale_factor"] = np.ones((3, 4))
    [record] = hyperchunk.udf.attach(file, outputs="out", expression="NIR * NIR@scale_factor")
    assert "attributes" not in record
    np.testing.assert_array_equal(both(file, "out"), RAW)


KERNEL = """
__global__ void scaled(const short *NIR, DATASET("NIR@scale_factor") const double *scale, double *out, size_t count)
{
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = NIR[i] * *scale;
}
"""


@pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing")
def test_a_kernel(file: Path, attach: Any, gpu: Any) -> None:
    """Without a GPU, runs on the test driver."""
    [record] = attach(file, "cu", KERNEL, "out:3x4:double")
    assert record["attributes"] == {"NIR@scale_factor": "scale_factor"}
    np.testing.assert_array_equal(both(file, "out"), RAW * 0.5)
