"""Round trip of each file of the corpus through Arrow.

The result equals the original in values, types, extents, attributes and links; features that Arrow lacks are clear
errors, counted by reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
#: Number of comparing processes.
AT_ONCE = 2

#: Accepted differences: (file, difference, reason).
KNOWN: list[tuple[str, str, str]] = [
    (r"vlen_string_dset_utc.h5$", r"datatype", "its strings are of big-endian bytes: one byte has no order"),
    (r"cve-2021-46243.h5$", r"links", "another name of a damaged dataset, which was left out"),
    (r"globalheaps_test.hdf5$", r"/: attributes", "in a heap smaller than one may be: left out, and said so"),
]


def compare(paths: list[str], folder: Path) -> dict[str, Any]:
    """Returns the output of `roundtrip.py` for each file; None if h5py crashes its process."""
    found: dict[str, Any] = {}
    waiting = paths
    folder.mkdir(parents=True, exist_ok=True)
    while waiting:
        command = [sys.executable, str(Path(__file__).with_name("roundtrip.py")), str(folder), *waiting]
        process = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
        started = None
        for line in process.stdout.splitlines():
            told = json.loads(line)
            if "start" in told:
                started = told["start"]
                found[started] = None
            else:
                found[told["path"]] = told
                started = None
        if started is None:
            assert process.returncode == 0, process.stderr
            break
        waiting = waiting[waiting.index(started) + 1 :]
    return found


def reason(text: str) -> str:
    """Returns an error without file-specific names and numbers."""
    text = re.sub(r" \((file|object|in|at) .*", "", text.removeprefix("hyperchunk: "))
    text = re.sub(r"^(column|attribute|member) .*?: ", "", text)
    return re.sub(r"\d+", "N", text)[:120]


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the statistics of a run, and the differences."""
    told = [entry for entry in found.values() if entry]
    compared = [entry for entry in told if "differences" in entry]
    refused = Counter(
        reason(entry[step]["failed"])
        for entry in told
        for step in ("export", "import")
        if "failed" in entry.get(step, {})
    )
    missing = Counter(reason(one["why"]) for entry in compared for one in entry["export"]["missing"])
    wrong = [
        f"{path}: {difference}"
        for path, entry in found.items()
        for difference in (entry or {}).get("differences", ())
        if not any(re.search(file, path) and re.search(what, difference) for file, what, _ in KNOWN)
    ]
    crashed = [
        f"{path}: {entry[step]}"
        for path, entry in found.items()
        for step in ("export", "import")
        if "failed" in (entry or {}).get(step, {})
        and (entry[step]["status"] not in (1, 2) or "panicked" in entry[step]["failed"])
    ]
    counts = {key: sum(entry[key] for entry in compared) for key in ("datasets", "attributes", "links", "unreadable")}
    return {
        "files": len(found),
        "compared": len(compared),
        "ended h5py": sum(entry is None for entry in found.values()),
        "unreadable by h5py": sum("unreadable by h5py" in entry for entry in told),
        **counts,
        "refused files": dict(refused.most_common()),
        "datasets without a mapping": dict(missing.most_common()),
        "wrong": wrong,
        "crashed": crashed,
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_every_file_of_the_corpus_comes_back(tmp_path: Path) -> None:
    files = sorted(str(path) for path in (CORPUS / "files").rglob("*") if path.is_file())
    parts = [(files[number::AT_ONCE], tmp_path / str(number)) for number in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = {path: told for part in pool.map(lambda part: compare(*part), parts) for path, told in part.items()}
    told = summary(found)
    print(json.dumps({key: value for key, value in told.items() if key != "wrong"}, indent=1))
    assert not told["crashed"], "\n".join(told["crashed"][:50])
    assert not told["wrong"], "\n".join(told["wrong"][:100])
    assert told["compared"] > 400
    assert told["datasets"] > 1000
