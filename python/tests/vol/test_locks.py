"""Files that are open in other programs: HDF5's refusals apply, and none of their writes is lost."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers

MAKE = 'import h5py\nwith h5py.File("a.h5", "w") as f: f["d"], f["s"] = [0, 1, 2], 1\n'

HAS_OPEN = """
    import h5py, sys
    f = h5py.File("a.h5", sys.argv[1])
    print("open", flush=True)
    sys.stdin.readline()
    if sys.argv[1] != "r":
        f["late"] = 7
    f.close()
"""


@contextlib.contextmanager
def open_elsewhere(folder: Path, mode: str, *, store: bool, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Opens the file in another process, whose last action happens at the end, or when a line is sent."""
    variables = hyperchunk.plugins.environment(store=True) if store else {}
    process = helpers.start(HAS_OPEN, mode, folder=folder, env=variables | env)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    helpers.finish(process)


def begin_anew(folder: Path, **env: str) -> str:
    code = 'import h5py\nwith h5py.File("a.h5", "w") as f: f["n"] = 1\n'
    variables = hyperchunk.plugins.environment(store=True) | env
    process = helpers.start(code, folder=folder, env=variables)
    _, err = process.communicate(timeout=60)
    assert (process.returncode == 0) == (not err), err
    return err


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("store", [True, False])
def test_a_file_that_is_open_elsewhere_is_not_begun_anew(mode: str, *, store: bool, tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    with open_elsewhere(tmp_path, mode, store=store):
        assert "unable to truncate a file which is already open" in begin_anew(tmp_path)
    with h5py.File(tmp_path / "a.h5") as f:
        assert set(f) == ({"d", "s"} if mode == "r" else {"d", "s", "late"})
    assert not begin_anew(tmp_path)
    with h5py.File(tmp_path / "a.h5") as f:
        assert list(f) == ["n"]


def test_a_file_that_this_process_reads_is_not_begun_anew(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    code = """
        import h5py
        f = h5py.File("a.h5", "r", locking=False)
        try:
            h5py.File("a.h5", "w", locking=False)
        except OSError as error:
            print("already open" in str(error))
        assert f["d"][:].tolist() == [0, 1, 2]
        f.close()
        h5py.File("a.h5", "w", locking=False).close()
    """
    assert helpers.run(code, folder=tmp_path, store=True) == "True\n"


def test_processes_begin_a_file_anew_together(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    code = """
        import h5py, sys
        with h5py.File("a.h5", "w") as f:
            print("open", flush=True)
            sys.stdin.readline()
            f[f"of{sys.argv[1]}"] = 1
    """
    env = hyperchunk.plugins.environment(store=True)
    several = [helpers.start(code, number, folder=tmp_path, env=env) for number in range(4)]
    for process in several:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n", process.communicate()[1]
    for process in several:
        helpers.finish(process)
    with h5py.File(tmp_path / "a.h5") as f:
        assert list(f) == ["of0", "of1", "of2", "of3"]


WRITE = 'import h5py\nwith h5py.File("a.h5", "a") as f: f["mine"] = 1\n'


def test_a_commit_does_not_replace_what_a_plain_program_writes_to(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    path = tmp_path / "a.h5"
    code = """
        import h5py, sys
        f = h5py.File("a.h5", "a")
        f["mine"] = 1
        print("open", flush=True)
        sys.stdin.readline()
        f.close()
    """
    ours = helpers.start(code, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
    assert ours.stdout is not None
    assert ours.stdout.readline() == "open\n"
    with open_elsewhere(tmp_path, "a", store=False):
        _, err = ours.communicate(timeout=60)
        assert ours.returncode != 0 or "has it locked" in err
        assert "hyperchunk store commit" in err
        commit = [helpers.command(), "store", "commit", path]
        refused = subprocess.run(commit, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "has it locked" in refused.stderr
        # It is not read while it changes, either.
        started = helpers.start(WRITE, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
        assert "has it locked" in started.communicate(timeout=60)[1]
    subprocess.run(commit, check=True)
    with h5py.File(path) as f:
        assert set(f) == {"d", "s", "late", "mine"}
        assert f["late"][()] == 7
        assert f["d"][:].tolist() == [0, 1, 2]


def test_a_commit_waits_a_little(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    with open_elsewhere(tmp_path, "a", store=False) as other:
        started = helpers.start(WRITE, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(timeout=1)
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        helpers.finish(started)
    with h5py.File(tmp_path / "a.h5") as f:
        assert set(f) == {"d", "s", "late", "mine"}


def test_readers_keep_no_commit_from_being_made(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    for store in (True, False):
        with open_elsewhere(tmp_path, "r", store=store):
            name = f"of{store}"
            helpers.run(
                f'import h5py\nwith h5py.File("a.h5", "a") as f: f["{name}"] = 1\n', folder=tmp_path, store=True
            )
    with h5py.File(tmp_path / "a.h5") as f:
        assert set(f) == {"d", "s", "ofTrue", "ofFalse"}


def test_locks_are_ignored_on_request(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    with open_elsewhere(tmp_path, "r", store=False):
        assert not begin_anew(tmp_path, HDF5_USE_FILE_LOCKING="FALSE")
    with h5py.File(tmp_path / "a.h5") as f:
        assert list(f) == ["n"]
