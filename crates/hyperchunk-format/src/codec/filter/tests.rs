use super::*;
use crate::ErrorKind;
use crate::model::{Float, Member, Normalization};

fn integer(size: u64, order: ByteOrder, signed: bool) -> Datatype {
    let precision = size as u16 * 8;
    Datatype { size, class: Class::Integer { order, signed, offset: 0, precision } }
}

fn double(order: ByteOrder) -> Datatype {
    let float = Float {
        order,
        offset: 0,
        precision: 64,
        sign: 63,
        exponent_at: 52,
        exponent_bits: 11,
        exponent_bias: 1023,
        mantissa_at: 0,
        mantissa_bits: 52,
        normalization: Normalization::Implied,
    };
    Datatype { size: 8, class: Class::Float(float) }
}

fn array(count: u64, base: Datatype) -> Datatype {
    Datatype { size: count * base.size, class: Class::Array { dims: vec![count], base: Box::new(base) } }
}

fn compound(size: u64, members: Vec<(u64, Datatype)>) -> Datatype {
    let member = |(offset, datatype)| Member { name: "m".into(), offset, datatype };
    Datatype { size, class: Class::Compound { members: members.into_iter().map(member).collect() } }
}

fn check(id: u16, options: &[u32], datatype: &Datatype, chunk: &[u64]) -> Result<Vec<u32>, ErrorKind> {
    let target = Target { datatype, chunk, fill: &FillWhen::Default };
    let filter = filter(id, options, &target).map_err(|error| error.kind())?;
    assert_eq!(filter.optional, id != 3);
    assert_eq!(filter.id, id);
    Ok(filter.parameters)
}

/// Client data as stored by h5py 3.16 with hdf5plugin 7.1.
#[test]
fn as_the_libraries_store_it() {
    let i4 = integer(4, ByteOrder::Little, true);
    let u2 = integer(2, ByteOrder::Little, false);
    let f8 = double(ByteOrder::Big);
    let string = Datatype { size: 5, class: Class::Opaque { tag: "".into() } };
    let three = array(3, i4.clone());
    let blosc = [0, 0, 0, 0, 5, 1, 0];
    for (id, options, datatype, chunk, expected) in [
        (1, &[4][..], &i4, &[10, 20][..], &[4][..]),
        (1, &[], &i4, &[10], &[6]),
        (2, &[], &string, &[10], &[5]),
        (2, &[], &three, &[10], &[12]),
        (3, &[], &i4, &[10], &[]),
        (4, &[32, 8], &i4, &[10, 20], &[169, 8, 32, 20]),
        (4, &[], &i4, &[100], &[169, 8, 32, 100]),
        (4, &[32, 8], &f8, &[3, 4, 5], &[177, 8, 64, 60]),
        (4, &[4, 16], &u2, &[5000], &[141, 16, 16, 2048]),
        (4, &[4, 16], &u2, &[4000], &[141, 16, 16, 2048]),
        (4, &[4, 32], &u2, &[4, 16], &[141, 32, 16, 64]),
        (307, &[], &i4, &[10], &[9]),
        (32000, &[], &i4, &[10, 20], &[4, 261, 800]),
        (32001, &blosc, &i4, &[10, 20], &[2, 2, 4, 800, 5, 1, 0]),
        (32001, &blosc, &three, &[10], &[2, 2, 4, 120, 5, 1, 0]),
        (32003, &[], &i4, &[10], &[]),
        (32003, &[1024], &i4, &[10], &[1024]),
        (32004, &[0], &i4, &[10], &[0]),
        (32008, &[0, 2], &i4, &[10], &[0, 4, 4, 0, 2]),
        (32008, &[0, 3, 3], &f8, &[10], &[0, 4, 8, 0, 3, 3]),
        (32015, &[], &i4, &[10], &[3]),
        (32026, &blosc, &i4, &[10, 20], &[1, 0, 4, 800, 5, 1, 0, 2, 10, 20]),
        (32026, &blosc, &u2, &[7], &[1, 0, 2, 14, 5, 1, 0]),
        (32013, &[1, 2, 3], &i4, &[10], &[1, 2, 3]),
    ] {
        assert_eq!(check(id, options, datatype, chunk).unwrap(), expected, "{id} {options:?} {chunk:?}");
    }
}

#[test]
fn scale_offset_with_fill_values() {
    let check = |options: [u32; 2], datatype: &Datatype, fill: FillWhen, expected: &[u32]| {
        let target = Target { datatype, chunk: &[3, 4, 5], fill: &fill };
        let parameters = filter(6, &options, &target).unwrap().parameters;
        assert_eq!(parameters.len(), 20);
        assert_eq!(&parameters[..10], expected);
        assert_eq!(&parameters[10..], [0; 10]);
    };
    let i4 = integer(4, ByteOrder::Little, true);
    check([2, 3], &i4, FillWhen::User(vec![7, 0, 0, 0]), &[2, 3, 60, 0, 4, 1, 0, 1, 7, 0]);
    check([2, 0], &i4, FillWhen::Default, &[2, 0, 60, 0, 4, 1, 0, 1, 0, 0]);
    check([2, 0], &i4, FillWhen::Undefined, &[2, 0, 60, 0, 4, 1, 0, 0, 0, 0]);
    let u2 = integer(2, ByteOrder::Big, false);
    check([2, 0], &u2, FillWhen::User(vec![1, 2]), &[2, 0, 60, 0, 2, 0, 1, 1, 0x0102, 0]);
    let seven = 7_f64.to_be_bytes().to_vec();
    check(
        [0, 3],
        &double(ByteOrder::Big),
        FillWhen::User(seven),
        &[0, 3, 60, 1, 8, 0, 1, 1, 0, 1_075_576_832],
    );
}

#[test]
fn nbit_describes_types() {
    let number = |offset, precision| Datatype {
        size: 2,
        class: Class::Integer { order: ByteOrder::Little, signed: false, offset, precision },
    };
    let other = Datatype { size: 3, class: Class::Opaque { tag: "".into() } };
    let nbit = |datatype: &Datatype| check(5, &[], datatype, &[5]);
    assert_eq!(nbit(&number(0, 16)).unwrap(), [8, 1, 5, 1, 2, 0, 16, 0]);
    assert_eq!(nbit(&number(2, 12)).unwrap(), [8, 0, 5, 1, 2, 0, 12, 2]);
    assert_eq!(nbit(&other).unwrap(), [3, 1, 5]);
    let sixteen = compound(16, vec![(1, number(0, 12)), (4, other.clone()), (8, array(3, number(4, 9)))]);
    let expected = [23, 0, 5, 3, 16, 3, 1, 1, 2, 0, 12, 0, 4, 4, 3, 8, 2, 6, 1, 2, 0, 9, 4];
    assert_eq!(nbit(&sixteen).unwrap(), expected);
    let vlen = Datatype { size: 16, class: Class::Vlen { base: Box::new(number(0, 16)) } };
    let padded = compound(32, vec![(0, vlen.clone()), (20, number(0, 15))]);
    assert_eq!(nbit(&padded).unwrap(), [15, 0, 5, 3, 32, 2, 0, 4, 20, 20, 1, 2, 0, 15, 0]);
    assert_eq!(nbit(&array(2, vlen)), Err(ErrorKind::Unsupported));
    let arrays = array(2, array(3, number(0, 12)));
    assert_eq!(nbit(&arrays).unwrap(), [12, 0, 5, 2, 12, 2, 6, 1, 2, 0, 12, 0]);
    let last = compound(14, vec![(0, number(0, 12)), (2, arrays.clone())]);
    nbit(&last).unwrap();
    assert_eq!(nbit(&compound(14, vec![(0, arrays), (12, number(0, 12))])), Err(ErrorKind::Unsupported));
    assert_eq!(nbit(&compound(16, vec![(0, last), (14, other)])), Err(ErrorKind::Unsupported));
}

#[test]
fn what_cannot_be() {
    let i4 = integer(4, ByteOrder::Little, true);
    let vax = integer(4, ByteOrder::Vax, true);
    let odd = integer(5, ByteOrder::Little, true);
    let big = Datatype { size: 1 << 40, class: Class::Opaque { tag: "".into() } };
    let (invalid, unsupported, limit) = (ErrorKind::Invalid, ErrorKind::Unsupported, ErrorKind::Limit);
    for (id, options, datatype, chunk, kind) in [
        (1, &[10][..], &i4, &[10][..], invalid),
        (1, &[1, 2], &i4, &[10], invalid),
        (2, &[4, 4], &i4, &[10], invalid),
        (2, &[], &big, &[10], limit),
        (4, &[32, 8], &i4, &[7], invalid),
        (4, &[32, 7], &i4, &[70], invalid),
        (4, &[36, 8], &i4, &[70], invalid),
        (4, &[32, 8], &vax, &[70], unsupported),
        (4, &[32, 8], &odd, &[70], unsupported),
        (5, &[], &vax, &[70], unsupported),
        (5, &[], &i4, &[1 << 20, 1 << 20], limit),
        (5, &[], &i4, &[1 << 40, 1 << 40], limit),
        (6, &[2, 0], &vax, &[70], unsupported),
        (6, &[2, 0], &odd, &[70], unsupported),
        (6, &[2, 33], &i4, &[70], invalid),
        (6, &[0, 3], &i4, &[70], invalid),
        (6, &[2], &i4, &[70], invalid),
        (307, &[0], &i4, &[70], invalid),
        (32001, &[0, 0, 0, 0, 10], &i4, &[70], invalid),
        (32003, &[1023], &i4, &[70], invalid),
        (32003, &[65_536], &i4, &[70], invalid),
        (32008, &[4], &i4, &[70], invalid),
        (32008, &[0, 1], &i4, &[70], invalid),
        (32015, &[0], &i4, &[70], invalid),
    ] {
        assert_eq!(check(id, options, datatype, chunk), Err(kind), "{id} {options:?} {chunk:?}");
    }
}

#[test]
fn presets() {
    let ids = |name: &str, datatype: &Datatype| {
        let target = Target { datatype, chunk: &[10], fill: &FillWhen::Default };
        preset(name, &target).map(|pipeline| pipeline.iter().map(|filter| filter.id).collect::<Vec<_>>())
    };
    let (i4, i1) = (integer(4, ByteOrder::Little, true), integer(1, ByteOrder::Little, true));
    assert_eq!(ids("deflate", &i4).unwrap(), [2, 1]);
    assert_eq!(ids("deflate", &i1).unwrap(), [1]);
    assert_eq!(ids("fast", &i4).unwrap(), [32008]);
    assert_eq!(ids("small", &i4).unwrap(), [2, 32015]);
    assert_eq!(ids("snappy", &i4).unwrap(), [2, 32003]);
    assert_eq!(ids("none", &i4).unwrap(), []);
    PRESETS.iter().for_each(|(name, _)| assert!(ids(name, &i4).is_ok(), "{name}"));
    let error = ids("gzip", &i4).unwrap_err();
    assert!(error.message().contains("deflate, fast, small, snappy, none; deflate has"), "{error}");
}

/// Programs copy `compression_opts` from stored client data.
#[test]
fn what_is_stored_is_taken_again() {
    let i2 = integer(2, ByteOrder::Little, true);
    let f8 = double(ByteOrder::Little);
    for (id, options) in [
        (1, &[4][..]),
        (2, &[]),
        (4, &[32, 8]),
        (6, &[2, 5]),
        (5, &[]),
        (307, &[3]),
        (32000, &[]),
        (32001, &[0, 0, 0, 0, 5, 1, 0]),
        (32004, &[0]),
        (32008, &[0, 2]),
        (32008, &[]),
        (32008, &[64, 3, 5]),
        (32015, &[7]),
        (32026, &[0, 0, 0, 0, 5, 1, 0]),
    ] {
        let stored = check(id, options, &i2, &[100, 20]).unwrap();
        if id == 32008 && options == [64, 3, 5] {
            assert_eq!(stored, [0, 4, 2, 64, 3, 5]);
        }
        assert_eq!(check(id, &stored, &i2, &[100, 20]), Ok(stored.clone()), "{id} {options:?}");
        if id != 6 {
            let other = check(id, options, &f8, &[50, 40, 8]);
            assert_eq!(check(id, &stored, &f8, &[50, 40, 8]), other, "{id} {options:?}, other elements");
        }
    }
    // Client data of bitshuffle 0.3, and options that are no client data.
    assert_eq!(check(32008, &[0, 3, 2, 0, 2], &i2, &[100]), Ok(vec![0, 4, 2, 0, 2]));
    assert_eq!(check(32008, &[0, 3, 4], &i2, &[100]), Ok(vec![0, 4, 2, 0, 3, 4]));
    assert_eq!(check(32008, &[0, 7], &i2, &[100]), Err(ErrorKind::Invalid));
}
