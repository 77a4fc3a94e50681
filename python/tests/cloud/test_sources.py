"""Other sources of a file: web servers, fsspec, obstore, Python file objects; and pickles of all of them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import hyperchunk
import numpy as np
import obstore
import pytest
import s3server
from hyperchunk import exceptions as errors
from hyperchunk.typing import NetworkOptions
from obstore.store import S3Store

Put = Callable[..., Path]
Numbers = dict[str, np.ndarray]
KEY = "sources.h5"


@pytest.fixture
def path(put: Put, numbers: Numbers) -> Path:
    return put(KEY, {"chunks": (20, 100), "compression": "gzip"}, **numbers)


@pytest.fixture
def filesystem(proxy: s3server.Proxy) -> Any:
    client = {"endpoint_url": proxy.endpoint, "region_name": s3server.REGION}
    return fsspec.filesystem("s3", key=s3server.KEY, secret=s3server.SECRET, client_kwargs=client)


@pytest.fixture
def store(proxy: s3server.Proxy) -> S3Store:
    return S3Store(
        "tests",
        endpoint=proxy.endpoint,
        access_key_id=s3server.KEY,
        secret_access_key=s3server.SECRET,
        region=s3server.REGION,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


@pytest.fixture
def web(server: s3server.Server) -> Iterator[s3server.Proxy]:
    """A plain web server: no signatures, but ranges and ETags."""
    with s3server.Proxy(None, server.folder) as running:
        yield running


def check(file: hyperchunk.File, numbers: Numbers) -> None:
    """Checks the values, read in one batch, one by one, and through a pickled copy."""
    for name, expected in numbers.items():
        np.testing.assert_array_equal(file[name][...], expected)
    np.testing.assert_array_equal(file["chunked"][3:100:7, 200], numbers["chunked"][3:100:7, 200])
    for values, expected in zip(file.read_many(list(numbers)), numbers.values(), strict=True):
        np.testing.assert_array_equal(values, expected)


def test_an_fsspec_file(path: Path, filesystem: Any, numbers: Numbers) -> None:
    with filesystem.open(f"tests/{KEY}", "rb") as opened, hyperchunk.open(opened) as file:
        check(file, numbers)
    with hyperchunk.open((filesystem, f"tests/{KEY}")) as file:
        check(file, numbers)
        assert file.stats().requests > 0


def test_an_obstore_object(path: Path, store: S3Store, numbers: Numbers, proxy: s3server.Proxy) -> None:
    with hyperchunk.open((store, KEY)) as file:
        check(file, numbers)
    proxy.reset()
    with hyperchunk.open(obstore.open_reader(store, KEY)) as file:
        check(file, numbers)


def test_python_file_objects(path: Path, numbers: Numbers) -> None:
    with path.open("rb") as opened, hyperchunk.open(opened) as file:
        check(file, numbers)
    with hyperchunk.open(io.BytesIO(path.read_bytes())) as file:
        check(file, numbers)


def test_a_web_server(path: Path, web: s3server.Proxy, numbers: Numbers) -> None:
    with hyperchunk.open(f"{web.endpoint}/tests/{KEY}", storage_options={"allow_http": True}) as file:
        check(file, numbers)
    with pytest.raises(errors.NotFoundError):
        hyperchunk.open(f"{web.endpoint}/tests/absent.h5", storage_options={"allow_http": True})


def test_a_pickle_is_small_and_opens_when_it_is_used(path: Path, proxy: s3server.Proxy, numbers: Numbers) -> None:
    options = s3server.storage_options(proxy.endpoint)
    # The server would count bytes that are read ahead later.
    network: NetworkOptions = {"read_ahead": 0}
    with hyperchunk.open(f"s3://tests/{KEY}", storage_options=options, network=network) as file:
        pickled = pickle.dumps((file, file["chunked"]))
    assert len(pickled) < 2000
    proxy.reset()
    copy, dataset = pickle.loads(pickled)
    assert proxy.stats()["requests"] == 0
    np.testing.assert_array_equal(dataset[:30], numbers["chunked"][:30])
    check(copy, numbers)
    copy.close()
