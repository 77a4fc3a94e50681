"""Makes the conformance files and their oracle: `make.py OUT [--only SUBSTRING] [--library libhdf5.so]`.

OUT/SUBJECT/NAME.h5 are the files, OUT/oracle.jsonl.gz holds one JSON object for each. The score of a reader:

    python conformance/make.py OUT && python check.py --cmd hyperchunk --files OUT --oracle OUT/oracle.jsonl.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases
import oracle
from hdf5 import Library


def make(out: Path, library: Library, only: str = "") -> list[Path]:
    """Makes the files whose path contains `only`; fails when one lacks what it is for."""
    made = []
    for case in cases.load():
        if only not in case.file or library.version < case.needs:
            continue
        path = out / case.file
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            case.make(library, path)
        except Exception as error:
            raise RuntimeError(f"{case.file} cannot be made") from error
        content = path.read_bytes()
        missing = [mark for mark in case.marks if mark not in content]
        if missing:
            raise RuntimeError(f"{case.file} lacks {missing}")
        made.append(path)
    return made


def main() -> None:
    """Makes the files, then reads each with libhdf5."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", metavar="SUBSTRING")
    parser.add_argument("--library", type=Path)
    options = parser.parse_args()
    out = options.out.resolve()
    library = Library(options.library)
    made = make(out, library, options.only)
    with gzip.open(out / "oracle.jsonl.gz", "wt") as lines:
        for record in oracle.records(library, out):
            lines.write(json.dumps(record) + "\n")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{len(made)} cases, {size / 1e6:.1f} MB, HDF5 {'.'.join(map(str, library.version))}")


if __name__ == "__main__":
    main()
