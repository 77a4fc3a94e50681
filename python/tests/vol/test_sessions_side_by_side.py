"""Sessions that follow each other while another program has the store open."""

from __future__ import annotations

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers

OPENED = """
    import h5py
    f = h5py.File("a.h5", "a")
    print("open", flush=True)
    input()
"""
ROWS = """
    import h5py
    with h5py.File("a.h5", "w") as f:
        f.create_dataset("row", (0,), "i8", maxshape=(None,))
        f["x"] = [0, 0, 0]
        f.attrs["k"] = 0
"""


def opened(then: str, folder: Path) -> subprocess.Popen[str]:
    """Starts a program that has the store open, and goes on after a line of input."""
    code = helpers.dedent(OPENED) + helpers.dedent(then) + "\nf.close()\n"
    process = helpers.start(code, folder=folder, env=hyperchunk.plugins.environment(store=True))
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def go_on(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate("\n", timeout=120)
    return process.returncode, out, err


def command(*words: object, folder: Path) -> str:
    done = subprocess.run(
        [helpers.command(), *map(str, words)],
        cwd=folder,
        env=helpers.clean(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_rows_of_a_closed_session_are_seen_though_an_epoch_was_made_meanwhile(tmp_path: Path) -> None:
    helpers.run(ROWS, folder=tmp_path, store=True)
    idle = opened("", tmp_path)
    first = opened("f['row'].resize((1,)); f['row'][0] = 11", tmp_path)
    assert go_on(opened("f['other'] = 1", tmp_path))[0] == 0
    command("store", "commit", "a.h5", folder=tmp_path)
    assert go_on(first)[0] == 0
    second = opened("n = f['row'].shape[0]; f['row'].resize((n + 1,)); f['row'][n] = 22", tmp_path)
    assert go_on(second)[0] == 0
    assert go_on(idle)[0] == 0
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["row"][:].tolist() == [11, 22]


def test_the_last_of_several_sessions_wins(tmp_path: Path) -> None:
    for trial in range(4):
        folder = tmp_path / str(trial)
        folder.mkdir()
        helpers.run(ROWS, folder=folder, store=True)
        idle = opened("", folder)
        code = """
            import h5py
            for n in (1, 2, 3):
                with h5py.File("a.h5", "a") as f:
                    f["x"][0] = n
                    f.attrs["k"] = n
        """
        helpers.run(code, folder=folder, store=True)
        # The order is not recorded, so it is reported as a conflict.
        assert "do not agree" in go_on(idle)[2]
        with h5py.File(folder / "a.h5") as file:
            assert (file["x"][0], file.attrs["k"]) == (3, 3)


@pytest.mark.parametrize("between", ["nothing", "commit", "another program"])
def test_a_commit_between_the_writers_of_a_session(tmp_path: Path, between: str) -> None:
    create = "import h5py; h5py.File('a.h5', 'w').create_dataset('x', (4,), 'i4'); "
    helpers.run(create, folder=tmp_path, store=True)
    rank = "import h5py, sys; r = int(sys.argv[1]); f = h5py.File('a.h5', 'a'); f['x'][r] = r + 1; f.close()"
    for number in range(8):
        if number in (2, 5):
            if between == "commit":
                command("store", "commit", "a.h5", folder=tmp_path)
            elif between == "another program":
                helpers.run(
                    "import h5py, sys; f = h5py.File('a.h5', 'a'); f[sys.argv[1]] = 1; f.close()",
                    f"note {number}",
                    folder=tmp_path,
                    store=True,
                )
        helpers.run(rank, number % 4, folder=tmp_path, store=True, writers=4, session="job")
        if number in (3, 7):
            with h5py.File(tmp_path / "a.h5") as file:
                assert file["x"][:].tolist() == [1, 2, 3, 4]
