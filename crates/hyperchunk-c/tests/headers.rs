//! The headers in `include/` are written by hand, since they are the interface's documentation; these tests
//! compare their declarations with the functions.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;

/// Types of a function: the parameters, then the result.
type Signature = Vec<String>;

/// Names of types in C and in Rust.
const TYPES: [(&str, &str); 12] = [
    ("char", "c_char"),
    ("int", "c_int"),
    ("unsigned", "c_uint"),
    ("void", "c_void"),
    ("int64_t", "i64"),
    ("uint64_t", "u64"),
    ("uint32_t", "u32"),
    ("size_t", "usize"),
    ("hc_id", "i64"),
    ("hc_type", "c_int"),
    ("hc_read_request", "ReadRequest"),
    ("udf_context", "Context"),
];

/// Returns a C type as Rust's; a name after it is ignored.
fn from_c(declared: &str) -> String {
    let words = declared.replace('*', " * ");
    let mut words = words.split_whitespace().peekable();
    let is_const = words.next_if_eq(&"const").is_some();
    let name = words.next().unwrap();
    let name = TYPES.iter().find(|(c, _)| *c == name).map_or(name, |(_, rust)| rust);
    let pointers = words.filter(|word| *word == "*").count();
    let pointer = if is_const { "*const " } else { "*mut " };
    if (pointers, name) == (0, "c_void") { String::new() } else { pointer.repeat(pointers) + name }
}

/// Returns the functions that a header declares.
fn declared(header: &str) -> BTreeMap<String, Signature> {
    let mut code = String::new();
    for part in header.split("/*") {
        code += part.split_once("*/").map_or(part, |(_, code)| code);
    }
    let statements = code.split(';').filter_map(|statement| {
        let statement =
            statement.lines().filter(|line| !line.starts_with(['#', '}']) && !line.ends_with('{'));
        let statement = statement.collect::<Vec<_>>().join(" ");
        let (result, parameters) = statement.trim().strip_suffix(')')?.split_once('(')?;
        let start = result.rfind([' ', '*'])? + 1;
        let (result, name) = result.split_at(start);
        let types = parameters.split(',').map(from_c).filter(|one| !one.is_empty());
        Some((name.to_owned(), types.chain([from_c(result)]).collect()))
    });
    statements.collect()
}

/// Returns the functions that sources export.
fn exported(sources: &[&str]) -> BTreeMap<String, Signature> {
    let functions = sources.iter().flat_map(|source| source.split("extern \"C\" fn ").skip(1));
    let signature = |function: &str| {
        let (name, rest) = function.split_once('(').unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let result = rest.split_once('{').unwrap().0.trim().trim_start_matches("-> ");
        let types = parameters.split(',').filter_map(|one| Some(one.split_once(':')?.1.trim().to_owned()));
        (name.to_owned(), types.chain([result.to_owned()]).collect())
    };
    functions.map(signature).collect()
}

#[test]
fn test_header_of_hyperchunk() {
    let header = declared(include_str!("../../../include/hyperchunk.h"));
    let sources = [
        include_str!("../src/lib.rs"),
        include_str!("../src/read.rs"),
        include_str!("../src/read_attributes.rs"),
    ];
    assert_eq!(header["hc_create"], ["*const c_char", "c_uint", "i64"]);
    assert_eq!(header, exported(&sources));
}

#[test]
fn test_header_of_hdf5_udf() {
    let header = declared(include_str!("../../../include/hdf5-udf.h"));
    assert_eq!(header, exported(&[include_str!("../src/udf.rs")]));
}
