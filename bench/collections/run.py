"""Many granules as one dataset: ours and the rivals', from a real S3 server with 25 ms before each request.

    .venv/bin/python bench/collections/run.py                 # 1,000 granules; the rivals on 50 of them
    .venv/bin/python bench/collections/run.py --files 200
    .venv/bin/python bench/collections/run.py --repeat 10 --rival-files 0   # 10,000 files: each granule ten times

Each granule is a netCDF-4 file of 40 variables. Jobs: to make the collection (structure and coordinates), to open it
afterwards from the store, the time series of one point (of ours: after the opening, which is a job of its own). Imports
are not measured. The rivals are measured on fewer files, and their time a file is compared.
Values of the time series are compared with those that were written.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tools"), str(HERE.parent)]
import environments  # noqa: E402
import s3server  # noqa: E402

VARIABLES = 40
LATENCY_MS = 25
# Our collection in the store.
OURS = "s3://tests/all.hcx"
RIVALS = ("VirtualiZarr", "kerchunk", "h5netcdf + s3fs")


def make(folder: Path, count: int) -> None:
    """Writes the granules: one step in time each, 40 variables of 90 by 180 in 4 chunks."""
    import netCDF4
    import numpy as np

    numbers = np.random.default_rng(0)
    field = numbers.normal(280, 9, (90, 180)).astype("f4").round(1)
    for number in range(count):
        with netCDF4.Dataset(folder / f"g{number:05}.nc", "w") as file:
            for name, size in (("time", None), ("lat", 90), ("lon", 180)):
                file.createDimension(name, size)
            stamp = file.createVariable("time", "f8", ("time",))
            stamp.units = "hours since 2020-01-01"
            stamp[:] = [number]
            for name, size in (("lat", 90), ("lon", 180)):
                file.createVariable(name, "f8", (name,))[:] = np.linspace(-90, 90, size)
            for variable in range(VARIABLES):
                made = file.createVariable(
                    f"v{variable:02}", "f4", ("time", "lat", "lon"), zlib=True, complevel=1, chunksizes=(1, 45, 90)
                )
                made.units = "K"
                made.long_name = f"variable {variable}"
                made[0] = field + number


def ours(job: str, urls: list[str], options: dict[str, Any], saved: Path) -> Callable[[], Any]:
    """Prepares one job with Hyperchunk; returns the function to measure."""
    import hyperchunk

    hyperchunk.open_collection  # noqa: B018

    def make() -> None:
        hyperchunk.open_collection(urls, storage_options=options).save(saved, overwrite=True)

    if job == "make":
        return make
    import hyperchunk.xarray_collection
    import xarray

    import_arrays()
    xarray.backends.list_engines()

    def opened() -> Any:
        return xarray.open_dataset(OURS, engine="hyperchunk", storage_options=options)

    if job == "open":
        return lambda: opened().sizes["time"]
    dataset = opened()
    return lambda: dataset["v07"][:, 40, 70].values.tolist()


def import_arrays() -> None:
    """Imports what xarray imports at its first variable: Dask, if it is installed."""
    from xarray.namedarray.pycompat import array_type

    for package in ("dask", "pint", "cupy", "sparse"):
        array_type(package)


def import_rival(name: str) -> None:
    """Imports what a rival's job needs."""
    packages = {
        "VirtualiZarr": ("obstore", "obspec_utils.registry", "virtualizarr", "virtualizarr.parsers", "xarray"),
        "kerchunk": ("s3fs", "kerchunk.combine", "kerchunk.hdf"),
        "h5netcdf + s3fs": ("s3fs", "h5netcdf", "xarray"),
    }
    for package in packages[name]:
        importlib.import_module(package)
    if "xarray" in packages[name]:
        import_arrays()


def rival(name: str, job: str, urls: list[str], options: dict[str, Any]) -> Any:
    """One job with a rival: everything from the granules."""
    import warnings

    import xarray

    warnings.simplefilter("ignore")
    endpoint = str(options["endpoint"])
    if name == "VirtualiZarr":
        from concurrent.futures import ThreadPoolExecutor

        import obstore
        from obspec_utils.registry import ObjectStoreRegistry
        from virtualizarr import open_virtual_mfdataset
        from virtualizarr.parsers import HDFParser

        bucket = "s3://tests"
        store = obstore.store.from_url(
            bucket,
            endpoint=endpoint,
            access_key_id=options["key"],
            secret_access_key=options["secret"],
            region=options.get("region", s3server.REGION),
            client_options={"allow_http": True},
            virtual_hosted_style_request=False,
        )
        registry = ObjectStoreRegistry({bucket: store})
        found = open_virtual_mfdataset(
            urls,
            registry=registry,
            parser=HDFParser(),
            parallel=ThreadPoolExecutor,
            combine="nested",
            concat_dim="time",
            data_vars="minimal",
            coords="minimal",
            compat="override",
            join="override",
        )
        return found.sizes["time"]
    import s3fs

    files = s3fs.S3FileSystem(
        key=options["key"], secret=options["secret"], endpoint_url=endpoint, client_kwargs={"region_name": "us-east-1"}
    )
    if name == "kerchunk":
        from kerchunk.combine import MultiZarrToZarr
        from kerchunk.hdf import SingleHdf5ToZarr

        references = [SingleHdf5ToZarr(files.open(url), url, inline_threshold=300).translate() for url in urls]
        joined = MultiZarrToZarr(
            references,
            remote_protocol="s3",
            remote_options={"key": options["key"], "secret": options["secret"], "endpoint_url": endpoint},
            concat_dims=["time"],
            identical_dims=["lat", "lon"],
        ).translate()
        return len(joined["refs"])
    opened = xarray.open_mfdataset(
        [files.open(url) for url in urls],
        engine="h5netcdf",
        combine="nested",
        concat_dim="time",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        join="override",
    )
    return opened["v07"][:, 40, 70].values.tolist() if job == "series" else opened.sizes["time"]


def child(arguments: argparse.Namespace) -> None:
    """Does one job, and prints its figures."""
    options = json.loads(os.environ["BENCH_OPTIONS"])
    granules = range(arguments.files // arguments.repeat)
    urls = [f"s3://tests/granules/g{number:05}.nc" for number in granules] * arguments.repeat
    if arguments.child == "ours":
        job = ours(arguments.job, urls, options, Path(os.environ["BENCH_SAVED"]))
    else:
        import_rival(arguments.child)
        job = partial(rival, arguments.child, arguments.job, urls, options)
    started, cpu = time.perf_counter(), time.process_time()
    answer = job()
    figures = {
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "answer": answer,
    }
    print("@@" + json.dumps(figures))


def measure(
    python: str, who: str, job: str, files: int, environment: dict[str, str], repeat: int = 1
) -> dict[str, Any]:
    """Does one job in a process of its own."""
    command = [python, str(Path(__file__).resolve()), "--child", who, "--job", job, "--files", str(files)]
    command += ["--repeat", str(repeat)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    if not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    found: dict[str, Any] = json.loads(lines[-1][2:])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000, help="number of granules")
    parser.add_argument("--rival-files", type=int, default=50, help="number of granules for the rivals; 0 for none")
    parser.add_argument("--repeat", type=int, default=1, help="number of times that each granule is in our collection")
    parser.add_argument("--python", help="interpreter with the rivals; without it, an environment is made")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    rivals = arguments.python
    if rivals is None and arguments.rival_files:
        folder = s3server.cache() / "bench-collections"
        environments.environment(folder, HERE / "requirements.txt")
        rivals = str(folder / "bin" / "python")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "granules").mkdir()
        make(folder / "granules", arguments.files)
        with (
            s3server.Server(folder / "buckets") as server,
            s3server.Proxy(server.address, server.folder) as proxy,
        ):
            for path in sorted((folder / "granules").iterdir()):
                server.put("tests", f"granules/{path.name}", path)
            proxy.set(latency=f"{LATENCY_MS}ms")
            environment = os.environ | {
                "BENCH_OPTIONS": json.dumps(s3server.storage_options(proxy.endpoint)),
                "BENCH_SAVED": str(folder / "all.hcx"),
                "AWS_DEFAULT_REGION": s3server.REGION,
            }
            print("| who | job | files | wall s | files/s | CPU ms/file | peak MiB | requests/file | MiB/file |")
            print("|---" * 9 + "|")
            for who, python, files, jobs in (
                ("ours", sys.executable, arguments.files * arguments.repeat, ("make", "open", "series")),
                *((name, rivals, min(arguments.rival_files, arguments.files), ("make",)) for name in RIVALS),
                ("h5netcdf + s3fs", rivals, min(arguments.rival_files, arguments.files), ("series",)),
            ):
                for job in jobs if files else ():
                    if job == "open":
                        server.put("tests", "all.hcx", folder / "all.hcx")
                    proxy.reset()
                    repeat = arguments.repeat if who == "ours" else 1
                    found = measure(python, who, job, files, environment, repeat)
                    stats = proxy.stats()
                    if "error" in found:
                        print(f"| {who} | {job} | {files} | {found['error']} |", flush=True)
                        continue
                    if job == "series":
                        steps = [value - found["answer"][0] for value in found["answer"]]
                        numbers = list(range(files // repeat)) * repeat
                        same = [abs(step - number) < 0.1 for step, number in zip(steps, numbers, strict=True)]
                        assert all(same), "wrong values"
                    print(
                        f"| {who} | {job} | {files} | {found['wall_s']:.2f} | {files / found['wall_s']:.0f} "
                        f"| {found['cpu_s'] / files * 1000:.2f} | {found['rss_mib']:.0f} "
                        f"| {stats['requests'] / files:.2f} | {stats['bytes'] / files / 2**20:.3f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
