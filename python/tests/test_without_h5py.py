"""The package without h5py: reading, writing, editing, commands, attaching and trust."""

import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from fresh import environment

# Imports of h5py, netCDF4 and the like fail in it, and no libhdf5 may be loaded.
PROGRAM = """
import sys


class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("h5py", "netCDF4", "tables"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Without())
import numpy
import hyperchunk
from hyperchunk import _core, trust, udf


def run(*words):
    assert _core.run_command(["hyperchunk", *words]) == 0, words


with hyperchunk.open("a.h5", "w") as file:
    file["a"] = numpy.arange(12, dtype="f4").reshape(3, 4)
    file["a"].attrs["units"] = "K"
    file.create_dataset("grows", data=numpy.arange(4.0), maxshape=(None,), chunks=(2,), compression="gzip")
with hyperchunk.open("a.h5", "r+") as file:
    with file.transaction():
        file["a"][0, 0] = 100
    file["grows"].resize(6, 0)
with hyperchunk.open("a.h5") as file:
    assert file["a"][0, 0] == 100
udf.attach("a.h5", expression="a * 2", outputs=["twice"])
with open("plus.lua", "w") as source:
    source.write(LUA)
udf.attach("a.h5", "plus.lua", attrs={"note": "made without h5py"})
udf.attach("a.h5", expression="grows + 1", outputs=["more"], maxshape="inputs", chunks="auto")
with hyperchunk.open("a.h5", "r+") as file:
    file["grows"].resize(8, 0)
assert udf.extend("a.h5", "more") == (8,)
udf.rebuild("a.h5", "out")
assert [one.path for one in udf.ls("a.h5")] == ["/more", "/out", "/twice"]
assert all(one.reason is None for one in udf.verify("a.h5"))
assert "expression" in udf.explain("a.h5", "twice")
fingerprint = udf.ls("a.h5")[0].signer
assert trust.add("a.h5:/out", "default").fingerprint == fingerprint
trust.rm(fingerprint)
run("udf", "verify", "a.h5")
run("trust", "add", "a.h5:/out", "--profile", "default")
run("trust", "rm", fingerprint)
run("attr", "set", "a.h5", "/", "n", "5")
run("cp", "a.h5:/out", "b.h5:/out")
run("index", "a.h5")
run("pack", "--in-place", "a.h5")
with hyperchunk.open("a.h5") as file:
    assert file["twice"][0, 0] == 200
    assert file["out"][0, 0] == 101
    assert file["more"].shape == (8,)
udf.rm("a.h5", "twice")
run("doctor")
assert not [name for name in sys.modules if name.split(".")[0] in ("h5py", "netCDF4", "tables")]
with open("/proc/self/maps") as maps:
    assert "libhdf5" not in maps.read()
print("done")
"""
LUA = """
function dynamic_dataset()
    local a, out = lib.getData("a"), lib.getData("out")
    for i = 1, 12 do out[i] = a[i] + 1 end
end
"""


@pytest.mark.slow
def test_everything_works_without_h5py(tmp_path: Path, config: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"LUA = {LUA!r}\n{PROGRAM}"],
        cwd=tmp_path,
        env=environment(config),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    # Stock h5py reads what was made, live datasets by the plugin.
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"][0, 0] == 100
        assert file["out"].attrs["note"] == b"made without h5py"
        assert file["out"][0, 0] == 101
        assert list(file["more"][4:]) == [1, 1, 1, 1]
