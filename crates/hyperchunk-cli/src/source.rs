//! Options of the input file, and its opening.

use clap::Args;
use hyperchunk::collection::Collection;
use hyperchunk::index::{IndexOption, IndexState};
use hyperchunk::io::RemoteOptions;
use hyperchunk::similar_names::most_similar;
use hyperchunk::{Error, ErrorKind, File, Object, OpenOptions};
use hyperchunk_store::SiteBuf;
use std::path::{Path, PathBuf};

/// Options of object stores.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reaching the file")]
pub(crate) struct StoreOptions {
    /// Address of the object store, if not the usual one.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of the object store.
    #[arg(long)]
    region: Option<String>,
    /// Do not sign requests.
    #[arg(long)]
    anonymous: bool,
    /// Any other setting of the object store, such as access_key_id=ID; may be given several times.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = setting)]
    options: Vec<(String, String)>,
}

impl StoreOptions {
    pub(crate) fn options(&self) -> RemoteOptions {
        let mut remote = RemoteOptions::default();
        let set = [("endpoint", &self.endpoint), ("region", &self.region)];
        let set = set.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        remote.store = set.chain(self.options.iter().cloned()).collect();
        if self.anonymous {
            remote.store.push(("anonymous".into(), "true".into()));
        }
        remote
    }

    /// Returns the location of a file's store.
    pub(crate) fn site(&self, file: &Path) -> SiteBuf {
        SiteBuf::find(file, &self.options())
    }

    /// Returns the location of a store that will be changed; another user's link is an error.
    pub(crate) fn site_to_change(&self, file: &Path) -> hyperchunk::Result<SiteBuf> {
        SiteBuf::find_to_change(file, &self.options())
    }
}

/// Options of input files.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reaching the file")]
pub(crate) struct SourceOptions {
    #[command(flatten)]
    remote: StoreOptions,
    /// Use this index; `beside` also looks for FILE.hcindex over a network; `never` uses none. Without it,
    /// FILE.hcindex of a local file, otherwise the index in the cache folder.
    #[arg(long, value_name = "PATH|beside|never")]
    index: Option<String>,
    /// True if the command reads all structure of the file.
    #[arg(skip)]
    lists: bool,
}

/// File and object that `FILE:/OBJECT` names.
pub(crate) struct Target {
    pub(crate) file: File,
    pub(crate) object: Object,
    pub(crate) path: Vec<u8>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Returns true for names that are URLs, except `file://` URLs.
pub(crate) fn is_url(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && !scheme.eq_ignore_ascii_case("file")
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// Splits `FILE:/OBJECT`: a URL at the first `:/` after its scheme, a path at the first one that follows the name of an
/// existing file, since names of folders may end with a colon, or else at the first one.
pub(crate) fn split(target: &str) -> Option<(&str, &str)> {
    let is_remote = is_url(target);
    let start = if is_remote { target.find("://")? + 3 } else { 0 };
    let places = target.get(start..)?.match_indices(":/").map(|(at, _)| start + at);
    let parts: Vec<(&str, &str)> =
        places.filter_map(|at| Some((target.get(..at)?, target.get(at + 2..)?))).collect();
    let is_file = |name: &str| {
        let path = hyperchunk::io::local_path(name);
        path.and_then(|path| path.metadata().ok()).is_some_and(|metadata| !metadata.is_dir())
    };
    let found = parts.iter().find(|(file, _)| is_remote || is_file(file));
    found.or(parts.first()).copied()
}

/// Returns whether a local file is a collection.
fn is_collection(name: &str, options: &OpenOptions) -> bool {
    hyperchunk::io::local_path(name).is_some() && Collection::open_url(name, options).is_ok()
}

impl SourceOptions {
    /// Returns the same options, for reading all structure of the file if `lists`.
    pub(crate) fn listing(&self, lists: bool) -> Self {
        Self { lists, ..self.clone() }
    }

    pub(crate) fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.remote = self.remote.options();
        if self.lists {
            options.remote = options.remote.for_listing();
        }
        options.index = match self.index.as_deref() {
            None => IndexOption::Auto,
            Some("beside") => IndexOption::Beside,
            Some("never") => IndexOption::Never,
            Some(path) => IndexOption::Path(PathBuf::from(path)),
        };
        options
    }

    /// Opens a file by its path or URL.
    pub(crate) fn open(&self, name: &str) -> Result<File, Error> {
        Self::open_with(name, &self.open_options())
    }

    /// Opens a file like [`SourceOptions::open`], but without an index.
    pub(crate) fn open_unindexed(&self, name: &str) -> Result<File, Error> {
        let mut options = self.open_options();
        // Without an index, all structure is read from the file.
        options.remote = options.remote.for_listing();
        options.index = IndexOption::Never;
        Self::open_with(name, &options)
    }

    pub(crate) fn open_with(name: &str, options: &OpenOptions) -> Result<File, Error> {
        let file = File::open_url(name, options).map_err(|error| match error.kind() {
            ErrorKind::NotHdf5 if is_collection(name, options) => {
                let message = "cannot open the file: expected HDF5, got a collection of files; open it with \
                               hyperchunk.open_collection or xarray in Python, or one of its files";
                Error::new(ErrorKind::NotHdf5, message).file(name)
            }
            _ => error,
        })?;
        if let IndexState::Ignored(why) = file.index_state()
            && !hyperchunk::companion::is_distrust(why)
        {
            crate::print_message(&format!("warning: the index is not used: {why}"));
        }
        Ok(file)
    }

    /// Opens the file and the object that `FILE:/OBJECT` names.
    pub(crate) fn open_object(&self, target: &str) -> Result<Target, Error> {
        let (file, path) = match split(target) {
            Some((file, path)) if is_url(target) => (self.open(file)?, path),
            parts => match (self.open(target), parts) {
                (Err(error), Some((file, path))) if error.kind() == ErrorKind::NotFound => {
                    (self.open(file)?, path)
                }
                (opened, _) => (opened?, ""),
            },
        };
        Self::find_object(&file, path)
    }

    /// Returns the path of which another one may be a misspelling, if its last group has a similar name.
    fn similar_path(file: &File, path: &[u8]) -> Option<String> {
        let mut group = file.root().ok()?.group().ok()?;
        let mut before = String::new();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            match group.get(name) {
                Ok(object) => group = object.group().ok()?,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let names: Vec<_> = group.links().ok()?.into_iter().map(|link| link.name).collect();
                    let similar = most_similar(name, &names)?;
                    return Some(hyperchunk_udf::escape::escape(&format!("{before}/{similar}"), 2000));
                }
                Err(_) => return None,
            }
            before = format!("{before}/{}", String::from_utf8_lossy(name));
        }
        None
    }

    /// Returns the object at a path of a file.
    pub(crate) fn find_object(file: &File, path: &str) -> Result<Target, Error> {
        let path = format!("/{}", path.trim_matches('/')).into_bytes();
        let object = file.root()?.named("/").group()?.get(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => match Self::similar_path(file, &path) {
                Some(similar) => error.advise(format_args!("did you mean {similar}?")),
                None => error.advise("`hyperchunk ls -r FILE` lists what there is"),
            },
            _ => error,
        })?;
        Ok(Target { file: object.file().clone(), object, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let check = |target, expected| assert_eq!(split(target), expected, "{target}");
        check("a.h5", None);
        check("a.h5:/x/y", Some(("a.h5", "x/y")));
        check("/a b/c.h5:/", Some(("/a b/c.h5", "")));
        check("s3://bucket/a.h5", None);
        check("s3://bucket/a.h5:/x", Some(("s3://bucket/a.h5", "x")));
        check("http://127.0.0.1:9000/a.h5:/x:/y", Some(("http://127.0.0.1:9000/a.h5", "x:/y")));
        // The folder's name ends with a colon.
        let folder = std::env::temp_dir().join(format!("hyperchunk-split-{}:", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.h5");
        let target = format!("{}:/x:/y", file.display());
        std::fs::write(&file, "").unwrap();
        assert_eq!(split(&target), Some((file.to_str().unwrap(), "x:/y")));
        std::fs::remove_dir_all(&folder).unwrap();
        let urls = ["s3://b/k", "https://x", "gs+x://b"].map(is_url);
        let paths = ["c:/x", "a b://c", "/a://b", "a.h5:/b", "file:///a"].map(is_url);
        assert_eq!((urls, paths), ([true; 3], [false; 5]));
    }
}
