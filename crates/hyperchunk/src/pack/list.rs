//! List of the objects in the sources.

use super::{Input, PackOptions};
use crate::external::to_path;
use crate::output::same_file;
use crate::{Dataset, Error, ErrorKind, File, Object, Result};
use hyperchunk_format::model::{Layout, Link, LinkTarget, Name, ObjectKind};
use std::collections::HashMap;
use std::path::Path;

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 1024;

/// An object of a source.
#[derive(Debug)]
pub struct Item {
    /// Index of the source in [`Contents::inputs`].
    pub input: usize,
    /// The object.
    pub object: Object,
    /// The object as a dataset, if it is one.
    pub dataset: Option<Dataset>,
    /// First path in the source by which the object was found.
    pub path: Vec<u8>,
    /// Links of a group, in the order in which they are created in the new file.
    pub links: Vec<Link>,
}

/// All objects of all sources: each source's root group first, and groups before their members.
#[derive(Debug)]
pub struct Contents {
    /// The sources.
    pub inputs: Vec<Input>,
    /// The objects.
    pub items: Vec<Item>,
    /// Item of each source's root group.
    pub roots: Vec<usize>,
    /// Items by address, for each source.
    addresses: Vec<HashMap<u64, usize>>,
}

impl Contents {
    /// Lists the objects of all sources.
    ///
    /// # Errors
    /// The errors of reading the sources.
    pub fn list(inputs: Vec<Input>) -> Result<Self> {
        let addresses = vec![HashMap::new(); inputs.len()];
        let mut contents = Self { inputs, items: Vec::new(), roots: Vec::new(), addresses };
        for input in 0..contents.inputs.len() {
            let file = contents.inputs[input].file.clone();
            let root = file.root()?;
            if file.is_remote() {
                file.prefetch(&root, true, None)?;
            }
            contents.roots.push(contents.items.len());
            contents.add(input, root, b"/".to_vec())?;
            contents.below(input, &file)?;
        }
        Ok(contents)
    }

    /// Lists an object of a file and all objects below it. [`Contents::roots`] is empty.
    ///
    /// # Errors
    /// The errors of reading the objects.
    pub fn list_object(input: Input, object: Object) -> Result<Self> {
        let file = input.file.clone();
        if file.is_remote() {
            file.prefetch(&object, true, None)?;
        }
        let path = object.path().unwrap_or("/").as_bytes().to_vec();
        let is_group = object.kind() == ObjectKind::Group;
        let mut contents =
            Self { inputs: vec![input], items: vec![], roots: vec![], addresses: vec![HashMap::new()] };
        contents.add(0, object, path)?;
        if is_group {
            contents.below(0, &file)?;
        }
        Ok(contents)
    }

    /// Creates a list from the items of one source.
    pub(crate) fn from_items(inputs: Vec<Input>, items: Vec<Item>) -> Self {
        let numbered = items.iter().enumerate();
        let addresses = numbered.map(|(number, item)| (item.object.address(), number)).collect();
        Self { inputs, items, roots: Vec::new(), addresses: vec![addresses] }
    }

    /// Adds all objects that are reachable by hard links from the last item.
    fn below(&mut self, input: usize, file: &File) -> Result<()> {
        let root = self.items.len() - 1;
        // The groups on the current path, each with the index of its next link.
        let mut open = vec![(root, 0)];
        while let Some((group, next)) = open.last_mut() {
            let item = &self.items[*group];
            let Some(link) = item.links.get(*next) else {
                open.pop();
                continue;
            };
            *next += 1;
            let LinkTarget::Hard(address) = link.target else { continue };
            if self.addresses[input].contains_key(&address) {
                continue;
            }
            let mut path = item.path.clone();
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(link.name.as_bytes());
            let shown = Name::from(&*path).to_string();
            let object = file.object(address).map_err(|error| error.object(&shown))?;
            let number = self.items.len();
            self.add(input, object.named(&shown), path)?;
            if self.items[number].object.kind() == ObjectKind::Group {
                if open.len() >= MAX_DEPTH {
                    let message = format!("groups are nested deeper than {MAX_DEPTH} levels");
                    return Err(Error::limit(message).object(shown));
                }
                open.push((number, 0));
            }
        }
        Ok(())
    }

    fn add(&mut self, input: usize, object: Object, path: Vec<u8>) -> Result<()> {
        let mut item = Item { input, object, dataset: None, path, links: Vec::new() };
        match item.object.kind() {
            ObjectKind::Group => {
                let group = item.object.group()?;
                item.links = group.links()?;
                if group.tracks_order()? {
                    item.links.sort_by_key(|link| link.creation_order);
                } else {
                    item.links.sort_by(|a, b| a.name.cmp(&b.name));
                }
            }
            ObjectKind::Dataset => item.dataset = Some(item.object.dataset()?),
            ObjectKind::Datatype => {}
        }
        self.addresses[input].insert(item.object.address(), self.items.len());
        self.items.push(item);
        Ok(())
    }

    /// Returns the item at an address of a source.
    pub fn find(&self, input: usize, address: u64) -> Option<usize> {
        self.addresses.get(input)?.get(&address).copied()
    }

    /// Iterates over addresses and items of a source's objects, in no defined order.
    pub fn input_objects(&self, input: usize) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.addresses.get(input).into_iter().flatten().map(|(address, item)| (*address, *item))
    }

    /// Finds the datasets at a path of any source or of the new file.
    pub(crate) fn at_path(&self, path: &str) -> Result<Vec<usize>> {
        let path = path.trim_matches('/');
        let mut found = Vec::new();
        for (input, Input { file, into }) in self.inputs.iter().enumerate() {
            let inside = path.strip_prefix(into.trim_matches('/')).map(|path| path.trim_start_matches('/'));
            for path in [Some(path), inside].into_iter().flatten() {
                let object = match file.root()?.group()?.get(path.as_bytes()) {
                    Err(error) if error.is_of_reading() => return Err(error),
                    Err(_) => continue,
                    Ok(object) => object,
                };
                let item = self.find(input, object.address()).filter(|_| object.file().same(file));
                found.extend(item.filter(|item| self.items[*item].dataset.is_some()));
            }
        }
        Ok(found)
    }

    /// Returns the path in the new file for an absolute path of a source; `None` if it does not change.
    pub(crate) fn moved(&self, input: usize, path: &[u8]) -> Option<Vec<u8>> {
        let into = self.inputs[input].into.trim_matches('/');
        (path.starts_with(b"/") && !into.is_empty())
            .then(|| [b"/".as_slice(), into.as_bytes(), if path == b"/" { b"" } else { path }].concat())
    }

    /// Checks that no source has changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.inputs.iter().try_for_each(|input| input.file.check_unchanged())
    }

    /// Checks that the new file replaces neither a source nor a file to which a source refers: the new file
    /// would refer to itself. Such files have virtual sources or raw data, or are targets of external links.
    ///
    /// # Errors
    /// Invalid, with the object that refers to the file.
    pub fn check_not_a_source(&self, path: &Path) -> Result<()> {
        let same = |input: &&Input| {
            !input.file.is_remote() && input.file.path().is_some_and(|input| same_file(input, path))
        };
        match self.inputs.iter().find(same) {
            Some(_) => {
                let message = "cannot replace one of the files to be packed; name another output";
                Err(Error::new(ErrorKind::Invalid, message).file(path.display()))
            }
            None => self.check_not_named(path),
        }
    }

    fn check_not_named(&self, path: &Path) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        for item in &self.items {
            let folder = self.inputs[item.input].file.located().and_then(Path::parent);
            let Some(folder) = folder.filter(|_| !self.inputs[item.input].file.is_remote()) else { continue };
            let found = named_files(item).into_iter().find(|name| {
                // If `name` is absolute, `join` ignores the folder.
                to_path(name).is_ok_and(|name| same_file(&folder.join(name), path))
            });
            if let Some(name) = found {
                let message = format!(
                    "cannot write the file: it is an input of this command, {} refers to it (as {name}); name another output",
                    Name::from(&item.path[..])
                );
                return Err(Error::new(ErrorKind::Invalid, message).file(path.display()));
            }
        }
        Ok(())
    }

    /// Checks that the new file does not replace a file that was read through a source.
    pub(crate) fn check_unread(&self, path: &Path) -> Result<()> {
        self.inputs.iter().try_for_each(|input| input.file.check_unread(path))
    }

    /// Returns the size of the user block of a single source; `None` if there is none to keep. The Arrow part
    /// at the start of a dual file is not kept: its offsets are valid in that file only.
    pub(crate) fn user_block(&self) -> Option<u64> {
        let [input] = &self.inputs[..] else { return None };
        let base = input.file.superblock().base;
        let mut start = [0; 6];
        let read = base > 0 && input.file.0.source.read_at(0, &mut start).is_ok();
        let plain = read && start != *b"ARROW1" && base.is_power_of_two() && base >= 512;
        plain.then_some(base)
    }

    /// Returns notes for the user. `user_block` is true if the new file has the source's user block.
    pub(crate) fn notes(&self, options: &PackOptions, user_block: bool) -> Vec<String> {
        let mut notes = Vec::new();
        for input in self.inputs.iter().filter(|_| !user_block) {
            let base = input.file.superblock().base;
            if base > 0 {
                let name = input.file.path().map_or_else(String::new, |path| path.display().to_string());
                notes.push(format!("the user block of {name} ({base} bytes) is omitted"));
            }
        }
        let external =
            |link: &&Link| matches!(&link.target, LinkTarget::External { .. } | LinkTarget::User { .. });
        let links = self.items.iter().flat_map(|item| &item.links).filter(external).count();
        let elsewhere = |dataset: &&Dataset| {
            !dataset.external().is_empty() || matches!(dataset.layout(), Layout::Virtual { .. })
        };
        let datasets = self.items.iter().filter_map(|item| item.dataset.as_ref()).filter(elsewhere).count();
        if links > 0 {
            notes.push(format!("{links} links refer to other files: they are copied unchanged"));
        }
        if datasets > 0 && !options.embed {
            let what = "are in other files or datasets: they are not copied (--embed copies them)";
            notes.push(format!("the data of {datasets} datasets {what}"));
        }
        notes
    }
}

/// Returns the names of the other files that an object refers to.
fn named_files(item: &Item) -> Vec<&Name> {
    let links = item.links.iter().filter_map(|link| match &link.target {
        LinkTarget::External { file, .. } => Some(file),
        _ => None,
    });
    let data = item.dataset.iter().flat_map(|dataset| {
        let raw = dataset.external().iter().map(|file| &file.name);
        raw.chain(dataset.mappings().iter().flat_map(|mapping| &mapping.file.parts))
    });
    links.chain(data).filter(|name| name.as_bytes() != b".").collect()
}
