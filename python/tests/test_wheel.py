"""What a wheel for publication is made of: cheap checks of what `make wheel` builds, and of the time to start."""

import importlib.util
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import make_wheel
import native
import native_dist
import pytest
import repack_wheel

ROOT = Path(__file__).resolve().parents[2]


def build_data(monkeypatch: pytest.MonkeyPatch, version: str = "standard") -> dict[str, Any]:
    """Returns what the build hook tells hatchling, with builders that build nothing."""
    backwards = {place: Path("/built") / place for place in sorted(native.ARTEFACTS.values(), reverse=True)}
    monkeypatch.setattr(native_dist, "build", lambda root: backwards)
    monkeypatch.setattr(native, "build", lambda root: backwards)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.NativeBuildHook(str(ROOT), {}, None, None, "", "")
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    return data


def test_wheel_for_publication_is_tagged_for_old_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native_dist.VARIABLE, "1")
    data = build_data(monkeypatch)
    assert data["tag"].startswith("cp311-abi3-manylinux_2_28_")
    assert data["pure_python"] is False
    assert list(data["force_include"].values()) == sorted(native.ARTEFACTS.values())


def test_wheel_of_pip_is_tagged_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native_dist.VARIABLE, raising=False)
    assert build_data(monkeypatch)["tag"].startswith("cp311-abi3-linux_")


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def test_repacked_wheel_has_the_same_files(tmp_path: Path) -> None:
    """Names, order, times, permissions and bytes stay; what cannot be made smaller is stored."""
    wheel = tmp_path / "dist" / "some-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    contents = {
        "some/a.py": b"x = 1\n" * 500,
        "some/empty": b"",
        "some/\u00e9.txt": b"long" * 99,
        "some/b": bytes(range(256)),
    }
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2020, 2, 29, 23, 59, 58))
            info.external_attr = (0o100755 if name.endswith(".py") else 0o100644) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
        before = [(info.filename, info.date_time, info.external_attr, info.CRC) for info in archive.infolist()]
    repack_wheel.repack(wheel, raw_deflate)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == contents
        after = archive.infolist()
        assert [(info.filename, info.date_time, info.external_attr, info.CRC) for info in after] == before
        methods = {info.filename: info.compress_type for info in after}
    assert methods["some/a.py"] == methods["some/\u00e9.txt"] == zipfile.ZIP_DEFLATED
    assert methods["some/empty"] == methods["some/b"] == zipfile.ZIP_STORED
    once = wheel.read_bytes()
    repack_wheel.repack(wheel, raw_deflate)
    assert wheel.read_bytes() == once
    assert [file.name for file in wheel.parent.iterdir()] == [wheel.name]


def test_build_for_publication_ignores_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSTFLAGS", "-C target-cpu=native")
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
    env = native_dist.environment(ROOT)
    assert "RUSTFLAGS" not in env
    assert "CARGO_PROFILE_RELEASE_INCREMENTAL" not in env
    assert f"--remap-path-prefix={ROOT}=/hyperchunk" in env["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")


def test_plugins_are_compiled_without_network_access() -> None:
    """Cargo gives all that it compiles together the same features."""
    words = ["cargo", "tree", "--locked", "--offline", "--prefix=none", "--edges=normal", "--format={p}"]
    listed = {}
    for group in native_dist.GROUPS:
        done = subprocess.run(
            [*words, *group], cwd=ROOT, env=native.environment(), capture_output=True, text=True, check=True
        )
        listed["hyperchunk-vol" in group] = {line.split()[0] for line in done.stdout.splitlines() if line}
    network = {"hyper", "object_store", "reqwest", "rustls"}
    assert network <= listed[False]
    assert not network & listed[True]


def test_every_artefact_is_built_once() -> None:
    built = [
        word for group in native_dist.GROUPS for word in group if word.startswith("hyperchunk") and "/" not in word
    ]
    assert sorted(built) == sorted(native.PACKAGES)


def test_too_large_wheel_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "hyperchunk-1-cp311-abi3-any.whl"
    with large.open("wb") as file:
        file.truncate(make_wheel.MAX_BYTES + 1)
    with pytest.raises(SystemExit, match="expected at most 22000000"):
        make_wheel.inspect(large)


@pytest.mark.parametrize("module", ["hyperchunk", "hyperchunk._command"])
def test_import_loads_no_slow_module(module: str) -> None:
    """Each of these takes 5 ms or more, and none is needed before the first file is opened."""
    slow = {
        "asyncio",
        "dataclasses",
        "enum",
        "h5py",
        "inspect",
        "logging",
        "numpy",
        "pathlib",
        "re",
        "signal",
        "typing",
    }
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import {module}; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "python")]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert not slow & set(loaded)
