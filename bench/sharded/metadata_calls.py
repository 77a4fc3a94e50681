"""Metadata calls of each rank, as a parallel file system's metadata server would see them: counts, hence no noise.

    .venv/bin/python bench/sharded/metadata_calls.py             # 16 ranks; 1, 10, 100 datasets
    .venv/bin/python bench/sharded/metadata_calls.py --index     # bytes of the index of 10^6 interleaved writes

Needs strace. Counts the calls between two marks that name a path in the benchmark's folder (open, create, stat,
mkdir, rename, unlink, …), whatever their result, by all threads and children of a rank; and separately the calls
through a descriptor that transfer no data (fstat, fsync, truncate, locks, …). `close` and `lseek` reach no server here.
"""

from __future__ import annotations

import argparse
import collections
import re
import shutil
import sys
import tempfile
from pathlib import Path

import environment
import report

BEGIN, END = "/hyperchunk-mark-begin", "/hyperchunk-mark-end"
DATA = {"read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2"}
FREE = DATA | {"close", "lseek", "mmap", "munmap", "dup", "dup2", "dup3", "fadvise64", "ioctl", "poll", "ppoll"}
CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)")
PEERS = "shared,store,vol,paper,mpiio,h5py-lock,h5py-lock-block,h5py-each,bp5"
OWN = {"store", "vol"}
LABELS = {
    "shared": "raw, one shared file",
    "store": "**Hyperchunk**",
    "vol": "**Hyperchunk**, h5py through the VOL",
    "paper": "the paper's layout",
    "mpiio": "MPI-IO, independent",
    "h5py-lock": "h5py, in turn under a lock",
    "h5py-lock-block": "h5py, a lock for every block",
    "h5py-each": "h5py, a file each",
    "bp5": "ADIOS2 BP5, a file each",
}


def rank(options: argparse.Namespace) -> None:
    """Runs each rank's part between the marks: one write, as in write.py."""
    from mpi4py import MPI
    from pattern import Pattern
    from peers import Case, Peer

    if OWN & {options.peer}:
        import ours  # noqa: F401

    comm = MPI.COMM_WORLD
    pattern = Pattern("contiguous", comm.size, options.datasets, 1, 1 << 16)
    folder = Path(options.folder)
    peer = Peer.all[options.peer](Case(comm, pattern, folder, pattern.of(comm.rank)))
    comm.Barrier()
    Path(BEGIN).exists()
    peer.write()
    Path(END).exists()
    comm.Barrier()
    peer.close()


def counted(trace: Path, folder: str) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Returns a rank's calls by path and by descriptor."""
    paths: collections.Counter[str] = collections.Counter()
    descriptors: collections.Counter[str] = collections.Counter()
    inside = False
    for line in trace.read_text(errors="replace").splitlines():
        if BEGIN in line or END in line:
            inside = BEGIN in line
            continue
        found = CALL.match(line)
        if not inside or not found or found[1] in FREE or folder not in found[2]:
            continue
        # `-y` shows a descriptor's file as 3</path>; a path argument is in quotes.
        named = re.search(r'"' + re.escape(folder), found[2]) or re.search(r'<[^>]*>, "[^"]+"', found[2])
        (paths if named else descriptors)[found[1]] += 1
    return paths, descriptors


def told(counts: collections.Counter[str], ranks: int) -> str:
    """Formats the calls per rank, with the most frequent ones named."""
    if not counts:
        return "0"
    names = ", ".join(f"{name} {number / ranks:.3g}" for name, number in counts.most_common(4))
    return f"**{counts.total() / ranks:.2f}** ({names})"


def calls(options: argparse.Namespace) -> None:
    """Prints the table."""
    strace = shutil.which("strace")
    if not strace:
        print("no strace here, so nothing is counted: apt-get install strace")
        return
    lines = [f"{options.ranks} ranks, one write to each dataset; calls a rank.", ""]
    heads = ["way", "datasets", "by name", "of them, in each rank but the first", "through a descriptor"]
    lines += [f"| {' | '.join(heads)} |", "|---|---|---|---|---|"]
    print("\n".join(lines))
    for peer in options.peers.split(","):
        for datasets in map(int, options.datasets.split(",")):
            with tempfile.TemporaryDirectory(dir=options.where) as base:
                folder, traces = Path(base) / "bench", Path(base) / "traces"
                folder.mkdir()
                traces.mkdir()
                # The shell knows its rank from the launcher, and names the trace after it.
                script = f'exec {strace} -f -y -qq -o "{traces}/$PMI_RANK" "$@"'
                program = [Path(__file__), "--rank", "--peer", peer, "--datasets", str(datasets), "--folder", folder]
                environment.mpiexec(options.ranks, program, ["sh", "-c", script, "sh"])
                paths: collections.Counter[str] = collections.Counter()
                descriptors: collections.Counter[str] = collections.Counter()
                others = 0
                for trace in traces.iterdir():
                    by_name, by_descriptor = counted(trace, str(folder))
                    paths += by_name
                    descriptors += by_descriptor
                    others += by_name.total() if trace.name != "0" else 0
            other = f"{others / (options.ranks - 1):.2f}" if options.ranks > 1 else "-"
            cells = [told(paths, options.ranks), other, told(descriptors, options.ranks)]
            lines.append(f"| {LABELS[peer]} | {datasets} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if options.page:
        report.put("metadata-calls", "\n".join(lines))


def index(options: argparse.Namespace) -> None:
    """Measures the index of 10^6 interleaved writes of a few bytes by four writers; PLFS needs 48 bytes for each."""
    import numpy as np
    from hyperchunk import store

    writes, writers, size = options.writes, 4, 10
    with tempfile.TemporaryDirectory(dir=options.where) as folder:
        path = Path(folder) / "store.h5"
        made = store.create(path, {"v": store.Dataset((writes * size,), "u1")})
        data = np.arange(size, dtype="u1")
        tickets = []
        for number in range(writers):
            writer = made.writer()
            for turn in range(writes // writers):
                writer.write("v", (turn * writers + number) * size, data)
            tickets.append(writer.close())
        made.commit(tickets)
        manifest = sum(one.stat().st_size for one in Path(f"{path}.d").glob("*.manifest"))
    text = (
        f"{writes:,} interleaved writes by {writers} writers: the manifest, which holds the whole index, has"
        f" {manifest:,} bytes. 48 bytes a write, as PLFS has them, are {48 * writes:,}."
    )
    print(text)
    if options.page:
        report.put("index", text)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--datasets", default="1,10,100")
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--index", action="store_true", help="the size of an index instead")
    parser.add_argument("--writes", type=int, default=10**6)
    parser.add_argument("--where", default="/dev/shm", help="where to write (default: memory)")
    parser.add_argument("--page", action="store_true", help="puts the table into docs/results/plfs.md")
    for name in ("--rank", "--inside"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in ("--peer", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        options.datasets = int(options.datasets)
        rank(options)
    elif options.index and not options.inside:
        raise SystemExit(environment.run([environment.python(), *sys.argv, "--inside"]))
    elif options.index:
        index(options)
    else:
        calls(options)


if __name__ == "__main__":
    main()
