"""Network failures, made by our proxy before a real S3 server: correct values, or an error that describes the cause."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from hyperchunk import exceptions as errors

Put = Callable[..., Path]
OpenS3 = Callable[..., hyperchunk.File]
Numbers = dict[str, np.ndarray]

# Transient faults, cured by a retry.
PASSING = [
    "500",
    "503",
    "429",
    "reset-head",
    "reset-body",
    "close-body",
    "stall-head",
    "stall-body",
    "trickle",
    "short",
    "shifted",
    "no-range",
    "garbage",
]
# Permanent faults: the exception, and a pattern of its message.
FINAL = {
    "expired": (errors.ReadError, r"ExpiredToken|expired"),
    "denied": (errors.HyperchunkError, r"AccessDenied|403|Forbidden|permission"),
    "changed": (errors.ReadError, r"written|changed"),
    "gone": (errors.HyperchunkError, r"NoSuchKey|not found|404|no longer|written|no such|exist"),
}
QUICK = {"timeout": 0.5, "retry_timeout": 20}
CHUNKS = {"chunks": (20, 100)}


def marks_of(fault: str) -> list[pytest.MarkDecorator]:
    """Marks faults that wait for time-outs as slow."""
    return [pytest.mark.slow] if fault.startswith(("stall", "trickle")) else []


@pytest.fixture
def key(put: Put, numbers: Numbers) -> str:
    put("faults.h5", CHUNKS, **numbers)
    return "faults.h5"


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=marks_of(fault)) for fault in PASSING])
def test_a_passing_fault_changes_nothing(
    fault: str, key: str, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers
) -> None:
    proxy.set(script=f"{fault},{fault}")
    file = open_s3(key, read_ahead=0, **QUICK)
    # For trickled data, only as much as does not take minutes.
    for name in ["small"] if fault == "trickle" else numbers:
        proxy.set(script=f"{fault},ok,{fault}")
        np.testing.assert_array_equal(file[name][...], numbers[name])
    assert proxy.stats()["faulty"] > 0
    assert file.stats().retries > 0


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=marks_of(fault)) for fault in PASSING])
def test_a_fault_of_the_bytes_that_come_with_the_opening(
    fault: str, key: str, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers
) -> None:
    proxy.set(script=f"{fault},ok,{fault}")
    file = open_s3(key, **QUICK)
    for name in ["small"] if fault == "trickle" else numbers:
        np.testing.assert_array_equal(file[name][...], numbers[name])
    assert proxy.stats()["faulty"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", PASSING)
def test_a_lasting_fault_is_an_error_in_time(
    fault: str, key: str, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers
) -> None:
    file = open_s3(key, timeout=0.3, retry_timeout=1.5, read_ahead=0)
    proxy.set(faults=fault)
    start = time.monotonic()
    with pytest.raises(errors.ReadError) as caught:
        file["chunked"][...]
    assert time.monotonic() - start < 20
    assert key in str(caught.value)
    # The file stays usable.
    proxy.set(faults="")
    np.testing.assert_array_equal(file["chunked"][...], numbers["chunked"])
    proxy.set(faults=fault)
    with pytest.raises(errors.HyperchunkError):
        open_s3(key, timeout=0.3, retry_timeout=1, read_ahead=0)


@pytest.mark.parametrize("fault", FINAL)
def test_what_does_not_pass_is_not_asked_again(
    fault: str, key: str, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers
) -> None:
    file = open_s3(key, read_ahead=0, **QUICK)
    proxy.reset()
    proxy.set(faults=fault)
    kind, message = FINAL[fault]
    with pytest.raises(kind) as caught:
        file["contiguous"][...]
    assert re.search(message, str(caught.value)), caught.value
    assert max(proxy.stats()["requests"], 1) <= 20


def test_a_server_that_knows_no_ranges(key: str, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers) -> None:
    file = open_s3(key, timeout=0.5, retry_timeout=2, read_ahead=0)
    proxy.set(faults="whole")
    for name, expected in numbers.items():
        try:
            found = file[name][...]
        except errors.ReadError as error:
            assert "range" in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("same_size", [True, False])
def test_an_object_that_is_written_meanwhile(same_size: bool, put: Put, open_s3: OpenS3, numbers: Numbers) -> None:
    put("changing.h5", CHUNKS, **numbers)
    file = open_s3("changing.h5", read_ahead=0, **QUICK)
    np.testing.assert_array_equal(file["chunked"][:20], numbers["chunked"][:20])
    newer = numbers["chunked"] + 1 if same_size else np.zeros((500, 300), "i4")
    put("changing.h5", CHUNKS, **numbers | {"chunked": newer})
    with pytest.raises(errors.ChangedError, match=r"changing\.h5"):
        file["chunked"][...]
    again = open_s3("changing.h5", **QUICK)
    np.testing.assert_array_equal(again["chunked"][...], newer)


def test_what_is_not_there(open_s3: OpenS3, put: Put, proxy: s3server.Proxy) -> None:
    with pytest.raises(errors.NotFoundError):
        open_s3("absent.h5")
    wrong = s3server.storage_options(proxy.endpoint) | {"secret": "wrong"}
    put("there.h5", a=np.arange(3))
    with pytest.raises(errors.HyperchunkError, match=r"SignatureDoesNotMatch|403|denied|Denied|Forbidden"):
        hyperchunk.open("s3://tests/there.h5", storage_options=wrong)
    nobody = s3server.storage_options("http://127.0.0.1:9")
    start = time.monotonic()
    with pytest.raises(errors.ReadError):
        hyperchunk.open("s3://tests/there.h5", storage_options=nobody, network={"retry_timeout": 1})
    assert time.monotonic() - start < 20


def test_not_hdf5(server: s3server.Server, open_s3: OpenS3) -> None:
    server.put("tests", "text", b"no HDF5 in here" * 100)
    server.put("tests", "empty", b"")
    for name in ("text", "empty"):
        with pytest.raises(errors.NotHdf5Error):
            open_s3(name)


def test_a_file_that_is_cut_short(server: s3server.Server, tmp_path: Path, open_s3: OpenS3, numbers: Numbers) -> None:
    with h5py.File(tmp_path / "whole.h5", "w") as file:
        file["a"] = numbers["contiguous"]
    server.put("tests", "cut.h5", (tmp_path / "whole.h5").read_bytes()[:-1000])
    with pytest.raises(errors.TruncatedError):
        open_s3("cut.h5")


@pytest.mark.slow
def test_ten_thousand_faults_and_no_wrong_byte(put: Put, open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    random = np.random.default_rng(9)
    arrays = {
        "chunked": random.integers(0, 2**31, (1500, 256), dtype="i4"),
        "contiguous": random.random(100_000),
    }
    put("soak.h5", {"chunks": (1, 256)}, **arrays)
    # Many small requests: no gaps are read over, and no request is large.
    small = {"gap": 0, "largest_request": 2048, "block": 2048, "first_read": 4096, "read_ahead": 0, "over_read": 0.0}
    options = {"retries": 60, "retry_timeout": 100, "timeout": 1, "concurrency": 64}
    passing = [fault for fault in PASSING if not fault.startswith(("stall", "trickle"))]
    rates = ",".join([*(f"{fault}:0.025" for fault in passing), "stall-body:0.0003", "trickle:0.0003"])
    files = [open_s3("soak.h5", **small, **options) for _ in range(4)]
    proxy.set(faults=rates, seed=20, retry_after=0)

    def wrong(number: int) -> int:
        """Reads, a different part each time, until there were enough faults."""
        count = 0
        while proxy.stats()["faulty"] < 10_000:
            name = ("chunked", "contiguous")[number % 2]
            found = files[number % 4][name][number % 500 :]
            count += int((found != arrays[name][number % 500 :]).sum())
            number += 17
        return count

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(wrong, range(12))) == 0
    assert sum(file.stats().retries for file in files) > 9_000
