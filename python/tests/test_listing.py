"""Output of `ls` and `dump`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

COMMAND = Path(sys.executable).with_name("hyperchunk")


def run(*arguments: Any, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("listing") / "scene.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "data", data=np.random.default_rng(1).integers(0, 4, (30, 50)), chunks=(10, 25), compression="gzip"
        )
        file["one"] = np.arange(3)
        file.create_dataset("chunk", data=[1], chunks=(1,))
        group = file.create_group("group")
        file["group/inner"] = np.arange(24).reshape(2, 3, 4)
        data.attrs["unit"] = "K"
        data.attrs["scale"] = 0.5
        data.attrs["range"] = [1, 2, 3]
        data.attrs["many"] = np.arange(100)
        data.attrs["empty"] = h5py.Empty("f4")
        group.attrs["points at"] = data.ref
        group.attrs["part"] = data.regionref[2:4, 5:8]
        file.create_dataset("references", data=[data.ref, group.ref, file["group/inner"].ref], dtype=h5py.ref_dtype)
        regions = [data.regionref[0:2, 3:5], data.regionref[0, :], data.regionref[[1, 3], 0]]
        file.create_dataset("regions", data=regions, dtype=h5py.regionref_dtype)
        file.create_dataset("none", (2,), h5py.ref_dtype)
    return path


def test_attributes_have_values(path: Path) -> None:
    shown = run("ls", "-l", path)
    assert '@unit: scalar string = "K"' in shown
    assert "@scale: scalar float64 = 0.5" in shown
    assert "@range: (3,) int64 = [1, 2, 3]" in shown
    assert "@many: (100,) int64 = [0, 1, 2," in shown
    assert "19, …]" in shown
    assert "@empty: null float32\n" in shown
    assert "@points at: scalar object reference = /data" in shown
    assert "@part: scalar region reference = /data {(2,5)-(3,7)}" in shown
    for flag in ("-H", "-A", "--header", "--onlyattr"):
        header = run("dump", flag, path)
        assert '(0): "K"' in header
        assert "(0): /data {(2,5)-(3,7)}" in header
        assert "(0,0):" not in header


def test_sizes_and_plurals(path: Path) -> None:
    with h5py.File(path) as file:
        stored = file["data"].id.get_storage_size()
    shown = run("ls", "-l", path)
    assert f"; 6 chunks, {stored / 1000:.2f} kB of 12.0 kB ({stored * 100 // 12000} %)" in shown
    assert "; 1 chunk, 8 B of 8 B (100 %)" in shown


def test_references_are_paths(path: Path) -> None:
    assert "(0): /data, /group, /group/inner" in run("dump", f"{path}:/references")
    regions = run("dump", f"{path}:/regions")
    assert "/data {(0,3)-(1,4)}" in regions
    assert "/data {(0,0)-(0,49)}" in regions
    assert "NULL, NULL" in run("dump", f"{path}:/none")
    values = json.loads(run("dump", "--json", f"{path}:/references"))["objects"]["/references"]["value"]
    assert values == ["/data", "/group", "/group/inner"]


SLICES = [
    ("0:2, 1, ::2", np.s_[0:2, 1:2, ::2]),
    ("-1", np.s_[1:2]),
    ("..., 3", np.s_[..., 3:4]),
    ("0,0,0;1,1,1;2,2,2;1,1,1", np.s_[0:2, 0:2, 0:2]),
    ("1,0,1;1,2,2;1,2,2", np.s_[1:2, 0:4:2, 1:5:2]),
    ("0,1,0;1,1,4;1,1,1;2,2,4", np.s_[0:2, 1:3, 0:4]),
    ("1,1,1", np.s_[1:2, 1:2, 1:2]),
]


@pytest.mark.parametrize(("text", "index"), SLICES, ids=[text for text, _ in SLICES])
def test_slices(path: Path, text: str, index: Any) -> None:
    target = f"{path}:/group/inner"
    expected = np.arange(24).reshape(2, 3, 4)[index]
    found = json.loads(run("dump", "--json", "-s", text, target))["objects"]["/group/inner"]["value"]
    assert np.array_equal(found, expected)
    shown = run("dump", "-s", text, target)
    assert "SUBSET {" in shown
    places = [place for place in np.ndindex(2, 3, 4) if np.ravel_multi_index(place, (2, 3, 4)) in expected]
    assert f"({','.join(map(str, places[0]))}): {expected.flat[0]}" in shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9", "out of range for extent 2"),
        ("0,0,0;1,1,1;2,2,9", "exceeds the extent, 4"),
        ("0,0,0;0,1,1", "select nothing"),
        ("0,0;1,1", "expected 3 numbers"),
        ("0,0,0;1,1,3;1,1,2;1,1,2", "exceeds the extent, 4|gaps"),
        ("x;1", "expected a number"),
        ("0:1,0,0,0", "at most 3 slices"),
    ],
)
def test_slices_that_are_wrong(path: Path, text: str, why: str) -> None:
    import re

    assert re.search(why, run("dump", "-s", text, f"{path}:/group/inner", status=1))


def test_a_slice_is_of_one_dataset(path: Path) -> None:
    assert "one dataset" in run("dump", "-s", "0", path, status=1)


def test_json(path: Path) -> None:
    listed = json.loads(run("ls", "--json", path))
    objects = listed["objects"]
    assert set(objects) == {
        "/", "/chunk", "/data", "/group", "/none", "/one", "/references", "/regions"
    }  # fmt: skip
    data = objects["/data"]
    assert data["shape"] == [30, 50]
    assert data["chunk"] == [10, 25]
    assert data["chunks"] == 6
    assert data["bytes"] == 12000
    assert data["attributes"]["scale"]["value"] == 0.5
    assert data["attributes"]["unit"]["value"] == "K"
    assert "value" not in data
    assert objects["/group"] == objects["/group"] | {"kind": "group", "members": 1}
    assert "/group/inner" in json.loads(run("ls", "-r", "--json", path))["objects"]
    assert list(json.loads(run("ls", "--json", f"{path}:/one"))["objects"]) == ["/one"]


def test_colours(path: Path) -> None:
    assert "\x1b[" in run("ls", "--color=always", path)
    assert "\x1b[" in run("ls", "--color=always", path, NO_COLOR="1")
    assert "\x1b[" in run("ls", "--colour", "always", path)
    for option in ((), ("--color=auto",), ("--color=never",)):
        assert "\x1b[" not in run("ls", *option, path)
    assert "\x1b[" in run("check", "--color", "always", path)


COMMANDS = ("ls", "dump", "get", "check", "pack", "restructure", "index", "recover", "store commit", "udf attach")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_wrapped_once(command: str) -> None:
    shown = run(*command.split(), "--help", COLUMNS="100").splitlines()
    assert max(map(len, shown)) <= 100
    for line, following in pairwise(shown):
        # A line that ends early within a paragraph was wrapped twice.
        if line and following and not line.startswith(" ") and not following.startswith((" ", "-")) and line[-1] != ":":
            assert len(line) + 1 + len(following.split(" ")[0]) > 100, (line, following)


def test_a_missing_object_says_how_to_find_others(path: Path) -> None:
    assert "hyperchunk ls -r FILE" in run("ls", f"{path}:/absent", status=1)
