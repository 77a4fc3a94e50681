use super::*;
use crate::index::{DatasetChunks, Index, IndexOption, Tables};
use crate::{ErrorKind, OpenOptions};
use hyperchunk_format::model::Chunk;

const FILES: [(&str, &[u8]); 2] = [
    ("old", include_bytes!("../../fixtures/chunks_old.hdf5")),
    ("new", include_bytes!("../../fixtures/chunks_new.hdf5")),
];

fn refs(file: &File, kind: Kind) -> (Value, Vec<u8>, LeftOut) {
    let mut text = Vec::new();
    let left = export(file, "s3://bucket/a \"file\".h5", kind, &mut text).unwrap();
    (serde_json::from_slice(&text).unwrap(), text, left)
}

/// All chunks that are not omitted are exported in both forms, and imported again.
#[test]
fn chunks_go_out_and_in() {
    for (name, bytes) in FILES {
        let file = File::from_bytes(bytes, &OpenOptions::default()).unwrap();
        let (kerchunk, text, left) = refs(&file, Kind::Kerchunk);
        let (manifests, ..) = refs(&file, Kind::VirtualiZarr);
        let tables = import(&text, "another name").unwrap();
        let mut chunks = 0;
        let root = file.root().unwrap();
        file.walk(&root, b"/", &mut |visit| {
            let VisitedItem::Object(object) = visit.found else { return Ok(Next::Enter) };
            let path = visit.path;
            if object.kind() != ObjectKind::Dataset || left.iter().any(|(left, _)| left == path) {
                return Ok(Next::Enter);
            }
            let dataset = object.dataset()?;
            let shown = std::str::from_utf8(path).unwrap().trim_matches('/');
            assert!(kerchunk["refs"][format!("{shown}/.zarray")].is_string(), "{name} {shown}");
            let Some(chunked) = dataset.chunked() else { return Ok(Next::Enter) };
            let known = &tables[path];
            assert_eq!(known.chunk, chunked.dims);
            let expected = dataset.chunks()?;
            chunks += expected.len();
            let manifest = &manifests[shown]["manifest"];
            assert_eq!(manifest.as_object().unwrap().len(), expected.len());
            let mut found = known.chunks.clone();
            found.sort_by(|a, b| a.scaled.cmp(&b.scaled));
            let plain = expected.into_iter().map(|chunk| Chunk { filter_mask: 0, ..chunk });
            assert_eq!(found, plain.collect::<Vec<_>>(), "{name} {shown}");
            Ok(Next::Enter)
        })
        .unwrap();
        assert_eq!(chunks, 16 + 12 + 5 + 6 + 1, "{name}");
        assert_eq!(left.iter().map(|(path, _)| &path[..]).collect::<Vec<_>>(), [b"/masked"], "{name}");
        assert_eq!(kerchunk["refs"][".zattrs"], "{\"title\":\"chunks\"}");
    }
}

#[test]
fn what_is_no_references() {
    let check = |text: &str, kind, message: &str| {
        let error = import(text.as_bytes(), "u").unwrap_err();
        assert_eq!(error.kind(), kind, "{text}");
        assert!(error.to_string().contains(message), "{error}");
    };
    check("", ErrorKind::Invalid, "as JSON");
    check("[]", ErrorKind::Invalid, "object");
    check(r#"{"refs": 3}"#, ErrorKind::Invalid, "`refs`");
    check(r#"{"refs": {}, "gen": [{}]}"#, ErrorKind::Unsupported, "gen");
    check(r#"{"a/.zarray": "{", "a/0": ["u", 1, 2]}"#, ErrorKind::Invalid, "a/.zarray");
    check(r#"{"a/.zarray": "{\"chunks\": [1]}", "a/0": ["u", -1, 2]}"#, ErrorKind::Invalid, "a/0");
    check(r#"{"x": ["v", 1, 2], "y": ["w", 1, 2]}"#, ErrorKind::Invalid, "2 files");
}

#[test]
fn forms_of_references() {
    let text = r#"{"version": 1, "templates": {"t": "s3://b"}, "refs": {
        "a/.zarray": {"chunks": [2, 3]}, "a/0.1": ["{{t}}/k", 10, 20], "a/1/0": ["s3://b/k", 30, 40], "a/.zattrs": "{}",
        "b/c/.zarray": "{\"chunks\": []}", "b/c/0": ["{{t}}/k", 1, 2],
        "inline/.zarray": "{\"chunks\": [1]}", "inline/0": "base64:AAAA",
        "whole/.zarray": "{\"chunks\": [1]}", "whole/0": ["{{t}}/k"]}}"#;
    let tables = import(text.as_bytes(), "s3://b/k").unwrap();
    let chunk =
        |scaled: &[u64], address, size| Chunk { scaled: scaled.to_vec(), address, size, filter_mask: 0 };
    assert_eq!(tables.len(), 2);
    let a = &tables[&b"/a"[..]];
    assert_eq!((&a.chunk[..], a.chunks.len()), (&[2, 3][..], 2));
    assert!(a.chunks.contains(&chunk(&[0, 1], 10, 20)) && a.chunks.contains(&chunk(&[1, 0], 30, 40)));
    assert_eq!(
        tables[&b"/b/c"[..]],
        DatasetChunks { chunk: Vec::new(), chunks: vec![chunk(&[], 1, 2)], filters: 0 }
    );
}

/// References of the same file make an equivalent index; references of another file make none.
#[test]
fn an_index_of_references() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-references-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.h5");
    std::fs::write(&path, FILES[1].1).unwrap();
    let mut options = OpenOptions { index: IndexOption::Never, ..OpenOptions::default() };
    let file = File::open(&path, &options).unwrap();
    let (_, text, _) = refs(&file, Kind::Kerchunk);
    let mut tables = import(&text, "a.h5").unwrap();
    let own = Index::build(&file, &Tables::new()).unwrap();
    let built = Index::build(&file, &tables).unwrap();
    assert_eq!((own.datasets, own.errors.len()), (built.datasets, built.errors.len()));
    let index = Index::open(built.bytes, "test", &options.limits).unwrap();
    options.index = IndexOption::Given(index.into());
    let indexed = File::open(&path, &options).unwrap();
    for path in tables.keys() {
        let chunks = |file: &File| file.root()?.group()?.get(path)?.dataset()?.chunks();
        let plain = chunks(&file).unwrap().into_iter().map(|chunk| Chunk { filter_mask: 0, ..chunk });
        assert_eq!(chunks(&indexed).unwrap(), plain.collect::<Vec<_>>());
    }
    let first = tables.iter().find(|(_, known)| !known.chunks.is_empty()).unwrap().0.clone();
    tables.get_mut(&first).unwrap().chunks[0].address = u64::MAX - 5;
    let error = Index::build(&file, &tables.clone()).unwrap_err();
    assert!(error.to_string().contains("do not fit"), "{error}");
    tables.get_mut(&first).unwrap().chunk[0] += 1;
    assert_eq!(Index::build(&file, &tables).unwrap_err().kind(), ErrorKind::Invalid);
    drop((file, indexed));
    std::fs::remove_dir_all(&folder).unwrap();
}
