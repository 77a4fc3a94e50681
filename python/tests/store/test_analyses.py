"""Analyses: functions that see the data written to a store, in three languages."""

import json
import multiprocessing
import pickle
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hyperchunk.store import Analysis

SPAWN = multiprocessing.get_context("spawn")

LUA = """
function on_write(dataset, box, array)
  local largest, place, sum = -math.huge, 1, 0
  for i = 1, box.size do
    if array[i] > largest then largest, place = array[i], i end
    sum = sum + tonumber(array[i])
  end
  return {
    max = largest, sum = sum, count = 0LL + box.size, dataset = dataset, type = box.type,
    start = box.start, shape = box.count, place = place - 1,
  }
end
function merge(a, b)
  local m = a.max >= b.max and a or b
  return {max = m.max, place = m.place, sum = a.sum + b.sum, count = a.count + b.count}
end
"""
PYTHON = """
import numpy as np

def on_write(dataset, box, array):
    assert array.shape == tuple(box.count)
    return {
        "max": array.max(), "sum": float(array.sum()), "count": array.size, "dataset": dataset, "type": box.type,
        "start": box.start, "shape": np.array(box.count, "f8"), "place": float(array.argmax()),
    }

def merge(a, b):
    m = a if a["max"] >= b["max"] else b
    return {"max": m["max"], "place": m["place"], "sum": a["sum"] + b["sum"], "count": a["count"] + b["count"]}
"""
CPP = """
template <class T> static hyperchunk::pairs look(const T *data, const hyperchunk::box &box) {
    size_t place = 0;
    double sum = 0;
    for (size_t i = 0; i < box.size(); i++) {
        if (data[i] > data[place]) place = i;
        sum += double(data[i]);
    }
    return {{"max", data[place]}, {"place", double(place)}, {"sum", sum}, {"count", int64_t(box.size())}};
}
hyperchunk::pairs on_write(const std::string &dataset, const hyperchunk::box &box, const hyperchunk::array &array) {
    bool is_float = strcmp(array.type(), "float") == 0;
    hyperchunk::pairs found = is_float ? look(array.data<float>(), box) : look(array.data<int16_t>(), box);
    found["dataset"] = dataset;
    found["type"] = array.type();
    found["start"] = std::vector<double>(box.start.begin(), box.start.end());
    found["shape"] = box.count;
    return found;
}
hyperchunk::pairs merge(const hyperchunk::pairs &a, const hyperchunk::pairs &b) {
    const hyperchunk::pairs &m = a.at("max").number() >= b.at("max").number() ? a : b;
    return {{"max", m.at("max")}, {"place", m.at("place")}, {"sum", a.at("sum").number() + b.at("sum").number()},
            {"count", a.at("count").i + b.at("count").i}};
}
"""
SOURCES = {"lua": LUA, "py": PYTHON, "cpp": CPP, "wasm": CPP}
RULES = {"max": "max", "place": "with max", "sum": "sum", "count": "sum"}

#: Writes the text of a function: ``analysis("lua", text, ["/a"], …)``.
Make = Callable[..., Analysis]


@pytest.fixture
def analysis(source: Callable[[str, str], Path]) -> Make:
    """Makes an analysis with this source."""

    def make(language: str, text: str, datasets: list[str] | None = None, **options: Any) -> Analysis:
        seen = ["/a"] if datasets is None else datasets
        given: dict[str, Any] = {"time": "30s", "name": "f"} | options
        if language == "wasm":
            return Analysis(source("cpp", text), seen, backend="wasm", **given)
        return Analysis(source(language, text), seen, **given)

    return make


def new(path: Path, *analyses: Any, **datasets: store.Dataset) -> store.Store:
    """Makes a store with one dataset, or the given ones."""
    made = {f"/{name}": dataset for name, dataset in datasets.items()} or {"/a": store.Dataset((8, 6), "f4")}
    return store.create(path, made, analyses=analyses)


def one(of: store.Store, dataset: str = "/a", **options: Any) -> store.Results:
    """Returns the results of the only analysis."""
    (results,) = of.results(dataset, **options)
    return results


@pytest.mark.parametrize("dtype", ["<f4", ">i2"])
@pytest.mark.parametrize("language", list(SOURCES))
def test_a_function_sees_what_is_written(tmp_path: Path, analysis: Make, language: str, dtype: str) -> None:
    """The function sees each box once, in native byte order; results are merged by rules or by the function."""
    data = (np.random.default_rng(1).random((8, 6)) * 1000).astype(dtype)
    for merge in ({}, RULES):
        path = tmp_path / f"{len(merge)}.h5"
        run = new(path, analysis(language, SOURCES[language], merge=merge), a=store.Dataset((8, 6), dtype))
        with run.writer() as writer:
            writer["/a"][:3] = data[:3]
            writer["/a"][3:8, 1:] = data[3:, 1:]
            (report,) = writer.analyses
            assert (report.name, report.calls, report.failures, report.reason) == ("f", 2, 0, None)
        with run.writer() as writer:
            writer["/a"].write((3, 0), data[3:, :1])
        run.commit()
        found = one(run)
        name = {"<f4": "float", ">i2": "int16"}[dtype]
        boxes = {(0, 0): data[:3], (3, 1): data[3:, 1:], (3, 0): data[3:, :1]}
        assert {box.start for box in found.boxes} == set(boxes)
        for box in found.boxes:
            expected = boxes[box.start]
            assert (box.count, box.failure, box.epoch) == (expected.shape, None, 1)
            values = box.values
            assert values is not None
            assert values.pop("sum") == pytest.approx(expected.sum(dtype="f8"), rel=1e-5)
            assert values == {
                "max": expected.max(), "count": expected.size, "dataset": "/a", "type": name, "start": list(box.start),
                "shape": list(box.count), "place": expected.argmax(),
            }  # fmt: skip
        assert len(found.parts) == 2
        if merge:
            whole = found.values
        else:
            assert found.values is None
            whole = one(run, run=True).values
        assert whole is not None
        assert whole["sum"] == pytest.approx(data.sum(dtype="f8"), rel=1e-5)
        assert (whole["max"], whole["count"]) == (data.max(), 48)
        with h5py.File(path) as file:
            np.testing.assert_array_equal(file["a"][...], data)


def test_what_a_store_has_runs_in_other_processes(tmp_path: Path, analysis: Make) -> None:
    """A pickled store, and one opened after a commit, know the functions."""
    run = new(tmp_path / "a.h5", analysis("lua", LUA, merge=RULES))
    with SPAWN.Pool(1) as pool:
        run.commit([pool.apply(_write, (pickle.dumps(run), 0, 1.0))])
        again = store.open(run.path)
        run.commit([pool.apply(_write, (pickle.dumps(again), 2, 3.0))])
    assert one(run).values == {"max": 3.0, "place": 0.0, "sum": 6 * 4.0, "count": 12}
    (stored,) = run.analyses()
    assert (stored.name, stored.runs, stored.profile, stored.refused) == ("f", True, "self", None)
    assert (stored.datasets, stored.language, stored.source) == (["/a"], "lua", LUA)
    assert stored.merge == RULES
    assert len(run.results("/a", epoch=1)[0].boxes) == 1
    # The analysis runs once, however often it is given.
    twice = store.open(run.path, analyses=[stored.record, analysis("lua", LUA, merge=RULES)])
    with twice.writer() as writer:
        writer["/a"][4] = 9
        assert [report.calls for report in writer.analyses] == [1]
    with twice.writer(analyses=False) as writer:
        writer["/a"][5] = 10
        assert writer.analyses == []


def _write(pickled: bytes, row: int, value: float) -> bytes:
    run = pickle.loads(pickled)
    with run.writer() as writer:
        writer["/a"][row] = value
    return writer.close()


def test_rows_that_are_appended_are_where_they_end_up(tmp_path: Path, analysis: Make) -> None:
    """A writer does not know the final position of its appended rows; the results of an epoch do."""
    rows = store.Dataset((0, 2), "f4", maxshape=(None, 2), chunks=(4, 2))
    run = new(tmp_path / "a.h5", analysis("lua", LUA), a=rows)
    for epoch in range(2):
        for value in range(3):
            with run.writer() as writer:
                writer["/a"].append(np.full((2, 2), 10 * epoch + value, "f4"))
                writer.flush()
                writer["/a"].append(np.full((1, 2), 10 * epoch + value + 0.5, "f4"))
        run.commit()
    with hyperchunk.open(run.path) as file:
        data = file["a"][...]
    assert data.shape == (18, 2)
    boxes = one(run).boxes
    assert sum(box.count[0] for box in boxes) == 18
    for box in boxes:
        assert box.values is not None
        seen = data[box.start[0] : box.start[0] + box.count[0]]
        assert (box.values["max"], box.values["sum"]) == (seen.max(), seen.sum())


FAILS = {
    "an error": ("lua", "function on_write() error('no reason') end", "no reason"),
    "of Python": ("py", "def on_write(dataset, box, array):\n    raise ValueError('no reason')", r"udf\.py, line 2"),
    "of C++": (
        "cpp",
        """hyperchunk::pairs on_write(const std::string &, const hyperchunk::box &, const hyperchunk::array &a) {
               a.data<char>();
               return {};
           }""",
        "of type float",
    ),
    "no table": ("lua", "function on_write() return 5 end", "gives a number"),
    "a table in a table": ("lua", "function on_write() return {a = {{}}} end", "is a table"),
    "None": ("py", "def on_write(*a):\n    return {'a': None}", "of type NoneType"),
    "a key": ("py", "def on_write(*a):\n    return {1: 2}", "keys are strings"),
    "two dimensions": ("py", "def on_write(d, b, a):\n    return {'a': a}", "of type list"),
    "long": ("lua", "function on_write() return {a = string.rep('x', 5000)} end", "limit is 4096"),
    "large integers": ("py", "def on_write(*a):\n    return {'a': 2**64}", "64 bits"),
    "input": ("py", "def on_write(d, b, a):\n    a[0, 0] = 7", "read-only"),
    "too slow": ("lua", "function on_write() while true do end end", "longer than its limit of 300 ms"),
}


@pytest.mark.parametrize("failure", ["skip", "mark", "raise"])
@pytest.mark.parametrize("what", list(FAILS))
def test_a_failure_loses_no_data(tmp_path: Path, analysis: Make, what: str, failure: str) -> None:
    """The data survive any failure; the policy only selects the report."""
    language, text, reason = FAILS[what]
    time = "300ms" if what == "too slow" else "30s"
    run = new(tmp_path / "a.h5", analysis(language, text, failure=failure, time=time))
    data = np.arange(48, dtype="f4").reshape(8, 6)
    with run.writer() as writer:
        for row in range(5):
            if failure == "raise":
                with pytest.raises(hyperchunk.exceptions.HyperchunkError, match=reason if row < 3 else "given up"):
                    writer["/a"][row] = data[row]
            else:
                writer["/a"][row] = data[row]
        # The fourth and the fifth time it was not called.
        assert [(report.calls, report.failures) for report in writer.analyses] == [(3, 5)]
        assert "given up" in (writer.analyses[0].reason or "")
    run.commit()
    with h5py.File(run.path) as file:
        np.testing.assert_array_equal(file["a"][:5], data[:5])
        assert not file["a"][5:].any()
    if failure == "skip":
        assert run.results("/a") == []
        return
    found = one(run)
    assert len(found.failures) == len(found.boxes) == 5
    assert [box.start for box in found.failures] == [(row, 0) for row in range(5)]
    assert found.values is None
    assert re.search(reason, found.failures[0].failure or "")


def test_a_failure_now_and_then_is_no_reason_to_give_up(tmp_path: Path, analysis: Make) -> None:
    """Occasional failures are marked, and the other results are kept."""
    text = "function on_write(d, box) if box.start[1] % 2 == 1 then error('odd') end return {n = box.start[1]} end"
    run = new(tmp_path / "a.h5", analysis("lua", text, failure="mark", merge={"n": "sum"}))
    with run.writer() as writer:
        for row in range(8):
            writer["/a"][row] = row
    run.commit()
    found = one(run)
    assert [box.start[0] for box in found.failures] == [1, 3, 5, 7]
    assert found.values == {"n": 0 + 2 + 4 + 6}


def test_nothing_found_is_nothing_kept(tmp_path: Path, analysis: Make) -> None:
    """A function may return nothing for a box."""
    text = "function on_write(d, box, a) if a[1] > 5 then return {large = a[1]} end end"
    run = new(tmp_path / "a.h5", analysis("lua", text))
    with run.writer() as writer:
        for row in range(8):
            writer["/a"][row] = row
    run.commit()
    assert [box.values for box in one(run).boxes] == [{"large": 6}, {"large": 7}]


def test_sources_are_tried_and_declarations_checked(tmp_path: Path, analysis: Make) -> None:
    """Errors are reported when the analysis is made."""
    for language, text, reason in [
        ("lua", "function dynamic_dataset() end", "no function on_write"),
        ("lua", "function on_write( end", "udf:1"),
        ("py", "x = 1", "no function on_write"),
        ("py", "def on_write(:", "SyntaxError"),
        ("cpp", "int x;", "on_write"),
        ("wasm", "int x;", "on_write"),
        ("c", "int x;", r"Lua, Python or C\+\+"),
    ]:
        with pytest.raises(hyperchunk.exceptions.HyperchunkError, match=reason):
            new(tmp_path / "a.h5", analysis(language, text))
    for options, reason in [
        ({"merge": {"a": "mean"}}, "rule"),
        ({"merge": {"a": "with b"}}, "rule"),
        ({"bytes": 1 << 30}, "KiB for its results"),
        ({"time": "0ms"}, "takes 1 ms"),
        ({"failure": "hide"}, "skip, mark or raise"),
        ({"name": "a\nb"}, "a name"),
        ({"datasets": []}, "1 to"),
    ]:
        with pytest.raises(hyperchunk.exceptions.HyperchunkError, match=reason):
            analysis("lua", LUA, **{"datasets": ["/a"], **options}).record()
    assert not (tmp_path / "a.h5").exists()


def test_the_same_analysis_is_the_same(analysis: Make) -> None:
    """An analysis made by several processes is the same one."""
    first, second = (analysis("lua", LUA).record() for _ in range(2))
    assert first == second
    assert analysis("lua", LUA, version="2").record() != first


def test_whom_nobody_trusts_does_not_run(tmp_path: Path, analysis: Make, config: Path) -> None:
    """Unsigned native code is refused; the data are written."""
    run = new(tmp_path / "a.h5", analysis("cpp", CPP, unsigned=True, failure="mark"))
    with run.writer() as writer:
        writer["/a"][...] = 4
    run.commit()
    assert "not signed" in (one(run).failures[0].failure or "")
    (stored,) = run.analyses()
    assert stored.profile is None
    assert "not signed" in (stored.refused or "")
    with h5py.File(run.path) as file:
        assert (file["a"][...] == 4).all()
    # Python and Lua may run without the user's own key.
    run = new(tmp_path / "b.h5", analysis("lua", LUA, unsigned=True))
    with run.writer() as writer:
        writer["/a"][...] = 4
    run.commit()
    assert run.analyses()[0].profile == "untrusted"
    assert len(one(run).boxes) == 1


def test_readers_run_nothing(tmp_path: Path, analysis: Make) -> None:
    """Results are read without a worker; the function runs only on request."""
    text = LUA + "\nprint('it ran')"
    run = new(tmp_path / "a.h5", analysis("lua", text))
    for value in (1, 2):
        with run.writer() as writer:
            writer["/a"][value] = value
    run.commit()
    workers = hyperchunk._core.idle_workers()
    assert one(run).values is None
    assert [part.values is not None for part in one(run).parts] == [True, True]
    assert hyperchunk._core.idle_workers() == workers
    assert one(run, run=True).values == {"max": 2.0, "place": 0.0, "sum": 18.0, "count": 12}


def test_added_later_removed_and_filled_in(tmp_path: Path, analysis: Make) -> None:
    """A backfill lets the function see data written before it was added."""
    path = tmp_path / "a.h5"
    big = store.Dataset((40, 6), ">i2", chunks=(4, 6), compression="gzip")
    run = store.create(path, {"/a": big, "/b": store.Dataset((40, 6), ">i2")}, codec="filters")
    data = np.random.default_rng(2).integers(-99, 99, (40, 6)).astype(">i2")
    for half in range(2):
        with run.writer() as writer:
            for name in ("/a", "/b"):
                for row in range(20 * half, 20 * half + 20, 4):
                    writer[name][row : row + 4] = data[row : row + 4]
        run.commit()
    run = store.open(path)
    added = analysis("py", PYTHON, ["/a", "/b"], merge=RULES)
    run.add_analysis(added)
    assert run.results("/a") == []
    run = store.open(path)
    with run.writer() as writer:
        writer["/a"][0:4] = data[0:4] + 1
    run.commit()
    assert len(one(run).boxes) == 1
    data_a = data.copy()
    data_a[0:4] += 1
    assert run.backfill("f", epochs=(2, 2), threads=2) == 5
    assert len(one(run).boxes) == 1 + 5
    assert run.backfill(added) == 6
    assert run.backfill(added) is None
    for name, expected in (("/a", data_a), ("/b", data)):
        found = one(run, name)
        assert not found.failures
        for box in found.boxes:
            assert box.values is not None
            assert box.values["max"] == expected[box.start[0] : box.start[0] + box.count[0]].max()
        assert found.values is not None
        assert (found.values["max"], found.values["count"]) == (expected.max(), 240)
    store.open(path).remove_analysis("f")
    run = store.open(path)
    with run.writer() as writer:
        writer["/a"][8] = 5
        assert writer.analyses == []
    run.commit()
    assert [stored.runs for stored in run.analyses()] == [False]
    assert one(run).values is not None
    with hyperchunk.open(path) as file:
        data_a[8] = 5
        np.testing.assert_array_equal(file["a"][...], data_a)


def test_a_changed_record_does_not_run(tmp_path: Path, analysis: Make) -> None:
    """A record's id is its digest, and its signature covers it."""
    run = new(tmp_path / "a.h5", analysis("lua", LUA, failure="mark"))
    with run.writer() as writer:
        writer["/a"][0] = 1
    run.commit()
    record = bytes(run.analyses()[0].record)
    forged = record.replace(b"largest, place, sum =", b"largest, sum, place =")
    assert forged != record
    with pytest.raises(hyperchunk.exceptions.HyperchunkError, match="signature"):
        store.open(run.path, analyses=[forged]).writer()
    (log,) = Path(run.path + ".d").glob("*.log")
    log.chmod(0o600)
    log.write_bytes(log.read_bytes().replace(b"largest, place, sum =", b"largest, sum, place ="))
    with pytest.raises(hyperchunk.exceptions.HyperchunkError, match="checksum"):
        run.analyses()


def test_analyses_stay_when_a_store_is_compacted(tmp_path: Path, analysis: Make, command: Any) -> None:
    """A compacted store keeps the results."""
    run = new(tmp_path / "a.h5", analysis("lua", LUA, merge=RULES))
    for row in range(8):
        with run.writer() as writer:
            writer["/a"][row] = row
    run.commit()
    before = {(box.start, box.count, str(box.values)) for box in one(run).boxes}
    assert command("store", "compact", run.path).returncode == 0
    assert command("store", "vacuum", run.path, "--grace", 0).returncode == 0
    assert {(box.start, box.count, str(box.values)) for box in one(run).boxes} == before
    assert one(run).values == {"max": 7.0, "place": 0.0, "sum": 168.0, "count": 48}
    assert [stored.runs for stored in run.analyses()] == [True]


def test_what_was_flushed_or_salvaged_has_its_results(tmp_path: Path, analysis: Make) -> None:
    """Results are committed with the index; later writes have none yet."""
    run = new(tmp_path / "a.h5", analysis("lua", LUA, merge=RULES))
    writer = run.writer()
    writer["/a"][0] = 1
    writer.flush()
    run.commit(flushed=True)
    writer["/a"][1] = 2
    writer.flush()
    writer["/a"][2] = 3
    run.commit(salvage=True)
    assert [box.start for box in one(run).boxes] == [(0, 0), (1, 0)]
    writer.close()
    run.commit()
    assert [box.start for box in one(run).boxes] == [(0, 0), (1, 0), (2, 0)]
    assert one(run).values == {"max": 3.0, "place": 0.0, "sum": 36.0, "count": 18}


def test_the_command(tmp_path: Path, analysis: Make, command: Any, source: Callable[[str, str], Path]) -> None:
    """Commands about analyses."""
    run = new(tmp_path / "a.h5")
    with run.writer() as writer:
        writer["/a"][0:4] = 1
        writer["/a"][4:8] = 2
    run.commit()
    file = source("lua", LUA)
    words = ["--name", "waves", "--merge", "max=max", "--merge", "place=with max", "--time", 30000, "--failure", "mark"]
    done = command("store", "add-analysis", run.path, file, "/a", *words)
    assert done.returncode == 0, done.stderr
    shown = command("store", "analyses", run.path)
    assert "waves 1 (lua)" in shown.stdout
    assert "profile self" in shown.stdout
    assert command("store", "results", run.path, "/a").stdout.strip() == "/a: no results"
    done = command("store", "backfill", run.path, "waves")
    assert done.returncode == 0, done.stderr
    assert "nothing" in command("store", "backfill", run.path, "waves").stdout
    assert "max = 2.0" in command("store", "results", run.path, "a").stdout
    (row,) = json.loads(command("store", "results", run.path, "/a", "--json").stdout)
    assert (row["values"], len(row["boxes"])) == ({"max": 2.0, "place": 0.0}, 2)
    assert command("store", "remove-analysis", run.path, "waves").returncode == 0
    (row,) = json.loads(command("store", "analyses", run.path, "--json").stdout)
    assert (row["name"], row["runs"], row["failure"]) == ("waves", False, "mark")
    assert command("store", "remove-analysis", run.path, "other").returncode == 1
    assert command("store", "results", run.path, "/b").returncode == 1


@pytest.mark.parametrize("by", ["processes", "threads", "progress", "dask", "shares"])
def test_filled_in_by_others(
    tmp_path: Path, analysis: Make, by: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Each box is analysed once, by any process, however often it is requested."""
    path = tmp_path / "a.h5"
    run = store.create(path, {"/a": store.Dataset((64, 6), ">i2")})
    data = np.random.default_rng(2).integers(-99, 99, (64, 6)).astype(">i2")
    for half in range(2):
        with run.writer() as writer:
            for row in range(32 * half, 32 * half + 32, 2):
                writer["/a"][row : row + 2] = data[row : row + 2]
        run.commit()
    added = analysis("py", PYTHON, ["/a"], merge=RULES)
    run = store.open(path)
    run.add_analysis(added)
    if by == "shares":
        before = json.loads(command("store", "status", path, "--json").stdout)["epochs"][-1]["number"]
        refused = command("store", "backfill", path, "f", "--task-range", "0/3")
        assert refused.returncode == 2
        assert "--epoch" in refused.stderr
        for share in (2, 0, 0, 1, 2):
            done = command("store", "backfill", path, "f", "--epoch", before, "--task-range", f"{share}/3")
            assert done.returncode == 0, done.stderr
    elif by == "dask":
        distributed = pytest.importorskip("dask.distributed")
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            assert run.backfill("f", executor=client) == 4
    else:
        executor: Any = "processes" if by == "processes" else ThreadPoolExecutor(2)
        counts: list[tuple[int, int]] = []
        given: Any = {"threads": 2} if by == "progress" else {"executor": executor, "workers": 2}
        assert run.backfill("f", progress=lambda *step: counts.append(step), **given) == 4
        assert counts[-1] == (32, 32)
        assert len(counts) > 1
    assert run.backfill("f", executor="processes", workers=2) is None
    found = one(run)
    assert not found.failures
    assert len(found.boxes) == 32
    assert len({tuple(box.start) for box in found.boxes}) == 32
    assert found.values is not None
    assert (found.values["max"], found.values["sum"], found.values["count"]) == (data.max(), data.sum(), data.size)


def test_programs_behind_the_connector_run_them(tmp_path: Path, analysis: Make) -> None:
    """h5py writes to a store with analyses; a failing one is an error of the write, and the data are stored."""
    from vol import helpers

    failing = 'function on_write(dataset, box, array) error("not today") end'
    run = new(tmp_path / "a.h5")
    run.add_analysis(analysis("lua", LUA, merge=RULES))
    run.add_analysis(analysis("lua", failing, name="failing", failure="raise"))
    told = helpers.run(
        """
        import h5py
        with h5py.File("a.h5", "r+") as file:
            for row in range(8):
                try:
                    file["a"][row] = row
                except OSError as error:
                    print(error)
        """,
        folder=tmp_path,
    )
    assert "not today" in told
    assert "failing" in told
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"][:, 0].tolist() == list(range(8))
    found = {results.name: results for results in run.results("/a")}
    values = found["f"].values
    assert values is not None
    assert (values["max"], values["sum"], values["count"]) == (7, 6 * 28, 48)
