use super::format::{COLLECTION, encode, parse};
use super::*;
use crate::index::frame::pack;
use crate::index::put;

fn sample() -> Collection {
    let identity = |number: u64| Identity { size: 100 + number, version: format!("etag:{number}") };
    let variable = |path: &str, axis, lengths: &[u64], values: Option<&[u8]>| CollectionVariable {
        path: path.into(),
        axis,
        lengths: Arc::new(lengths.to_vec()),
        values: values.map(<[u8]>::to_vec),
        units: BTreeMap::new(),
        statistics: None,
    };
    let mut time = variable("/time", Some(0), &[2, 0, 300], Some(&[7; 302]));
    time.units.insert(1, [Some("days since 2000-01-01".into()), None]);
    let mut sample = Collection {
        concat: Concat::Dimension("time".into()),
        files: (0..3)
            .map(|number| CollectionFile {
                name: format!("s3://bucket/g{number}.nc"),
                identity: identity(number),
            })
            .collect(),
        variables: vec![
            variable("/lat", None, &[], Some(&[1, 2, 3])),
            variable("/t", Some(1), &[2, 0, 300], None),
            time,
        ],
        skipped: vec![SkippedFile { name: "bad.nc".into(), reason: "it is damaged".into() }],
        indexes: vec![Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")],
        address: None,
    };
    sample.set_statistics(b"/t", &statistics()).unwrap();
    sample
}

fn statistics() -> [Option<FileStatistics>; 3] {
    [
        Some(FileStatistics { count: 300, nan: 20, bounds: Some((1.5_f64.to_bits(), 1e300_f64.to_bits())) }),
        None,
        Some(FileStatistics { count: 7, nan: 7, bounds: None }),
    ]
}

/// Asserts that two collections are equal.
#[track_caller]
fn check_equal(found: &Collection, expected: &Collection) {
    assert_eq!(found.concat, expected.concat);
    assert_eq!(found.files, expected.files);
    assert_eq!(found.variables, expected.variables);
    assert_eq!(found.skipped, expected.skipped);
    assert_eq!(found.indexes, expected.indexes);
}

#[test]
fn encoded_and_parsed() {
    let collection = sample();
    let bytes = encode(&collection).unwrap();
    check_equal(&parse(bytes.into(), &Limits::default()).unwrap(), &collection);
}

#[test]
fn statistics_are_kept_in_the_second_version() {
    let mut collection = sample();
    let bytes = encode(&collection).unwrap();
    assert_eq!(bytes[8], 2);
    let found = parse(bytes.into(), &Limits::default()).unwrap();
    assert_eq!(found.variable(b"/t").unwrap().file_statistics(3).unwrap().unwrap(), statistics());
    assert_eq!(found.variable(b"/time").unwrap().file_statistics(3).unwrap(), None);
    assert_eq!(found.paths_with_statistics(), [b"/t"]);
    // Readers of the first version know all others.
    collection.variables.iter_mut().for_each(|variable| variable.statistics = None);
    let bytes = encode(&collection).unwrap();
    assert_eq!(bytes[8], 1);
    check_equal(&parse(bytes.into(), &Limits::default()).unwrap(), &collection);
}

#[test]
fn inconsistent_statistics_are_refused() {
    let mut collection = sample();
    let some = |count, nan, bounds| [Some(FileStatistics { count, nan, bounds }); 3];
    for wrong in [some(1, 2, None), some(2, 1, None), some(2, 2, Some((0, 0))), some(0, 0, Some((0, 0)))] {
        assert!(collection.set_statistics(b"/t", &wrong).is_err(), "{wrong:?}");
    }
    assert!(collection.set_statistics(b"/t", &[None; 2]).is_err());
    assert!(collection.set_statistics(b"/nothing", &[None; 3]).is_err());
    assert!(collection.set_statistics(b"/t", &some(0, 0, None)).is_ok());
}

#[test]
fn many_variables_share_their_extents() {
    // A hundred thousand variables of a thousand files: 800 MB, if each had a list of its own.
    let mut collection = sample();
    collection.files = vec![collection.files[0].clone(); 1000];
    collection.indexes = vec![Bytes::new(); 1000];
    let lengths = Arc::new(vec![1; 1000]);
    collection.variables = (0..100_000)
        .map(|number| CollectionVariable {
            path: format!("/{number}").into(),
            axis: Some(0),
            lengths: Arc::clone(&lengths),
            values: None,
            units: BTreeMap::new(),
            statistics: None,
        })
        .collect();
    let found = parse(encode(&collection).unwrap().into(), &Limits::default()).unwrap();
    let [first, .., last] = found.variables.as_slice() else { panic!("no variables") };
    assert!(Arc::ptr_eq(&first.lengths, &last.lengths));
    assert_eq!(first.lengths, lengths);
}

#[test]
fn sections_are_bounded_together() {
    let mut collection = sample();
    let values = vec![0_u8; 1 << 20];
    collection.variables = (0..64)
        .map(|number| CollectionVariable {
            path: format!("/{number}").into(),
            axis: None,
            lengths: Arc::default(),
            values: Some(values.clone()),
            units: BTreeMap::new(),
            statistics: None,
        })
        .collect();
    let bytes = Bytes::from(encode(&collection).unwrap());
    let mut limits = Limits::default();
    assert!(parse(bytes.clone(), &limits).is_ok());
    limits.metadata_bytes = 16 << 20;
    let error = parse(bytes, &limits).unwrap_err();
    assert!(error.to_string().contains("metadata_bytes"), "{error}");
}

#[test]
fn every_damaged_byte_is_an_error() {
    let bytes = encode(&sample()).unwrap();
    let indexes = 3 + 5;
    for at in 0..bytes.len() - indexes {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        assert!(parse(damaged.into(), &Limits::default()).is_err(), "byte {at}");
    }
    for length in 0..bytes.len() {
        assert!(parse(bytes[..length].to_vec().into(), &Limits::default()).is_err(), "{length} bytes");
    }
}

/// A file with these sections, whose digests are right.
fn sealed(head: &[u8], sections: &[Vec<u8>]) -> Bytes {
    let packed: Vec<Vec<u8>> = sections.iter().map(|section| pack(section, 1).unwrap()).collect();
    let mut head = head.to_vec();
    put(&mut head, sections.len() as u64);
    for (packed, section) in packed.iter().zip(sections) {
        put(&mut head, packed.len() as u64);
        put(&mut head, section.len() as u64);
    }
    COLLECTION.wrap(&head, packed.iter().map(|packed| &**packed)).unwrap().into()
}

#[test]
fn forged_collections_are_errors_or_whole() {
    let mut collection = sample();
    collection.indexes = vec![Bytes::new(); 3];
    let [files, variables] = [format::files(&collection), format::variables(&collection)];
    let values = [vec![1, 2, 3], vec![7; 302]];
    let kept = collection.variable(b"/t").unwrap().statistics.clone().unwrap();
    let mut dice = 1_u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % sides
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut sections =
            vec![files.clone(), variables.clone(), values[0].clone(), values[1].clone(), kept.clone()];
        let section = &mut sections[[0, 1, 4][roll(3)]];
        for _ in 0..=roll(3) {
            let at = roll(section.len());
            match roll(3) {
                0 => section[at] = u8::try_from(roll(256)).unwrap(),
                1 => section[at] = [0, 1, 0x7f, 0x80, 0xff][roll(5)],
                _ => drop(section.remove(at)),
            }
        }
        if roll(10) == 0 {
            sections.truncate(roll(5));
        }
        if let Ok(found) = parse(sealed(&[1, 4, b't', b'i', b'm', b'e'], &sections), &Limits::default()) {
            accepted += 1;
            for variable in &found.variables {
                assert!(variable.axis.is_none() || variable.lengths.len() == found.files.len());
                assert!(variable.file_statistics(found.files.len()).is_ok());
            }
            assert_eq!(found.indexes.len(), found.files.len());
            check_equal(&parse(encode(&found).unwrap().into(), &Limits::default()).unwrap(), &found);
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn names_lead_out_of_no_server() {
    let remote = |name: &str| resolved(name, "https://example.org/data/k.hcx?key=1", true);
    assert_eq!(remote("a/b.h5").unwrap(), "https://example.org/data/a/b.h5");
    assert_eq!(remote("https://example.net/b.h5").unwrap(), "https://example.net/b.h5");
    for name in ["../b.h5", "/etc/passwd", "a/%2e%2e/%2E%2e/b.h5", "%2e./b.h5"] {
        assert_eq!(remote(name).unwrap_err().kind(), ErrorKind::Refused, "{name}");
    }
}

#[test]
fn a_token_goes_to_one_server() {
    let mut sample = sample();
    let token = [("Bearer_Token".to_owned(), "secret".to_owned())];
    sample.check_credentials(&token).unwrap();
    for (file, server) in sample.files.iter_mut().zip(["a.org", "a.org", "A.org"]) {
        file.name = format!("https://{server}/g.nc");
    }
    sample.check_credentials(&token).unwrap();
    for other in [
        "https://b.org/g.nc",
        "http://a.org/g.nc",
        "https://a.org@b.org/",
        "https://a.org:1/",
        "https://a.org\\b/",
    ] {
        sample.files[1].name = other.to_owned();
        let refused = sample.check_credentials(&token);
        assert_eq!(refused.is_ok(), other.contains('\\'), "{other}");
        sample.check_credentials(&[]).unwrap();
    }
    // Parsers of URLs leave such characters out.
    sample.files[1].name = "https://a.org\t.evil/g.nc".to_owned();
    assert!(sample.check_credentials(&token).is_err());
}

#[test]
fn test_a_file_whose_elements_are_all_in_other_files_is_not_collected() {
    use crate::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Writer};
    use hyperchunk_format::model::{
        ByteOrder, Dataspace, Datatype, ExternalFile, Name, SourceName, StoredSelection, VirtualMapping,
    };
    let folder = std::env::temp_dir().join(format!("hyperchunk-elsewhere-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let virtual_of = |file: &str| {
        let name = |text: &str| SourceName { parts: vec![Name::from(text)] };
        let (source, target) = (StoredSelection::All, StoredSelection::All);
        NewLayout::Virtual(vec![VirtualMapping { file: name(file), dataset: name("own"), source, target }])
    };
    let raw = NewLayout::External(vec![ExternalFile { name: "raw.bin".into(), offset: 0, size: Some(4) }]);
    let marker = crate::storage::Marker { dataset: crate::storage::DatasetId([7; 16]), epoch: 1 };
    let stored = NewLayout::External(vec![marker.to_external_file(true)]);
    let make = |name: &str, layouts: &[(&str, NewLayout)]| {
        let path = folder.join(name);
        let file = Writer::create(&path, &CreateOptions::default()).unwrap();
        for (name, layout) in layouts {
            let space = Dataspace::Simple { dims: vec![4], max: vec![Some(4)] };
            let options = DatasetOptions::new(Datatype::integer(1, false, ByteOrder::Little), space);
            file.create_dataset(NodeId::ROOT, name.as_bytes(), options.with_layout(layout.clone())).unwrap();
        }
        file.close().unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let options =
        OpenOptions { external: crate::ExternalPolicy::Never, ignore_stores: true, ..OpenOptions::default() };
    let how = CollectOptions { concat: Some(Concat::FirstAxis), skip: false };
    let collect = |name: &String| Collection::collect(std::slice::from_ref(name), &options, &how, &|_| ());
    for (case, layout, advice) in [
        ("virtual", virtual_of("other.h5"), "pack --embed"),
        ("raw", raw, "pack --embed"),
        ("stored", stored, "store pack"),
    ] {
        let name = make(&format!("{case}.h5"), &[("data", layout.clone())]);
        let error = collect(&name).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(advice) && text.contains("data") && text.contains(case), "{text}");
        // Other datasets of the file can be read.
        let mixed = make(&format!("{case}-mixed.h5"), &[("data", layout), ("own", NewLayout::Contiguous)]);
        assert_eq!(collect(&mixed).unwrap().variables.len(), 2);
    }
    // A virtual dataset over datasets of its own file.
    let own = make("own.h5", &[("data", virtual_of(".")), ("own", NewLayout::Contiguous)]);
    collect(&own).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
