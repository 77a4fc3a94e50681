"""Stores whose rows are in Arrow files: written through the connector and from Python, read by Arrow and plain HDF5."""

import http.server
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.ipc
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store
from vol import helpers

COLUMNS = ("x", "y", "z", "px", "py", "pz", "id_1", "id_2")

#: Write pattern of VPIC-IO: each process has a range of rows of each of eight datasets.
VPIC = """
import h5py, sys, numpy as np
rank, size, rows = map(int, sys.argv[1:4])
order = sys.argv[4]
random = np.random.default_rng(rank)
with h5py.File("run.h5", "w") as file:
    step = file.create_group("Timestep_0")
    step.attrs["time"] = 0.5
    for name in ("x", "y", "z", "px", "py", "pz", "id_1", "id_2"):
        step.create_dataset(name, (size * rows,), "i4" if name == "id_1" else "f4")
    start = rank * rows
    parts = 4 if order == "parts" else 1
    bounds = [(start + part * rows // parts, start + (part + 1) * rows // parts) for part in range(parts)]
    values = {name: random.random(rows, dtype="f4") for name in step}
    values["id_1"] = np.arange(start, start + rows, dtype="i4")
    if order == "small":
        for a in range(0, rows, 1000):
            for name in step:
                step[name][start + a:start + a + 1000] = values[name][a:a + 1000]
    else:
        for name in step:
            for a, b in bounds:
                step[name][a:b] = values[name][a - start:b - start]
"""


def vpic(folder: Path, rows: int, order: str, **options: object) -> Path:
    """Writes a store from four processes through h5py and the connector."""
    options = {"segments": "arrow", "fsync": "never"} | options
    env = hyperchunk.plugins.environment(store=True, writers=4, **options)
    ranks = [helpers.start(VPIC, rank, 4, rows, order, folder=folder, env=env) for rank in range(4)]
    for rank in ranks:
        helpers.finish(rank)
    return folder / "run.h5"


@pytest.mark.parametrize("order", ["whole", "parts", "small"])
def test_four_processes_through_h5py_and_everybody_reads_it(tmp_path: Path, order: str) -> None:
    rows = 50_000
    path = vpic(tmp_path, rows, order)
    with h5py.File(path) as file:
        step = file["Timestep_0"]
        assert step.attrs["time"] == 0.5
        native = {name: step[name][...] for name in COLUMNS}
        assert all(step[name].external for name in COLUMNS)
    np.testing.assert_array_equal(native["id_1"], np.arange(4 * rows))
    # Each process draws two arrays; this is the second.
    drawn = [np.random.default_rng(rank).random(2 * rows, dtype="f4")[rows:] for rank in range(4)]
    np.testing.assert_array_equal(native["id_2"], np.concatenate(drawn))
    with hyperchunk.open(path) as file:
        for name in COLUMNS:
            np.testing.assert_array_equal(file["Timestep_0"][name][...], native[name])

    found = store.fragments(path, "/Timestep_0")
    assert (found.rows, found.columns, len(found.files), found.epoch) == (4 * rows, sorted(COLUMNS), 4, 1)
    # N writers, one table: a log and a fragment each, and constants.
    assert sum(entry.is_file() for entry in (tmp_path / "run.h5.d").rglob("*")) == 4 + 4 + 1

    mapped = found.to_pyarrow()
    mapped.validate(full=True)
    for name in COLUMNS:
        np.testing.assert_array_equal(mapped[name].to_numpy(), native[name])

    # Arrow's tools need no knowledge of the store: a list of files, or the folder.
    folder = next((tmp_path / "run.h5.d" / "tables").iterdir())
    assert folder.name == f"Timestep_0@{4 * rows}"
    for source in (found.files, str(folder)):
        table = pyarrow.dataset.dataset(source, format="ipc").to_table().sort_by("id_1")
        assert table.num_rows == 4 * rows
        for name in COLUMNS:
            np.testing.assert_array_equal(table[name].to_numpy(), native[name])
    frame = polars.scan_ipc(found.files).sort("id_1").collect()
    assert frame.columns == list(table.column_names)
    for name in COLUMNS:
        np.testing.assert_array_equal(frame[name].to_numpy(), native[name])
    few = polars.scan_ipc(str(folder / "*.arrow")).filter(polars.col("id_1") >= 4 * rows - 10).collect()
    assert few.height == 10

    for file in found.files:
        for source in (pa.memory_map(file), pa.OSFile(file)):
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                for column in batch.columns:
                    assert isinstance(source, pa.OSFile) or column.buffers()[1].address % 64 == 0
        # Buffers begin at multiples of 64 bytes in the file, and stream readers find the schema.
        assert pa.ipc.open_stream(pa.OSFile(file).read_buffer().slice(8)).schema == reader.schema


def test_the_reader_of_a_later_epoch_and_the_files(tmp_path: Path) -> None:
    path = vpic(tmp_path, 20_000, "whole")
    before = store.fragments(path, "Timestep_0")
    with store.open(path, segments="arrow").writer() as writer:
        writer["Timestep_0/x"][5:15] = -1
    store.open(path).commit()
    with hyperchunk.open(path) as file, h5py.File(path) as native:
        assert (file["Timestep_0/x"][5:15] == -1).all()
        assert (native["Timestep_0/x"][5:15] == -1).all()
        assert (native["Timestep_0/x"][:5] != -1).all()
    with pytest.raises(ValueError, match="overwritten since"):
        store.fragments(path, "Timestep_0")
    assert store.fragments(path, "Timestep_0", epoch=1).files == before.files


@pytest.mark.skipif(sys.platform != "linux", reason="pools are on Linux only")
@pytest.mark.parametrize("memory", ["100K", "64M"])
@pytest.mark.parametrize("segments", ["arrow", "log"])
def test_what_waits_in_memory_is_there_when_files_are_closed(tmp_path: Path, memory: str, segments: str) -> None:
    """Data cached in memory are written at the close, even if there is less memory than data."""
    path = vpic(tmp_path, 30_000, "parts", memory=memory, segments=segments)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["Timestep_0/id_1"][...], np.arange(120_000))
        drawn = [np.random.default_rng(rank).random(60_000, dtype="f4")[30_000:] for rank in range(4)]
        np.testing.assert_array_equal(file["Timestep_0/id_2"][...], np.concatenate(drawn))
    if segments == "arrow":
        assert store.fragments(path, "Timestep_0").rows == 120_000
    killed = """
    import h5py, os, numpy as np
    file = h5py.File("k.h5", "w")
    x = file.create_dataset("x", (1000,), "f8", data=np.ones(1000))
    assert (x[:10] == 1).all()
    file.flush()
    x[:] = 2
    os.kill(os.getpid(), 9)
    """
    env = hyperchunk.plugins.environment(store=True, memory=memory, segments=segments, commit="manual")
    process = helpers.start(killed, folder=tmp_path, env=env)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    store.open(tmp_path / "k.h5").commit(salvage=True)
    with hyperchunk.open(tmp_path / "k.h5") as file:
        assert (file["x"][...] == 1).all()


def test_python_batches_appends_and_types(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    state = h5py.enum_dtype({"off": 0, "on": 3}, "i2")
    datasets = {
        "/p/f2": store.Dataset((3000,), "f2"),
        "/p/u8": store.Dataset((3000,), "u8"),
        "/p/v": store.Dataset((3000, 2, 3), "f8"),
        "/p/text": store.Dataset((3000,), "S5"),
        "/p/flag": store.Dataset((3000,), "?"),
        "/p/state": store.Dataset((3000,), state),
        "/p/big": store.Dataset((3000,), ">i4"),
        "/log": store.Dataset((0,), "i8", maxshape=(None,), chunks=(100,)),
    }
    run = store.create(path, datasets, segments="arrow", sync="never")
    rng = np.random.default_rng(1)
    data = {
        "f2": rng.random(3000).astype("f2"),
        "u8": rng.integers(0, 2**64 - 1, 3000, "u8"),
        "v": rng.random((3000, 2, 3)),
        "text": np.array([b"%d" % n for n in range(3000)], "S5"),
        "flag": rng.integers(0, 2, 3000).astype("?"),
        "state": rng.choice(np.array([0, 3], "i2"), 3000),
    }
    for part in range(3):
        with run.writer() as writer:
            rows = slice(part * 1000, part * 1000 + 1000)
            if part == 1:
                arrow = {key: pa.array(values[rows]) for key, values in data.items() if values.ndim == 1}
                arrow["f2"] = pa.array(data["f2"][rows], pa.float16())
                arrow["text"] = pa.array(data["text"][rows].tolist())
                arrow["v"] = pa.FixedShapeTensorArray.from_numpy_ndarray(data["v"][rows])
                writer.write_batch("/p", pa.table(arrow), rows.start)
            else:
                writer.write_batch("p", {key: values[rows] for key, values in data.items()}, rows.start)
            writer["/p/big"][rows] = 7
            writer.append("/", {"log": np.full(10 + part, part)})
            if part == 0:
                with pytest.raises(KeyError, match="p/none"):
                    writer.write_batch("p", {"none": [1]}, 0)
                with pytest.raises(ValueError, match="equal lengths"):
                    writer.write_batch("p", {"u8": [1], "f2": [1, 2]}, 0)
    run.commit()
    found = run.fragments("p")
    assert found.columns == ["f2", "flag", "state", "text", "u8", "v"]
    table = found.to_pyarrow()
    table.validate(full=True)
    assert table.schema.field("v").type == pa.fixed_shape_tensor(pa.float64(), (2, 3))
    assert table.schema.field("flag").type == pa.bool8()
    assert table.schema.field("text").type == pa.binary(5)
    np.testing.assert_array_equal(table["v"].combine_chunks().to_numpy_ndarray(), data["v"])
    for name in ("f2", "u8"):
        np.testing.assert_array_equal(table[name].to_numpy(), data[name])
    np.testing.assert_array_equal(table["flag"].combine_chunks().storage.to_numpy(), data["flag"])
    np.testing.assert_array_equal(table["state"].to_numpy(), data["state"])
    with h5py.File(path) as file:
        for name, values in data.items():
            np.testing.assert_array_equal(file["p"][name][...], values)
        assert (file["p/big"][...] == 7).all()
        assert sorted(file["log"][...]) == [0] * 10 + [1] * 11 + [2] * 12
    assert run.fragments("/").rows == 33
    text = next((tmp_path / "run.h5.d" / "tables").rglob("*.arrow"))
    assert pa.ipc.open_file(str(text)).schema.metadata[b"h5.group"] in (b"/", b"/p")


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Web server with range requests, like an object store."""

    def log_message(self, *_: object) -> None:
        """Suppresses logging."""

    def do_GET(self) -> None:
        """Returns a range of a file, or all of it."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        data = path.read_bytes()
        asked = re.match(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self.send_response(200)
        else:
            first, last = asked.groups()
            start = int(first) if first else max(len(data) - int(last), 0)
            end = min(int(last) if first and last else len(data) - 1, len(data) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(data)}")
            data = data[start : end + 1]
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None


def test_over_a_network(tmp_path: Path) -> None:
    values = np.arange(100_000.0)
    run = store.create(tmp_path / "run.h5", {"/a b/c/x": store.Dataset(100_000, "f8")}, segments="arrow", sync="never")
    with run.writer() as writer:
        writer["/a b/c/x"][...] = values
    run.commit()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/run.h5"
        with hyperchunk.open(url, storage_options={"allow_http": "true"}) as file:
            np.testing.assert_array_equal(file["a b/c/x"][...], values)
            np.testing.assert_array_equal(file["a b/c/x"][500:90_000:7], values[500:90_000:7])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_not_rows_stays_in_the_log_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    datasets = {name: store.Dataset((100, 4), "f4") for name in "ab"}
    run = store.create(path, datasets, segments="arrow", sync="never")
    with run.writer() as writer:
        writer["a"][...] = 1
        writer["b"][:, :2] = 2
        writer["b"][:, 2:] = 3
    run.commit()
    with pytest.raises(ValueError, match="of b are in a log"):
        run.fragments()
    with h5py.File(path) as file:
        assert (file["b"][0] == [2, 2, 3, 3]).all()
        assert (file["a"][...] == 1).all()
    with pytest.raises(ValueError, match="segments must be"):
        run.writer(segments="parquet")
    with pytest.raises(FileNotFoundError):
        run.fragments("/nothing")


def test_writers_that_flush_and_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"x": store.Dataset((30,), "i4")}, segments="arrow", sync="never")
    writer = run.writer()
    writer["x"][:10] = 1
    ticket = writer.flush()
    run.commit([ticket])
    (file,) = writer.fragments
    early = pa.ipc.open_file(pa.memory_map(file))
    assert early.read_all()["x"].to_pylist() == [1] * 10
    writer["x"][10:30] = np.arange(20)
    run.commit([writer.flush()])
    assert run.fragments().to_pyarrow()["x"].to_pylist() == [1] * 10 + list(range(20))
    # A reader that opened the file earlier continues.
    assert early.read_all()["x"].to_pylist() == [1] * 10
    writer["x"][:10] = 2
    run.commit([writer.close()])
    # Overwritten completely: the footer no longer lists the old batch.
    assert run.fragments().to_pyarrow()["x"].to_pylist() == [2] * 10 + list(range(20))


def test_the_command_keeps_working(tmp_path: Path) -> None:
    path = vpic(tmp_path, 5000, "small")
    with h5py.File(path) as file:
        native = {name: file["Timestep_0"][name][...] for name in COLUMNS}

    def command(*words: object, works: bool = True) -> str:
        done = subprocess.run([HYPERCHUNK, *map(str, words)], check=False, capture_output=True, text=True)
        assert (done.returncode == 0) == works, done.stderr
        return done.stdout + done.stderr

    command("store", "verify", path)
    command("store", "pack", path, tmp_path / "one.h5")
    command("store", "link", path)
    command("store", "compact", path)
    found = store.fragments(path, "Timestep_0")
    assert len(found.files) == 1
    assert len(found.batches) == 1
    command("store", "vacuum", path, "--grace", "0")
    assert sum(1 for _ in (tmp_path / "run.h5.d").rglob("*.arrow")) == 1
    for source in (path, tmp_path / "one.h5"):
        with h5py.File(source) as file:
            for name in COLUMNS:
                np.testing.assert_array_equal(file["Timestep_0"][name][...], native[name])
    # A changed byte of a fragment is detected.
    fragment = Path(found.files[0])
    fragment.chmod(0o600)
    data = bytearray(fragment.read_bytes())
    data[20_000] ^= 1
    fragment.write_bytes(data)
    assert "logs are damaged" in command("store", "verify", path, works=False)


#: Writes batches until it is killed; prints the flushed ones.
KILLED = """
import sys, numpy as np
from hyperchunk import store
seed = int(sys.argv[1])
random = np.random.default_rng(seed)
writer = store.open("run.h5", segments="arrow", sync="never").writer()
print("ready", flush=True)
row = seed * 2_000_000
while True:
    rows = int(random.choice([10, 3000, 60_000]))
    values = np.arange(row, row + rows)
    writer.write_batch("t", {"a": values, "b": -values.astype("f8")}, row)
    row += rows
    if random.random() < 0.2:
        writer.flush()
        print(row, flush=True)
"""


def test_killed_writers_leave_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    total = 3 * 2_000_000
    store.create(path, {"t/a": store.Dataset((total,), "i8"), "t/b": store.Dataset((total,), "f8")}, sync="never")
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [helpers.start(KILLED, seed, folder=tmp_path, env=env) for seed in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    flushed = []
    for writer in writers:
        time.sleep(random.random() * 0.2)
        writer.send_signal(signal.SIGKILL)
        said = writer.communicate()[0].split()
        # The last line may be incomplete.
        flushed.append(int(said[-2]) if len(said) > 1 else 0)
    made = store.open(path).commit(salvage=True)
    with hyperchunk.open(path) as file, h5py.File(path) as native:
        for seed, end in enumerate(flushed):
            start = seed * 2_000_000
            a, b = file["t/a"][start : start + 2_000_000], file["t/b"][start : start + 2_000_000]
            rows = np.arange(start, start + 2_000_000)
            for values, sign in ((a, 1), (b, -1)):
                there = values != 0
                there[0] |= seed == 0
                np.testing.assert_array_equal(values[there], sign * rows[there])
                assert there[: max(end - start, 0)].all()
            np.testing.assert_array_equal(native["t/a"][start : start + 100_000], a[:100_000])
    if made is not None:
        # Rows are missing, and files without a footer form no table.
        with pytest.raises(ValueError, match="files alone"):
            store.fragments(path, "t")
