//! Objects: common parts of groups, datasets and committed datatypes.

use crate::dataset::Dataset;
use crate::file::File;
use crate::group::Group;
use crate::{Error, Result};
use hyperchunk_format::Image;
use hyperchunk_format::model::{Attribute, Datatype, Name, ObjectHeader, ObjectKind};
use hyperchunk_format::parse::{attributes, object, object_header};
use std::sync::Arc;

/// An object of a file: a group, a dataset or a committed datatype. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Object {
    file: File,
    header: Arc<ObjectHeader>,
    kind: ObjectKind,
    /// The path in its file, for messages.
    path: Option<Arc<str>>,
    /// The requested path, if an external link on it pointed to another file.
    asked: Option<Arc<str>>,
}

impl Object {
    pub(crate) fn open(file: &File, address: u64) -> Result<Self> {
        let header = file.parse(|image| object_header::parse(image, address))?;
        Self::from_header(file, Arc::new(header))
    }

    /// Returns the object of a header that was read before.
    pub(crate) fn from_header(file: &File, header: Arc<ObjectHeader>) -> Result<Self> {
        let address = header.address;
        let kind = object::kind(&header).ok_or_else(|| {
            let message =
                format!("the object at address {address:#x} is neither group, dataset nor datatype");
            file.with_context(Error::unsupported(message))
        })?;
        Ok(Self { file: file.clone(), header, kind, path: None, asked: None })
    }

    /// Returns its kind.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// use hyperchunk::model::ObjectKind;
    ///
    /// assert_eq!(file.root()?.kind(), ObjectKind::Group);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Returns the address of its header, relative to the file's base address: its identity in its file.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let root = file.root()?.group()?;
    /// // Two links to one object.
    /// assert_eq!(root.get("latest")?.address(), root.get("runs/first")?.address());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn address(&self) -> u64 {
        self.header.address
    }

    /// Returns its file.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.file().size(), file.size());
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns its header.
    #[must_use]
    pub fn header(&self) -> &ObjectHeader {
        &self.header
    }

    /// Returns the object with this path, which its error messages then contain.
    #[must_use]
    pub fn named(self, path: &str) -> Self {
        Self { path: Some(path.into()), asked: None, ..self }
    }

    /// Returns the object with the requested path: a path in the file whose external link points to it.
    pub(crate) fn asked_for_as(self, path: &str) -> Self {
        Self { asked: Some(path.into()), ..self }
    }

    /// Returns its path, if known.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.group()?.get("runs/first")?.path(), Some("runs/first"));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns the path by which the object was requested. After an external link this is a path in the file
    /// with the link, whereas [`Object::path`] is a path in the link's target file.
    #[must_use]
    pub fn asked_path(&self) -> Option<&str> {
        self.asked.as_deref().or(self.path())
    }

    /// Adds the names of this object and its file to an error.
    pub fn with_context(&self, error: Error) -> Error {
        let error = match &self.path {
            Some(path) => error.object(path),
            None => error,
        };
        self.file.with_context(error)
    }

    /// Returns all its attributes, by name.
    ///
    /// # Errors
    /// If one of them cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// for attribute in temperature.attributes()? {
    ///     println!("{}: {} bytes", attribute.name, attribute.data.len());
    /// }
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        self.parse(attributes::all)
    }

    /// Returns one of its attributes.
    ///
    /// # Errors
    /// If it cannot be read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let title = file.root()?.attribute("title")?;
    /// assert!(title.is_some_and(|title| title.dataspace.dims().is_empty()));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attribute(&self, name: impl AsRef<[u8]>) -> Result<Option<Attribute>> {
        self.parse(|image, header| attributes::find(image, header, name.as_ref()))
    }

    /// Returns all its attributes, by name, each with its own error if it is damaged.
    ///
    /// # Errors
    /// If they cannot be listed.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// assert!(temperature.each_attribute()?.iter().all(|(_, attribute)| attribute.is_ok()));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn each_attribute(&self) -> Result<Vec<(Name, Result<Attribute>)>> {
        let all = self.parse(attributes::each)?;
        Ok(all
            .into_iter()
            .map(|(name, attribute)| (name, attribute.map_err(|error| self.with_context(error))))
            .collect())
    }

    /// Returns the names of its attributes, in creation order if that is tracked, else sorted.
    ///
    /// # Errors
    /// If they cannot be listed.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// let names: Vec<String> = temperature.attribute_names()?.iter().map(ToString::to_string).collect();
    /// assert_eq!(names, ["range", "units"]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attribute_names(&self) -> Result<Vec<Name>> {
        let mut listed = self.parse(attributes::listed)?;
        if self.header.attribute_order_tracked {
            listed.sort_by_key(|(_, order)| *order);
        } else {
            listed.sort_unstable();
        }
        Ok(listed.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the number of attributes.
    ///
    /// # Errors
    /// If they cannot be listed.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// assert_eq!(temperature.attribute_count()?, 2);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attribute_count(&self) -> Result<u64> {
        self.parse(attributes::count)
    }

    /// Returns its comment.
    ///
    /// # Errors
    /// None at present: the header was read when the object was opened.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.comment()?, None);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn comment(&self) -> Result<Option<Name>> {
        Ok(object::comment(&self.header))
    }

    /// Returns its last modification time in seconds since 1970, if tracked.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn modification_time(&self) -> Result<Option<i64>> {
        object::modification_time(&self.header).map_err(|error| self.with_context(error))
    }

    /// Returns it as a group.
    ///
    /// # Errors
    /// Invalid if it is not a group.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// assert_eq!(file.root()?.group()?.len()?, 6);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn group(&self) -> Result<Group> {
        self.expect(ObjectKind::Group)?;
        Ok(Group::new(self.clone()))
    }

    /// Returns it as a dataset.
    ///
    /// # Errors
    /// Invalid if it is not a dataset; Corrupt or Unsupported from its messages.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert_eq!(temperature.dims(), [4, 6]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn dataset(&self) -> Result<Dataset> {
        self.expect(ObjectKind::Dataset)?;
        Dataset::open(self.clone())
    }

    /// Returns it as a committed datatype.
    ///
    /// # Errors
    /// Invalid if it is not a datatype; Corrupt or Unsupported from its message.
    pub fn datatype(&self) -> Result<Datatype> {
        self.expect(ObjectKind::Datatype)?;
        self.parse(object::datatype).map(|(datatype, _)| datatype)
    }

    fn expect(&self, kind: ObjectKind) -> Result<()> {
        if self.kind == kind {
            return Ok(());
        }
        let message = format!("the object is a {:?}, not a {kind:?}", self.kind).to_lowercase();
        Err(self.with_context(Error::invalid(message)))
    }

    /// Runs a parser over its header.
    pub(crate) fn parse<T>(&self, parser: impl Fn(Image<'_>, &ObjectHeader) -> Result<T>) -> Result<T> {
        self.file.parse(|image| parser(image, &self.header)).map_err(|error| self.with_context(error))
    }
}
