//! Reading Arrow files in batches. The files are untrusted: in an IPC file, each size is checked against the
//! file before it is read.

use super::sink::io;
use crate::values::guarded;
use crate::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, StreamDecoder, read_footer_length};
use arrow_ipc::{Block, convert, root_as_footer};
use arrow_schema::SchemaRef;
use hyperchunk::io::{LocalFile, Source as _};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Number of bytes of a stream that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// The magic number at the start and the end of IPC files.
const MAGIC: &[u8; 6] = b"ARROW1";

/// A file of Arrow: IPC or Parquet.
pub struct TableFile {
    path: PathBuf,
    schema: SchemaRef,
    reader: Reader,
    size: u64,
}

enum Reader {
    File {
        file: File,
        decoder: FileDecoder,
        blocks: std::vec::IntoIter<Block>,
    },
    Stream {
        file: File,
        decoder: Box<StreamDecoder>,
        buffer: Buffer,
        first: Option<RecordBatch>,
        ended: bool,
    },
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::arrow::arrow_reader::ParquetRecordBatchReader>),
}

impl std::fmt::Debug for TableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TableFile {
    /// Opens a file, whose format is determined by its first bytes.
    ///
    /// # Errors
    /// NotFound or Io from the system; Corrupt if it is damaged; Unsupported for other formats.
    pub fn open(path: &Path) -> Result<Self> {
        guarded(|| Self::opened(path)).map_err(|error| error.file(path.display()))
    }

    fn opened(path: &Path) -> Result<Self> {
        let file = LocalFile::open(path)?;
        let size = file.size();
        let mut file = file.into_file()?;
        let mut start = [0; 8];
        let read = read_up_to(&mut file, &mut start).map_err(|error| io(path, &error))?;
        let start = start.get(..read).unwrap_or_default();
        let made = |schema, reader| Ok(Self { path: path.to_owned(), schema, reader, size });
        if start.starts_with(MAGIC) {
            let (schema, decoder, blocks) = footer(&mut file, size)?;
            return made(schema, Reader::File { file, decoder, blocks: blocks.into_iter() });
        }
        if start.starts_with(b"PAR1") {
            return parquet_file(path, file, size);
        }
        if start.starts_with(&[0xFF; 4]) {
            file.seek(SeekFrom::Start(0)).map_err(|error| io(path, &error))?;
            let (mut decoder, mut buffer) =
                (Box::new(StreamDecoder::new()), Buffer::from_vec(Vec::<u8>::new()));
            let (mut first, mut ended) = (None, false);
            while decoder.schema().is_none() && !ended {
                (first, ended) = next_of_stream(&mut file, &mut decoder, &mut buffer, true)?;
            }
            let schema = decoder.schema().ok_or_else(|| Error::corrupt("an IPC stream without a schema"))?;
            return made(schema, Reader::Stream { file, decoder, buffer, first, ended });
        }
        Err(Error::unsupported("unknown format: expected an Arrow IPC file or stream, or Parquet"))
    }

    /// Returns its schema.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Counts its rows. IPC streams and Parquet files are read for this.
    ///
    /// # Errors
    /// Corrupt or Truncated if it is damaged.
    pub fn count_rows(mut self) -> Result<u64> {
        let path = self.path.clone();
        guarded(|| self.rows()).map_err(|error| error.file(path.display()))
    }

    fn rows(&mut self) -> Result<u64> {
        let mut rows = 0_u64;
        if let Reader::File { file, blocks, .. } = &mut self.reader {
            for block in blocks.by_ref() {
                let offset = u64::try_from(block.offset()).unwrap_or(u64::MAX);
                let length = u64::try_from(block.metaDataLength()).unwrap_or(u64::MAX);
                let bytes = read_at(file, self.size, offset, length)?;
                let start = if bytes.starts_with(&[0xFF; 4]) { 8 } else { 4 };
                let message = arrow_ipc::root_as_message(bytes.get(start..).unwrap_or_default());
                let message = message.map_err(|error| Error::corrupt(error.to_string()).at(offset))?;
                let count = message.header_as_record_batch().map_or(0, |batch| batch.length());
                rows = rows.saturating_add(u64::try_from(count).unwrap_or(0));
            }
            return Ok(rows);
        }
        while let Some(batch) = self.next_batch()? {
            rows = rows.saturating_add(batch.num_rows() as u64);
        }
        Ok(rows)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.reader {
            Reader::File { file, decoder, blocks } => {
                for block in blocks.by_ref() {
                    let buffer = read_block(file, self.size, &block)?;
                    if let Some(batch) = decoder.read_record_batch(&block, &buffer).map_err(damaged)? {
                        return Ok(Some(batch));
                    }
                }
                Ok(None)
            }
            Reader::Stream { file, decoder, buffer, first, ended } => {
                if let Some(batch) = first.take() {
                    return Ok(Some(batch));
                }
                while !*ended {
                    let (batch, end) = next_of_stream(file, decoder, buffer, false)?;
                    *ended = end;
                    if batch.is_some() {
                        return Ok(batch);
                    }
                }
                Ok(None)
            }
            #[cfg(feature = "parquet")]
            Reader::Parquet(reader) => match reader.next().transpose().map_err(damaged)? {
                Some(batch) => {
                    super::parquet_types::converted(&batch, &self.schema).map(Some).map_err(damaged)
                }
                None => Ok(None),
            },
        }
    }
}

impl Iterator for TableFile {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = guarded(|| self.next_batch()).transpose()?;
        Some(next.map_err(|error| error.file(self.path.display())))
    }
}

fn damaged(error: arrow_schema::ArrowError) -> Error {
    let kind = match &error {
        arrow_schema::ArrowError::IoError(..) => ErrorKind::Io,
        arrow_schema::ArrowError::NotYetImplemented(_) => ErrorKind::Unsupported,
        arrow_schema::ArrowError::InvalidArgumentError(text) if text.contains("compression") => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Corrupt,
    };
    Error::new(kind, error.to_string())
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads bytes of the file, if they are all inside it.
fn read_at(file: &mut File, size: u64, offset: u64, length: u64) -> Result<Buffer> {
    let wrong = || {
        let message = format!("the file ends at byte {size}: expected {length} bytes here");
        Error::new(ErrorKind::Truncated, message).at(offset)
    };
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(wrong());
    }
    let length = usize::try_from(length).map_err(|_| Error::limit("larger than the address space"))?;
    let mut buffer = super::dataset::zeroed(length).map_err(|error| error.at(offset))?;
    let failed = |error: std::io::Error| Error::new(ErrorKind::Io, error.to_string()).at(offset);
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    file.read_exact(buffer.as_slice_mut()).map_err(failed)?;
    Ok(buffer.into())
}

fn read_block(file: &mut File, size: u64, block: &Block) -> Result<Buffer> {
    let parts = u64::try_from(block.offset()).ok().zip(u64::try_from(block.bodyLength()).ok());
    let metadata = u64::try_from(block.metaDataLength()).ok();
    let length = parts.zip(metadata).and_then(|((_, body), metadata)| body.checked_add(metadata));
    let (Some((offset, _)), Some(length)) = (parts, length) else {
        return Err(Error::corrupt("a block of negative size").within("IPC footer"));
    };
    read_at(file, size, offset, length)
}

/// Returns the schema of an IPC file, a decoder with its dictionaries, and the blocks of the batches.
fn footer(file: &mut File, size: u64) -> Result<(SchemaRef, FileDecoder, Vec<Block>)> {
    let cut = || Error::new(ErrorKind::Truncated, "the end of the IPC file is missing").within("IPC footer");
    let last = size.checked_sub(10).ok_or_else(cut)?;
    let trailer = read_at(file, size, last, 10)?;
    let trailer: [u8; 10] = trailer.as_slice().try_into().map_err(|_| cut())?;
    let length = read_footer_length(trailer).map_err(|_| cut())? as u64;
    let start = last.checked_sub(length).ok_or_else(cut)?;
    let bytes = read_at(file, size, start, length)?;
    let footer = root_as_footer(&bytes)
        .map_err(|error| Error::corrupt(error.to_string()).within("IPC footer").at(start))?;
    let schema = footer.schema().ok_or_else(|| Error::corrupt("no schema").within("IPC footer"))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(Error::unsupported("the IPC file has the other byte order"));
    }
    let schema = std::sync::Arc::new(convert::try_fb_to_schema(schema).map_err(damaged)?);
    let mut decoder = FileDecoder::new(std::sync::Arc::clone(&schema), footer.version());
    for block in footer.dictionaries().iter().flatten() {
        let buffer = read_block(file, size, block)?;
        decoder.read_dictionary(block, &buffer).map_err(damaged)?;
    }
    let blocks = footer.recordBatches().iter().flatten().copied().collect();
    Ok((schema, decoder, blocks))
}

/// Returns the next batch of a stream, and whether the stream has ended. `for_schema`: stop when the schema
/// is known.
fn next_of_stream(
    file: &mut File,
    decoder: &mut StreamDecoder,
    buffer: &mut Buffer,
    for_schema: bool,
) -> Result<(Option<RecordBatch>, bool)> {
    loop {
        if buffer.is_empty() {
            let mut piece = vec![0; PIECE_BYTES];
            let read =
                read_up_to(file, &mut piece).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
            if read == 0 {
                return decoder.finish().map(|()| (None, true)).map_err(damaged);
            }
            piece.truncate(read);
            *buffer = Buffer::from_vec(piece);
        }
        if let Some(batch) = decoder.decode(buffer).map_err(damaged)? {
            return Ok((Some(batch), false));
        }
        if for_schema && decoder.schema().is_some() {
            return Ok((None, false));
        }
        if !buffer.is_empty() && decoder.schema().is_some() {
            // The stream has ended; later bytes are not part of it.
            return Ok((None, true));
        }
    }
}

#[cfg(feature = "parquet")]
fn parquet_file(path: &Path, file: File, size: u64) -> Result<TableFile> {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let failed = |error: parquet::errors::ParquetError| Error::corrupt(error.to_string());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
    let mut schema = std::sync::Arc::clone(builder.schema());
    if let Some(declared) = declared_schema(builder.metadata().file_metadata()) {
        schema = std::sync::Arc::new(super::parquet_types::declared_schema(&schema, &declared));
    }
    let reader = builder.with_batch_size(8192).build().map_err(failed)?;
    Ok(TableFile { path: path.to_owned(), schema, reader: Reader::Parquet(Box::new(reader)), size })
}

/// Returns the Arrow schema that the writer of a Parquet file stored in it.
#[cfg(feature = "parquet")]
fn declared_schema(about: &parquet::file::metadata::FileMetaData) -> Option<arrow_schema::Schema> {
    use base64::Engine as _;
    let stored =
        about.key_value_metadata()?.iter().find(|pair| pair.key == parquet::arrow::ARROW_SCHEMA_META_KEY)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(stored.value.as_ref()?).ok()?;
    convert::try_schema_from_ipc_buffer(&bytes).ok()
}

#[cfg(not(feature = "parquet"))]
fn parquet_file(_: &Path, _: File, _: u64) -> Result<TableFile> {
    Err(Error::unsupported("this build has no Parquet (feature `parquet`)"))
}
