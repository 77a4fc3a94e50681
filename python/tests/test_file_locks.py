"""Locks: readers and writers of HDF5 files exclude each other by libhdf5's rules."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import _core
from hyperchunk.exceptions import LockedError

VALUES = np.arange(1000, dtype="i4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(100,))
    return path


@contextlib.contextmanager
def other(code: str, path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Runs another program, which prints a line when it has opened the file, and keeps it open in the context."""
    start = "import sys, os, h5py, hyperchunk, numpy as np\npath = sys.argv[1]\n"
    program = f"{start}{code}\nprint('ready', flush=True)\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("\n")
            process.stdin.close()
        process.wait()
        process.stdout.close()


def attempt(code: str, path: Path, **environment: str) -> str:
    """Runs another program, and returns its output: empty, or the class of its exception."""
    program = (
        "import sys, h5py, hyperchunk, numpy as np\npath = sys.argv[1]\n"
        f"try:\n    {code}\nexcept Exception as error:\n    print(type(error).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("mode", ["r+", "a", "w"])
def test_file_that_h5py_writes(path: Path, mode: str) -> None:
    with other(f"file = h5py.File(path, {mode!r})", path):
        with pytest.raises(BlockingIOError) as caught:
            hyperchunk.open(path)
        assert isinstance(caught.value, LockedError)
        assert caught.value.errno == errno.EAGAIN
        for part in (str(path), "locking=False", "swmr=True", "unable to lock file"):
            assert part in str(caught.value)
        assert hyperchunk.is_hdf5(path)
        for options in ({"locking": False}, {"locking": "false"}, {"ignore_locks": True}):
            with contextlib.suppress(hyperchunk.exceptions.TruncatedError):
                hyperchunk.open(path, **options).close()
    if mode != "w":
        assert np.array_equal(hyperchunk.open(path)["x"][:], VALUES)


def test_other_ways_into_a_file_that_h5py_writes(path: Path) -> None:
    command = [str(Path(sys.executable).parent / "hyperchunk")]
    with other("file = h5py.File(path, 'r+')", path):
        with pytest.raises(BlockingIOError):
            hyperchunk.scan_hyperchunk(path, "/").collect()
        for arguments in (["ls"], ["dump"], ["check"]):
            done = subprocess.run([*command, *arguments, str(path)], capture_output=True, text=True, check=False)
            assert done.returncode != 0
            assert "locked" in done.stderr
        # Targets of a link or a virtual dataset.
        link = path.with_name("link.h5")
        with hyperchunk.open(link, "w") as file:
            file["x"] = hyperchunk.ExternalLink(str(path), "/x")
            layout = hyperchunk.VirtualLayout((1000,), "i4")
            layout[:] = hyperchunk.VirtualSource(str(path), "x", shape=(1000,))
            file.create_virtual_dataset("v", layout)
        with hyperchunk.open(link) as file:
            with pytest.raises(BlockingIOError):
                file["x"]
            with pytest.raises(BlockingIOError):
                file["v"][:]
        with pytest.raises(BlockingIOError):
            hyperchunk.open(path, "w")
    assert np.array_equal(h5py.File(path)["x"][:], VALUES)


def test_writers_are_kept_out_of_a_file_that_is_read(path: Path) -> None:
    file = hyperchunk.open(path)
    data = file["x"]
    # libhdf5 truncates a file in mode "w" before it tries the lock.
    for mode in ("r+", "a"):
        assert attempt(f"h5py.File(path, {mode!r})", path) == "BlockingIOError"
        with pytest.raises(BlockingIOError):
            h5py.File(path, mode)
    assert attempt("h5py.File(path)", path) == ""
    assert attempt("hyperchunk.open(path)['x'][:]", path) == ""
    assert attempt("h5py.File(path, 'r+', locking=False)", path) == ""
    again = hyperchunk.open(path)
    file.close()
    assert attempt("h5py.File(path, 'r+')", path) == "BlockingIOError"
    again.close()
    assert not data
    assert attempt("h5py.File(path, 'r+')", path) == ""


def test_writer_of_ours(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.h5"
    writer = hyperchunk.open(new, "w")
    writer["x"] = VALUES
    assert attempt("h5py.File(path + '.partial')", new) == "BlockingIOError"
    writer.flush()
    # The committed state is complete: others can read it, but not write.
    assert attempt("assert h5py.File(path)['x'][5] == 5", new) == ""
    assert attempt("assert hyperchunk.open(path)['x'][5] == 5", new) == ""
    assert np.array_equal(hyperchunk.open(new)["x"][:], VALUES)
    assert attempt("h5py.File(path, 'r+')", new) == "BlockingIOError"
    reader = hyperchunk.open(new)
    writer.close()
    assert attempt("h5py.File(path, 'r+')", new) == "BlockingIOError"
    reader.close()
    assert attempt("h5py.File(path, 'r+')", new) == ""
    with hyperchunk.open(new, "w", locking=False) as writer:
        assert attempt("h5py.File(path + '.partial')", new) != "BlockingIOError"


@pytest.mark.parametrize("value", ["FALSE", "0", "TRUE", "1", "BEST_EFFORT", "", "no"])
def test_environment(path: Path, value: str) -> None:
    """The environment variable overrides the option, as in h5py."""
    program = textwrap.dedent("""
        import sys, h5py, hyperchunk
        def locked(opener, locking):
            try:
                opener(sys.argv[1], "r", locking=locking).close()
            except BlockingIOError:
                return True
            return False
        options = (None, True, False, "true", "false", "best-effort")
        print([locked(hyperchunk.open, locking) for locking in options])
        print([locked(h5py.File, locking) for locking in options])
    """)
    with other("file = h5py.File(path, 'r+', locking=True)", path, HDF5_USE_FILE_LOCKING="TRUE"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=os.environ | {"HDF5_USE_FILE_LOCKING": value},
        )
    ours, stock = done.stdout.splitlines()
    assert ours == stock
    assert ("True" in ours) == (value not in ("FALSE", "0"))


def test_locking_that_is_none(path: Path) -> None:
    with pytest.raises(ValueError, match="Unsupported locking value"):
        hyperchunk.open(path, locking="sometimes")
    with pytest.raises(ValueError, match="Unsupported locking value"):
        hyperchunk.open(path, "w", locking=2)


def test_file_systems_without_locks(path: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "flock.c", tmp_path / "flock.so"
    source.write_text(
        "#include <errno.h>\n#include <stdlib.h>\n"
        'int flock(int fd, int op) { (void)fd; (void)op; errno = atoi(getenv("FLOCK_ERRNO")); return -1; }\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    for number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
        environment = {"LD_PRELOAD": str(library), "FLOCK_ERRNO": str(number)}
        for options in ("", ", locking='best-effort'", ", locking=False"):
            assert attempt(f"assert hyperchunk.open(path{options})['x'][7] == 7", path, **environment) == ""
        assert attempt("hyperchunk.open(path, locking=True)", path, **environment) == "ReadError"
        strict = environment | {"HDF5_USE_FILE_LOCKING": "TRUE"}
        assert attempt("hyperchunk.open(path)", path, **strict) == "ReadError"
    refused = {"LD_PRELOAD": str(library), "FLOCK_ERRNO": str(errno.EINVAL)}
    assert attempt("hyperchunk.open(path)", path, **refused) == "ReadError"


def test_forked_process(path: Path) -> None:
    file = hyperchunk.open(path)
    assert file["x"][3] == 3
    ready, ready_in = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            right = file["x"][5] == 5 and hyperchunk.open(path)["x"][6] == 6
            file.close()
            os.write(ready_in, b"1" if right else b"0")
            os.read(ready, 0)
        finally:
            os._exit(0)
    assert os.read(ready, 1) == b"1"
    os.waitpid(process, 0)
    # The child's exit did not release the parent's lock.
    assert attempt("h5py.File(path, 'r+')", path) == "BlockingIOError"
    file.close()
    assert attempt("h5py.File(path, 'r+')", path) == ""


def test_marks_of_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    killed = "file = h5py.File(path, 'w', libver='latest')\nfile['x'] = 5\n{}file.flush()\n"
    swmr = "d = file.create_dataset('y', (1,), 'i4', maxshape=(None,), chunks=(1,))\nfile.swmr_mode = True\n"
    for more in ("", swmr):
        with other(killed.format(more), path) as process:
            process.kill()
        for options in ({}, {"locking": False}):
            with pytest.raises(LockedError, match="marked as open for writing"):
                hyperchunk.open(path, **options)
        assert hyperchunk.open(path, ignore_locks=True)["x"][()] == 5
        if more:
            assert hyperchunk.open(path, swmr=True)["x"][()] == 5
            assert h5py.File(path, swmr=True)["x"][()] == 5
        else:
            with pytest.raises(LockedError, match="not in SWMR mode"):
                hyperchunk.open(path, swmr=True)
            with pytest.raises(OSError, match=r"SWMR|already open"):
                h5py.File(path, swmr=True)


def test_what_is_edited_while_this_process_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "dual.h5"
    with h5py.File(path, "w", userblock_size=4096) as file:
        file["a"] = np.arange(1000.0)
    held = hyperchunk.open(path)
    assert _core.run_command(["hyperchunk", "arrow", "fix", str(path)]) == 0
    assert attempt("h5py.File(path, 'r+')", path) == "BlockingIOError"
    with pytest.raises(hyperchunk.exceptions.ChangedError):
        held["a"][:]
    held.refresh()
    assert np.array_equal(held["a"][:], np.arange(1000.0))


def test_what_a_writer_will_replace_is_not_written_by_others(path: Path) -> None:
    """What they wrote would be gone when it is done. They may read it."""
    with hyperchunk.open(path, "w") as file:
        file["late"] = 1
        assert attempt("h5py.File(path)['x'][()]", path) == ""
        assert attempt("hyperchunk.open(path)['x'][()]", path) == ""
        assert "BlockingIOError" in attempt("h5py.File(path, 'r+')['other'] = 1", path)
        assert attempt("h5py.File(path, 'r+', locking=False).close()", path) == ""
    with h5py.File(path) as file:
        assert list(file) == ["late"]
    assert attempt("h5py.File(path, 'r+')['after'] = 1", path) == ""


def test_a_writer_that_gives_up_leaves_no_lock(path: Path) -> None:
    file = hyperchunk.open(path, "w")
    assert "BlockingIOError" in attempt("h5py.File(path, 'r+').close()", path)
    del file
    assert attempt("h5py.File(path, 'r+')['after'] = 1", path) == ""


COMMANDS = {
    "pack in place": ["pack", "--in-place", "new.h5"],
    "pack": ["pack", "a.h5", "new.h5", "--overwrite"],
    "get": ["get", "a.h5", "/x", "-o", "new.h5", "--overwrite"],
    "salvage": ["salvage", "a.h5", "-o", "new.h5", "--overwrite"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_writer_has_committed_is_not_replaced(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lock is shared with readers then; later writes would be lost."""
    monkeypatch.chdir(path.parent)
    with hyperchunk.open("new.h5", "w") as file:
        file["early"] = 1
        file.flush()
        file["late"] = 1
        assert _core.run_command(["hyperchunk", *COMMANDS[name]]) == 1
        assert "expected that no program writes it" in capfd.readouterr().err
        assert attempt("hyperchunk.open(path, 'w', journal=False)", path.with_name("new.h5")) == "LockedError"
    with h5py.File("new.h5") as file:
        assert sorted(file) == ["early", "late"]
    assert _core.run_command(["hyperchunk", *COMMANDS[name]]) == 0
