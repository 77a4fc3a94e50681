"""Files in memory, in bytes and in Python's file objects."""

import io
import tempfile
from pathlib import Path

import h5py
import numpy as np

stream = io.BytesIO()
with h5py.File(stream, "w") as file:
    file["x"] = np.arange(10)
    file["x"].attrs["a"] = "b"
    print(file.driver, file.mode)
content = stream.getvalue()
print(content[:8], len(content) > 500)
with h5py.File(io.BytesIO(content), "r") as file:
    print(file["x"][:], file["x"].attrs["a"], list(file))
with h5py.File(stream, "a") as file:
    file["y"] = [1.5]
    del file["x"].attrs["a"]
with h5py.File(stream, "r") as file:
    print(list(file), dict(file["x"].attrs))
core = h5py.File("never.h5", "w", driver="core", backing_store=False)
core["z"] = np.ones((3, 3))
core.flush()
image = core.id.get_file_image()
print(core.driver, core["z"][1], image[:8], core.filename)
core.close()
with h5py.File(io.BytesIO(image), "r") as file:
    print(file["z"][:].sum())
with h5py.File.in_memory(image) as file:
    print(list(file), file["z"].shape)
    file["more"] = 1
    print(file.id.get_file_image()[:4])
with h5py.File.in_memory() as file:
    file["q"] = 2
    print(file["q"][()])
with h5py.File("kept.h5", "w", driver="core", backing_store=True, block_size=4096) as file:
    file["k"] = "text"
with h5py.File("kept.h5", "r", driver="core") as file:
    print(file["k"][()], file.driver)
with Path("kept.h5").open("rb") as raw, h5py.File(raw, "r") as file:
    print(file["k"][()], file.driver)
with tempfile.TemporaryFile() as raw:
    with h5py.File(raw, "w") as file:
        file["t"] = [True]
    raw.seek(0)
    with h5py.File(raw, "r") as file:
        print(file["t"][:])
with h5py.File("one.h5", "w", driver="sec2") as file:
    file["s"] = 1
with h5py.File("one.h5", "r", driver="stdio") as file:
    print(file["s"][()], file.driver)
for wrong in (
    lambda: h5py.File("kept.h5", driver="nope"),
    lambda: h5py.File("absent.h5"),
    lambda: h5py.File("kept.h5", "q"),
):
    try:
        wrong()
    except FileNotFoundError:
        print("no such file")
    except ValueError:
        print("no such driver or mode")
print(
    h5py.is_hdf5("kept.h5"), h5py.is_hdf5("absent.h5"), sorted(h5py.registered_drivers() & {"core", "sec2", "fileobj"})
)
