"""Reads files with a given libhdf5: `python libhdf5_records.py libhdf5.so` prints its version, and then answers each
path on a line with a line of JSON. Runs in a separate process, so that no other libhdf5 is loaded.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "conformance"))

import hdf5
import oracle


def main() -> None:
    library = hdf5.Library(Path(sys.argv[1]))
    print(json.dumps(library.version), flush=True)
    for line in sys.stdin:
        print(json.dumps(oracle.record(library, Path(line.rstrip("\n")))), flush=True)


if __name__ == "__main__":
    main()
