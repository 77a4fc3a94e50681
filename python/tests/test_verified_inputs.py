"""``udf verify`` says whether the inputs of live datasets could be read here, without running anything."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file outside of its folder `data`."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(4.0)
    np.arange(4.0).tofile(tmp_path / "other.bin")
    return tmp_path


def virtual(file: h5py.File, other: str) -> None:
    layout = h5py.VirtualLayout((4,), "f8")
    layout[...] = h5py.VirtualSource(other, "x", (4,))
    file.create_virtual_dataset("a", layout, fillvalue=-1)


def raw(file: h5py.File, other: str) -> None:
    file.create_dataset("a", (4,), "f8", external=[(other.replace(".h5", ".bin"), 0, 32)])


def link(file: h5py.File, other: str) -> None:
    file["a"] = h5py.ExternalLink(other, "x")


@pytest.mark.parametrize("way", [virtual, raw, link])
def test_inputs_outside_of_the_permitted_folder(way: Any, folder: Path, command: Any) -> None:
    with h5py.File("m.h5", "w") as file:
        way(file, str(folder / "other.h5"))
    hyperchunk.udf.attach("m.h5", outputs="sum", expression="a + 1")
    done = command("udf", "verify", "m.h5")
    assert done.returncode == 3
    assert "(`inputs` of the profile)" in done.stdout
    with (
        hyperchunk.open("m.h5") as opened,
        pytest.raises(hyperchunk.HyperchunkError, match=r"\(`inputs` of the profile\)"),
    ):
        opened["sum"][...]


def test_a_missing_source_is_the_fill_value(folder: Path, command: Any) -> None:
    """A virtual dataset whose source exists nowhere, as an input: as h5py reads it."""
    with h5py.File("m.h5", "w") as file:
        virtual(file, "nothere.h5")
    hyperchunk.udf.attach("m.h5", outputs="sum", expression="a + 1")
    assert command("udf", "verify", "m.h5").returncode == 0
    with hyperchunk.open("m.h5") as opened:
        assert opened["sum"][...].tolist() == [0, 0, 0, 0]


def test_a_live_input_that_does_not_run(command: Any, scene: Any, attach: Any) -> None:
    file = scene(a=np.arange(4.0))
    attach(file, "lua", "function dynamic_dataset() lib.getData('a'); lib.getData('one')[1] = 1 end")
    hyperchunk.udf.attach(file, outputs="two", expression="one * 2")
    assert command("udf", "verify", file).returncode == 0
    with h5py.File(file, "r+") as opened:
        del opened["a"]
    done = command("udf", "verify", f"{file}:/two")
    assert done.returncode == 3
    assert (
        "input one: it is a live dataset that does not run here: input a: it is not in the file"
        in done.stdout.replace('"', "")
    )


def test_a_cycle_and_a_long_chain(command: Any, scene: Any) -> None:
    file = scene(a=np.arange(4.0))
    names = ["a", *(f"x{n}" for n in range(10))]
    for before, name in pairwise(names):
        hyperchunk.udf.attach(file, outputs=name, expression=f"{before} + 1")
    done = command("udf", "verify", file)
    assert done.returncode == 3
    lines = {line.split("\t")[0]: line for line in done.stdout.splitlines()}
    # The profile's `chain_depth` is 8.
    assert all("runs here" in lines[f"/x{n}"] for n in range(8))
    assert all("chain_depth" in lines[f"/x{n}"] for n in (8, 9))
    with hyperchunk.open(file) as opened:
        assert opened["x7"][0] == 8
        with pytest.raises(hyperchunk.HyperchunkError, match="chain_depth"):
            opened["x8"][0]
    with h5py.File(file, "r+") as opened:
        del opened["a"]
        opened["a"] = opened["x3"]
    done = command("udf", "verify", f"{file}:/x0")
    assert (done.returncode, "form a cycle" in done.stdout) == (3, True)
