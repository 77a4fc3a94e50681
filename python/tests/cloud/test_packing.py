"""``hyperchunk pack`` to an object store, without a local copy of the new file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import s3server


@pytest.fixture
def reach(proxy: s3server.Proxy) -> list[str]:
    """Options of the command for reaching the store."""
    settings = ["allow_http=true", f"access_key_id={s3server.KEY}", f"secret_access_key={s3server.SECRET}"]
    options = [word for setting in settings for word in ("--option", setting)]
    return ["--endpoint", proxy.endpoint, "--region", s3server.REGION, *options]


@pytest.fixture
def bucket(server: s3server.Server) -> Path:
    """A new bucket, as its folder."""
    folder = server.folder / f"packed-{len(list(server.folder.iterdir()))}"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with 20 MiB in chunks, strings, references and attributes."""
    path = tmp_path / "source.h5"
    with h5py.File(path, "w") as file:
        data = np.random.default_rng(5).integers(0, 2**32, (20, 1 << 18), dtype="u4")
        made = file.create_dataset("group/data", data=data, chunks=(1, 1 << 18))
        file.create_dataset("deflated", data=data[:2] >> 24, chunks=(1, 1 << 16), compression=1)
        file["plain"] = np.arange(1000.0)
        file["texts"] = ["a", "größer"]
        file.attrs["ref"] = made.ref
        file["group"].attrs["unit"] = "K"
    return path


def same(there: Path, source: Path) -> None:
    with h5py.File(there) as one, h5py.File(source) as other:
        for name in ("group/data", "deflated", "plain", "texts"):
            assert np.array_equal(one[name][...], other[name][...])
        assert one[one.attrs["ref"]] == one["group/data"]
        assert one["group"].attrs["unit"] == "K"


@pytest.mark.parametrize("options", [[], ["--layout", "cloud", "--chunks", "auto", "--filters", "deflate"]])
def test_a_file_is_packed_to_a_store(
    options: list[str], source: Path, bucket: Path, reach: list[str], command: Callable[..., Any]
) -> None:
    out = f"s3://{bucket.name}/packed.h5"
    done = command("pack", source, out, "--verify", "--json", *options, *reach)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["file"] == out
    assert made["bytes"] == (bucket / "packed.h5").stat().st_size
    assert made["verified"]["datasets"] == 4
    assert not list(source.parent.glob("*.partial"))
    same(bucket / "packed.h5", source)
    # From one object to another; an existing object stays, unless it is to be replaced.
    again = command("pack", out, source, f"s3://{bucket.name}/two.h5", *reach)
    assert again.returncode == 0, again.stderr
    kept = command("pack", source, out, *reach)
    assert kept.returncode == 1
    assert "exists" in kept.stderr or "there" in kept.stderr
    assert command("pack", source, out, "--overwrite", *reach).returncode == 0
    assert "one of the packed files" in command("pack", out, out, *reach).stderr


def test_one_request_lists_a_file_that_was_packed_for_the_cloud(
    tmp_path: Path, bucket: Path, reach: list[str], proxy: s3server.Proxy, command: Callable[..., Any]
) -> None:
    source = tmp_path / "granule.h5"
    with h5py.File(source, "w") as file:
        for number in range(60):
            made = file.create_dataset(f"track{number % 6}/heights/v{number}", data=np.arange(5000.0), chunks=(500,))
            made.attrs["units"], made.attrs["long_name"] = "m", f"what is measured in column {number}"
    out = f"s3://{bucket.name}/packed.h5"
    done = command("pack", source, out, "--layout", "cloud", *reach)
    assert done.returncode == 0, done.stderr
    report = json.loads(command("check", bucket / "packed.h5", "--json").stdout)
    assert report["list"]["requests"] == report["list"]["round_trips"] == 1
    assert report["structure_bytes"] > 1 << 15
    proxy.reset()
    listed = command("ls", "-rl", out, *reach)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("@long_name: scalar string") == 60
    assert proxy.stats()["requests"] == 1


def test_a_pack_that_fails_leaves_nothing(
    source: Path, bucket: Path, reach: list[str], proxy: s3server.Proxy, command: Callable[..., Any]
) -> None:
    proxy.set(faults="denied:1", seed=1)
    done = command("pack", source, f"s3://{bucket.name}/denied.h5", *reach)
    assert done.returncode == 1
    assert [path for path in bucket.rglob("*") if path.is_file()] == []
