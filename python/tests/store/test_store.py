"""Sharded stores, written from Python and read by stock h5py and by us."""

import gc
import multiprocessing
import os
import pickle
import signal
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hypothesis import given, settings
from hypothesis import strategies as st

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


def check(path: Path, name: str, expected: np.ndarray) -> None:
    """Checks that plain HDF5 and our reader return the same values."""
    with h5py.File(path) as file:
        found = file[name]
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found[...], expected)
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file[name][...], expected)


def write_rows(run: store.Store, rank: int) -> bytes:
    """Writes one process's part."""
    with run.writer() as writer:
        writer["/energy"][rank * 1000 : (rank + 1) * 1000] = np.arange(1000) + 1000 * rank
        writer["/group/big"][rank * 10 : (rank + 1) * 10] = np.full((10, 50), -rank)
        writer["/chunked"][rank::4] = rank
        writer["/chunked"].attrs[f"rank{rank}"] = rank
        writer.create_group(f"ranks/{rank}").attrs["process"] = os.getpid()
        writer.structure[f"ranks/{rank}/text"] = f"text of {rank}"
        writer.create_dataset(f"own/{rank}", data=np.full((3, 4), rank, "u8"))
        writer.create_dataset("same", (8,), "f8", fillvalue=0)[2 * rank : 2 * rank + 2] = rank
    return writer.close()


def new(path: Path, **options: object) -> store.Store:
    """Makes a store with various datasets."""
    return store.create(
        path,
        {
            "/energy": store.Dataset((4000,), "f4", attrs={"units": "eV"}),
            "/group/big": store.Dataset((40, 50), ">i2"),
            "/chunked": store.Dataset((40, 50), "i4", chunks=(10, 10), compression="gzip", maxshape=(None, 50)),
        },
        attrs={"title": "a run"},
        groups={"/meta": {"version": [1, 2, 3]}},
        **options,
    )


@pytest.mark.parametrize("context", [SPAWN, FORK], ids=["spawn", "fork"])
def test_many_processes_write_one_file_that_plain_hdf5_reads(tmp_path: Path, context: object) -> None:
    path = tmp_path / "run.h5"
    run = new(path)
    assert len(pickle.dumps(run)) < 2000
    with h5py.File(path) as file:
        assert file["energy"].shape == (4000,)
        assert file["energy"].attrs["units"] == "eV"
        with pytest.raises(OSError, match="external"):
            file["energy"][0]
    with context.Pool(4) as pool:  # type: ignore[attr-defined]
        tickets = pool.starmap(write_rows, [(run, rank) for rank in range(4)])
    epoch = run.commit(tickets)
    assert epoch is not None
    assert (epoch.number, len(epoch.writers), epoch.conflicts, epoch.uncommitted) == (1, 4, [], [])
    check(path, "energy", np.arange(4000, dtype="f4"))
    check(path, "group/big", np.broadcast_to(-np.repeat(np.arange(4), 10)[:, None], (40, 50)).astype(">i2"))
    check(path, "chunked", np.broadcast_to((np.arange(40) % 4)[:, None], (40, 50)).astype("i4"))
    check(path, "same", np.repeat(np.arange(4.0), 2))
    with h5py.File(path) as file:
        assert dict(file["chunked"].attrs) == {f"rank{rank}": rank for rank in range(4)}
        assert sorted(file["own"]) == ["0", "1", "2", "3"]
        assert file["ranks/3/text"].asstr()[()] == "text of 3"
        assert file.attrs["title"] == "a run"
        assert list(file["meta"].attrs["version"]) == [1, 2, 3]
    assert len(list(Path(f"{path}.d").iterdir())) == 5, "a log for each writer, and the epoch"
    assert run.commit() is None


def test_a_second_epoch_lies_over_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset((10, 4), "i4", maxshape=(None, 4), chunks=(5, 4))})
    with run.writer() as writer:
        writer["a"][...] = 1
    assert run.commit() is not None
    again = store.open(path)
    with again.writer() as writer:
        assert writer["a"].shape == (10, 4)
        writer["a"].resize(12, axis=0)
        writer["a"][8:, 1:3] = 2
    epoch = again.commit()
    assert epoch is not None
    assert (epoch.number, epoch.conflicts) == (2, [])
    expected = np.zeros((12, 4), "i4")
    expected[:10] = 1
    expected[8:, 1:3] = 2
    check(path, "a", expected)
    with hyperchunk.open(path, epoch=1) as file:
        np.testing.assert_array_equal(file["a"][...], np.ones((10, 4)))
    with pytest.raises(hyperchunk.exceptions.NotFoundError, match="epoch"):
        hyperchunk.open(path, epoch=3)


def test_writers_that_do_not_agree_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset(100, "i4")})
    first, second = run.writer(), run.writer()
    first["a"][:60] = 1
    second["a"][40:] = 2
    tickets = [first.close(), second.close()]
    with pytest.raises(hyperchunk.exceptions.InvalidError, match=r"(?s)/a.*" + first.id):
        run.commit(tickets)
    assert not list(Path(f"{path}.d").glob("*.manifest"))
    with pytest.warns(store.StoreWarning, match="/a at"):
        epoch = run.commit(tickets, on_conflict="warn")
    assert epoch is not None
    places = {(conflict.path, conflict.start, conflict.count) for conflict in epoch.conflicts}
    assert places == {("/a", (40,), (20,))}
    # The writer that began later.
    assert all(conflict.kept == second.id for conflict in epoch.conflicts)
    expected = np.full(100, 1, "i4")
    expected[40:] = 2
    check(path, "a", expected)


def test_equal_values_are_no_conflict(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset((10, 10), "i4")})
    values = np.arange(100).reshape(10, 10)
    with run.writer() as first, run.writer() as second:
        first["a"][:7] = values[:7]
        second["a"][5:] = values[5:]
    epoch = run.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    check(path, "a", values.astype("i4"))


def test_many_writers_append_to_one_dataset(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    made = store.create(path, {"/rows": store.Dataset((0, 3), "i4", maxshape=(None, 3), chunks=(10, 3))})
    expected: list[int] = []
    for epoch in range(2):
        run = store.open(path) if epoch else made
        writers = [run.writer(priority=rank) for rank in range(3)]
        for step in range(4):
            for rank, writer in enumerate(writers):
                writer["rows"].append(np.full((step + 1, 3), 100 * epoch + 10 * rank + step))
        tickets = [writer.close() for writer in writers]
        done = run.commit(tickets)
        assert done is not None
        assert done.conflicts == []
        for rank in range(3):
            expected += [100 * epoch + 10 * rank + step for step in range(4) for _ in range(step + 1)]
        check(path, "rows", np.array(expected, "i4")[:, None] * np.ones((1, 3), "i4"))
    writer = store.open(path).writer()
    with pytest.raises(TypeError, match="rows"):
        writer["rows"].append(np.zeros((2, 4)))
    fixed = writer.create_dataset("fixed", (3,), "i4")
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="must be unlimited"):
        fixed.append([1])


def test_a_store_is_attached_to_before_its_first_commit(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    store.create(path, {"/g/a": store.Dataset(4, "i4", fillvalue=7)})
    with store.open(path).writer() as writer:
        writer["g/a"][1:3] = [1, 2]
    assert store.open(path).commit() is not None
    with hyperchunk.open(path) as file:
        assert list(file["g/a"][...]) == [7, 1, 2, 7]


def test_finished_logs_cannot_be_written_to(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset(4, "i4")})
    with run.writer() as writer:
        writer["a"][...] = 1
    assert not Path(writer._core.log).stat().st_mode & 0o222


def test_a_higher_priority_is_no_conflict(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset(10, "i4")})
    with run.writer(priority=1) as above, run.writer() as below:
        below["a"][...] = 1
        above["a"][3:5] = 2
    epoch = run.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    check(path, "a", np.array([1, 1, 1, 2, 2, 1, 1, 1, 1, 1], "i4"))


def killed(run: store.Store) -> None:
    """Writes, and is killed in the middle."""
    writer = run.writer()
    for row in range(1000):
        writer["a"][row] = np.full(100_000, row % 256)
        if row == 300:
            os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_writer_wrote_is_got_back(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset((1000, 100_000), "u1")})
    with run.writer() as writer:
        writer["a"][999] = 9
    process = FORK.Process(target=killed, args=(run,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with pytest.warns(store.StoreWarning, match="ended processes that had not closed theirs"):
        epoch = run.commit()
    assert epoch is not None
    assert len(epoch.uncommitted) == 1
    epoch = run.commit(salvage=True)
    assert epoch is not None
    with hyperchunk.open(path) as file:
        found = file["a"][:, 5]
    assert found[299] == 299 % 256
    assert found[999] == 9
    assert not found[301:999].any()


def test_a_store_in_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    first = store.create(path, {"/a": store.Dataset(3, "i4"), "/b": store.Dataset(3, "i4")})
    with first.writer() as writer:
        writer["a"][...] = 1
        writer["b"][...] = 1
    first.commit()
    with pytest.raises(hyperchunk.exceptions.FileThereError, match="overwrite"):
        store.create(path, {})
    reader = h5py.File(path)
    second = store.create(path, {"/a": store.Dataset(4, "i4")}, overwrite=True)
    with second.writer() as writer:
        writer["a"][1:] = 2
    epoch = second.commit()
    assert epoch is not None
    assert list(reader["b"][...]) == [1, 1, 1], "who had it open still reads it"
    reader.close()
    check(path, "a", np.array([0, 2, 2, 2], "i4"))
    with h5py.File(path) as file:
        assert list(file) == ["a"]


def use(writer: store.Writer) -> None:
    """Uses the writer in a forked process."""
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="fork"):
        writer["a"][0] = 1


def test_whole_chunks_are_compressed_while_they_are_written(tmp_path: Path) -> None:
    values = np.arange(400 * 300, dtype="i4").reshape(400, 300)
    sizes = {}
    for codec in ("raw", "filters"):
        path = tmp_path / f"{codec}.h5"
        chunked = store.Dataset((400, 300), "i4", chunks=(100, 100), compression="gzip", shuffle=True)
        run = store.create(path, {"/x": chunked}, codec=codec)
        with run.writer() as writer:
            writer["/x"][:200] = values[:200]
            writer["/x"].write((200, 0), values[200:])
            writer["/x"][150:250, 3] = -1  # partial chunks: unfiltered, over the existing ones
        run.commit()
        with hyperchunk.open(path) as file:
            expected = values.copy()
            expected[150:250, 3] = -1
            np.testing.assert_array_equal(file["x"], expected)
        sizes[codec] = sum(log.stat().st_size for log in Path(f"{path}.d").glob("*.log"))
    assert sizes["filters"] < sizes["raw"] / 2
    with pytest.raises(ValueError, match="codec must be"):
        store.open(path, codec="gzip").writer()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at the open files of this process")
def test_a_writer_that_is_gone_holds_no_file(tmp_path: Path) -> None:
    def held() -> list[str]:
        # The folder's own descriptor is already closed when its link is read.
        links = [str(link.readlink()) for link in list(Path("/proc/self/fd").iterdir()) if link.is_symlink()]
        return [link for link in links if str(tmp_path) in link]

    run = new(tmp_path / "run.h5")
    gc.disable()
    try:
        with run.writer() as writer:
            writer["energy"][:10] = 1
        assert len(held()) == 1
        del writer
        assert held() == []
    finally:
        gc.enable()


def test_a_writer_stays_in_its_process(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset(3, "i4")})
    writer = run.writer()
    process = FORK.Process(target=use, args=(writer,))
    process.start()
    process.join()
    assert process.exitcode == 0
    writer.close()


def test_wrong_calls_say_what_is_wrong(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset((3, 4), "i4")})
    writer = run.writer()
    with pytest.raises(KeyError, match="it has: /a"):
        writer["b"]
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="/a"):
        writer.write("a", (2, 0), np.zeros((2, 4), "i4"))
    with pytest.raises(TypeError, match="broadcast"):
        writer["a"][...] = np.zeros(5)
    with pytest.raises(ValueError, match="exists"):
        writer.create_dataset("/a", (3,))
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="chunks"):
        writer["a"].write_chunk((0, 0), b"")
    writer.close()
    with pytest.raises(hyperchunk.exceptions.InvalidError, match="closed"):
        writer["a"][...] = 1
    with pytest.raises(FileNotFoundError, match="create"):
        store.open(tmp_path / "none.h5")
    with pytest.raises(ValueError, match="structure"):
        store.create(tmp_path / "other.h5", {"/s": store.Dataset(3, h5py.string_dtype())})
    with pytest.raises(ValueError, match="invalid size 'much': expected a number with a unit"):
        run.writer(memory="much")


@pytest.mark.parametrize("memory", ["1M", "1 MiB", 1 << 20, np.int64(1 << 20)])
def test_data_that_wait_in_memory_are_committed(memory: object, tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset((100, 1000), "f8")})
    with run.writer(memory=memory) as writer:
        writer["/a"][...] = 3
    run.commit()
    check(tmp_path / "run.h5", "/a", np.full((100, 1000), 3.0))


def test_appended_rows_are_in_the_order_of_the_writers_beginnings(tmp_path: Path) -> None:
    """Not in the order of their random names, of their ends or of their tickets."""
    run = store.create(tmp_path / "a.h5", {"/a": store.Dataset((0,), "i4", maxshape=(None,))})
    writers = [run.writer() for _ in range(6)]
    tickets = []
    for number, writer in reversed(list(enumerate(writers))):
        writer["/a"].append([number, number])
        tickets.append(writer.close())
    run.commit(tickets)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"][...].tolist() == [number for number in range(6) for _ in range(2)]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_writes_are_what_numpy_has(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("random") / "run.h5"
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(["i4", ">f8", "u1", "<i2"]))
    run = store.create(path, {"/a": store.Dataset(shape, dtype)}, statistics=data.draw(st.booleans()))
    expected = np.zeros(shape, dtype)
    for number in range(data.draw(st.integers(1, 4))):
        with store.open(path).writer() if number else run.writer() as writer:
            for value in range(data.draw(st.integers(1, 5))):
                index = tuple(
                    data.draw(
                        st.one_of(
                            st.slices(length).filter(lambda s: s.step is None or s.step > 0), st.integers(0, length - 1)
                        )
                    )
                    for length in shape
                )
                writer["a"][index] = 10 * number + value + 1
                expected[index] = 10 * number + value + 1
            if data.draw(st.booleans()):
                mask = np.array(data.draw(st.lists(st.booleans(), min_size=expected.size, max_size=expected.size)))
                mask = mask.reshape(shape)
                if mask.any():
                    values = np.arange(mask.sum()).astype(dtype)
                    writer["a"][mask] = values
                    expected[mask] = values
        run.commit()
    check(path, "a", expected)


@pytest.mark.parametrize("dtype", ["f4", ">i4", "?", [("x", "f4"), ("y", "i2")]])
def test_writing_by_name_takes_what_arrays_take(tmp_path: Path, dtype: object) -> None:
    run = store.create(tmp_path / "run.h5", {"a": store.Dataset((12, 4), dtype)})
    wanted = np.zeros((12, 4), dtype)
    for field in wanted.dtype.names or ():
        wanted[field] = np.arange(48).reshape(12, 4)
    if wanted.dtype.names is None:
        wanted[...] = np.arange(48).reshape(12, 4) % 7
    parts = [wanted[row : row + 2] for row in range(0, 12, 2)]
    given = [
        parts[0],
        parts[1],
        np.asfortranarray(parts[2]),
        parts[3].view(np.recarray),
        parts[4].tolist(),
        parts[5].astype("f8") if wanted.dtype.names is None else parts[5],
    ]
    starts = [(0, 0), (np.int64(2), 0), [4, 0], (6, np.int32(0)), (8, 0), (10, 0)]
    with run.writer() as writer:
        for number, (start, values) in enumerate(zip(starts, given, strict=True)):
            writer.write("a" if number % 3 else "/a", start, values)
        with pytest.raises(KeyError, match="no dataset"):
            writer.write("other", 0, wanted)
        for wrong in [(parts[0], 0), (wanted, (1, 0)), (wanted[0, 0], 0)]:
            with pytest.raises(ValueError, match="box"):
                writer.write("a", wrong[1], wrong[0])
    run.commit()
    check(tmp_path / "run.h5", "a", wanted)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_plain_hdf5_reads_a_dataset_without_elements(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    rank = len(shape)
    run = store.create(path, {"/d": store.Dataset(shape, "i4", maxshape=(None,) * rank, chunks=(2,) * rank)})
    with run.writer() as writer:
        writer.attrs["a"] = 1
    run.commit()
    check(path, "d", np.zeros(shape, "i4"))
