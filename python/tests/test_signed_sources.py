"""A signature covers the locations of inputs: an external link, a source of a virtual dataset, an external raw file."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import run_python

LUA = "function dynamic_dataset() local a, o = lib.getData('a'), lib.getData('out') for i = 1, 4 do o[i] = a[i] end end"
CHANGED = r"it comes from .*(now, and came from|its file was changed)"


def link(file: h5py.File, name: str) -> None:
    file["a"] = h5py.ExternalLink(f"{name}.h5", "x")


def soft(file: h5py.File, name: str) -> None:
    file["there"] = h5py.ExternalLink(f"{name}.h5", "/")
    file["a"] = h5py.SoftLink("/there/x")


def virtual(file: h5py.File, name: str) -> None:
    layout = h5py.VirtualLayout((4,), "f8")
    layout[...] = h5py.VirtualSource(f"{name}.h5", "x", (4,))
    file.create_virtual_dataset("a", layout)


def nested(file: h5py.File, name: str) -> None:
    """Makes a virtual dataset over one in this file with external data."""
    raw(file, name, "inner")
    layout = h5py.VirtualLayout((4,), "f8")
    layout[...] = h5py.VirtualSource(".", "inner", (4,))
    file.create_virtual_dataset("a", layout)


def raw(file: h5py.File, name: str, dataset: str = "a") -> None:
    file.create_dataset(dataset, (4,), "f8", external=[(f"{name}.bin", 0, 32)])


def here(file: h5py.File, name: str) -> None:
    file["a"] = np.full(4, 1.0)


WAYS = (link, soft, virtual, nested, raw)
Way = Callable[[h5py.File, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files that may hold an input."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("one", 1.0), ("two", 2.0)):
        with h5py.File(f"{name}.h5", "w") as file:
            file["x"] = np.full(4, value)
        np.full(4, value).tofile(f"{name}.bin")
    return tmp_path


def changed(path: str, way: Way, name: str) -> None:
    """Changes only the location of the input."""
    with h5py.File(path, "r+") as file:
        for old in {"a", "inner", "there"} & set(file):
            del file[old]
        way(file, name)


def values(path: str, reader: str, dataset: str = "out") -> Any:
    """Reads in a separate process; returns the values or the error."""
    code = f"""
import hyperchunk
hyperchunk.plugins.enable()
import h5py
with {reader}({path!r}) as file:
    try: print(file[{dataset!r}][...].tolist())
    except (OSError, hyperchunk.HyperchunkError) as error: print(error)
"""
    return run_python(code, path).stdout.strip()


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
@pytest.mark.parametrize("way", WAYS)
def test_where_an_input_leads_is_signed(way: Way, reader: str, folder: Path, attach: Any) -> None:
    with h5py.File("m.h5", "w") as file:
        way(file, "one")
    attach(folder / "m.h5", "lua", LUA, "out:4:double")
    hyperchunk.udf.attach("m.h5", outputs="sum", expression="a + 1")
    assert values("m.h5", reader) == "[1.0, 1.0, 1.0, 1.0]"
    assert values("m.h5", reader, "sum") == "[2.0, 2.0, 2.0, 2.0]"
    changed("m.h5", way, "two")
    for dataset in ("out", "sum"):
        assert re.search(CHANGED, said := values("m.h5", reader, dataset)), said
    assert all(re.search(CHANGED, str(verdict)) for verdict in hyperchunk.udf.verify("m.h5"))
    # Changed back, and another way to the same location.
    changed("m.h5", way, "one")
    assert values("m.h5", reader) == "[1.0, 1.0, 1.0, 1.0]"


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
@pytest.mark.parametrize("way", WAYS)
def test_one_of_the_file_itself_leads_nowhere(way: Way, reader: str, folder: Path, attach: Any) -> None:
    """An input in the file itself must not be redirected elsewhere; an older record without locations has the same
    version.
    """
    with h5py.File("m.h5", "w") as file:
        here(file, "")
    (record,) = attach(folder / "m.h5", "lua", LUA, "out:4:double")
    assert record["api_version"] == 3
    changed("m.h5", way, "two")
    assert re.search(CHANGED, said := values("m.h5", reader)), said
    # Values in the file are not signed, as for inputs in general.
    changed("m.h5", here, "")
    assert values("m.h5", reader) == "[1.0, 1.0, 1.0, 1.0]"


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
@pytest.mark.parametrize("way", [way for way in WAYS if way is not soft])
def test_a_file_elsewhere_is_not_replaced_by_one_beside(way: Way, reader: str, folder: Path, attach: Any) -> None:
    """An input named by its absolute path, after the file was copied to another folder with a file of that name."""
    with h5py.File("m.h5", "w") as file:
        way(file, str(folder / "one"))
    attach(folder / "m.h5", "lua", LUA, "out:4:double")
    hyperchunk.udf.attach("m.h5", outputs="sum", expression="a + 1")
    (folder / "copy").mkdir()
    shutil.copy("m.h5", "copy/m.h5")
    for suffix in (".h5", ".bin"):
        shutil.copy(f"two{suffix}", f"copy/one{suffix}")
    assert values("m.h5", reader) == "[1.0, 1.0, 1.0, 1.0]"
    for dataset in ("out", "sum"):
        said = values("copy/m.h5", reader, dataset)
        assert re.search(r"outside this file's folder \(`inputs` of the profile\)", said), said
        assert str(folder / "one") in said, said
    if way not in (raw, nested) or reader != "h5py.File":
        # Once it is not there, the one beside is read, as by libhdf5; raw data by hyperchunk alone.
        Path("one.h5").unlink()
        Path("one.bin").unlink()
        assert values("copy/m.h5", reader) == "[2.0, 2.0, 2.0, 2.0]"


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
def test_attributes_too(reader: str, folder: Path) -> None:
    for name in ("one", "two"):
        with h5py.File(f"{name}.h5", "r+") as file:
            file["x"].attrs["scale"] = 2.0
    with h5py.File("m.h5", "w") as file:
        file["b"] = np.ones(4)
        link(file, "one")
    hyperchunk.udf.attach("m.h5", outputs="out", expression="b * a@scale")
    assert values("m.h5", reader) == "[2.0, 2.0, 2.0, 2.0]"
    changed("m.h5", link, "two")
    assert re.search(CHANGED, said := values("m.h5", reader)), said


def test_a_file_that_is_written_is_looked_at_again(folder: Path, attach: Any) -> None:
    with h5py.File("m.h5", "w") as file:
        link(file, "one")
    attach(folder / "m.h5", "lua", LUA, "out:4:double", chunks="2")
    with h5py.File("m.h5", "r+") as file:
        assert file["out"][:2].tolist() == [1, 1]
        del file["a"]
        link(file, "two")
        with pytest.raises(OSError, match=CHANGED):
            file["out"][2:]


def test_the_record_says_so(folder: Path, attach: Any) -> None:
    with h5py.File("m.h5", "w") as file:
        soft(file, "one")
    (record,) = attach(folder / "m.h5", "lua", LUA, "out:4:double")
    assert record["sources"] == {"a": [["one.h5", "/x"]]}
    assert record["api_version"] == 8
    # A new signature covers the new location.
    changed("m.h5", soft, "two")
    hyperchunk.udf.rebuild("m.h5", "out")
    assert values("m.h5", "h5py.File") == "[2.0, 2.0, 2.0, 2.0]"


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
def test_a_link_to_a_pipe_is_not_waited_for(reader: str, folder: Path, attach: Any) -> None:
    with h5py.File("m.h5", "w") as file:
        link(file, "one")
    attach(folder / "m.h5", "lua", LUA, "out:4:double", unsigned=True)
    os.mkfifo("pipe.h5")
    changed("m.h5", link, "pipe")
    code = values("m.h5", reader)
    assert "no regular file" in code or re.search(CHANGED, code), code
