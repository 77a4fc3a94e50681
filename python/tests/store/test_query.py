"""Queries on stores: the results equal those of a full scan, and few bytes are read."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store
from hypothesis import given, settings
from hypothesis import strategies as st


def run_command(*words: str | Path) -> str:
    """Runs the command and returns its output."""
    command = [HYPERCHUNK, "store", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


# Predicates, and their equivalents for an array.
PREDICATES: list[tuple[str, Any]] = [
    ("value > 12", lambda a: a > 12),
    ("3 <= value < 20 or value == -1", lambda a: ((a >= 3) & (a < 20)) | (a == -1)),
    ("not value != 7", lambda a: a == 7),
    ("isnan(value) or value > 30", lambda a: np.isnan(a) | (a > 30)),
    ("value == 0", lambda a: a == 0),
    ("value <= -0.0 and isfinite(value)", lambda a: (a <= -0.0) & np.isfinite(a)),
    ("value > 2.5", lambda a: a > 2.5),
    ("isinf(value)", lambda a: np.isinf(a)),
]


def check(dataset: Any, predicate: str, holds: Any, box: tuple[slice, ...] | None = None) -> Any:
    """Checks that a query finds the same values as NumPy in the whole, and that its boxes contain them all."""
    whole = dataset[...]
    asked = np.zeros(whole.shape, bool)
    asked[box if box is not None else ...] = True
    with np.errstate(invalid="ignore"):
        held = holds(whole) & asked
    query = dataset.query(predicate, box)
    inside = np.zeros(whole.shape, int)
    for one in query.boxes:
        inside[one] += 1
    assert (inside[held] == 1).all(), predicate
    assert not inside[~asked].any()
    assert query.bytes_candidate == inside.sum() * whole.itemsize
    assert query.total == asked.sum() * whole.itemsize
    indices, values = query.read()
    order = np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(values))
    np.testing.assert_array_equal(indices[order], np.argwhere(held))
    np.testing.assert_array_equal(values[order], whole[held])
    return query


@pytest.mark.filterwarnings("ignore::hyperchunk.store.StoreWarning")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_answers_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("random") / "run.h5"
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    dtype = np.dtype(data.draw(st.sampled_from(["<f8", ">f4", "i2", ">u8", "u1"])))
    fill = data.draw(st.sampled_from([None, 7, 25]))
    chunks = data.draw(st.sampled_from([None, tuple(2 for _ in shape)]))
    definition = store.Dataset(
        shape, dtype, fillvalue=fill, chunks=chunks, maxshape=tuple(None for _ in shape) if chunks else None
    )
    run = store.create(path, {"/a": definition}, statistics=data.draw(st.booleans()))
    special = [np.nan, np.inf, -np.inf, -0.0] if dtype.kind == "f" else []
    element = st.one_of(st.integers(0 if dtype.kind == "u" else -5, 40), *[st.just(value) for value in special])
    for number in range(data.draw(st.integers(1, 3))):
        writers = [store.open(path).writer(statistics=data.draw(st.sampled_from([True, True, False])))]
        writers += [run.writer(priority=1)] if number == 0 else []
        for writer in writers:
            for _ in range(data.draw(st.integers(0, 4))):
                extent = writer["a"].shape
                start = [data.draw(st.integers(0, length - 1)) for length in extent]
                stop = [data.draw(st.integers(at + 1, length)) for at, length in zip(start, extent, strict=True)]
                box = tuple(slice(*ends) for ends in zip(start, stop, strict=True))
                count = int(np.prod([one.stop - one.start for one in box]))
                values = np.array(data.draw(st.lists(element, min_size=count, max_size=count)), dtype)
                writer["a"][box] = values.reshape([one.stop - one.start for one in box])
            if chunks and data.draw(st.booleans()):
                writer["a"].resize(tuple(data.draw(st.integers(1, 9)) for _ in shape))
            writer.close()
        # One writer may have made the dataset smaller, and the other have written beyond.
        run.commit(on_conflict="warn")
    with hyperchunk.open(path) as file:
        dataset = file["a"]
        box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in dataset.shape)
        for predicate, holds in PREDICATES:
            check(dataset, predicate, holds)
            check(dataset, predicate, holds, box)
        whole = dataset[...].astype("f8")
        top = dataset.zones().top(1)
        if len(top):
            assert float(whole[top[0].index]) == top[0].value
            beyond = whole > top[0].value
            assert (whole[beyond] == float(fill or 0)).all(), "only what nobody wrote may be larger"
        mine = [zone for zone in dataset.zones() if zone.summary is not None and zone.exact]
        for zone in mine:
            values = whole[zone.boxes[0]]
            numbers = values[~np.isnan(values)]
            assert (zone.summary.count, zone.summary.nan) == (values.size, values.size - numbers.size)
            if numbers.size:
                assert (zone.summary.min, zone.summary.max) == (numbers.min(), numbers.max())


def test_large_integers_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/i": store.Dataset(4, "i8"), "/u": store.Dataset(2, "u8")}, statistics=True)
    with run.writer() as writer:
        writer["i"][...] = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
        writer["u"][...] = [2**64 - 1, 2**64 - 2]
    run.commit()
    assert run.query("/i", f"value == {2**53 + 1}").read()[0].tolist() == [[1]]
    assert run.query("/i", f"value > {2**63 - 2}").read()[1].tolist() == [2**63 - 1]
    assert run.query("/u", f"value >= {2**64 - 1}").read()[0].tolist() == [[0]]
    assert run.zones("/u").top(1)[0].value == 2**64 - 1
    assert run.query("/i", f"value > {2**63}").boxes == []


def test_little_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    shape = (96, 256, 256)
    run = store.create(path, {"/h": store.Dataset(shape, "f4")}, statistics=True, sync="never")
    values = np.random.default_rng(5).random(shape, "f4")
    values[70, 100, 17] = 25
    for rank in range(4):
        with run.writer() as writer:
            writer["h"][rank * 24 : (rank + 1) * 24] = values[rank * 24 : (rank + 1) * 24]
    run.commit()
    top = run.zones("/h").top(1)
    assert (top[0].value, top[0].index, top[0].epoch) == (25, (70, 100, 17), 1)
    assert top.total == values.nbytes
    assert top.bytes_scanned < values.nbytes / 1000, "of the statistics alone"
    query = run.query("/h", "value > 20")
    assert query.bytes_candidate <= 2**20, "one zone"
    indices, found = query.read()
    assert (indices.tolist(), found.tolist()) == ([[70, 100, 17]], [25])
    assert query.bytes_scanned < query.bytes_candidate + values.nbytes / 1000
    assert len(run.query("/h", "value > 30")) == 0
    # A partially overwritten zone must be read, but only then.
    with store.open(path).writer() as writer:
        writer["h"][70, 100, 10:20] = np.zeros(10, "f4")
    run.commit()
    top = run.zones("/h").top(1)
    assert top[0].value == values[values < 20].max()
    assert run.zones("/h", epoch=1).top(1)[0].value == 25
    assert top.bytes_scanned < values.nbytes / 10


def test_what_has_no_statistics_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset(1000, "i4")})
    with run.writer() as writer:
        writer["a"][:500] = np.arange(500)
    run.commit()
    query = run.query("/a", "value == 3")
    assert (query.unknown, query.bytes_candidate) == (2000, 2000)
    assert query.read()[0].tolist() == [[3]]
    assert run.query("/a", "value == 0").bytes_candidate == 4000, "what nobody wrote is 0"
    assert run.zones("/a").top(1)[0].value == 499


def test_appended_rows_and_fragments_are_found(tmp_path: Path) -> None:
    for segments in ("log", "arrow"):
        path = tmp_path / f"{segments}.h5"
        run = store.create(path, {"/t/x": store.Dataset(0, "f8", maxshape=(None,))}, statistics=True, segments=segments)
        for rank in range(3):
            with run.writer() as writer:
                writer["t/x"].append(np.arange(300_000.0) + 1e6 * rank)
        run.commit()
        with run.open() as file:
            query = check(file["t/x"], "value == 1000017", lambda a: a == 1000017)
            assert query.unknown == 0
            assert query.bytes_candidate <= 2 * 2**20


def test_wrong_questions_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    datasets = {"/a": store.Dataset((4, 5), "i4"), "/s": store.Dataset(3, "S4"), "/h": store.Dataset(3, "f2")}
    run = store.create(path, datasets, statistics=True)
    with run.writer() as writer:
        writer["a"][...] = 1
    run.commit()
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="at character 7 of"):
        run.query("/a", "value ? 3")
    for name in ("/s", "/h"):
        with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="floating-point"):
            run.query(name, "value > 3")
    with pytest.raises(ValueError, match="without a step"):
        run.query("/a", "value > 3", [slice(0, 4, 2)])
    with pytest.raises(ValueError, match="dimensions"):
        run.query("/a", "value > 3", [slice(0, 4)] * 3)
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="by must be"):
        run.zones("/a").top(1, by="median")


def test_damage_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset(1000, "u1")}, statistics=True)
    with run.writer() as writer:
        writer["a"][...] = np.full(1000, 171, "u1")
    run.commit()
    log = next(path.with_name("run.h5.d").glob("*.log"))
    whole = log.read_bytes()
    # The minimum and maximum are in the headers of the record and of the page, and in the page. They are counted from
    # the end, since the shard's random id at the beginning may contain the same bytes.
    place = [found.start() for found in re.finditer(re.escape((171).to_bytes(8, "little")), whole)][-6]
    log.chmod(0o644)
    log.write_bytes(whole[:place] + b"\x00" + whole[place + 1 :])
    with pytest.raises(hyperchunk.exceptions.CorruptError, match="checksum of a page"):
        run.query("/a", "value == 171")


def test_the_command_finds_values(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset((40, 100), "i4")}, statistics=True)
    for rank in range(4):
        with run.writer() as writer:
            writer["a"][rank * 10 : rank * 10 + 10] = np.arange(1000).reshape(10, 100) + 1000 * rank
    run.commit()
    shown = run_command("query", path, "/a", "value == 2500")
    assert "20:30, 0:100" in shown
    assert "1 box," in shown
    found = json.loads(run_command("query", path, "a", "value >= 3998", "--values", "1", "--json"))
    assert (found["found"], found["values"]) == (2, [{"index": [39, 98], "value": 3998}])
    found = json.loads(run_command("query", path, "a", "value > 5", "--box", "0:3, 7", "--json"))
    assert found["boxes"] == [{"start": [0, 7], "count": [3, 1]}]
    top = json.loads(run_command("query", path, "/a", "--top", "2", "--by", "min", "--json"))
    assert [zone["index"] for zone in top["zones"]] == [[0, 0], [10, 0]]
    assert "3999 at [39, 99]" in run_command("query", path, "/a", "--top", "1")
    picture = run_command("zones", path, "/a")
    assert "4 zones" in picture
    assert "█" in picture
    assert len(json.loads(run_command("zones", path, "/a", "--json"))) == 4


def test_the_ocean_finds_its_biggest_wave(tmp_path: Path) -> None:
    place = Path(__file__).resolve().parents[3] / "examples" / "store" / "ocean.py"
    spec = importlib.util.spec_from_file_location("ocean", place)
    assert spec is not None
    assert spec.loader is not None
    ocean = sys.modules["ocean"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ocean)
    run = ocean.write(tmp_path / "ocean.h5")
    whole = run.open()["/ocean/h"][...]
    top = run.zones("/ocean/h").top(1)
    assert top[0].value == whole.max()
    assert top[0].index == np.unravel_index(whole.argmax(), whole.shape)
    assert top.total == whole.nbytes
    assert top.bytes_scanned < whole.nbytes / 1000
    waves = run.query("/ocean/h", "value > 12")
    indices, heights = waves.read()
    assert {tuple(index) for index in indices.tolist()} == {tuple(index) for index in np.argwhere(whole > 12).tolist()}
    assert (heights > 12).all()
    assert waves.bytes_candidate < whole.nbytes / 4
