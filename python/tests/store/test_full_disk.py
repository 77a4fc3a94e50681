"""Writers on a full disk, or with a file size limit: failures are reported, and flushed data are kept."""

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hyperchunk import store
from vol import helpers

# The file size limit makes the system return EFBIG.
LIMITED = """
import resource, signal, sys
import numpy as np
from hyperchunk import store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def full(size=1 << 20):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        print(f"{getattr(call, '__name__', call)}: {error}", flush=True)
        return str(error)
    raise SystemExit(f"{call} did not fail")
"""


def limited(code: str, folder: Path) -> str:
    """Runs a program with these helpers."""
    command = [sys.executable, "-c", LIMITED + helpers.dedent(code)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def values(path: Path, name: str = "x") -> list[float]:
    with h5py.File(path) as file:
        found: list[float] = file[name][...].tolist()
        return found


# A large write, which goes to the file at once; small ones, which are buffered; the writer's own file; rows of an
# Arrow file.
WRITES = {
    "large": ("", 'refused(w.write, "/x", 8, np.ones(1 << 20))'),
    "small": ("", 'w.write("/x", 8, np.ones(1000)); full(500); refused(w.flush)'),
    "memory": ("memory=1 << 22", 'w.write("/x", 8, np.ones(1 << 17)); full(); refused(w.flush)'),
    "rows": ('segments="arrow"', 'refused(w.write, "/x", 8, np.ones(1 << 20))'),
    "structure": ("", 'w.structure["text"] = np.arange(1 << 20); refused(w.flush)'),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_writer_that_could_not_write_says_so(tmp_path: Path, kind: str) -> None:
    options, failing = WRITES[kind]
    told = limited(
        f"""
        run = store.create("a.h5", {{"/x": store.Dataset((2 << 20,), "f8")}})
        w = run.writer({options})
        w.write("/x", 0, np.full(8, 5.0))
        ticket = w.flush()
        full()
        {failing}
        room()
        # There is room again; what is missing is missing all the same.
        more = lambda: w.write("/x", 0, np.zeros(8))
        for call in (w.flush, w.close, more, lambda: w.create_dataset("y", (3,), "f8"), w.close):
            refused(call)
        refused(run.commit)
        refused(lambda: run.commit(flushed=True))
        assert store.open("a.h5") is not None
        assert run.commit([ticket]).number == 1
        # Nothing is whole that is not committed.
        assert run.commit() is None
        """,
        tmp_path,
    )
    assert "File too large" in told
    missing = "groups, attributes" if kind == "structure" else "of /x"
    assert missing in told.split("flush: cannot go on")[1]
    assert "cannot commit: expected writers that are done" in told
    assert values(tmp_path / "a.h5")[:8] == [5.0] * 8
    status = subprocess.run(
        [helpers.command(), "store", "status", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "could not write all" in status.stdout
    # Recovery of the complete data reports the loss, and continues.
    recovered = subprocess.run(
        [helpers.command(), "store", "recover", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert recovered.returncode == 0, recovered.stderr
    run = store.open(tmp_path / "a.h5")
    with run.writer() as writer:
        writer.write("/x", 4, np.zeros(4))
    assert run.commit() is not None
    assert values(tmp_path / "a.h5")[:8] == [5.0] * 4 + [0.0] * 4


def test_others_commit_and_are_warned(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((2 << 20,), "f8")})
    limited(
        """
        run = store.open("a.h5")
        w = run.writer()
        full()
        refused(w.write, "/x", 0, np.ones(1 << 20))
        refused(w.close)
        """,
        tmp_path,
    )
    with pytest.raises(OSError, match="could not write all"):
        run.commit()
    with run.writer() as writer:
        writer.write("/x", 0, np.full(4, 7.0))
    with pytest.warns(UserWarning, match="could not write all"):
        epoch = run.commit()
    assert epoch is not None
    assert len(epoch.uncommitted) == 1
    assert values(tmp_path / "a.h5")[:5] == [7.0] * 4 + [0.0]


def test_an_epoch_that_has_no_room(tmp_path: Path) -> None:
    told = limited(
        """
        run = store.create("a.h5", {"/x": store.Dataset((64,), "f8")})
        with run.writer() as w:
            w.write("/x", 0, np.ones(64))
            w.structure["text"] = np.arange(1 << 14)
        full(1 << 14)
        refused(run.commit)
        refused(run.commit)
        room()
        assert store.open("a.h5").commit() is not None
        """,
        tmp_path,
    )
    assert told.count("File too large") == 2
    assert values(tmp_path / "a.h5") == [1.0] * 64
    assert values(tmp_path / "a.h5", "text") == list(range(1 << 14))
    assert not list(tmp_path.glob("*.new"))


FULL = """
from pathlib import Path
import numpy as np
from hyperchunk import store
run = store.create("a.h5", {"/x": store.Dataset((1 << 20,), "f8")})
w = run.writer()
w.write("/x", 0, np.full(8, 5.0))
ticket = w.flush()
for call in (lambda: w.write("/x", 0, np.ones(1 << 20)), w.close, run.commit):
    try:
        call()
    except OSError as error:
        print(error)
    else:
        raise SystemExit("it did not fail")
assert run.commit([ticket]).number == 1
import hyperchunk
with hyperchunk.open("a.h5") as file:
    assert file["x"][:10].tolist() == [5.0] * 8 + [0.0] * 2
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not here")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o size=2m none disk && cd disk && exec "
    (tmp_path / "disk").mkdir()
    unshare = ["unshare", "--mount", "--map-root-user", "--user", "sh", "-c"]
    able = subprocess.run([*unshare, f"{mount} true"], cwd=tmp_path, capture_output=True, check=False)
    if able.returncode:
        pytest.skip(f"no file system can be mounted here: {able.stderr.decode().strip()}")
    done = subprocess.run(
        [*unshare, f'{mount} "$0" "$@"', sys.executable, "-c", FULL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No space left" in done.stdout
    assert "of /x" in done.stdout
    assert "cannot commit: expected writers that are done" in done.stdout
