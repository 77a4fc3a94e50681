//! Creation of stores, and lookup of the state that their writers need.

use crate::commit::known_store::NewStore;
use crate::commit::merged_file::{Change, Merge, SkeletonDataset};
use crate::commit::{open_skeleton, writers};
use crate::format::stamp;
use crate::format::stamp::Stamp;
use crate::location::file_identity::FileIdentity;
use crate::location::site::{Site, SiteBuf};
use crate::{
    DatasetId, Definition, FileStamp, KnownStore, Manifest, Marker, StoreId, StoredDataset, WriterId, commit,
    store_folder,
};
use hyperchunk::internal::edits;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, File, OpenOptions, Result, output};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A path of a dataset, and its definition.
pub type NamedDefinition = (Vec<u8>, Definition);

/// A store that is about to be created. Writers that have its `known` may begin already.
#[derive(Debug)]
pub struct PendingStore {
    site: SiteBuf,
    /// State of the store that its writers need.
    pub known: KnownStore,
}

/// Checks that a store may be created and makes its folder. Returns `None` if it replaces an
/// earlier one: its writers' state is then known only once it is created.
///
/// # Errors
/// As [`create`].
pub fn begin<'a>(site: impl Into<Site<'a>>, replaces: bool) -> Result<Option<PendingStore>> {
    let site = site.into().absolute()?;
    if previous_epoch(site.site(), replaces)?.is_some() {
        return Ok(None);
    }
    site.site().operations().make()?;
    if !writers(site.site())?.is_empty() {
        // Otherwise logs of which nothing was committed would be taken for the new store's.
        return Ok(None);
    }
    Ok(Some(PendingStore { site, known: KnownStore { store: StoreId::new(), epoch: 0, seen: None } }))
}

impl PendingStore {
    /// Creates the store, as [`create`] does.
    ///
    /// # Errors
    /// Io; errors of reading the image.
    pub fn create(self, definitions: &[Definition], image: Option<&[u8]>, sync: Sync) -> Result<NewStore> {
        let plain = image.is_none().then(|| definitions.into());
        let store = self.known.store;
        let made = structure(definitions, image, true)
            .and_then(|(mut merge, shown, _)| merge.write(Stamp::of_new(store), &shown))
            .and_then(|image| self.site.site().operations().replace(&image, None, sync).map(|()| image));
        let local = self.site.site().local();
        let image = made.inspect_err(|_| {
            // Succeeds only if no writer has begun.
            drop(local.map(|path| std::fs::remove_dir(store_folder(path))));
        })?;
        let identity = local.and_then(FileIdentity::from_path);
        let known = KnownStore { seen: local.and_then(FileStamp::from_path), ..self.known };
        Ok(NewStore { known, identity, image: image.into(), plain })
    }
}

/// Returns the newest epoch of the store to be replaced. An existing file that must not be replaced
/// is an error, and so is the redo journal of a file that is no longer there.
fn previous_epoch(site: Site<'_>, replaces: bool) -> Result<Option<Arc<Manifest>>> {
    let before = Manifest::newest(site)?;
    if !replaces && (before.is_some() || site.operations().has_file()?) {
        return Err(output::exists(site.operations().path()));
    }
    if let Some(path) = site.local() {
        edits::settle_to_replace(path)?;
    }
    Ok(before)
}

/// Creates a store: a file at its path with the structure, and datasets without data. `image` is an HDF5
/// file with groups, attributes, small data and, by their markers, the datasets of `definitions`;
/// datasets that it lacks are made, with their parent groups.
///
/// An existing file or store is an error, unless `replaces`. In that case the epochs of the earlier
/// store stay for its readers until they are removed (`vacuum`), and a new epoch begins without
/// their content.
///
/// # Errors
/// Exists if there is a file already, or the redo journal of a file that is no longer there; Io from the
/// system; errors of reading the image.
pub fn create<'a>(
    site: impl Into<Site<'a>>,
    definitions: &[Definition],
    image: Option<&[u8]>,
    replaces: bool,
    sync: Sync,
) -> Result<NewStore> {
    let site = site.into();
    if let Some(begun) = begin(site, replaces)? {
        return begun.create(definitions, image, sync);
    }
    let site = site.absolute()?;
    let site = site.site();
    let before = Manifest::newest(site)?;
    let store = before.as_ref().map_or_else(StoreId::new, |before| before.store);
    let parent = before.map_or(0, |before| before.number);
    let (mut merge, shown, stored) = structure(definitions, image, false)?;
    loop {
        let number = Manifest::numbers(site)?.last().map_or(1, |last| last + 1);
        let mut manifest = Manifest {
            store,
            number,
            parent,
            floor: number - 1,
            // All current writers.
            hidden: writers(site)?,
            datasets: stored.clone(),
            ..Manifest::default()
        };
        manifest.image = merge.write(Stamp::of(&manifest), &shown)?;
        manifest.renumber();
        if manifest.publish(site, sync != Sync::Never)? {
            let replaced = site.operations().replace(&manifest.image, None, sync);
            replaced.map_err(|error| commit::with_epoch(error, number))?;
            let seen = site.local().and_then(FileStamp::from_path);
            let known = KnownStore { store, epoch: number, seen };
            let identity = site.local().and_then(FileIdentity::from_path);
            return Ok(NewStore { known, identity, image: manifest.image.into(), plain: None });
        }
    }
}

/// Returns the content of a new store: its structure, the stubs of its datasets, and the datasets.
/// Without an epoch (`announced`), the marker holds the only definition of a dataset until the
/// first write.
fn structure(
    definitions: &[Definition],
    image: Option<&[u8]>,
    announced: bool,
) -> Result<(Merge, HashMap<DatasetId, SkeletonDataset>, Vec<StoredDataset>)> {
    let mut changes = Vec::new();
    if let Some(image) = image {
        let image = File::from_bytes(image.to_vec(), &OpenOptions::default())?;
        changes.push(Change {
            writer: WriterId::default(),
            base: None,
            image,
            deletes: false,
            in_place: false,
            written: HashSet::new(),
        });
    }
    let mut merge = Merge::new(None, &changes)?;
    let mut shown: HashMap<DatasetId, SkeletonDataset> = HashMap::new();
    let mut stored = Vec::new();
    let known: Vec<DatasetId> = merge.datasets().into_iter().map(|(id, _)| id).collect();
    for definition in definitions {
        let id = definition.id()?;
        if !known.contains(&id) {
            merge.add_dataset(id, &definition.path, WriterId::default());
        }
        let (datatype, dims) = (definition.datatype.clone(), definition.dims.clone());
        let fill = definition.fill.value.clone();
        let about = announced.then(|| Arc::new(definition.clone()));
        if shown
            .insert(
                id,
                SkeletonDataset { datatype, dims, segments: None, blocks: None, fill, definition: about },
            )
            .is_some()
        {
            continue;
        }
        let (definition, extent) = (definition.clone(), definition.dims.clone());
        stored.push(StoredDataset { id, definition, extent, parts: Vec::new() });
    }
    Ok((merge, shown, stored))
}

/// Returns the state that a writer of the store at `path` needs, and its datasets with their paths:
/// of the newest epoch or, before the first one, as the markers in the file define them.
///
/// # Errors
/// NotFound; Invalid for an ordinary file; errors of reading the file or the newest epoch.
pub fn attach<'a>(site: impl Into<Site<'a>>) -> Result<(Option<KnownStore>, Vec<NamedDefinition>)> {
    let site = site.into();
    // Read before the epoch, so that a commit in between is noticed.
    let seen = site.local().and_then(FileStamp::from_path);
    if let Some(newest) = Manifest::newest(site)? {
        let known = KnownStore { store: newest.store, epoch: newest.number, seen };
        return Ok((Some(known), named_datasets(site, &newest)?));
    }
    let file = open_skeleton(site)?;
    check_folder(site, &file)?;
    let all = Marker::find_all(&file)?.into_iter();
    let announced = all
        .filter_map(|(path, _, dataset)| Some((path, Definition::from_external_files(dataset.external())?)))
        .collect();
    Ok((None, announced))
}

/// Maximum number of further names of datasets that are returned: hard links of groups may reach
/// the same datasets by very many paths.
const MAX_FURTHER_NAMES: usize = 65_536;

/// Returns the datasets of an epoch with their current paths. They may have been moved or linked
/// since they were defined, also by a program without hyperchunk in the file at the user's path.
pub(crate) fn named_datasets(site: Site<'_>, epoch: &Manifest) -> Result<Vec<NamedDefinition>> {
    let file = commit::skeleton(site, epoch, true)?;
    let all = Marker::find_all(&file)?.into_iter();
    let mut named: Vec<NamedDefinition> = all
        .filter_map(|(path, marker, _)| {
            epoch.dataset(&marker.dataset).map(|stored| (path, stored.definition.clone()))
        })
        .collect();
    let mut links = Vec::new();
    file.walk(&file.root()?, b"/", &mut |visit| {
        if let VisitedItem::Again(first) = visit.found {
            links.push((visit.path.to_vec(), first.to_vec()));
        }
        Ok(Next::Enter)
    })?;
    let first_names = named.len();
    for (link, first) in links {
        // The link is to a dataset or to a group; datasets below the group get the further name as
        // well.
        let slash: &[u8] = if first == b"/" { b"/" } else { b"" };
        let through = |(path, definition): &NamedDefinition| {
            let rest = path.strip_prefix(&*first)?;
            let is_below = rest.is_empty() || rest.starts_with(b"/") || first == b"/";
            is_below.then(|| ([&*link, slash, rest].concat(), definition.clone()))
        };
        let further: Vec<NamedDefinition> = named.iter().filter_map(through).collect();
        named.extend(further);
        named.truncate(first_names.max(MAX_FURTHER_NAMES));
    }
    Ok(named)
}

/// Fails for the file of a store whose folder is missing, since a writer would start a new store, and for
/// an ordinary file, which a writer would turn into a store. Called when no epoch was found.
fn check_folder(site: Site<'_>, file: &File) -> Result<()> {
    let there = site.local().is_none_or(|path| store_folder(path).is_dir());
    let path = site.operations().path().display();
    match stamp::read_epoch(&stamp::start(file)?, file)? {
        Some(0) if there => return Ok(()),
        None if site.has_store()? => return Ok(()),
        None => {
            let message = format!(
                "cannot open the store of {path}: expected its folder {path}.d beside it, got an ordinary HDF5 file; make a \
                 new store, or edit the file itself"
            );
            return Err(Error::invalid(message));
        }
        Some(_) => {}
    }
    let found = if there { "no epoch in it" } else { "no such folder" };
    let message = format!(
        "cannot open the store of {path}: expected its folder {path}.d beside it, got {found}; a hard link, or a file that was \
         copied or moved alone, has none: use the name of the file that it was made with, or move both"
    );
    Err(Error::new(ErrorKind::NotFound, message))
}
