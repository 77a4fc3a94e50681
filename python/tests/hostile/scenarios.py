"""Complete situations, each in a separate process with its own configuration folder; runs in the jail. Prints JSON.

Arguments: `run`, the scenario and its folder, for a single one; otherwise substrings of the names to run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import cases, jail, lanes, places, records
from hostile import readers as readers  # adds its scenarios
from hostile.records import Slot, make, sign, store
from hostile.scene import SCENARIOS, is_alive, read, refused, scenario, simple, workers_of, write

SLEEP = "import time\ndef dynamic_dataset():\n    time.sleep(1000)\n"
CPP = 'extern "C" void dynamic_dataset() { lib.getData<double>("out")[0] = 7; }\n'
PLANTED = """#include <fcntl.h>
__attribute__((constructor)) static void planted() { open("%s", O_CREAT | O_WRONLY, 0600); }
int planted_symbol() { return 1; }
"""


def config() -> Path:
    """Returns this process's configuration folder."""
    return Path(os.environ["XDG_CONFIG_HOME"]) / "hyperchunk"


def command(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs the `hyperchunk` command."""
    words = [*places.COMMAND, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


def build(folder: Path, name: str, text: str, *options: str) -> Path:
    """Compiles a shared object from C++."""
    source, result = folder / f"{name}.cpp", folder / f"lib{name}.so"
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", result, source, *options], check=True, cwd=folder)
    return result


# Keys and profiles.


@scenario
def private_key_is_private(folder: Path) -> None:
    """Reference: the private key has mode 0644. Here 0600, from its first byte, and no other file is signed with."""
    key = config() / "keys" / "self.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    fresh = folder / "fresh"
    assert command("key", "new", env=dict(os.environ) | {"XDG_CONFIG_HOME": str(fresh)}).returncode == 0
    made = fresh / "hyperchunk" / "keys"
    assert stat.S_IMODE((made / "self.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert "exist" in command("key", "new").stderr or "already" in command("key", "new").stderr
    source = folder / "one.lua"
    source.write_text('function dynamic_dataset() lib.getData("out")[1] = 1 end')
    with h5py.File(folder / "x.h5", "w"):
        pass

    def attach_fails(why: str) -> None:
        done = command("udf", "attach", "--overwrite", folder / "x.h5", source, "out:1:double")
        assert done.returncode != 0
        assert why in done.stderr, done.stderr

    for mode in (0o640, 0o604, 0o644, 0o660, 0o666):
        key.chmod(mode)
        attach_fails("chmod 600")
    key.chmod(0o600)
    key.parent.chmod(0o777)
    attach_fails("chmod go-w")
    key.parent.chmod(0o700)
    key.rename(key.with_name("elsewhere"))
    key.symlink_to("elsewhere")
    attach_fails("symbolic link")
    key.unlink()
    os.mkfifo(key, 0o600)
    attach_fails("regular file")
    key.unlink()
    (key.with_name("elsewhere")).rename(key)
    assert command("udf", "attach", folder / "x.h5", source, "out:1:double").returncode == 0


def spoil(path: Path, how: str) -> None:
    """Makes a file or folder untrustworthy."""
    if how == "symlink":
        path.rename(path.with_name("moved"))
        path.symlink_to("moved")
    elif how == "fifo":
        path.unlink()
        os.mkfifo(path, 0o600)
    elif how == "huge":
        path.write_text("x" * 200_000)
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "other key":
        path.write_text(places.STRANGER.text())
    elif how == "noise":
        path.write_bytes(bytes(range(256)))
    else:
        path.chmod(int(how, 8))


KEY_FAULTS = ("0664", "0646", "0666", "symlink", "fifo", "huge", "folder", "other key", "noise")


@scenario
def spoiled_key_of_a_profile(folder: Path) -> None:
    """Reference: key files are trusted unchecked. Here a file that others could have written is not used."""
    trusted = write(folder, sign(simple(), places.TRUSTED))
    key = config() / "profiles" / "default" / "keys" / f"{places.TRUSTED.stem}.pub"
    assert read(trusted) == [7]
    for how in KEY_FAULTS:
        saved = folder / "saved"
        shutil.copytree(config(), saved)
        spoil(key, how)
        refused(trusted, r"\.pub|key")
        shutil.rmtree(config())
        shutil.copytree(saved, config())
        shutil.rmtree(saved)
    assert read(trusted) == [7]
    # The user's own public key matters, too.
    own = config() / "keys" / "self.pub"
    mine = write(folder, sign(simple(), places.own_key()), "mine.h5")
    assert read(mine) == [7]
    own.chmod(0o666)
    refused(mine, "self.pub")


@scenario
def spoiled_profile(folder: Path) -> None:
    """If others could have written the limits, or they cannot be parsed, nothing runs."""
    path = write(folder, simple())
    toml = config() / "profiles" / "untrusted" / "profile.toml"
    good = toml.read_text()
    for how in ("0664", "0646", "symlink", "fifo", "huge", "folder", "noise"):
        spoil(toml, how)
        refused(path, r"profile\.toml|moved|UTF-8")
        for left in (toml, toml.with_name("moved")):
            with contextlib.suppress(FileNotFoundError):
                left.rmdir() if left.is_dir() else left.unlink()
        toml.write_text(good)
        toml.chmod(0o644)
    for text in (
        "version = 9",
        "version = 1\nsandbox = false",
        "version = 1\n[limits]\nwall_s = 0",
        "[",
        "version = 1\n" * 2,
    ):
        toml.write_text(text)
        refused(path, "profile")
    toml.write_text(good)
    assert read(path) == [7]


def folder_is_refused(folder: Path, which: str, how: str) -> None:
    """Checks that a trusted function does not run from below a spoiled folder."""
    trusted = write(folder, sign(simple(), places.TRUSTED))
    assert read(trusted) == [7]
    spoil(config() / which, how)
    refused(trusted, r"chmod|folder|symbolic")


@scenario
def open_keys_folder(folder: Path) -> None:
    """A folder of keys that is writable by others is refused."""
    folder_is_refused(folder, "profiles/default/keys", "0777")


@scenario
def open_profile_folder(folder: Path) -> None:
    """A profile's folder that is writable by others is refused: they could rename another's keys into it."""
    folder_is_refused(folder, "profiles/default", "0777")


@scenario
def open_profiles_folder(folder: Path) -> None:
    """The profiles' folder, writable by others, is refused: they could rename `untrusted` to `default`."""
    folder_is_refused(folder, "profiles", "0777")


@scenario
def open_config_folder(folder: Path) -> None:
    """The configuration folder itself, writable by others, is refused."""
    folder_is_refused(folder, "", "0777")


@scenario
def symlinked_keys_folder(folder: Path) -> None:
    """A profile's folder of keys that is a symbolic link is refused."""
    folder_is_refused(folder, "profiles/default/keys", "symlink")


@scenario
def key_in_two_profiles(folder: Path) -> None:
    """The lowest of two profiles wins."""
    path = write(folder, sign(make(CPP, "cpp", Slot("out")), places.TRUSTED))
    listed = config() / "profiles" / "untrusted" / "keys" / f"{places.TRUSTED.stem}.pub"
    listed.write_text(places.TRUSTED.text())
    refused(path, r"does not run c\+\+")
    assert "untrusted" in command("udf", "ls", path).stdout


@scenario
def distrust_that_cannot_be_read(folder: Path) -> None:
    """A key listed in `untrusted` stays there, even if that list cannot be read."""
    path = write(folder, sign(make(CPP, "cpp", Slot("out")), places.TRUSTED))
    listed = config() / "profiles" / "untrusted" / "keys" / f"{places.TRUSTED.stem}.pub"
    listed.write_text(places.TRUSTED.text())
    listed.parent.chmod(0)
    try:
        refused(path, r"untrusted")
    finally:
        listed.parent.chmod(0o755)


@scenario
def message_for_a_stranger(folder: Path) -> None:
    """Reference: the stranger's key was imported. Here the message names its fingerprint, and nothing is imported."""
    before = places.digest(config())
    path = write(folder, sign(make(CPP, "cpp", Slot("out")), places.STRANGER))
    refused(path, rf"SHA256:{places.STRANGER.stem}.*does not run c\+\+")
    for arguments in (["ls", path], ["verify", path], ["show", f"{path}:/out"]):
        done = command("udf", *arguments)
        assert "\x1b" not in done.stdout + done.stderr
    assert places.digest(config()) == before


@scenario
def command_escapes(folder: Path) -> None:
    """The command escapes names, labels, sources and errors that would control a terminal."""
    evil = "\x1b]52;c;aGk=\x07\x1b[31m\u202e\r\x9b2J"
    key = records.Key(places.STRANGER.seed, evil, evil)
    inputs = [Slot(evil + "in", "double", (4,))]
    path = folder / "evil.h5"
    with h5py.File(path, "w") as file:
        store(file, sign(make(f"-- {evil}\n", "lua", Slot(evil), inputs, created=evil), key))
        store(file, make(f"-- {evil}", "lua", Slot("broken"), more={evil: evil}))
    for arguments in (["ls", path], ["verify", path], ["show", f"{path}:/{evil}"], ["show", f"{path}:/broken"]):
        done = command("udf", *arguments)
        text = done.stdout + done.stderr
        assert text
        assert not any(c in text for c in "\x1b\x07\u202e\r\x9b"), repr(text)
    source = command("udf", "show", "--source", f"{path}:/{evil}").stdout
    assert source
    assert "\x1b" not in source


# The environment of the reader.


def copied_package(folder: Path) -> Path:
    """Copies the package, so that it can be spoiled."""
    target = folder / "site" / "hyperchunk"
    shutil.copytree(Path(hyperchunk.__file__).parent, target)
    (target / "plugins" / "worker-python").write_text(sys.executable + "\n")
    return target


READ_WITH = """
import sys
sys.path.insert(0, sys.argv[1])
import hyperchunk
assert hyperchunk.__file__.startswith(sys.argv[1]), hyperchunk.__file__
hyperchunk.plugins.enable()
import h5py
try:
    print("value", h5py.File(sys.argv[2])["out"][...].tolist())
except OSError as error:
    print(error)
"""


def read_with(package: Path, path: Path) -> str:
    """Reads with a copy of the package."""
    words = [sys.executable, "-I", "-c", READ_WITH, package.parent, path]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def worker_is_refused(folder: Path, which: str, mode: int) -> None:
    """Checks that a worker which another user could have replaced is not started."""
    package = copied_package(folder)
    path = write(folder, simple())
    assert "value [7.0]" in read_with(package, path)
    (package / which).chmod(mode)
    text = read_with(package, path)
    assert re.search("replaced by another user|others can replace", text), text
    assert "chmod" in text or "owner" in text


@scenario
def worker_for_all_to_write(folder: Path) -> None:
    """A world-writable worker is refused."""
    worker_is_refused(folder, "libexec/hyperchunk-udf-worker", 0o777)


@scenario
def worker_in_an_open_folder(folder: Path) -> None:
    """A worker in a world-writable folder is refused."""
    worker_is_refused(folder, "libexec", 0o777)


@scenario
def worker_missing(folder: Path) -> None:
    """Without a worker the read fails with advice."""
    package = copied_package(folder)
    path = write(folder, simple())
    (package / "libexec" / "hyperchunk-udf-worker").unlink()
    assert "reinstall" in read_with(package, path)


@scenario
def planted_libraries(folder: Path) -> None:
    """LD_PRELOAD, LD_AUDIT and LD_LIBRARY_PATH of the reader reach no worker; nor does an object's DT_NEEDED."""
    mark = folder / "planted"
    library = build(folder, "planted", PLANTED % mark)
    ctypes.CDLL(str(library))
    assert mark.exists(), "the control failed"
    mark.unlink()
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        os.environ[name] = str(library)
    os.environ["LD_LIBRARY_PATH"] = str(folder)
    assert read(write(folder, simple("lua"))) == [7]
    assert read(write(folder, simple("py"), "py.h5")) == [7]
    assert not mark.exists()
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        del os.environ[name]
    run = 'extern "C" int hyperchunk_run(void *, char *, unsigned long)'
    text = f"int planted_symbol(); {run} {{ return planted_symbol() - 1; }}"
    wants = build(folder, "wants", text, f"-L{folder}", "-lplanted", f"-Wl,-rpath,{folder}")
    header = make("x", "cpp", Slot("out"), compiled=wants.read_bytes())
    refused(write(folder, sign(header, places.own_key()), "wants.h5"), r"cannot load native code.*libplanted|tried")
    assert not mark.exists()


RESOLVER = """
static int run(void *, char *, unsigned long) { return 0; }
extern "C" void *resolver() {
    long result = 85; // creat
    asm volatile("syscall" : "+a"(result) : "D"("%s"), "S"(0600) : "rcx", "r11", "memory");
    return (void *)run;
}
extern "C" int hyperchunk_run(void *, char *, unsigned long) __attribute__((ifunc("resolver")));
"""


@scenario
def odd_objects(folder: Path) -> None:
    """The resolver of an indirect function runs in the sandbox, too; an executable stack does not escape it."""
    mark = folder / "made"
    resolver = build(folder, "resolver", RESOLVER % mark)
    assert ctypes.CDLL(str(resolver)).hyperchunk_run(None, None, 0) == 0
    assert mark.exists(), "the control failed"
    mark.unlink()
    entry = 'extern "C" int hyperchunk_run(void *, char *, unsigned long)'
    creat = 'long result = 85; asm volatile("syscall" : "+a"(result) : "D"("%s"), "S"(0600) : "rcx", "r11", "memory");'
    stack = build(folder, "stack", f"{entry} {{ {creat % mark} return 0; }}", "-Wl,-z,execstack")
    for library in (resolver, stack):
        header = make("x", "cpp", Slot("out"), compiled=library.read_bytes())
        path = write(folder, sign(header, places.own_key()), f"{library.stem}.h5")
        # Loading may refuse the object or the call, or the kernel the file; the point is that the mark does not
        # exist.
        with contextlib.suppress(OSError):
            read(path)
        assert not mark.exists(), library.stem


@scenario
def environment_of_the_reader(folder: Path) -> None:
    """HYPERCHUNK_PYTHON is the user's own choice, but a program that others could have written is refused."""
    path = write(folder, simple("py"))
    fake = folder / "python"
    fake.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    fake.chmod(0o777)
    os.environ["HYPERCHUNK_PYTHON"] = str(fake)
    refused(path, "replaced by another user")
    assert not (folder / "ran").exists()
    os.environ["HYPERCHUNK_PYTHON"] = "python"
    assert read(path) == [7]


@scenario
def compiler_sees_no_secret(folder: Path) -> None:
    """If the compiler is made to read a file, the contents reach neither the object nor the messages."""
    secret = places.HOME / "secret.txt"
    sources = {
        "include": f'#include "{secret}"\n{CPP}',
        "angle": f"#include <{secret}>\n{CPP}",
        "incbin": f'asm(".incbin \\"{secret}\\"");\n{CPP}',
        "has_include": f'#if __has_include("{secret}")\n#error seen\n#endif\n#error none',
        "proc": f'#include "/proc/self/environ"\n{CPP}',
    }
    with h5py.File(folder / "x.h5", "w"):
        pass
    for name, text in sources.items():
        source = folder / f"{name}.cpp"
        source.write_text(text)
        done = command("udf", "attach", folder / "x.h5", source, "out:1:double")
        assert done.returncode != 0, name
        assert "canary" not in done.stdout + done.stderr, name
        assert places.CANARY.encode() not in (folder / "x.h5").read_bytes()


# Robustness of the reader.


@scenario
def numpy_twice(folder: Path) -> None:
    """Reference: the second NumPy function of a process fails ("cannot load module more than once per process")."""
    for n in range(3):
        source = (
            f'import numpy as np\ndef dynamic_dataset():\n    np.asarray(lib.getData("out"))[:] = np.full(4, {n}.0)\n'
        )
        path = write(folder, make(source, "py", Slot("out")), f"{n}.h5")
        for _ in range(2):
            assert read(path) == [n] * 4


PRINTER = """
import sys, hyperchunk
hyperchunk.plugins.enable()
import h5py
sys.stdout.write("reader before\\n")
print("value", h5py.File(sys.argv[1])["out"][...].tolist())
"""


@scenario
def printed_once(folder: Path) -> None:
    """Reference: buffered output of the reader is printed twice if its output is a pipe (fork, then fflush)."""
    prints = {
        "lua": 'function dynamic_dataset() print("function speaks") lib.getData("out")[1] = 7 end',
        "py": 'def dynamic_dataset():\n    print("function speaks")\n    lib.getData("out")[0] = 7\n',
    }
    for language, source in prints.items():
        path = write(folder, make(source, language, Slot("out", "double", (1,))), f"{language}.h5")
        words = [sys.executable, "-I", "-c", PRINTER, path]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        for line in ("reader before", "value [7.0]"):
            assert done.stdout.count(line) == 1, done.stdout
        assert done.stderr.count("out: function speaks") == 1, done.stderr


@scenario
def attach_under_load(folder: Path) -> None:
    """Reference: 5 of 20 C++ attaches fail at random under load. Here none fails; and no files remain beside the
    source.
    """
    load = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=jail.die_with_parent) for _ in range(2)
    ]
    work = folder / "sources"
    work.mkdir()
    temporary = folder / "tmp"
    temporary.mkdir()
    texts = {"cpp": CPP, "lua": 'function dynamic_dataset() lib.getData("out")[1] = 7 end'}
    texts["py"] = 'def dynamic_dataset():\n    lib.getData("out")[0] = 7\n'
    for language, text in texts.items():
        (work / f"udf.{language}").write_text(text)
    before = places.digest(work)
    environment = dict(os.environ) | {"TMPDIR": str(temporary)}
    try:
        for n in range(20):
            language = ("cpp", "lua", "cpp", "py")[n % 4] if n < 8 else ("lua", "py")[n % 2]
            path = folder / f"load-{n}.h5"
            with h5py.File(path, "w"):
                pass
            done = command("udf", "attach", path, work / f"udf.{language}", "out:1:double", env=environment, cwd=work)
            assert done.returncode == 0, done.stderr
            assert read(path)[0] == 7
    finally:
        for one in load:
            one.kill()
            one.wait()
    assert places.digest(work) == before
    assert not list(temporary.iterdir())


@scenario
def threads(folder: Path) -> None:
    """Reference: global state, not thread-safe. Here good and hostile reads run in parallel."""
    good = [write(folder, simple("lua", str(n)), f"good-{n}.h5") for n in range(4)]
    bad = write(folder, make("function dynamic_dataset() error('no') end", "lua", Slot("out")), "bad.h5")
    failures: list[str] = []

    def work(n: int) -> None:
        for _ in range(20):
            if n == 4:
                try:
                    read(bad)
                except OSError:
                    continue
                failures.append("bad was read")
            elif read(good[n]) != [n]:
                failures.append(f"{n} was wrong")

    lanes.side_by_side(work, range(5))
    assert not failures


@scenario
def forked_readers(folder: Path) -> None:
    """Reference: forks in readers with threads. Here the children of a reader with warm workers continue to read."""
    paths = {language: write(folder, simple(language), f"{language}.h5") for language in ("lua", "py")}
    for path in paths.values():
        assert read(path) == [7]
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            ok = all(read(path) == [7] for path in paths.values())
            os._exit(0 if ok else 1)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 3
    for path in paths.values():
        assert read(path) == [7]


@scenario
def signals_in_the_reader(folder: Path) -> None:
    """A reader under a constant stream of signals still stops a function that sleeps forever."""
    path = write(folder, make(SLEEP, "py", Slot("out")))
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    threading.Timer(cases.LIMIT + 5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    start = time.monotonic()
    refused(path, f"limit of {cases.LIMIT} s")
    took = time.monotonic() - start
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert took < cases.LIMIT + cases.SLACK
    os._exit(0)


@scenario
def children_of_the_reader(folder: Path) -> None:
    """A reader that ignores SIGCHLD, or reaps every child itself, can read; its own children are not reaped for it."""
    crash = write(folder, make("import os\ndef dynamic_dataset():\n    os._exit(3)\n", "py", Slot("out")), "crash.h5")
    for language in ("lua", "py"):
        path = write(folder, simple(language), f"{language}.h5")
        assert read(path) == [7]
    own = subprocess.Popen(["sleep", "0.2"])
    refused(crash, "without a result")
    assert own.wait() == 0
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for language in ("lua", "py"):
        assert read(write(folder, simple(language, "8"), f"{language}-2.h5")) == [8]
    refused(write(folder, make("function dynamic_dataset() error('no') end", "lua", Slot("out")), "no.h5"), "no")


@scenario
def few_descriptors(folder: Path) -> None:
    """A reader without free descriptors gets an error, and continues when it has some again."""
    paths = [write(folder, simple("lua", str(n)), f"{n}.h5") for n in range(3)]
    assert read(paths[0]) == [0]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The highest is above the ones that a new process uses.
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    seen = set()
    for spare in range(1, 24):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(many) + 1 + spare, hard))
        try:
            seen.add("value" if read(paths[1]) == [1] else "wrong")
        except OSError as error:
            seen.add(type(error).__name__)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "wrong" not in seen
    assert len(seen) >= 2, seen
    assert read(paths[2]) == [2]


@scenario
def closed_standard_descriptors(folder: Path) -> None:
    """A reader without standard input, output and error (a daemon) can read, and its worker's descriptors stay
    separate.
    """
    lua = write(folder, simple("lua"))
    py = write(folder, simple("py"), "py.h5")
    for fd in (0, 1, 2):
        os.close(fd)
    try:
        done = read(lua) == [7] and read(py) == [7]
    except OSError:
        done = False
    os._exit(0 if done else 5)


KILLED = """
import sys, hyperchunk
hyperchunk.plugins.enable()
import h5py
f = h5py.File(sys.argv[1])
print("reading", flush=True)
f["out"][...]
"""


@scenario
def reader_killed(folder: Path) -> None:
    """Workers of a killed reader end too, a sleeping one and a spinning one."""
    sources = {
        "py": SLEEP,
        "lua": "function dynamic_dataset() while true do end end",
    }
    for language, source in sources.items():
        path = write(folder, make(source, language, Slot("out")), f"{language}.h5")
        words = [sys.executable, "-I", "-c", KILLED, str(path)]
        reader = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        reader.stdout.readline()
        time.sleep(1.0)
        below = [int(pid) for pid in workers_of(reader.pid)]
        assert below, "nothing to be killed"
        reader.kill()
        reader.wait()
        end = time.monotonic() + 1.5
        while (alive := [pid for pid in below if is_alive(pid)]) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive, f"{language}: {alive}"


@scenario
def killed_workers(folder: Path) -> None:
    """After workers are killed, the next read starts new ones, including the warm Python."""
    for language in ("lua", "py"):
        path = write(folder, simple(language), f"{language}.h5")
        assert read(path) == [7]
        for pid in workers_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        assert read(path) == [7]


@scenario
def neighbours_of_a_mapped_input(folder: Path) -> None:
    """A function sees only its inputs, not the rest of a file from which an input is mapped."""
    source = """
local ffi = require("ffi")
function dynamic_dataset()
  local a = ffi.cast("uintptr_t", lib.getData("a") + 1)
  local page = ffi.cast("double *", a - a % 4096)
  local out, first = lib.getData("out"), tonumber(a % 4096) / 8
  for i = 0, 511 do
    if (i < first or i >= first + 4) and page[i] == 31300.5 then out[1] = out[1] + 1 end
  end
end
"""
    path = folder / "neighbours.h5"
    with h5py.File(path, "w") as file:
        file["before"] = np.full(4, 31300.5)
        file["a"] = np.arange(4.0)
        file["after"] = np.full(4, 31300.5)
        store(file, make(source, "lua", Slot("out", "double", (1,)), [Slot("a")]))
    assert read(path) == [0]


def run_one(name: str, folder: Path) -> dict[str, Any]:
    """Runs a scenario in a separate process."""
    folder.mkdir()
    shutil.copytree(places.CONFIG.parent, folder / "config")
    words = [sys.executable, "-I", __file__, "run", name, folder]
    environment = dict(os.environ) | {"XDG_CONFIG_HOME": str(folder / "config")}
    start = time.monotonic()
    try:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, env=environment, cwd=folder, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "text": "did not end"}
    text = (done.stdout + done.stderr)[-3000:]
    return {"ok": done.returncode == 0, "text": f"{done.returncode}: {text}", "seconds": time.monotonic() - start}


def main(*arguments: str) -> None:
    """Runs one scenario here, or several in separate processes."""
    jail.require_confined()
    hyperchunk.plugins.enable()
    if arguments[:1] == ("run",):
        try:
            SCENARIOS[arguments[1]](Path(arguments[2]))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        return
    places.make()
    names = [n for n in SCENARIOS if not arguments or any(part in n for part in arguments)]
    with ThreadPoolExecutor(3) as pool:
        results = dict(zip(names, pool.map(lambda name: run_one(name, jail.WORK / f"s-{name}"), names), strict=True))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
