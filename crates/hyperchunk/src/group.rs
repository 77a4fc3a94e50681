//! Groups and paths.

use crate::file::File;
use crate::object::Object;
use crate::storage::BLOCKS;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Link, LinkTarget, Name, ObjectKind};
use hyperchunk_format::parse::group;

/// A group.
#[derive(Debug, Clone)]
pub struct Group {
    object: Object,
}

impl Group {
    pub(crate) fn new(object: Object) -> Self {
        Self { object }
    }

    /// Returns the underlying [`Object`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let runs = file.root()?.group()?.get("runs/first")?.group()?;
    /// assert_eq!(runs.object().attribute_values::<i64>("number")?, Some(vec![1]));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Returns all its links, sorted by name. The root group's link to the blocks of a sharded store's
    /// virtual datasets is omitted, since no user created it.
    ///
    /// # Errors
    /// If they cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// use hyperchunk::model::LinkTarget;
    ///
    /// for link in file.root()?.group()?.links()? {
    ///     match &link.target {
    ///         LinkTarget::Soft(path) => assert_eq!(path.to_string(), "/runs/first"),
    ///         _ => assert_ne!(link.name.to_string(), "latest"),
    ///     }
    /// }
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn links(&self) -> Result<Vec<Link>> {
        let mut links = self.object.parse(group::links)?;
        if self.is_root() {
            links.retain(|link| link.name.as_bytes() != BLOCKS);
        }
        Ok(links)
    }

    /// Returns the number of links.
    ///
    /// # Errors
    /// If they cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.group()?.get("runs")?.group()?.len()?, 1);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        let count = self.object.parse(group::count)?;
        let hidden = count > 0 && self.is_root() && self.link(BLOCKS)?.is_some();
        Ok(count.saturating_sub(hidden.into()))
    }

    fn is_root(&self) -> bool {
        self.object.address() == self.object.file().superblock().root
    }

    /// Returns whether it has no links.
    ///
    /// # Errors
    /// If they cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert!(!file.root()?.group()?.is_empty()?);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Returns whether it tracks the creation order of its links.
    ///
    /// # Errors
    /// If its messages cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert!(!file.root()?.group()?.tracks_order()?);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn tracks_order(&self) -> Result<bool> {
        Ok(self.object.parse(group::info)?.is_some_and(|info| info.order_tracked))
    }

    /// Returns the link of a name, if it exists.
    ///
    /// # Errors
    /// If it cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let root = file.root()?.group()?;
    /// assert!(root.link("latest")?.is_some());
    /// assert!(root.link("oldest")?.is_none());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn link(&self, name: impl AsRef<[u8]>) -> Result<Option<Link>> {
        self.object.parse(|image, header| group::find(image, header, name.as_ref()))
    }

    /// Returns the link at a path, without following it; `None` if the last name does not exist.
    ///
    /// # Errors
    /// NotFound if an earlier name on the path does not exist; other errors if something on it cannot be
    /// read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let root = file.root()?.group()?;
    /// assert!(root.link_at(b"runs/first/steps")?.is_some());
    /// assert!(root.link_at(b"runs/first/none")?.is_none());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn link_at(&self, path: &[u8]) -> Result<Option<Link>> {
        let path = without_closing_slashes(path);
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..=at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let parent = if parent.is_empty() { self.object.clone() } else { self.get(parent)? };
        parent.group()?.link(name)
    }

    /// Returns the full path of a path relative to this group, for messages.
    fn full_path(&self, path: &[u8]) -> String {
        let path = Name::from(path).to_string();
        match self.object.path() {
            Some(here) if !path.starts_with('/') => format!("{}/{path}", here.trim_end_matches('/')),
            _ => path,
        }
    }

    /// Returns the object at a path, from the root if it starts with `/`. Soft and external links are
    /// followed; the object knows its file.
    ///
    /// # Errors
    /// NotFound with the missing name; Limit for a cycle of links; other errors if something on the path
    /// cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{ErrorKind, File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let root = file.root()?.group()?;
    /// // Through a soft link.
    /// assert_eq!(root.get("latest/steps")?.dataset()?.dims(), [5]);
    /// let error = root.get("latest/stops").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn get(&self, path: impl AsRef<[u8]>) -> Result<Object> {
        let path = path.as_ref();
        let mut depth = self.object.file().options().limits.link_depth;
        let mut elsewhere = None;
        let found = walk(self.object.clone(), path, &mut depth, &mut elsewhere);
        let asked = self.full_path(path);
        match elsewhere {
            None => found.map(|object| object.named(&asked)).map_err(|error| error.object(&asked)),
            Some(own) => found
                .map(|object| object.named(&own).asked_for_as(&asked))
                .map_err(|error| error.object(&own)),
        }
    }
}

/// Strips the trailing slashes of a path.
fn without_closing_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    &path[..end]
}

/// Follows a path from an object; `depth` is the remaining number of soft and external links. After an
/// external link, `elsewhere` is the path within the link's target file, which messages need because a path
/// has a meaning only together with its file.
fn walk(from: Object, path: &[u8], depth: &mut u32, elsewhere: &mut Option<String>) -> Result<Object> {
    let mut at = if path.starts_with(b"/") { from.file().root()? } else { from };
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        if let Some(elsewhere) = elsewhere {
            if elsewhere != "/" {
                elsewhere.push('/');
            }
            elsewhere.push_str(&Name::from(name).to_string());
        }
        if at.kind() != ObjectKind::Group {
            let message = format!("cannot find `{}`: its parent is not a group", Name::from(name));
            return Err(at.file().with_context(Error::new(ErrorKind::NotFound, message)));
        }
        let Some(link) = at.parse(|image, header| group::find(image, header, name))? else {
            let message = format!("no link of the name `{}`", Name::from(name));
            return Err(at.file().with_context(Error::new(ErrorKind::NotFound, message)));
        };
        at = follow(&at, &link, depth, elsewhere)?;
    }
    Ok(at)
}

/// Returns the object that a group's link points to.
fn follow(group: &Object, link: &Link, depth: &mut u32, elsewhere: &mut Option<String>) -> Result<Object> {
    if let LinkTarget::Hard(address) = &link.target {
        return group.file().object(*address);
    }
    let file = group.file();
    let name = |error: Error| file.with_context(error);
    *depth = depth.checked_sub(1).ok_or_else(|| {
        name(Error::limit(
            "too many soft and external links on the path (limit `link_depth`), or a cycle of links",
        ))
    })?;
    match &link.target {
        LinkTarget::Hard(address) => file.object(*address),
        LinkTarget::Soft(path) => {
            // The target of a soft link is named by the link's path, unless it is in another file.
            let mut beyond = None;
            let found = walk(group.clone(), path.as_bytes(), depth, &mut beyond);
            if beyond.is_some() {
                *elsewhere = beyond;
            }
            found
        }
        LinkTarget::External { file: other, path } => {
            let other: File = file.0.external.open(file, other)?;
            *elsewhere = Some("/".to_owned());
            walk(other.root()?, path.as_bytes(), depth, elsewhere)
        }
        LinkTarget::User { class, .. } => {
            let message = format!(
                "`{}` is a user-defined link of class {class}; only its application can follow it",
                link.name
            );
            Err(name(Error::unsupported(message)))
        }
    }
}
