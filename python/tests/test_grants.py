"""Grants of a profile reach its functions, in each language; anything beside them does not."""

import importlib.util
import platform
import venv
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from people import Person, read, refused

READS = {
    "py": """
def dynamic_dataset():
    with open({path!r}) as file:
        lib.getData("out")[0] = float(file.read())
""",
    "lua": """
function dynamic_dataset()
  local file = assert(io.open("{path}"))
  lib.getData("out")[1] = file:read("*n")
  file:close()
end
""",
    "cpp": """
#include <fstream>
#include <stdexcept>
extern "C" void dynamic_dataset() {{
    std::ifstream file("{path}");
    if (!(file >> lib.getData<double>("out")[0])) throw std::runtime_error("cannot read it");
}}
""",
}
WRITES = {
    "py": """
def dynamic_dataset():
    with open({path!r}, "w") as file:
        file.write("written")
    lib.getData("out")[0] = 1
""",
    "lua": """
function dynamic_dataset()
  local file = assert(io.open("{path}", "w"))
  file:write("written")
  file:close()
  lib.getData("out")[1] = 1
end
""",
    "cpp": """
#include <fstream>
#include <stdexcept>
extern "C" void dynamic_dataset() {{
    std::ofstream file("{path}");
    file << "written";
    if (!file.flush()) throw std::runtime_error("cannot write it");
    lib.getData<double>("out")[0] = 1;
}}
""",
}


@pytest.mark.parametrize("language", ["py", "lua", "cpp"])
def test_granted_files_are_read_and_their_neighbours_are_not(
    language: str, ada: Person, adas: Any, command: Any, profile: Any, data: Path
) -> None:
    def asking(path: Path, name: str) -> Path:
        made: Path = adas(language, READS[language].format(path=str(path)), name=name)
        return made

    granted = asking(data / "value.txt", "granted.h5")
    neighbour = asking(data.parent / "secret.txt", "neighbour.h5")
    around = asking(data / ".." / "secret.txt", "around.h5")
    profile("lab", f"[grant]\nread = ['{data}']")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    assert read(granted)[0] == 42
    for path in (neighbour, around):
        refused(path, "profile lab")
    # Without the grant, or signed by a stranger.
    profile("lab", "")
    refused(granted, "profile lab")
    assert command("trust", "rm", ada.fingerprint).returncode == 0
    refused(granted, "profile untrusted")


@pytest.mark.parametrize("language", ["py", "lua", "cpp"])
def test_files_are_written_only_where_that_is_granted(
    language: str, ada: Person, adas: Any, command: Any, profile: Any, data: Path
) -> None:
    out = data.parent / "written"
    out.mkdir()

    def asking(path: Path, name: str) -> Path:
        made: Path = adas(language, WRITES[language].format(path=str(path)), name=name)
        return made

    granted = asking(out / "new.txt", "granted.h5")
    over = asking(data / "value.txt", "over.h5")
    beside = asking(data.parent / "beside.txt", "beside.h5")
    profile("lab", f"[grant]\nread = ['{data}']\nwrite = ['{out}']")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    assert read(granted)[0] == 1
    assert (out / "new.txt").read_text() == "written"
    for path in (over, beside):
        refused(path, "profile lab")
    assert (data / "value.txt").read_text() == "42"
    assert not (data.parent / "beside.txt").exists()


def test_granted_imports_and_threads(ada: Person, adas: Any, command: Any, profile: Any) -> None:
    # The author's attach tries the function in a profile of their own.
    own = ada.config / "hyperchunk" / "profiles" / "self" / "profile.toml"
    own.parent.mkdir(parents=True)
    own.write_text("version = 1\n[grant]\nimports = ['colorsys']\n")
    imports = adas("py", 'import colorsys\ndef dynamic_dataset():\n    lib.getData("out")[0] = colorsys.ONE_THIRD\n')
    text = """
import threading

def dynamic_dataset():
    out = lib.getData("out")
    def work():
        out[0] = 5
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
    threads = adas("py", text, name="threads.h5")
    profile("lab", "")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    refused(imports, "colorsys", "imports")
    refused(threads, "profile lab")
    profile("lab", "[grant]\nimports = ['colorsys']\nsyscalls = ['threads']")
    assert read(imports)[0] == pytest.approx(1 / 3)
    assert read(threads)[0] == 5
    absent = adas("py", "# no_such_module\n" + text.replace("threading", "math").split("def work")[0], name="absent.h5")
    profile("lab", "[grant]\nimports = ['no_such_module']")
    refused(absent, "import no_such_module", "ModuleNotFoundError")
    refused(imports, "colorsys", "imports")
    profile("lab", "[grant]\nimports = ['colorsys', 'no_such_module']")
    assert read(imports)[0] == pytest.approx(1 / 3)


# Libraries that start threads on import, and the mean of 0, 1, 2 computed by them.
LIBRARIES = {
    "pandas": "import pandas as pd\ndef mean(a): return pd.Series(a).rolling(3).mean().iloc[-1]\n",
    "pyarrow": "import pyarrow as pa, pyarrow.compute as pc\ndef mean(a): return pc.mean(pa.array(a)).as_py()\n",
    "xarray": "import xarray as xr\ndef mean(a): return xr.DataArray(a, dims=['x']).mean('x').item()\n",
    "polars": "import polars as pl\ndef mean(a): return pl.Series(a).mean()\n",
    "dask.array": "import dask.array as da\ndef mean(a): return da.from_array(a).mean().compute(scheduler='sync')\n",
}


@pytest.mark.parametrize("module", LIBRARIES)
def test_libraries_that_start_threads(module: str, scene: Any, attach: Any, profile: Any) -> None:
    if importlib.util.find_spec(module.split(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    more = {"pyarrow": ", 'pyarrow.compute'", "xarray": ", 'xarray.computation.nanops'"}.get(module, "")
    profile("self", f"[grant]\nimports = ['{module}'{more}]")
    file = scene(a=np.arange(3.0))
    call = "import numpy as np\ndef dynamic_dataset():\n    lib.getData('out')[0] = mean(np.array(lib.getData('a')))\n"
    attach(file, "py", LIBRARIES[module] + call, "out:3:double")
    with hyperchunk.open(file) as opened:
        assert opened["out"][0] == 1


STARTS_THREADS = """
import threading

def wait():
    threading.Event().wait()

for _ in range(3):
    threading.Thread(target=wait, daemon=True).start()

def value():
    return 7
"""


def test_threads_that_an_import_starts_are_left_behind(
    tmp_path: Path, scene: Any, attach: Any, profile: Any, monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    """The sandbox is set up around a forked copy of the process with a single thread."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "starts_threads.py").write_text(STARTS_THREADS)
    (site / "others.pth").write_text("\n".join(str(Path(m.__file__).parents[1]) for m in (np, hyperchunk)))
    monkeypatch.setenv("HYPERCHUNK_PYTHON", str(folder / "bin" / "python"))
    profile("self", "[grant]\nimports = ['starts_threads']\nsyscalls = ['threads']")
    file = scene(a=np.zeros(3))
    source = f"""
import starts_threads, threading
def dynamic_dataset():
    out = lib.getData("out")
    thread = threading.Thread(target=lambda: out.__setitem__(1, threading.active_count()))
    thread.start()
    thread.join()
    out[0] = starts_threads.value()
    try:
        open({str(data / "value.txt")!r})
    except PermissionError:
        out[2] = 1
"""
    attach(file, "py", source, "out:3:double")
    for _ in range(2):
        with hyperchunk.open(file) as opened:
            assert opened["out"][...].tolist() == [7, 2, 1]


WHERE = """
import os
def dynamic_dataset():
    out = lib.getData("out")
    out[0] = os.getuid() == os.geteuid()
    out[1] = os.getgid() == os.getegid()
    out[2] = float(open("value.txt").read())
    assert os.path.realpath("value.txt") == {data!r} + "/value.txt"
    assert os.getcwd() == {data!r}
"""


def test_relative_paths_and_who_one_is(
    scene: Any, attach: Any, profile: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths start at the reading process's working folder at the time of the read."""
    file = scene(a=np.zeros(3))
    attach(file, "py", WHERE.format(data=str(data)), "out:3:double")
    monkeypatch.chdir(data)
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.exceptions.UdfError, match="profile self"):
        opened["out"][...]
    profile("self", f"[grant]\nread = ['{data}']")
    with hyperchunk.open(file) as opened:
        assert opened["out"][...].tolist() == [1, 1, 42]
    # A warm worker follows the change.
    monkeypatch.chdir(data.parent)
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.exceptions.UdfError, match=r"value\.txt"):
        opened["out"][...]


LISTING_6 = """
from tifffile import TiffFile

def dynamic_dataset():
    tiff = TiffFile("ElevationGrid.tif")
    output = lib.getData("Band1")
    image = tiff.pages[0].asarray().flatten()
    shape = image.shape[0]
    output[0:shape] = image[:]
"""


def test_the_listing_of_the_paper_that_reads_a_geotiff(
    scene: Any, attach: Any, profile: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile = pytest.importorskip("tifffile")
    grid = np.arange(600, dtype="i2").reshape(20, 30)
    tifffile.imwrite(data / "ElevationGrid.tif", grid)
    monkeypatch.chdir(data)
    profile("self", f"[grant]\nread = ['{data}']\nimports = ['tifffile']")
    file = scene(a=np.zeros(3))
    attach(file, "py", LISTING_6, "Band1:20x30:int16")
    assert (read(file, "Band1") == grid).all()


OPENS = {
    "h5py": "import h5py\ndef values(path):\n    with h5py.File(path) as f: return f['t'][...], f['c'][2:4].sum()\n",
    "hyperchunk": "import hyperchunk\ndef values(path):\n"
    "    with hyperchunk.open(path) as f: return f['t'][...], f['c'][2:4].sum()\n",
}


@pytest.mark.parametrize("module", OPENS)
@pytest.mark.parametrize("threads", [False, True])
def test_functions_read_granted_hdf5_files(
    module: str, threads: bool, scene: Any, attach: Any, profile: Any, data: Path
) -> None:
    """The function reads a table in another file than the one being read."""
    with h5py.File(data / "table.h5", "w") as file:
        file["t"] = np.arange(5.0)
        file.create_dataset("c", data=np.arange(4000.0).reshape(4, 1000), chunks=(1, 100), compression="gzip")
    call = f"""
import numpy as np
def dynamic_dataset():
    table, total = values({str(data / "table.h5")!r})
    out = np.asarray(lib.getData("out"))
    out[:5] = table
    out[5] = total
"""
    syscalls = "['threads']" if threads else "[]"
    profile("self", f"[grant]\nread = ['{data}']\nimports = ['{module}']\nsyscalls = {syscalls}")
    path = scene(a=np.zeros(3))
    attach(path, "py", OPENS[module] + call, "out:6:double")
    assert read(path).tolist() == [0, 1, 2, 3, 4, np.arange(2000.0, 4000).sum()]


IS_LOADED = """
import sys
def dynamic_dataset():
    lib.getData("out")[0] = "color" + "sys"[:3] in sys.modules
"""


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        (IS_LOADED, 0),
        (IS_LOADED.replace("import sys", "import sys, colorsys"), 1),
        (IS_LOADED.replace("import sys", "import sys\nfrom colorsys import ONE_THIRD"), 1),
        (IS_LOADED.replace("import sys", "import sys\nexec('import colorsys as c')"), 1),
        (IS_LOADED.replace("import sys", "import sys\nthe_colorsystem = colorsys_ = 1"), 0),
    ],
)
def test_granted_imports_are_loaded_by_functions_that_name_them(
    text: str, loaded: int, scene: Any, attach: Any, profile: Any
) -> None:
    """Loading a large library would cost every dataset of the profile a second."""
    profile("self", "[grant]\nimports = ['colorsys']")
    file = scene(a=np.zeros(3))
    attach(file, "py", text, "out:3:double")
    with hyperchunk.open(file) as opened:
        assert opened["out"][0] == loaded


def test_a_granted_path_that_leads_elsewhere_is_refused(
    ada: Person, adas: Any, command: Any, profile: Any, data: Path
) -> None:
    path = adas("py", READS["py"].format(path=str(data / "value.txt")))
    link = data.parent / "link"
    link.symlink_to(data)
    assert command("trust", "add", ada.fingerprint, "--profile", "default").returncode == 0
    profile("default", f"[grant]\nread = ['{link}']")
    refused(path, "symbolic link", f"write {data}", "profile default")
    profile("default", f"[grant]\nread = ['{data}']")
    assert read(path)[0] == 42


CODE = """
import ctypes

def dynamic_dataset():
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
    code = bytes.fromhex("{code}")
    ctypes.memmove(at, code, len(code))
    lib.getData("out")[0] = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
"""
#: mov eax, 42; ret
ANSWER = "b82a000000c3"
#: socket(AF_INET, SOCK_STREAM, 0), and others of the list: another program, another process, a file.
CALLS = {
    "socket": "b829000000bf02000000be0100000031d20f05c3",
    "execve": "b83b00000031ff31f631d20f05c3",
    "fork": "b8390000000f05c3",
    "ptrace": "b86500000031ff31f631d20f05c3",
    "process_vm_readv": "b83601000031ff31f631d20f05c3",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_granted_machine_code_has_no_more_rights(ada: Person, adas: Any, command: Any, profile: Any) -> None:
    """Without the grant, memory cannot be made executable; with it, the code runs in the same sandbox."""
    answer = adas("py", CODE.format(code=ANSWER))
    attacks = {name: adas("py", CODE.format(code=code), name=f"{name}.h5") for name, code in CALLS.items()}
    profile("lab", "")
    assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0
    refused(answer, "tried to make memory executable", "profile lab")
    profile("lab", "[grant]\nsyscalls = ['jit']")
    assert read(answer)[0] == 42
    for name, file in attacks.items():
        refused(file, "stopped" if name == "socket" else "", "profile lab")
    assert "make machine code" in command("udf", "explain", f"{answer}:/out").stdout


NUMBA = """
import numba
import numpy as np

@numba.njit
def halve(a, out):
    for n in range(len(out)):
        out[n] = a[n] / 2 if a[n] > 0 else np.sqrt(-a[n])

def dynamic_dataset():
    halve(np.asarray(lib.getData("A")), np.asarray(lib.getData("out")))
"""


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba is not installed")
def test_numba(tmp_path: Path, config: Path, attach: Any, scene: Any) -> None:
    a = np.linspace(-2, 2, 1000)
    file = scene(A=a)
    own = config / "hyperchunk" / "profiles" / "self" / "profile.toml"
    own.parent.mkdir(parents=True)
    own.write_text("version = 1\n[grant]\nimports = ['numba']\nsyscalls = ['jit']\n")
    attach(file, "py", NUMBA, "out:1000:double", chunks="300")
    np.testing.assert_allclose(read(file), np.where(a > 0, a / 2, np.sqrt(np.abs(a))))
