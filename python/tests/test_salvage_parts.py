"""`hyperchunk salvage`: evidence, parts of datasets whose strings are lost in part, references to lost objects, and
cost for many objects and for huge files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK

DAMAGE = Path(__file__).with_name("salvage_damage.py")


def by_path(report: hyperchunk.SalvageReport) -> dict[str, hyperchunk.SalvagedObject]:
    return {item.path: item for item in report.objects}


@pytest.mark.parametrize(("libver", "structure"), [("earliest", "not checkable"), ("latest", "checksum")])
def test_evidence(tmp_path: Path, libver: str, structure: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file.create_dataset("gzip", data=np.arange(100), chunks=(10,), compression="gzip")
        file.create_dataset("plain", data=np.arange(100))
        texts = ["one", "two"] * 50
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype(), chunks=(10,), compression="gzip")
        file["type"] = np.dtype("i4")
        file.create_dataset("typed", (10,), dtype=file["type"], data=np.arange(10))
        file.create_group("group")
    found = by_path(hyperchunk.salvage(tmp_path / "a.h5", tmp_path / "b.h5"))
    assert {path: item.structure for path, item in found.items() if path != "/text"} == dict.fromkeys(
        ["/", "/gzip", "/plain", "/type", "/typed", "/group"], structure
    )
    assert [found[path].checked for path in ("/gzip", "/plain", "/text")] == [
        "checksum",
        "not checkable",
        "not checkable",
    ]
    # The strings are in a heap, which has no checksum.
    assert found["/text"].structure == "not checkable"


@pytest.mark.parametrize("chunks", [None, (50,)])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_strings_that_are_lost_in_part(tmp_path: Path, libver: str, chunks: tuple[int, ...] | None) -> None:
    texts = [f"text {number} " + "x" * (number % 90) for number in range(500)]
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        data = file.create_dataset("text", (500,), dtype=h5py.string_dtype(), chunks=chunks)
        for start in range(0, 500, 100):
            data[start : start + 100] = texts[start : start + 100]
            # With other bytes after it, a heap cannot grow.
            file[f"other{start}"] = np.arange(1000)
            file.flush()
    content = bytearray((tmp_path / "a.h5").read_bytes())
    heaps = [match.start() for match in re.finditer(b"GCOL", content)]
    assert len(heaps) > 3
    content[heaps[1] : heaps[1] + 4] = b"XXXX"
    (tmp_path / "bad.h5").write_bytes(content)
    report = hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5", partial=True)
    item = by_path(report)["/text"]
    assert (item.condition, item.written, item.checked) == ("incomplete", True, "not checkable")
    missing = {row for start, count in item.missing for row in range(start[0], start[0] + count[0])}
    assert 10 < len(missing) < 250
    with h5py.File(tmp_path / "good.h5") as file:
        found = file["text"].asstr()[:].tolist()
        assert [number for number in range(500) if found[number] != texts[number]] == sorted(missing)
        assert all(found[number] == "" for number in missing)
        parts = file["text"].attrs["hyperchunk_salvage_missing"]
        assert sum(int(part[1, 0]) for part in parts) == len(missing)
    # Without `partial`, it is left out.
    report = hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "less.h5")
    assert not by_path(report)["/text"].written
    # A cut file: what its rows refer to is there, but some rows are not.
    cut = bytes(content[: heaps[-1]]).replace(b"XXXX", b"GCOL")
    (tmp_path / "cut.h5").write_bytes(cut)
    item = by_path(hyperchunk.salvage(tmp_path / "cut.h5", tmp_path / "rest.h5", partial=True)).get("/text")
    if item is not None and item.written:
        missing = {row for start, count in item.missing for row in range(start[0], start[0] + count[0])}
        with h5py.File(tmp_path / "rest.h5") as file:
            found = file["text"].asstr()[:].tolist()
        assert all(found[number] == texts[number] for number in range(500) if number not in missing)


def test_references_to_lost_objects_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("good", "bad"):
            file[name] = np.arange(4)
        both = [file["good"].ref, file["bad"].ref]
        file.create_dataset("to", data=np.array(both, dtype=h5py.ref_dtype))
        file["good"].attrs["other"] = file["bad"].ref
        file["good"].attrs["same"] = file["good"].ref
        address = h5py.h5o.get_info(file["bad"].id).addr
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[address : address + 8] = b"\xff" * 8
    (tmp_path / "bad.h5").write_bytes(content)
    found = by_path(hyperchunk.salvage(tmp_path / "bad.h5", tmp_path / "good.h5"))
    assert found["/bad"].condition == "lost"
    assert list(found["/to"].losses) == ["references"]
    assert list(found["/good"].losses) == ["references of other"]
    assert all("/bad" in reason for path in ("/to", "/good") for reason in found[path].losses.values())
    with h5py.File(tmp_path / "good.h5") as file:
        assert file[file["to"][0]] == file["good"] == file[file["good"].attrs["same"]]
        assert not file["to"][1]
        assert not file["good"].attrs["other"]


def seconds(path: Path) -> float:
    """Returns the processor seconds of a salvage."""
    start = time.process_time()
    hyperchunk.salvage(path, path.with_suffix(".good"), overwrite=True)
    return time.process_time() - start


def test_many_datasets_cost_linear_time(tmp_path: Path) -> None:
    used = []
    for count in (2500, 20000):
        path = tmp_path / f"{count}.h5"
        with h5py.File(path, "w") as file:
            for number in range(count):
                file.create_dataset(f"group{number % 100}/data{number}", data=number)
        with path.open("r+b") as damaged:
            damaged.truncate(path.stat().st_size - 8)
        # The shortest of three: others may use the processor, too.
        used.append(min(seconds(path) for _ in range(3)))
        with h5py.File(path.with_suffix(".good")) as file:
            assert sum(len(group) for name, group in file.items() if name != "lost+found") > count * 0.9
    # 8 times the objects; a square would be 64 times the time.
    assert used[1] < 24 * used[0], used


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sparse files")
@pytest.mark.parametrize("lost", [False, True])
def test_sparse_file_of_1_tib(tmp_path: Path, lost: bool) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        large = file.create_dataset("large", (1 << 37,), "f8")
        large[0], large[1 << 36], large[-1] = 1, 2, 3
        file["small"] = [1, 2, 3]
        address = h5py.h5o.get_info(large.id).addr
    with (tmp_path / "a.h5").open("r+b") as damaged:
        if lost:
            # Nothing leads to the data any more: all of them are scanned, except the holes.
            damaged.seek(address)
            damaged.write(b"\xff" * 8)
        damaged.seek(0, os.SEEK_END)
        damaged.write(bytes(100))
    assert seconds(tmp_path / "a.h5") < 60
    made = tmp_path / "a.good"
    assert made.stat().st_blocks * 512 < 64 << 20
    with h5py.File(made) as file:
        assert file["small"][:].tolist() == [1, 2, 3]
        assert ("large" in file) is not lost
        if not lost:
            assert [file["large"][place] for place in (0, 1, 1 << 36, -1)] == [1, 0, 2, 3]


def test_types_that_h5py_refuses_are_no_crash(tmp_path: Path) -> None:
    """A damaged exponent bias gives a type without equivalent in NumPy: the comparison counts it, and goes on."""
    kind = h5py.h5t.IEEE_F64LE.copy()
    kind.set_ebias(40000)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((3,)))
        file["even"] = [1, 2, 3]
        with pytest.raises(ValueError, match="Insufficient precision"):
            print(file["odd"].dtype)
    command: list[Any] = [sys.executable, DAMAGE, tmp_path, "1", "1", "3", tmp_path / "a.h5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()][1:]
    assert [one["kind"] for one in told] == ["none", "cut", "flip", "flip", "flip"]
    assert told[0]["equal"] == 2


def test_references_to_nothing_are_no_damage(tmp_path: Path) -> None:
    """`pack` leaves references to deleted objects undefined; such a file is undamaged."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = 1, 2
        file.create_dataset("refs", data=[file["a"].ref, file["b"].ref], dtype=h5py.ref_dtype)
        del file["b"]
    for words in (("pack", "a.h5", "b.h5"), ("salvage", "b.h5", "-o", "c.h5")):
        done = subprocess.run([HYPERCHUNK, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(tmp_path / "c.h5") as file:
        refs = file["refs"][...]
        assert file[refs[0]].name == "/a"
        assert not refs[1]
