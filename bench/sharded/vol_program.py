"""One rank of a plain h5py program without Hyperchunk; every rank creates the same file.

    python vol_program.py PATTERN RANK RANKS DATASETS TRANSFERS COUNT

Reads paths from standard input and writes to each; prints its start and end times.
`ours.py` starts it.
"""

from __future__ import annotations

import json
import sys
import time

import h5py
from pattern import Pattern


def main() -> None:
    """Runs the program."""
    name, rank, *numbers = sys.argv[1], *map(int, sys.argv[2:])
    pattern = Pattern(name, *numbers)
    transfers = pattern.of(rank)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        with h5py.File(line.rstrip("\n"), "w") as file:
            made = [file.create_dataset(f"v{i}", (pattern.length,), pattern.dtype) for i in range(pattern.datasets)]
            for transfer in transfers:
                made[transfer.dataset][transfer.start : transfer.start + transfer.array.size] = transfer.array
        print(json.dumps([start, time.perf_counter()]), flush=True)


if __name__ == "__main__":
    main()
