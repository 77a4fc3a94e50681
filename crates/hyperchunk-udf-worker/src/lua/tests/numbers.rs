//! Numbers of each type stored in each other, by LuaJIT's machine code and by its interpreter, which have
//! disagreed. The expected values follow LuaJIT's "FFI Semantics", "Conversions between C types".

use super::{Data, Datatype, body, jit_is_exact, run, setup};

const KINDS: [&str; 10] =
    ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float", "double"];
const COUNT: i128 = 300;

/// Returns the bytes of an integer as an element: narrowed in integers, rounded in floats.
fn element(kind: &str, value: i128) -> Vec<u8> {
    match kind {
        "float" => (value as f32).to_ne_bytes().to_vec(),
        "double" => (value as f64).to_ne_bytes().to_vec(),
        _ => {
            let size = Datatype::parse(kind).unwrap().size();
            let bytes = value.to_ne_bytes();
            if cfg!(target_endian = "big") { bytes[16 - size..].to_vec() } else { bytes[..size].to_vec() }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "128 bits are enough")]
fn as_float(value: i128) -> i128 {
    value as f32 as i128
}

/// Returns the integer value of an element of a type after another integer was stored in it.
fn as_element(kind: &str, value: i128) -> i128 {
    match kind {
        "float" => as_float(value),
        #[expect(clippy::cast_possible_truncation, reason = "128 bits are enough")]
        "double" => value as f64 as i128,
        _ => {
            let shift = 128 - 8 * element(kind, 0).len();
            if kind.starts_with('u') {
                (value.cast_unsigned() << shift >> shift).cast_signed()
            } else {
                value << shift >> shift
            }
        }
    }
}

/// Stores `value`, an expression, in each element, compiled and interpreted, after a line of Lua.
fn check_after(
    line: &str,
    from: &str,
    to: &str,
    value: &str,
    given: impl Fn(i128) -> i128,
    expected: impl Fn(i128) -> i128,
) {
    let kind = |name| KINDS.into_iter().find(|kind| *kind == name).unwrap();
    let bytes: Vec<u8> = (0..COUNT).flat_map(|n| element(from, given(n))).collect();
    let expected: Vec<_> = (0..COUNT).map(|n| element(to, expected(as_element(from, given(n))))).collect();
    // A line may not enable machine code where the sandbox forbids it; here there is no sandbox.
    for jit in [true, false].into_iter().filter(|jit| *jit || line.is_empty()) {
        let mut data = vec![Data::out("out", kind(to), expected.len())];
        data.extend(["a", "b"].map(|name| Data::new(name, kind(from), false, &bytes)));
        run(&body(&format!("{line}\nfor i = 1, n, 1 do out[i] = {value} end")), jit, &mut data).unwrap();
        let found: Vec<u8> = data[0].words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for (n, (found, expected)) in found.chunks(expected[0].len()).zip(&expected).enumerate() {
            let given = given(n as i128);
            assert_eq!(found, expected, "{from} to {to}, jit {jit}: {value}, element {n}, {given}");
        }
    }
}

fn check(from: &str, to: &str, value: &str, given: impl Fn(i128) -> i128, expected: impl Fn(i128) -> i128) {
    check_after("", from, to, value, given, expected);
}

#[test]
fn small_numbers_are_stored_as_they_are() {
    for from in KINDS {
        for to in KINDS {
            for (value, more) in [("a[i]", 0), ("a[i] + 1", 1)] {
                check(from, to, value, |n| n % 100, |given| given + more);
            }
            check(from, to, "7LL", |n| n, |_| 7);
            check(from, to, "7ULL", |n| n, |_| 7);
        }
    }
}

#[test]
fn large_and_negative_numbers_are_narrowed_or_rounded() {
    for from in KINDS {
        // Floats are converted to integers within 63 bits; all except `uint64` are Lua numbers, or can be
        // represented by one.
        let bits = if ["float", "double"].contains(&from) { 62 } else { 64 };
        let given = |n: i128| {
            let mixed = (n + 1).wrapping_mul(0x1e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> (128 - bits);
            let shorter = mixed >> (n % bits);
            if n % 3 == 0 { -shorter } else { shorter }
        };
        for to in KINDS {
            check(from, to, "a[i]", given, |given| given);
        }
        check(from, "double", "tonumber(a[i])", given, |given| given);
    }
}

/// Checks unsigned integers that are not elements.
#[test]
fn unsigned_literals_and_casts_are_rounded_to_floats() {
    let given = |n: i128| n << 40;
    let top = 1 << 63;
    for (value, to) in [
        ("a[i] + 0x8000000000000000ULL", "float"),
        ("a[i] + 9223372036854775808ull", "float"),
        ("require('ffi').cast('uint64_t', a[i]) + 9223372036854775807LL + 1", "float"),
        ("require('ffi').new('float[1]', a[i] + 0x8000000000000000ULL)[0]", "double"),
    ] {
        check("int64", to, value, given, |given| as_float(given + top));
    }
}

#[test]
fn only_what_needs_it_is_interpreted() {
    let compiles = |kinds: [&'static str; 2], source: &str| {
        let data = [Data::out("out", kinds[0], 1), Data::new("a", kinds[1], false, &[0; 8])];
        jit_is_exact(&setup(source, true, &data))
    };
    for source in ["", "-- a full hull, all null", "x = 12LL", "x = null12", "x = ffi.cast('int64_t', 1)"] {
        for kinds in [["float", "int64"], ["double", "uint64"], ["uint64", "double"]] {
            assert!(compiles(kinds, source), "{kinds:?}: {source}");
        }
        assert!(!compiles(["float", "uint64"], source), "{source}");
    }
    for source in
        ["x = 12ULL", "x=0xffull", "ffi.cast('uint64_t', x)", "ffi.new('size_t[1]')", "null(1 + 2Ull)"]
    {
        assert!(!compiles(["float", "int32"], source), "{source}");
        assert!(compiles(["double", "int32"], source), "{source}");
    }
}

/// Checks that stores stay correct whatever compiler options a program sets.
#[test]
fn stores_stay_unoptimised() {
    for asked in ["jit.opt.start(3)", "require('jit.opt').start('+dse', 'hotloop=2')", "jit.off() jit.on()"] {
        check_after(asked, "int64", "float", "a[i]", |n| n, |given| given);
        check_after(asked, "uint64", "float", "a[i]", |n| n + (1 << 63), |given| given);
    }
}

/// Checks that an integer gets the integral part of a sum, compiled or not.
#[test]
fn sums_are_rounded_once() {
    const ROUND_COUNT: usize = 300;
    let floats: Vec<u8> = (0..ROUND_COUNT).flat_map(|_| 272.5_f32.to_ne_bytes()).collect();
    let halves: Vec<u8> = (0..ROUND_COUNT).flat_map(|_| (-0.5_f64).to_ne_bytes()).collect();
    let tens: Vec<u8> = (0..ROUND_COUNT).flat_map(|_| 10_i64.to_ne_bytes()).collect();
    for line in ["", "jit.opt.start(3)", "jit.opt.start('+narrow')"] {
        for (to, value, expected) in [
            ("int16", "a[i] - 273", 0),
            ("int32", "273 - a[i]", 0),
            ("uint8", "a[i] - 273", 0),
            ("int8", "a[i] - 273 + b[i]", -1),
            ("int64", "x[i] - (b[i] + 3)", 8),
            ("int32", "x[3 - b[i]]", 10),
            ("int64", "a[i] + i - i", 272),
        ] {
            for jit in [true, false].into_iter().filter(|jit| *jit || line.is_empty()) {
                let mut data = vec![
                    Data::out("out", to, ROUND_COUNT),
                    Data::new("a", "float", false, &floats),
                    Data::new("b", "double", false, &halves),
                    Data::new("x", "int64", false, &tens),
                ];
                let lines =
                    format!("{line}\nlocal x = lib.getData('x')\nfor i = 1, n do out[i] = {value} end");
                run(&body(&lines), jit, &mut data).unwrap();
                let found: Vec<u8> = data[0].words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                for (n, found) in found.chunks(element(to, 0).len()).take(ROUND_COUNT).enumerate() {
                    assert_eq!(
                        found,
                        element(to, expected),
                        "{value} as {to}, jit {jit}, {line}, element {n}"
                    );
                }
            }
        }
    }
}
