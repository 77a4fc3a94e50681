"""Builds the native artefacts of the package: the extension module, the plugins and the workers.

Used by `hatch_build.py` for wheels, and by `make` as `python tools/native.py` to refresh an editable install:
one `cargo build` and a copy of the changed files. Standard library only."""

import filecmp
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# Path of each artefact, relative to the package's parent folder, and the cargo target that makes it.
ARTEFACTS = {
    "_core": "hyperchunk/_core.abi3.so",
    "hyperchunk_filter": "hyperchunk/plugins/libhyperchunk_filter.so",
    "hyperchunk_snappy": "hyperchunk/plugins/libhyperchunk_snappy.so",
    # Not in the folder of the filters: HDF5 tries every connector in a plugin folder on each file that it cannot open.
    "hyperchunk_vol": "hyperchunk/connector/libhyperchunk_vol.so",
    # This one is a connector only for programs that name it, so it can be in the folder of the filters.
    "hyperchunk_vol_named": "hyperchunk/plugins/libhyperchunk_vol_named.so",
    "hyperchunk-udf-worker": "hyperchunk/libexec/hyperchunk-udf-worker",
    "hyperchunk-wasm-worker": "hyperchunk/libexec/hyperchunk-wasm-worker",
}
PLUGINS = ["hyperchunk-filter", "hyperchunk-snappy", "hyperchunk-vol", "hyperchunk-vol-named"]
PACKAGES = ["hyperchunk-python", *PLUGINS, "hyperchunk-udf-worker", "hyperchunk-wasm-worker"]
# Paths of artefacts of older builds, which are removed from editable installs.
FORMER = ["hyperchunk/plugins/libhyperchunk_vol.so"]


def fail(message: str) -> NoReturn:
    """Ends the build with a one-line message, which pip shows unchanged."""
    sys.exit(f"hyperchunk: {message}")


def target_dir() -> str:
    """Returns the folder for cargo's output: outside the checkout, so that a second checkout can use built crates."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return os.environ.get("CARGO_TARGET_DIR") or str(Path(cache) / "hyperchunk" / "target")


def environment() -> dict[str, str]:
    """Returns the environment for cargo, with rustup's folder on the path, which only a login shell adds."""
    rustup = Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser() / "bin"
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(rustup)])
    # A build without the sandbox is only for measurements (bench/hdf5_udf.py), never for a package.
    kept = {name: value for name, value in os.environ.items() if name != "HYPERCHUNK_BUILD_WITHOUT_SANDBOX"}
    return kept | {"PATH": path, "CARGO_TARGET_DIR": target_dir()}


def check_tools(env: dict[str, str]) -> None:
    """Ends the build with one line if a required tool is missing."""
    path = env["PATH"]
    if shutil.which("cargo", path=path) is None:
        fail("cargo is missing: install Rust 1.89 or newer with rustup (`rustup toolchain install stable`).")
    if shutil.which(env.get("CC", "cc").split()[0], path=path) is None:
        fail("a C compiler is missing: install one, on Debian or Ubuntu `apt-get install build-essential`.")
    if shutil.which("make", path=path) is None:
        fail("make is missing: install it, on Debian or Ubuntu `apt-get install build-essential`.")
    if shutil.which(env.get("CXX", "c++").split()[0], path=path) is None:
        message = "no C++ compiler: live datasets written in C++ will not run until `apt-get install g++`."
        print(f"hyperchunk: {message}", file=sys.stderr)


def build(root: Path) -> dict[str, Path]:
    """Runs cargo in `root`; returns path in the package -> a copy of the built file that only this checkout uses."""
    env = environment()
    check_tools(env)
    release = Path(target_dir()) / "release"
    release.mkdir(parents=True, exist_ok=True)
    with (release / ".hyperchunk-lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        claim(release, root)
        return keep(compile_all(root, env), release / f"hyperchunk-{hashlib.sha256(bytes(root)).hexdigest()[:16]}")


def claim(release: Path, root: Path) -> None:
    """Removes artefacts of another checkout: cargo would mistake them for this one's, which have the same names."""
    note = release / ".hyperchunk-checkout"
    if note.exists() and note.read_bytes() == bytes(root):
        return
    for folder in (release, release / "deps"):
        for library in folder.glob("lib*.so"):
            if library.stem.removeprefix("lib") in ARTEFACTS:
                library.unlink()
    note.write_bytes(bytes(root))


def keep(built: dict[str, Path], folder: Path) -> dict[str, Path]:
    """Copies built files into a folder; returns path in the package -> copy."""
    kept = {}
    for number, (name, file) in enumerate(built.items()):
        kept[name] = folder / str(number) / file.name
        kept[name].parent.mkdir(parents=True, exist_ok=True)
        if not kept[name].exists() or not filecmp.cmp(file, kept[name], shallow=False):
            shutil.copy2(file, kept[name])
    return kept


def compile_all(root: Path, env: dict[str, str]) -> dict[str, Path]:
    """Runs cargo; returns path in the package -> built file."""
    command = ["cargo", "build", "--release", "--locked", "--message-format=json-render-diagnostics"]
    command += [argument for package in PACKAGES for argument in ("-p", package)]
    done = subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail("`cargo build` failed; its messages are above.")
    found = artefacts(done.stdout)
    check_complete(found)
    return found


def artefacts(messages: str) -> dict[str, Path]:
    """Finds artefacts in cargo's JSON messages; returns path in the package -> built file."""
    found: dict[str, Path] = {}
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact":
            continue
        name = ARTEFACTS.get(message["target"]["name"])
        kinds = message["target"]["kind"]
        if name is None or not {"cdylib", "bin"} & set(kinds):
            continue
        file = message["executable"] or next(f for f in message["filenames"] if f.endswith((".so", ".dylib")))
        found[name] = Path(file)
    return found


def check_complete(found: dict[str, Path]) -> None:
    """Ends the build if an artefact was not made."""
    if missing := set(ARTEFACTS.values()) - found.keys():
        fail(f"`cargo build` did not make {', '.join(sorted(missing))}.")


def place(artefacts: dict[str, Path], python: Path) -> list[str]:
    """Copies changed files into an editable install's source folder; returns the paths of the changed files.

    A running process may have the old file mapped, so it is replaced by a new file of the same name, and never
    overwritten.
    """
    changed = []
    for former in FORMER:
        (python / former).unlink(missing_ok=True)
    for name, built in artefacts.items():
        target = python / name
        if target.exists() and filecmp.cmp(built, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copy2(built, fresh)
        fresh.replace(target)
        changed.append(name)
    return changed


def name_interpreter(python: Path, interpreter: str) -> None:
    """Tells the plugin which Python runs functions: outside site-packages it cannot derive it from its own path."""
    note = python / "hyperchunk" / "plugins" / "worker-python"
    if not note.exists() or note.read_text() != interpreter + "\n":
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(interpreter + "\n")


def cuda_fake() -> Path:
    """Builds the CUDA driver that tests use instead of a GPU; returns its path for `HYPERCHUNK_CUDA_DRIVER`.

    It stays in cargo's folder: no package contains it.
    """
    root = Path(__file__).resolve().parent.parent
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "hyperchunk-cuda-fake"]
    if subprocess.run(command, cwd=root, env=environment(), check=False).returncode != 0:
        fail("`cargo build` of the driver for tests failed; its messages are above.")
    return Path(target_dir()) / "release" / "libhyperchunk_cuda_fake.so"


def c_library() -> Path:
    """Builds the library for C that tests load, in the folder of debug builds; returns its path.

    All crates are selected, since cargo compiles dependencies for the features of the selected ones: those that
    `cargo test --workspace` has built are used, and a cold machine saves minutes.
    """
    root = Path(__file__).resolve().parent.parent
    command = ["cargo", "build", "--quiet", "--locked", "--workspace", "--lib"]
    if subprocess.run(command, cwd=root, env=environment(), check=False).returncode != 0:
        fail("`cargo build` of the library for C failed; its messages are above.")
    return Path(target_dir()) / "debug" / "libhyperchunk.so"


def main() -> None:
    """Refreshes the editable install of this checkout."""
    root = Path(__file__).resolve().parent.parent
    for name in place(build(root), root / "python"):
        print(f"hyperchunk: built python/{name}")
    name_interpreter(root / "python", sys.executable)


if __name__ == "__main__":
    main()
