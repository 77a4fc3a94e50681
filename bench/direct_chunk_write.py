"""Direct chunk writes: Table 1 of *RFC: Direct Chunk Write*, with our rows, and the cost of compression.

    .venv/bin/python bench/direct_chunk_write.py                    # both sizes that fit anywhere, all tables
    .venv/bin/python bench/direct_chunk_write.py --large            # the 2.3 GB one of the RFC, too
    .venv/bin/python bench/direct_chunk_write.py --tables small     # 100,000 chunks of 4 KiB only

Data are made as in the RFC: random 32-bit integers that deflate to two thirds. Writers take turns, round by round; each
round is a ratio to `os.write` of the same bytes in the same round; medians of the rounds. The written data are read
back with h5py and compared, outside the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import numpy.typing as npt

Chunks = list[bytes]
Writer = Callable[[Path, bool], None]
MIB = 1 << 20


def shuffled(array: npt.NDArray[Any]) -> bytes:
    """Applies HDF5's shuffle filter."""
    size = array.dtype.itemsize
    return array.reshape(-1).view(np.uint8).reshape(-1, size).T.tobytes()


class Data:
    """Frames, each also compressed before the clock starts."""

    def __init__(self, frames: int, rows: int, columns: int, distinct: int = 10) -> None:
        draw = np.random.default_rng(7)
        made = draw.integers(0, 1 << 21, (distinct, rows, columns), dtype=np.int32)
        self.shape, self.chunk = (frames, rows, columns), (1, rows, columns)
        self.frames = [made[number % distinct] for number in range(frames)]
        deflated = [zlib.compress(shuffled(frame), 6) for frame in made]
        self.deflated = [deflated[number % distinct] for number in range(frames)]
        self.raw = [frame.tobytes() for frame in self.frames]
        self.size = sum(map(len, self.raw))
        self.stored = sum(map(len, self.deflated))


def plain(chunks: Chunks) -> Writer:
    """Writes with `os.write`, chunk by chunk."""

    def write(path: Path, sync: bool) -> None:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for chunk in chunks:
            os.write(descriptor, chunk)
        if sync:
            os.fsync(descriptor)
        os.close(descriptor)

    return write


def theirs(data: Data, filters: bool, put: Callable[[Any, int], None]) -> Writer:
    """Writes with h5py, with `put` for each frame."""

    def write(path: Path, sync: bool) -> None:
        with h5py.File(path, "w") as file:
            options: dict[str, Any] = {"compression": "gzip", "compression_opts": 6, "shuffle": True}
            made = file.create_dataset("d", data.shape, "<i4", chunks=data.chunk, **(options if filters else {}))
            for number in range(data.shape[0]):
                put(made, number)
            if sync:
                file.flush()
                os.fsync(file.id.get_vfd_handle())

    return write


def ours(data: Data, filters: bool, put: Callable[[Any, int], None]) -> Writer:
    """Writes with Hyperchunk, with `put` for each frame."""

    def write(path: Path, sync: bool) -> None:
        with hyperchunk.open(path, "w", sync="commit" if sync else "never") as file:
            options: dict[str, Any] = {"compression": "gzip", "compression_opts": 6, "shuffle": True}
            made = file.create_dataset("d", data.shape, "<i4", chunks=data.chunk, **(options if filters else {}))
            for number in range(data.shape[0]):
                put(made, number)

    return write


def rfc_writers(data: Data) -> dict[str, Writer]:
    """Returns the writers of the RFC's table, and ours."""

    def frame(made: Any, number: int) -> None:
        made[number] = data.frames[number]

    def their_chunk(made: Any, number: int, chunks: Chunks) -> None:
        made.id.write_direct_chunk((number, 0, 0), chunks[number])

    def our_chunk(made: Any, number: int, chunks: Chunks) -> None:
        made.write_chunk((number, 0, 0), chunks[number])

    return {
        "`os.write`, compressed before": plain(data.deflated),
        "hyperchunk `write_chunk`, compressed before": ours(data, True, lambda d, n: our_chunk(d, n, data.deflated)),
        "h5py `write_direct_chunk`, compressed before": theirs(
            data, True, lambda d, n: their_chunk(d, n, data.deflated)
        ),
        "`os.write`, uncompressed": plain(data.raw),
        "hyperchunk `write_chunk`, uncompressed": ours(data, False, lambda d, n: our_chunk(d, n, data.raw)),
        "h5py `write_direct_chunk`, uncompressed": theirs(data, False, lambda d, n: their_chunk(d, n, data.raw)),
        "hyperchunk `d[n] = …`, no filter": ours(data, False, frame),
        "h5py `d[n] = …`, no filter (`H5Dwrite`)": theirs(data, False, frame),
        "hyperchunk `d[n] = …`, shuffle + gzip 6": ours(data, True, frame),
        "h5py `d[n] = …`, shuffle + gzip 6 (`H5Dwrite`)": theirs(data, True, frame),
    }


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Returns wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def rfc(folder: Path, rounds: int, sizes: list[tuple[int, int, int]]) -> None:
    """Prints the RFC's Table 1."""
    for size in sizes:
        data = Data(*size)
        shown = f"{data.size / MIB:.2f} MiB, {data.stored / MIB:.2f} MiB compressed"
        print(f"\n### {' x '.join(map(str, size))} int32: {shown}\n")
        for sync in (False, True):
            found: dict[str, list[tuple[float, float]]] = {}
            writers = rfc_writers(data)
            for number in range(rounds):
                for name, write in writers.items():
                    if number and "gzip 6 (`H5D" in name:
                        continue  # a minute each
                    path = folder / "d.h5"
                    found.setdefault(name, []).append(timed(partial(write, path, sync)))
                    if not number and "os.write" not in name:
                        check(path, data.frames)
                    path.unlink()
            print(f"{'fsync at the end' if sync else 'no sync'}, medians of {rounds} rounds\n")
            print("| writer | s | processor s | MiB/s | to `os.write` of the same bytes |\n|---|---|---|---|---|")
            for name, times in found.items():
                base = found[
                    "`os.write`, "
                    + ("uncompressed" if "uncomp" in name or "no filter" in name else "compressed before")
                ]
                ratio = statistics.median(mine[0] / other[0] for mine, other in zip(times, base, strict=False))
                wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
                print(f"| {name} | {wall:.3f} | {cpu:.3f} | {data.size / MIB / wall:.0f} | {ratio:.2f} |", flush=True)
            print()


def check(path: Path, frames: list[npt.NDArray[Any]]) -> None:
    """Checks that h5py reads the written values."""
    with h5py.File(path) as file:
        for number in (0, len(frames) // 2, len(frames) - 1):
            np.testing.assert_array_equal(file["d"][number], frames[number])


def small(folder: Path, rounds: int) -> None:
    """Measures 100,000 chunks of 4 KiB."""
    count, chunk, batch = 100_000, np.arange(1024, dtype=np.int32).tobytes(), 1000
    shape, chunks = (count * 1024,), (1024,)
    offsets = [(number * 1024,) for number in range(count)]
    starts = range(0, count, batch)
    tuples = [[(offset, chunk) for offset in offsets[first : first + batch]] for first in starts]
    array, together = np.array(offsets), chunk * batch

    def ours_with(put: Callable[[Any], None], **options: Any) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with hyperchunk.open(path, "w", sync="never", **options) as file:
                put(file.create_dataset("d", shape, "<i4", chunks=chunks))

        return write

    def one_by_one(made: Any) -> None:
        for offset in offsets:
            made.write_chunk(offset, chunk)

    def listed(made: Any) -> None:
        for some in tuples:
            made.write_chunks(some)

    def arrays(made: Any) -> None:
        for first in starts:
            made.write_chunks(array[first : first + batch], together)

    def theirs_with(**options: Any) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with h5py.File(path, "w", **options) as file:
                made = file.create_dataset("d", shape, "<i4", chunks=chunks)
                for offset in offsets:
                    made.id.write_direct_chunk(offset, chunk)

        return write

    writers = {
        "`os.write`, one a call": lambda path: plain([chunk] * count)(path, False),
        "`os.write`, 1000 a call": lambda path: plain([together] * (count // batch))(path, False),
        "hyperchunk `write_chunks(array, bytes)`, 1000 a call": ours_with(arrays),
        "the same, libver v110, without a journal": ours_with(arrays, libver="v110", journal=False),
        "hyperchunk `write_chunks([(offset, bytes), …])`, 1000 a call": ours_with(listed),
        "hyperchunk `write_chunk`": ours_with(one_by_one),
        "h5py `write_direct_chunk`": theirs_with(),
        "h5py `write_direct_chunk`, libver latest": theirs_with(libver="latest"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
    order = [*writers]
    for _ in range(rounds):
        # The order rotates: the system's work on the previous file counts for the next writer.
        order = [*order[3:], *order[:3]]
        for name in order:
            write, path = writers[name], folder / "d.h5"
            found[name].append(timed(partial(write, path)))
            if "os.write" not in name:
                with h5py.File(path) as file:
                    assert file["d"][-2048:].tobytes() == chunk * 2
                    assert file["d"].id.get_num_chunks() == count
            path.unlink()
    print(
        f"\n### 100,000 chunks of 4 KiB\n\nmedians of {rounds} rounds\n\n"
        "| writer | s | processor s | us a chunk | h5py's time / this | this / `os.write` of 1000 a call |\n"
        "|---|---|---|---|---|---|"
    )

    def ratio(one: str, other: str) -> float:
        return statistics.median(a[0] / b[0] for a, b in zip(found[one], found[other], strict=True))

    for name, times in found.items():
        wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
        factor, plainly = ratio("h5py `write_direct_chunk`", name), ratio(name, "`os.write`, 1000 a call")
        shown = f"{wall:.3f} | {cpu:.3f} | {wall / count * 1e6:.2f} | {factor:.1f} | {plainly:.2f}"
        print(f"| {name} | {shown} |", flush=True)


def compressing(folder: Path, rounds: int) -> None:
    """Measures detector-like data, compressed while they are written."""
    draw = np.random.default_rng(3)
    y, x = np.ogrid[-1:1:1000j, -1:1:250j]
    rings = 0.5 + 6 * np.exp(-(((np.hypot(x, y) * 8) % 1 - 0.5) ** 2) * 30) * np.exp(-np.hypot(x, y))
    frames = draw.poisson(rings, (100, 1000, 250)).astype(np.int32)

    def their(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("d", data=frames, chunks=(1, 1000, 250), compression="gzip", compression_opts=6)

    def our(threads: int, **options: Any) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with hyperchunk.open(path, "w", sync="never", threads=threads) as file:
                file.create_dataset("d", data=frames, chunks=(1, 1000, 250), **options)

        return write

    writers: dict[str, Callable[[Path], None]] = {
        "h5py gzip 6": their,
        "hyperchunk default preset, 1 thread": our(1, filters="deflate"),
        "hyperchunk default preset, 2 threads": our(2, filters="deflate"),
        "hyperchunk `fast`, 1 thread": our(1, filters="fast"),
        "hyperchunk `fast`, 2 threads": our(2, filters="fast"),
        "hyperchunk `small`, 2 threads": our(2, filters="small"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
    sizes: dict[str, int] = {}
    for number in range(rounds):
        for name, write in writers.items():
            if number and name == "h5py gzip 6":
                continue
            path = folder / "d.h5"
            found[name].append(timed(partial(write, path)))
            if not number:
                with hyperchunk.open(path) as file:
                    np.testing.assert_array_equal(file["d"][...], frames)
                if "fast" not in name and "small" not in name:
                    with h5py.File(path) as other:
                        np.testing.assert_array_equal(other["d"][...], frames)
            sizes[name] = path.stat().st_size
            path.unlink()
    base = statistics.median(cpu for _, cpu in found["h5py gzip 6"])
    print(f"\n### Detector-like frames, {frames.nbytes / MIB:.1f} MiB, compressed while they are written\n")
    print(
        "| writer | s | processor s | ratio | h5py's processor time / this | its ratio / h5py's |\n"
        "|---|---|---|---|---|---|"
    )
    for name, times in found.items():
        wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
        ratio, other = frames.nbytes / sizes[name], frames.nbytes / sizes["h5py gzip 6"]
        print(f"| {name} | {wall:.3f} | {cpu:.3f} | {ratio:.2f} | {base / cpu:.1f} | {ratio / other:.2f} |", flush=True)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to write; else a temporary folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true", help="100 x 2000 x 3000, too: 2.3 GB, minutes")
    parser.add_argument("--tables", default="rfc,small,compressing")
    arguments = parser.parse_args()
    sizes = [(100, 1000, 250), (100, 2000, 1000)] + ([(100, 2000, 3000)] if arguments.large else [])
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        tables = arguments.tables.split(",")
        if "small" in tables:
            small(Path(folder), arguments.rounds)
        if "compressing" in tables:
            compressing(Path(folder), min(arguments.rounds, 5))
        if "rfc" in tables:
            rfc(Path(folder), arguments.rounds, sizes)


if __name__ == "__main__":
    main()
