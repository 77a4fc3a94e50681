"""``hyperchunk pack``: h5py finds the same contents in the new file as in the old one."""

import gzip
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))

#: Files that are damaged, or use features that HDF5 itself cannot read; each is refused by name.
REFUSED = 57


def pack(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [HYPERCHUNK, "pack", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.h5"
    with h5py.File(path, "w", track_order=True) as file:
        data = np.arange(100_000).reshape(100, 1000)
        file.create_dataset("g/numbers", data=data, chunks=(10, 300), compression="gzip", maxshape=(None, 1000))
        file["g/numbers"].make_scale("a scale")
        file["plain"] = np.linspace(0, 1, 5000)
        file["plain"].dims[0].attach_scale(file["g/numbers"])
        file["words"] = ["one", "two", ""]
        file["link"] = h5py.SoftLink("/g/numbers")
        file.attrs["reference"] = file["g"].ref
        file.attrs["region"] = file["g/numbers"].regionref[10:20, ::5]
    return path


def check(path: Path, prefix: str = "") -> None:
    with h5py.File(path) as file:
        group = file[prefix or "/"]
        assert (group["link"][()] == np.arange(100_000).reshape(100, 1000)).all()
        assert list(group) == ["g", "plain", "words", "link"]
        assert group["g/numbers"].maxshape == (None, 1000)
        assert list(group["words"].asstr()) == ["one", "two", ""]
        assert group["plain"].dims[0][0].name == f"{prefix}/g/numbers"
        assert group[group.attrs["reference"]].name == f"{prefix}/g"
        region = group.attrs["region"]
        assert h5py.h5r.get_name(region, file.id) == f"{prefix}/g/numbers".encode()
        assert group["g/numbers"].regionref.selection(region) == (10, 200)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--libver", "v110"],
        ["--filters", "none"],
        ["--filters", "deflate", "--chunks", "auto"],
        ["--chunks", "/g/numbers=7x1000", "--chunks", "/plain=100", "--memory", "1"],
        ["--layout", "cloud", "--libver", "v110"],
        ["--layout", "cloud", "--chunks", "/g/numbers=1x100"],
    ],
)
def test_h5py_finds_the_same(source: Path, tmp_path: Path, words: list[str]) -> None:
    new = tmp_path / "new.h5"
    done = pack(source, new, "--verify", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["verified"]["datasets"] == told["datasets"] == 3
    check(new)
    if "cloud" in words:
        assert told["page"] is not None
        with h5py.File(new) as file:
            assert file.id.get_create_plist().get_file_space_page_size() == told["page"]
    with h5py.File(new, "a") as file:
        file["more"] = np.arange(10)
    check_more(new)


def check_more(path: Path) -> None:
    with h5py.File(path) as file:
        assert list(file["more"]) == list(range(10))
        assert file["plain"].shape == (5000,)


def test_many_files_to_one(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    other.write_bytes(source.read_bytes())
    new = tmp_path / "new.h5"
    done = pack(source, other, new, "--verify")
    assert (done.returncode, done.stderr) == (0, "")
    for prefix in ["/source", "/other"]:
        check(new, prefix)


def test_out_is_not_replaced_unless_asked(source: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.h5"
    new.write_text("precious")
    done = pack(source, new)
    assert done.returncode == 1
    assert "--overwrite" in done.stderr
    assert new.read_text() == "precious"
    assert pack(source, new, "--overwrite").returncode == 0
    check(new)
    done = pack(source, source, "--overwrite")
    assert done.returncode == 1
    check(source)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_the_corpus_is_packed_and_verified(tmp_path: Path) -> None:
    with gzip.open(CORPUS / "oracle.jsonl.gz", "rt") as lines:
        told = [json.loads(line) for line in lines]
    files = [entry["path"] for entry in told if "openerr" not in entry and "fatal" not in entry]

    def packed(item: tuple[int, str]) -> str | None:
        number, name = item
        done = pack(CORPUS / "files" / name, tmp_path / f"{number}.h5", "--verify", "--index", "never")
        assert done.returncode in (0, 1), f"{name}: {done.stderr}"
        assert "differs from the source" not in done.stderr, f"{name}: {done.stderr}"
        return None if done.returncode == 0 else f"{name}: {done.stderr}"

    with ThreadPoolExecutor(2) as pool:
        refused = [text for text in pool.map(packed, enumerate(files)) if text]
    assert len(refused) <= REFUSED, "\n".join(refused)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--filters", "deflate", "--chunks", "contiguous"], "only chunks have filters"),
        (["--filter", "plain=deflate", "--chunks", "plain=contiguous"], "only chunks have filters"),
        (["--filter", "words=deflate"], "variable length"),
        (["--filter", "scalar=fast"], "it is a scalar"),
        (["--chunks", "empty=auto"], "null dataspace"),
    ],
)
def test_rules_that_cannot_apply_are_errors(source: Path, tmp_path: Path, words: list[str], why: str) -> None:
    with h5py.File(source, "a") as file:
        file["scalar"] = 1.5
        file["empty"] = h5py.Empty("f4")
    done = pack(source, tmp_path / "new.h5", *words)
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "new.h5").exists()


def test_a_small_dataset_that_is_named_gets_its_filters(source: Path, tmp_path: Path) -> None:
    with h5py.File(source, "a") as file:
        file["small"] = np.arange(10)
    done = pack(source, tmp_path / "new.h5", "--filter", "small=deflate", "--verify")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "new.h5") as file:
        assert (file["small"].chunks, file["small"].compression) == ((10,), "gzip")
    assert "snappy" in pack("--help").stdout


def test_chunks_larger_than_the_maximum_extent(tmp_path: Path) -> None:
    # h5py chooses such chunks if the first extent is 0.
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", (0, 3), "f4", maxshape=(5, None))
        assert dataset.chunks[0] > 5
        dataset.resize((4, 3))
        dataset[:] = np.arange(12).reshape(4, 3)
    for words in (["pack", path, tmp_path / "b.h5", "--verify"], ["pack", path, tmp_path / "c.h5", "--chunks", "auto"]):
        subprocess.run([HYPERCHUNK, *words], check=True, capture_output=True)
    with hyperchunk.File(path, "r+") as file:
        file["a"].resize((5, 3))
        file["a"][4] = 12
    for name, rows in (("a.h5", 5), ("b.h5", 4), ("c.h5", 4)):
        with h5py.File(tmp_path / name) as file:
            assert file["a"].maxshape == (5, None)
            assert file["a"].shape == (rows, 3)
            assert file["a"][:4].tolist() == np.arange(12).reshape(4, 3).tolist()
