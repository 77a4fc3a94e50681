"""Logs that cannot be committed because of their contents do not prevent other commits."""

import json
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store


def bad(run: store.Store, image: bytes) -> str:
    """Makes a closed writer with good data and an image that is not HDF5, or damaged."""
    writer = run.writer()
    writer["x"][2] = 5
    writer._core.put_image(image)
    writer.close()
    return writer.id


def damaged_file(tmp_path: Path) -> bytes:
    """An HDF5 file without its root group."""
    with h5py.File(tmp_path / "damaged.h5", "w", libver="latest") as file:
        file["a"] = 1
    content = bytearray((tmp_path / "damaged.h5").read_bytes())
    content[48:200] = bytes(152)
    return bytes(content)


@pytest.mark.parametrize("kind", ["no HDF5", "damaged"])
def test_others_commit(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset(4, "i4")})
    name = bad(run, b"this is no HDF5 file" if kind == "no HDF5" else damaged_file(tmp_path))
    for number in range(3):
        with run.writer() as writer:
            writer["x"][number % 2] = number + 1
            writer.attrs[f"epoch{number}"] = number
        with pytest.warns(store.StoreWarning, match=f"cannot commit the log of writer {name}"):
            epoch = run.commit()
        assert epoch is not None
        assert list(epoch.set_aside) == [name]
        assert epoch.writers == [writer.id]
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][...], [3, 2, 0, 0])
        assert dict(file.attrs) == {"epoch0": 0, "epoch1": 1, "epoch2": 2}
    status = json.loads(subprocess.check_output([HYPERCHUNK, "store", "status", "--json", str(path)]))
    (log,) = [log for log in status["logs"] if log["writer"] == name]
    assert log["state"] == "damaged"
    assert log["damage"].startswith("set aside: ")
    # Again: an error with advice, and then its raw data.
    done = subprocess.run([HYPERCHUNK, "store", "recover", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"writer {name}" in done.stderr
    assert "--data-only" in done.stderr
    subprocess.run([HYPERCHUNK, "store", "recover", "--data-only", str(path)], check=True)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][...], [3, 2, 5, 0])
        assert dict(file.attrs) == {"epoch0": 0, "epoch1": 1, "epoch2": 2}


def test_a_log_of_another_store(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset(4, "i4")})
    other = store.create(tmp_path / "b.h5", {"/x": store.Dataset(4, "i4")})
    with run.writer() as writer:
        writer["x"][...] = 1
    run.commit()
    other.writer().close()
    assert other.commit() is not None
    foreign = other.writer()
    foreign["x"][...] = 2
    foreign.close()
    name = f"{foreign.id}.log"
    (tmp_path / "b.h5.d" / name).rename(tmp_path / "a.h5.d" / name)
    with run.writer() as writer:
        writer["x"][0] = 3
    with pytest.warns(store.StoreWarning, match="it belongs to another store"):
        epoch = run.commit()
    assert epoch is not None
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x"][...], [3, 1, 1, 1])


def test_a_damaged_store_sets_nobody_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset(4, "i4")})
    with run.writer() as writer:
        writer["x"][...] = 1
        writer.attrs["k"] = 1
    path.write_bytes(b"somebody wrote over it")
    with pytest.raises(Exception, match=r"a\.h5"):
        run.commit()
