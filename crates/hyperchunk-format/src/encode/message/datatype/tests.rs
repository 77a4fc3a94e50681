use super::*;
use crate::ErrorKind;
use crate::model::CharacterSet;

fn of(size: u64, class: Class) -> Datatype {
    Datatype { size, class }
}

fn i16() -> Datatype {
    Datatype::integer(2, true, ByteOrder::Little)
}

fn member(name: &str, offset: u64, datatype: Datatype) -> Member {
    Member { name: name.into(), offset, datatype }
}

fn compound(size: u64, members: Vec<Member>) -> Datatype {
    of(size, Class::Compound { members })
}

fn array(dims: &[u64], base: Datatype) -> Datatype {
    let size = dims.iter().product::<u64>() * base.size;
    of(size, Class::Array { dims: dims.to_vec(), base: Box::new(base) })
}

fn vlen(base: Datatype) -> Datatype {
    of(16, Class::Vlen { base: Box::new(base) })
}

fn text(charset: CharacterSet) -> Datatype {
    of(16, Class::VlenString { padding: StringPadding::NullTerminated, charset })
}

fn enumeration(base: Datatype, names: &[&str]) -> Datatype {
    let value = |number: usize| {
        let mut value = vec![0; usize::try_from(base.size).unwrap()];
        value[0] = number as u8;
        value
    };
    let member = |(number, name): (usize, &&str)| EnumMember { name: (*name).into(), value: value(number) };
    let members = names.iter().enumerate().map(member).collect();
    of(base.size, Class::Enum { base: Box::new(base), members })
}

fn leaves() -> Vec<Datatype> {
    let mut all = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for size in [1, 2, 3, 4, 8, 16] {
            all.push(Datatype::integer(size, true, order));
            all.push(Datatype::integer(size, false, order));
            all.push(of(size.into(), Class::Bitfield { order, offset: 1, precision: 5 }));
        }
        all.push(of(4, Class::Integer { order, signed: true, offset: 3, precision: 20 }));
        all.extend([2, 4, 8].map(|size| Datatype::ieee(size, order)));
        all.push(of(4, Class::Time { order, precision: 32 }));
    }
    for padding in [StringPadding::NullTerminated, StringPadding::NullPadded, StringPadding::SpacePadded] {
        for charset in [CharacterSet::Ascii, CharacterSet::Utf8] {
            all.push(of(5, Class::String { padding, charset }));
            all.push(of(16, Class::VlenString { padding, charset }));
        }
    }
    for tag in ["", "tag", "8 bytes.", &"x".repeat(248)] {
        all.push(of(7, Class::Opaque { tag: tag.into() }));
    }
    all.push(of(8, Class::Reference(ReferenceKind::Object1)));
    all.push(of(12, Class::Reference(ReferenceKind::Region1)));
    all
}

#[test]
fn what_is_written_is_read() {
    // The encoder checks its own result; this only tests that it accepts them all.
    for oldest in [LibVersion::V18, LibVersion::V110, LibVersion::V200] {
        let check = |datatype: &Datatype| drop(encode(datatype, oldest).unwrap());
        for leaf in leaves() {
            check(&leaf);
            check(&vlen(leaf.clone()));
            check(&vlen(vlen(leaf.clone())));
            check(&array(&[3, 2], leaf.clone()));
            check(&vlen(array(&[3], array(&[2], leaf.clone()))));
            let inner = compound(leaf.size + 3, vec![member("", 3, leaf.clone())]);
            check(&inner);
            let size = inner.size * 2 + 1000;
            let long = "a longer name of a member";
            check(&compound(
                size,
                vec![member("a", inner.size, array(&[2], leaf.clone())), member(long, 0, inner)],
            ));
        }
        check(&enumeration(i16(), &["no", "yes", "a longer name"]));
        check(&enumeration(Datatype::integer(8, false, ByteOrder::Big), &[]));
        for size in [1, 255, 256, 65_535, 65_536, 0xff_ffff, 0x100_0000, u64::from(u32::MAX)] {
            let last = Datatype::integer(1, false, ByteOrder::Little);
            check(&compound(size, vec![member("seven77", size - 1, last)]));
        }
    }
}

#[test]
fn versions_are_the_lowest_that_serve() {
    let first = |datatype: &Datatype, oldest| encode(datatype, oldest).unwrap()[0];
    let check = |datatype: &Datatype, low: u8, high: u8| {
        assert_eq!(
            (first(datatype, LibVersion::V18), first(datatype, LibVersion::V110)),
            (low, high),
            "{datatype:?}"
        );
    };
    check(&i16(), 0x10, 0x10);
    check(&enumeration(i16(), &["a"]), 0x18, 0x38);
    check(&array(&[2], i16()), 0x2a, 0x3a);
    let flat = compound(4, vec![member("a", 0, i16())]);
    check(&flat, 0x16, 0x36);
    check(&compound(4, vec![member("a", 0, array(&[2], i16()))]), 0x26, 0x36);
    check(&vlen(i16()), 0x19, 0x19);
    check(&vlen(flat), 0x19, 0x39);
    check(&vlen(array(&[2], i16())), 0x29, 0x39);
    check(&text(CharacterSet::Utf8), 0x19, 0x19);
}

#[test]
fn new_types_need_new_readers() {
    let Class::Float(float) = Datatype::ieee(4, ByteOrder::Little).class else { panic!() };
    let vax = of(4, Class::Float(Float { order: ByteOrder::Vax, ..float }));
    assert_eq!(encode(&vax, LibVersion::V18).unwrap()[0], 0x31);
    let pair = compound(8, vec![member("a", 0, vax), member("b", 4, i16())]);
    assert_eq!(encode(&pair, LibVersion::V18).unwrap()[0], 0x36);
    let complex = of(8, Class::Complex { base: Box::new(Datatype::ieee(4, ByteOrder::Big)) });
    let new = [
        complex.clone(),
        compound(8, vec![member("a", 0, complex)]),
        of(18, Class::Reference(ReferenceKind::Object2)),
        array(&[2], of(18, Class::Reference(ReferenceKind::Region2))),
        of(18, Class::Reference(ReferenceKind::Attribute)),
    ];
    for (datatype, first) in new.iter().zip([0x5b, 0x56, 0x47, 0x4a, 0x47]) {
        for oldest in [LibVersion::V18, LibVersion::V110] {
            assert_eq!(encode(datatype, oldest).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        assert_eq!(encode(datatype, LibVersion::V200).unwrap()[0], first);
    }
}

#[test]
fn what_cannot_be_stored_is_not_written() {
    let refused = |datatype: &Datatype, kind| {
        let error = encode(datatype, LibVersion::V200).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    };
    let invalid = |datatype: &Datatype| refused(datatype, ErrorKind::Invalid);
    let limit = |datatype: &Datatype| refused(datatype, ErrorKind::Limit);
    invalid(&compound(4, vec![]));
    invalid(&compound(4, vec![member("a", 0, i16()), member("a", 2, i16())]));
    invalid(&compound(4, vec![member("a", 0, i16()), member("b", 1, i16())]));
    invalid(&compound(4, vec![member("a", 3, i16())]));
    invalid(&compound(4, vec![member("a\0", 0, i16())]));
    invalid(&of(5, Class::Array { dims: vec![2], base: Box::new(i16()) }));
    invalid(&array(&[], i16()));
    invalid(&of(8, vlen(i16()).class));
    invalid(&of(4, Class::Reference(ReferenceKind::Object1)));
    invalid(&of(0, Class::Opaque { tag: "".into() }));
    invalid(&of(4, Class::Opaque { tag: "a\0b".into() }));
    invalid(&enumeration(i16(), &[""]));
    invalid(&enumeration(Datatype::ieee(4, ByteOrder::Little), &["a"]));
    invalid(&of(2, Class::Integer { order: ByteOrder::Little, signed: true, offset: 1, precision: 16 }));
    limit(&of(4, Class::Opaque { tag: "x".repeat(249).as_str().into() }));
    limit(&of(1 << 32, Class::Opaque { tag: "".into() }));
    limit(&array(&[1 << 32], Datatype::integer(1, false, ByteOrder::Little)));
    let nested = |depth| (0..depth).fold(i16(), |inner, _| vlen(inner));
    assert!(encode(&nested(32), LibVersion::V18).is_ok());
    limit(&nested(33));
    limit(&nested(2_000));
    let vax = Class::Integer { order: ByteOrder::Vax, signed: true, offset: 0, precision: 16 };
    refused(&of(2, vax), ErrorKind::Unsupported);
}
