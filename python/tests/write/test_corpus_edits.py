"""Each file of the corpus, edited: everything that was not edited is as before, by h5py."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
#: Files that h5py reads otherwise after their edit, as it would after its own.
ODD = {
    "cve-2025-44904.h5": "h5py returns memory that it has not set",
    "synthetic/vds.h5": "a virtual dataset names the link that is moved",
}
#: Number of files per process.
BATCH = 60


def edited(paths: list[str], folder: Path) -> dict[str, Any]:
    """Returns the output of `edit_corpus.py` for each file; None if h5py crashes its process."""
    found: dict[str, Any] = {}
    while paths:
        command = [sys.executable, str(Path(__file__).with_name("edit_corpus.py")), str(folder), *paths[:BATCH]]
        process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        started = None
        for line in process.stdout.splitlines():
            told = json.loads(line)
            started = told.get("start")
            if started is None:
                found[told["path"]] = told
            else:
                found[started] = None
        if started is None:
            assert process.returncode == 0, process.stderr
            paths = paths[BATCH:]
        else:
            assert process.returncode < 0, process.stderr
            paths = paths[paths.index(started) + 1 :]
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_edits_of_the_corpus_change_nothing_else(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in (CORPUS / "manifest.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    files = [str(CORPUS / "files" / row[0]) for row in rows if row[6] == "hdf5" and row[10] == "ok"]
    found = edited(files, tmp_path)
    wrong = {
        path: told["wrong"]
        for path, told in found.items()
        if told and told.get("wrong") and not any(path.endswith(name) for name in ODD)
    }
    assert not wrong, json.dumps(wrong, indent=1)
    done = [told for told in found.values() if told and "refused" not in told]
    refused = Counter(told["refused"].partition("(file")[0] for told in found.values() if told and "refused" in told)
    print(f"{len(done)} of {len(files)} files edited, {sum('grown' in told for told in done)} with a dataset that grew")
    print("\n".join(f"{Path(told['path']).name}: {told['failed']}" for told in done if "failed" in told))
    print("\n".join(f"{count} refused: {reason}" for reason, count in refused.most_common()))
    assert len(done) > 0.85 * len(files)
