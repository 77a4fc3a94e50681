//! Destinations of batches: files that appear at their paths when they are complete.

use crate::values::arrow;
use crate::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use hyperchunk::output::{self, Kind, Output};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The format of an Arrow file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An IPC file: `.arrow`, `.feather`, `.ipc`.
    File,
    /// An IPC stream: `.arrows`.
    Stream,
    /// Parquet: `.parquet`.
    Parquet,
}

impl Format {
    /// Returns the format for a file name, or an error that lists the supported suffixes.
    ///
    /// # Errors
    /// Invalid for a suffix of another format, and for a name without a known suffix.
    pub fn asked_for(path: &Path) -> Result<Self> {
        output::choose(path, &[Kind::Table])?;
        Self::of(path)
            .ok_or_else(|| Error::invalid("no Arrow or Parquet format for this suffix").file(path.display()))
    }

    /// Returns the format for a file name.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "arrow" | "feather" | "ipc" => Some(Self::File),
            "arrows" => Some(Self::Stream),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }
}

pub(super) fn io(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.to_string()).file(path.display())
}

/// A file that is being written.
pub(super) struct Sink {
    writer: Writer,
    path: PathBuf,
}

enum Writer {
    File(FileWriter<BufWriter<Output>>),
    Stream(StreamWriter<BufWriter<Output>>),
    /// With the schema of the batches that are stored.
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::arrow::ArrowWriter<BufWriter<Output>>>, arrow_schema::SchemaRef),
    Finished,
}

impl Sink {
    /// Creates a file at `path`, which appears there with [`Sink::finish`].
    pub(super) fn create(path: &Path, format: Format, schema: &Schema, replace: bool) -> Result<Self> {
        if cfg!(not(feature = "parquet")) && format == Format::Parquet {
            return Err(Error::unsupported("this build has no Parquet (feature `parquet`)"));
        }
        let file = BufWriter::with_capacity(1 << 20, Output::create(path, replace)?);
        let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5).map_err(arrow)?;
        let writer = match format {
            Format::File => FileWriter::try_new_with_options(file, schema, options).map(Writer::File),
            Format::Stream => StreamWriter::try_new_with_options(file, schema, options).map(Writer::Stream),
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
                let mut properties = parquet::file::properties::WriterProperties::builder()
                    .set_compression(parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::default()))
                    .build();
                parquet::arrow::add_encoded_arrow_schema_to_metadata(schema, &mut properties);
                let options =
                    ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                let stored = std::sync::Arc::new(super::parquet_types::stored_schema(schema));
                ArrowWriter::try_new_with_options(file, std::sync::Arc::clone(&stored), options)
                    .map(|writer| Writer::Parquet(Box::new(writer), stored))
                    .map_err(Into::into)
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => {
                return Err(Error::unsupported("this build has no Parquet (feature `parquet`)"));
            }
        };
        match writer {
            Ok(writer) => Ok(Self { writer, path: path.to_owned() }),
            Err(error) => Err(Error::unsupported(error.to_string()).file(path.display())),
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.writer {
            Writer::File(writer) => writer.write(batch),
            Writer::Stream(writer) => writer.write(batch),
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer, schema) => super::parquet_types::converted(batch, schema)
                .and_then(|batch| writer.write(&batch).map_err(Into::into)),
            Writer::Finished => Ok(()),
        };
        written.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &arrow_schema::ArrowError) -> Error {
        let kind = match error {
            arrow_schema::ArrowError::IoError(..) => ErrorKind::Io,
            _ => ErrorKind::Unsupported,
        };
        Error::new(kind, error.to_string()).file(self.path.display())
    }

    /// Completes the file, which then appears at its path; returns its size.
    pub(super) fn finish(mut self) -> Result<u64> {
        let finished = match std::mem::replace(&mut self.writer, Writer::Finished) {
            Writer::File(mut writer) => writer.finish().and_then(|()| writer.into_inner()),
            Writer::Stream(mut writer) => writer.finish().and_then(|()| writer.into_inner()),
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer, _) => writer.into_inner().map_err(Into::into),
            Writer::Finished => return Err(Error::invalid("the file is already finished")),
        };
        let file = finished.map_err(|error| self.error(&error))?;
        let file = file.into_inner().map_err(|error| io(&self.path, error.error()))?;
        let size = file.size()?;
        file.finish()?;
        Ok(size)
    }
}
