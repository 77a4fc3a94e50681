//! Tests of conversions against libhdf5's results, and of their parts against each other.

mod spec;

use super::*;
use crate::ErrorKind;
use crate::model::{ByteOrder, Class, Datatype, Member, Name, ReferenceKind};
use spec::parse;

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn run(from: &str, to: &str, elements: &str) -> String {
    let (from, to) = (parse(from), parse(to));
    let conversion = Conversion::new(&from, &to).unwrap();
    let elements = bytes(elements);
    let count = elements.len() / from.size as usize;
    let mut result = vec![0; count * to.size as usize];
    conversion.run(&elements, &mut result, count).unwrap();
    result.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn as_libhdf5() {
    let golden = include_str!("tests/golden.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in golden {
        let mut words = line.split(' ');
        let (from, to) = (words.next().unwrap(), words.next().unwrap());
        let (mut sources, mut results) = (String::new(), String::new());
        for word in words {
            let Some((source, result)) = word.split_once('>') else {
                let error = Conversion::new(&parse(from), &parse(to)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conversion, "{line}");
                continue;
            };
            assert_eq!(run(from, to, source), result, "{from} {to} {source}");
            sources += source;
            results += result;
            count += 1;
        }
        // All elements in one call, repeated to exceed one block.
        if !sources.is_empty() {
            assert_eq!(run(from, to, &sources.repeat(60)), results.repeat(60), "{from} {to}");
        }
    }
    assert!(count > 900, "{count}");
}

/// Cases in which libhdf5 2.0 is wrong, or undefined.
#[test]
fn unlike_libhdf5() {
    // -¼ is not the least integer.
    assert_eq!(run("f8be", "i4le", "bfd0000000000000"), "00000000");
    // NaN and 2³¹, left to the compiler.
    assert_eq!(run("f4le", "i4le", "0000c07f0000004f"), "00000000ffffff7f");
    assert_eq!(run("f8le", "u8le", "000000000000f87f000000000000f0ff"), "00000000000000000000000000000000");
    assert_eq!(run("f2le", "u2le", "00c5"), "0000");
    // An infinity in a field with an offset.
    assert_eq!(run("f2le", "i2le+3/7", "00fc"), "0002");
    // Too large for a 2-byte number.
    assert_eq!(run("u4be", "f2le", "00011170"), "007c");
    // Rounded up to the smallest normal number, and from a denormal one.
    assert_eq!(run("f16be", "f4be", "3f80ffffffffffffffffffffffffffff"), "00800000");
    assert_eq!(run("f2le", "f2le(15,7,8,0,7,127,i)", "ff03"), "8038");
    // A carry where the first bit is stored.
    assert_eq!(run("f16le", "x16le", "ffffffffffffffffffffffffffff0440"), "00000000000000800540000000000000");
    // Odd precisions in another order.
    assert_eq!(run("i4be+0/13", "i4le", "00001fff"), "ffffffff");
    // Names that only the target has.
    assert_eq!(run("e(i1le:A=1,C=3)", "e(i1le:A=10,B=20,C=30,D=40)", "010302"), "0a1eff");
    let refused = Conversion::new(&parse("e(i1le:A=1,B=2)"), &parse("e(i1le:A=1)")).unwrap_err();
    assert_eq!(refused.to_string(), "the target enumeration has no value for the name B");
}

#[test]
fn copies_and_places() {
    let conversion = |from: &str, to: &str| Conversion::new(&parse(from), &parse(to)).unwrap();
    for same in ["i4le", "{a@0:i4le,b@8:v(i4le)}24", "s5z", "[3]f8be", "c(f4le)", "t", "[0]i4le"] {
        assert!(conversion(same, same).is_copy(), "{same}");
    }
    assert!(conversion("{a@0:i4le,b@4:f8le}12", "{b@4:f8le,a@0:i4le}12").is_copy());
    assert!(conversion("{r@0:f8le,i@8:f8le}16", "c(f8le)").is_copy());
    assert!(conversion("v(i4be)", "v(f8le)").is_copy());
    assert!(!conversion("{a@0:i4le,b@4:f8le}12", "{a@0:i4le}4").is_copy());
    assert!(!conversion("{a@0:i4le}12", "{a@0:i4le}4").is_copy());

    let mut elements = bytes("0102030411223344aabb");
    assert!(
        conversion("{a@0:[2]u2be,b@4:i4be,c@8:s2n}10", "{a@0:[2]u2le,b@4:i4le,c@8:s2n}10")
            .in_place(&mut elements)
    );
    assert_eq!(elements, bytes("0201040344332211aabb"));
    assert!(conversion("[2]i4be", "[2]i4le").in_place(&mut elements[..8]));
    assert_eq!(elements, bytes("0304010211223344aabb"));
    for size in [1_u16, 2, 3, 4, 5, 8, 16] {
        let [big, little] =
            [ByteOrder::Big, ByteOrder::Little].map(|order| Datatype::integer(size, true, order));
        let conversion = Conversion::new(&big, &little).unwrap();
        let mut elements: Vec<u8> = (0..size as u8 * 7).collect();
        let mut result = vec![0; elements.len()];
        conversion.run(&elements, &mut result, 7).unwrap();
        assert!(conversion.in_place(&mut elements));
        assert_eq!(elements, result);
        assert_eq!(result[0], size as u8 - 1);
    }
    assert!(!conversion("i4le", "f4le").in_place(&mut elements[..4]));
    assert!(!conversion("{a@0:i4be,b@4:i4be}8", "{b@0:i4le,a@4:i4le}8").in_place(&mut elements[..8]));
}

#[test]
fn members_that_the_source_lacks() {
    let conversion = Conversion::new(&parse("{a@0:i1le}1"), &parse("{b@0:i2le,a@2:i2le,c@4:i1le}6")).unwrap();
    let mut result = [7; 12];
    conversion.run(&[0xFF, 2], &mut result, 2).unwrap();
    assert_eq!(result, [7, 7, 0xFF, 0xFF, 7, 7, 7, 7, 2, 0, 7, 7]);
    let error = Conversion::new(&parse("{a@0:i1le}1"), &parse("{a@0:s2z}2")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "member a: HDF5 has no conversion from an integer to a string of fixed length"
    );
}

#[test]
fn refused() {
    let check = |from: &Datatype, to: &Datatype, kind: ErrorKind| {
        let error = Conversion::new(from, to).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    };
    for (from, to) in [
        ("i4le", "t"),
        ("s4n", "i4le"),
        ("i2le", "b2le"),
        ("[2]i4le", "[3]i4le"),
        ("v(i4le)", "i4le"),
        ("{a@0:i4le}4", "[1]i4le"),
        ("i4vax", "i4le"),
        ("i4le+0/0", "i4le"),
        ("i4le+20/20", "i4le"),
        ("i32le+0/200", "i4le"),
        ("f4le(40,23,8,0,23,127,i)", "f4le"),
        ("f4le(31,31,0,0,31,127,i)", "f4le"),
        ("f3vax(15,7,8,0,7,127,i)", "f4le"),
        ("f32le(255,236,19,0,236,127,i)", "f4le"),
    ] {
        check(&parse(from), &parse(to), ErrorKind::Conversion);
    }
    let reference = |kind| Datatype { size: 8, class: Class::Reference(kind) };
    check(&reference(ReferenceKind::Object1), &reference(ReferenceKind::Region1), ErrorKind::Conversion);
    let opaque = |tag: &str| Datatype { size: 8, class: Class::Opaque { tag: Name::from(tag) } };
    check(&opaque("a"), &opaque("b"), ErrorKind::Conversion);
    assert!(Conversion::new(&opaque("a"), &opaque("a")).unwrap().is_copy());
    // Sizes inconsistent with their parts.
    for from in ["{a@2:i4le}4", "{a@0:i4le}2", "{a@-1:i4le}2"] {
        check(&parse(from), &parse("{a@0:i8le}8"), ErrorKind::Invalid);
    }
    let mut array = parse("[3]i4le");
    array.size = 11;
    check(&array, &parse("[3]i8le"), ErrorKind::Invalid);
    array.size = u64::MAX;
    let huge = Class::Array { dims: vec![u64::MAX, 3], base: Box::new(parse("i4le")) };
    check(&Datatype { size: 12, class: huge }, &array, ErrorKind::Conversion);
    let deep = |base: &str| {
        (0..100).fold(parse(base), |base, _| Datatype {
            size: base.size,
            class: Class::Array { dims: vec![1], base: Box::new(base) },
        })
    };
    check(&deep("i4le"), &deep("i4be"), ErrorKind::Limit);

    let conversion = Conversion::new(&parse("i4le"), &parse("i8le")).unwrap();
    let kind = |from: usize, to: usize, count| {
        conversion.run(&vec![0; from], &mut vec![0; to], count).unwrap_err().kind()
    };
    for (from, to, count) in [(4, 8, 2), (4, 4, 1), (3, 8, 1), (8, 8, 1), (0, 0, usize::MAX)] {
        assert_eq!(kind(from, to, count), ErrorKind::Invalid);
    }
    conversion.run(&[], &mut [], 0).unwrap();
}

#[test]
fn in_memory() {
    for (stored, memory) in [
        ("i4be+3/7", "i4le"),
        ("u2be", "u2le"),
        ("i3le", "i3le"),
        ("b2be+1/9", "u2le"),
        ("f8be", "f8le"),
        ("f2be", "f2le"),
        ("f2le(15,7,8,0,7,127,i)", "f4le"),
        ("f1le(7,3,4,0,3,7,i)", "f2le"),
        ("f3le(23,16,7,0,16,63,i)", "f4le"),
        ("f4le(31,23,8,0,23,130,i)", "f8le"),
        ("f4vax(31,23,8,0,23,129,i)", "f8le"),
        ("f8le(63,51,12,0,51,2047,i)", "x16le"),
        ("f12le(79,64,15,0,64,16383,n)", "x16le"),
        ("x16be", "x16le"),
        ("f16be", "f16be"),
        ("s5s", "s5n"),
        ("s5zu", "s5nu"),
        ("e(u2be:A=1)", "u2le"),
        ("[2,3]i4be", "[2,3]i4le"),
        ("[4]f2le(15,7,8,0,7,127,i)", "[4]f4le"),
        ("c(f8be)", "c(f8le)"),
        ("{b@8:i4be,a@2:u1be}16", "{b@0:i4le,a@4:u1le}5"),
        ("{b@8:i4be,a@2:v(i4be)}20", "{a@0:v(i4be),b@16:i4le}20"),
        ("v(i4be)", "v(i4be)"),
        ("t", "t"),
    ] {
        assert_eq!(memory_type(&parse(stored)), parse(memory), "{stored}");
        if stored != memory {
            Conversion::new(&parse(stored), &parse(memory)).unwrap();
        }
    }
    assert_eq!(run("i4be+3/7", "i4le", "fffffbff00000010"), "ffffffff02000000");
    assert_eq!(run("b2be+1/9", "u2le", "ffff"), "ff01");
}

/// No datatype causes a panic, or a write past the end of its element.
#[test]
fn any_type() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % end
    };
    let mut converted = 0;
    for _ in 0..20_000 {
        let mut any = || {
            let size = random(20);
            let order = [ByteOrder::Little, ByteOrder::Big, ByteOrder::Vax][random(3) as usize];
            let mut number = |end| random(end) as u16;
            let class = match number(4) {
                0 => Class::Bitfield { order, offset: number(20), precision: number(140) },
                1 => Class::Integer {
                    order,
                    signed: number(2) == 0,
                    offset: number(20),
                    precision: number(140),
                },
                _ => {
                    let Class::Float(mut float) = parse("f8le").class else { panic!() };
                    (float.order, float.sign) = (order, number(140));
                    (float.exponent_at, float.exponent_bits) = (number(70), number(70));
                    (float.mantissa_at, float.mantissa_bits) = (number(70), number(130));
                    float.exponent_bias = [0, 1, 127, u64::MAX, 1 << 62][number(5) as usize];
                    if number(2) == 0 {
                        float.normalization = crate::model::Normalization::None;
                    }
                    Class::Float(float)
                }
            };
            Datatype { size, class }
        };
        let (from, to) = (any(), any());
        let Ok(conversion) = Conversion::new(&from, &to) else { continue };
        converted += 1;
        let source: Vec<u8> =
            (0..from.size * 3).map(|_| [0, 255, random(256) as u8][random(3) as usize]).collect();
        let mut result = vec![0; to.size as usize * 3];
        conversion.run(&source, &mut result, 3).unwrap();
        let mut single = vec![0; to.size as usize];
        conversion.run(&source[from.size as usize..][..from.size as usize], &mut single, 1).unwrap();
        assert_eq!(single, result[to.size as usize..][..to.size as usize]);
    }
    assert!(converted > 100, "{converted}");
}

#[test]
fn test_elements_are_changed_in_part_if_members_lack() {
    let byte = || Datatype::integer(1, true, ByteOrder::Little);
    let compound = |members: &[(&str, Datatype)]| {
        let mut offset = 0;
        let place = |(name, datatype): &(&str, Datatype)| {
            let member = Member { name: Name::from(*name), offset, datatype: datatype.clone() };
            offset += datatype.size;
            member
        };
        let members = members.iter().map(place).collect();
        Datatype { size: offset, class: Class::Compound { members } }
    };
    let is_partial = |from: &Datatype, to: &Datatype| Conversion::new(from, to).unwrap().is_partial();
    let pair = compound(&[("a", byte()), ("b", byte())]);
    let part = compound(&[("b", byte())]);
    let array = |base: &Datatype| Datatype {
        size: base.size * 2,
        class: Class::Array { dims: vec![2], base: Box::new(base.clone()) },
    };
    assert!(!is_partial(&pair, &part));
    assert!(is_partial(&part, &pair));
    assert!(!is_partial(&byte(), &byte()));
    assert!(is_partial(&array(&part), &array(&pair)));
    let nested = |inner: Datatype| compound(&[("x", byte()), ("y", inner)]);
    assert!(is_partial(&nested(part), &nested(pair.clone())));
    assert!(!is_partial(&nested(pair.clone()), &nested(pair)));
}
