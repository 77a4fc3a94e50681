"""The module with h5py's names: constants, snippets and installation, compared with h5py in other processes."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk.h5py
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent / "h5py_module"
SNIPPETS = sorted([*(FOLDER / "snippets").glob("*.py"), *(FOLDER / "programs").glob("*.py")])
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases" / "h5py-snippets"
PROGRAMS = [*SNIPPETS, *sorted(SHARED.glob("s*.py"))]
# Low-level modules, whose constants are compared.
MODULES = [
    "h5",
    "h5a",
    "h5ac",
    "h5d",
    "h5ds",
    "h5f",
    "h5fd",
    "h5g",
    "h5i",
    "h5l",
    "h5o",
    "h5p",
    "h5pl",
    "h5r",
    "h5s",
    "h5t",
    "h5z",
]
# Constants that depend on the drivers with which libhdf5 was built.
BUILT = {"h5fd": {"DIRECT", "MPIO", "MPIPOSIX", "ROS3D", "WINDOWS", "FAMILY", "LOG", "MULTI", "SEC2", "STDIO", "CORE"}}

NAMES = """
import importlib, json, sys
module = importlib.import_module
if sys.argv[1] == "hyperchunk":
    import hyperchunk.h5py
    hyperchunk.h5py.install()
import h5py
found = {"": {name: None for name in dir(h5py) if not name.startswith("_")}}
for name in sys.argv[2:]:
    part = module("h5py." + name)
    found[name] = {
        key: getattr(part, key) if isinstance(getattr(part, key), int) else None
        for key in dir(part)
        if not key.startswith("_")
    }
    kinds = [getattr(part, key) for key in found[name] if isinstance(getattr(part, key), type)]
    for kind in kinds:
        if kind.__module__.endswith("h5py." + name):
            found[name + "." + kind.__name__] = {key: None for key in dir(kind) if not key.startswith("_")}
json.dump(found, sys.stdout)
"""


def run(*arguments: str | Path, folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a Python program."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=check)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Outputs of the snippets with h5py and with the module."""
    folder = tmp_path_factory.mktemp("snippets")
    told = [run(FOLDER / "run_snippets.py", who, *PROGRAMS, folder=folder) for who in ("h5py", "hyperchunk")]
    first, second = (json.loads(one.stdout) for one in told)
    return first, second


@pytest.mark.parametrize("name", [program.stem for program in PROGRAMS])
def test_snippet_prints_the_same(outputs: tuple[dict[str, str], dict[str, str]], name: str) -> None:
    if name == "s23_hdf5plugin":
        pytest.importorskip("hdf5plugin")
    theirs, ours = (re.sub(r"0x[0-9a-f]+|at \d{6,}", "…", found[name]) for found in outputs)
    assert ours == theirs
    assert "Error:" not in theirs


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Names and constants of h5py and of the module."""
    folder = tmp_path_factory.mktemp("names")
    told = [run("-c", NAMES, who, *MODULES, folder=folder) for who in ("h5py", "hyperchunk")]
    first, second = (json.loads(one.stdout) for one in told)
    return first, second


def test_public_names_are_all_there(names: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]) -> None:
    theirs, ours = names
    assert set(theirs[""]) - set(ours[""]) <= {"atexit", "defs", "utils"}


@pytest.mark.parametrize("module", MODULES)
def test_constants_are_equal(names: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]], module: str) -> None:
    theirs, ours = names
    wanted = {key: value for key, value in theirs[module].items() if isinstance(value, int) and key.isupper()}
    found = {key: ours[module].get(key) for key in wanted}
    for key in BUILT.get(module, ()):
        assert isinstance(found.pop(key), int)
        del wanted[key]
    assert found == wanted


def test_names_that_only_the_module_has_lead_to_it() -> None:
    code = (
        "import h5py, hyperchunk, hyperchunk.h5py\n"
        "for name in dir(h5py):\n"
        "    if name in hyperchunk.h5py.__all__ and name not in dir(hyperchunk) and name != 'filters':\n"
        "        try: print('there:', getattr(hyperchunk, name))\n"
        "        except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 25
    assert [
        line
        for line in lines
        if not line.endswith("use `import hyperchunk.h5py as h5py` in programs that are written for h5py")
    ] == []


def test_missing_function_names_itself() -> None:
    code = "import hyperchunk.h5py as h; h.install(); import h5py; h5py.h5f.clear_elink_file_cache"
    told = run("-c", code, folder=Path("/"), check=False)
    assert "h5py.h5f.clear_elink_file_cache" in told.stderr
    code = (
        "import hyperchunk.h5py as h\n"
        "try: h.h5d.fill\n"
        "except NotImplementedError as error: print(error)\n"
        "print(hasattr(h.h5d, 'fill'))"
    )
    assert run("-c", code, folder=Path("/")).stdout.splitlines()[-1] == "False"


def test_install_works_without_h5py_and_is_undone(tmp_path: Path) -> None:
    code = """
import sys
import hyperchunk.h5py
with hyperchunk.h5py.install():
    import h5py
    import h5py._hl.dataset
    from h5py import h5d
    assert h5py is hyperchunk.h5py and h5py._hl.dataset.Dataset is h5py.Dataset
    with h5py.File("a.h5", "w") as file:
        file["x"] = [1, 2]
        print(file["x"], file["x"].id.__class__)
assert not [name for name in sys.modules if name.split(".")[0] == "h5py"]
assert "h5py" not in str([module.__file__ for name, module in sys.modules.items() if name.startswith("h5py")])
import h5py
print(h5py is hyperchunk.h5py)
try:
    hyperchunk.h5py.install()
except RuntimeError as error:
    print("h5py itself is imported" in str(error))
"""
    told = run("-c", code, folder=tmp_path).stdout.splitlines()
    assert told[0].startswith('<HDF5 dataset "x": shape (2,), type "<i8"> <class \'h5py.h5d.DatasetID\'>')
    assert told[1:] == ["False", "True"]


def test_program_runs_unmodified(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nimport h5py\nprint(h5py.version.info.splitlines()[0], sys.argv[1:])\n")
    told = run("-m", "hyperchunk.h5py", program, "--flag", folder=tmp_path)
    assert told.stdout == "Hyperchunk's module with h5py's names ['--flag']\n"
    assert "usage" in run("-m", "hyperchunk.h5py", folder=tmp_path, check=False).stderr


def test_object_closed_with_its_handle(tmp_path: Path) -> None:
    code = """
import hyperchunk.h5py as h5py
with h5py.File("a.h5", "w") as file:
    file["x"] = 1
    with h5py.File("a.h5", "r") as again:
        inner = again["x"]
    try:
        inner[()]
    except ValueError as error:
        print(repr(inner), file["x"][()])
class Mine(h5py.File):
    pass
with Mine("b.h5", "w") as file:
    print(type(file).__name__, file.mode)
"""
    assert run("-c", code, folder=tmp_path).stdout == "<Closed HDF5 dataset> 1\nMine r+\n"


def test_swmr_writer_is_followed_by_h5py(tmp_path: Path) -> None:
    code = """
import subprocess, sys
import hyperchunk.h5py as h5py
file = h5py.File("a.h5", "w", libver="latest")
data = file.create_dataset("x", (0,), "i4", maxshape=(None,), chunks=(4,))
file.swmr_mode = True
follower = '''
import sys, h5py
data = h5py.File("a.h5", "r", swmr=True)["x"]
for _ in sys.stdin:
    data.refresh()
    print(data.shape[0], data[:].sum(), flush=True)
'''
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
with subprocess.Popen([sys.executable, "-c", follower], **pipes) as reader:
    for rows in (3, 8, 21):
        data.resize((rows,))
        data[:] = 1
        data.flush()
        reader.stdin.write("\\n")
        reader.stdin.flush()
        print(reader.stdout.readline().strip())
    reader.stdin.close()
file.close()
"""
    assert run("-c", code, folder=tmp_path).stdout == "3 3\n8 8\n21 21\n"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"libver": "v108"},
        {"libver": "v110", "userblock_size": 512},
        {"fs_strategy": "fsm", "fs_persist": True},
        {"fs_strategy": "fsm", "fs_threshold": 10, "userblock_size": 512},
        {"fs_strategy": "page", "fs_page_size": 8192, "fs_persist": True, "fs_threshold": 7},
        {"fs_strategy": "page", "libver": "latest", "userblock_size": 8192},
        {"fs_strategy": "aggregate"},
        {"fs_strategy": "none"},
    ],
    ids=str,
)
def test_creation_properties_of_files(tmp_path: Path, options: dict[str, Any]) -> None:
    def told(module: Any, path: Path, mode: str, **options: Any) -> list[Any]:
        with module.File(path, mode, **options) as file:
            found = file.id.get_create_plist()
            space = (found.get_file_space_strategy(), found.get_file_space_page_size())
            return [found.get_version(), *space, found.get_userblock()]

    told(h5py, tmp_path / "a.h5", "w", **options)
    for mode in ("r", "r+"):
        assert told(hyperchunk.h5py, tmp_path / "a.h5", mode) == told(h5py, tmp_path / "a.h5", mode)
    if options.get("fs_strategy") in (None, "page") and not options.get("fs_persist"):
        # Over another file, whose properties are not the new one's. The oldest superblock is not written.
        wanted = told(h5py, tmp_path / "a.h5", "r")
        wanted[0] = wanted[0] if options else (2, 0, 0, 0)
        with h5py.File(tmp_path / "b.h5", "w", fs_strategy="none"):
            pass
        assert told(hyperchunk.h5py, tmp_path / "b.h5", "w", **options) == wanted
        for module in (h5py, hyperchunk.h5py):
            assert told(module, tmp_path / "b.h5", "r") == wanted


def test_space_of_a_virtual_dataset(tmp_path: Path) -> None:
    found = []
    for library in (h5py, hyperchunk.h5py):
        with library.File(tmp_path / "a.h5", "w") as file:
            made = file.create_virtual_dataset("v", library.VirtualLayout((4,), "i4"))
            found.append((made.id.get_storage_size(), made.id.get_space_status()))
        with library.File(tmp_path / "a.h5") as file:
            found.append((file["v"].id.get_storage_size(), file["v"].id.get_space_status()))
    assert found == found[:1] * 4


def test_missing_attribute_of_a_known_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No search for the object's path: anndata asks each new dataset for attributes that it does not have."""

    class Without:
        def attribute(self, _: bytes) -> None:
            return None

        def attribute_count(self) -> int:
            return 0

        def attribute_names(self) -> list[str]:
            return []

    with hyperchunk.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("g/x", data=1)
        monkeypatch.setattr(hyperchunk.attributes.AttributeManager, "_object", Without())
        with pytest.raises(KeyError, match="object /g/x, file"):
            data.attrs["none"]


def test_links_are_looked_for_in_every_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.h5py.File(path, "w") as file:
        file["g/x"] = 1
        file["soft"] = hyperchunk.h5py.SoftLink("/nowhere")
    for mode in ("r", "r+", "a"):
        for library in (h5py, hyperchunk.h5py):
            with library.File(path, mode) as file:
                links = file.id.links
                found = [links.exists(name) for name in (b"g", b"none", b"soft", b"g/x", b"g/none", b"/", b".")]
                assert found == [True, False, True, True, False, True, False], (library.__name__, mode)


def test_arguments_that_mean_nothing_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    hyperchunk.h5py.File(path, "w").close()
    with pytest.raises(ValueError, match="libver"):
        hyperchunk.h5py.File(path, libver="zzz")
    with pytest.raises(ValueError, match="User block"):
        hyperchunk.h5py.File(path, userblock_size=512)
    with pytest.raises(ValueError):
        hyperchunk.h5py.h5z.filter_avail(99_999)
    url = "https://localhost:1/a.h5"
    for keys in (
        {"aws_region": b"eu"},
        {"aws_region": b"", "secret_id": b"", "secret_key": b"", "session_token": None},
    ):
        with pytest.raises(OSError, match="localhost"):
            hyperchunk.h5py.File(url, driver="ros3", **keys)
    with pytest.raises(NotImplementedError, match="s3://BUCKET/KEY"):
        hyperchunk.h5py.File(url, driver="ros3", secret_id=b"a", secret_key=b"b")


def test_views_are_pickled(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        file["n"] = [1, 2]
        file["n"].attrs["unit"] = "m"
    with hyperchunk.open(path) as file:
        views = (file["n"].astype("f4"), file["x"].fields("a"), file["x"].fields(["b"]), file["n"].attrs)
        astype, member, members, attrs = pickle.loads(pickle.dumps(views))
        assert (astype.dtype, astype[...].tolist()) == (np.dtype("f4"), [1, 2])
        assert (member[...].tolist(), members[...].tolist()) == ([1], [(2.5,)])
        assert dict(attrs) == {"unit": "m"}
