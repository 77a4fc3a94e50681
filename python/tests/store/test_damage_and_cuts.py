"""Damaged data are not copied as valid ones, and data that another writer's extent cuts off are reported."""

import subprocess
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store


def damage_a_value(path: Path, value: float) -> None:
    """Changes one bit of the element with this value in the store's logs."""
    for log in path.with_name(f"{path.name}.d").glob("*.log"):
        data = bytearray(log.read_bytes())
        at = data.find(np.float64(value).tobytes())
        if at >= 0:
            data[at] ^= 1
            log.chmod(0o644)
            log.write_bytes(data)
            return
    raise AssertionError(f"no log has {value}")


def test_damaged_data_are_neither_compacted_nor_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset((1000,), "f8")})
    writers = [run.writer() for _ in range(2)]
    for number, writer in enumerate(writers):
        for start in range(number * 100, 1000, 200):
            writer["/x"][start : start + 100] = np.arange(start, start + 100) + 0.25
    run.commit([writer.close() for writer in writers])
    damage_a_value(path, 321.25)
    before = sorted(tmp_path.rglob("*"))
    for words in (["compact", path], ["pack", path, tmp_path / "b.h5"]):
        done = subprocess.run([HYPERCHUNK, "store", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "800 bytes do not match their checksum; `hyperchunk store verify` lists all damage" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_elements_outside_an_extent_that_another_writer_set(chunks: tuple[int, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset((6,), "i8", maxshape=(None,), chunks=chunks)})
    with run.writer() as writer:
        writer["/x"][:] = [1, 2, 3, 4, 5, 6]
    run.commit()
    shorter, longer = run.writer(), run.writer()
    shorter["/x"].resize((2,))
    longer["/x"][4] = 44
    for writer in (shorter, longer):
        writer.close()
    with pytest.raises(ValueError, match=r"data outside the extent \(2\) that another writer set"):
        run.commit()
    with pytest.warns(store.StoreWarning, match="data outside the extent"):
        epoch = run.commit(on_conflict="warn")
    assert epoch is not None
    assert len(epoch.conflicts) == 1
    with hyperchunk.open(path) as file:
        assert file["x"][:].tolist() == [1, 2]


def test_elements_inside_it_are_no_conflict(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((6,), "i8", maxshape=(None,), chunks=(4,))})
    shorter, longer = run.writer(), run.writer()
    shorter["/x"].resize((2,))
    longer["/x"][:2] = [7, 8]
    for writer in (shorter, longer):
        writer.close()
    epoch = run.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    with run.open() as file:
        assert file["x"][:].tolist() == [7, 8]
