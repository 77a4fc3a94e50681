"""Commands and functions that write files: an input is never written over, and nothing is without being told."""

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import _core
from hyperchunk.exceptions import InvalidError


def run(*arguments: str) -> int:
    return _core.run_command(["hyperchunk", *arguments])


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["keep/everything"] = np.arange(1000.0)
        file["a"] = np.arange(6.0)
    (tmp_path / "refs.json").write_text("{}")
    return tmp_path / "a.h5"


# How the same file is named: as it was, by its whole path, through `.`, a soft link, a hard link.
def named(source: Path, way: str, suffix: str) -> str:
    other = source.with_name(f"other.{suffix}")
    if way == "symlink":
        other.symlink_to("a.h5")
        return str(other)
    if way == "hardlink":
        os.link(source, other)
        return str(other)
    return {"same": "a.h5", "absolute": str(source), "dot": "./a.h5"}[way]


WAYS = ["same", "absolute", "dot", "symlink", "hardlink"]
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "get": lambda out: ["get", "a.h5", "/a", "-o", out],
    "index": lambda out: ["index", "a.h5", "-o", out],
    "kerchunk": lambda out: ["index", "a.h5", "--kerchunk", out],
    "virtualizarr": lambda out: ["index", "a.h5", "--virtualizarr", out],
    "file-url": lambda out: ["index", f"file://{Path('a.h5').absolute()}", "-o", out],
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_never_writes_over_its_input(
    source: Path, command: str, way: str, overwrite: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    before = source.read_bytes()
    arguments = COMMANDS[command](named(source, way, "h5"))
    assert run(*arguments, *["--overwrite"] * overwrite) == 1
    assert "is an input of this command" in capfd.readouterr().err
    assert source.read_bytes() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keyword", ["output", "kerchunk", "virtualizarr"])
def test_index_never_writes_over_its_input(source: Path, keyword: str, way: str) -> None:
    before = source.read_bytes()
    with pytest.raises(InvalidError, match="is an input"):
        hyperchunk.index("a.h5", overwrite=True, **{keyword: named(source, way, "json")})
    assert source.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_existing_output_needs_overwrite(source: Path, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("out.npy").write_text("notes")
    arguments = COMMANDS[command]("out.npy")
    assert run(*arguments) == 1
    assert "--overwrite replaces it" in capfd.readouterr().err
    assert Path("out.npy").read_text() == "notes"
    assert run(*arguments, "--overwrite") == 0
    assert Path("out.npy").read_bytes() != b"notes"


def test_references_that_are_read_are_an_input(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("index", "a.h5", "--from-kerchunk", "refs.json", "-o", "refs.json", "--overwrite") == 1
    assert "is an input" in capfd.readouterr().err
    assert Path("refs.json").read_text() == "{}"


def test_two_outputs_of_one_name(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("index", "a.h5", "--kerchunk", "x.json", "--virtualizarr", "x.json") == 1
    assert "two outputs" in capfd.readouterr().err
    assert not Path("x.json").exists()


@pytest.mark.parametrize("name", ["results.txt", "results.csv", "results", "results.npz"])
def test_unknown_suffix_lists_the_known_ones(source: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("get", "a.h5", "/a", "-o", name) == 1
    assert ".npy" in capfd.readouterr().err
    assert not Path(name).exists()


def test_usual_index_is_made_anew(source: Path) -> None:
    hyperchunk.index("a.h5")
    hyperchunk.index("a.h5")
    assert Path("a.h5.hcindex").exists()
