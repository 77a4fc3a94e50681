use super::*;
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use hyperchunk::model::{
    ByteOrder, CharacterSet, Class, EnumMember, Float, Member, Name, ReferenceKind, StringPadding,
};

fn integer(size: u16, order: ByteOrder) -> Datatype {
    Datatype::integer(size, true, order)
}

fn string(size: u64, padding: StringPadding) -> Datatype {
    Datatype { size, class: Class::String { padding, charset: CharacterSet::Utf8 } }
}

fn compound(members: &[(&str, u64, Datatype)], size: u64) -> Datatype {
    let members = members.iter().map(|(name, offset, datatype)| Member {
        name: Name::from(*name),
        offset: *offset,
        datatype: datatype.clone(),
    });
    Datatype { size, class: Class::Compound { members: members.collect() } }
}

/// Checks the type of a column, its conversion back to the datatype, and one of its arrays in debug form.
fn check(
    datatype: &Datatype,
    cell: &[u64],
    conversion: &ConversionOptions,
    stored: &[u8],
    data_type: &str,
    values: &str,
) {
    let column = ColumnType::new("a", datatype, cell, conversion).unwrap();
    assert_eq!(datatype_from_field(column.field()).unwrap(), (portable(datatype).unwrap(), cell.to_vec()));
    assert_eq!(column.field().data_type().to_string(), data_type);
    let rows = stored.len().checked_div(column.row_size()).unwrap_or(3);
    let array = column.array(Buffer::from(stored), rows, None).unwrap();
    assert_eq!((array.len(), array.data_type()), (rows, column.field().data_type()));
    array.to_data().validate_full().unwrap();
    let text: String = format!("{array:?}").split_whitespace().collect();
    assert!(text.contains(&values.split_whitespace().collect::<String>()), "{text}");
}

#[test]
fn numbers() {
    let conversion = ConversionOptions::default();
    check(&integer(2, ByteOrder::Little), &[], &conversion, &[1, 0, 2, 0], "Int16", "[1,2,]");
    check(&integer(2, ByteOrder::Big), &[], &conversion, &[0, 1, 0, 2], "Int16", "[1,2,]");
    let odd = Class::Integer { order: ByteOrder::Little, signed: true, offset: 4, precision: 8 };
    check(
        &Datatype { size: 2, class: odd },
        &[],
        &conversion,
        &[0x1F, 0xA3, 0xF0, 0x0F],
        "Int16",
        "[49,-1,]",
    );
    check(&integer(3, ByteOrder::Little), &[], &conversion, &[1, 2, 3], "FixedSizeBinary(3)", "[1,2,3]");
    check(&Datatype::ieee(4, ByteOrder::Big), &[], &conversion, &1.5_f32.to_be_bytes(), "Float32", "[1.5,]");
    check(&Datatype::ieee(2, ByteOrder::Little), &[], &conversion, &[0, 0x3C], "Float16", "[1.0,]");
    let half = ConversionOptions { half: Half::Float32, ..conversion };
    check(&Datatype::ieee(2, ByteOrder::Little), &[], &half, &[0, 0x3C], "Float32", "[1.0,]");
    let Class::Float(ieee) = Datatype::ieee(2, ByteOrder::Little).class else { panic!() };
    let brain = Float { exponent_bits: 8, exponent_at: 7, mantissa_bits: 7, exponent_bias: 127, ..ieee };
    check(
        &Datatype { size: 2, class: Class::Float(brain) },
        &[],
        &conversion,
        &[0x80, 0x3F],
        "UInt16",
        "[16256,]",
    );
}

#[test]
fn times_of_numpy_in_units_that_arrow_lacks() {
    let conversion = ConversionOptions::default();
    let time = |tag: &str| Datatype { size: 8, class: Class::Opaque { tag: tag.into() } };
    let stored = |times: &[i64]| times.iter().flat_map(|time| time.to_le_bytes()).collect::<Vec<u8>>();
    let units = [
        ("NUMPY:<M8[D]", "Date32", "[1970-01-03,null,]"),
        ("NUMPY:<M8[h]", "Timestamp(s)", "[1970-01-01T02:00:00,null,]"),
        ("NUMPY:<M8[m]", "Timestamp(s)", "[1970-01-01T00:02:00,null,]"),
        ("NUMPY:<M8[W]", "Timestamp(s)", "[1970-01-15T00:00:00,null,]"),
        ("NUMPY:<m8[D]", "Duration(s)", "[172800,null,]"),
        ("NUMPY:<m8[h]", "Duration(s)", "[7200,null,]"),
    ];
    for (tag, data_type, values) in units {
        check(&time(tag), &[], &conversion, &stored(&[2, i64::MIN]), data_type, values);
    }
    let bytes = [2, i64::MIN].map(i64::to_be_bytes).concat();
    check(&time("NUMPY:>M8[D]"), &[], &conversion, &bytes, "Date32", "[1970-01-03,null,]");
    for tag in ["NUMPY:<M8[D]", "NUMPY:<M8[h]", "NUMPY:<m8[W]"] {
        let column = ColumnType::new("a", &time(tag), &[], &conversion).unwrap();
        let error = column.array(Buffer::from(stored(&[i64::MAX / 7])), 1, None).unwrap_err();
        assert!(error.to_string().contains("is beyond those of"), "{error}");
    }
    let months = ColumnType::new("a", &time("NUMPY:<M8[M]"), &[], &conversion).unwrap();
    assert_eq!(*months.field().data_type(), DataType::FixedSizeBinary(8));
}

#[test]
fn rows_of_several_elements() {
    let stored: Vec<u8> = (0..24).collect();
    let byte = Datatype::integer(1, false, ByteOrder::Little);
    let conversion = ConversionOptions::default();
    check(&byte, &[2, 3], &conversion, &stored, "FixedSizeList(6 x non-null UInt8)", "[0,1,2,3,4,5,]");
    let lists = ConversionOptions { cells: Cells::List, ..conversion };
    let nested = "FixedSizeList(2 x non-null FixedSizeList(3 x non-null UInt8))";
    check(&byte, &[2, 3], &lists, &stored, nested, "[3,4,5,]");
    check(&byte, &[3, 0, 2], &conversion, &[], "FixedSizeList(0 x non-null UInt8)", "[]");
    check(
        &string(2, StringPadding::NullPadded),
        &[2],
        &conversion,
        b"a\0bb",
        "FixedSizeList(2 x non-null LargeUtf8)",
        "\"a\",\"bb\"",
    );
}

#[test]
fn strings_and_compounds() {
    let conversion = ConversionOptions::default();
    check(
        &string(3, StringPadding::NullTerminated),
        &[],
        &conversion,
        b"a\0babc",
        "LargeUtf8",
        "[\"a\",\"abc\",]",
    );
    check(&string(3, StringPadding::SpacePadded), &[], &conversion, b" a    ", "LargeUtf8", "[\" a\",\"\",]");
    let stored = ConversionOptions { strings: Strings::Stored, ..conversion };
    check(&string(3, StringPadding::SpacePadded), &[], &stored, b" a ", "FixedSizeBinary(3)", "[32,97,32]");
    let pair =
        compound(&[("x", 4, integer(2, ByteOrder::Big)), ("s", 0, string(2, StringPadding::NullPadded))], 8);
    let bytes = [b'h', b'i', 9, 9, 0, 7, 9, 9];
    check(
        &pair,
        &[],
        &conversion,
        &bytes,
        "Struct(\"x\": non-null Int16, \"s\": non-null LargeUtf8)",
        "[7,]",
    );
    let float = Datatype::ieee(4, ByteOrder::Little);
    let complex = compound(&[("r", 0, float.clone()), ("i", 4, float)], 8);
    let bytes: Vec<u8> = [1.0_f32, -2.0].iter().flat_map(|part| part.to_le_bytes()).collect();
    check(&complex, &[], &conversion, &bytes, "FixedSizeList(2 x non-null Float32)", "[1.0,-2.0,]");
    assert_eq!(ColumnType::new("a", &complex, &[], &conversion).unwrap().zero_copy(), Some(4));
}

#[test]
fn enumerations() {
    let member = |name: &str, value: u8| EnumMember { name: Name::from(name), value: vec![value] };
    let enumeration = |members: Vec<EnumMember>| Datatype {
        size: 1,
        class: Class::Enum { base: Box::new(integer(1, ByteOrder::Little)), members },
    };
    let colours = enumeration(vec![member("red", 0), member("green", 255)]);
    let conversion = ConversionOptions::default();
    check(&colours, &[], &conversion, &[0, 255, 7], "Int8", "[0,-1,7,]");
    let column = ColumnType::new("a", &colours, &[], &conversion).unwrap();
    assert_eq!(column.field().metadata()[metadata::ENUM], r#"{"red":0,"green":-1}"#);
    let names = ConversionOptions { enums: Enums::Dictionary, ..conversion };
    check(&colours, &[], &names, &[0, 255], "Dictionary(Int32, Utf8)", "\"green\"");
    let column = ColumnType::new("a", &colours, &[], &names).unwrap();
    assert!(column.array(Buffer::from(&[7_u8]), 1, None).is_err());
    let truth = enumeration(vec![member("FALSE", 0), member("TRUE", 1)]);
    let column = ColumnType::new("a", &truth, &[], &conversion).unwrap();
    assert_eq!(column.field().extension_type_name(), Some("arrow.bool8"));
    assert_eq!(datatype_from_field(&Field::new("b", DataType::Boolean, false)).unwrap().0, truth);
}

#[test]
fn narrow_files_have_portable_types() {
    let narrow = |size, class| Datatype { size, class };
    let text = Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
    let members = [
        ("a", 16, integer(2, ByteOrder::Little)),
        ("r", 0, narrow(4, Class::Reference(ReferenceKind::Object1))),
        ("s", 4, narrow(12, text)),
    ];
    let Class::Compound { members } = portable(&compound(&members, 20)).unwrap().class else { panic!() };
    let offsets: Vec<u64> = members.iter().map(|member| member.offset).collect();
    assert_eq!(offsets, [24, 0, 8]);
}

#[test]
fn nothing_to_fear() {
    let conversion = ConversionOptions::default();
    let byte = Datatype::integer(1, false, ByteOrder::Little);
    assert!(ColumnType::new("a", &byte, &[1 << 40], &conversion).is_err());
    assert!(ColumnType::new("a", &byte, &[u64::MAX, u64::MAX], &conversion).is_err());
    let deep =
        (0..100).fold(byte, |base, _| Datatype { size: 16, class: Class::Vlen { base: Box::new(base) } });
    assert!(ColumnType::new("a", &deep, &[], &conversion).is_err());
    for wrong in ["", "?", "AAAA", "EAgAAAQAAAAAACAA////"] {
        let metadata = [(metadata::DTYPE.to_owned(), wrong.to_owned())];
        let field = Field::new("a", DataType::Int8, false).with_metadata(metadata);
        drop(datatype_from_field(&field));
    }
}
