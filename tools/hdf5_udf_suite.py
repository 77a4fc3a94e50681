"""Runs HDF5-UDF's own test script and examples, unmodified, with the `hdf5-udf` command and plugin of this checkout.

    python tools/hdf5_udf_suite.py [FOLDER]

FOLDER is a checkout of HDF5-UDF. Without it, one is cloned; if that fails, it is reported and nothing is run. The
script expects the tested programs in a folder `build`, which is filled with links to ours: of HDF5-UDF, only the
program that makes the inputs is built. Needs `g++`, `pkg-config`, the headers and tools of HDF5, and
`numdiff`. Standard library only."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "hyperchunk"
URL = "https://github.com/lucasvr/hdf5-udf"
CASES = 47
"""Number of checks in the script, at its last commit (a23d14d of 2023-03-19)."""


EXAMPLES = (
    ("example-add_datasets.h5", "example-add_datasets.cpp", "UserDefinedDataset"),
    ("example-add_datasets.h5", "example-add_datasets.lua", "UserDefinedDataset"),
    ("example-add_datasets.h5", "example-add_datasets.py", "UserDefinedDataset"),
    ("example-compound-nostring_simple.h5", "example-compound.cpp", "Temperature:1000:double"),
    ("example-compound-nostring_simple.h5", "example-compound.lua", "Temperature:1000:double"),
    ("example-compound-nostring_simple.h5", "example-compound.py", "Temperature:1000:double"),
    (
        "example-compound.h5",
        "example-output_compound.py",
        "Observations:{id:uint32,location:string,temperature:float}:1000",
    ),
    (
        "example-compound.h5",
        "example-csv_to_compound.py",
        "GreatestAlbums:{id:int32,year:int16,album:string,artist:string,genre:string,subgenre:string}:500",
    ),
    ("example-simple_vector.h5", "example-simple_vector.lua", "Simple:500:float"),
    ("example-sine_wave.h5", "example-sine_wave.lua", "SineWave:100x10:int32"),
    ("example-string.h5", "example-string-output.py", "RollingStone:405:string"),
)
"""The examples, run as their comments say: all but a game, and one that needs a server.

Two comments name a file without a compound, in which HDF5-UDF cannot run them, either: they run with the file of the
third."""


def missing() -> list[str]:
    """Returns the missing programs."""
    programs = ("g++", "pkg-config", "make", "h5dump", "numdiff", "awk", "bash")
    return [program for program in programs if not shutil.which(program)]


def checkout(folder: Path) -> bool:
    """Clones HDF5-UDF."""
    done = subprocess.run(
        ["git", "clone", "-q", "--depth", "1", URL, folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(f"not run: {URL} cannot be cloned here: {done.stderr.strip()}")
    return done.returncode == 0


def build(folder: Path) -> None:
    """Creates the folder that HDF5-UDF's build would create."""
    made = folder / "build"
    made.mkdir(exist_ok=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5"], capture_output=True, text=True, check=True)
    source = folder / "examples" / "createh5.cpp"
    subprocess.run(["g++", "-O1", source, "-o", made / "createh5", *flags.stdout.split()], check=True)
    (made / "hdf5-udf").symlink_to(Path(sys.executable).with_name("hdf5-udf"))
    for plugin in (PACKAGE / "plugins").glob("*.so"):
        (made / plugin.name).symlink_to(plugin)


def clean(home: Path) -> dict[str, str]:
    """Returns an environment without HDF5 plugins, settings and keys."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_", "XDG_"))}
    return kept | {"HOME": str(home)}


def run(folder: Path, home: Path) -> int:
    """Runs the script in a home without a key; returns 0 if all cases passed."""
    script = ["bash", "run_tests.sh"]
    # The script expects the functions' output on standard output.
    env = clean(home) | {"HYPERCHUNK_PRINT": "streams"}
    done = subprocess.run(script, cwd=folder / "test", env=env, capture_output=True, text=True, check=False)
    passed = done.stdout.count("Successful validation")
    if done.returncode != 0 or passed != CASES:
        print("\n".join(done.stdout.splitlines()[-60:]))
        print(done.stderr)
    print(f"HDF5-UDF's test script: {passed} of {CASES}")
    return 0 if done.returncode == 0 and passed == CASES else 1


def run_examples(folder: Path, home: Path) -> int:
    """Attaches and reads each example, in a copy of its file; returns the number of failed ones."""
    profile = home / ".config" / "hyperchunk" / "profiles" / "self"
    profile.mkdir(parents=True, exist_ok=True)
    # HDF5-UDF lets its user's own functions read every file.
    (profile / "profile.toml").write_text(f'version = 1\n[grant]\nread = ["{folder / "examples"}"]\n')
    env = clean(home) | {"HDF5_PLUGIN_PATH": str(folder / "build")}
    failed = 0
    for file, source, output in EXAMPLES:
        made = folder / "examples" / f"copy-{file}"
        shutil.copy(folder / "examples" / file, made)
        words = [str(folder / "build" / "hdf5-udf"), made.name, source]
        # An output without a shape is named and described by the source and the inputs.
        name = output.split(":")[0]
        words += [output] if ":" in output else []
        for command in (words, ["h5dump", "-d", f"/{name}", made.name]):
            done = subprocess.run(
                command, cwd=folder / "examples", env=env, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                print(source, done.stdout[-2000:], done.stderr, sep="\n")
                failed += 1
                break
    print(f"HDF5-UDF's examples: {len(EXAMPLES) - failed} of {len(EXAMPLES)}")
    return failed


def main() -> int:
    """Runs the script and the examples; returns the exit status."""
    if absent := missing():
        print(f"not run: {', '.join(absent)} not found")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch) / "hdf5-udf", Path(scratch) / "home"
        home.mkdir()
        if len(sys.argv) > 1:
            shutil.copytree(sys.argv[1], folder, ignore=shutil.ignore_patterns(".git", "build"))
        elif not checkout(folder):
            return 0
        build(folder)
        failed = run(folder, home)
        return 1 if run_examples(folder, home) or failed else 0


if __name__ == "__main__":
    sys.exit(main())
