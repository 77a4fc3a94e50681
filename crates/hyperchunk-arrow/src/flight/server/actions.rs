//! Actions: requests to a server other than for tables. The format: `docs/formats/flight.md`.

use super::opened::{OpenFiles, check_version};
use crate::flight::names::version;
use crate::flight::query;
use bytes::Bytes;
use hyperchunk::io::Source;
use hyperchunk::model::ObjectKind;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// The actions and their descriptions.
pub(super) const ACTIONS: [(&str, &str); 6] = [
    ("hyperchunk.list", "{prefix?, after?}: the names of the files that are served"),
    ("hyperchunk.stat", "{file, head?}: size and version of a file, and its first bytes"),
    (
        "hyperchunk.read",
        "{file, version?, ranges: [[start, end], …]}: bytes of a file, one range after the other",
    ),
    ("hyperchunk.objects", "{file, object?}: the objects below one: path, kind, shape, type"),
    ("hyperchunk.attributes", "{file, object?}: the attributes of an object"),
    ("hyperchunk.refresh", "{file}: reopens the file; returns its version"),
];

/// Maximum number of bytes of a file in one result.
const PIECE_BYTES: u64 = 4 << 20;
/// Maximum number of ranges in one action.
const MAX_RANGES: usize = 1 << 16;
/// Maximum number of bytes read at the head of a file.
const MAX_HEAD_BYTES: u64 = 4 << 20;
/// Maximum number of names in one listing.
const MAX_NAMES: usize = 100_000;

/// Callback that receives each result; fails if the client has disconnected.
pub(super) type ResultCallback<'a> = dyn FnMut(Bytes) -> Result<()> + 'a;

fn bad(what: &str) -> Error {
    Error::invalid(format!("invalid request: {what}"))
}

fn give_json(give: &mut ResultCallback<'_>, value: &Value) -> Result<()> {
    give(Bytes::from(value.to_string()))
}

/// Performs an action.
pub(super) fn run(files: &OpenFiles, kind: &str, body: &[u8], give: &mut ResultCallback<'_>) -> Result<()> {
    if !ACTIONS.iter().any(|(known, _)| *known == kind) {
        let kind = crate::flight::names::shortened(kind);
        return Err(Error::unsupported(format!("unknown action {kind:?}: ListActions lists the known ones")));
    }
    let mut object = query::object(if body.is_empty() { b"{}" } else { body })?;
    query::check_version(&mut object)?;
    if kind == "hyperchunk.list" {
        return list(files, object, give);
    }
    let file = query::text(&mut object, "file")?.ok_or_else(|| bad("`file` is missing"))?;
    match kind {
        "hyperchunk.stat" => stat(files, &file, object, give),
        "hyperchunk.read" => read(files, &file, object, give),
        "hyperchunk.objects" => objects(files, &file, object, give),
        "hyperchunk.attributes" => attributes(files, &file, object, give),
        _ => {
            query::nothing_else(&object)?;
            files.forget(&file);
            stat(files, &file, Map::new(), give)
        }
    }
}

fn list(files: &OpenFiles, mut object: Map<String, Value>, give: &mut ResultCallback<'_>) -> Result<()> {
    let prefix = query::text(&mut object, "prefix")?.unwrap_or_default();
    let after = query::text(&mut object, "after")?;
    query::nothing_else(&object)?;
    let (mut names, mut more, mut started) = (Vec::new(), false, after.is_none());
    files.roots.each(&mut |name| {
        if started && name.starts_with(&prefix) {
            more = names.len() == MAX_NAMES;
            if !more {
                names.push(name.to_owned());
            }
        }
        started |= Some(name) == after.as_deref();
        !more
    });
    give_json(give, &json!({ "files": names, "more": more }))
}

fn stat(
    files: &OpenFiles,
    name: &str,
    mut object: Map<String, Value>,
    give: &mut ResultCallback<'_>,
) -> Result<()> {
    let head = query::number(&mut object, "head")?.unwrap_or(0).min(MAX_HEAD_BYTES);
    query::nothing_else(&object)?;
    let found = files.roots.open(name)?;
    let size = found.file.size();
    let changed = Source::version(&found.file);
    let answer = json!({ "file": name, "size": size, "version": version(&found.file), "changed": changed });
    give_json(give, &answer)?;
    if head > 0 {
        let mut bytes = vec![0; usize::try_from(head.min(size)).unwrap_or(0)];
        found.file.read_at(0, &mut bytes)?;
        give(bytes.into())?;
    }
    Ok(())
}

fn read(
    files: &OpenFiles,
    name: &str,
    mut object: Map<String, Value>,
    give: &mut ResultCallback<'_>,
) -> Result<()> {
    let known = query::text(&mut object, "version")?;
    let ranges = ranges(object.remove("ranges"))?;
    query::nothing_else(&object)?;
    let found = files.roots.open(name)?;
    let now = version(&found.file);
    check_version(&now, known.as_deref())?;
    let size = found.file.size();
    if let Some((start, end)) = ranges.iter().find(|(_, end)| *end > size) {
        let message = format!("the range {start} to {end} extends past the end of the file at byte {size}");
        return Err(Error::new(ErrorKind::Truncated, message).at(*start));
    }
    for (start, end) in ranges {
        let mut at = start;
        while at < end {
            let length = PIECE_BYTES.min(end - at);
            let mut bytes =
                vec![0; usize::try_from(length).map_err(|_| Error::limit("a range larger than memory"))?];
            found.file.read_at(at, &mut bytes)?;
            give(bytes.into())?;
            at += length;
        }
    }
    // The file may have changed during the read, so that two versions were mixed.
    check_version(&version(&files.roots.open(name)?.file), Some(&now))
}

fn ranges(value: Option<Value>) -> Result<Vec<(u64, u64)>> {
    let wrong = || bad("`ranges` must be a list of [start, end]: whole numbers, 0 or more, in order");
    let Some(Value::Array(list)) = value else { return Err(wrong()) };
    if list.len() > MAX_RANGES {
        return Err(Error::limit(format!("more than {MAX_RANGES} ranges")));
    }
    let pair = |pair: &Value| {
        let [start, end] = pair.as_array()?.as_slice() else { return None };
        Some((start.as_u64()?, end.as_u64()?)).filter(|(start, end)| start <= end)
    };
    list.iter().map(|range| pair(range).ok_or_else(wrong)).collect()
}

fn objects(
    files: &OpenFiles,
    name: &str,
    mut object: Map<String, Value>,
    give: &mut ResultCallback<'_>,
) -> Result<()> {
    let path = query::text(&mut object, "object")?.unwrap_or_default();
    let epoch = query::number(&mut object, "epoch")?;
    query::nothing_else(&object)?;
    let (file, version) = files.open(name, epoch, false)?;
    let root = file.root()?.named("/");
    let path = format!("/{}", path.trim_matches('/'));
    let start = root.group()?.get(path.as_bytes())?;
    let mut listed = Vec::new();
    let mut more = false;
    file.walk(&start, path.as_bytes(), &mut |visit| {
        if listed.len() == MAX_NAMES {
            more = true;
            return Ok(Next::Stop);
        }
        let path = String::from_utf8_lossy(visit.path).into_owned();
        listed.push(match visit.found {
            VisitedItem::Object(object) => match object.kind() {
                ObjectKind::Dataset => match object.dataset() {
                    Ok(dataset) => json!({ "path": path, "kind": "dataset", "shape": dataset.dims() }),
                    Err(error) => json!({ "path": path, "kind": "dataset", "error": error.message() }),
                },
                ObjectKind::Group => json!({ "path": path, "kind": "group" }),
                ObjectKind::Datatype => json!({ "path": path, "kind": "datatype" }),
            },
            _ => json!({ "path": path, "kind": "link" }),
        });
        Ok(Next::Enter)
    })?;
    give_json(give, &json!({ "file": name, "version": version, "objects": listed, "more": more }))
}

fn attributes(
    files: &OpenFiles,
    name: &str,
    mut object: Map<String, Value>,
    give: &mut ResultCallback<'_>,
) -> Result<()> {
    let path = query::text(&mut object, "object")?.unwrap_or_default();
    let epoch = query::number(&mut object, "epoch")?;
    query::nothing_else(&object)?;
    let (file, _) = files.open(name, epoch, false)?;
    let path = format!("/{}", path.trim_matches('/'));
    let object = file.root()?.named("/").group()?.get(path.as_bytes())?;
    let metadata = crate::values::attributes_to_metadata(&object)?;
    give_json(give, &json!({ "file": name, "object": path, "attributes": metadata }))
}
