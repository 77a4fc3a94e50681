"""Errors and notes say what to do instead: misspelt names, words of other tools, files of other formats."""

from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with run.h5."""
    monkeypatch.chdir(tmp_path)
    with hyperchunk.open("run.h5", "w") as file:
        file["height"] = [1.0, 2.0]
        file["bands/Red"] = np.arange(12, dtype="u2").reshape(3, 4)
        file["bands/NIR"] = np.arange(12, dtype="u2").reshape(3, 4)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status", "advice"),
    [
        ("ls run.h5:/bands/Redd", 1, "did you mean /bands/Red?"),
        ("ls run.h5:/band/Red", 1, "did you mean /bands?"),
        ("ls run.h5:/nothing/like/it", 1, "`hyperchunk ls -r FILE` lists what there is"),
        ("get run.h5 /bands/red", 1, "did you mean /bands/Red?"),
        ("get run.h5", 2, "expected the path of a dataset after run.h5"),
        ("udf attach run.h5 --unsigned sum --expression heigth+1", 1, "did you mean height?"),
        ("query run.h5", 2, "try `hyperchunk store query`"),
        ("h5ls run.h5", 2, "try `hyperchunk ls`"),
        ("pack run.h5 new.h5 --filters gzip", 2, "deflate has that compression"),
        ("mv run.h5 /bands/Red /new/Red", 1, "-p makes missing groups of the new path"),
        ("set run.h5 /height 3", 2, "try `hyperchunk attr set` for an attribute; elements are changed in Python"),
        ("key new", 1, "you have a signing key already, which `hyperchunk key show` prints"),
        ("serve --flight --no-token run.h5:/bands", 1, "expected a file or a folder"),
        ("store status run.h5", 1, "expected the file of a store, got an ordinary HDF5 file"),
        ("store status none.h5", 1, "expected the file of a store, got no file"),
        ("ls none.h5", 1, "cannot open the file: No such file or directory (file none.h5)"),
    ],
)
def test_the_command_tells_what_to_do(folder: Path, command: Any, words: str, status: int, advice: str) -> None:
    done = command(*words.split())
    assert (done.returncode, done.stdout) == (status, "")
    assert advice in done.stderr


def test_get_takes_a_file_and_a_path_in_one_word(folder: Path, command: Any) -> None:
    assert command("get", "run.h5:/bands/Red").returncode == 0
    assert np.load(folder / "Red.npy").tolist() == np.arange(12).reshape(3, 4).tolist()


def test_functions_that_take_integers_from_their_inputs_have_a_note(folder: Path, command: Any) -> None:
    source = 'def dynamic_dataset():\n    lib.getData("ndvi")[:] = lib.getData("bands/Red")[:]\n'
    (folder / "ndvi.py").write_text(source)
    note = "note: ndvi has the type of its inputs, uint16, which has no fractions"
    assert note in command("udf", "attach", "run.h5", "ndvi.py").stderr
    described = command("udf", "attach", "run.h5", "ndvi.py", "ndvi:3x4:float", "--overwrite")
    assert (described.returncode, "note" in described.stderr) == (0, False)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"order": "columns"}, 'expected row, column, hilbert or dimensions such as [1, 0] for order, got "columns"'),
        ({"memory": "lots"}, 'expected a number of bytes, or a text such as 64MiB for memory, got "lots"'),
        ({"chunk": "auto"}, "expected a shape such as [64, 64], or a size such as"),
    ],
)
def test_restructure_tells_its_values(folder: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(hyperchunk.exceptions.InvalidError) as error:
        hyperchunk.restructure("run.h5", "/bands/Red", **options)
    assert str(error.value).startswith("cannot restructure: ")
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("start", "advice"),
    [
        (b"", "it is empty"),
        (b"CDF\x01" + bytes(100), "`nccopy -k nc4 OLD NEW` converts it"),
        (b"\n<!DOCTYPE html><html><body>Log in</body></html>", "it is an HTML page"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "it is an XML document"),
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "save it with -v7.3"),
        (b"version https://git-lfs.github.com/spec/v1\n", "`git lfs pull` fetches the file"),
    ],
)
def test_files_of_other_formats_are_named(folder: Path, start: bytes, advice: str) -> None:
    (folder / "other").write_bytes(start)
    with pytest.raises(hyperchunk.exceptions.NotHdf5Error, match="it has no HDF5 signature; ") as error:
        hyperchunk.open("other")
    assert advice in str(error.value)


def test_errors_of_the_system_keep_their_number(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory") as error:
        hyperchunk.open("none.h5")
    assert error.value.errno == 2
    assert "os error" not in str(error.value)


def test_open_tells_where_settings_of_stores_go(folder: Path) -> None:
    with pytest.raises(TypeError, match=r"pass settings of an object store as storage_options=\{'anonymous': …\}"):
        hyperchunk.open("s3://bucket/a.h5", anonymous=True)  # type: ignore[call-overload]
    with pytest.raises(FileNotFoundError, match=r"did you mean s3://bucket/a\.h5\?"):
        hyperchunk.open("s3:/bucket/a.h5")
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="edit a copy and send it back"):
        hyperchunk.open("s3://bucket/a.h5", "r+")


def test_a_refused_connection_names_the_server(folder: Path) -> None:
    options = {"endpoint": "http://127.0.0.1:9", "key": "a", "secret": "b", "region": "x"}
    with pytest.raises(OSError, match=r"no connection to the server 127\.0\.0\.1:9: ") as error:
        hyperchunk.open("s3://bucket/a.h5", storage_options=options, network={"retry_timeout": 0.1})
    assert "file s3://bucket/a.h5" in str(error.value)
