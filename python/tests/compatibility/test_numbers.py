"""Numeric cases: vectors, waves, sums of datasets, several outputs, and the path of the file."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import run_python

from compatibility.inputs import LANGUAGES, Programs, both, run


def arrays(file: Path, **datasets: np.ndarray) -> None:
    """Makes a file of these arrays."""
    with h5py.File(file, "w") as opened:
        for name, data in datasets.items():
            opened[name] = data


VECTOR = Programs(
    {
        "py": """
def dynamic_dataset():
    out = lib.getData("Simple.py")
    for n in range(lib.getDims("Simple.py")[0]):
        out[n] = n
""",
        "lua": """
function dynamic_dataset()
    local out = lib.getData("Simple.lua")
    for n = 1, lib.getDims("Simple.lua")[1] do out[n] = n - 1 end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto out = lib.getData<float>("Simple.cpp");
    for (size_t n = 0; n < lib.getDims("Simple.cpp")[0]; ++n) out[n] = n;
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_simple_vector(language: str, tmp_path: Path) -> None:
    file = tmp_path / "simple.h5"
    arrays(file)
    run(tmp_path, file, language, VECTOR[language], f"Simple.{language}:2000:float")
    assert both(file, f"Simple.{language}").tolist() == list(range(2000))


WAVE = Programs(
    {
        "py": """
from math import sin
def dynamic_dataset():
    out, kind = lib.getData("Wave.py"), lib.getType("Wave.py")
    assert kind == b"int32" and kind == "int32"
    rows, columns = lib.getDims("Wave.py")
    for i in range(rows):
        for j in range(columns):
            out[i * columns + j] = int(sin(i * columns + j) * 100.0)
""",
        "lua": """
function dynamic_dataset()
    local out, kind = lib.getData("Wave.lua"), lib.getType("Wave.lua")
    assert(kind == "int32")
    local rows, columns = lib.getDims("Wave.lua")[1], lib.getDims("Wave.lua")[2]
    for i = 1, rows do
        for j = 1, columns do out[i * columns + j] = math.sin(i * columns + j) * 100.0 end
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto out = lib.getData<int32_t>("Wave.cpp");
    if (strcmp(lib.getType("Wave.cpp"), "int32")) throw std::runtime_error("type");
    auto rows = lib.getDims("Wave.cpp")[0], columns = lib.getDims("Wave.cpp")[1];
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j)
            out[i * columns + j] = int(sin(double(i * columns + j)) * 100.0);
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sine_wave(language: str, tmp_path: Path) -> None:
    """Numbers are truncated to integers. Lua's program is off by one row and harmlessly writes past the end."""
    file = tmp_path / "wave.h5"
    arrays(file)
    run(tmp_path, file, language, WAVE[language], f"Wave.{language}:100x100:int32")
    expected = np.trunc(np.sin(np.arange(10_000)) * 100).astype("i4")
    if language == "lua":
        # Element n, from 1 on, is the sine of n; the first row is skipped.
        expected = np.concatenate([np.zeros(100, "i4"), np.trunc(np.sin(np.arange(101, 10_001)) * 100).astype("i4")])
    np.testing.assert_array_equal(both(file, f"Wave.{language}").ravel(), expected)


SUM = Programs(
    {
        "py": """
def dynamic_dataset():
    a, b = lib.getData("Dataset1"), lib.getData("Dataset2")
    out = lib.getData("UserDefinedDataset.py")
    dims = lib.getDims("UserDefinedDataset.py")
    for n in range(dims[0] * dims[1]):
        out[n] = a[n] + b[n]
""",
        "lua": """
function dynamic_dataset()
    local a, b = lib.getData("Dataset1"), lib.getData("Dataset2")
    local out, dims = lib.getData("UserDefinedDataset.lua"), lib.getDims("UserDefinedDataset.lua")
    for n = 1, dims[1] * dims[2] do out[n] = a[n] + b[n] end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto a = lib.getData<int>("Dataset1"), b = lib.getData<int>("Dataset2");
    auto out = lib.getData<int>("UserDefinedDataset.cpp");
    auto dims = lib.getDims("UserDefinedDataset.cpp");
    for (size_t n = 0; n < dims[0] * dims[1]; ++n) out[n] = a[n] + b[n];
}
""",
    }
)


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
def test_multi_datasets(language: str, described: bool, tmp_path: Path) -> None:
    """Name, shape and type are inferred, or given. The file extension may be in capitals."""
    file, name = tmp_path / "sum.h5", f"UserDefinedDataset.{language}"
    rows, columns = np.ogrid[:100, :50]
    one, two = (10 * rows + columns).astype("i4"), (20 * rows + columns).astype("i4")
    arrays(file, Dataset1=one, Dataset2=two)
    source = tmp_path / f"case.{'CPP' if language == 'wasm' else language.upper()}"
    source.write_text(SUM[language])
    backend = "wasm" if language == "wasm" else None
    hyperchunk.udf.attach(file, source, [f"{name}:100x50:int32"] if described else [name], backend=backend)
    got = both(file, name)
    assert got.dtype == np.dtype("i4")
    np.testing.assert_array_equal(got, one + two)


FILE_PATH = Programs(
    {
        "py": """
def dynamic_dataset():
    path = lib.getFilePath().decode("utf-8").split("/")[-1]
    print(f"the file is '{path}'", flush=True)
""",
        "lua": """
function dynamic_dataset()
    print("the file is '" .. lib.getFilePath():match("^.+/(.+)$") .. "'")
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    printf("the file is '%s'\\n", strrchr(lib.getFilePath(), '/') + 1);
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_filepath(language: str, tmp_path: Path) -> None:
    """A program without dataset names can be attached under any name. The path includes the folder, however the file
    was opened.
    """
    file = tmp_path / "example-filepath.h5"
    arrays(file)
    run(tmp_path, file, language, FILE_PATH[language], "Nothing:10:float")
    code = "import os, sys, h5py; os.chdir(sys.argv[1]); print(h5py.File(sys.argv[2])['Nothing'][...].tolist())"
    done = run_python(code, tmp_path, file.name)
    assert done.stdout.splitlines() == ["the file is 'example-filepath.h5'", str([0.0] * 10)]


NDVI = """
def dynamic_dataset():
    nir, red, ndvi = lib.getData("NIR"), lib.getData("RED"), lib.getData("NDVI")
    rows, columns = lib.getDims("NIR")
    for n in range(rows * columns):
        ndvi[n] = (nir[n] - red[n]) / (nir[n] + red[n])
"""


def test_three_names_on_a_line(tmp_path: Path) -> None:
    """HDF5-UDF sees only the first call of a line."""
    file = tmp_path / "ndvi.h5"
    random = np.random.default_rng(3)
    red, nir = random.random((12, 9), "f4"), random.random((12, 9), "f4")
    arrays(file, RED=red, NIR=nir)
    run(tmp_path, file, "py", NDVI)
    expected = ((nir.astype("f8") - red) / (nir.astype("f8") + red)).astype("f4")
    np.testing.assert_array_equal(both(file, "NDVI"), expected)


WEATHER = """
function dynamic_dataset()
    local t, p, q = lib.getData("T2"), lib.getData("PSFC"), lib.getData("Q2")
    local u, v = lib.getData("U10"), lib.getData("V10")
    local speed, chill, vapour = lib.getData("wind_speed"), lib.getData("wind_chill"), lib.getData("vapour")
    for n = 1, lib.getSize("T2")[1] do
        speed[n] = math.sqrt(math.pow(u[n], 2) + math.pow(v[n], 2))
        local fahrenheit, mph = (t[n] - 273.15) * (9 / 5) + 32, speed[n] * 2.23694
        if fahrenheit <= 50 and mph >= 3 then
            local power = math.pow(mph, 0.16)
            chill[n] = 35.74 + 0.6215 * fahrenheit - 35.75 * power + 0.4275 * fahrenheit * power
        else
            chill[n] = fahrenheit
        end
        vapour[n] = q[n] * p[n] / (0.622 + q[n])
    end
end
"""


def test_five_inputs_and_three_outputs(tmp_path: Path) -> None:
    """Each output is a live dataset, and discards the other outputs' results. A size is a shape."""
    file = tmp_path / "weather.h5"
    random = np.random.default_rng(5)
    scales = {"T2": (250, 310), "PSFC": (9e4, 1e5), "Q2": (0, 0.02), "U10": (-15, 15), "V10": (-15, 15)}
    inputs = {name: random.uniform(*scale, 99).astype("f4") for name, scale in scales.items()}
    arrays(file, **inputs)
    records = run(tmp_path, file, "lua", WEATHER)
    assert [r["output_dataset"] for r in records] == ["wind_speed", "wind_chill", "vapour"]
    t, p, q, u, v = (inputs[name].astype("f8") for name in scales)
    speed = np.hypot(u, v).astype("f4")
    fahrenheit, mph = (t - 273.15) * 1.8 + 32, speed.astype("f8") * 2.23694
    cold = 35.74 + 0.6215 * fahrenheit - 35.75 * mph**0.16 + 0.4275 * fahrenheit * mph**0.16
    expected = {
        "wind_speed": speed,
        "wind_chill": np.where((fahrenheit <= 50) & (mph >= 3), cold, fahrenheit),
        "vapour": q * p / (0.622 + q),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(both(file, name), values, rtol=1e-6, err_msg=name)
