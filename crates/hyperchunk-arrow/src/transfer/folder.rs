//! Listing the objects of a file, and naming the files of their values in a folder.

use super::manifest::{Entry, Kind, Target};
use crate::types::metadata::{DTYPE, encode_datatype};
use crate::{Error, Result, attributes_to_metadata, types};
use hyperchunk::model::{LinkTarget, Name, ObjectKind};
use hyperchunk::{Dataset, File, Object};
use std::collections::{HashMap, HashSet};

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 1024;
/// Maximum length of a name; longer ones are truncated.
const MAX_NAME_BYTES: usize = 120;

/// A group and the objects below it.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    /// The opened dataset of each entry; `None` for other objects, and for datasets that are omitted.
    pub(super) datasets: Vec<Option<Dataset>>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// Lists an object and all objects below it, itself first, each with its dataset.
pub(super) fn list(file: &File, top: &Object, keep_going: bool) -> Result<Listing> {
    let mut lister = Lister {
        keep_going,
        places: HashMap::new(),
        entries: Vec::new(),
        datasets: Vec::new(),
        names: HashSet::new(),
        notes: Vec::new(),
    };
    let path = top.path().unwrap_or("/").to_owned();
    lister.add(top, path.into_bytes(), String::new())?;
    let mut open = vec![(0, group_links(top)?.into_iter(), String::new())];
    while let Some((parent, links, folder)) = open.last_mut() {
        let parent = *parent;
        let Some(link) = links.next() else {
            open.pop();
            continue;
        };
        let target = match link.target {
            LinkTarget::Hard(address) => {
                if let Some(known) = lister.places.get(&address) {
                    Target::Object(*known)
                } else {
                    let mut path = lister.entries[parent].path.clone().into_bytes();
                    if path.last() != Some(&b'/') {
                        path.push(b'/');
                    }
                    path.extend_from_slice(link.name.as_bytes());
                    let shown = Name::from(&*path).to_string();
                    let object = file.object(address).map_err(|error| error.object(&shown))?.named(&shown);
                    let place = lister.unique(folder, &link.name, object.kind() == ObjectKind::Dataset);
                    let number = lister.add(&object, path, place.clone())?;
                    if object.kind() == ObjectKind::Group {
                        if open.len() >= MAX_DEPTH {
                            return Err(
                                Error::limit(format!("groups nest deeper than {MAX_DEPTH}")).object(shown)
                            );
                        }
                        open.push((number, group_links(&object)?.into_iter(), place));
                    }
                    Target::Object(number)
                }
            }
            LinkTarget::Soft(path) => Target::Soft(path),
            LinkTarget::External { file, path } => Target::External(file, path),
            LinkTarget::User { class, data } => Target::User(class, data),
        };
        lister.entries[parent].links.push((link.name, target));
    }
    Ok(Listing { entries: lister.entries, datasets: lister.datasets, notes: lister.notes })
}

fn group_links(object: &Object) -> Result<Vec<hyperchunk::model::Link>> {
    let group = object.group()?;
    let mut links = group.links()?;
    if group.tracks_order()? {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(links)
}

struct Lister {
    /// Omit damaged objects.
    keep_going: bool,
    /// The numbers of entries by the addresses of their objects.
    places: HashMap<u64, usize>,
    entries: Vec<Entry>,
    datasets: Vec<Option<Dataset>>,
    /// Notes on omitted parts other than objects.
    notes: Vec<String>,
    /// Names in lower case, since some file systems ignore case.
    names: HashSet<String>,
}

impl Lister {
    fn add(&mut self, object: &Object, path: Vec<u8>, place: String) -> Result<usize> {
        let path = String::from_utf8_lossy(&path).into_owned();
        let named = |error: Error| error.object(&path);
        let mut entry = Entry {
            path: path.clone(),
            comment: object.comment()?,
            track_order: object.header().attribute_order_tracked,
            ..Entry::default()
        };
        let mut dataset = None;
        match object.kind() {
            ObjectKind::Group => {
                match attributes_to_metadata(object) {
                    Err(error) if self.keep_going && !error.is_of_reading() => {
                        self.notes.push(format!("{path}: its attributes are left out: {error}"));
                    }
                    metadata => entry.metadata = metadata.map_err(named)?,
                }
                entry.track_order |= object.group()?.tracks_order()?;
            }
            ObjectKind::Datatype => {
                entry.kind = Kind::Datatype;
                entry.metadata = attributes_to_metadata(object).map_err(named)?;
                let datatype = types::portable(&object.datatype()?).map_err(named)?;
                entry.metadata.insert(DTYPE.to_owned(), encode_datatype(&datatype).map_err(named)?);
            }
            ObjectKind::Dataset => {
                entry.kind = Kind::Dataset;
                entry.file = Some(format!("{place}.arrow"));
                match object.dataset() {
                    Err(error) if self.keep_going && !error.is_of_reading() => {
                        entry.missing = Some(error.to_string())
                    }
                    opened => dataset = Some(opened?),
                }
            }
        }
        let number = self.entries.len();
        self.places.insert(object.address(), number);
        self.entries.push(entry);
        self.datasets.push(dataset);
        Ok(number)
    }

    /// Returns a unique file name in a folder.
    fn unique(&mut self, folder: &str, name: &Name, is_dataset: bool) -> String {
        let safe_name = safe_name(name.as_bytes());
        let base = if folder.is_empty() { safe_name } else { format!("{folder}/{safe_name}") };
        let end = if is_dataset { ".arrow" } else { "" };
        let mut place = base.clone();
        let mut number = 2;
        while !self.names.insert(format!("{place}{end}").to_lowercase()) {
            place = format!("{base}~{number}");
            number += 1;
        }
        place
    }
}

/// Returns a name that is valid on every file system: letters, digits and a few signs; other bytes as `%` and
/// two hexadecimal digits.
fn safe_name(name: &[u8]) -> String {
    let mut made = String::new();
    for (at, byte) in name.iter().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || b"_-+=,@()[] ".contains(byte)
            || (*byte == b'.' && at > 0 && at + 1 < name.len());
        if plain && made.len() < MAX_NAME_BYTES {
            made.push(char::from(*byte));
        } else if made.len() < MAX_NAME_BYTES {
            made.push_str(&format!("%{byte:02X}"));
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let check = |name: &str, expected| assert_eq!(safe_name(name.as_bytes()), expected);
        check("a.b", "a.b");
        check("..", "%2E%2E");
        check("a/b\\c", "a%2Fb%5Cc");
        check("é", "%C3%A9");
        assert!(safe_name(&[b'x'; 1000]).len() <= MAX_NAME_BYTES + 3);
        let mut lister = Lister {
            keep_going: false,
            places: HashMap::new(),
            entries: Vec::new(),
            datasets: Vec::new(),
            names: HashSet::new(),
            notes: Vec::new(),
        };
        let name = |text| Name::from(text);
        assert_eq!(lister.unique("", &name("a"), true), "a");
        assert_eq!(lister.unique("", &name("A"), true), "A~2");
        assert_eq!(lister.unique("", &name("a"), false), "a");
        assert_eq!(lister.unique("g", &name("a"), true), "g/a");
    }
}
