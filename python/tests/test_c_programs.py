"""C programs that use HDF5 and know nothing of Hyperchunk; also with more privileges than their caller."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
from fresh import environment
from people import Person
from programs import LANGUAGES, ndvi
from test_attach_and_read import assert_close, expected_ndvi

C_PROGRAM = """
#include <hdf5.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(int argc, char **argv) {
    if (argc == 1) return getauxval(AT_SECURE) != 0;
    if (argc != 3) return 2;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, argv[2], H5P_DEFAULT);
    hsize_t start[2] = {10, 5}, count[2] = {10, 1};
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    float values[10];
    if (H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values) < 0) return 1;
    for (int i = 0; i < 10; i++) printf("%.9g\\n", values[i]);
    H5Sclose(memory); H5Sclose(space); H5Dclose(dataset);
    return H5Fclose(file) < 0;
}
"""


@pytest.fixture(scope="module")
def c_reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C program linked with the system's libhdf5."""
    folder = tmp_path_factory.mktemp("c")
    (folder / "reader.c").write_text(C_PROGRAM)
    compiler = shutil.which("cc") or shutil.which("gcc")
    pkg_config = shutil.which("pkg-config")
    flags = [["-lhdf5"], ["-I/usr/include/hdf5/serial", "-lhdf5_serial"]]
    if pkg_config:
        found = subprocess.run([pkg_config, "--cflags", "--libs", "hdf5"], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            flags.insert(0, found.stdout.split())
    for words in flags if compiler else []:
        build = [str(compiler), "reader.c", "-o", "reader", *words]
        if subprocess.run(build, cwd=folder, capture_output=True, check=False).returncode == 0:
            return folder / "reader"
    pytest.skip("no C program can be linked with the system's libhdf5 (gcc, libhdf5-dev)")


@pytest.mark.needs_hdf5_tools
def test_a_c_program_with_libhdf5_inside(scene: Any, attach: Any, tmp_path: Path, config: Path) -> None:
    """The plain h5cc of some systems links statically; the plugin finds the functions among the program's symbols."""
    wrapper = shutil.which("h5cc")
    if wrapper is None:
        pytest.skip("h5cc is missing (libhdf5-dev)")
    (tmp_path / "reader.c").write_text(C_PROGRAM)
    built = subprocess.run([wrapper, "reader.c", "-o", "reader"], cwd=tmp_path, capture_output=True, check=False)
    if built.returncode != 0:
        pytest.skip("h5cc does not link")
    for language in LANGUAGES:
        file = scene(f"{language}.h5")
        attach(file, language, ndvi(language))
        run = [tmp_path / "reader", file, "NDVI"]
        done = subprocess.run(run, env=environment(config), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert_close(language, np.array(done.stdout.split(), dtype="f4"), expected_ndvi(file)[10:20, 5])


def static_reader(folder: Path, *flags: str, program: str = C_PROGRAM) -> Path:
    """Builds a program with libhdf5 linked in."""
    (folder / "reader.c").write_text(program)
    flags_of_hdf5 = subprocess.run(["pkg-config", "--cflags", "hdf5"], capture_output=True, text=True, check=False)
    archives = sorted(Path("/usr/lib").glob("*-linux-gnu/hdf5/serial/libhdf5.a"))
    libraries = ["-lcrypto", "-lcurl", "-lsz", "-lz", "-ldl", "-lm"]
    words = ["gcc", *flags, *flags_of_hdf5.stdout.split(), "reader.c", "-o", "static", *map(str, archives), *libraries]
    if not archives or subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode != 0:
        pytest.skip("no static libhdf5 to link with")
    return folder / "static"


@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("flags", [["-rdynamic"], ["-rdynamic", "-no-pie"]])
def test_a_static_program_that_exports_its_functions(
    flags: list[str], scene: Any, attach: Any, tmp_path: Path, config: Path
) -> None:
    """Functions that the program does not use are not linked in; only operations that need them are refused."""
    reader = static_reader(tmp_path, *flags)
    file = scene()
    attach(file, "lua", ndvi("lua"))
    done = subprocess.run([reader, file, "NDVI"], env=environment(config), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_close("lua", np.array(done.stdout.split(), dtype="f4"), expected_ndvi(file)[10:20, 5])


STRINGS = """
#include <hdf5.h>
#include <stdio.h>
int main(int argc, char **argv) {
    static char labels[10][16];
    hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 16);
    if (H5Dread(H5Dopen2(H5Fopen(argv[1], 0, 0), argv[2], 0), text, 0, 0, 0, labels) < 0) return 1;
    puts(labels[7]);
}
"""
LABELS = """
function dynamic_dataset()
  local out = lib.getData("label")
  for i = 1, 10 do lib.setString(out[i], "label " .. (i - 1)) end
end
"""


@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("datatype", ["string(16)", "string(16,utf8)"])
@pytest.mark.parametrize("flags", [[], ["-rdynamic"]])
def test_strings_in_a_static_program(
    flags: list[str], datatype: str, scene: Any, attach: Any, tmp_path: Path, config: Path
) -> None:
    """The program lacks the functions that set the padding and the character set of strings."""
    reader = static_reader(tmp_path, *flags, program=STRINGS)
    file = scene()
    attach(file, "lua", LABELS, f"label:10:{datatype}")
    done = subprocess.run([reader, file, "label"], env=environment(config), capture_output=True, text=True, check=False)
    if "utf8" in datatype:
        # HDF5 cannot convert character sets: the error is HDF5's, not ours.
        assert done.returncode == 1
        assert "hyperchunk" not in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "label 7\n"), done.stderr


@pytest.mark.needs_hdf5_tools
def test_a_stripped_static_program_is_told_why(scene: Any, attach: Any, tmp_path: Path, config: Path) -> None:
    reader = static_reader(tmp_path, "-s")
    file = scene()
    attach(file, "lua", ndvi("lua"))
    done = subprocess.run([reader, file, "NDVI"], env=environment(config), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("hyperchunk udf: cannot compute live datasets here: ") == 1
    assert "do not strip it" in done.stderr


#: Private names for the standard streams, which code compiled for programs cannot take from a library.
STREAMS = """
#include <stdio.h>
FILE *own_stderr, *own_stdout, *own_stdin;
__attribute__((constructor)) static void take(void) { own_stderr = stderr; own_stdout = stdout; own_stdin = stdin; }
"""


@pytest.mark.needs_hdf5_tools
def test_a_libhdf5_whose_names_have_a_prefix(scene: Any, attach: Any, tmp_path: Path, config: Path) -> None:
    """As in VTK, ParaView and ITK: the system's library with other names, possibly beside another libhdf5."""
    archives = sorted(Path("/usr/lib").glob("*-linux-gnu/hdf5/serial/libhdf5.a"))
    if not archives or shutil.which("gcc") is None or shutil.which("objcopy") is None:
        pytest.skip("no static libhdf5 to link with")

    def run(*words: object) -> str:
        return subprocess.run([*map(str, words)], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    listed = [line.split() for line in run("nm", "--defined-only", "-g", archives[0]).splitlines()]
    names = sorted({words[2] for words in listed if len(words) == 3 and words[2].startswith("H5")})
    (tmp_path / "map").write_text(
        "".join(f"{name} own_{name}\n" for name in [*names, "stderr", "stdout", "stdin"]), encoding="ascii"
    )
    (tmp_path / "names.h").write_text("".join(f"#define {name} own_{name}\n" for name in names), encoding="ascii")
    (tmp_path / "streams.c").write_text(STREAMS)
    (tmp_path / "reader.c").write_text(C_PROGRAM)
    run("objcopy", "--redefine-syms=map", archives[0], "own.a")
    around = ["-Wl,-Bsymbolic", "-Wl,--whole-archive", "own.a", "-Wl,--no-whole-archive"]
    libraries = ["-lcrypto", "-lcurl", "-lsz", "-lz", "-ldl", "-lm"]
    run("gcc", "-shared", "-fPIC", "-o", "libown.so", "streams.c", *around, *libraries)
    flags = run("pkg-config", "--cflags", "hdf5").split()
    run(
        "gcc",
        "-fPIC",
        "-include",
        "names.h",
        *flags,
        "reader.c",
        "-o",
        "reader",
        "-L.",
        "-lown",
        f"-Wl,-rpath,{tmp_path}",
    )
    for language in LANGUAGES:
        file = scene(f"{language}.h5")
        attach(file, language, ndvi(language))
        done = subprocess.run(
            [tmp_path / "reader", file, "NDVI"], env=environment(config), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert_close(language, np.array(done.stdout.split(), dtype="f4"), expected_ndvi(file)[10:20, 5])


@pytest.mark.needs_hdf5_tools
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_c_program(language: str, scene: Any, attach: Any, c_reader: Path, config: Path) -> None:
    file = scene()
    attach(file, language, ndvi(language))
    done = subprocess.run(
        [c_reader, file, "NDVI"], env=environment(config), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    got = np.array(done.stdout.split(), dtype="f4")
    assert_close(language, got, expected_ndvi(file)[10:20, 5])


@pytest.mark.needs_hdf5_tools
def test_a_c_program_sees_the_reason_of_a_failure(scene: Any, attach: Any, c_reader: Path, config: Path) -> None:
    file = scene()
    attach(file, "lua", 'function dynamic_dataset() lib.getData("Bad"); error("no luck") end', "Bad:30x40:float")
    done = subprocess.run([c_reader, file, "Bad"], env=environment(config), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "hyperchunk udf:" in done.stderr
    assert "no luck" in done.stderr


@pytest.fixture
def set_gid_reader(c_reader: Path, tmp_path: Path) -> Path:
    """The program with the rights of a group other than the caller's: the loader reports this (AT_SECURE)."""
    others = [group for group in os.getgroups() if group != os.getegid()]
    group = 65534 if os.geteuid() == 0 else others[0] if others else None
    if group is None:
        pytest.skip("this user has no second group for a set-gid program")
    path = tmp_path / "set_gid_reader"
    shutil.copy(c_reader, path)
    os.chown(path, -1, group)
    path.chmod(0o2755)
    if subprocess.run([path], check=False).returncode == 0:
        pytest.skip(f"set-gid programs have no effect in {tmp_path} (nosuid)")
    return path


@pytest.mark.needs_hdf5_tools
def test_a_set_gid_program_trusts_nothing_of_its_callers(
    scene: Any, attach: Any, ada: Person, c_reader: Path, set_gid_reader: Path, config: Path, tmp_path: Path
) -> None:
    """Keys, profiles and an administrator's folder given by the environment may come from an attacker."""
    keys = tmp_path / "hyperchunk" / "profiles" / "lab" / "keys"
    keys.mkdir(parents=True)
    (keys.parent / "profile.toml").write_text("version = 1\n")
    assert ada("key", "export", keys / f"{ada.fingerprint.removeprefix('SHA256:')}.pub").returncode == 0
    variables = environment(config, HYPERCHUNK_SYSTEM_CONFIG=str(tmp_path / "hyperchunk"))

    def run(program: Path, file: Path, dataset: str) -> subprocess.CompletedProcess[str]:
        words = [program, file, dataset]
        return subprocess.run(words, env=variables, capture_output=True, text=True, check=False)

    own, shared = scene("own.h5"), tmp_path / "shared.h5"
    attach(own, "cpp", ndvi("cpp"))
    shared.write_bytes(scene("shared_source.h5").read_bytes())
    program = tmp_path / "ndvi.cpp"
    program.write_text(ndvi("cpp"))
    done = ada("udf", "attach", shared, program, "NDVI:30x40:float")
    assert done.returncode == 0, done.stderr
    for file in (own, shared):
        done = run(c_reader, file, "NDVI")
        assert done.returncode == 0, done.stderr
        done = run(set_gid_reader, file, "NDVI")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no profile but `untrusted` knows" in done.stderr, done.stderr

    # Expressions need no trust and are computed anyway.
    hyperchunk.udf.attach(own, outputs="sum", expression="NIR + Red", unsigned=True)
    done = run(set_gid_reader, own, "sum")
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(c_reader, own, "sum").stdout


@pytest.mark.needs_hdf5_tools
def test_a_set_gid_program_starts_nothing_of_its_callers(
    scene: Any, attach: Any, c_reader: Path, set_gid_reader: Path, config: Path, tmp_path: Path
) -> None:
    """An interpreter given by the environment would run with the rights of the program."""
    mark, planted = tmp_path / "mark", tmp_path / "python3"
    planted.write_text(f"#!/bin/sh\nid >> {mark}\nexit 1\n")
    planted.chmod(0o755)
    file = scene("a.h5")
    attach(file, "py", 'def dynamic_dataset():\n    lib.getData("out")[0] = 7\n', "out:30x40:float", unsigned=True)
    variables = environment(config, HYPERCHUNK_PYTHON=str(planted))
    for program, runs in ((set_gid_reader, False), (c_reader, True)):
        done = subprocess.run([program, file, "out"], env=variables, capture_output=True, text=True, check=False)
        assert mark.exists() == runs, done.stderr
        assert (done.returncode == 0) != runs, done.stderr
