"""`hyperchunk salvage`: what is whole in a damaged file comes back as h5py reads it from the undamaged one, and nothing
else does."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DAMAGE = Path(__file__).with_name("salvage_damage.py")


def salvage_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("hyperchunk")), "salvage", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def by_path(report: hyperchunk.SalvageReport) -> dict[str, hyperchunk.SalvagedObject]:
    return {item.path: item for item in report.objects}


@pytest.fixture(params=["earliest", "latest"])
def libver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def values(number: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(number).integers(0, 1 << 20, (50, 40))


def make_forty(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        for number in range(40):
            group = file.require_group(f"run{number % 4}")
            data = group.create_dataset(f"d{number:02}", data=values(number), chunks=(10, 40), compression="gzip")
            data.attrs["number"] = number
            file.flush()


def test_undamaged_file_comes_back_whole(tmp_path: Path, libver: str) -> None:
    make_forty(tmp_path / "a.h5", libver)
    report = hyperchunk.salvage(tmp_path / "a.h5", tmp_path / "b.h5")
    assert report.whole
    assert not report.damage
    assert len(report.objects) == 45
    with h5py.File(tmp_path / "b.h5") as file:
        for number in range(40):
            data = file[f"run{number % 4}/d{number:02}"]
            assert (data[()] == values(number)).all()
            assert data.attrs["number"] == number
    assert salvage_command(tmp_path / "a.h5", "-o", tmp_path / "c.h5").returncode == 0


def test_cut_file_gives_what_is_whole(tmp_path: Path, libver: str) -> None:
    make_forty(tmp_path / "a.h5", libver)
    content = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[: len(content) * 6 // 10])
    with pytest.raises(OSError, match="truncated"):
        h5py.File(tmp_path / "cut.h5")
    report = hyperchunk.salvage(tmp_path / "cut.h5", tmp_path / "good.h5")
    assert not report.whole
    whole = [item for item in report.objects if item.kind == "dataset" and item.condition == "whole"]
    assert 15 <= len(whole) <= 30
    with h5py.File(tmp_path / "good.h5") as file:
        for item in whole:
            assert item.checked == "checksum"
            data = file[item.path]
            number = int(data.attrs["number"])
            assert (data[()] == values(number)).all()
            assert item.orphan or item.path == f"/run{number % 4}/d{number:02}"
    done = salvage_command(tmp_path / "cut.h5", "-o", tmp_path / "again.h5", "--json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["whole"] is False
    assert (tmp_path / "cut.h5").read_bytes() == content[: len(content) * 6 // 10]


def test_objects_without_links_go_to_lost_and_found(tmp_path: Path, libver: str) -> None:
    make_forty(tmp_path / "a.h5", libver)
    content = bytearray((tmp_path / "a.h5").read_bytes())
    with h5py.File(tmp_path / "a.h5") as file:
        root = h5py.h5o.get_info(file.id).addr
    content[root : root + 8] = b"\xff" * 8
    (tmp_path / "bad.h5").write_bytes(content)
    report = hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5")
    found = [item for item in report.objects if item.kind == "dataset" and item.condition == "whole"]
    assert len(found) == 40
    assert all(item.orphan and item.path.startswith("/lost+found/0x") for item in found)
    with h5py.File(tmp_path / "good.h5") as file:
        # The four groups were found with their names below them.
        assert len(file["lost+found"]) == 4
        for item in found:
            data = file[item.path]
            assert (data[()] == values(int(data.attrs["number"]))).all()


def test_incomplete_dataset_is_written_on_request_only(tmp_path: Path, libver: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        data = file.create_dataset("data", data=values(1), chunks=(10, 20), compression="gzip", fletcher32=True)
        file["flat"] = np.arange(4)
        chunk = data.id.get_chunk_info_by_coord((20, 20))
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[chunk.byte_offset + 30] ^= 1
    (tmp_path / "bad.h5").write_bytes(content)
    report = hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5")
    item = by_path(report)["/data"]
    assert (item.condition, item.written, item.missing) == ("incomplete", False, (((20, 20), (10, 20)),))
    with h5py.File(tmp_path / "good.h5") as file:
        assert list(file) == ["flat"]
    with pytest.raises(OSError, match="exists"):
        hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5", partial=True)
    report = hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5", partial=True, overwrite=True)
    assert by_path(report)["/data"].written
    with h5py.File(tmp_path / "good.h5") as file:
        assert file["data"].attrs["hyperchunk_salvage_missing"].tolist() == [[[20, 20], [10, 20]]]
        expected = values(1)
        expected[20:30, 20:40] = 0
        assert (file["data"][()] == expected).all()


def test_cut_contiguous_dataset_keeps_whole_rows(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = values(1)
        offset = file["data"].id.get_offset()
    content = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[: offset + 30 * 320 + 100])
    report = hyperchunk.salvage(tmp_path / "cut.h5", tmp_path / "good.h5", partial=True)
    assert by_path(report)["/data"].missing == (((30, 0), (20, 40)),)
    with h5py.File(tmp_path / "good.h5") as file:
        assert (file["data"][:30] == values(1)[:30]).all()
        assert not file["data"][30:].any()


def test_references_strings_and_attributes(tmp_path: Path, libver: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file["text"] = ["one", "two", "three" * 100]
        file["a"] = np.arange(3)
        file["link"] = h5py.SoftLink("/a")
        file["other"] = file["a"]
        file["references"] = np.array([file["a"].ref, file["text"].ref], dtype=h5py.ref_dtype)
        file["a"].attrs["to"] = file["text"].ref
    content = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "longer.h5").write_bytes(content + b"\0" * 100)
    report = hyperchunk.salvage(tmp_path / "longer.h5", tmp_path / "good.h5")
    assert report.whole, report
    with h5py.File(tmp_path / "good.h5") as file:
        assert file["text"].asstr()[:].tolist() == ["one", "two", "three" * 100]
        assert file["link"] == file["a"] == file["other"] == file[file["references"][0]]
        assert file[file["a"].attrs["to"]] == file["text"]


KILLED = """
import os, sys, h5py, numpy as np
path, libver, swmr = sys.argv[1:]
file = h5py.File(path, "w", libver=libver)
data = file.create_dataset("data", (0, 100), maxshape=(None, 100), chunks=(10, 100), dtype="i4", compression="gzip")
file.create_dataset("fixed", data=np.arange(1000))
file.flush()
if swmr == "swmr":
    file.swmr_mode = True
for number in range(10**6):
    data.resize((10 * number + 10, 100))
    data[-10:] = number
    if number % 5 == 4:
        data.flush() if swmr == "swmr" else file.flush()
        print(number, flush=True)
"""


@pytest.mark.parametrize(("libver", "swmr"), [("earliest", ""), ("latest", ""), ("latest", "swmr")])
def test_killed_writer(tmp_path: Path, libver: str, swmr: str) -> None:
    path = tmp_path / "killed.h5"
    command = [sys.executable, "-c", KILLED, str(path), libver, swmr]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = [int(writer.stdout.readline()) for _ in range(20)][-1]
        writer.send_signal(signal.SIGKILL)
    report = hyperchunk.salvage(path, tmp_path / "good.h5", partial=True)
    with h5py.File(tmp_path / "good.h5") as file:
        assert (file["fixed"][()] == np.arange(1000)).all()
        item = by_path(report)["/data"]
        data = file["data"][()]
        missing = {row for start, count in item.missing for row in range(start[0] // 10, (start[0] + count[0]) // 10)}
        # All that was flushed is there. Rows after it are as written, unwritten, or named.
        for number in range(len(data) // 10):
            rows = data[10 * number : 10 * number + 10]
            assert number in missing or (rows == number).all() or (number > last and not rows.any())
        assert len(data) >= 10 * (last + 1)
        assert not any(number <= last for number in missing)


def test_hostile_files_cost_bounded_time(tmp_path: Path) -> None:
    chance = random.Random(7)
    header = b"OHDR\x02\x02" + (1 << 20).to_bytes(4, "little")
    old = bytes([1, 0, 4, 0, 1, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0])
    contents = {
        "empty": b"",
        "random": chance.randbytes(1 << 20),
        "new": b"\x89HDF\r\n\x1a\n" + header * (1 << 17),
        "old": b"\x89HDF\r\n\x1a\n" + old * (1 << 17),
        "zeros": bytes(1 << 20),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.h5"
        path.write_bytes(content)
        started = time.monotonic()
        with pytest.raises(OSError, match=f"{name}.h5"):
            hyperchunk.salvage(path, tmp_path / "good.h5")
        assert time.monotonic() - started < 60, name
        assert not (tmp_path / "good.h5").exists()
    assert sorted(path.stem for path in tmp_path.glob("*.h5*")) == sorted(contents)


def check_cases(paths: list[Path], folder: Path, cuts: int, flips: int) -> None:
    """Damages files, and checks each case. A crash of h5py in reading an undamaged file is none of ours."""
    count = 0
    for path in paths:
        command = [sys.executable, str(DAMAGE), str(folder), "1", str(cuts), str(flips), str(path)]
        environment = {**os.environ, "MALLOC_PERTURB_": "85"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
        assert done.returncode == 0, (path, done.stderr[-2000:])
        for told in map(json.loads, done.stdout.splitlines()):
            if "kind" not in told:
                continue
            count += 1
            shown = json.dumps(told)
            assert not [why for _, why in told["differs"] if why == "unexplained"], shown
            assert not [why for _, _, why in told["wrong_attributes"] if why == "unexplained"], shown
            if told["kind"] == "none":
                assert told["equal"] == told["datasets"], shown
                assert not told["wrong_attributes"], shown
            if told["kind"] == "cut":
                # Nothing has changed in what is left.
                assert not told["differs"], shown
    assert count > 20


def test_an_extent_beyond_its_external_files_is_lost(tmp_path: Path) -> None:
    """HDF5 would open no dataset like that, nor visit the group that it is in."""
    path, output = tmp_path / "a.h5", tmp_path / "good.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("bad", (1234567,), "i2", external=[("a.bin", 0, 2 * 1234567)])
        file.create_dataset("good", (5,), "i2", external=[("a.bin", 0, h5py.h5f.UNLIMITED)])
    content = path.read_bytes()
    dims = (1234567).to_bytes(8, "little")
    assert content.count(dims) == 2
    path.write_bytes(content.replace(dims, (1234568).to_bytes(8, "little")))
    report = hyperchunk.salvage(path, output)
    assert "does not fit into the 2469134 bytes of its external files" in str(by_path(report)["/bad"])
    with h5py.File(output) as file:
        seen: list[str] = []
        file.visit(seen.append)
        assert seen == ["good"]


def test_damaged_files(tmp_path: Path) -> None:
    files = sorted((ROOT / "fuzz" / "corpus").glob("*.hdf5"))
    check_cases([path for path in files if path.stat().st_size < 1 << 18][::6], tmp_path, 2, 2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif("HYPERCHUNK_SALVAGE_CASES" not in os.environ, reason="for `make test-all`")
def test_many_damaged_files(tmp_path: Path) -> None:
    files = sorted((ROOT / "fuzz" / "corpus").glob("*.hdf5"))
    cases = int(os.environ["HYPERCHUNK_SALVAGE_CASES"])
    check_cases([path for path in files if path.stat().st_size < 1 << 20], tmp_path, cases, cases)
