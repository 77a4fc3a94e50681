"""Strings: read, of fixed and variable length, and computed."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import failure
from hyperchunk.exceptions import LimitError

from compatibility.inputs import LANGUAGES, Programs, both, run, strings, words

READ = Programs(
    {
        "py": """
def dynamic_dataset():
    text = lib.getData("Dataset1")
    out = lib.getData("Temperature.py")
    for n in range(lib.getDims("Dataset1")[0]):
        print(lib.string(text[n]), flush=True)
    for n in range(lib.getDims("Temperature.py")[0]):
        out[n] = n * 1.0
""",
        "lua": """
function dynamic_dataset()
    local text = lib.getData("Dataset1")
    local out = lib.getData("Temperature.lua")
    for n = 1, lib.getDims("Dataset1")[1] do print(lib.string(text[n])) end
    for n = 1, lib.getDims("Temperature.lua")[1] do out[n] = n - 1 end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto text = lib.getData<dataset1_t>("Dataset1");
    auto out = lib.getData<double>("Temperature.cpp");
    for (size_t n = 0; n < lib.getDims("Dataset1")[0]; ++n)
        printf("%s\\n", lib.string(text[n]));
    for (size_t n = 0; n < lib.getDims("Temperature.cpp")[0]; ++n)
        out[n] = n * 1.0;
}
""",
    }
)


@pytest.mark.parametrize("kind", ["fixed", "variable"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_string(language: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The dataset's name has a dot, which is an underscore in the name of the C++ structure."""
    file = tmp_path / "strings.h5"
    strings(file, kind, "Dataset1")
    run(tmp_path, file, language, READ[language], f"Temperature.{language}:1000:double")
    assert both(file, f"Temperature.{language}").tolist() == list(range(1000))
    assert capfd.readouterr().out.splitlines() == 2 * words()


MANY = Programs(
    {
        "py": """
def dynamic_dataset():
    a, b, out = lib.getData("Dataset1"), lib.getData("Dataset2"), lib.getData("Temperature.py")
    for n in range(lib.getDims("Dataset1")[0]):
        print(lib.string(a[n].value), lib.string(b[n]))
""",
        "lua": """
function dynamic_dataset()
    local a, b, out = lib.getData("Dataset1"), lib.getData("Dataset2"), lib.getData("Temperature.lua")
    for n = 1, lib.getDims("Dataset1")[1] do
        print(lib.string(a[n].value) .. " " .. lib.string(b[n]))
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto a = lib.getData<dataset1_t>("Dataset1");
    auto b = lib.getData<dataset2_t>("Dataset2");
    lib.getData<double>("Temperature.cpp");
    assert(lib.getDims("Dataset1")[0] == lib.getDims("Dataset2")[0]);
    for (size_t n = 0; n < lib.getDims("Dataset1")[0]; ++n)
        printf("%s %s\\n", a[n].value, lib.string(b[n]));
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_multistring(language: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "strings.h5"
    strings(file, "variable", "Dataset1", "Dataset2")
    run(tmp_path, file, language, MANY[language], f"Temperature.{language}:1000:double")
    assert not both(file, f"Temperature.{language}").any()
    assert capfd.readouterr().out.splitlines() == 2 * [f"{word} {word}" for word in words()]


VERSE = "tomorrow and tomorrow and tomorrow creeps in this petty-pace-from-day-to-day to the last syllable " * 9
SET = Programs(
    {
        "py": """
VERSE = "{verse}"
def dynamic_dataset():
    out = lib.getData("Verse.py")
    for n, word in enumerate(VERSE.split()):
        if n < lib.getDims("Verse.py")[0]:
            lib.setString(out[n], word.encode("utf-8"))
""",
        "lua": """
local verse = "{verse}"
function dynamic_dataset()
    local out, n = lib.getData("Verse.lua"), 1
    for word in string.gmatch(verse, "[^%s]+") do
        if n <= lib.getDims("Verse.lua")[1] then lib.setString(out[n], word) end
        n = n + 1
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{{
    auto out = lib.getData<verse_cpp_t>("Verse.cpp");
    char *copy = strdup("{verse}");
    char *word = strtok(copy, " ");
    for (size_t n = 0; n < lib.getDims("Verse.cpp")[0] && word; ++n, word = strtok(NULL, " "))
        lib.setString(out[n], "%s", word);
    free(copy);
}}
""",
    }
)


@pytest.mark.parametrize(("kind", "size", "count"), [("string", 32, 405), ("string(15)", 15, 1205)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_string_output(language: str, kind: str, size: int, count: int, tmp_path: Path) -> None:
    """A string has 32 bytes unless a size is given. Longer ones are truncated; unset elements stay empty."""
    file = tmp_path / "out.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, language, SET[language].format(verse=VERSE), f"Verse.{language}:{count}:{kind}")
    got = both(file, f"Verse.{language}")
    assert got.dtype == np.dtype(f"S{size}")
    expected = [word.encode()[:size] for word in VERSE.split()]
    assert got.tolist() == expected + [b""] * (count - len(expected))
    assert any(len(word) == size for word in got.tolist()) == (size == 15)


CUT = Programs(
    {
        "py": """
def dynamic_dataset():
    out = lib.getData("out")
    lib.setString(out[0], b"longer than four")
    lib.setString(out[0], b"ab")
    lib.setString(out[1].value, "exactly"[:4])
    out[2] = b"cd"
    out[3].value = b"ef"
    assert lib.string(out[1]) == "exac" and out[3] == b"ef" and out[3] == "ef"
    assert lib.getType("out") == b"string" and lib.getType("out") == "string"
    out[4:6] = [b"gh", "ij"]
""",
        "lua": """
function dynamic_dataset()
    local out = lib.getData("out")
    lib.setString(out[1], "longer than four")
    lib.setString(out[1], "ab")
    lib.setString(out[2].value, "exac")
    out[3].value = "cd"
    out[4].value = "ef"
    assert(lib.string(out[2]) == "exac" and lib.string(out[4].value) == "ef" and lib.getType("out") == "string")
    lib.setString(out[5], "gh")
    lib.setString(out[6], "ij")
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<out_t>("out");
    lib.setString(out[0], "longer than %d", 4);
    lib.setString(out[0], "ab");
    lib.setString(out[1].value, "%s", "exac");
    strcpy(out[2].value, "cd");
    snprintf(out[3].value, sizeof(out[3].value), "ef");
    if (strcmp(lib.string(out[1]), "exac") || strcmp(lib.getType("out"), "string")) throw std::runtime_error("no");
    lib.setString(out[4], "gh");
    lib.setString(out[5], "ij");
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_shorter_text_clears_what_was_there(language: str, tmp_path: Path) -> None:
    file = tmp_path / "out.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, language, CUT[language], "out:6:string(4)")
    assert both(file, "out").tolist() == [b"ab", b"exac", b"cd", b"ef", b"gh", b"ij"]


COPY = Programs(
    {
        "py": """
def dynamic_dataset():
    a, out = lib.getData("a"), lib.getData("out")
    for n in range(len(a)):
        lib.setString(out[n], lib.string(a[n]).encode())
""",
        "lua": """
function dynamic_dataset()
    local a, out, dims, count = lib.getData("a"), lib.getData("out"), lib.getDims("a"), 1
    for _, d in ipairs(dims) do count = count * d end
    for n = 1, count do lib.setString(out[n], lib.string(a[n])) end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto a = lib.getData<a_t>("a");
    auto out = lib.getData<out_t>("out");
    size_t count = 1;
    for (size_t d : lib.getDims("a")) count *= d;
    for (size_t n = 0; n < count; n++) lib.setString(out[n], "%s", lib.string(a[n]));
}
""",
    }
)
TEXTS = ["", "a", "ünïcödé", "x" * 40, " spaces ", "日本語", "%s%n", "last"]


def stored(file: Path, kind: str) -> None:
    """Stores the texts as each kind of HDF5 string."""
    with h5py.File(file, "w") as opened:
        encoded = [text.encode() for text in TEXTS]
        if kind == "variable":
            opened.create_dataset("a", data=TEXTS, dtype=h5py.string_dtype())
        elif kind == "variable ASCII":
            opened.create_dataset("a", data=encoded, dtype=h5py.string_dtype("ascii"))
        elif kind == "chunked":
            opened.create_dataset("a", data=TEXTS, dtype=h5py.string_dtype(), chunks=(3,), compression="gzip")
        else:
            padding = {"terminated": 0, "padded": 1, "spaces": 2}[kind]
            datatype = h5py.h5t.C_S1.copy()
            datatype.set_size(41)
            datatype.set_strpad(padding)
            datatype.set_cset(h5py.h5t.CSET_UTF8)
            space = h5py.h5s.create_simple((len(TEXTS),))
            fill = b" " if kind == "spaces" else b"\0"
            data = np.frombuffer(b"".join(e.ljust(41, fill) for e in encoded), "S41")
            h5py.h5d.create(opened.id, b"a", datatype, space).write(h5py.h5s.ALL, h5py.h5s.ALL, data, datatype)


@pytest.mark.parametrize("kind", ["variable", "variable ASCII", "chunked", "terminated", "padded", "spaces"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_of_string_is_read(language: str, kind: str, tmp_path: Path) -> None:
    """Trailing spaces of a space-padded string are not part of it, as in HDF5's conversion."""
    file = tmp_path / "a.h5"
    stored(file, kind)
    for chunks in (None, "auto", "3"):
        run(tmp_path, file, language, COPY[language], "out:8:string(41)", chunks=chunks, overwrite=True)
        expected = [text.rstrip() if kind == "spaces" else text for text in TEXTS]
        assert [text.decode() for text in both(file, "out").tolist()] == expected, chunks


def test_strings_that_fill_their_size(tmp_path: Path) -> None:
    """Strings that fill their size have no terminating zero; bytes of a neighbour are never part of them."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.array([b"abcd", b"efgh", b"ij"], "S4")
    for language in LANGUAGES:
        run(tmp_path, file, language, COPY[language], "out:3:string(9)", overwrite=True)
        assert both(file, "out").tolist() == [b"abcd", b"efgh", b"ij"]


def test_variable_strings_that_were_never_written(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", (3,), h5py.string_dtype())
        opened["a"][1] = "one"
    for language in LANGUAGES:
        run(tmp_path, file, language, COPY[language], "out:3:string(9)", overwrite=True)
        assert both(file, "out").tolist() == [b"", b"one", b""]


def test_strings_change_between_reads(tmp_path: Path) -> None:
    """Longer strings need another worker; the result follows the current file."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=["x"] * 4, dtype=h5py.string_dtype())
    run(tmp_path, file, "lua", COPY["lua"], "out:4:string(9000)")
    for size in (1, 100, 8000, 2):
        with h5py.File(file, "r+") as opened:
            opened["a"][:] = [f"{n}" * size for n in range(4)]
        assert both(file, "out").tolist() == [f"{n}".encode() * size for n in range(4)]


def test_a_string_that_is_shared_many_times_is_bounded(tmp_path: Path, config: Path) -> None:
    """A small file can refer to one long string a million times; the profile's memory limit applies."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", (2000,), h5py.string_dtype(), fillvalue="y" * 50_000)
    text = "function dynamic_dataset() lib.getData('a') lib.getData('out')[1] = 1 end"
    run(tmp_path, file, "lua", text, "out:1:float")
    assert both(file, "out").tolist() == [1]
    folder = config / "hyperchunk" / "profiles" / "self"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.toml").write_text('version = 1\n[limits]\nmemory = "64 MiB"\n')
    reason = failure(file, "out")
    assert 'input "a": its strings need more memory than the limit of 64 MiB (profile self' in reason
    with hyperchunk.open(file) as opened, pytest.raises(LimitError, match="need more memory than the limit of 64 MiB"):
        opened["out"][...]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('lib.setString(a[0], b"x")', "this dataset is an input and cannot be written"),
        ('a[0] = b"x"', "this dataset is an input and cannot be written"),
        ('out[0] = b"12345"', "5 bytes do not fit into a string of 4; lib.setString truncates them"),
        ("out[0] = 5", "a string takes bytes or str, not int"),
        ("out[4]", "index 4 is outside the dataset's 4 elements"),
        ("lib.setString(b'x', b'x')", "lib.setString needs a string of an output"),
        ("lib.string(5)", "lib.string takes a string of a dataset, not int"),
    ],
)
def test_python_errors(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    strings(file, "variable", "a")
    text = f"def dynamic_dataset():\n    a, out = lib.getData('a'), lib.getData('out')\n    {line}\n"
    run(tmp_path, file, "py", text, "out:4:string(4)")
    assert message in failure(file, "out")
