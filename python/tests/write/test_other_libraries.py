"""Random trees written by hyperchunk, read by other releases of libhdf5 and by netCDF4: all agree with h5py's.

HDF5 1.14.6 is in arraymorph's wheel, 2.2.0 in netCDF4's. HYPERCHUNK_TEST_LIBHDF5 replaces the first.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import random_trees as trees
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

LZF = 32000


def _carried(package: str) -> Path | None:
    """Returns the libhdf5 in the wheel of a package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent / f"{package.lower()}.libs"
    found = [
        path for path in sorted(folder.glob("libhdf5*")) if not path.name.startswith(("libhdf5_hl", "libhdf5_cpp"))
    ]
    return found[0] if found else None


class Library:
    """A libhdf5, in a separate process."""

    def __init__(self, path: Path) -> None:
        program = Path(__file__).with_name("libhdf5_records.py")
        # Its dependencies are beside it, which not every wheel declares.
        environment = os.environ | {"LD_LIBRARY_PATH": str(path.parent)}
        command = [sys.executable, str(program), str(path)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.version = ".".join(map(str, self._answer()))

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def objects(self, path: Path) -> dict[str, Any]:
        """Returns the contents of a file; an unreadable part is only marked."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        record = self._answer()
        assert "openerr" not in record, (self.version, record)
        for name, one in record["objects"].items():
            assert one["kind"] != "?", (self.version, name, one)
            for part in (one, *one.get("attrs", {}).values()):
                if "err" in part:
                    # h5py itself registers LZF.
                    assert any(number == LZF for number, _ in one.get("filters", [])), (self.version, name, part)
                    for key in [key for key in part if key.endswith("err")]:
                        part[key] = "unreadable"
        return {"objects": record["objects"], "links": record["links"]}

    def close(self) -> None:
        self.process.communicate(timeout=60)


def _library(path: Path | None, what: str) -> Library:
    if path is None:
        pytest.skip(f"{what} is not installed, and HYPERCHUNK_TEST_LIBHDF5 names no library")
    return Library(path)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Library]:
    """h5py's library."""
    library = _library(_carried("h5py"), "a wheel of h5py")
    yield library
    library.close()


@pytest.fixture(scope="module", params=["arraymorph", "netCDF4"])
def other(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Another library."""
    named = os.environ.get("HYPERCHUNK_TEST_LIBHDF5") if request.param == "arraymorph" else None
    library = _library(Path(named) if named else _carried(request.param), request.param)
    yield library
    library.close()


PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
some = settings(deadline=None, max_examples=25, phases=PHASES, suppress_health_check=list(HealthCheck))


@some
@given(tree=trees.roots, libver=st.sampled_from(["earliest", "v110", "v200"]))
def test_random_trees_in_other_releases(theirs: Library, other: Library, tree: Any, libver: str) -> None:
    if libver == "v200" and other.version < "2":
        libver = "v110"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        trees.Builder(hyperchunk, path, libver, tree)
        expected = theirs.objects(path)
        assert other.objects(path) == expected
        # h5py converts these to arrays, too.
        with h5py.File(path) as file:
            for name, one in expected["objects"].items():
                dtype = file[name].dtype if one["kind"] == "dataset" else np.dtype(object)
                if not dtype.hasobject and dtype.names is None and "err" not in one:
                    digest = hashlib.sha256(np.asarray(file[name][()], dtype).tobytes()).hexdigest()
                    assert digest in (one["sha"], one.get("rawsha")), name


# Types of netCDF; it skips or refuses others.
NETCDF = ["i1", "u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f4", ">f8", "text"]
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
values = st.tuples(st.sampled_from(NETCDF), st.lists(st.integers(1, 5), max_size=1).map(tuple), st.integers(0, 99))
variables = st.tuples(
    st.just("dataset"),
    st.sampled_from(NETCDF),
    st.lists(st.integers(1, 6), max_size=3).map(tuple),
    st.sampled_from(["plain", "chunked", "growing", "growing twice", "deflate", "checked"]),
    st.booleans(),
    st.integers(0, 99),
    st.dictionaries(names, values, max_size=3),
)
groups = st.recursive(
    variables,
    lambda inner: st.tuples(
        st.just("group"), st.booleans(), st.dictionaries(names, inner, max_size=4), st.dictionaries(names, values)
    ),
    max_leaves=12,
)
files = st.tuples(
    st.just("group"), st.booleans(), st.dictionaries(names, groups, max_size=6), st.dictionaries(names, values)
)


def _same(found: Any, expected: Any) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind in "OS":
        texts = [text.decode() if isinstance(text, bytes) else text for text in expected.flat]
        assert [str(text) for text in np.ravel(found)] == texts
    else:
        assert np.ravel(found).astype(expected.dtype.newbyteorder("=")).tobytes() == (
            np.ravel(expected).astype(expected.dtype.newbyteorder("=")).tobytes()
        )


def _compare_netcdf(group: Any, expected: h5py.Group) -> None:
    for name in group.ncattrs():
        _same(group.getncattr(name), expected.attrs[name])
    assert set(group.ncattrs()) == set(expected.attrs)
    datasets = {name for name, one in expected.items() if isinstance(one, h5py.Dataset)}
    assert set(group.variables) == datasets
    assert set(group.groups) == set(expected) - datasets
    for name, variable in group.variables.items():
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
        _same(variable[...], expected[name][()])
        for attribute in variable.ncattrs():
            _same(variable.getncattr(attribute), expected[name].attrs[attribute])
    for name, inner in group.groups.items():
        _compare_netcdf(inner, expected[name])


@some
@given(tree=files, libver=st.sampled_from(["earliest", "v110", "v200"]))
def test_random_trees_in_netcdf(tree: Any, libver: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        trees.Builder(hyperchunk, path, libver, tree)
        with netcdf.Dataset(path) as found, h5py.File(path) as expected:
            _compare_netcdf(found, expected)
