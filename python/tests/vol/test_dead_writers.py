"""Flushed data of a killed program: later sessions find them complete, below their own writes."""

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import hyperchunk.store
import pytest

from vol import helpers

MAKE = """
    import h5py, numpy as np
    with h5py.File("a.h5", "w") as f:
        f["d"], f["s"], f.attrs["n"] = np.zeros(4), 0, 0
        f.create_dataset("t", (0,), "i8", maxshape=(None,), chunks=(4,))
        f.create_group("g")
"""


def killed(code: str, folder: Path, options: str = "") -> None:
    """Runs a session that flushes the effects of `code`, continues, and is killed."""
    program = f"""
import h5py, numpy as np, os, signal
f = h5py.File("a.h5", "a")
{helpers.dedent(code)}
f.flush()
f["unflushed"] = 1
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = hyperchunk.plugins.environment(store=True)
    env["HDF5_VOL_CONNECTOR"] += options
    process = helpers.start(program, folder=folder, env=env)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -9, err


def session(code: str, folder: Path, mode: str = "a", options: str = "", **variables: str) -> str:
    program = f'import h5py, numpy as np\nwith h5py.File("a.h5", "{mode}") as f:\n'
    program += "".join(f"    {line}\n" for line in helpers.dedent(code).strip().splitlines())
    env = hyperchunk.plugins.environment(store=True)
    env["HDF5_VOL_CONNECTOR"] += options
    env |= variables
    return helpers.finish(helpers.start(program, folder=folder, env=env))


def store_command(*words: object, fails: bool = False) -> str:
    done = subprocess.run([helpers.command(), "store", *words], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


FLUSHED = """
    f["d"][0], f["s"][()], f.attrs["n"] = 1, 1, 1
    f["new"], f["g/x"], f["g"].attrs["k"] = [1, 2], 5, 7
    f["t"].resize((2,)); f["t"][:] = [10, 11]
"""


@pytest.mark.parametrize("mode", ["a", "r+", "r"])
def test_flushed_data_and_structure_are_found_by_the_next_session(mode: str, tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    killed(FLUSHED, tmp_path)
    look = """
        print(f["d"][:].tolist(), f["s"][()], f.attrs["n"], f["new"][:].tolist(), f["g/x"][()], f["g"].attrs["k"])
        print(f["t"][:].tolist(), "unflushed" in f)
    """
    expected = "[1.0, 0.0, 0.0, 0.0] 1 1 [1, 2] 5 7\n[10, 11] False\n"
    assert session(look, tmp_path, mode) == expected
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["d"][:].tolist() == [1, 0, 0, 0]
        assert (f["s"][()], f.attrs["n"], f["g/x"][()]) == (1, 1, 5)


def test_rows_are_appended_to_flushed_rows(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    killed(FLUSHED, tmp_path)
    append = """
        n = len(f["t"]); f["t"].resize((n + 2,)); f["t"][n:] = [n, n + 1]
        f["d"][0] += 10; f.attrs["n"] += 10; f["s"][()] += 10
    """
    for count in range(3):
        session(append, tmp_path)
        with h5py.File(tmp_path / "a.h5") as f:
            assert f["t"][:].tolist() == [10, 11, *range(2, 4 + 2 * count)]
            values = f["d"][0], f["s"][()], f.attrs["n"]
            assert values == (1 + 10 * (count + 1),) * 3


def test_a_killed_first_session(tmp_path: Path) -> None:
    killed('f["d"] = np.arange(4.0); f.attrs["k"] = 1; f["g/e"] = [1, 2]', tmp_path)
    look = 'print(f["d"][:].tolist(), f.attrs["k"], f["g/e"][:].tolist(), "unflushed" in f)'
    assert session(look, tmp_path, "r") == "[0.0, 1.0, 2.0, 3.0] 1 [1, 2] False\n"
    session('f["d"][1] = 5', tmp_path)
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["d"][:].tolist() == [0, 5, 2, 3]


def test_flushed_data_of_a_session_that_commits_by_hand_stay_out_together(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    manual = ";commit=manual"
    killed(FLUSHED, tmp_path, manual)
    look = 'print(f["d"][:].tolist(), f["s"][()], len(f["t"]), "new" in f)'
    assert session(look, tmp_path, options=manual) == "[0.0, 0.0, 0.0, 0.0] 0 0 False\n"
    store_command("recover", tmp_path / "a.h5")
    assert session(look, tmp_path, options=manual) == "[1.0, 0.0, 0.0, 0.0] 1 2 True\n"


def test_a_writer_that_is_alive_keeps_its_flushed_structure(tmp_path: Path) -> None:
    helpers.run(MAKE, folder=tmp_path, store=True)
    code = """
        import h5py, sys
        f = h5py.File("a.h5", "a")
        f["mine"] = 1
        f.flush()
        print("flushed", flush=True)
        sys.stdin.read()
        f.close()
    """
    alive = helpers.start(code, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
    assert alive.stdout is not None
    assert alive.stdout.readline() == "flushed\n"
    session('f["other"] = 2', tmp_path)
    assert len(list((tmp_path / "a.h5.d").glob("*.manifest"))) == 1
    alive.communicate(timeout=60)
    session("pass", tmp_path)
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f["mine"][()], f["other"][()]) == (1, 2)


def stopped(tmp_path: Path) -> Path:
    """A store with a stopped writer of its first epoch, and a later epoch of the Python interface."""
    path = tmp_path / "a.h5"
    helpers.run(MAKE, folder=tmp_path, store=True)
    old = """
        f["d"][0], f["d"][1], f["s"][()], f["g/x"], f.attrs["old"], f.attrs["n"] = 111, 111, 111, 1, 1, 1
        f["t"].resize((2,)); f["t"][:] = [1, 2]
    """
    killed(old, tmp_path, ";commit=manual")
    return path


def test_recovered_writes_lie_under_later_epochs(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    run = hyperchunk.store.open(path)
    with run.writer() as writer:
        writer["d"][0] = 222
        writer["d"][2] = 222
        writer.attrs["new"] = 2
    with pytest.warns(hyperchunk.store.StoreWarning, match="ended processes that had not closed theirs"):
        run.commit()
    refused = store_command("recover", path, fails=True)
    assert "/d" in refused
    assert "nothing was committed" in refused
    with h5py.File(path) as f:
        assert f["d"][:].tolist() == [222, 0, 222, 0]
    said = store_command("recover", "--on-conflict", "warn", path)
    assert "conflict: /d at [0], [1] elements: different data" in said
    with h5py.File(path) as f:
        assert f["d"][:].tolist() == [222, 111, 222, 0]
        assert f["s"][()] == 111
        assert f["t"][:].tolist() == [1, 2]
        assert dict(f.attrs) == {"n": 1, "old": 1, "new": 2}
        assert f["g/x"][()] == 1
    # Later sessions do not change that.
    session('f["d"][3] = 5', tmp_path)
    with h5py.File(path) as f:
        assert f["d"][:].tolist() == [222, 111, 222, 5]


def test_structure_of_later_epochs_counts(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    later = """
        f["s"][()], f.attrs["n"], f.attrs["old"], f["d"].attrs["u"] = 222, 2, 2, 1
        f["t"].resize((3,)); f["t"][2] = 9
    """
    session(later, tmp_path, options=";commit=manual")
    store_command("commit", path)
    said = store_command("recover", "--on-conflict", "warn", path)
    for name in ("/s", "attribute n", "attribute old"):
        assert name in said, said
    assert "visible: later epochs; hidden: writer" in said
    with h5py.File(path) as f:
        assert (f["s"][()], f.attrs["n"], f.attrs["old"], f["d"].attrs["u"]) == (222, 2, 2, 1)
        assert f["d"][:].tolist() == [111, 111, 0, 0]
        assert f["t"][:].tolist() == [1, 2, 9]
        assert f["g/x"][()] == 1


def test_a_writer_of_a_file_that_was_begun_anew_is_refused(tmp_path: Path) -> None:
    path = stopped(tmp_path)
    session('f["d"] = np.full(4, 5.0)', tmp_path, "w")
    for _ in range(2):
        said = store_command("recover", path, fails=True)
        assert "begun anew" in said
        assert "NEW.h5.d" in said
        with h5py.File(path) as f:
            assert f["d"][:].tolist() == [5, 5, 5, 5]
            assert list(f) == ["d"]
    session('f["e"] = 1', tmp_path)
    with h5py.File(path) as f:
        assert list(f) == ["d", "e"]
    # Follow the advice of the message.
    (log,) = [word for word in said.replace(",", " ").split() if word.endswith(".log")][:1]
    other = tmp_path / "NEW.h5.d"
    other.mkdir()
    (path.with_name("a.h5.d") / Path(log).name).rename(other / Path(log).name)
    store_command("recover", tmp_path / "NEW.h5")
    with h5py.File(tmp_path / "NEW.h5") as f:
        assert f["s"][()] == 111
        assert f["d"][:2].tolist() == [111, 111]
    store_command("recover", path)


def test_the_python_interface_refuses_it_too(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = hyperchunk.store.create(path, {"/x": hyperchunk.store.Dataset((4,), "f8")})
    with run.writer() as writer:
        writer["x"][...] = 1
    run.commit()
    old = run.writer()
    old["x"][0] = 2
    session('f["y"] = 1', tmp_path, "w", HDF5_USE_FILE_LOCKING="FALSE")
    old.close()
    for _ in range(2):
        with pytest.warns(hyperchunk.store.StoreWarning, match="begun anew"):
            hyperchunk.store.open(path).commit()
    with h5py.File(path) as f:
        assert list(f) == ["y"]
