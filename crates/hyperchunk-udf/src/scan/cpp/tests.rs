use super::super::tests;
use super::scan;

/// Scans `body` inside an entry point.
fn check(body: &str, expected: &str) {
    tests::check(scan, &format!("extern \"C\" void dynamic_dataset() {{\n{body}\n}}"), expected);
}

#[test]
fn calls_are_found() {
    for (body, expected) in [
        ("auto a = lib.getData<float>(\"A\");", "A"),
        ("auto a = lib.getData<float>(\"A\"), b = lib.getData<float>(\"B\"); lib.getDims(\"C\");", "A|B|C"),
        ("lib . getData < std::vector<std::pair<int, T>> > (\n\"A\"\n)", "A"),
        ("lib.getData<decltype(a > b)>(\"A\"); lib.template getData<x>(\"B\");", "A|B"),
        ("lib.getData<std::array<int, (1 > 0)>>(\"A\")", "A"),
        ("lib.getType(\"T\"); lib.getSize(\"S\"); lib.array<int>(\"R\"); lib.getData(\"D\")", "T|S|R|D"),
        ("lib.string(x); lib.setString(x, \"no\"); lib.getFilePath();", ""),
        ("// lib.getData<int>(\"no\")\n/* lib.getData<int>(\"no\") ' */ lib.getData<int>(\"A\")", "A"),
        ("// goes on \\\nlib.getData<int>(\"no\")\nlib.getData<int>(\"A\")", "A"),
        ("puts(\"lib.getData<int>(\\\"no\\\")\"); lib.getData<int>(\"A\")", "A"),
        ("int n = 1'000'000; char q = '\"', p = '\\'', w = L'x'; lib.getData<int>(\"A\")", "A"),
        ("lib.get\\\nData<int>(\"A\\\n\\  \nB\")", "AB"),
        ("li\\\r\nb.getData<int>(\"A\")", "A"),
        ("lib.getData<int>(\"A\" /* and */ \"B\"\n // and\n R\"(C)\")", "ABC"),
        ("lib.getData<int>(R\"(a\\n)\"); lib.getData<int>(u8R\"x()\")x\")", "a\\n|)\""),
        ("auto s = R\"(lib.getData<int>(\"no\"))\"; lib.getData<int>(\"A\")", "A"),
        ("lib.getData<int>(u8\"A\"); lib.getData<int>(L\"B\")", "A|B"),
        (
            "lib.getData<int>(\"\\x41\\102\\u00e9\\U0001F600\\u{44}\\x{45}\\t\\\"\\xc3\" \"\\xa9\")",
            "ABé😀DE\t\"é",
        ),
        ("lib.getData<int>((\"A\")); other.lib.getData<int>(no); p->lib.getData<int>(no)", "A"),
        ("#include <it's.h>\n#if 0\ndon't \"do\n#endif\n#define X \\\n  lib.getData<int>(\"A\")", "A"),
        ("auto f = [&lib](int i) { return lib.getData<int>(\"A\")[i]; };", "A"),
        ("std::string lib = x; f(lib + y, a, lib.size());", ""),
        (
            "float *d = lib.getData<float>(\"Temperature.cpp\"); e = lib.getData<float>(\"/g/a b\");",
            "Temperature.cpp|/g/a b",
        ),
    ] {
        check(body, expected);
    }
}

#[test]
fn names_that_are_not_constants_are_errors() {
    for (body, expected) in [
        ("\nlib.getData<int>(name)", "!line 3: lib.getData needs the dataset's name as a string constant"),
        ("lib.getDims(name)", "!as in lib.getDims(\"NIR\")"),
        ("lib.getData<int>(PREFIX \"A\")", "!recorded when the function is attached"),
        ("lib.getData<int>(\"A\" + s)", "!constant"),
        ("lib.getData<int>(\"A\"s)", "!constant"),
        ("lib.getData<int>()", "!constant"),
        ("lib.getData<int>((\"A\"", "!constant"),
        ("auto get = &lib.getData<int>;", "!lib.getData is passed on"),
        ("auto &l = lib; l.getData<int>(\"A\");", "!line 2: lib is passed on"),
        ("f(lib); g(1, lib);", "!lib is passed on"),
        ("lib->getData<int>(\"A\")", "!with a dot"),
        ("lib::getData<int>(\"A\")", "!with a dot"),
        ("lib.getData<int(\"A\")", "!template arguments are not closed"),
        ("lib.getData<int>(\"\\q\")", "!unknown escape"),
        ("lib.getData<int>(\"\\xff\")", "!not valid UTF-8"),
        ("lib.getData<int>(\"\")", "!cannot be the name"),
        ("\n/* open", "!line 3: this comment is not closed"),
        ("R\"(open)x\"", "!line 2: this raw string is not closed"),
        ("R\"a b(x)a b\"", "!no valid delimiter"),
    ] {
        check(body, expected);
    }
}

#[test]
fn the_entry_point_is_needed() {
    for (source, expected) in [
        ("extern \"C\" void dynamic_dataset\n()\n{}", ""),
        ("// dynamic_dataset()", "!does not define dynamic_dataset"),
        ("void dynamic_datasets() {}", "!extern \"C\" void dynamic_dataset()"),
        ("x = \"dynamic_dataset()\"; lib.getData<int>(\"A\");", "!does not define"),
    ] {
        tests::check(scan, source, expected);
    }
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "lib",
        ".",
        "->",
        "::",
        "getData",
        "<",
        ">",
        "(",
        ")",
        "\"",
        "'",
        "\\",
        "\n",
        "\\\n",
        "R\"",
        "u8",
        "L",
        "\"(",
        ")\"",
        "/*",
        "*/",
        "//",
        "#if",
        "1'0",
        "e+",
        "\\x",
        "\\u",
        "\\U",
        "{",
        "}",
        "\\7",
        ",",
        " ",
        "\"x\"",
        "lib.getData<int>",
        "dynamic_dataset(",
        "lib.getData<int>(\"x\")",
        "\\  \n",
        "template",
        "R\"x(",
        ")x\"",
        "=",
    ];
    tests::soup(scan, &pieces, 20_000);
}
