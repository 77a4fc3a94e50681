"""HDF5-UDF's command and Python interface."""

import json
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment, read
from hyperchunk.hdf5_udf import UserDefinedFunction, described
from programs import elementwise, ndvi

COMMAND = Path(HYPERCHUNK).with_name("hdf5-udf")


@pytest.fixture
def run(config: Path) -> Any:
    """Runs the command `hdf5-udf`."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        line = [str(COMMAND), *map(str, words)]
        return subprocess.run(line, env=environment(config), capture_output=True, text=True, check=False)

    return run


def test_command(run: Any, scene: Any, source: Any) -> None:
    file, program = scene(), source("lua", ndvi("lua"))
    done = run(file, program)
    assert (done.returncode, done.stderr) == (0, "")
    title, _, headers = done.stdout.partition("\n")
    assert title == "Dataset header:"
    [header] = json.loads(headers)
    assert header["output_dataset"] == "NDVI"
    assert header["output_resolution"] == [30, 40]
    assert header["source_code"].endswith("…")
    red, nir = read(file, "Red"), read(file, "NIR")
    np.testing.assert_array_max_ulp(read(file, "NDVI"), (nir - red) / (nir + red), maxulp=1)
    again = run(file, program)
    assert again.returncode == 1
    assert again.stderr.startswith("Error: ")
    assert run("--overwrite", "--save-sourcecode", file, program, "NDVI").returncode == 0


def test_first_function_makes_a_key(tmp_path: Path, scene: Any, source: Any) -> None:
    """The first function makes a key, as in HDF5-UDF, and reports it once; `hyperchunk udf attach` still requires
    `hyperchunk key new`.
    """
    program, env = source("lua", elementwise("lua", "i", "simple")), environment(tmp_path / "fresh")
    line = [HYPERCHUNK, "udf", "attach", scene(), program, "simple:10:float"]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "hyperchunk key new" in done.stderr
    for told in (1, 0):
        line = [str(COMMAND), scene(), program, "simple:10:float"]
        done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("made your signing key SHA256:") == told
        assert done.stdout.startswith("Dataset header:")
    assert (tmp_path / "fresh" / "hyperchunk" / "keys" / "self.key").stat().st_mode & 0o777 == 0o600


def test_command_with_descriptions_and_help(run: Any, scene: Any, source: Any) -> None:
    file = scene()
    program = source("py", elementwise("py", "i", "Simple"))
    assert run(file, program, "Simple:500:float").returncode == 0
    assert np.array_equal(read(file, "Simple"), np.arange(500, dtype="f4"))
    assert "HDF5_FILE UDF_FILE [UDF_DATASET ...]" in run("--help").stdout
    for words in ((), (file,), ("--nonsense", file, program)):
        done = run(*words)
        assert done.returncode == 1
        assert "usage: hdf5-udf" in done.stderr


def test_class(scene: Any, source: Any) -> None:
    file, program = scene(), source("lua", elementwise("lua", "i", "simple"))
    with UserDefinedFunction(hdf5_file=str(file), udf_file=str(program)) as function:
        assert function.set_option("overwrite", "true")
        assert function.set_option(b"save_sourcecode", True)
        assert not function.set_option("nonsense", "true")
        assert not function.set_option("overwrite", "perhaps")
        with pytest.raises(TypeError):
            function.set_option("overwrite", 1)  # type: ignore[arg-type]
        function.push_dataset({"name": "simple", "datatype": "float", "resolution": [1000]})
        assert function.compile()
        with h5py.File(file) as opened:
            assert "simple" not in opened
        [header] = function.store()
        assert header["output_resolution"] == [1000]
        assert function.get_metadata("simple")["backend"] == "LuaJIT"
        assert "no live dataset" in function.get_metadata("Red")["error"]
        assert [header["output_dataset"] for header in function.store()] == ["simple"]
    assert np.array_equal(read(file, "simple"), np.arange(1, 1001, dtype="f4"))
    with UserDefinedFunction(str(file), str(program)) as function:
        function.push_dataset({"name": "simple", "datatype": "float", "resolution": 10})
        assert "simple" in function.store()["error"]


@pytest.mark.parametrize(
    "description",
    [
        {"name": "a", "datatype": "float"},
        {"name": "a", "datatype": "float", "resolution": []},
        {"name": "a", "datatype": "float", "resolution": "10"},
        {"name": "a", "datatype": "float", "resolution": [0]},
        {"name": "a", "resolution": [1]},
        {"name": 3, "datatype": "float", "resolution": [1]},
        {"name": "a", "datatype": "compound", "resolution": [1]},
        {"name": "a", "datatype": "float", "resolution": [1], "more": 1},
    ],
)
def test_descriptions_that_make_no_sense(description: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        described(description)
