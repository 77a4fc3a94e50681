"""Fetches releases of libhdf5 from published wheels, for tests in which each session of a store uses another one.

Usage: hdf5_releases.py FOLDER. Creates FOLDER/VERSION/ with libhdf5 and the libraries that it needs.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The wheel that contains each release.
WHEELS = {
    "1.12.2": "h5py==3.8.0",
    "1.14.2": "h5py==3.10.0",
    "1.14.3": "tables==3.10.2",
    "1.14.4": "h5py==3.12.1",
    "1.14.6": "h5py==3.14.0",
    "2.0.0": "h5py==3.16.0",
}


def fetch(package: str, folder: Path) -> None:
    """Unpacks the libraries of a wheel, flat, into a new folder."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        words = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", "3.11"]
        subprocess.run([sys.executable, *words, "--dest", temporary, package], check=True)
        (wheel,) = Path(temporary).glob("*.whl")
        unpacked = Path(temporary) / "libraries"
        unpacked.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if Path(name).parent.name.endswith(".libs"):
                    (unpacked / Path(name).name).write_bytes(archive.read(name))
        if not any(unpacked.glob("libhdf5[-.]*")):
            raise SystemExit(f"cannot fetch libhdf5: expected it in the wheel of {package}, got none")
        unpacked.rename(folder)


def main() -> None:
    """Fetches all missing releases."""
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    for version, package in WHEELS.items():
        if not (root / version).is_dir():
            fetch(package, root / version)


if __name__ == "__main__":
    main()
