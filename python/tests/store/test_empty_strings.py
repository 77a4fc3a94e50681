"""NULL and empty variable-length strings stay distinct."""

import ctypes
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store


def handles(path: Path, name: str) -> list[str]:
    """Returns the strings read by libhdf5: NULL, or the text."""
    with h5py.File(path) as file:
        dataset = file[name]
        count = dataset.size
        # Through the pointers that H5Dread returns.
        library = ctypes.CDLL(_library())
        read = library.H5Dread
        read.argtypes = [ctypes.c_int64] * 5 + [ctypes.c_void_p]
        pointers = (ctypes.c_void_p * count)()
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(h5py.h5t.VARIABLE)
        kind.set_cset(dataset.id.get_type().get_cset())
        assert read(dataset.id.id, kind.id, 0, 0, 0, pointers) >= 0
        return ["NULL" if not pointer else repr(ctypes.string_at(pointer)) for pointer in pointers]


def _library() -> str:
    """Returns h5py's libhdf5: netCDF4 may have loaded another one."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    found = {line.split()[-1] for line in lines if "libhdf5" in line and "_hl" not in line}
    of_h5py = sorted(path for path in found if "/h5py" in path)
    assert found, "no libhdf5 is loaded"
    return of_h5py[0] if of_h5py else found.pop()


def run(*arguments: Any) -> str:
    done = subprocess.run([HYPERCHUNK, *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def make(path: Path, seed: int) -> list[str]:
    """Makes strings of which some are empty and some unwritten, so NULL."""
    chance = random.Random(seed)
    with h5py.File(path, "w") as file:
        count = chance.randrange(1, 40)
        chunks = chance.choice([None, (chance.randrange(1, count + 1),)])
        dataset = file.create_dataset("s", (count,), h5py.string_dtype(), chunks=chunks)
        for at in range(count):
            if (what := chance.randrange(3)) > 0:
                dataset[at] = "" if what == 1 else f"text {at}"
        file.attrs["empty"] = ""
        file.attrs["some"] = "x"
    return handles(path, "s")


@pytest.mark.parametrize("seed", range(20))
def test_pack_keeps_both(seed: int, tmp_path: Path) -> None:
    expected = make(tmp_path / "a.h5", seed)
    run("pack", "--verify", tmp_path / "a.h5", tmp_path / "b.h5")
    assert handles(tmp_path / "b.h5", "s") == expected
    digests = [json.loads(run("dump", "--digest", tmp_path / name)) for name in ("a.h5", "b.h5")]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("seed", range(20))
def test_a_commit_keeps_what_a_writer_wrote(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    texts = [chance.choice(["", "", "text"]) for _ in range(chance.randrange(1, 30))]
    made = store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "f4")}, sync="never")
    with made.writer() as writer:
        writer["/x"][...] = 1
        writer.structure.create_dataset("s", data=np.array(texts, object), dtype=h5py.string_dtype())
        writer.structure.attrs["empty"] = ""
    made.commit()
    assert handles(tmp_path / "a.h5", "s") == [repr(text.encode()) for text in texts]
    run("pack", "--verify", tmp_path / "a.h5", tmp_path / "b.h5")
    assert handles(tmp_path / "b.h5", "s") == [repr(text.encode()) for text in texts]


def test_the_writer_writes_empty_strings(tmp_path: Path) -> None:
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        file.create_dataset("s", data=np.array(["", "b", ""], object), dtype=hyperchunk.string_dtype())
    assert handles(tmp_path / "a.h5", "s") == ["b''", "b'b'", "b''"]


def test_digests_tell_them_apart(tmp_path: Path) -> None:
    for name, texts in (("null", [None, "b"]), ("empty", ["", "b"])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            dataset = file.create_dataset("s", (2,), h5py.string_dtype())
            for at, text in enumerate(texts):
                if text is not None:
                    dataset[at] = text
    null, empty = (
        json.loads(run("dump", "--digest", tmp_path / f"{name}.h5"))["objects"]["/s"] for name in ("null", "empty")
    )
    # To readers that show both as empty, the values are the same.
    assert null["digest"] == empty["digest"]
    assert "nulls" in null
    assert "nulls" not in empty


@pytest.mark.parametrize("value", ["", "missing", "ü" * 40])
def test_fill_values_are_copied_by_export_and_get(tmp_path: Path, value: str) -> None:
    source, back, part = tmp_path / "a.h5", tmp_path / "back.h5", tmp_path / "part.h5"
    with h5py.File(source, "w") as file:
        dataset = file.create_dataset("s", (8,), h5py.string_dtype(), chunks=(2,), maxshape=(None,), fillvalue=value)
        dataset[1] = "one"
    run("store", "export", source, "--tree", tmp_path / "tree")
    run("store", "import", tmp_path / "tree", back)
    run("get", source, "/s", "-o", part)
    for path in (back, part):
        with h5py.File(path, "r+") as file:
            dataset = file["s"]
            assert dataset.fillvalue == value.encode()
            assert dataset.asstr()[...].tolist() == [value, "one"] + [value] * 6
            if dataset.maxshape == (None,):
                dataset.resize((9,))
                assert dataset.asstr()[8] == value


def test_strings_whose_shuffle_has_no_parameter_are_committed_and_packed(tmp_path: Path) -> None:
    # HDF5 cannot filter variable-length elements, and skips the filter for each chunk.
    code = """
import h5py
with h5py.File("a.h5", "w") as file:
    options = {"chunks": (2,), "shuffle": True, "dtype": h5py.string_dtype()}
    file.create_dataset("s", data=["a", "bb", "c"], **options)
    file.create_dataset("z", data=["a", "bb", "c"], compression=4, **options)
"""
    env = os.environ | hyperchunk.plugins.environment(store=True)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)
    run("store", "pack", tmp_path / "a.h5", tmp_path / "packed.h5")
    run("pack", tmp_path / "packed.h5", tmp_path / "again.h5", "--verify")
    for name in ("a.h5", "packed.h5", "again.h5"):
        with h5py.File(tmp_path / name) as file:
            assert file["s"].asstr()[...].tolist() == file["z"].asstr()[...].tolist() == ["a", "bb", "c"]
