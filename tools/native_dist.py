"""Builds the native artefacts of wheels for publication: small, for old C libraries, and reproducible.

`make wheel` uses it through `hatch_build.py`. Cargo's profile `dist` makes the code small; `zig cc`, driven by
cargo-zigbuild, links against glibc 2.28, which RHEL 8 and Debian 10 have. Standard library only, except
for those two."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import native

# `make wheel` sets it to request these artefacts.
VARIABLE = "HYPERCHUNK_DIST"
GLIBC = (2, 28)
# Packages that are compiled together share the features of their dependencies. The plugins are compiled without the
# module: code that libhdf5 loads has no network access of its own, so it needs none of the code for it.
GROUPS = [
    ["-p", "hyperchunk-python"],
    [word for name in native.PACKAGES if name != "hyperchunk-python" for word in ("-p", name)],
]


def fail(message: str) -> NoReturn:
    sys.exit(f"hyperchunk: {message}")


def requested() -> bool:
    return os.environ.get(VARIABLE) == "1"


def tag() -> str:
    """Returns the platform tag in the names of wheels."""
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"


def target() -> str:
    """Returns rustc's name for this kind of machine."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        fail(f"wheels for publication are made on Linux, x86-64 or aarch64, not on {platform.platform()}.")
    return f"{platform.machine()}-unknown-linux-gnu"


def environment(root: Path) -> dict[str, str]:
    """Returns the environment for cargo, which keeps paths of this machine out of the artefacts."""
    env = native.environment()
    # A developer's shell may set these for faster builds.
    for name in [n for n in env if n.startswith("CARGO_PROFILE_") or n in ("RUSTFLAGS", "CFLAGS", "CXXFLAGS")]:
        del env[name]
    home = Path(env.get("CARGO_HOME") or "~/.cargo").expanduser()
    # rustc uses the last entry that matches a path.
    names = {root: "/hyperchunk", home: "/cargo", Path(native.target_dir()): "/target"}
    maps = [f"--remap-path-prefix={path}={name}" for path, name in names.items()]
    return env | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(maps),
        "CARGO_INCREMENTAL": "0",
        "CARGO_TARGET_DIR": str(Path(native.target_dir()) / "dist"),
        # The folder of cargo-zigbuild and zig.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]]),
        # LuaJIT's makefile links a program that is not used, and knows only GCC's library for unwinding.
        "TARGET_LIBS": "-lunwind",
    }


def build(root: Path) -> dict[str, Path]:
    """Runs cargo in `root`; returns path in the package -> built file."""
    env = environment(root)
    native.check_tools(env)
    zigbuild = shutil.which("cargo-zigbuild", path=env["PATH"])
    if zigbuild is None:
        fail("cargo-zigbuild is missing: `pip install -r tools/requirements-wheel.txt`.")
    found: dict[str, Path] = {}
    for group in GROUPS:
        command = [zigbuild, "zigbuild", "--profile", "dist", "--locked"]
        command += ["--target", f"{target()}.{GLIBC[0]}.{GLIBC[1]}", "--message-format=json-render-diagnostics"]
        done = subprocess.run([*command, *group], cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            native.fail("`cargo zigbuild` failed; its messages are above.")
        found |= native.artefacts(done.stdout)
    native.check_complete(found)
    return found
