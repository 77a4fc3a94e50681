"""Attached programs become datasets that stock programs can read."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import environment, failure, read, run_python
from programs import LANGUAGES, elementwise, ndvi
from stored_records import record_of

needs_h5dump = pytest.mark.skipif(not shutil.which("h5dump"), reason="h5dump is not installed (hdf5-tools)")


def expected_ndvi(file: Path) -> np.ndarray:
    red, nir = read(file, "Red"), read(file, "NIR")
    return (nir - red) / (nir + red)


def assert_close(language: str, got: np.ndarray, expected: np.ndarray) -> None:
    """Compares values: C++ computes in float as NumPy does; the other languages in double, with one rounding."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if language == "cpp":
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_array_max_ulp(got, expected, maxulp=1)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("way", ["api", "command"])
def test_ndvi_equals_numpy_in_a_fresh_process(
    way: str, language: str, scene: Any, source: Any, command: Any, read_in_fresh_process: Any
) -> None:
    file, program = scene(), source(language, ndvi(language))
    if way == "api":
        [record] = hyperchunk.udf.attach(file, program)
        assert record["input_datasets"] == ["Red", "NIR"]
    else:
        done = command("udf", "attach", file, program)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("attached NDVI:")
    expected = expected_ndvi(file)
    assert_close(language, read_in_fresh_process(file, "NDVI", "10:20, 5"), expected[10:20, 5])
    assert_close(language, read_in_fresh_process(file, "NDVI", reader="netCDF4"), expected)
    assert_close(language, read(file, "NDVI"), expected)


def test_numpy_is_bitwise_equal(scene: Any, attach: Any) -> None:
    file = scene()
    attach(
        file,
        "py",
        """
import numpy as np
def dynamic_dataset():
    out, red, nir = lib.getData("NDVI"), lib.getData("Red"), lib.getData("NIR")
    red, nir = np.asarray(red), np.asarray(nir)
    np.divide(nir - red, nir + red, out=np.asarray(out))
""",
    )
    np.testing.assert_array_equal(read(file, "NDVI"), expected_ndvi(file))


def test_several_getdata_on_a_line_as_in_the_paper(scene: Any, attach: Any) -> None:
    """HDF5-UDF's scanner saw only the first name on a line."""
    file = scene()
    attach(
        file,
        "lua",
        """
function dynamic_dataset()
    local ndvi, red, nir = lib.getData("NDVI"), lib.getData("Red"), lib.getData("NIR")
    local dims = lib.getDims("NDVI")
    for i = 1, dims[1] * dims[2] do
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
    end
end
""",
    )
    assert_close("lua", read(file, "NDVI"), expected_ndvi(file))


BOTH = """
import sys, h5py, netCDF4, numpy
values = []
with h5py.File(sys.argv[1]) as a, netCDF4.Dataset(sys.argv[1]) as b:
    b.set_auto_mask(False)
    for row in range(0, 30, 7):
        for name in ("py", "lua", "cpp"):
            values.append(a[name][row])
            values.append(b[name][row])
numpy.save(sys.argv[2], values)
"""


def test_h5py_and_netcdf4_interleaved_in_one_process(scene: Any, attach: Any, tmp_path: Path) -> None:
    """The two wheels load two libhdf5 of different versions into one process."""
    file, result = scene(), tmp_path / "both.npy"
    for language in LANGUAGES:
        attach(file, language, ndvi(language, output=language), chunks="7x40")
    expected = expected_ndvi(file)
    for code in (BOTH, BOTH.replace("h5py, netCDF4", "netCDF4, h5py")):
        run_python(code, file, result)
        got = np.load(result)
        np.testing.assert_array_max_ulp(got, np.repeat(expected[::7], 6, axis=0), maxulp=1)


ENABLE = {
    "before h5py": "import hyperchunk; hyperchunk.plugins.enable(); import h5py",
    "after h5py": "import h5py, hyperchunk; hyperchunk.plugins.enable()",
    "after a file was opened": "import sys, h5py; f = h5py.File(sys.argv[1])\n"
    "import hyperchunk; hyperchunk.plugins.enable()",
    "twice": "import h5py, hyperchunk; hyperchunk.plugins.enable(); hyperchunk.plugins.enable()",
    "before netCDF4": "import hyperchunk; hyperchunk.plugins.enable(); import netCDF4",
    "after netCDF4": "import netCDF4, hyperchunk; hyperchunk.plugins.enable()",
    "after both": "import h5py, netCDF4, hyperchunk; hyperchunk.plugins.enable()",
}
READ = {
    "h5py": "values = h5py.File(sys.argv[1])['NDVI'][10:20, 5]",
    "netCDF4": "values = netCDF4.Dataset(sys.argv[1])['NDVI'][10:20, 5].data",
}


@pytest.mark.parametrize("case", ENABLE)
def test_enable_in_a_process_that_set_nothing(case: str, scene: Any, attach: Any, tmp_path: Path) -> None:
    file, result = scene(), tmp_path / "out.npy"
    attach(file, "cpp", ndvi("cpp"))
    for reader in READ:
        if reader not in ENABLE[case] and case != "after both":
            continue
        lines = [
            "import sys, numpy, os",
            "assert 'HDF5_PLUGIN_PATH' not in os.environ",
            ENABLE[case],
            READ[reader],
            "assert os.environ['HDF5_PLUGIN_PATH'].count('hyperchunk/plugins') == 1",
            "numpy.save(sys.argv[2], values)",
        ]
        code = "\n".join(lines)
        run_python(code, file, result, HDF5_PLUGIN_PATH="")
        np.testing.assert_array_equal(np.load(result), expected_ndvi(file)[10:20, 5])


def test_without_the_plugin_hdf5_says_so(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"))
    code = "import sys, h5py; h5py.File(sys.argv[1])['NDVI'][:]"
    done = run_python(code, file, check=False, HDF5_PLUGIN_PATH="")
    assert done.returncode != 0
    assert "OSError" in done.stderr
    # HDF5's message: it cannot open the folder, or the filter is not registered.
    assert "plugin" in done.stderr or "31300" in done.stderr
    # Operations that need no values work.
    code = "import sys, h5py; d = h5py.File(sys.argv[1])['NDVI']; print(d.shape, d.dtype, *d.attrs)"
    assert run_python(code, file, HDF5_PLUGIN_PATH="").stdout == "(30, 40) float32\n"


@pytest.mark.parametrize("reader", ["h5py", "netCDF4"])
def test_python_readers_see_the_reason_of_a_failure(reader: str, scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", 'function dynamic_dataset() lib.getData("Bad"); error("no luck") end', "Bad:30x40:float")
    code = {
        "h5py": "import sys, h5py; h5py.File(sys.argv[1])['Bad'][:]",
        "netCDF4": "import sys, netCDF4; netCDF4.Dataset(sys.argv[1])['Bad'][:]",
    }[reader]
    done = run_python(code, file, check=False)
    assert done.returncode != 0
    if reader == "h5py":
        assert "no luck" in done.stderr
    else:
        # netCDF4 hides HDF5's reasons; it only matters that the read fails.
        assert "NetCDF: HDF error" in done.stderr


def h5_tool(config: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(w) for w in words],
        env=environment(config),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


@needs_h5dump
@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("language", LANGUAGES)
def test_h5dump(language: str, scene: Any, attach: Any, config: Path, tmp_path: Path) -> None:
    file, out = scene(), tmp_path / "dump.bin"
    attach(file, language, ndvi(language), chunks="7x9")
    done = h5_tool(config, "h5dump", "-d", "NDVI", "-b", "LE", "-o", out, file)
    assert done.returncode == 0, done.stderr
    assert_close(language, np.fromfile(out, "<f4").reshape(30, 40), expected_ndvi(file))


@needs_h5dump
@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("chunks", [None, "7x9"])
def test_h5repack_keeps_a_dataset_live(chunks: str | None, scene: Any, attach: Any, config: Path) -> None:
    """h5repack copies the stubs unchanged: the copy is live in the new file and reads the new file's inputs."""
    file = scene()
    attach(file, "cpp", ndvi("cpp"), chunks=chunks)
    copy = file.with_name("repacked.h5")
    assert h5_tool(config, "h5repack", file, copy).returncode == 0
    np.testing.assert_array_equal(read(copy, "NDVI"), expected_ndvi(file))
    with h5py.File(copy, "r+") as opened:
        assert "31300" in opened["NDVI"]._filters
        opened["Red"][...] = 0
    np.testing.assert_array_equal(read(copy, "NDVI"), np.ones((30, 40), "f4"))


@needs_h5dump
@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("option", ["-fNDVI:NONE", "-lNDVI:CONTI", "-fNDVI:GZIP=1"])
def test_h5repack_with_other_filters_stores_the_values(option: str, scene: Any, attach: Any, config: Path) -> None:
    """h5repack materialises the dataset. Its record stays as an attribute, and readers do not treat it as live."""
    file = scene()
    attach(file, "cpp", ndvi("cpp"))
    copy = file.with_name("repacked.h5")
    done = h5_tool(config, "h5repack", option, file, copy)
    assert done.returncode == 0, done.stderr
    with h5py.File(copy) as opened:
        assert "31300" not in opened["NDVI"]._filters
        np.testing.assert_array_equal(opened["NDVI"][...], expected_ndvi(file))
    assert hyperchunk.udf.ls(copy) == []


@needs_h5dump
@pytest.mark.needs_hdf5_tools
def test_h5repack_of_a_function_that_fails_is_an_error(scene: Any, attach: Any, config: Path) -> None:
    """h5repack has created the dataset by then and leaves it empty, but reports the error and exits with 1."""
    file = scene()
    attach(file, "lua", 'function dynamic_dataset() lib.getData("Bad"); error("no luck") end', "Bad:3:float")
    done = h5_tool(config, "h5repack", "-fBad:NONE", file, file.with_name("repacked.h5"))
    assert done.returncode == 1


@needs_h5dump
@pytest.mark.needs_hdf5_tools
def test_h5copy_to_another_file(scene: Any, attach: Any, config: Path) -> None:
    """Without the inputs in the new file the read is an error that names one; with them it computes from the new
    file's.
    """
    file = scene()
    attach(file, "cpp", ndvi("cpp"))
    other = file.with_name("other.h5")
    assert h5_tool(config, "h5copy", "-i", file, "-o", other, "-s", "NDVI", "-d", "NDVI").returncode == 0
    assert 'input "Red"' in failure(other, "NDVI")
    with h5py.File(other, "r+") as opened:
        opened["Red"] = np.full((30, 40), 1, "f4")
        opened["NIR"] = np.full((30, 40), 3, "f4")
    np.testing.assert_array_equal(read(other, "NDVI"), np.full((30, 40), 0.5, "f4"))


@pytest.mark.parametrize("language", WITH_CUDA)
def test_no_input_and_one_element(language: str, scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, language, elementwise(language, "41 + 1", "out", datatype="int32"), "out:1:int32")
    got = read(file, "out")
    assert (got.dtype, got.tolist()) == (np.int32, [42])


WRITE = """
import sys, h5py
with h5py.File(sys.argv[1], "r+") as file:
    if sys.argv[2] == "after a read":
        file["NDVI"][0]
    try:
        file["NDVI"][...] = 1
        file.flush()
    except (OSError, RuntimeError) as error:
        print("refused", error)
"""


@pytest.mark.parametrize("when", ["at once", "after a read"])
def test_writing_into_a_live_dataset_fails_and_leaves_it_intact(when: str, scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"))
    expected = read(file, "NDVI")
    done = run_python(WRITE, file, when, check=False)
    np.testing.assert_array_equal(read(file, "NDVI"), expected)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused")


# The paper's Table I: bytes of an empty function. Ours include the source, too.
TABLE_1 = {"lua": 2241, "cpp": 3904, "py": 6245}
EMPTY = {
    "lua": 'function dynamic_dataset()\n  local out = lib.getData("out")\nend\n',
    "cpp": 'extern "C" void dynamic_dataset() { lib.getData<float>("out"); }\n',
    "py": 'def dynamic_dataset():\n    lib.getData("out")\n',
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("chunks", [None, "auto"])
def test_a_function_takes_no_more_room_than_in_the_paper(
    language: str, chunks: str | None, scene: Any, attach: Any
) -> None:
    file = scene()
    attach(file, language, EMPTY[language], "out:4000x4000:float", chunks=chunks)
    with h5py.File(file) as opened:
        dataset = opened["out"]
        record = len(record_of(dataset))
        stubs, number = dataset.id.get_storage_size() - record, dataset.id.get_num_chunks()
        assert dict(dataset.attrs) == {}
    assert stubs <= 128 * number
    assert number == 1 if chunks is None else number > 50
    assert record + stubs // number <= TABLE_1[language]
