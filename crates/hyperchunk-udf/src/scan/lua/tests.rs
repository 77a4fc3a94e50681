use super::super::tests;
use super::scan;

/// Scans `body` inside an entry point.
fn check(body: &str, expected: &str) {
    tests::check(scan, &format!("function dynamic_dataset()\n{body}\nend"), expected);
}

#[test]
fn calls_are_found() {
    for (body, expected) in [
        ("local a = lib.getData(\"A\")", "A"),
        ("local a, b = lib.getData(\"A\"), lib.getData('B') c = lib.getDims('C')", "A|B|C"),
        ("lib.getData\"A\" lib.getData'B' lib.getData [[C]] lib.getData[==[D]]\n]==]", "A|B|C|D]]\n"),
        ("lib . getData --[[ \"no\" ]] (\n  -- lib.getData('no')\n 'A' )", "A"),
        ("lib[\"getData\"](\"A\") lib['getDims'] 'B' lib[ [[getType]] ]{} lib.x()", "!line 2"),
        ("lib[\"getData\"](\"A\") lib['getDims'] 'B' lib[ [[getType]] ] 'C'", "A|B|C"),
        ("lib.getType('T') lib.getSize('S') lib.array('R') lib.getDims('D')", "T|S|R|D"),
        ("lib.string(x) lib.setString(x, 'no') print(lib.getFilePath())", ""),
        ("lib.getData(('A')) lib.getData('B', 1)", "A|B"),
        (
            "-- lib.getData('no')\n--[[ lib.getData('no') ]]\n--[==[ ]] lib.getData('no') ]==] lib.getData('A')",
            "A",
        ),
        ("x = 'lib.getData(\"no\")' y = [[ lib.getData('no') ]] lib.getData('A')", "A"),
        ("x = 'it\\'s' lib.getData('A')", "A"),
        ("x = other.lib.getData('no') y = a..lib.getType('A')..'x'", "A"),
        ("x = 3 .. lib.getData('A') y = 0x1p+3 + 1e-5 z = ... t = t[t[1]]", "A"),
        ("lib.getData('\\65\\x42\\u{43}\\z \n  D\\\nE\\t')", "ABCD\nE\t"),
        ("lib.getData('Temperature.lua') lib.getData('/group/a b')", "Temperature.lua|/group/a b"),
        ("goto done ::done:: lib.getData('A')", "A"),
    ] {
        check(body, expected);
    }
}

#[test]
fn simple_names_are_followed() {
    for (body, expected) in [
        ("local get = lib.getData\nlocal a, b = get('A'), get \"B\"", "A|B"),
        ("get = lib['getData'] get [[A]]", "A"),
        ("local get = lib.getData; local t = {x = other.get, y = o:get()} get(('A'))", "A"),
        ("local n = 'A'\nlib.getData(n) lib.getDims(n) print('reading ' .. n)", "A"),
        ("local get, n = lib.getData, 'A'", "!line 2: lib.getData is passed on"),
        ("local get = lib.getData get = nil", "!line 2: get, a name for"),
        ("local get = lib.getData map(get, t)", "!get, a name for"),
        ("local get = lib.getData or f", "!passed on"),
        ("t = {get = lib.getData}", "!passed on"),
        ("t.get = lib.getData", "!passed on"),
        ("map(lib.getData, t)", "!passed on"),
        ("local l = lib l.getData('A')", "!line 2: lib is passed on"),
        ("f(lib)", "!lib is passed on"),
        ("lib[k]('A')", "!computed field"),
        ("local n = 'A' lib.getData(n) n = 'B'", "!line 2: lib.getData needs"),
        ("for n = 1, 2 do end local n = 'A' lib.getData(n)", "!constant"),
        ("local n = 'A' f(function(n) lib.getData(n) end)", "!constant"),
        ("local n = 'A' local n = 'B' lib.getData(n)", "!constant"),
        ("local n = 'A' .. x lib.getData(n)", "!constant"),
    ] {
        check(body, expected);
    }
}

#[test]
fn names_that_are_not_constants_are_errors() {
    for (body, expected) in [
        ("\nlib.getData(name)", "!line 3: lib.getData needs the dataset's name as a string constant"),
        ("lib.getData('a' .. 'b')", "!recorded when the function is attached"),
        ("lib.getDims(('a'):rep(2))", "!lib.getDims(\"NIR\")"),
        ("lib.getData()", "!line 2"),
        ("lib.getData{'A'}", "!line 2"),
        ("lib:getData('A')", "!with a dot"),
        ("lib.getData('A', 'B'", "A"),
        ("lib.getData('\\q')", "!unknown escape"),
        ("lib.getData('\\xff')", "!not valid UTF-8"),
        ("lib.getData('')", "!cannot be the name"),
        ("lib.getData('\\0')", "!cannot be the name"),
        ("x = 'open\n'", "!line 2: this string is not closed"),
        ("x = [==[ ]=]", "!line 2: this long string is not closed"),
        ("--[[", "!this long comment is not closed"),
    ] {
        check(body, expected);
    }
}

#[test]
fn the_entry_point_is_needed() {
    for (source, expected) in [
        ("dynamic_dataset = function() end", ""),
        ("#!/usr/bin/lua '\nfunction dynamic_dataset() end", ""),
        ("local function dynamic_dataset() end", "!does not define dynamic_dataset"),
        ("-- function dynamic_dataset()", "!function dynamic_dataset()"),
        ("lib.getData('A')", "!does not define"),
    ] {
        tests::check(scan, source, expected);
    }
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "lib",
        ".",
        ":",
        "getData",
        "(",
        ")",
        "[",
        "]",
        "[[",
        "]]",
        "[=[",
        "]=]",
        "=",
        "'",
        "\"",
        "\\",
        "--",
        "\n",
        "\r",
        "local ",
        "get",
        "n",
        " ",
        ",",
        "'x'",
        "lib.getData",
        "..",
        "\\u{",
        "}",
        "\\x",
        "\\z",
        "\\9",
        "0x",
        "1e",
        "\\\r\n",
        "function dynamic_dataset",
        "{",
        "lib.getData('x')",
        "local n = 'x'",
        "local get = lib.getData",
    ];
    tests::soup(scan, &pieces, 20_000);
}
