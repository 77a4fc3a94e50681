use super::*;

fn parsed(bytes: &[u8]) -> Result<Datatype> {
    parse(&mut Cursor::new(bytes, "", 0), &Limits::default())
}

fn check(bytes: &[u8], expected: &Datatype) {
    assert_eq!(parsed(bytes).as_ref().ok(), Some(expected), "{bytes:?}");
}

/// Checks that each input is an error, without a panic.
fn refused(all: &[&[u8]]) {
    for bytes in all {
        assert!(parsed(bytes).is_err(), "{bytes:?}");
    }
}

const I16: [u8; 12] = [0x10, 0x08, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0];
const F32: [u8; 20] = [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];

fn i16() -> Datatype {
    Datatype::integer(2, true, ByteOrder::Little)
}

fn of(size: u64, class: Class) -> Datatype {
    Datatype { size, class }
}

#[test]
fn numbers() {
    check(&I16, &i16());
    check(&F32, &Datatype::ieee(4, ByteOrder::Little));
    let mut vax = F32;
    (vax[0], vax[1]) = (0x31, 0x61);
    let class = parsed(&vax).unwrap().class;
    assert!(matches!(class, Class::Float(Float { order: ByteOrder::Vax, .. })), "{class:?}");
    let odd = Class::Integer { order: ByteOrder::Big, signed: false, offset: 3, precision: 9 };
    check(&[0x10, 0x01, 0, 0, 2, 0, 0, 0, 3, 0, 9, 0], &of(2, odd));
    let bits = Class::Bitfield { order: ByteOrder::Little, offset: 0, precision: 8 };
    check(&[0x14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0], &of(1, bits));
    check(
        &[0x12, 0, 0, 0, 4, 0, 0, 0, 32, 0],
        &of(4, Class::Time { order: ByteOrder::Little, precision: 32 }),
    );
    let complex = [&[0x5b, 1, 0, 0, 8, 0, 0, 0][..], &F32].concat();
    check(&complex, &of(8, Class::Complex { base: Box::new(Datatype::ieee(4, ByteOrder::Little)) }));
}

#[test]
fn strings_and_bytes() {
    let string = Class::String { padding: StringPadding::SpacePadded, charset: CharacterSet::Utf8 };
    check(&[0x13, 0x12, 0, 0, 5, 0, 0, 0], &of(5, string));
    let vlen = Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
    let base = [0x13, 0, 0, 0, 1, 0, 0, 0];
    check(&[&[0x19, 0x01, 0x01, 0, 16, 0, 0, 0][..], &base].concat(), &of(16, vlen));
    check(
        &[&[0x19, 0, 0, 0, 16, 0, 0, 0][..], &I16].concat(),
        &of(16, Class::Vlen { base: Box::new(i16()) }),
    );
    check(b"\x15\x08\0\0\x03\0\0\0tag\0\0\0\0\0", &of(3, Class::Opaque { tag: "tag".into() }));
    check(&[0x17, 1, 0, 0, 12, 0, 0, 0], &of(12, Class::Reference(ReferenceKind::Region1)));
    check(&[0x47, 0x12, 0, 0, 18, 0, 0, 0], &of(18, Class::Reference(ReferenceKind::Object2)));
}

#[test]
fn compounds() {
    let pair = |second| {
        let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
        Class::Compound { members: vec![member("a", 0, i16()), member("b", 4, second)] }
    };
    let version_3 = [&[0x36, 2, 0, 0, 6, 0, 0, 0][..], b"a\0\0", &I16, b"b\0\x04", &I16].concat();
    check(&version_3, &of(6, pair(i16())));
    let version_2 = [
        &[0x26, 2, 0, 0, 6, 0, 0, 0][..],
        b"a\0\0\0\0\0\0\0\0\0\0\0",
        &I16,
        b"b\0\0\0\0\0\0\0\x04\0\0\0",
        &I16,
    ]
    .concat();
    check(&version_2, &of(6, pair(i16())));
    let dims = |rank: u8, first: u8| {
        [rank, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, first, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    let version_1 = |rank, first| {
        [
            &[0x16, 2, 0, 0, 16, 0, 0, 0][..],
            b"a\0\0\0\0\0\0\0\0\0\0\0",
            &dims(0, 0),
            &I16,
            b"b\0\0\0\0\0\0\0\x04\0\0\0",
            &dims(rank, first),
            &I16,
        ]
        .concat()
    };
    let array = of(12, Class::Array { dims: vec![3, 2], base: Box::new(i16()) });
    check(&version_1(2, 3), &of(16, pair(array)));
    refused(&[&version_1(2, 4), &version_1(2, 0), &version_1(5, 3)]);
}

#[test]
fn arrays_and_enumerations() {
    let array = of(12, Class::Array { dims: vec![3, 2], base: Box::new(i16()) });
    check(&[&[0x3a, 0, 0, 0, 12, 0, 0, 0, 2, 3, 0, 0, 0, 2, 0, 0, 0][..], &I16].concat(), &array);
    let version_2 = [0x2a, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    check(&[&version_2[..], &I16].concat(), &array);
    let member = |name: &str, value: u8| EnumMember { name: name.into(), value: vec![value, 0] };
    let class = Class::Enum { base: Box::new(i16()), members: vec![member("no", 0), member("yes", 1)] };
    let bytes = [&[0x38, 2, 0, 0, 2, 0, 0, 0][..], &I16, b"no\0yes\0\0\0\x01\0"].concat();
    check(&bytes, &of(2, class));
}

#[test]
fn damage() {
    let changed = |bytes: &[u8], at: usize, to: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = to;
        bytes
    };
    for length in 0..I16.len() {
        refused(&[&I16[..length]]);
    }
    refused(&[
        &changed(&I16, 0, 0x00), // version 0
        &changed(&I16, 0, 0x60), // version 6
        &changed(&I16, 0, 0x1c), // class 12
        &changed(&I16, 4, 0),    // size 0
        &changed(&I16, 8, 1),    // one bit too far
        &changed(&I16, 10, 0),   // precision 0
        &changed(&F32, 1, 0x30), // unknown normalization
        &changed(&F32, 2, 30),   // the sign in the exponent
        &changed(&F32, 2, 32),   // the sign outside
        &changed(&F32, 13, 0),   // no exponent
        &changed(&F32, 14, 20),  // the mantissa outside
        &[0x16, 0, 0, 0, 1, 0, 0, 0],
        &[0x13, 0x03, 0, 0, 1, 0, 0, 0],
        &[0x17, 5, 0, 0, 8, 0, 0, 0],
        &[0x47, 2, 0, 0, 18, 0, 0, 0],
        b"\x15\x07\0\0\x03\0\0\0tag\0\0\0\0\0",
    ]);
    let overlap = [&[0x36, 2, 0, 0, 6, 0, 0, 0][..], b"a\0\x01", &I16, b"b\0\x02", &I16].concat();
    let twice = [&[0x36, 2, 0, 0, 6, 0, 0, 0][..], b"a\0\0", &I16, b"a\0\x02", &I16].concat();
    let outside = [&[0x36, 1, 0, 0, 6, 0, 0, 0][..], b"a\0\x05", &I16].concat();
    let array = [&[0x3a, 0, 0, 0, 11, 0, 0, 0, 2, 3, 0, 0, 0, 2, 0, 0, 0][..], &I16].concat();
    refused(&[&overlap, &twice, &outside, &array]);
}

#[test]
fn nesting_ends() {
    let nested = |depth: usize| {
        let mut bytes = [0x19, 0, 0, 0, 16, 0, 0, 0].repeat(depth);
        bytes.extend(I16);
        parsed(&bytes)
    };
    assert!(nested(32).is_ok());
    assert_eq!(nested(33).unwrap_err().kind(), crate::ErrorKind::Limit);
}
