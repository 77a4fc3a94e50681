"""Cloud reads, ours and every rival's, from a real S3 server with 25 ms before each request.

    .venv/bin/python bench/cloud/run.py                                  # everything, all jobs, the tables
    .venv/bin/python bench/cloud/run.py --bandwidth 80                   # each request's body at 80 MB/s at most
    .venv/bin/python bench/cloud/run.py --jobs list,whole --readers 'hyperchunk;h5coro'
    .venv/bin/python bench/cloud/run.py --table                          # the tables of the last measurements

Every measurement runs in a separate process. Readers take turns, round by round. The clock runs from before the file is
opened until the last value has arrived; imports are done before. Answers are compared with h5py's on the local file.
The first run makes the environments, the files and the indexes, in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tools"), str(HERE.parent)]
import environments  # noqa: E402
import s3server  # noqa: E402

CACHE = s3server.cache() / "bench-cloud"
DATA, INDEXES, RESULTS = CACHE / "data", CACHE / "indexes", CACHE / "results.jsonl"
ENVIRONMENTS = {"venv": "requirements.txt", "ros3": "requirements-ros3.txt"}
OURS, LOCAL = "hyperchunk", "h5py, local file"
# A reader slower than the best one by this factor in the first round is dropped.
PATIENCE = 4.0


def python(environment: str) -> str:
    """Returns the interpreter of a rival environment."""
    return str(CACHE / environment / "bin" / "python")


def prepare() -> None:
    """Prepares environments, files and programs."""
    s3server.build_server()
    install()
    subprocess.run([python("venv"), HERE / "make.py", DATA], check=True)


def install() -> None:
    """Makes the rivals' environments; reports those that are not available here."""
    for name, requirements in ENVIRONMENTS.items():
        environments.environment(CACHE / name, HERE / requirements)


def environment(endpoint: str) -> dict[str, str]:
    """Returns the environment of a measuring process."""
    ours = os.environ.get("BENCH_PACKAGE") or str(HERE.parent.parent / "python")
    credentials = {"AWS_ACCESS_KEY_ID": s3server.KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET}
    places = {"BENCH_ENDPOINT": endpoint, "BENCH_DATA": str(DATA), "BENCH_INDEXES": str(INDEXES)}
    places["HYPERCHUNK_INDEX_CACHE"] = str(CACHE / "no indexes")  # readers with an index name it explicitly
    more = {"PYTHONPATH": ours, "AWS_DEFAULT_REGION": s3server.REGION, "OMP_NUM_THREADS": "2"}
    return os.environ | credentials | places | more


def measure(reader: str, job: str, where: str, endpoint: str, timeout: float) -> dict[str, Any]:
    """Does one measurement."""
    command = [python(where), str(HERE / "jobs.py"), reader, job]
    try:
        done = subprocess.run(command, env=environment(endpoint), capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    if lines:
        found: dict[str, Any] = json.loads(lines[-1][2:])
        return found
    return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}


def readers() -> dict[str, dict[str, Any]]:
    """Returns every reader available here, with its properties; reports the others."""
    known = "{n: [c.python, c.index, c.modules] for n, c in r.READERS.items()}"
    code = f"import json, readers as r; print(json.dumps({known}))"
    done = subprocess.run([python("venv"), "-c", code], cwd=HERE, check=True, capture_output=True, text=True)
    found = {}
    for name, (where, index, modules) in json.loads(done.stdout).items():
        why = environments.lacking(python(where), modules, environment(""))
        if why is None:
            found[name] = {"python": where, "index": index}
        else:
            print(f"bench: left out: {name}: {why}", file=sys.stderr)
    return found


def make_indexes() -> None:
    """Makes the rivals' indexes and our sidecars."""
    INDEXES.mkdir(exist_ok=True)
    code = "import sys, pathlib, readers as r; getattr(r, sys.argv[1]).make_index(pathlib.Path(sys.argv[2]))"
    for path in sorted(DATA.glob("*.h5")):
        for kind, suffix in (("Kerchunk", "kerchunk.json"), ("H5coroHidefix", "hfx")):
            if not (INDEXES / f"{path.name}.{suffix}").exists():
                command = [python("venv"), "-c", code, kind, str(path)]
                done = subprocess.run(command, cwd=HERE, env=environment(""), capture_output=True, text=True)
                if done.returncode:
                    print(f"bench: no {suffix} of {path.name}: {done.stderr.splitlines()[-1][:150]}", file=sys.stderr)


def make_sidecars(endpoint: str, names: list[str]) -> None:
    """Makes our own indexes from the objects, since they are valid for one version of an object."""
    code = "import sys; from hyperchunk._command import main; sys.exit(main())"
    options = ["--endpoint", endpoint, "--option", "allow_http=true"]
    for name in names:
        to = ["-o", str(INDEXES / f"{name}.hcindex")]
        command = [python("venv"), "-c", code, "index", f"s3://bench/{name}", *to, *options]
        done = subprocess.run(command, env=environment(endpoint), capture_output=True, text=True)
        if done.returncode:
            print(f"bench: no sidecar of {name}: {done.stderr.strip()[:200]}", file=sys.stderr)


def run(arguments: argparse.Namespace) -> None:
    """Runs all rounds."""
    known = readers()
    for name in filter(None, (arguments.readers or "").split(";")):
        if name not in known:
            print(f"bench: no reader {name!r} here; there are {'; '.join(known)}", file=sys.stderr)
    wanted = [
        name for name in known if name != LOCAL and (not arguments.readers or name in arguments.readers.split(";"))
    ]
    make_indexes()
    right: dict[str, str] = {}
    worst: dict[tuple[str, str], float] = {}
    with (
        s3server.Server(CACHE / "s3") as server,
        s3server.Proxy(
            server.address, server.folder, latency=arguments.latency, bandwidth=arguments.bandwidth
        ) as proxy,
        RESULTS.open("a") as results,
    ):
        for path in DATA.glob("*.h5"):
            server.put("bench", path.name, path)
        make_sidecars(server.endpoint, [path.name for path in DATA.glob("*.h5")])
        for number in range(arguments.rounds):
            for job in arguments.jobs:
                if job not in right:
                    local = measure(LOCAL, job, "venv", "", 300)
                    right[job] = local.get("answer", "")
                for reader in wanted if number % 2 else reversed(wanted):
                    if number and worst.get((job, reader), 0) > PATIENCE:
                        continue
                    if job.endswith("list") and known[reader]["index"] and not reader.startswith(OURS):
                        continue  # indexes of the rivals have no attributes
                    proxy.reset()
                    found = measure(reader, job, known[reader]["python"], proxy.endpoint, arguments.timeout)
                    found |= {
                        "reader": reader,
                        "job": job,
                        "index": known[reader]["index"],
                        "bandwidth": arguments.bandwidth,
                        "latency": arguments.latency,
                        "run": arguments.run,
                        "right": found.get("answer") == right[job],
                        "http": proxy.stats(),
                        "load": os.getloadavg()[0],
                    }
                    results.write(json.dumps(found) + "\n")
                    results.flush()
                    print(line(found), flush=True)
                    worst[job, reader] = found.get("seconds", 9e9)
                best = min(
                    (t for (j, r), t in worst.items() if j == job and r != OURS and not known[r]["index"]), default=1.0
                )
                if not number:
                    for key in [key for key in worst if key[0] == job]:
                        worst[key] = 0 if key[1].startswith(OURS) else worst[key] / best


def line(found: dict[str, Any]) -> str:
    """Formats a measurement for progress output."""
    http = found["http"]
    counts = f"{http['requests']:5} requests {http['bytes'] / 1e6:8.1f} MB, {http['chain']:4} in sequence"
    told = found.get("error") or f"{found['seconds']:.3f} s{'' if found['right'] else ' WRONG'}"
    return f"{found['job']:18} {found['reader']:28} {counts} {told}"


def tables(arguments: argparse.Namespace) -> None:
    """Prints the last run's results as Markdown, a table for each job."""
    found = [json.loads(text) for text in RESULTS.read_text().splitlines()]
    name = arguments.run if arguments.run in {entry["run"] for entry in found} else found[-1]["run"]
    found = [entry for entry in found if entry["run"] == name]
    by_job: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for entry in found:
        by_job[entry["job"]][entry["reader"]].append(entry)
    print(summary(by_job))
    for job, by_reader in by_job.items():
        print(table(job, by_reader), flush=True)


def median(entries: list[dict[str, Any]], of: str) -> float:
    return statistics.median(entry[of] for entry in entries)


def table(job: str, by_reader: dict[str, list[dict[str, Any]]]) -> str:
    """Formats one job's table: correct cold readers by time, then readers with an index, then the others."""
    fine, other = {}, []
    for reader, entries in by_reader.items():
        done = [entry for entry in entries if "seconds" in entry]
        if done and all(entry["right"] for entry in done):
            fine[reader] = done
        else:
            why = f"**wrong values**, after {median(done, 'seconds'):.2f} s" if done else entries[-1]["error"]
            other.append(f"| {reader} | | | {why} | | | | |")
    rivals = [
        median(entries, "seconds")
        for reader, entries in fine.items()
        if not entries[0]["index"] and not reader.startswith(OURS)
    ]
    best = min(rivals, default=float("nan"))
    rows = []
    for reader, entries in sorted(fine.items(), key=lambda item: (item[1][0]["index"], median(item[1], "seconds"))):
        seconds, last = median(entries, "seconds"), entries[-1]
        http = last["http"]
        label = f"**{reader}**" if reader.startswith(OURS) else reader
        label += " †" if last["index"] else ""
        cells = [label, f"{seconds:.3f}", f"{seconds / best:.2f}", http["requests"], f"{http['bytes'] / 1e6:.1f}"]
        cells += [http["chain"], http["max_in_flight"], len(entries)]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    top = f"\n**{job}** ({file_name(job)})\n\n| reader | s | ratio | requests | MB | in sequence | at once | n |\n"
    return top + "|---|---|---|---|---|---|---|---|\n" + "\n".join([*rows, *other])


# Megabytes needed by a job: stored chunks, or the bytes of contiguous rows.
NEEDED = {"whole": 4.8, "range": 0.064, "thirty": 116.3, "slices": 11.6, "contig": 10.7}


def summary(by_job: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Compares ours with the best rival that needs no index, and with a sidecar."""
    top = "| job | ours, s | best cold rival | ratio | requests | MB (needed) | rounds / in sequence | sidecar |\n"
    rows = []
    for job, by_reader in by_job.items():
        if OURS not in by_reader:
            continue
        ours = [entry for entry in by_reader[OURS] if entry.get("right")]
        fine = {
            reader: median([entry for entry in entries if "seconds" in entry], "seconds")
            for reader, entries in by_reader.items()
            if not entries[0]["index"] and not reader.startswith(OURS) and all(entry["right"] for entry in entries)
        }
        if not ours or not fine:
            continue
        rival = min(fine, key=lambda reader: fine[reader])
        http, seconds = ours[-1]["http"], median(ours, "seconds")
        needed = NEEDED.get(job.rpartition(":")[2])
        cells = [job, f"{seconds:.3f}", f"{fine[rival]:.3f} ({rival})", f"**{seconds / fine[rival]:.2f}**"]
        cells += [str(http["requests"]), f"{http['bytes'] / 1e6:.1f}" + (f" ({needed})" if needed else "")]
        cells += [f"{ours[-1]['own'].get('rounds', '')} / {http['chain']}"]
        beside = [entry for entry in by_reader.get(f"{OURS}, sidecar", []) if entry.get("right")]
        told = f"{median(beside, 'seconds'):.3f} s, {beside[-1]['http']['chain']} in sequence" if beside else ""
        rows.append(f"| {' | '.join([*cells, told])} |")
    return top + "|---|---|---|---|---|---|---|---|\n" + "\n".join(rows)


def file_name(job: str) -> str:
    layout, _, kind = job.rpartition(":")
    return {"slices": "cube", "contig": "contig"}.get(kind, f"granule, {layout}" if layout else "granule")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=lambda text: text.split(","))
    parser.add_argument("--readers", help="separated by semicolons")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", default="25ms")
    parser.add_argument("--bandwidth", type=float, default=0, help="MB/s of each request; 0 for no bound")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--run", default=time.strftime("%Y-%m-%d %H:%M"), help="a name for these measurements")
    parser.add_argument("--list", action="store_true", help="only say which readers can be had here, and which cannot")
    parser.add_argument("--table", action="store_true", help="only print the tables of what was measured before")
    arguments = parser.parse_args()
    if arguments.list:
        install()
        print("\n".join(readers()))
        return
    if not arguments.table:
        prepare()
        if arguments.jobs is None:
            code = "import json, jobs; print(json.dumps(jobs.NAMES))"
            done = subprocess.run([python("venv"), "-c", code], cwd=HERE, check=True, capture_output=True, text=True)
            arguments.jobs = json.loads(done.stdout)
        run(arguments)
    tables(arguments)


if __name__ == "__main__":
    main()
