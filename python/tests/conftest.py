"""Fixtures: a separate configuration for each test, small files, attached programs, fresh processes."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import native
import numpy as np
import pytest
from fresh import HYPERCHUNK, environment, read_fresh
from people import LUA, OUT, A, Person

Record = dict[str, Any]

#: Set by `make gpu`: CUDA tests run on this machine's GPU.
REAL_GPU = os.environ.get("HYPERCHUNK_TEST_GPU") == "1"

#: Time in seconds since 1970 from which tests marked `slow` are skipped. Set by `.ci/run`, whose time is limited.
SLOW_UNTIL = float(os.environ.get("HYPERCHUNK_SLOW_TESTS_UNTIL", "inf"))


TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of `slow_tests.txt` as slow, and those of `longer_tests.txt` as longer."""
    for marker in ("slow", "longer"):
        found = TESTS / f"{marker}_tests.txt"  # absent where a part of the tests was copied
        marked = set(found.read_text().splitlines()) if found.exists() else set()
        for item in items:
            function = getattr(item, "originalname", item.name)
            if item.path.is_relative_to(TESTS) and f"{item.path.relative_to(TESTS).as_posix()}::{function}" in marked:
                item.add_marker(marker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips slow tests for which there is no time."""
    if time.time() > SLOW_UNTIL and item.get_closest_marker("slow") is not None:
        pytest.skip("slow, and the time of this run is short: `make test-slow` runs it")


@pytest.fixture(scope="session", autouse=True)
def _plugins() -> None:
    """Makes live datasets readable in this process, too."""
    hyperchunk.plugins.enable()


@pytest.fixture(scope="session")
def config_with_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration folder with a signing key, copied for each test."""
    folder = tmp_path_factory.mktemp("config")
    subprocess.run([HYPERCHUNK, "key", "new"], env=environment(folder), check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_config_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the user's own keys and cache, also from code outside any test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERCHUNK_CODE_CACHE", str(tmp_path_factory.mktemp("code")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("nothing")))
        yield


@pytest.fixture(autouse=True)
def config(config_with_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh ``XDG_CONFIG_HOME`` with a signing key, for this process and its children."""
    folder = tmp_path / "config"
    shutil.copytree(config_with_key, folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def fake_cuda() -> Path:
    """The CUDA driver without a GPU, for ``HYPERCHUNK_CUDA_DRIVER``; see ``gpu/hyperchunk-cuda-fake``."""
    if REAL_GPU:
        pytest.skip("of the driver for tests, and this machine's GPU is tested")
    return native.cuda_fake()


@pytest.fixture
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A GPU: the test driver's, or this machine's with ``make gpu``. Returns its environment variables."""
    if REAL_GPU:
        return {}
    driver = str(request.getfixturevalue("fake_cuda"))
    variables = dict.fromkeys(("HYPERCHUNK_CUDA_DRIVER", "HYPERCHUNK_NVCOMP", "HYPERCHUNK_CUFILE"), driver)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture
def scene(tmp_path: Path) -> Callable[..., Path]:
    """Makes an HDF5 file: ``scene("name.h5", Red=array, …)``; by default with two float bands of 30x40."""

    def make(name: str = "s2.h5", **datasets: Any) -> Path:
        path = tmp_path / name
        if not datasets:
            random = np.random.default_rng(20)
            datasets = {band: random.random((30, 40), dtype="f4") for band in ("Red", "NIR")}
        with h5py.File(path, "w") as file:
            for key, data in datasets.items():
                file[key] = data
        return path

    return make


@pytest.fixture
def source(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a program: ``source("lua", text)``."""

    def write(language: str, text: str) -> Path:
        folder = tmp_path / "sources"
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(list(folder.iterdir()))}.{language}"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def attach(source: Callable[[str, str], Path]) -> Callable[..., list[Record]]:
    """Attaches a program: ``attach(file, "lua", text, "out:3:float", chunks="auto")``."""

    def run(file: Path, language: str, text: str, *outputs: str, **options: Any) -> list[Record]:
        return hyperchunk.udf.attach(file, source(language, text), outputs, **options)

    return run


@pytest.fixture
def command(config: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the ``hyperchunk`` command as a shell would."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(HYPERCHUNK), *map(os.fspath, map(str, arguments))]
        return subprocess.run(words, env=environment(config), capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def read_in_fresh_process(config: Path, tmp_path: Path) -> Callable[..., np.ndarray]:
    """Reads with stock h5py or netCDF4, with only HDF5_PLUGIN_PATH set: ``read(file, "NDVI", "10:20, 5")``."""

    def read(file: Path, dataset: str, selection: str = "...", reader: str = "h5py") -> np.ndarray:
        return read_fresh(file, dataset, selection, reader, config=config, scratch=tmp_path)

    return read


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    """Another user."""
    return Person(tmp_path / "ada", "Ada")


@pytest.fixture
def adas(ada: Person, source: Any, tmp_path: Path) -> Callable[..., Path]:
    """Makes a file with a function signed by Ada: ``adas("lua", text)``."""

    def make(
        language: str = "lua", text: str = LUA, *outputs: str, name: str = "ada.h5", options: Sequence[str] = ()
    ) -> Path:
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            file["a"] = A
        done = ada("udf", "attach", path, source(language, text), *(outputs or [OUT]), *options)
        assert done.returncode == 0, done.stderr
        return path

    return make


@pytest.fixture
def profile(config: Path) -> Callable[[str, str], Path]:
    """Writes a profile of the user: ``profile("lab", '[grant]\\nread = ["/data"]')``."""

    def write(name: str, text: str) -> Path:
        path = config / "hyperchunk" / "profiles" / name / "profile.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"version = 1\n{text}\n")
        return path

    return write


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder to be granted, beside one that is not."""
    folder = tmp_path.resolve() / "lookup"
    folder.mkdir()
    (folder / "value.txt").write_text("42")
    (tmp_path.resolve() / "secret.txt").write_text("13")
    return folder


@pytest.fixture(autouse=True)
def _gpu_for_cuda(request: pytest.FixtureRequest) -> None:
    """Provides a GPU to the CUDA variants of tests in several languages."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and callspec.params.get("language") == "cu":
        request.getfixturevalue("gpu")


@pytest.fixture
def gpu_granted(profile: Callable[[str, str], Path]) -> Path:
    """Grants the GPU to functions signed by the user."""
    return profile("self", "[grant]\ngpu = true")


@pytest.fixture
def gpu(cuda: dict[str, str], gpu_granted: Path) -> dict[str, str]:
    """A GPU with its grant."""
    return cuda
