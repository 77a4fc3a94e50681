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
        halo: Vec::new(),
        maximum: Vec::new(),
        uncut: Vec::new(),
        attributes: BTreeMap::new(),
        sources: BTreeMap::new(),
        needs: Needs::default(),
        analysis: None,
        created: "2026-01-01T00:00:00Z".into(),
        source: "function dynamic_dataset() end -- ü\n".into(),
        compiled: Some(CompiledForm { target: "x86_64-linux-gnu".into(), object: vec![5; 5000] }),
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

/// Checks that the record with one part of its JSON replaced is rejected with `expected` in the message.
fn check(from: &str, to: &str, expected: &str) {
    let text = String::from_utf8(sample().encode().unwrap()).unwrap();
    assert!(text.contains(from), "{from} is in {text}");
    let error = Record::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
    assert!(error.contains(expected), "{from} -> {to}: {error}");
}

#[test]
fn damaged_records_are_refused() {
    check("\"api_version\":3", "\"api_version\":9", "record version 9");
    check("\"api_version\":3", "\"api_version\":8", "content has version 3");
    check("\"api_version\":3", "\"api_version\":7", "content has version 3");
    check("\"api_version\":3", "\"api_version\":6", "content has version 3");
    check("\"created\"", "\"seed\":5,\"created\"", "content has version 6");
    check("\"created\"", "\"clock\":true,\"created\"", "content has version 6");
    check("\"created\"", "\"clock\":false,\"created\"", "expected true, or no entry");
    check("\"api_version\":3", "\"api_version\":6,\"seed\":9007199254740992", "is larger than");
    check("\"api_version\":3", "\"api_version\":4", "content has version 3");
    check("\"created\"", "\"halo\":[1,1],\"created\"", "content has version 4");
    check("\"created\"", "\"maximum_resolution\":[null,7],\"created\"", "content has version 4");
    for (changes, expected) in [
        ("\"halo\":[1],\"created\"", "halo [1] does not fit"),
        ("\"halo\":[1,-1],\"created\"", "damaged"),
        ("\"maximum_resolution\":[null],\"created\"", "does not fit"),
        ("\"maximum_resolution\":[9,7],\"created\"", "does not fit"),
    ] {
        let text = String::from_utf8(sample().encode().unwrap()).unwrap();
        let text =
            text.replacen("\"created\"", changes, 1).replacen("\"api_version\":3", "\"api_version\":4", 1);
        let error = Record::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{changes}: {error}");
    }
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
    check("\"float\"", "\"string\"", "does not write the type string(32)");
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

#[test]
fn attributes_are_whole_and_do_not_grow() {
    let mut record = sample();
    record.maximum = vec![UNLIMITED, 7];
    record.inputs.push(Slot { name: "a@b@c".into(), datatype: ElementType::UInt8.into(), dims: vec![10, 7] });
    record.attributes.insert("a@b@c".into(), "b@c".into());
    let record = Record::parse(&record.encode().unwrap()).unwrap();
    assert_eq!(record.version(), API_VERSION_7);
    let input = record.inputs.last().unwrap();
    assert_eq!(record.find_attribute(input), Some(("a", "b@c")));
    assert_eq!(record.find_attribute(&record.inputs[0]), None);
    assert!(record.is_cut(&record.inputs[0]) && !record.is_cut(input));
    assert!(record.grown(&[12, 7]).unwrap().inputs.last().unwrap().dims == [10, 7]);
    assert!(record.fits(input, &[10, 7]) && !record.fits(input, &[12, 7]));
    let mut other = record.clone();
    other.inputs.last_mut().unwrap().dims = vec![12, 7];
    assert!(other.grown(&[12, 7]).unwrap().uncut.is_empty());
    let refused = |label: &str, name: &str| {
        let mut bad = record.clone();
        bad.attributes = [(label.to_owned(), name.to_owned())].into();
        assert!(Record::parse(&bad.encode().unwrap()).is_err(), "{label} {name}");
    };
    refused("nothing@c", "c");
    refused("a@b@c", "c@b");
    refused("a@b@c", "");
    refused("a@b@c", "a@b@c");
    let mut large = record.clone();
    large.inputs.last_mut().unwrap().dims = vec![MAX_ATTRIBUTE_BYTES + 1];
    assert!(Record::parse(&large.encode().unwrap()).is_err());
}

#[test]
fn blocks_with_a_halo() {
    let mut record = sample();
    record.halo = vec![2, 1];
    record.chunk = vec![4, 3];
    record.inputs.push(Slot { name: "table".into(), datatype: ElementType::UInt8.into(), dims: vec![3] });
    let record = Record::parse(&record.encode().unwrap()).unwrap();
    let check = |chunk: [u64; 2], output: [[u64; 2]; 2], input: [[u64; 2]; 2]| {
        let (offset, shape) = record.block(&chunk).unwrap();
        assert_eq!([offset.as_slice(), &shape], output);
        let parts: Vec<_> = record.parts(&offset, &shape).collect();
        // The output, two inputs that are cut, one that is whole, and another output.
        assert_eq!(parts.len(), 5);
        for n in [0, 4] {
            assert_eq!([parts[n].0.as_slice(), &parts[n].1], output);
        }
        for n in [1, 2] {
            assert_eq!([parts[n].0.as_slice(), &parts[n].1], input);
        }
        assert_eq!(parts[3], (vec![0], vec![3]));
    };
    check([0, 0], [[0, 0], [4, 3]], [[0, 0], [6, 4]]);
    check([1, 1], [[4, 3], [4, 3]], [[2, 2], [8, 5]]);
    check([2, 2], [[8, 6], [2, 1]], [[6, 5], [4, 2]]);
    assert_eq!(record.part_bytes(&record.inputs[0], true), 8 * 5 * 4);
    assert_eq!(record.part_bytes(&record.output, false), 4 * 3 * 4);
    assert_eq!(record.part_bytes(&record.inputs[2], true), 3);
    let wide = Record { halo: vec![u64::MAX, u64::MAX], ..record.clone() };
    assert_eq!(wide.parts(&[4, 3], &[4, 3]).nth(1).unwrap(), (vec![0, 0], vec![10, 7]));
    assert_eq!(wide.part_bytes(&record.inputs[0], true), 280);
}

#[test]
fn pieces_with_a_halo() {
    for (dims, chunk, halo, expected) in [
        (&[40, 40][..], &[16, 40][..], &[1, 1][..], true),
        (&[40, 40], &[1, 20], &[0, 1], true),
        (&[40, 40], &[1, 20], &[1, 0], false),
        (&[5, 6, 7], &[1, 6, 7], &[1, 1, 1], true),
        (&[5, 6, 7], &[1, 2, 7], &[0, 1, 0], true),
        (&[5, 6, 7], &[1, 2, 7], &[1, 0, 0], false),
    ] {
        let mut record = sample();
        (record.output.dims, record.chunk, record.halo) = (dims.to_vec(), chunk.to_vec(), halo.to_vec());
        assert_eq!(record.blocks_are_pieces(), expected, "{dims:?} {chunk:?} {halo:?}");
    }
}

#[test]
fn datasets_that_grow_from_nothing() {
    let mut record = sample();
    for slot in std::iter::once(&mut record.output).chain(&mut record.inputs).chain(&mut record.scratch) {
        slot.dims = vec![0, 7];
    }
    assert!(Record::parse(&record.encode().unwrap()).unwrap_err().to_string().contains("impossible shape"));
    record.maximum = vec![UNLIMITED, 7];
    let record = Record::parse(&record.encode().unwrap()).unwrap();
    assert!(record.block(&[0, 0]).is_err());
    assert_eq!(record.grown(&[5, 7]).unwrap().block(&[1, 0]).unwrap(), (vec![4, 0], vec![1, 7]));
    let mut table = record.clone();
    table.inputs[0].dims = vec![0];
    assert!(Record::parse(&table.encode().unwrap()).unwrap_err().to_string().contains("impossible shape"));
}

#[test]
fn datasets_that_grow() {
    let mut record = sample();
    record.maximum = vec![UNLIMITED, 9];
    let record = Record::parse(&record.encode().unwrap()).unwrap();
    assert_eq!(record.maximum, [UNLIMITED, 9]);
    let check = |dims: &[u64], expected: bool| assert_eq!(record.grown(dims).is_ok(), expected, "{dims:?}");
    check(&[10, 7], true);
    check(&[1000, 7], true);
    check(&[10, 9], true);
    check(&[10, 10], false);
    check(&[9, 7], false);
    check(&[10], false);
    check(&[u64::MAX, 7], false);
    let grown = record.grown(&[12, 8]).unwrap();
    assert!(grown.slots().all(|slot| slot.dims == [12, 8]));
    let fits =
        |dims: &[u64], expected: bool| assert_eq!(grown.fits(&grown.inputs[0], dims), expected, "{dims:?}");
    fits(&[12, 8], true);
    fits(&[13, 8], true);
    fits(&[13, 10], true);
    fits(&[11, 8], false);
    fits(&[12, 8, 1], false);
    assert!(!sample().fits(&sample().inputs[0], &[11, 7]));
    assert_eq!(sample().grown(&[11, 7]).unwrap(), sample());
}
