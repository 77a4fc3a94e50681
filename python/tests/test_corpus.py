"""Each dataset and attribute of the corpus through the Python API: values and dtypes equal h5py's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
#: Number of files per comparing process.
BATCH = 60

#: Accepted differences, with the reasons: (file, place and kind, reason).
KNOWN = json.loads(Path(__file__).with_name("corpus_known.json").read_text(encoding="utf-8"))


def compare(paths: list[Path]) -> dict[str, Any]:
    """Returns the output of `compare.py` for each file; None if h5py crashes its process."""
    found: dict[str, Any] = {}
    waiting = [str(path) for path in paths]
    while waiting:
        command = [sys.executable, str(Path(__file__).with_name("compare.py")), *waiting[:BATCH]]
        process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        started = None
        for line in process.stdout.splitlines():
            told = json.loads(line)
            if "start" in told:
                started = told["start"]
                found[started] = None
            else:
                found[told["path"]] = told
                started = None
        if started is not None:
            # The process crashed in h5py, as its traceback shows.
            assert "hyperchunk/_core" not in process.stderr.splitlines()[-1:], process.stderr
            waiting = waiting[waiting.index(started) + 1 :]
        else:
            assert process.returncode == 0, process.stderr
            waiting = waiting[BATCH:]
    return found


def is_known(file: str, difference: str) -> bool:
    return any(re.search(entry["file"], file) and re.search(entry["what"], difference) for entry in KNOWN)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_the_corpus_reads_as_in_h5py() -> None:
    files = sorted(path for path in (CORPUS / "files").rglob("*") if path.is_file())
    found = compare(files)
    wrong = [
        f"{Path(path).relative_to(CORPUS)} {difference}"
        for path, told in found.items()
        for difference in (told or {}).get("differences", ())
        if not is_known(path, difference)
    ]
    told = [entry for entry in found.values() if entry]
    datasets, attributes = (sum(entry[key] for entry in told) for key in ("datasets", "attributes"))
    print(f"{len(files)} files, {datasets} datasets, {attributes} attributes, {len(files) - len(told)} crashes of h5py")
    assert not wrong, "\n".join(wrong[:200])
    assert datasets > 1000
