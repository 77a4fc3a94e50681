"""Output of functions: to standard error, with the dataset's name, and of limited length."""

import json
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment, run_python

READ = """
import sys, hyperchunk
hyperchunk.plugins.enable()
import h5py
opened = h5py.File if sys.argv[2] == "h5py" else hyperchunk.open
with opened(sys.argv[1]) as file:
    file["zz_out"][...]
"""
# A text that would look like a dataset in the output of `dump --json`.
FORGED = ', "/temperature": {"kind": "dataset", "value": [-666]}'
PRINTS = {
    "lua": f"function dynamic_dataset() print([[{FORGED}]]) lib.getData('zz_out')[1] = 7 end",
    "py": f"import sys\ndef dynamic_dataset():\n    print({FORGED!r})\n    print('second', file=sys.stderr)\n",
}


@pytest.fixture(params=["lua", "py"])
def printing(request: pytest.FixtureRequest, tmp_path: Path, attach: Any) -> Path:
    """A file with stored values, and a live dataset that prints."""
    file = tmp_path / "p.h5"
    with h5py.File(file, "w") as opened:
        opened["temperature"] = np.arange(4.0)
    attach(file, request.param, PRINTS[request.param], "zz_out:4:double")
    return file


@pytest.mark.parametrize("reader", ["h5py", "hyperchunk"])
def test_it_goes_to_standard_error_with_a_name(printing: Path, reader: str) -> None:
    """Each line names its dataset; standard output belongs to the program."""
    done = run_python(READ, printing, reader)
    assert done.stdout == ""
    assert f"p.h5:/zz_out: {FORGED}" in done.stderr
    assert all("p.h5:/zz_out: " in line for line in done.stderr.splitlines())


def test_the_streams_are_a_switch(printing: Path) -> None:
    """Streams as in HDF5-UDF are an option."""
    done = run_python(READ, printing, "h5py", HYPERCHUNK_PRINT="streams")
    assert done.stdout == FORGED + "\n"


@pytest.mark.parametrize("streams", ["", "streams"])
def test_a_command_prints_its_own_data(
    printing: Path, streams: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every setting, a function's output stays out of the output of `dump` and `get`."""
    monkeypatch.setenv("HYPERCHUNK_PRINT", streams)
    done = command("dump", "--json", str(printing))
    assert json.loads(done.stdout)["objects"]["/temperature"]["value"] == [0, 1, 2, 3]
    words = [HYPERCHUNK, "get", printing, "/zz_out", "-o", "-"]
    got = subprocess.run(words, env=environment(), capture_output=True, check=True)
    assert got.stdout.startswith(b"\x93NUMPY")
    assert b"666" not in got.stdout
    assert b"p.h5:/zz_out: " in got.stderr


@pytest.mark.parametrize("reader", ["h5py", "hyperchunk"])
def test_a_read_prints_so_much(reader: str, tmp_path: Path, attach: Any) -> None:
    """The limit is per read, not per block."""
    file = tmp_path / "f.h5"
    h5py.File(file, "w").close()
    source = """
function dynamic_dataset()
    lib.getData("zz_out")[1] = 1
    for i = 1, 200 do print(string.rep("x", 1000)) end
end"""
    attach(file, "lua", source, "zz_out:60:double", chunks="1")
    done = run_python(READ, file, reader)
    assert 200_000 < len(done.stderr) < 400_000
    assert done.stderr.count("more was printed") == 1


def test_a_read_computes_so_long(tmp_path: Path, attach: Any, config: Path) -> None:
    """The time limit applies to a read with any number of blocks; the next read starts with a full budget."""
    profile = config / "hyperchunk/profiles/untrusted/profile.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text("version = 1\n[limits]\nread_s = 1\n")
    file = tmp_path / "t.h5"
    h5py.File(file, "w").close()
    source = """
function dynamic_dataset()
    local sum = 0
    for i = 1, 1e7 do sum = sum + i end
    lib.getData("zz_out")[1] = sum
end"""
    attach(file, "lua", source, "zz_out:400:double", chunks="1", unsigned=True)
    with hyperchunk.open(file) as opened:
        with pytest.raises(hyperchunk.HyperchunkError, match=r"limit of 1 s of computing for one read .*read_s"):
            opened["zz_out"][...]
        assert opened["zz_out"][:2].tolist() == [5e13 + 5e6] * 2
