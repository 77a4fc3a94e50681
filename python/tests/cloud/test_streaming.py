"""Files streamed to a real S3 server: the correct object, or an error and no object."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from hyperchunk import exceptions as errors

MIB = 1 << 20
# Transient faults, cured by a retry.
PASSING = ["500", "503", "429", "reset-head", "garbage"]
LASTING = [*PASSING, "denied", "expired"]
Create = Callable[..., Any]


@pytest.fixture
def bucket(server: s3server.Server) -> Path:
    """A new bucket, as its folder."""
    folder = server.folder / f"streams-{len(list(server.folder.iterdir()))}"
    folder.mkdir()
    return folder


@pytest.fixture
def create(proxy: s3server.Proxy, bucket: Path) -> Create:
    """Creates a file through the proxy: ``create("a.h5", timeout=1)``."""

    def start(key: str, mode: str = "w", write: dict[str, Any] | None = None, **network: Any) -> Any:
        options = s3server.storage_options(proxy.endpoint)
        url = f"s3://{bucket.name}/{key}"
        return hyperchunk.open(url, mode, storage_options=options, network=network, **(write or {}))

    return start


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """40 MiB of incompressible data."""
    return np.random.default_rng(6).integers(0, 2**32, (40, MIB // 4), dtype="u4")


@pytest.mark.parametrize("key", ["/a.h5", "//a.h5", "b//a.h5"])
def test_key_with_an_empty_part_is_no_other_key(create: Create, key: str) -> None:
    with create("a.h5") as file:
        file["x"] = 1
    for mode in ("r", "w", "x"):
        with pytest.raises(errors.UnsupportedError, match="without empty parts"):
            create(key, mode)
    with create("a.h5", "r") as file:
        assert file["x"][()] == 1


def write(file: Any, rows: np.ndarray) -> None:
    dataset = file.create_dataset("rows", rows.shape, rows.dtype, chunks=(1, rows.shape[1]))
    for number, row in enumerate(rows):
        dataset[number] = row
    file["small"] = np.arange(10.0)
    file.attrs["text"] = "streamed"


def check(path: Path, rows: np.ndarray) -> None:
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["rows"][...], rows)
        np.testing.assert_array_equal(file["small"][...], np.arange(10.0))
        assert file.attrs["text"] == "streamed"


def left_over(bucket: Path) -> list[Path]:
    """Returns the parts of unfinished uploads."""
    return [path for path in bucket.rglob("*") if path.is_file() and ".sgwtmp" in path.parts]


@pytest.mark.parametrize("layout", [None, "cloud"])
def test_a_file_is_streamed(
    layout: str | None, create: Create, bucket: Path, proxy: s3server.Proxy, rows: np.ndarray
) -> None:
    file = create("a.h5", write={"layout": layout})
    write(file, rows)
    assert not (bucket / "a.h5").exists()
    file.close()
    check(bucket / "a.h5", rows)
    size, etag = file.stored()
    assert size == (bucket / "a.h5").stat().st_size
    assert etag
    assert left_over(bucket) == []
    options = s3server.storage_options(proxy.endpoint)
    with hyperchunk.open(f"s3://{bucket.name}/a.h5", storage_options=options) as there:
        np.testing.assert_array_equal(there["rows"][...], rows)


@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_changes_nothing(
    fault: str, create: Create, bucket: Path, proxy: s3server.Proxy, rows: np.ndarray
) -> None:
    proxy.set(faults=f"{fault}:0.3", seed=3)
    with create("passing.h5", timeout=2, retries=30) as file:
        write(file, rows)
    assert proxy.stats()["faulty"] > 0
    check(bucket / "passing.h5", rows)
    # An upload restarted after a lost response leaves an upload without parts.
    assert left_over(bucket) == []


@pytest.mark.slow
def test_stalls_are_tried_again(create: Create, bucket: Path, proxy: s3server.Proxy, rows: np.ndarray) -> None:
    file = create("stalls.h5", timeout=0.5)
    proxy.set(script="ok,stall-head,ok,stall-head", stall="60s")
    start = time.monotonic()
    with file:
        write(file, rows)
    assert proxy.stats()["faulty"] == 2
    assert time.monotonic() - start < 60
    check(bucket / "stalls.h5", rows)


@pytest.mark.parametrize("fault", LASTING)
def test_a_lasting_fault_is_an_error_and_no_object(
    fault: str, create: Create, bucket: Path, proxy: s3server.Proxy, rows: np.ndarray
) -> None:
    file = create("lasting.h5", timeout=0.5, retry_timeout=1, retries=3, part=5 * MIB)
    proxy.set(faults=fault)
    with pytest.raises(errors.HyperchunkError, match=r"lasting\.h5"), file:
        write(file, rows)
    with pytest.raises(errors.HyperchunkError):
        create("lasting.h5", timeout=0.5, retry_timeout=1)
    proxy.set(faults="")
    assert not (bucket / "lasting.h5").exists()


@pytest.mark.parametrize("at", [0, 3, 6])
def test_faults_at_the_end(at: int, create: Create, bucket: Path, proxy: s3server.Proxy, rows: np.ndarray) -> None:
    """Faults at the end; if the response to the last request is lost, the object exists, and that is no error."""
    file = create("end.h5", timeout=2)
    write(file, rows)
    proxy.set(script=",".join(["ok"] * at + ["reset-head", "503"]))
    file.close()
    check(bucket / "end.h5", rows)


def test_what_goes_wrong_leaves_nothing(create: Create, bucket: Path, rows: np.ndarray) -> None:
    def fails() -> None:
        with create("wrong.h5") as file:
            write(file, rows)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not (bucket / "wrong.h5").exists()
    assert left_over(bucket) == []


def test_what_is_forgotten_leaves_nothing(create: Create, bucket: Path, rows: np.ndarray) -> None:
    file = create("forgotten.h5")
    write(file, rows)
    del file
    gc.collect()
    assert not (bucket / "forgotten.h5").exists()
    assert left_over(bucket) == []


def test_references_and_dimension_scales(create: Create, bucket: Path, rows: np.ndarray) -> None:
    with create("scales.h5") as file:
        write(file, rows)
        file["x"] = np.arange(40)
        file["x"].make_scale("x")
        file["rows"].dims[0].attach_scale(file["x"])
    with h5py.File(bucket / "scales.h5") as there:
        assert list(there["rows"].dims[0].keys()) == ["x"]
    check(bucket / "scales.h5", rows)


def test_what_is_there_is_kept_or_replaced(create: Create, bucket: Path, rows: np.ndarray) -> None:
    (bucket / "there.h5").write_bytes(b"as it was")
    with pytest.raises(errors.ReadError, match="exists"):
        create("there.h5", "x")
    with pytest.raises(ZeroDivisionError), create("there.h5"):
        raise ZeroDivisionError
    assert (bucket / "there.h5").read_bytes() == b"as it was"
    with create("there.h5") as file:
        write(file, rows[:3])
    check(bucket / "there.h5", rows[:3])


def test_what_was_sent_is_gone(create: Create, bucket: Path, rows: np.ndarray) -> None:
    file = create("gone.h5", part=5 * MIB)
    whole = file.create_dataset("whole", rows.shape, rows.dtype)
    whole[...] = rows
    with pytest.raises(errors.UnsupportedError, match="sent"):
        whole[20] = 0
    file.flush()
    with pytest.raises(errors.UnsupportedError, match="flush"):
        whole[20] = 0
    with pytest.raises(errors.UnsupportedError, match="flush"):
        file.close()
    with h5py.File(bucket / "gone.h5") as there:
        np.testing.assert_array_equal(there["whole"][...], rows)


def test_refusals(create: Create, proxy: s3server.Proxy, bucket: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="NoSuchBucket"):
        hyperchunk.open("s3://nowhere/a.h5", "w", storage_options=s3server.storage_options(proxy.endpoint))
    wrong = s3server.storage_options(proxy.endpoint) | {"secret": "wrong"}
    with pytest.raises(errors.ReadError, match="SignatureDoesNotMatch"):
        hyperchunk.open(f"s3://{bucket.name}/a.h5", "w", storage_options=wrong)
    with pytest.raises(errors.UnsupportedError, match="a web server"):
        hyperchunk.open(f"{proxy.endpoint}/{bucket.name}/a.h5", "w")
    with pytest.raises(errors.HyperchunkError, match="contains no object"):
        hyperchunk.open("s3://no-key", "w")


def _end(file: Any) -> None:
    try:
        file.create_group("from the child")
        file.close()
    except errors.HyperchunkError:
        return
    raise AssertionError("a copy of the process wrote")


def test_copies_of_the_process_do_not_write(create: Create, bucket: Path, rows: np.ndarray) -> None:
    file = create("fork.h5")
    write(file, rows)
    child = multiprocessing.get_context("fork").Process(target=_end, args=(file,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert not (bucket / "fork.h5").exists()
    file.close()
    check(bucket / "fork.h5", rows)
