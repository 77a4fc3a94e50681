"""``hyperchunk index``, ``check`` and ``get`` on local files."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ReadError

BYTES_A_CHUNK = 30


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with chunks, strings, a compound and a contiguous dataset."""
    path = tmp_path / "stored.h5"
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        data = random.integers(0, 50, (200, 300), dtype="<i4")
        file.create_dataset("a/chunks", data=data, chunks=(10, 30), compression="gzip", shuffle=True)
        some = file.create_dataset("a/some", shape=(1000,), maxshape=(None,), chunks=(7,), dtype=">f8", fillvalue=2.5)
        some[100:150] = np.arange(50)
        file["plain"] = np.arange(60.0).reshape(3, 4, 5)
        file["pairs"] = np.array([(1, 2.5, b"x"), (3, 4.5, b"yz")], dtype=[("i", "i2"), ("f", "f8"), ("s", "S3")])
        file["truth"] = np.array([True, False, True])
        file["number"] = np.float32(7)
        file["text"] = "Zürich"
        file["plain"].attrs["unit"] = "metres"
    return path


def test_index(stored: Path, command: Any) -> None:
    """An index is small, is used, and is ignored once the file changes."""
    listed, dumped = command("ls", "-rl", stored).stdout, command("dump", "--digest", stored).stdout
    made = json.loads(command("index", stored, "--json").stdout)
    index = stored.with_name("stored.h5.hcindex")
    assert (made["index"], made["bytes"]) == (str(index), index.stat().st_size)
    assert made["chunks"] == 20 * 10 + 8
    assert made["table_bytes"] < BYTES_A_CHUNK * made["chunks"]
    for options in ([], ["--index", index], ["--index", "never"]):
        assert command("ls", "-rl", stored, *options).stdout == listed
        assert command("dump", "--digest", stored, *options).stdout == dumped
    os.utime(stored, (0, 0))
    done = command("ls", "-rl", stored)
    assert (done.returncode, done.stdout) == (0, listed)
    assert "the index is not used" in done.stderr
    done = command("ls", stored, "--index", index)
    assert done.returncode == 1
    assert "make it again" in done.stderr
    index.write_bytes(b"nonsense")
    assert "not an index" in command("ls", stored).stderr


def test_index_in_the_cache(stored: Path, command: Any, tmp_path: Path) -> None:
    """No file is written beside the source."""
    place = tmp_path / "elsewhere.hcindex"
    assert command("index", stored, "-o", place).returncode == 0
    assert command("ls", stored, "--index", place).returncode == 0
    assert [path.name for path in tmp_path.glob("*.h5*")] == ["stored.h5"]
    assert command("index", stored, "-o", tmp_path / "no" / "folder").returncode == 1


def test_index_as_a_function(stored: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function makes the same index, and returns the command's JSON as a dictionary."""
    monkeypatch.setenv("HYPERCHUNK_INDEX_CACHE", str(tmp_path / "cache"))
    printed = json.loads(command("index", stored, "--json").stdout)
    beside = stored.with_name("stored.h5.hcindex")
    expected = beside.read_bytes()
    beside.unlink()
    made = hyperchunk.index(stored)
    assert (made, beside.read_bytes()) == (printed, expected)
    assert (made["chunks"], made["left_out"], made["errors"], made["not_in_references"]) == (208, 0, [], [])
    with hyperchunk.open(stored) as file:
        assert file.index == str(beside)
    beside.unlink()
    place = tmp_path / "elsewhere.hcindex"
    assert hyperchunk.index(str(stored), place)["index"] == str(place)
    cached = hyperchunk.index(stored, cache=True)["index"]
    assert cached is not None
    assert (Path(cached).parent, Path(cached).read_bytes()) == (tmp_path / "cache", expected)
    assert (place.read_bytes(), beside.exists()) == (expected, False)
    with pytest.raises(ValueError, match="output and cache cannot be combined"):
        hyperchunk.index(stored, place, cache=True)
    with pytest.raises(ReadError, match="cannot write"):
        hyperchunk.index(stored, tmp_path / "no" / "folder")
    with stored.open("rb") as raw, pytest.raises(ValueError, match="set output"):
        hyperchunk.index(raw)
    with pytest.raises(TypeError, match="index is not supported here"):
        hyperchunk.index(stored, index="never")


def test_references_as_a_function(stored: Path, command: Any, tmp_path: Path) -> None:
    """The function writes the same references as the command, without an index; and reads them back."""
    by_command, by_function = tmp_path / "command.json", tmp_path / "function.json"
    assert command("index", stored, "--kerchunk", by_command, "--name", "s3://b/x.h5").returncode == 0
    made = hyperchunk.index(stored, kerchunk=by_function, name="s3://b/x.h5")
    assert made["index"] is None
    assert made["not_in_references"] == [] or all(set(one) == {"path", "why"} for one in made["not_in_references"])
    assert by_function.read_bytes() == by_command.read_bytes()
    again = hyperchunk.index(stored, tmp_path / "a.hcindex", from_kerchunk=by_function, name="s3://b/x.h5")
    assert again["chunks"] == made["chunks"]


def test_check_as_a_function(stored: Path, command: Any) -> None:
    """The function returns the command's JSON."""
    printed = json.loads(command("check", stored, "--json", "--latency", 50, "--bandwidth", 10).stdout)
    found = hyperchunk.check(stored, latency=50, bandwidth=10)
    assert found == printed
    assert (found["latency_ms"], found["datasets"]["/a/chunks"]["chunks"]) == (50.0, 200)
    assert hyperchunk.check(str(stored))["list"]["seconds"] < found["list"]["seconds"]
    with stored.open("rb") as raw:
        assert hyperchunk.check(raw, latency=50, bandwidth=10)["datasets"] == found["datasets"]
    for wrong in (-1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="negative"):
            hyperchunk.check(stored, latency=wrong)
    with pytest.raises(FileNotFoundError):
        hyperchunk.check(stored.with_name("none.h5"))


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        ("a/chunks", ""),
        ("a/chunks", "3"),
        ("a/chunks", "5:180:7, ::-0"),
        ("a/chunks", "-20:, 10:20"),
        ("a/chunks", "..., 5"),
        ("a/some", "90:160"),
        ("plain", "1:, ..., 0"),
        ("pairs", ""),
        ("truth", "1:"),
        ("number", ""),
        ("plain", "0:0"),
    ],
)
def test_get(dataset: str, text: str, stored: Path, command: Any, tmp_path: Path) -> None:
    """The output, read by NumPy, equals h5py's values."""
    output = tmp_path / "out.npy"
    done = command("get", stored, dataset, "-o", output, "--slice", text, "--memory", 1000)
    if "-0" in text:
        assert (done.returncode, output.exists()) == (1, False)
        return
    assert (done.returncode, done.stderr) == (0, "")
    with h5py.File(stored) as file:
        expected = file[dataset][eval(f"numpy.s_[{text}]", {"numpy": np}) if text else ...]
    found = np.load(output)
    np.testing.assert_array_equal(found, expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)


def test_references(stored: Path, command: Any, tmp_path: Path) -> None:
    """References give HDF5's chunk locations, and can be converted back to an index."""
    refs, manifests = tmp_path / "refs.json", tmp_path / "manifests.json"
    done = command("index", stored, "--kerchunk", refs, "--virtualizarr", manifests, "--name", "s3://b/k")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("left out of the references") == done.stderr.count("\n") == 1
    assert "/text" in done.stderr
    assert not list(tmp_path.glob("*.hcindex"))
    kerchunk, virtual = (json.loads(path.read_text()) for path in (refs, manifests))
    with h5py.File(stored) as file:
        for name in ("a/chunks", "a/some"):
            ids = [file[name].id.get_chunk_info(number) for number in range(file[name].id.get_num_chunks())]
            chunk = file[name].chunks
            keys = [".".join(str(at // dim) for at, dim in zip(each.chunk_offset, chunk, strict=True)) for each in ids]
            places = {key: (each.byte_offset, each.size) for key, each in zip(keys, ids, strict=True)}
            found = {key: tuple(kerchunk["refs"][f"{name}/{key}"][1:]) for key in keys}
            manifest = virtual[name]["manifest"]
            assert places == found == {key: (each["offset"], each["length"]) for key, each in manifest.items()}
    assert kerchunk["refs"]["a/chunks/0.0"][0] == virtual["a/chunks"]["manifest"]["0.0"]["path"] == "s3://b/k"
    array = json.loads(kerchunk["refs"]["a/some/.zarray"])
    assert (array["dtype"], array["fill_value"], array["chunks"], array["filters"]) == (">f8", 2.5, [7], None)
    assert json.loads(kerchunk["refs"]["plain/.zattrs"])["unit"] == "metres"

    own, taken = tmp_path / "own.hcindex", tmp_path / "taken.hcindex"
    assert command("index", stored, "-o", own).returncode == 0
    assert command("index", stored, "-o", taken, "--from-kerchunk", refs).returncode == 0
    assert own.read_bytes() == taken.read_bytes()
    kerchunk["refs"]["a/chunks/0.0"][1] = stored.stat().st_size
    refs.write_text(json.dumps(kerchunk))
    done = command("index", stored, "-o", taken, "--overwrite", "--from-kerchunk", refs)
    assert (done.returncode, "do not fit the file" in done.stderr) == (1, True)


def test_get_refuses(stored: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed command leaves no files."""
    monkeypatch.chdir(tmp_path)
    for arguments, message in [
        ((stored, "text"), "variable-length strings"),
        ((stored, "nothing"), "no link"),
        ((stored, "a"), "not a dataset"),
        ((stored, "plain", "-o", "no/out.h5"), "no/out.h5"),
        ((stored, "plain", "--slice", "1,2,3,4"), "at most 3 slices"),
        ((stored, "plain", "--slice", "3"), "out of range for extent 3"),
        ((stored, "plain", "-o", "no/out.npy"), "no/out.npy"),
    ]:
        done = command("get", *arguments)
        assert done.returncode == 1
        assert message in done.stderr
    assert not list(tmp_path.glob("*.npy")) + list(tmp_path.glob(".*")) + list(tmp_path.glob("*.h5*"))[1:]


@pytest.mark.parametrize("text", ["", "3", "5:180:7", "-20:, 10:20", "..., 5", "0:0"])
def test_get_into_hdf5(text: str, stored: Path, command: Any, tmp_path: Path) -> None:
    """The dataset, or a selection of it, with its chunks, compression and attributes."""
    output = tmp_path / "part.h5"
    done = command("get", stored, "a/chunks", "-o", output, "--slice", text, "--memory", 1000)
    assert (done.returncode, done.stderr) == (0, "")
    with h5py.File(stored) as file, h5py.File(output) as made:
        old, new = file["a/chunks"], made["a/chunks"]
        expected = old[eval(f"numpy.s_[{text}]", {"numpy": np}) if text else ...]
        np.testing.assert_array_equal(new[...], expected)
        assert (new.dtype, new.shape) == (expected.dtype, expected.shape)
        assert dict(new.attrs) == dict(old.attrs)
        if expected.size:
            assert new.chunks is not None
            assert new.compression == old.compression
        assert list(made) == ["a"]


def test_every_type_into_hdf5(stored: Path, command: Any, tmp_path: Path) -> None:
    """Variable-length strings and sequences, compounds, and attributes that refer to other objects."""
    with h5py.File(stored, "r+") as file:
        ragged = file.create_dataset("ragged", (3,), h5py.vlen_dtype("i4"))
        ragged[:] = [np.arange(n, dtype="i4") for n in (2, 0, 3)]
        file["scale"] = np.arange(4)
        file["scale"].make_scale("x")
        file["ragged"].attrs["words"] = ["one", "two"]
        file["ragged"].attrs["there"] = file["scale"].ref
        names = [name for name, item in file.items() if isinstance(item, h5py.Dataset) and item.shape is not None]
    for name in names:
        output = tmp_path / f"{name}.out.h5"
        done = command("get", stored, name, "-o", output)
        assert done.returncode == 0, done.stderr
        with h5py.File(stored) as file, h5py.File(output) as made:
            old, new = file[name], made[name]
            assert (new.dtype, new.shape) == (old.dtype, old.shape)
            for a, b in zip(np.ravel(old[()]), np.ravel(new[()]), strict=True):
                np.testing.assert_array_equal(a, b)
            left_out = {"there", "REFERENCE_LIST", "DIMENSION_LIST"} & set(old.attrs)
            assert set(new.attrs) == set(old.attrs) - left_out
            assert all(f"attribute {attribute} refers to other objects" in done.stderr for attribute in left_out)
            for key in new.attrs:
                np.testing.assert_array_equal(new.attrs[key], old.attrs[key])
    with h5py.File(stored, "r+") as file:
        file["references"] = np.array([file["scale"].ref], h5py.ref_dtype)
    done = command("get", stored, "references", "-o", tmp_path / "references.h5")
    assert (done.returncode, "cannot extract references" in done.stderr) == (1, True)
    assert not (tmp_path / "references.h5").exists()


def test_check(stored: Path, command: Any, tmp_path: Path) -> None:
    """Costs are reported; serious findings are named and make the command fail."""
    done = command("check", stored, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["fit"] is True
    assert set(report["datasets"]) == {"/a/chunks", "/a/some", "/plain", "/pairs", "/truth", "/number", "/text"}
    chunks = report["datasets"]["/a/chunks"]
    assert (chunks["chunk"], chunks["chunks"], chunks["bytes"]) == ([10, 30], 200, 240_000)
    assert chunks["whole"]["bytes_needed"] >= chunks["stored"] > chunks["slice"]["bytes_needed"] / 10
    assert 1 <= chunks["slice"]["round_trips"] <= chunks["whole"]["round_trips"]
    slow = json.loads(command("check", stored, "--json", "--latency", 250).stdout)
    assert slow["list"]["seconds"] > report["list"]["seconds"] * 5
    assert "fit for object stores" in command("check", stored).stdout

    bad = tmp_path / "bad.h5"
    with h5py.File(bad, "w") as file:
        file.create_dataset("x", data=np.arange(100), external=[(str(tmp_path / "raw"), 0, 800)])
        random = np.random.default_rng(1).integers(0, 256, 4 << 20, dtype="u1")
        file.create_dataset("noise", data=random, chunks=(1 << 12,), compression="gzip")
    done = command("check", bad, "--json")
    assert (done.returncode, "not fit" in done.stderr) == (1, True)
    kinds = {finding["kind"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert kinds["external data"]["weight"] == "serious"
    assert kinds["useless compression"]["paths"] == kinds["small chunks"]["paths"] == ["/noise"]
