"""Cost of writing and reading particles in each format, in one process, as CPU and wall seconds.

    .venv/bin/python bench/arrow/formats.py                     # 8 columns of 8 Mi rows, 9 rounds
    .venv/bin/python bench/arrow/formats.py --page              # writes the table into docs/results/arrow-vol.md
    .venv/bin/python bench/arrow/formats.py --small             # a smoke test

Every format takes its turn in every round, in another order each time; ratios are to plain `write` and `pread` of
the same bytes in the same round. *write*: from creating the file until it is closed. *durable*: that, and fsync.
*all*: every column into existing arrays. *column*: one of the eight. *rows*: 100,000 rows of all
columns, opening the file included. All values read are compared once. Formats that are not installed (PyTables: `pip
install tables`) are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import h5py
import hyperchunk
import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]
NAMES = ("x", "y", "z", "px", "py", "pz", "id_1", "id_2")
SOME = 100_000
WHAT = ("write", "durable", "all", "column", "rows")


class Format:
    """A format, with its writer and reader."""

    label = ""
    every: ClassVar[dict[str, type[Format]]] = {}

    def __init_subclass__(cls) -> None:
        Format.every[cls.__name__.lower()] = cls

    def __init__(self, folder: Path, columns: Columns) -> None:
        self.path, self.columns = folder / type(self).__name__.lower(), columns
        self.rows = len(columns["x"])
        self.out = {name: np.ones_like(column) for name, column in columns.items()}

    def write(self) -> None:
        raise NotImplementedError

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        """Reads rows of columns, into `out` if the format supports that."""
        raise NotImplementedError


class Raw(Format):
    label = "plain `write` and `pread`"

    def write(self) -> None:
        with self.path.open("wb", buffering=0) as file:
            for column in self.columns.values():
                data = memoryview(column).cast("B")
                while data:
                    data = data[file.write(data) :]

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        handle = os.open(self.path, os.O_RDONLY)
        for name in names:
            place = NAMES.index(name) * self.rows * 4
            os.preadv(handle, [memoryview(out[name]).cast("B")], place + start * 4)
        os.close(handle)
        return out


class H5py(Format):
    label = "h5py, contiguous"
    options: ClassVar[dict[str, Any]] = {}

    def write(self) -> None:
        with h5py.File(self.path, "w") as file:
            group = file.create_group("Timestep_0")
            for name, column in self.columns.items():
                group.create_dataset(name, data=column, **self.options)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        with h5py.File(self.path) as file:
            for name in names:
                file["Timestep_0"][name].read_direct(out[name], np.s_[start:stop])
        return out


class H5pyChunked(H5py):
    label = "h5py, chunks of 64 Ki rows"
    options: ClassVar[dict[str, Any]] = {"chunks": (1 << 16,)}


class H5pyGzip(H5py):
    label = "h5py, the same, shuffle and gzip-1"
    options: ClassVar[dict[str, Any]] = {
        "chunks": (1 << 16,),
        "compression": "gzip",
        "compression_opts": 1,
        "shuffle": True,
    }


class PyTables(Format):
    label = "PyTables, a table"

    def write(self) -> None:
        import tables

        dtype = [(name, column.dtype) for name, column in self.columns.items()]
        rows = np.empty(self.rows, dtype)
        for name, column in self.columns.items():
            rows[name] = column
        with tables.open_file(str(self.path), "w") as file:
            file.create_table("/", "particles", rows)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        import tables

        with tables.open_file(str(self.path)) as file:
            if names == NAMES:
                rows = file.root.particles.read(start, stop)
                return {name: rows[name] for name in names}
            return {name: file.root.particles.read(start, stop, field=name) for name in names}


def arrow_table(columns: Columns) -> Any:
    import pyarrow as pa

    return pa.table(columns)


class Ipc(Format):
    label = "Arrow IPC, pyarrow, mapped"

    def write(self) -> None:
        import pyarrow as pa

        table = arrow_table(self.columns)
        with pa.OSFile(str(self.path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            return into(pa.ipc.open_file(source).read_all(), names, start, stop, out)


class Parquet(Format):
    label = "Parquet, snappy"
    codec = "snappy"

    def write(self) -> None:
        import pyarrow.parquet as pq

        pq.write_table(arrow_table(self.columns), self.path, compression=self.codec)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self.path, memory_map=True)
        groups, before, first = [], 0, 0
        for number in range(file.num_row_groups):
            count = file.metadata.row_group(number).num_rows
            if before < stop and before + count > start:
                first = first if groups else before
                groups.append(number)
            before += count
        table = file.read_row_groups(groups, columns=list(names))
        return into(table, names, start - first, stop - first, out)


class ParquetZstd(Parquet):
    label = "Parquet, zstd"
    codec = "zstd"


class Ours(Format):
    label = "Hyperchunk, contiguous HDF5"

    def write(self) -> None:
        with hyperchunk.open(self.path, "w", sync="never") as file:
            group = file.create_group("Timestep_0")
            for name, column in self.columns.items():
                group.create_dataset(name, data=column)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        with hyperchunk.open(self.path) as file:
            for name in names:
                file["Timestep_0"][name].read_direct(out[name], np.s_[start:stop])
        return out


class OursView(Ours):
    label = "Hyperchunk, contiguous HDF5, as a table"

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        with hyperchunk.open(self.path) as file:
            table = file.table("/Timestep_0", columns=list(names), rows=(start, stop)).to_pyarrow()
            return into(table, names, 0, stop - start, out)


class Dual(Format):
    label = "Hyperchunk, HDF5 and Arrow at once"

    def write(self) -> None:
        with hyperchunk.create(self.path, layout="arrow", sync="never") as file:
            file.append(self.columns)

    def read(self, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
        with hyperchunk.open(self.path) as file:
            table = file.table("/", columns=list(names), rows=(start, stop)).to_pyarrow()
            return into(table, names, 0, stop - start, out)


def into(table: Any, names: tuple[str, ...], start: int, stop: int, out: Columns) -> Columns:
    """Copies rows of an Arrow table to existing arrays."""
    for name in names:
        at = 0
        for chunk in table.column(name).slice(start, stop - start).chunks:
            out[name][at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=True)
            at += len(chunk)
    return out


def particles(rows: int) -> Columns:
    """Returns the columns of VPIC-IO: two ramps, the number, the rest random."""
    draw = np.random.default_rng(7)
    columns: Columns = {name: draw.random(rows, np.float32) * 64 for name in NAMES}
    columns["z"] = columns["pz"] = np.arange(rows, dtype=np.float32)
    columns["id_1"] = np.arange(rows, dtype=np.int32)
    return columns


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Returns the CPU seconds of all threads, and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def one_round(each: Format, compare: bool) -> dict[str, dict[str, float]]:
    """Measures a format."""
    with suppress(FileNotFoundError):
        each.path.unlink()
    found = {"write": timed(each.write)}
    found["durable"] = {key: found["write"][key] + value for key, value in timed(lambda: synced(each.path)).items()}
    third = each.rows // 3
    jobs = {
        "all": (NAMES, 0, each.rows, each.out),
        "column": (("px",), 0, each.rows, each.out),
        "rows": (
            NAMES,
            third,
            third + min(SOME, third),
            {name: array[: min(SOME, third)] for name, array in each.out.items()},
        ),
    }
    for what, (names, start, stop, out) in jobs.items():
        found[what] = timed(lambda job=(names, start, stop, out): each.read(*job))  # type: ignore[misc]
        if compare:
            got = each.read(names, start, stop, out)
            for name in names:
                np.testing.assert_array_equal(got[name], each.columns[name][start:stop], f"{each.label}: {name}")
    each.path.unlink()
    return found


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Runs every format in every round."""
    columns = particles(options.rows)
    names = options.formats.split(",")
    if "pytables" in names:
        try:
            import tables  # noqa: F401
        except ImportError:
            names.remove("pytables")
            print("PyTables is not installed: left out (pip install tables)")
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        formats = {name: Format.every[name](Path(scratch), columns) for name in names}
        for number in range(options.rounds + 1):
            # In random order: otherwise the clean-up after one format would always count for the same other one.
            for name in random.Random(number).sample(names, len(names)):
                time.sleep(0.2)
                row = {"format": name, "round": number, "count": options.rows}
                yield row | one_round(formats[name], compare=number == 0)
            print(f"round {number} of {options.rounds}", flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Returns ratios to plain system calls: minimum CPU time of all rounds, and median of the wall time's ratios."""
    kept = [row for row in rows if row["round"]] or rows
    names = list(dict.fromkeys(row["format"] for row in kept if row["format"] in Format.every))
    names.sort(key=list(Format.every).index)
    raw = {row["round"]: row for row in kept if row["format"] == "raw"}
    lines = [f"| {' | '.join(['format', *WHAT])} |", "|---" * (len(WHAT) + 1) + "|"]
    for name in names:
        mine = [row for row in kept if row["format"] == name]
        cells = []
        for what in WHAT:
            cpu = min(row[what]["cpu"] for row in mine) / min(row[what]["cpu"] for row in raw.values())
            wall = statistics.median(row[what]["wall"] / raw[row["round"]][what]["wall"] for row in mine)
            cells.append(f"{cpu:.2f} / {wall:.2f}")
        lines.append(f"| {Format.every[name].label} | {' | '.join(cells)} |")
    floors = ", ".join(f"{what} {min(row[what]['cpu'] for row in raw.values()) * 1e3:.1f} ms" for what in WHAT)
    size = kept[0]["count"] * 32 / 1e6
    rounds = max(row["round"] for row in kept)
    about = f"CPU (least) / clock (median of ratios), to the first row; {size:.0f} MB, {rounds} rounds."
    return "\n".join([*lines, "", f"{about} The first row's least CPU times: {floors}."])


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8 << 20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--formats", default=",".join(Format.every))
    parser.add_argument("--folder", default=None, help="where to write (default: the folder for temporary files)")
    parser.add_argument("--out", type=Path, default=Path("arrow-formats.jsonl"))
    parser.add_argument("--page", action="store_true", help="puts the table into docs/results/arrow-vol.md")
    parser.add_argument("--draw", action="store_true", help="only the table, of what was measured before")
    parser.add_argument("--small", action="store_true", help="kilobytes, one round")
    options = parser.parse_args()
    scratch = None
    if options.small:
        scratch = Path(tempfile.mkdtemp())
        options.rows, options.rounds, options.out = 200_000, 1, scratch / "small.jsonl"
    if not options.draw:
        with options.out.open("w") as file:
            for row in measure(options):
                print(json.dumps(row), file=file, flush=True)
    made = table([json.loads(line) for line in options.out.read_text().splitlines()])
    print(made)
    if options.page:
        from article import put

        put("formats", made)
    if scratch:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
