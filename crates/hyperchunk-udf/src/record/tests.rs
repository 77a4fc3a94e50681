use super::*;
use crate::datatype::ElementType;

pub(crate) fn sample() -> Record {
    let slot =
        |name: &str| Slot { name: name.into(), datatype: ElementType::Float32.into(), dims: vec![10, 7] };
    Record {
        id: LiveId([3; 16]),
        backend: Backend::Lua,
        output: slot("NDVI"),
        inputs: vec![slot("NIR"), slot("/g/Red")],
        scratch: vec![slot("other")],
        chunk: vec![4, 7],
        blockwise: true,
        created: "2026-01-01T00:00:00Z".into(),
        source: "function dynamic_dataset() end -- ü\n".into(),
        compiled: Some(Compiled { target: "x86_64-linux-gnu".into(), object: vec![5; 5000] }),
        signature: Some(Signature {
            name: "A".into(),
            email: "a@b".into(),
            public_key: [1; 32],
            value: [2; 64],
        }),
    }
}

#[test]
fn round_trip_and_blocks() {
    let record = sample();
    let bytes = record.encode().unwrap();
    assert_eq!(Record::parse(&bytes).unwrap(), record);
    assert_eq!(record.block(&[2, 0]).unwrap(), (vec![8, 0], vec![2, 7]));
    assert!(record.block(&[3, 0]).is_err());
    assert!(record.block(&[u64::MAX, 0]).is_err());
    assert!(record.block(&[0]).is_err());
}

/// The record with one piece of its JSON replaced is refused with `expected` in the message.
fn check(from: &str, to: &str, expected: &str) {
    let text = String::from_utf8(sample().encode().unwrap()).unwrap();
    assert!(text.contains(from), "{from} is in {text}");
    let error = Record::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
    assert!(error.contains(expected), "{from} -> {to}: {error}");
}

#[test]
fn damaged_records_are_refused() {
    check("\"api_version\":3", "\"api_version\":4", "record version 4");
    check("\"api_version\":3", "\"api_version\":3,\"api_version\":3", "duplicate field");
    check("\"blockwise\":true", "\"blockwise\":true,\"evil\":1", "unknown field");
    check("\"blockwise\":true", "\"blockwise\":false", "one chunk");
    check("\"bytecode_size\":5000", "\"bytecode_size\":4999", "damaged");
    check("\"bytecode_size\":5000", "\"bytecode_size\":18446744073709551615", "bytecode_size says");
    check("\"bytecode_size\":5000", "\"bytecode_size\":-1", "damaged");
    check(
        "\"output_resolution\":[10,7]",
        "\"output_resolution\":[4294967296,4294967296]",
        "impossible shape",
    );
    check("\"output_resolution\":[10,7]", "\"output_resolution\":[0,7]", "impossible shape");
    check("\"output_resolution\":[10,7]", "\"output_resolution\":[]", "does not fit");
    check("\"chunk\":[4,7]", "\"chunk\":[4]", "does not fit");
    check("\"chunk\":[4,7]", "\"chunk\":[4,0]", "does not fit");
    check("\"chunk\":[4,7]", "\"chunk\":[4294967296,7]", "4 GiB");
    check("\"LuaJIT\"", "\"Malbolge\"", "Malbolge");
    check("\"NDVI\"", "\"/NIR\"", "twice");
    check("\"NDVI\"", "\"\"", "does not allow");
    check("[\"NIR\",\"/g/Red\"]", "[\"NIR\"]", "describes 2");
    check("\"public_key\":\"AQEB", "\"public_key\":\"AQ", "damaged");
    check("\"float\"", "\"quaternion\"", "unknown type");
    check("\"float\"", "\"string\"", "writes the type string(32) otherwise");
    check("\"output_datatype\":\"float\"", "\"output_datatype\":\"string(*)\"", "variable length");
    check("\"float\"", "\"string(99999999)\"", "a string of 99999999 bytes");
}

#[test]
fn junk_is_refused() {
    for junk in ["", "{", "null", "[]", "{\"api_version\":3}", "\u{0}", "{\"api_version\":\"3\"}"] {
        assert!(Record::parse(junk.as_bytes()).is_err(), "{junk}");
    }
    let deep = "[".repeat(100_000);
    assert!(Record::parse(deep.as_bytes()).is_err());
}

#[test]
fn blocks_that_are_one_piece() {
    for (dims, chunk, expected) in [
        (&[4000, 4000][..], &[16, 4000][..], true),
        (&[4000, 4000], &[16, 2000], false),
        (&[4000, 4000], &[1, 2000], true),
        (&[5, 6, 7], &[1, 2, 7], true),
        (&[5, 6, 7], &[2, 2, 7], false),
        (&[9], &[3], true),
        (&[5, 5], &[1, 1], true),
    ] {
        let mut record = sample();
        (record.output.dims, record.chunk) = (dims.to_vec(), chunk.to_vec());
        assert_eq!(record.blocks_are_pieces(), expected, "{dims:?} {chunk:?}");
    }
}
