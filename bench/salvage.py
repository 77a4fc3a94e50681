"""Salvage of damaged files, beside h5py: cuts 100 files of the corpus at 10 random places each, and changes 20 random
bytes in 100 others. `python bench/salvage.py [CORPUS] [SEED]` prints the tables of docs/results/salvage.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DAMAGE = ROOT / "python" / "tests" / "salvage_damage.py"
#: Larger files are left out: they are read twice for each case.
LARGE = 1 << 19
FILES = 100
CUTS = 10


def run(paths: list[Path], seed: int, cuts: int, flips: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the cases of these files, and the files whose process ended early, with the reason."""
    told: list[dict[str, Any]] = []
    failed = []
    waiting = list(map(str, paths))
    while waiting:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(DAMAGE), folder, str(seed), str(cuts), str(flips), *waiting]
            # With it, h5py's use of freed memory crashes at once: on the undamaged file, which is then left out.
            environment = {**os.environ, "MALLOC_PERTURB_": "85"}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        told += [line for line in lines if "kind" in line]
        started = [line["start"] for line in lines if "start" in line]
        if done.returncode == 0 or not started:
            break
        failed.append(f"{started[-1]}: status {done.returncode}: {done.stderr[-500:]}")
        waiting = waiting[len(started) :]
    return told, failed


def choose(corpus: Path, seed: int) -> list[Path]:
    """Returns small files of the corpus with datasets that h5py reads, in random order."""
    found = []
    for line in (corpus / "manifest.tsv").read_text().splitlines()[1:]:
        path = corpus / "files" / line.split("\t")[0]
        if path.is_file() and path.stat().st_size <= LARGE and path.read_bytes().find(b"\x89HDF\r\n\x1a\n") >= 0:
            found.append(path)
    random.Random(seed).shuffle(found)
    return found


def table(name: str, told: list[dict[str, Any]]) -> str:
    """Returns a row of the table."""
    total = {key: sum(one[key] for one in told) for key in ("datasets", "equal", "h5py", "named", "attributes")}
    reasons = Counter(reason for one in told for _, reason in one["differs"])
    strangers = sum(len(one["stranger"]) for one in told)
    missing = sum(len(one["missing"]) for one in told)
    wrong = Counter(reason for one in told for _, _, reason in one["wrong_attributes"])
    refused = sum(one["error"] is not None for one in told)
    print(
        f"{name}: wrong by reason {dict(reasons)}, attributes by reason {dict(wrong)}, refused {refused}",
        file=sys.stderr,
    )
    return (
        f"| {name} | {len(told)} | {total['datasets']} | {total['h5py']} | **{total['equal']}** | "
        f"{sum(reasons.values())} | {strangers} | {missing} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    options = parser.parse_args()
    corpus, seed = options.corpus, options.seed
    files = choose(corpus, seed)
    with ThreadPoolExecutor() as pool:
        cutting = pool.submit(run, files[:FILES], seed, CUTS, 0)
        flipping = pool.submit(run, files[FILES : 2 * FILES], seed, 0, 1)
    (cut, failed_cut), (flipped, failed_flip) = cutting.result(), flipping.result()
    print("| damage | cases | datasets | h5py | salvaged equal | differ | strangers | untouched, not back |")
    print("|---|---|---|---|---|---|---|---|")
    print(table("none", [one for one in cut + flipped if one["kind"] == "none"]))
    print(table("cut", [one for one in cut if one["kind"] == "cut"]))
    print(table("20 bytes", [one for one in flipped if one["kind"] == "flip"]))
    for one in failed_cut + failed_flip:
        print(one, file=sys.stderr)
    Path("salvage-cases.json").write_text(json.dumps(cut + flipped, indent=1))


if __name__ == "__main__":
    main()
