"""Recovery of files that h5py changed in place after their writer was killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the writer is killed by a signal")

#: Commits three datasets, writes one more and, if told, the first chunk again; then it is killed.
WRITER = """
import os, signal, sys
import hyperchunk, numpy as np
path, libver, rewrites = sys.argv[1], sys.argv[2], sys.argv[3] == "rewrites"
file = hyperchunk.open(path, "w", libver=libver)
file.attrs["note"] = 1
chunked = file.create_dataset("chunked", (40,), "<i4", chunks=(10,))
chunked[...] = 6
packed = file.create_dataset("packed", (40,), "<i4", chunks=(10,), compression="gzip")
packed[...] = np.arange(40)
contiguous = file.create_dataset("contiguous", (100,), "<i4")
contiguous[:50] = 5
file.flush()
file.create_dataset("late", (40,), "<i4", chunks=(10,))[...] = 7
if rewrites:
    chunked[:10] = 8
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, libver: str, rewrites: bool = False) -> None:
    """Leaves what a writer leaves that is killed after a commit and further writes."""
    words = [sys.executable, "-c", WRITER, str(path), libver, "rewrites" if rewrites else ""]
    done = subprocess.run(words, check=False, env=environment(), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.exists()
    assert path.with_name(f"{path.name}.journal").exists()


def recover(path: Path) -> subprocess.CompletedProcess[str]:
    words = [HYPERCHUNK, "recover", str(path), "--json"]
    return subprocess.run(words, check=False, env=environment(), capture_output=True, text=True)


@pytest.mark.parametrize("libver", ["v108", "v110", "v200"])
def test_recover_keeps_elements_that_h5py_changed(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    killed(path, libver)
    with h5py.File(path, "r+") as file:
        file["chunked"][3:5] = 66
        file["contiguous"][1] = 55
        # Elements that the writer did not write.
        file["contiguous"][70] = 77
    done = recover(path)
    # libhdf5 cuts off what is behind the last commit when it closes a file: chunks that nobody committed.
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["lost"] else 0), done.stderr
    assert all("of /late" in lost for lost in report["lost"])
    assert report["changed"] == ["bytes 0 to 200 of /contiguous", "chunk [0] of /chunked"]
    with h5py.File(path) as file:
        assert file["chunked"][:6].tolist() == [6, 6, 6, 66, 66, 6]
        expected = np.array([5] * 50 + [0] * 50)
        expected[[1, 70]] = 55, 77
        assert np.array_equal(file["contiguous"][...], expected)
        assert np.array_equal(file["packed"][...], np.arange(40))
        assert file["late"].shape == (40,)
        assert set(np.unique(file["late"][...])) <= {0, 7}
        assert file.attrs["note"] == 1
    assert not path.with_name("a.h5.journal").exists()


@pytest.mark.parametrize("change", ["attribute", "dataset", "packed", "chunk of both"])
def test_recover_of_a_file_that_h5py_changed_otherwise(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.h5"
    killed(path, "v108", change == "chunk of both")
    with h5py.File(path, "r+") as file:
        if change == "attribute":
            file.attrs["note"] = 2
        elif change == "dataset":
            file["mine"] = np.arange(5)
        elif change == "packed":
            # It is compressed to another size, and stored elsewhere.
            file["packed"][:10] = np.random.default_rng(1).integers(0, 2**31, 10)
        else:
            file["chunked"][3] = 66
    before = path.read_bytes()
    done = recover(path)
    assert done.returncode == 1
    assert "a.h5.journal away to keep the file as it is" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("layout", ["(10,)", "None"])
def test_recover_of_a_changed_dataset_that_the_writer_deleted(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.h5"
    program = f"""
import os, signal, sys
import hyperchunk, numpy as np
file = hyperchunk.open(sys.argv[1], "w")
file.create_dataset("a", data=np.arange(100), chunks={layout})
file.create_dataset("unchanged", data=np.arange(100), chunks={layout})
file.flush()
del file["a"], file["unchanged"]
os.kill(os.getpid(), signal.SIGKILL)
"""
    words = [sys.executable, "-c", program, str(path)]
    assert subprocess.run(words, check=False, env=environment()).returncode == -signal.SIGKILL
    with h5py.File(path, "r+") as file:
        file["a"][0] = -1
    state = path.read_bytes()
    done = recover(path)
    assert done.returncode != 0
    assert "which the writer deleted, was changed since" in done.stderr
    assert path.read_bytes() == state


def test_recover_names_attributes_whose_strings_are_gone(tmp_path: Path) -> None:
    """h5py cuts a file that it opens for changes after its last commit."""
    path = tmp_path / "a.h5"
    program = """
import os, signal, sys
import hyperchunk, numpy as np
file = hyperchunk.open(sys.argv[1], "w")
file["x"] = [1, 2, 3]
file.attrs["early"] = "kept"
file.flush()
file.attrs["late"] = "a string"
file["x"].attrs["late"] = ["some", "more"]
file["x"].attrs["number"] = 5
os.kill(os.getpid(), signal.SIGKILL)
"""
    words = [sys.executable, "-c", program, str(path)]
    assert subprocess.run(words, check=False, env=environment()).returncode == -signal.SIGKILL
    h5py.File(path, "r+").close()
    done = recover(path)
    assert done.returncode == 1
    lost = json.loads(done.stdout)["lost"]
    assert [one.split(":")[0] for one in lost] == ["attribute late of /", "attribute late of /x"]
    with h5py.File(path) as file:
        assert dict(file.attrs) == {"early": "kept"}
        assert dict(file["x"].attrs) == {"number": 5}
        assert file["x"][...].tolist() == [1, 2, 3]
