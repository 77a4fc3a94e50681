"""Uses the package in an environment with only it and NumPy; prints the package's folder.

`make wheel` and python/tests/test_install.py run it in an empty folder."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import hyperchunk

home = Path(hyperchunk.__file__).parent
assert (home / "plugins" / "libhyperchunk_filter.so").is_file()
assert (home / "plugins" / "libhyperchunk_snappy.so").is_file()
assert (home / "plugins" / "libhyperchunk_vol_named.so").is_file()
assert (home / "connector" / "libhyperchunk_vol.so").is_file()
# HDF5 tries every connector in the folder of the filters on each file that it cannot open.
assert not (home / "plugins" / "libhyperchunk_vol.so").exists()
for worker in ("hyperchunk-udf-worker", "hyperchunk-wasm-worker"):
    assert os.access(home / "libexec" / worker, os.X_OK)
assert (home / "py.typed").is_file()
assert not [name for name in ("h5py", "numba", "pyarrow") if importlib.util.find_spec(name)], "expected only NumPy"

with hyperchunk.open("a.h5", "w") as file:
    file["a"] = [1.0, 2.0]
    file.create_dataset("squeezed", data=list(range(1000)), chunks=(100,), compression="gzip")
hyperchunk.udf.attach("a.h5", expression="a + 1", outputs=["b"], unsigned=True)
with hyperchunk.open("a.h5") as file:
    assert file["b"][:].tolist() == [2, 3]
    assert file["squeezed"][990:].tolist() == list(range(990, 1000))
with hyperchunk.open("a.h5", "r+") as file:
    file["a"][0] = 5
    file["squeezed"].attrs["unit"] = "m"
command = Path(sys.executable).with_name("hyperchunk")
listed = subprocess.run([command, "ls", "a.h5"], capture_output=True, text=True, check=True).stdout
assert "squeezed" in listed
print(home)
