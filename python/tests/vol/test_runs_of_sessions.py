"""Sessions of a known number of writers: one after the other, interrupted, repeated, under launchers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers

RANK = """
    import h5py, sys
    with h5py.File("a.h5", sys.argv[2]) as f:
        f.require_dataset("x", (4,), "i8")[int(sys.argv[1])] = int(sys.argv[3])
        f["of run %s by %s" % (sys.argv[3], sys.argv[1])] = 1
"""
KILLED = """
    import h5py, os, sys
    f = h5py.File("a.h5", sys.argv[2])
    f.require_dataset("x", (4,), "i8")[int(sys.argv[1])] = int(sys.argv[3])
    f["killed"] = 1
    f.flush()
    os._exit(9)
"""
READ = "import h5py; print(list(h5py.File('a.h5', 'r')))"


def rank(number: int, mode: str, run: int, folder: Path, code: str = RANK) -> None:
    env = hyperchunk.plugins.environment(store=True, writers=4, session="job")
    process = helpers.start(code, number, mode, run, folder=folder, env=env)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (9 if code == KILLED else 0), err


def names(folder: Path) -> list[str]:
    with h5py.File(folder / "a.h5") as file:
        return sorted(file)


def expected(run: int) -> list[str]:
    return sorted([f"of run {run} by {number}" for number in range(4)] + ["x"])


def commit(folder: Path) -> None:
    subprocess.run([helpers.command(), "store", "commit", "a.h5"], cwd=folder, env=helpers.clean(), check=True)


@pytest.mark.parametrize("between", ["read", "commit"])
def test_ranks_that_run_one_after_the_other_make_one_file(between: str, tmp_path: Path) -> None:
    for run in (1, 2):
        for number in range(4):
            if number == 2 and between == "commit":
                commit(tmp_path)
            elif number == 2:
                env = hyperchunk.plugins.environment()
                process = helpers.start(READ, folder=tmp_path, env=env)
                _, err = process.communicate(timeout=60)
                assert process.returncode != 0
                assert "2 of the 4 writers of its session have closed it" in err
                with pytest.raises(hyperchunk.HyperchunkError, match="2 of 4 writers have closed it, 0 are at work"):
                    hyperchunk.open(tmp_path / "a.h5")
            rank(number, "w", run, tmp_path)
        assert names(tmp_path) == expected(run)
        with h5py.File(tmp_path / "a.h5") as file:
            assert file["x"][:].tolist() == [run] * 4


def test_a_program_that_adds_to_an_incomplete_session_sees_it(tmp_path: Path) -> None:
    rank(0, "w", 1, tmp_path)
    look = "import h5py; f = h5py.File('a.h5', 'a'); f['seen'] = len(f); f.close()"
    helpers.run(look, folder=tmp_path, store=True)
    for number in range(1, 4):
        rank(number, "w", 1, tmp_path)
    assert names(tmp_path) == sorted([*expected(1), "seen"])


def test_what_a_killed_program_flushed_is_not_in_the_file_that_replaces_it(tmp_path: Path) -> None:
    code = """
        import h5py, os
        f = h5py.File("a.h5", "w")
        f["old"], f.attrs["old"] = 1, 1
        f.flush()
        os._exit(9)
    """
    process = helpers.start(code, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
    process.communicate(timeout=60)
    assert process.returncode == 9
    helpers.run("import h5py; h5py.File('a.h5', 'w')['new'] = 1", folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file) == ["new"]
        assert not file.attrs


@pytest.mark.parametrize("killed", [0, 3])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_run_that_repeats_an_interrupted_one(killed: int, mode: str, tmp_path: Path) -> None:
    if mode == "a":
        helpers.run("import h5py; h5py.File('a.h5', 'w')['before'] = 1", folder=tmp_path, store=True)
    for number in range(4):
        rank(number, mode, 1, tmp_path, KILLED if number == killed else RANK)
    # All ranks of the second run are at work at once.
    hold = RANK + '        print("open", flush=True); input()\n'
    env = hyperchunk.plugins.environment(store=True, writers=4, session="job")
    ranks = [helpers.start(hold, number, mode, 2, folder=tmp_path, env=env) for number in range(4)]
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in ranks:
        _, err = process.communicate("\n", timeout=60)
        # The data that both runs added to one epoch differ.
        assert process.returncode == 0 or (mode == "a" and "do not agree" in err), err
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:].tolist() == [2] * 4
    if mode == "w":
        assert names(tmp_path) == expected(2)
    else:
        assert {"before", *expected(2)} <= set(names(tmp_path))


def test_only_a_killed_rank_is_repeated(tmp_path: Path) -> None:
    for number in range(4):
        rank(number, "w", 1, tmp_path, KILLED if number == 1 else RANK)
    rank(1, "w", 1, tmp_path)
    assert set(expected(1)) <= set(names(tmp_path))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:].tolist() == [1] * 4


def test_a_job_of_slurm(tmp_path: Path) -> None:
    code = "import h5py, sys; f = h5py.File('a.h5', 'w'); f[sys.argv[1]] = 1; f.close()"

    def run(name: str, **variables: str) -> None:
        env = hyperchunk.plugins.environment(store=True) | {"SLURM_JOB_ID": "9", **variables}
        helpers.finish(helpers.start(code, name, folder=tmp_path, env=env))

    # A program that the batch script starts itself is alone, whatever the job asked for.
    run("alone", SLURM_NTASKS="2", SLURM_PROCID="0")
    assert names(tmp_path) == ["alone"]
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "4"}
    run("first", SLURM_PROCID="0", **step)
    # The other rank is lost, and the job is queued again.
    for number in (0, 1):
        run(f"again {number}", SLURM_PROCID=str(number), SLURM_RESTART_COUNT="1", **step)
    assert names(tmp_path) == ["again 0", "again 1"]
