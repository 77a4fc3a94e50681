use super::{Expression, InputBytes, Kind, MAX_DEPTH, MAX_PARTS, Scratch, as_output_bytes};
use crate::error::{Error, ErrorKind, Result};

/// Evaluates an expression with the float64 inputs `a`, `b`, ….
fn values(text: &str, inputs: &[&[f64]]) -> Result<Vec<f64>> {
    let bytes: Vec<Vec<u8>> =
        inputs.iter().map(|i| i.iter().flat_map(|x| x.to_ne_bytes()).collect()).collect();
    let expression = Expression::parse(text)?;
    let pick = |name: &String| bytes[usize::from(name.as_bytes()[0] - b'a')].as_slice();
    let each: Vec<_> = expression.inputs().iter().map(|n| InputBytes::Each(pick(n))).collect();
    let program = expression.compile(&vec![Kind::Float64; each.len()], Kind::Float64)?;
    let count = inputs.first().map_or(1, |i| i.len());
    let mut out = vec![0; count * 8];
    program.evaluate(&each, &mut out, &mut Scratch::default())?;
    Ok(out.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect())
}

fn check(text: &str, expected: f64) {
    let got = values(text, &[&[3.0], &[-2.0], &[0.5]]).unwrap();
    assert!(got[0] == expected || (got[0].is_nan() && expected.is_nan()), "{text}: {} {expected}", got[0]);
}

fn fails(text: &str, part: &str) -> ErrorKind {
    let error = values(text, &[&[3.0], &[-2.0], &[0.5]]).unwrap_err();
    assert!(error.message().contains(part), "{text}: {error}");
    error.kind()
}

#[test]
fn operators_bind_as_in_python() {
    // a = 3, b = -2, c = 0.5
    for (text, expected) in [
        ("a + b * c", 2.0),
        ("(a + b) * c", 0.5),
        ("-a ** 2", -9.0),
        ("a ** -b ** 2", 3f64.powf(-4.0)),
        ("2 ** 3 ** 2 + 0*a", 512.0),
        ("a - b - c", 4.5),
        ("a / b / c", -3.0),
        ("a // b", -2.0),
        ("a % b", -1.0),
        ("-a % 2", 1.0),
        ("7 // 2 * a", 9.0),
        ("-7 // 2 * a", -12.0),
        ("-7 % 3 * a", 6.0),
        ("7 // -2 * a", -12.0),
        ("7 % -2 * a", -3.0),
        ("a > b and b > c or a == 3", 1.0),
        ("not a > b", 0.0),
        ("not a > b and True", 0.0),
        ("(a > b) + (a > c)", 1.0),
        ("where(a > 1 and b < 0, a, b)", 3.0),
        ("min(a, b, c)", -2.0),
        ("max(a, b, c)", 3.0),
        ("clip(a, b, c)", 0.5),
        ("min(a, nan)", f64::NAN),
        ("max(nan, a)", f64::NAN),
        ("abs(b) + sign(b)", 1.0),
        ("round(c) + round(1.5 * a - 3)", 2.0),
        ("round(a / 7, 2)", 0.43),
        ("round(a * 1234, -2)", 3700.0),
        ("floor(b / 4) + ceil(c) + trunc(-c)", 0.0),
        ("hypot(a, 4)", 5.0),
        ("atan2(a, b)", 3f64.atan2(-2.0)),
        ("pi * a", std::f64::consts::PI * 3.0),
        ("sqrt(e) * a", std::f64::consts::E.sqrt() * 3.0),
        ("1_000 + 0x10 + .5e1 + 1e+2 + a", 1124.0),
        ("isnan(a / 0 * 0) and isinf(a / 0) and isfinite(a)", 1.0),
        ("int32(a) // 2 | 4", 5.0),
        ("1 << 4 ^ int8(3) & ~1", 18.0),
        ("int8(a * 100)", 127.0),
        ("uint8(b)", 0.0),
        ("int16(-c * 3)", -1.0),
        ("a # the rest is a comment\n + b", 1.0),
        ("7", 7.0),
        ("True", 1.0),
        ("~True + a", 3.0),
        ("(1 < 2) + (3 > 2) + a", 5.0),
        ("where(1 > 2, a, b)", -2.0),
    ] {
        check(text, expected);
    }
}

#[test]
fn mistakes_say_where_and_what() {
    for (text, part) in [
        ("", "column 1: expected a value, got the end"),
        ("a +", "column 4: expected a value, got the end"),
        ("a b", "column 3: an operator is missing"),
        ("(a", "column 3: a closing parenthesis"),
        ("a)", "column 2: this parenthesis was never opened"),
        ("a\n+ )", "line 2, column 3"),
        ("a, b", "a comma can only be"),
        ("a = b", "== compares"),
        ("!a", "write `not`"),
        ("a < b < c", "(a < b) and (b < c)"),
        ("a + not b", "parentheses"),
        ("sine(a)", "there is no function \"sine\""),
        ("sqrt()", "takes one value, got 0"),
        ("sqrt(a, b)", "got 2"),
        ("min(a)", "two values or more"),
        ("round(a, b)", "number of digits"),
        ("a[0]", "one element at a time"),
        ("'a", "the quote is not closed"),
        ("1.2.3", "is not a number"),
        ("2x", "is not a number"),
        ("99999999999999999999", "too large"),
        ("1 / 0 + a", "divided by 0"),
        ("a & 1", "a power is written **"),
        ("a ^ 2", "a power is written **"),
        ("~a", "not float64"),
        ("-(a > b)", "write `not`"),
        ("(a > b) - (b > c)", "does not take two bool"),
        ("int8(a) + 300", "300 does not fit int8"),
        ("int8(a) ** -1", "negative powers"),
        ("a if b else c", "an operator is missing"),
        ("and", "expected a value here"),
        ("\u{202e}", "unexpected"),
    ] {
        assert_eq!(fails(text, part), ErrorKind::Syntax, "{text}");
    }
    assert_eq!(fails("int8(a / 0 * 0)", "a value is NaN, which int8 cannot represent"), ErrorKind::Failed);
    assert_eq!(fails("int8(a) ** int8(b)", "negative power"), ErrorKind::Failed);
}

#[test]
fn names_of_datasets() {
    let expression =
        Expression::parse("Red + bands.B04*'a/b c' - \"/x\\\"y\" + Red + größe + e + \"pi\"").unwrap();
    assert_eq!(expression.inputs(), ["Red", "bands.B04", "a/b c", "/x\"y", "größe", "pi"]);
    assert_eq!(expression.constants(), ["e"]);
    assert_eq!(Expression::parse("min + max").unwrap().inputs(), ["min", "max"]);
}

#[test]
fn types_are_those_of_numpy() {
    use Kind::*;
    let infer = |text: &str, kinds: &[Kind]| Expression::parse(text).unwrap().infer(kinds).unwrap();
    for (text, kinds, expected) in [
        ("a + b", &[Int8, UInt8][..], Int16),
        ("a + b", &[Int64, UInt64], Float64),
        ("a + b", &[Int16, Float32], Float32),
        ("a + b", &[Int32, Float32], Float64),
        ("a + b", &[Bool, Bool], Bool),
        ("a // b", &[Bool, Bool], Int8),
        ("a + 1", &[Bool], Int64),
        ("a + 1", &[UInt8], UInt8),
        ("a * 2.5", &[Float32], Float32),
        ("a * sqrt(2) / 3", &[Float32], Float32),
        ("a * 2.5", &[Int32], Float64),
        ("a / b", &[Int8, Int8], Float64),
        ("a / 2", &[Float32], Float32),
        ("sqrt(a)", &[Int8], Float64),
        ("sqrt(a)", &[Float32], Float32),
        ("abs(a)", &[Bool], Bool),
        ("floor(a)", &[Int16], Int16),
        ("a > b", &[UInt64, Int8], Bool),
        ("where(a, 1, 0)", &[Bool], Int64),
        ("where(a, b, nan)", &[Bool, Float32], Float32),
        ("where(a, b, nan)", &[Bool, Int32], Float64),
        ("isnan(a)", &[Int32], Bool),
        ("a * (2 + (1 < 2))", &[Float32], Float32),
        ("a and 1 < 2", &[Float32], Bool),
        ("2", &[], Int64),
        ("2 / 2", &[], Float64),
        ("int16(a) * float32(b)", &[Float64, Float64], Float32),
    ] {
        assert_eq!(infer(text, kinds), expected, "{text} {kinds:?}");
    }
}

#[test]
fn integers_of_both_signs_are_compared_exactly() {
    let big = u64::MAX - 1;
    for (text, expected) in [
        ("a < b", [1, 1, 1]),
        ("a >= b", [0, 0, 0]),
        ("b > a", [1, 1, 1]),
        ("b <= a", [0, 0, 0]),
        ("a == b", [0, 0, 0]),
        ("a != b", [1, 1, 1]),
        ("b != 18446744073709551614", [0, 0, 0]),
        ("a > -9223372036854775808", [1, 0, 1]),
        ("a < 300", [1, 1, 0]),
        ("b > -1", [1, 1, 1]),
        ("b < -1", [0, 0, 0]),
        ("a < 18446744073709551615", [1, 1, 1]),
    ] {
        let expression = Expression::parse(text).unwrap();
        let a: Vec<u8> = [-1i64, i64::MIN, i64::MAX].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let b: Vec<u8> = [big; 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let (mut kinds, mut inputs) = (Vec::new(), Vec::new());
        for name in expression.inputs() {
            kinds.push(if name == "a" { Kind::Int64 } else { Kind::UInt64 });
            inputs.push(InputBytes::Each(if name == "a" { &a } else { &b }));
        }
        let program = expression.compile(&kinds, Kind::UInt8).unwrap();
        let mut out = [9; 3];
        program.evaluate(&inputs, &mut out, &mut Scratch::default()).unwrap();
        assert_eq!(out, expected, "{text}");
    }
}

/// Compares one pass with three: a cast in between keeps the steps separate.
#[test]
fn ratios_are_what_their_steps_are() {
    let odd = [0.0, -0.0, 1.0, -2.5, f64::NAN, f64::INFINITY, -f64::INFINITY, 5e-324, f64::MAX, 3.3, 0.1];
    let many = (0..3000_u64).map(|n| f64::from_bits(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9)));
    let wide: Vec<f64> = odd.into_iter().chain(many).collect();
    #[expect(clippy::cast_possible_truncation, reason = "the nearest float is meant")]
    let single: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
    let other = |n: usize, count: usize| (n * 7 + 3) % count;
    let run = |text: &str, kind: Kind, inputs: [&[u8]; 2]| {
        let program = Expression::parse(text).unwrap().compile(&[kind, kind], kind).unwrap();
        let mut out = vec![0; inputs[0].len()];
        let inputs = inputs.map(InputBytes::Each);
        program.evaluate(&inputs, &mut out, &mut Scratch::default()).unwrap();
        (program.instructions.len(), out)
    };
    let same = |kind: Kind, a: &[u8], b: &[u8]| {
        for over in ["+", "-", "*"] {
            for under in ["+", "-", "*"] {
                let text = format!("(a {over} b) / (a {under} b)");
                let (steps, one) = run(&text, kind, [a, b]);
                assert_eq!(steps, if over == under { 2 } else { 1 }, "{text}");
                let (steps, three) =
                    run(&format!("where(a == a, a {over} b, a {over} b) / (a {under} b)"), kind, [a, b]);
                assert!(steps > 2);
                assert_eq!(one, three, "{text}");
            }
        }
    };
    let count = wide.len();
    let b = |n: usize| other(n, count);
    let bytes: Vec<u8> = wide.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let crossed: Vec<u8> = (0..count).flat_map(|n| wide[b(n)].to_ne_bytes()).collect();
    same(Kind::Float64, &bytes, &crossed);
    let bytes: Vec<u8> = single.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let crossed: Vec<u8> = (0..count).flat_map(|n| single[b(n)].to_ne_bytes()).collect();
    same(Kind::Float32, &bytes, &crossed);
    // Sides with another use are computed separately.
    for text in [
        "(a - b) / (a + b) + (a - b)",
        "(a - b) * 2 + (a - b) / (a + b)",
        "(a - b) / (a + b) + (a + b) / (a - b)",
        "(a - b) / (b + a)",
        "((a + 1) - b) / ((a + 1) + b)",
        "(a - 1) / (a + 1)",
        "((a - b) / (a + b) - (a * b) / (a + b)) / 2",
    ] {
        let apart: Vec<f64> = wide
            .iter()
            .enumerate()
            .map(|(n, &a)| {
                let b = wide[b(n)];
                match text {
                    "(a - b) / (a + b) + (a - b)" => (a - b) / (a + b) + (a - b),
                    "(a - b) * 2 + (a - b) / (a + b)" => (a - b) * 2.0 + (a - b) / (a + b),
                    "(a - b) / (a + b) + (a + b) / (a - b)" => (a - b) / (a + b) + (a + b) / (a - b),
                    "(a - b) / (b + a)" => (a - b) / (b + a),
                    "((a + 1) - b) / ((a + 1) + b)" => ((a + 1.0) - b) / ((a + 1.0) + b),
                    "(a - 1) / (a + 1)" => (a - 1.0) / (a + 1.0),
                    _ => ((a - b) / (a + b) - (a * b) / (a + b)) / 2.0,
                }
            })
            .collect();
        let crossed: Vec<f64> = (0..count).map(|n| wide[b(n)]).collect();
        let got = match text.matches('b').count() {
            0 => values(text, &[&wide]),
            _ => values(text, &[&wide, &crossed]),
        };
        for (n, (got, wanted)) in got.unwrap().iter().zip(&apart).enumerate() {
            let same = got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan());
            assert!(same, "{text} {n}: {got} {wanted}");
        }
    }
}

/// Evaluates programs of wide and narrow values in turn with one scratch: their blocks have different
/// lengths.
#[test]
fn blocks_of_any_length_in_turn() {
    let mut scratch = Scratch::default();
    let whole = |bits: u32, n: usize| (n * 2_654_435_761) & ((1 << bits) - 1);
    for count in [1, 255, 256, 257, 511, 512, 513, 1023, 1025, 4095, 4096, 4097, 9000] {
        let small: Vec<u8> = (0..count).map(|n| u8::try_from(whole(7, n)).unwrap()).collect();
        let large: Vec<f64> = (0..count).map(|n| whole(20, n) as f64).collect();
        let middle: Vec<f32> = small.iter().map(|&n| f32::from(n) / 4.0).collect();
        let narrow = Expression::parse("a ^ 3").unwrap();
        let narrow = narrow.compile(&[Kind::UInt8], Kind::UInt8).unwrap();
        let mut out = vec![0; count];
        narrow.evaluate(&[InputBytes::Each(&small)], &mut out, &mut scratch).unwrap();
        assert!(out.iter().zip(&small).all(|(out, a)| *out == a ^ 3), "{count}");
        let wide = Expression::parse("(a - b) * (a + b) + c").unwrap();
        let wide = wide.compile(&[Kind::Float64, Kind::UInt8, Kind::Float32], Kind::Float64).unwrap();
        let bytes: Vec<u8> = large.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let thirds: Vec<u8> = middle.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let inputs = [InputBytes::Each(&bytes), InputBytes::Each(&small), InputBytes::Each(&thirds)];
        let mut out = vec![0; count * 8];
        wide.evaluate(&inputs, &mut out, &mut scratch).unwrap();
        for (n, out) in out.chunks_exact(8).enumerate() {
            let (a, b, c) = (large[n], f64::from(small[n]), f64::from(middle[n]));
            assert_eq!(f64::from_ne_bytes(out.try_into().unwrap()), (a - b) * (a + b) + c, "{count} {n}");
        }
    }
}

#[test]
fn blocks_scalars_and_crooked_memory() {
    let n = 10_001;
    let expression = Expression::parse("a * k + (mask or a > 20000)").unwrap();
    let a: Vec<u8> = (0..n).flat_map(|i| (i as f32).to_ne_bytes()).collect();
    let crooked: Vec<u8> = std::iter::once(0).chain(a.iter().copied()).collect();
    let mask: Vec<u8> = (0..n).map(|i| if i % 3 == 0 { 255 } else { 0 }).collect();
    let k = 2.0f32.to_ne_bytes();
    let program = expression.compile(&[Kind::Float32, Kind::Float32, Kind::Bool], Kind::Float64).unwrap();
    let mut scratch = Scratch::default();
    for input in [&a[..], &crooked[1..]] {
        for skip in 0..2 {
            let mut out = vec![0; n * 8 + skip];
            let inputs = [InputBytes::Each(input), InputBytes::One(&k), InputBytes::Each(&mask)];
            program.evaluate(&inputs, &mut out[skip..], &mut scratch).unwrap();
            for (i, x) in out[skip..].chunks_exact(8).enumerate() {
                let expected = i as f64 * 2.0 + f64::from(u8::from(i % 3 == 0));
                assert_eq!(f64::from_ne_bytes(x.try_into().unwrap()), expected, "{i}");
            }
        }
    }
    let copied = Expression::parse("x").unwrap().compile(&[Kind::Float32], Kind::Float32).unwrap();
    let mut out = vec![0; a.len()];
    copied.evaluate(&[InputBytes::Each(&a)], &mut out, &mut scratch).unwrap();
    assert_eq!(out, a);
    for wrong in [&a[..8], &[]] {
        assert!(copied.evaluate(&[InputBytes::Each(wrong)], &mut out, &mut scratch).is_err());
        assert!(copied.evaluate(&[InputBytes::One(wrong)], &mut out, &mut scratch).is_err());
    }
    assert!(copied.evaluate(&[], &mut out, &mut scratch).is_err());
}

#[test]
fn hostile_texts_are_errors() {
    let deep = [
        format!("{}a{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}a", "-".repeat(5000)),
        format!("{}a", "not ".repeat(5000)),
        format!("a{}", "**a".repeat(5000)),
        format!("a{}", "+a".repeat(5000)),
        format!("min({}a)", "a,".repeat(5000)),
        (0..200).map(|n| format!("d{n}+")).collect::<String>() + "a",
        "a".repeat(100_000),
    ];
    for text in deep {
        assert_eq!(Expression::parse(&text).unwrap_err().kind(), ErrorKind::Limit, "{:.20}", text);
    }
    let fits = format!("{}a{}", "(".repeat(MAX_DEPTH - 1), ")".repeat(MAX_DEPTH - 1));
    assert!(Expression::parse(&fits).is_ok());
    // The maximum number of registers still needs little memory.
    let many: String = (0..MAX_PARTS / 2 - 2).map(|n| format!("{n}.5*")).collect();
    let text = format!("({}) * a", many.trim_end_matches('*'));
    let expression = Expression::parse(&text).unwrap();
    let program = expression.compile(&[Kind::Float64], Kind::Float64).unwrap();
    let mut scratch = Scratch::default();
    program.evaluate(&[InputBytes::Each(&[0; 80])], &mut [0; 80], &mut scratch).unwrap();
    assert!(scratch.kept() < 64 << 20);
}

/// Evaluates random token sequences: every valid one must evaluate in every type, without panics.
#[test]
fn any_words_in_any_order() {
    const WORDS: [&str; 44] = [
        "a", "b", "a", "b", "1", "2.5", "300", "-", "+", "*", "/", "//", "%", "**", "<", "<=", "==", "!=",
        ">", "(", "(", "(", ")", ")", ")", ",", ",", "and", "or", "not", "~", "&", "|", "^", "<<", ">>",
        "where(", "min(", "int8(", "float32(", "round(", "isnan(", "sqrt(", "nan",
    ];
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % n as u64).unwrap()
    };
    let bytes: Vec<u8> = (0..80_u8).map(|n| n.wrapping_mul(37)).collect();
    let mut understood = 0;
    let mut scratch = Scratch::default();
    for _ in 0..60_000 {
        let count = 1 + random(9);
        let text: Vec<_> = (0..count).map(|_| WORDS[random(WORDS.len())]).collect();
        let Ok(expression) = Expression::parse(&text.join(" ")) else { continue };
        understood += 1;
        let kinds: Vec<_> = expression.inputs().iter().map(|_| Kind::ALL[random(11)]).collect();
        let inputs: Vec<_> = kinds.iter().map(|k| InputBytes::Each(&bytes[..10 * k.size()])).collect();
        let Ok(kind) = expression.infer(&kinds) else { continue };
        for output in [kind, Kind::Int16, Kind::Float32] {
            let program = expression.compile(&kinds, output).unwrap();
            let mut out = vec![0; 10 * output.size()];
            let result = program.evaluate(&inputs, &mut out, &mut scratch);
            assert!(result.is_ok() || result.unwrap_err().kind() == ErrorKind::Failed, "{}", text.join(" "));
        }
    }
    assert!(understood > 1000, "{understood}");
}

/// Checks that the time limit is checked between pieces.
#[test]
fn time_is_looked_at() {
    let program = Expression::parse("a + 1").unwrap().compile(&[Kind::UInt8], Kind::UInt8).unwrap();
    let (input, mut out) = (vec![1; 200_000], vec![0; 200_000]);
    let mut asked = 0;
    let mut go_on = || {
        asked += 1;
        if asked < 3 { Ok(()) } else { Err(Error::new(ErrorKind::Limit, "late")) }
    };
    let inputs = [InputBytes::Each(&input)];
    let mut scratch = Scratch::default();
    let error =
        program.evaluate_in_pieces(&inputs, as_output_bytes(&mut out), &mut scratch, &mut go_on).unwrap_err();
    assert_eq!((error.kind(), asked), (ErrorKind::Limit, 3));
    let mut go_on = || Ok::<(), Error>(());
    program.evaluate_in_pieces(&inputs, as_output_bytes(&mut out), &mut scratch, &mut go_on).unwrap();
    assert!(out.iter().all(|&x| x == 2));
}

#[test]
fn test_round_to_odd_keeps_nan() {
    assert!(super::casts::round_to_odd(f64::NAN).is_nan());
}
