//! References to chunks for readers of Zarr: kerchunk's JSON, version 1, export and import, and
//! VirtualiZarr's manifests. Source: kerchunk's and fsspec's documentation of the reference specification;
//! Zarr's specification, version 2.

mod attributes;
mod import;
mod zarr;

pub(crate) use attributes::plain as plain_attributes;
pub use import::import;

use crate::walk::{Next, VisitedItem};
use crate::{Dataset, Error, File, Object, Result};
use hyperchunk_format::model::{Layout, ObjectKind};
use serde_json::{Value, json};
use std::io::{self, Write};
use zarr::Array;

/// Format of the references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// kerchunk's JSON, version 1, which fsspec's reference file system reads:
    /// `{"version": 1, "refs": {…}}`.
    Kerchunk,
    /// For each array its Zarr metadata, its attributes and a manifest of its chunks, as VirtualiZarr's
    /// `ChunkManifest` takes it:
    /// `{PATH: {"zarray": …, "zattrs": …, "manifest": {"0.0": {"path": …, "offset": …, "length": …}}}}`.
    VirtualiZarr,
}

/// Objects omitted from references: path and reason.
pub type LeftOut = Vec<(Vec<u8>, String)>;

/// Writes references to all chunks of a file, which they call `url`. Objects that Zarr cannot express exactly
/// are omitted and returned.
///
/// # Errors
/// The errors of the file; Io from `out`.
pub fn export(file: &File, url: &str, kind: Kind, out: &mut dyn Write) -> Result<LeftOut> {
    let root = file.root()?;
    file.prefetch(&root, true, None)?;
    let mut writer =
        Writer { out, url, kind, first: true, left: Vec::new(), unnamed: attributes::UnnamedAxes::default() };
    writer.open()?;
    file.walk(&root, b"/", &mut |visit| {
        match visit.found {
            VisitedItem::Object(object) => writer.object(object, visit.path)?,
            VisitedItem::Again(first) => {
                let first = format!("the same as {}", String::from_utf8_lossy(first));
                writer.left.push((visit.path.to_vec(), first));
            }
            VisitedItem::Link => {
                writer.left.push((visit.path.to_vec(), "a link that is not followed".into()))
            }
            VisitedItem::Broken(error) if error.is_of_reading() => return Err(error),
            VisitedItem::Broken(error) => writer.left.push((visit.path.to_vec(), error.to_string())),
        }
        Ok(Next::Enter)
    })?;
    writer.close()?;
    Ok(writer.left)
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    url: &'w str,
    kind: Kind,
    first: bool,
    left: LeftOut,
    unnamed: attributes::UnnamedAxes,
}

impl Writer<'_> {
    fn open(&mut self) -> Result<()> {
        let text = if self.kind == Kind::Kerchunk { "{\"version\": 1, \"refs\": {" } else { "{" };
        self.out.write_all(text.as_bytes()).map_err(cannot_write)
    }

    fn close(&mut self) -> Result<()> {
        let text = if self.kind == Kind::Kerchunk { "\n}}\n" } else { "\n}\n" };
        self.out.write_all(text.as_bytes()).map_err(cannot_write)
    }

    /// Writes another member of the outer object.
    fn member(&mut self, key: &str, value: &dyn std::fmt::Display) -> Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n{}: {value}", json!(key)).map_err(cannot_write)
    }

    /// Writes a member whose value is a string that contains JSON.
    fn text(&mut self, path: &str, name: &str, value: &Value) -> Result<()> {
        let key = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        self.member(&key, &json!(value.to_string()))
    }

    fn object(&mut self, object: &Object, path: &[u8]) -> Result<()> {
        let Ok(name) = std::str::from_utf8(path) else {
            self.left.push((path.to_vec(), "its name is not UTF-8".into()));
            return Ok(());
        };
        let name = name.trim_matches('/');
        match object.kind() {
            ObjectKind::Group if self.kind == Kind::Kerchunk => {
                self.text(name, ".zgroup", &json!({"zarr_format": 2}))?;
                let attributes = attributes::group(object)?;
                if attributes.as_object().is_some_and(|attributes| !attributes.is_empty()) {
                    self.text(name, ".zattrs", &attributes)?;
                }
                Ok(())
            }
            ObjectKind::Dataset => {
                let array =
                    object.dataset().and_then(|dataset| Ok((Array::new(&dataset, self.kind)?, dataset)));
                match array {
                    Ok((array, dataset)) => self.array(&array, &dataset, name),
                    Err(error) if error.is_of_reading() => Err(error),
                    Err(error) => {
                        self.left.push((path.to_vec(), error.to_string()));
                        Ok(())
                    }
                }
            }
            _ => Ok(()),
        }
    }

    fn array(&mut self, array: &Array, dataset: &Dataset, name: &str) -> Result<()> {
        let attributes = attributes::array(dataset, array.shape(), &mut self.unnamed)?;
        match self.kind {
            Kind::Kerchunk => {
                self.text(name, ".zarray", &array.metadata)?;
                self.text(name, ".zattrs", &attributes)?;
                if let Layout::Compact { data } = dataset.layout() {
                    let text = format!("base64:{}", zarr::base64(data));
                    return self.member(&format!("{name}/{}", array.key(&[])), &json!(text));
                }
                for (key, offset, length) in array.chunks() {
                    self.member(&format!("{name}/{key}"), &json!([self.url, offset, length]))?;
                }
                Ok(())
            }
            Kind::VirtualiZarr => {
                if matches!(dataset.layout(), Layout::Compact { .. }) {
                    self.left.push((
                        name.into(),
                        "its data are in its object header, which a manifest cannot express".into(),
                    ));
                    return Ok(());
                }
                let comma = if std::mem::take(&mut self.first) { "" } else { "," };
                let (metadata, name) = (&array.metadata, json!(name));
                write!(
                    self.out,
                    "{comma}\n{name}: {{\"zarray\": {metadata}, \"zattrs\": {attributes}, \"manifest\": {{"
                )
                .map_err(cannot_write)?;
                for (number, (key, offset, length)) in array.chunks().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    // VirtualiZarr takes the values in this order and ignores the keys.
                    let (key, path) = (json!(key), json!(self.url));
                    write!(
                        self.out,
                        "{comma}{key}: {{\"path\": {path}, \"offset\": {offset}, \"length\": {length}}}"
                    )
                    .map_err(cannot_write)?;
                }
                self.out.write_all(b"}}").map_err(cannot_write)
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn cannot_write(error: io::Error) -> Error {
    Error::new(crate::ErrorKind::Io, format!("cannot write the references: {error}"))
}

#[cfg(test)]
mod tests;
