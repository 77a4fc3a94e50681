"""Resources used by one read are bounded, whatever its number of blocks and live datasets."""

from pathlib import Path
from typing import Any

import h5py
import pytest
from fresh import run_python


@pytest.mark.parametrize("reader", ["h5py", "hyperchunk"])
def test_a_virtual_read_computes_so_long(reader: str, tmp_path: Path, attach: Any, config: Path) -> None:
    """The time limit holds through libhdf5, too, and over several live datasets; several short reads do not add up."""
    profile = config / "hyperchunk/profiles/untrusted/profile.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text("version = 1\n[limits]\nread_s = 1\n")
    file = tmp_path / "t.h5"
    h5py.File(file, "w").close()
    source = """
function dynamic_dataset()
    local sum = 0
    for i = 1, 1e7 do sum = sum + i end
    lib.getData("NAME")[1] = sum
end"""
    for name in ("first", "second"):
        text = source.replace("NAME", name)
        attach(file, "lua", text, f"{name}:400:double", chunks="1", unsigned=True)
    with h5py.File(file, "r+") as opened:
        layout = h5py.VirtualLayout((800,), "f8")
        layout[:400] = h5py.VirtualSource(".", "first", (400,))
        layout[400:] = h5py.VirtualSource(".", "second", (400,))
        opened.create_virtual_dataset("both", layout)
    code = """
import sys, time, hyperchunk
hyperchunk.plugins.enable()
import h5py
opened = h5py.File if sys.argv[2] == "h5py" else hyperchunk.open
with opened(sys.argv[1]) as file:
    kept = [file["first"], file["second"]]
    for name in ("first", "both", "first"):
        start = time.monotonic()
        try: file[name][...]
        except (OSError, hyperchunk.HyperchunkError) as error: print(f"{time.monotonic() - start:.2f}", error)
    start, count = time.monotonic(), 0
    while time.monotonic() < start + 4:
        assert file["second"][count % 400] == 5e13 + 5e6
        count += 1
    print("short reads")
"""
    *failed, last = run_python(code, file, reader).stdout.splitlines()
    assert last == "short reads"
    assert len(failed) == 3
    for line in failed:
        assert "limit of 1 s of computing for one read" in line
        assert 0.9 < float(line.split()[0]) < 6


def test_reads_of_several_datasets_compute_so_long(tmp_path: Path, attach: Any, config: Path) -> None:
    """The files of a collection, the columns and batches of a table and the reads of one call share the limit."""
    profile = config / "hyperchunk/profiles/untrusted/profile.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text("version = 1\n[limits]\nread_s = 1\n")
    source = """
function dynamic_dataset()
    local sum = 0
    for i = 1, 2e8 do sum = sum + i end
    lib.getData("NAME")[1] = sum
end"""
    for number in range(8):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["stored"] = [float(number)]
        attach(tmp_path / f"{number}.h5", "lua", source.replace("NAME", "out"), "out:1:double", unsigned=True)
    h5py.File(tmp_path / "columns.h5", "w").close()
    for number in range(8):
        name = f"c{number}"
        text = source.replace("NAME", name)
        attach(tmp_path / "columns.h5", "lua", text, f"{name}:1:double", unsigned=True)
    code = """
import sys, time, hyperchunk
folder = sys.argv[1]
days = hyperchunk.open_collection([f"{folder}/{number}.h5" for number in range(8)], concat=0)
columns = hyperchunk.open(f"{folder}/columns.h5")
assert columns["c0"][0] > 0 and days["out"][:1].size == 1
for read in (lambda: days["out"][...], lambda: days.table(columns=["out"]).to_pyarrow(),
             lambda: columns.table().to_pyarrow(),
             lambda: columns.read_many([(f"c{number}", slice(None)) for number in range(8)])):
    start = time.monotonic()
    try: read()
    except Exception as error: print(f"{time.monotonic() - start:.2f}", error)
    else: print("no error after", time.monotonic() - start)
"""
    lines = run_python(code, tmp_path).stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "limit of 1 s of computing for one read" in line


@pytest.mark.parametrize("reader", ["h5py.File", "hyperchunk.open"])
def test_a_read_has_few_processes(reader: str, tmp_path: Path, attach: Any) -> None:
    """Each live dataset of a virtual one has its own worker; only a few of them are kept."""
    file, count = tmp_path / "v.h5", 40
    h5py.File(file, "w").close()
    for n in range(count):
        text = f"function dynamic_dataset() lib.getData('d{n}')[1] = {n} end"
        attach(file, "lua", text, f"d{n}:1:double", unsigned=True)
    with h5py.File(file, "r+") as opened:
        layout = h5py.VirtualLayout((count,), "f8")
        for n in range(count):
            layout[n : n + 1] = h5py.VirtualSource(".", f"d{n}", (1,))
        opened.create_virtual_dataset("all", layout)
    code = f"""
import sys, threading, time, hyperchunk
from pathlib import Path
hyperchunk.plugins.enable()
import h5py
most, done = 0, False
def watch():
    global most
    while not done:
        tasks = Path("/proc/self/task").glob("*/children")
        most = max(most, sum(len(task.read_text().split()) for task in tasks))
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
with {reader}(sys.argv[1]) as file:
    kept = [file[f"d{{n}}"] for n in range({count})]
    assert file["all"][...].tolist() == list(range({count}))
done = True
watcher.join()
print(most)
"""
    assert 1 <= int(run_python(code, file).stdout) <= 20
