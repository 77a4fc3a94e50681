"""Unmodified programs for parallel HDF5 (`H5Pset_fapl_mpio`): their files become stores with the native contents.

They need a libhdf5 with MPI, which `make test-all` builds (tools/hdf5_with_mpi.py).
"""

import functools
import hashlib
import subprocess
import tempfile
from pathlib import Path

import h5py
import hdf5_with_mpi
import hyperchunk
import pytest

from vol import helpers

SOURCE = Path(__file__).with_name("parallel.c")
CASES = ["kernels", "compounds", "reads", "appends", "communicators", "questions", "left_open"]
pytestmark = pytest.mark.slow


@functools.cache
def program(mpi: str) -> Path:
    """Compiles the program with an MPI; skips if there is no libhdf5 with it."""
    made = hdf5_with_mpi.folder(mpi)
    if not hdf5_with_mpi.is_built(mpi):
        pytest.skip(f"no libhdf5 with {mpi}: python tools/hdf5_with_mpi.py {mpi} builds one")
    binary = Path(tempfile.mkdtemp()) / "parallel"
    folders = [made / "hdf5/lib", made / "mpi/lib"]
    flags = [f"-I{made / 'hdf5/include'}", *(f"-L{path}" for path in folders), "-lhdf5"]
    flags += [f"-Wl,-rpath,{path}" for path in folders]
    command = [made / "mpi/bin/mpicc", "-O1", "-Wall", "-Wextra", SOURCE, "-o", binary, *flags]
    subprocess.run(list(map(str, command)), check=True, env=helpers.clean())
    return binary


def run(mpi: str, folder: Path, case: str, ranks: int = 4, **options: object) -> tuple[int, str]:
    """Runs a case; returns its exit status and output. `store=None` runs it without the connector."""
    binary = program(mpi)
    env = helpers.clean() | ({} if options.get("store", True) is None else variables(**options))
    folder.mkdir(exist_ok=True)
    launcher = [hdf5_with_mpi.folder(mpi) / "mpi/bin/mpiexec", "-n", str(ranks)]
    if mpi == "openmpi":
        launcher += ["--allow-run-as-root", "--oversubscribe"]
    command = list(map(str, [*launcher, binary, case, f"{case}.h5"]))
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def variables(**options: object) -> dict[str, str]:
    """Returns the connector's variables; for a store by default."""
    return hyperchunk.plugins.environment(**{"store": True, **options})


def digests(path: Path) -> dict[str, object]:
    """Returns the attributes and the SHA-256 of everything in a file."""
    found: dict[str, object] = {}
    with hyperchunk.open(path) as file:

        def add(name: str, item: object) -> None:
            attributes = {key: str(value) for key, value in item.attrs.items()}
            found[name] = attributes
            if isinstance(item, hyperchunk.Dataset):
                values = item[()]
                found[name] = (attributes, values.shape, values.dtype, hashlib.sha256(values.tobytes()).hexdigest())

        file.visititems(add)
    return found


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("case", CASES)
def test_programs_become_stores(mpi: str, case: str, tmp_path: Path) -> None:
    native, store = tmp_path / "native", tmp_path / "store"
    assert run(mpi, native, case, store=None) == (0, "")
    assert run(mpi, store, case) == (0, "")
    names = {path.name for path in native.glob("*.h5")}
    assert names == {path.name for path in store.glob("*.h5")}
    for name in names:
        assert digests(store / name) == digests(native / name)
        assert list((store / f"{name}.d").glob("*.log"))


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_without_the_option_nothing_changes(mpi: str, tmp_path: Path) -> None:
    folder = tmp_path / "ordinary"
    assert run(mpi, folder, "kernels", store=False) == (0, "")
    assert [path.name for path in folder.iterdir()] == ["kernels.h5"]
    with h5py.File(folder / "kernels.h5") as file:
        assert len(file["kernels"]) == 24


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_conflict_is_told_to_every_rank(mpi: str, tmp_path: Path) -> None:
    state, errors = run(mpi, tmp_path, "conflict")
    assert state != 0
    for rank in range(4):
        assert f"rank {rank}: H5Fclose(file) failed" in errors
    assert errors.count("writers do not agree in 6 places: /x, [4] elements at [0]: different data") == 4


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_what_lies_with_another_rank_is_never_a_fill_value(mpi: str, tmp_path: Path) -> None:
    assert run(mpi, tmp_path / "native", "scalar", store=None) == (0, "")
    state, errors = run(mpi, tmp_path / "store", "scalar")
    assert state != 0
    assert sorted(line for line in errors.splitlines() if line.startswith("rank")) == [
        f"rank {rank}: not read" for rank in (1, 2, 3)
    ]
    assert errors.count("H5Dread: cannot read this dataset of") == 3
    with h5py.File(tmp_path / "store" / "scalar.h5") as file:
        assert file["x"][()] == 17


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_what_cannot_be_opened_fails_at_every_rank(mpi: str, tmp_path: Path) -> None:
    # MPICH prints more than that on standard error, natively as well.
    assert run(mpi, tmp_path, "failures")[0] == 0


@pytest.mark.parametrize("mpi", ["mpich"])
@pytest.mark.parametrize("ranks", [1, 3, 9])
def test_any_number_of_ranks(mpi: str, ranks: int, tmp_path: Path) -> None:
    assert run(mpi, tmp_path, "appends", ranks) == (0, "")
    command = [helpers.command(), "store", "status", tmp_path / "appends.h5"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"epoch 3, 3 datasets of {3 * ranks} logs" in said
