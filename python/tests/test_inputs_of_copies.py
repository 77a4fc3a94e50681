"""Copies of live datasets read what has their inputs' names in the new file: a note tells if that is another one."""

import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from stored_records import fit_stubs, put_record, record_of


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two files, each with a dataset, one in a group, and the double of both."""
    monkeypatch.chdir(tmp_path)
    names = ["mon.h5", "tue.h5"]
    for number, name in enumerate(names):
        with h5py.File(name, "w") as file:
            file["a"] = np.full(4, number + 1.0)
            file["g/b"] = np.full(4, 10.0 * (number + 1))
        hyperchunk.udf.attach(name, outputs="twice", expression="a * 2")
        hyperchunk.udf.attach(name, outputs="g/both", expression="a + a")
    return names


def test_packing_several_files_names_live_datasets_with_other_inputs(days: list[str], command: Any) -> None:
    done = command("pack", *days, "week.h5", "--json")
    assert done.returncode == 0, done.stderr
    notes = [note for note in json.loads(done.stdout)["notes"] if "live dataset" in note]
    # Nothing has the name /a in the new file.
    assert len(notes) == 4
    assert all("reads a, which is not in this file" in note for note in notes)
    assert any(note.startswith("live dataset /tue/twice ") for note in notes)
    done = command("pack", *days, "again.h5", "--verify")
    assert done.returncode == 1
    assert "input a of the live dataset is missing" in done.stderr
    # With the names of the first file, the datasets of the second one read those of the first.
    done = command("pack", *days, "merged.h5", "--into", "/", "--into", "/tue")
    assert done.returncode == 0, done.stderr
    assert "/tue/twice reads a, which is another dataset in this file: attach it again" in done.stderr
    assert "/twice reads" not in done.stderr.replace("/tue/twice", "")
    assert "another one there" in command("pack", *days, "m2.h5", "--into", "/", "--into", "/tue", "--verify").stderr
    # A single file is the same as before.
    done = command("pack", days[0], "one.h5", "--verify")
    assert (done.returncode, done.stderr) == (0, "")


def test_copying_a_live_dataset_without_its_inputs_is_noted(days: list[str], command: Any) -> None:
    first, second = days
    done = command("cp", f"{first}:/twice", f"{second}:/copy", "--json")
    assert done.returncode == 0, done.stderr
    (note,) = json.loads(done.stdout)["notes"]
    assert note.startswith("live dataset /copy reads a, which was not copied with it")
    done = command("cp", f"{first}:/twice", "new.h5:/x/y", "-p")
    assert "live dataset /x/y reads a, which is not in this file" in done.stderr
    # A copy within the file reads what the original reads; a copy of everything has its own inputs.
    assert command("cp", f"{first}:/twice", f"{first}:/again").stderr == ""
    assert "reads a, and not its copy" in command("cp", f"{first}:/", f"{first}:/all").stderr
    done = command("cp", first, "whole.h5:/mon")
    assert "live dataset /mon/twice reads a, which is not in this file" in done.stderr


def test_moving_and_removing_an_input_is_noted(days: list[str], command: Any) -> None:
    first, second = days
    done = command("mv", first, "/a", "/moved")
    assert done.returncode == 0
    assert "live dataset /twice reads a, which is not there any more" in done.stderr
    assert command("mv", first, "/moved", "/a").stderr == ""
    # The name of the live dataset itself does not matter, nor do other datasets.
    assert command("mv", first, "/twice", "/double").stderr == ""
    assert command("rm", first, "/g/b").stderr == ""
    done = command("mv", second, "/g/b", "/a", "--overwrite")
    assert "live dataset /twice reads a, which is another dataset now" in done.stderr
    done = command("rm", first, "/a")
    assert "live dataset /double reads a" in done.stderr
    # Live datasets that go with their inputs need no note.
    assert command("rm", "-r", second, "/a", "/twice", "/g").stderr == ""


@pytest.mark.parametrize("fits", [False, True])
def test_a_changed_record_is_damage(days: list[str], fits: bool, command: Any) -> None:
    """`salvage` compares the record with the digest in the chunks, and checks its signature."""
    with h5py.File(days[0], "r+") as file:
        record = record_of(file["twice"]).replace(b"a * 2", b"a * 3")
        put_record(file["twice"], record)
        if fits:
            fit_stubs(file["twice"])
    report = hyperchunk.salvage(days[0], "good.h5")
    found = {item.path: item for item in report.objects}
    assert not report.whole
    assert found["/twice"].condition == "lost"
    assert ("signature" if fits else "it was changed") in found["/twice"].reason
    assert found["/g/both"].condition == "whole"
    assert found["/g/both"].checked == "checksum"
    done = command("salvage", days[1], "-o", "whole.h5")
    assert (done.returncode, done.stderr) == (0, "")
