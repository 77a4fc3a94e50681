"""Many processes write one logical file, and read it back: every peer against each process writing its own raw file.

    .venv/bin/python bench/sharded/write.py                # vpic and interleaved, 4 ranks, all peers
    .venv/bin/python bench/sharded/write.py --ranks 8 --patterns vpic --peers floor,store,paper --rounds 15
    .venv/bin/python bench/sharded/write.py --small        # a smoke test: kilobytes, one round

Starts its ranks under `mpiexec` (PyPI's mpich). Peers take turns inside every round, in rotating order; round
0 is a warm-up. A time is from the first rank's start to the last one's end, with open, close and commit; a ratio is to
the floor of the same round: medians [least..most]. Everything is read back once and compared byte for byte, each rank
reading its neighbour's data: a peer with wrong data ends the run. JSON lines go to --out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environment
import report
from gate import Gate

PEERS = (
    "floor,store-plain,store,store-statistics,vol,paper,shared,mpiio,mpiio-collective,phdf5,phdf5-collective,"
    "h5py-lock,h5py-lock-block,h5py-each,bp5,bp5-plain"
)
OWN = "store-plain,store,store-statistics,vol"


class Rank:
    """One process of a measurement."""

    def __init__(self, options: argparse.Namespace) -> None:
        from mpi4py import MPI
        from pattern import pattern

        self.comm, self.options = MPI.COMM_WORLD, options
        self.smallest, self.largest = MPI.MIN, MPI.MAX
        self.pattern = pattern(options.pattern, self.comm.size, options.datasets, options.transfers, options.count)
        self.own = self.pattern.of(self.comm.rank)
        self.folder = Path(options.folder) / "bench"
        self.gate = Gate(Path(options.folder) / "gate", self.comm.rank, self.comm.size)

    def timed(self, work: Callable[[], Any]) -> float:
        """Returns the time from the first start to the last end, by the machine's common clock. Work that another
        process does for a rank is timed there: waking it and receiving its answer are not included.
        """
        self.gate.wait()
        start = time.perf_counter()
        told = work()
        start, end = told or (start, time.perf_counter())
        self.gate.wait()
        return float(self.comm.allreduce(end, self.largest) - self.comm.allreduce(start, self.smallest))

    def run(self) -> None:
        """Runs all rounds."""
        import numpy as np
        from peers import Case, Peer

        if set(self.options.peers.split(",")) & set(OWN.split(",")):
            import ours  # noqa: F401

        folder = self.folder
        case = Case(self.comm, self.pattern, folder, self.own)
        names = self.options.peers.split(",")
        peers = {name: Peer.all[name](case) for name in names}
        neighbour = (self.comm.rank + 1) % self.comm.size

        def compare(transfer: Any, got: Any) -> None:
            if not np.array_equal(transfer.array.view("u1"), got.view("u1")):
                raise ValueError(f"v{transfer.dataset}[{transfer.start}:] reads back wrong")

        for number in range(self.options.rounds + 1):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                peer = peers[name]
                if self.comm.rank == 0:
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(parents=True)
                row = {"peer": name, "label": peer.label, "round": number, "write": self.timed(peer.write)}
                if not self.options.no_read:
                    row["read"] = self.timed(lambda peer=peer: peer.read(self.comm.rank, self.own, lambda *_: None))
                if number == 0:
                    peer.read(neighbour, self.pattern.of(neighbour), compare)
                    self.gate.wait()
                if self.comm.rank == 0:
                    self.record(row, folder)
        for peer in peers.values():
            peer.close()

    def record(self, row: dict[str, Any], folder: Path) -> None:
        """Writes one line of JSON."""
        made = list(folder.rglob("*"))
        row |= {"entries": len(made), "bytes": sum(path.stat().st_size for path in made if path.is_file())}
        row |= {"pattern": self.pattern.name, "ranks": self.pattern.ranks, "total": self.pattern.total}
        row |= {"datasets": self.pattern.datasets, "transfers": self.pattern.transfers, "count": self.pattern.count}
        with Path(self.options.out).open("a") as file:
            print(json.dumps(row), file=file)


def measure(pattern: str, options: argparse.Namespace, out: Path, **more: Any) -> list[dict[str, Any]]:
    """Runs one pattern under `mpiexec`; returns its rows."""
    chosen = {"ranks": 4, "peers": PEERS, "rounds": 9, "datasets": 0, "transfers": 0, "count": 0} | vars(options) | more
    before = len(report.rows(out))
    with tempfile.TemporaryDirectory(dir=chosen.get("folder")) as folder:
        program: list[str | Path] = [Path(__file__), "--rank", "--pattern", pattern, "--out", out]
        program += ["--folder", folder]
        Gate.prepare(Path(folder) / "gate")
        for name in ("peers", "rounds", "datasets", "transfers", "count"):
            program += [f"--{name}", str(chosen[name])]
        environment.mpiexec(chosen["ranks"], program + ["--no-read"] * bool(chosen.get("no_read")))
    return report.rows(out)[before:]


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--patterns", default="vpic,interleaved", help="of vpic, contiguous, interleaved")
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", default="/dev/shm", help="where to write (default: memory)")
    parser.add_argument("--out", type=Path, default=Path("sharded-write.jsonl"))
    parser.add_argument("--no-read", action="store_true", help="write only; what was written is compared all the same")
    parser.add_argument("--small", action="store_true", help="kilobytes, one round: whether it works")
    for name in ("datasets", "transfers", "count"):
        parser.add_argument(f"--{name}", type=int, default=0, help="of the pattern; else its usual number")
    parser.add_argument("--page", action="store_true", help="puts the tables into docs/results/plfs.md")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--pattern", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Starts the ranks, or runs one."""
    options = parse()
    if options.rank:
        try:
            Rank(options).run()
        except BaseException:
            from mpi4py import MPI

            print(f"rank {MPI.COMM_WORLD.rank}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            MPI.COMM_WORLD.Abort(1)
        return
    if options.small:
        options.rounds, options.datasets, options.transfers, options.count = 1, 3, 5, 1034
    tables = []
    for pattern in options.patterns.split(","):
        tables.append(report.table(measure(pattern, options, options.out)))
        print(tables[-1], flush=True)
    if options.page:
        report.put(f"write-{options.ranks}", "\n".join(tables))


if __name__ == "__main__":
    main()
