"""Costs of writers and commits, as counts of system calls: free of noise, and valid on any file system."""

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store

BEGIN, END = "/hyperchunk-mark-begin", "/hyperchunk-mark-end"

PROGRAM = """
import os, sys
import numpy as np
from hyperchunk import store
path, ranks, datasets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = [f"/d{number}" for number in range(datasets)]
values = np.arange(1000, dtype="f4")
run = store.create(path, {name: store.Dataset(ranks * 1000, "f4") for name in names}, sync="never")
pipes = []
os.path.exists("/hyperchunk-" + "mark-begin")
for rank in range(ranks):
    out, into = os.pipe()
    if os.fork() == 0:
        writer = run.writer()
        for name in names:
            writer[name][rank * 1000 : (rank + 1) * 1000] = values
        os.write(into, writer.close())
        os._exit(0)
    os.close(into)
    pipes.append(os.fdopen(out, "rb"))
tickets = [pipe.read() for pipe in pipes]
epoch = run.commit(tickets)
os.path.exists("/hyperchunk-" + "mark-end")
assert epoch.number == 1 and len(epoch.writers) == ranks and not epoch.conflicts
"""


def calls_of(folder: Path, ranks: int, datasets: int) -> list[str]:
    """Returns the system calls with a name in the folder, of all ranks and of the commit, whatever their result."""
    log = folder.parent / "calls"
    command = ["strace", "-f", "-s", "4096", "-e", "trace=%file", "-o", str(log), sys.executable, "-c", PROGRAM]
    subprocess.run([*command, str(folder / "run.h5"), str(ranks), str(datasets)], timeout=120, check=True)
    lines = log.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if BEGIN in line)
    last = next(number for number, line in enumerate(lines) if END in line)
    ours = (f'"{folder}', '.log"')
    return [line for line in lines[first + 1 : last] if any(part in line for part in ours) and "resumed>" not in line]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize(("ranks", "datasets"), [(4, 1), (4, 10), (4, 100), (8, 10)])
def test_a_rank_looks_at_the_file_and_makes_its_log(tmp_path: Path, ranks: int, datasets: int) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    calls = calls_of(folder, ranks, datasets)
    logs = [call for call in calls if ".log" in call]
    assert len(logs) == ranks, logs
    # The commit: the current file, the manifest, a check for a later one, the file's lock and a check that the locked
    # file is still the current one, the new file and its name. A rank creates its log, checks the file once for
    # another epoch, and opens the folder and checks whose it is before the first byte.
    assert len(calls) - 4 * ranks <= 7, [call for call in calls if call not in logs]
    assert len(list((folder / "run.h5.d").iterdir())) == ranks + 1, "writers + 2 files, with the skeleton"
    with h5py.File(folder / "run.h5") as file:
        for number in range(datasets):
            np.testing.assert_array_equal(file[f"d{number}"][...], np.tile(np.arange(1000), ranks))


def test_the_index_of_a_million_interleaved_writes_is_small(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    count, ranks = 250_000, 4
    run = store.create(path, {"/a": store.Dataset(count * ranks * 2, "u1")}, checksum=False, sync="never")
    for rank in range(ranks):
        writer = run.writer()
        core, number = writer._core, writer["a"]._number
        for step in range(count):
            core.write_box(number, [2 * (step * ranks + rank)], [2], b"ab")
        writer.close()
    epoch = run.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    manifest = Path(f"{path}.d/epoch-0000000001.manifest").stat().st_size
    assert manifest < 100_000
    with hyperchunk.open(path) as file:
        found = file["a"][1000:3000]
    np.testing.assert_array_equal(found, np.frombuffer(b"ab" * 1000, "u1"))
