"""``progress=``: what is counted, in which steps, and that the results are those without it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import batches
from hyperchunk.progress import Progress


class Calls(list[tuple[int, int]]):
    """Records the calls, and checks that they grow to the total."""

    def __call__(self, done: int, total: int) -> None:
        assert total == (self[-1][1] if self else total)
        assert (self[-1][0] if self else 0) < done <= total or total == 0
        self.append((done, total))

    def check(self, total: int, least: int = 1) -> None:
        assert self[-1] == (total, total)
        assert len(self) >= least


class Bar:
    """A progress bar with tqdm's interface, and its trap: no truth value before it has a total."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.n = 0

    def __bool__(self) -> bool:
        if self.total is None:
            raise TypeError("bool() undefined when iterable == total == None")
        return self.total > 0

    def update(self, n: int, /) -> None:
        self.n += n

    def refresh(self) -> None:
        pass


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(batches, "_PIECE_BYTES", 1000)
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        data = np.arange(60 * 10, dtype="i4").reshape(60, 10)
        file.create_dataset("x", data=data, chunks=(7, 4), compression="gzip")
        file.create_dataset("deep", data=data.reshape(2, 30, 10), chunks=(1, 8, 10))
        file["plain"] = data
        file["text"] = [f"row {number}" for number in range(300)]
        file["record"] = np.zeros(300, [("a", "i4"), ("b", "f8")])
        file["none"] = np.zeros((0, 4))
        file["one"] = 5
    return tmp_path / "a.h5"


SELECTIONS = (
    ...,
    np.s_[:],
    (),
    np.s_[3:50],
    np.s_[3:50:3],
    np.s_[2:59:4, 1],
    np.s_[5],
    np.s_[..., 3],
    np.s_[:, 2:3],
    np.s_[-20:],
    np.s_[[5, 1, 7]],
    np.s_[::-1],
    np.s_[10:10],
)


@pytest.mark.parametrize("name", ["x", "plain"])
@pytest.mark.parametrize("index", SELECTIONS, ids=str)
def test_reads_are_those_without_progress(path: Path, name: str, index: object) -> None:
    dataset = hyperchunk.open(path).dataset(name)
    calls = Calls()
    expected = dataset[index]  # type: ignore[index]
    found = dataset.read(index, progress=calls)  # type: ignore[arg-type]
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    calls.check(found.nbytes)


def test_a_box_is_read_in_pieces_of_whole_chunks(path: Path) -> None:
    calls = Calls()
    file = hyperchunk.open(path)
    file.dataset("x").read(np.s_[3:], progress=calls)
    rows = [done // 40 for done, _ in calls]
    assert all((3 + row) % 7 == 0 for row in rows[:-1])
    assert len(calls) > 2
    deep = Calls()
    assert np.array_equal(file.dataset("deep").read(1, progress=deep), file["deep"][1])
    deep.check(1200, 2)


@pytest.mark.parametrize("name", ["text", "record", "none", "one"])
def test_any_type_is_read(path: Path, name: str) -> None:
    dataset = hyperchunk.open(path).dataset(name)
    calls = Calls()
    assert np.array_equal(dataset.read(progress=calls), dataset[...])
    assert not calls or calls[-1][0] == calls[-1][1]


def test_datasets_that_are_written_are_read(path: Path) -> None:
    with hyperchunk.open(path, "r+") as file:
        file["x"][0] = 1
        calls = Calls()
        assert np.array_equal(file.dataset("x").read(progress=calls), file["x"][:])
        calls.check(2400, 2)


def test_batches_and_tables(path: Path) -> None:
    with hyperchunk.open(path) as file:
        calls = Calls()
        found = file.read_many({"x": ..., "plain": np.s_[:30], "one": ()}, progress=calls)
        assert np.array_equal(found["x"], file["x"][:])
        calls.check(2400 + 1200 + 8, 2)
        rows = Calls()
        table = file.table(".", ["text", "record"], batch_rows=100)
        made = table.to_pyarrow(progress=rows)
        assert made.equals(table.to_pyarrow())
        rows.check(300, 3)
        bar = Bar()
        assert table.to_reader(50, progress=bar).read_all().num_rows == bar.n == bar.total == 300


def test_queries(path: Path) -> None:
    hyperchunk.analyze(path)
    calls = Calls()
    query = hyperchunk.query(path, "x", "value > 100")
    indices, values = query.read(progress=calls)
    assert len(indices) == len(values) == 499
    calls.check(query.bytes_candidate)


def test_frames_and_netcdf(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    import hyperchunk.xarray_engine  # noqa: F401

    data = np.arange(3_000_000.0).reshape(300, 100, 100)
    ds = xarray.Dataset({"t": (("time", "y", "x"), data), "u": ("time", np.arange(300))})
    for name, source in (("eager.nc", ds), ("lazy.nc", ds.chunk({"time": 20}))):
        calls = Calls()
        source.hyperchunk.to_netcdf(tmp_path / name, progress=calls)
        calls.check(data.nbytes + 2400, 2)
        with xarray.open_dataset(tmp_path / name, engine="hyperchunk") as found:
            assert found.equals(ds)


def test_restructuring(path: Path) -> None:
    bar = Bar()
    made = hyperchunk.restructure(path, "/x", order="column", progress=bar)
    assert bar.n == bar.total == made.done + made.skipped > 0


def test_real_bars_of_tqdm(path: Path) -> None:
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(file=io.StringIO()) as bar:
        hyperchunk.open(path).dataset("x").read(progress=bar)
        assert bar.n == bar.total == 2400


def test_a_line_for_each_tenth_if_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress(True, 1 << 30, "B") as progress:
        for _ in range(100):
            progress.add((1 << 30) // 100)
        progress.add(progress.total - progress.done)
    lines = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 10
    assert lines[-1].startswith("[########################] 100% of 1 GiB in 0 s")
    assert "left" in lines[0]


def test_a_bar_on_a_terminal_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    with Progress(True, 3, "tasks") as progress:
        progress.add(1)
        progress.add(2)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "\r[########................]  33% of 3 tasks in 1 s, 2 s left" in shown
    assert shown.endswith("\r\x1b[K")


def test_nothing_is_shown_without_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = hyperchunk.open(path).dataset("x")
    dataset.read()
    dataset.read(progress=False)
    dataset.read(progress=None)
    assert capsys.readouterr() == ("", "")


def test_an_error_of_the_function_ends_the_work(path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hyperchunk.open(path).dataset("x").read(progress=stop)


def test_what_is_no_progress_is_an_error(path: Path) -> None:
    with pytest.raises(TypeError, match="cannot show progress: expected True, a function of two integers"):
        hyperchunk.open(path).dataset("x").read(progress="yes")  # type: ignore[arg-type]
