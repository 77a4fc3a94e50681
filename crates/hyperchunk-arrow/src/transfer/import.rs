//! Import of Arrow files to HDF5.

use super::column_attributes::{store_type, text_attribute};
use super::layout;
use super::manifest::{self, Entry, Kind, MANIFEST, Target as To};
use super::source::TableFile;
use crate::types::metadata::{
    ARROW_TYPE, DTYPE, NAMED, PATH, SPACE, VALID, VALID_SUFFIX, decode_datatype, parse_space,
};
use crate::types::{boolean, datatype_from_field, fits};
use crate::values::{attributes_from_metadata, committed, write_column};
use crate::{Error, ErrorKind, Result};
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema};
use hyperchunk::encode::LibVersion;
use hyperchunk::io::{LocalFile, Source as _};
use hyperchunk::model::{Class, Dataspace, Datatype, FillWhen, ObjectKind};
use hyperchunk::output;
use hyperchunk::write::{CreateOptions, DatasetOptions, DatasetWriter, NewLink, NodeId, Writer};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// Options of an import.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Replace an existing target.
    pub replace: bool,
    /// The path of the dataset or group; by default the path in the table's metadata, or else the file's name
    /// without its suffix.
    pub name: Option<String>,
    /// Store a table that did not come from HDF5 as one dataset of compounds, instead of a group with a
    /// dataset for each column.
    pub compound: bool,
    /// The oldest HDF5 that must be able to read the new file.
    pub oldest: LibVersion,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportSummary {
    /// The number of groups.
    pub groups: u64,
    /// The number of datasets.
    pub datasets: u64,
    /// The number of committed datatypes.
    pub datatypes: u64,
    /// The number of attributes.
    pub attributes: u64,
    /// The number of rows, of all datasets.
    pub rows: u64,
    /// The size of the new file.
    pub bytes: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Imports a folder that an export made, or an Arrow file, to an HDF5 file. `progress` is called after each
/// batch with its number of bytes.
///
/// # Errors
/// Errors of reading and writing; Unsupported, with the name of the column, for data that HDF5 cannot
/// represent. Then there is no new file.
pub fn import(
    from: &Path,
    to: &Path,
    options: &ImportOptions,
    progress: &dyn Fn(u64),
) -> Result<ImportSummary> {
    output::accept(to, &[output::Kind::Hdf5])?;
    output::check(to, options.replace, &[from])?;
    if from.is_dir() {
        output::check_folder(to, from)?;
    }
    let mut create = CreateOptions::default();
    create.oldest = options.oldest;
    create.newest = LibVersion::V200;
    create.journal = false;
    create.replace = options.replace;
    let imported = if from.is_dir() { Source::folder(from)? } else { Source::file(from, options)? };
    let writer = Writer::create(to, &create)?;
    let made = imported.fill(&writer, options, progress).and_then(|made| writer.close().map(|()| made));
    match made {
        Ok(mut made) => {
            for notice in writer.notices() {
                if !made.notes.contains(&notice) {
                    made.notes.push(notice);
                }
            }
            made.bytes = writer.size();
            Ok(made)
        }
        Err(error) => {
            // A second error would hide the cause.
            drop(writer.discard());
            Err(error)
        }
    }
}

/// The source of an import.
enum Source {
    Folder { path: PathBuf, entries: Vec<Entry> },
    File { path: PathBuf, name: String },
}

/// Checks that there are no symbolic links between a folder and a file in it: an export has none, and one
/// could point outside.
fn no_link(folder: &Path, relative: &Path) -> Result<()> {
    let mut path = folder.to_owned();
    for part in relative.components() {
        path.push(part);
        if path.symlink_metadata().is_ok_and(|there| there.is_symlink()) {
            let message = "cannot import from the folder: expected a file in it, got a symbolic link";
            return Err(Error::invalid(message).file(path.display()));
        }
    }
    Ok(())
}

impl Source {
    fn folder(path: &Path) -> Result<Self> {
        let manifest = path.join(MANIFEST);
        no_link(path, Path::new(MANIFEST))?;
        let file = LocalFile::open(&manifest).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                Error::invalid(format!("the folder has no {MANIFEST}: no export wrote it"))
                    .file(path.display())
            } else {
                error.file(manifest.display())
            }
        })?;
        if file.size() > MAX_MANIFEST_BYTES {
            return Err(Error::limit(format!("a manifest of {} bytes", file.size())).file(manifest.display()));
        }
        let mut bytes = vec![0; usize::try_from(file.size()).unwrap_or(0)];
        file.read_at(0, &mut bytes).map_err(|error| error.file(manifest.display()))?;
        let entries = manifest::read(&bytes).map_err(|error| error.file(manifest.display()))?;
        Ok(Self::Folder { path: path.to_owned(), entries })
    }

    fn file(path: &Path, options: &ImportOptions) -> Result<Self> {
        let table = TableFile::open(path)?;
        let schema = table.schema();
        let known = schema.metadata().get(PATH).or_else(|| match &schema.fields()[..] {
            [field] => field.metadata().get(PATH),
            _ => None,
        });
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = options.name.clone().or_else(|| known.cloned()).unwrap_or_else(stem);
        Ok(Self::File { path: path.to_owned(), name })
    }

    fn fill(
        &self,
        writer: &Writer,
        options: &ImportOptions,
        progress: &dyn Fn(u64),
    ) -> Result<ImportSummary> {
        let mut imported = ImportSummary::default();
        match self {
            Self::Folder { path, entries } => {
                let folder = Folder { path, entries, writer, progress };
                folder.fill(&mut imported)?;
            }
            Self::File { path, name } => {
                one(path, name, writer, options, progress, &mut imported)
                    .map_err(|error| error.file(path.display()))?;
            }
        }
        Ok(imported)
    }
}

/// A dataset described by a schema.
struct Plan {
    datatype: Datatype,
    dataspace: Dataspace,
    metadata: HashMap<String, String>,
    /// True if the columns are members of a compound.
    members: bool,
}

impl Plan {
    /// Returns the dataset that a schema describes; `None` if it does not describe a single dataset.
    fn of(schema: &Schema) -> Result<Option<Self>> {
        if let Some(text) = schema.metadata().get(DTYPE) {
            let datatype = decode_datatype(text)?;
            let is_compound = matches!(datatype.class, Class::Compound { .. });
            if is_compound && fits(&datatype, &DataType::Struct(schema.fields().clone()), 0) {
                let metadata: HashMap<String, String> = schema.metadata().clone().into();
                let space = metadata.get(SPACE).map(|text| parse_space(text)).transpose()?;
                let space = space.filter(|space| space.dims().len() <= 1);
                let dataspace = space.unwrap_or_else(|| simple(&[0]));
                return Ok(Some(Self { datatype, dataspace, metadata, members: true }));
            }
        }
        let [field] = &schema.fields()[..] else { return Ok(None) };
        // A table of one column is a group, too.
        let Some(text) = field.metadata().get(SPACE).filter(|_| !schema.metadata().contains_key(PATH)) else {
            return Ok(None);
        };
        let (datatype, cell) = datatype_from_field(field)?;
        let space = parse_space(text)?;
        let same = match &space {
            Dataspace::Simple { dims, .. } => dims.get(1..) == Some(&cell[..]),
            _ => cell.is_empty(),
        };
        let dataspace = if same { space } else { simple(&[&[0], &cell[..]].concat()) };
        Ok(Some(Self { datatype, dataspace, metadata: field.metadata().clone().into(), members: false }))
    }

    /// Adjusts the extent to the present number of rows, which changes if the table was edited.
    fn with_rows(mut self, rows: u64) -> Self {
        match &mut self.dataspace {
            Dataspace::Null if rows == 0 => {}
            Dataspace::Scalar if rows == 1 => {}
            Dataspace::Simple { dims, max } if !dims.is_empty() => {
                if let (Some(dim), Some(max)) = (dims.first_mut(), max.first_mut()) {
                    *dim = rows;
                    *max = max.map(|max| max.max(rows));
                }
            }
            other => *other = simple(&[rows]),
        }
        self
    }

    fn create(
        &self,
        writer: &Writer,
        parent: NodeId,
        name: &[u8],
        committed: Option<u64>,
    ) -> Result<(DatasetWriter, Option<String>)> {
        let (mut options, note) = layout::options(&self.metadata, &self.datatype, &self.dataspace)?;
        options.committed = committed;
        let fallback = DatasetOptions {
            committed,
            track_order: options.track_order,
            ..DatasetOptions::new(self.datatype.clone(), self.dataspace.clone())
        };
        if let FillWhen::User(value) = &options.fill.value
            && value.len() as u64 != self.datatype.size
        {
            return Err(Error::corrupt(format!("a fill value of {} bytes", value.len())));
        }
        match writer.create_dataset(parent, name, options) {
            Ok(dataset) => Ok((dataset, note)),
            Err(first) => match writer.create_dataset(parent, name, fallback) {
                Ok(dataset) => Ok((dataset, Some(format!("stored in one piece: {}", first.message())))),
                Err(_) => Err(first),
            },
        }
    }

    /// Writes a batch.
    fn write(&self, dataset: &DatasetWriter, from: u64, batch: &RecordBatch) -> Result<()> {
        if self.members {
            let fields = batch.schema_ref().fields().clone();
            let columns = batch.columns().to_vec();
            let rows = StructArray::try_new_with_length(fields.clone(), columns, None, batch.num_rows());
            let rows = rows.map_err(crate::values::arrow)?;
            let field = Field::new("values", DataType::Struct(fields), false);
            return write_column(dataset, from, &field, &rows);
        }
        let (Some(column), Some(field)) = (batch.columns().first(), batch.schema_ref().fields().first())
        else {
            return Err(Error::corrupt("the table has no columns"));
        };
        no_nulls(field, column)?;
        write_column(dataset, from, field, column)
    }
}

/// Checks for nulls. HDF5's data are never null, except strings of variable length, and NumPy's times, which
/// have NaT.
fn no_nulls(field: &Field, column: &ArrayRef) -> Result<()> {
    let text = matches!(
        field.data_type(),
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::LargeBinary
            | DataType::Binary
            | DataType::BinaryView
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Date32
            | DataType::Date64
    );
    if !text && column.logical_null_count() > 0 {
        return Err(Error::unsupported(format!("column {}: its dataset cannot store nulls", field.name())));
    }
    Ok(())
}

fn simple(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().copied().map(Some).collect() }
}

/// A folder to import.
struct Folder<'a> {
    path: &'a Path,
    entries: &'a [Entry],
    writer: &'a Writer,
    progress: &'a dyn Fn(u64),
}

impl Folder<'_> {
    fn fill(&self, imported: &mut ImportSummary) -> Result<()> {
        let mut nodes: Vec<Option<NodeId>> = Vec::with_capacity(self.entries.len());
        for (number, entry) in self.entries.iter().enumerate() {
            nodes.push(match entry.kind {
                Kind::Group if number == 0 => {
                    self.writer.track_root_order(entry.track_order)?;
                    Some(NodeId::ROOT)
                }
                Kind::Group => Some(self.writer.create_group(NodeId::ROOT, b"", entry.track_order)?),
                Kind::Datatype => {
                    let text = entry
                        .metadata
                        .get(DTYPE)
                        .ok_or_else(|| Error::corrupt("its encoded datatype is missing"));
                    let datatype = text.and_then(|text| decode_datatype(text));
                    let datatype = datatype.map_err(|error| error.object(&entry.path))?;
                    Some(self.writer.commit_datatype(NodeId::ROOT, b"", datatype)?)
                }
                Kind::Dataset => None,
            });
            match entry.kind {
                Kind::Group => imported.groups += 1,
                Kind::Datatype => imported.datatypes += 1,
                Kind::Dataset => {}
            }
        }
        let paths: HashMap<&str, usize> =
            self.entries.iter().enumerate().map(|(number, entry)| (entry.path.as_str(), number)).collect();
        let mut datasets = Vec::new();
        for (number, entry) in
            self.entries.iter().enumerate().filter(|(_, entry)| entry.kind == Kind::Dataset)
        {
            let made = self.dataset(entry, &paths, &nodes, imported);
            if let Some((plan, dataset, path)) = made.map_err(|error| error.object(&entry.path))? {
                if let Some(node) = nodes.get_mut(number) {
                    *node = Some(dataset.id());
                }
                datasets.push((entry, plan, dataset, path));
            }
        }
        self.links(&nodes, imported)?;
        for (entry, node) in self.entries.iter().zip(&nodes) {
            let Some(node) = *node else { continue };
            let plan =
                datasets.iter().find(|(other, ..)| std::ptr::eq(*other, entry)).map(|(_, plan, ..)| plan);
            let metadata = plan.map_or(&entry.metadata, |plan| &plan.metadata);
            imported.attributes += attributes_from_metadata(metadata, self.writer, node, &[])
                .map_err(|error| error.object(&entry.path))?;
            if entry.comment.is_some() {
                self.writer.set_comment(node, entry.comment.clone())?;
            }
        }
        for (entry, plan, dataset, path) in &datasets {
            let rows = values(path, plan, dataset, self.progress);
            imported.rows += rows.map_err(|error| error.object(&entry.path))?;
            imported.datasets += 1;
        }
        Ok(())
    }

    fn dataset(
        &self,
        entry: &Entry,
        paths: &HashMap<&str, usize>,
        nodes: &[Option<NodeId>],
        imported: &mut ImportSummary,
    ) -> Result<Option<(Plan, DatasetWriter, PathBuf)>> {
        let Some(file) = &entry.file else {
            let why = entry.missing.as_deref().unwrap_or("no values");
            imported.notes.push(format!("{} is left out: {why}", entry.path));
            return Ok(None);
        };
        let relative = Path::new(file);
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) || file.is_empty() {
            return Err(Error::corrupt(format!("its values are in {file}, outside of the folder")));
        }
        let path = self.path.join(relative);
        no_link(self.path, relative)?;
        let table = TableFile::open(&path)?;
        let plan = Plan::of(table.schema())?;
        let plan =
            plan.ok_or_else(|| Error::corrupt("its file does not describe a dataset").file(path.display()))?;
        let used = plan.metadata.get(NAMED).and_then(|named| paths.get(named.as_str()));
        let used = used.and_then(|number| nodes.get(*number).copied().flatten());
        let named = match used {
            Some(node) if self.writer.kind(node)? == ObjectKind::Datatype => {
                let same = self.writer.datatype(node)? == plan.datatype;
                if same { Some(self.writer.address(node)?) } else { None }
            }
            _ => None,
        };
        let (dataset, note) = plan.create(self.writer, NodeId::ROOT, b"", named)?;
        imported.notes.extend(note.map(|note| format!("{}: {note}", entry.path)));
        Ok(Some((plan, dataset, path)))
    }

    fn links(&self, nodes: &[Option<NodeId>], imported: &mut ImportSummary) -> Result<()> {
        for (entry, node) in self.entries.iter().zip(nodes) {
            let Some(group) = *node else { continue };
            for (name, target) in &entry.links {
                let target = match target {
                    To::Object(number) => match nodes.get(*number).copied().flatten() {
                        Some(node) => NewLink::Hard(node),
                        None => {
                            imported
                                .notes
                                .push(format!("{}: the link {name} is left out with its target", entry.path));
                            continue;
                        }
                    },
                    To::Soft(path) => NewLink::Soft(path.clone()),
                    To::External(file, path) => NewLink::External { file: file.clone(), path: path.clone() },
                    To::User(class, data) => NewLink::User { class: *class, data: data.clone() },
                };
                let made = self.writer.link(group, name.as_bytes(), target);
                made.map_err(|error| error.object(&entry.path))?;
            }
        }
        Ok(())
    }
}

/// Writes all values of a dataset; returns the number of rows.
fn values(path: &Path, plan: &Plan, dataset: &DatasetWriter, progress: &dyn Fn(u64)) -> Result<u64> {
    let expected = match &plan.dataspace {
        Dataspace::Null => 0,
        Dataspace::Scalar => 1,
        Dataspace::Simple { dims, .. } => dims.first().copied().unwrap_or(1),
    };
    let mut rows = 0_u64;
    for batch in TableFile::open(path)? {
        let batch = batch?;
        let count = batch.num_rows() as u64;
        if rows.saturating_add(count) > expected {
            break;
        }
        if count > 0 {
            plan.write(dataset, rows, &batch)?;
        }
        rows += count;
        progress(batch.get_array_memory_size() as u64);
    }
    if rows == expected {
        return Ok(rows);
    }
    Err(Error::corrupt(format!("its file does not have the {expected} rows of its extent"))
        .file(path.display()))
}

/// Imports one file.
fn one(
    path: &Path,
    name: &str,
    writer: &Writer,
    options: &ImportOptions,
    progress: &dyn Fn(u64),
    imported: &mut ImportSummary,
) -> Result<()> {
    imported.groups += 1;
    let (parent, last) = parents(writer, name, imported)?;
    let table = TableFile::open(path)?;
    let schema = Arc::clone(table.schema());
    let rows = table.count_rows()?;
    let known = Plan::of(&schema)?;
    let is_from_hdf5 = known.is_some();
    let plan = match known {
        Some(plan) => Some(plan),
        None if options.compound => {
            let field = Field::new("values", DataType::Struct(schema.fields().clone()), false);
            let (datatype, _) = datatype_from_field(&field)?;
            Some(Plan { datatype, dataspace: simple(&[rows]), metadata: HashMap::new(), members: true })
        }
        None => None,
    };
    let Some(plan) = plan else {
        return columns(path, &schema, rows, (writer, parent, &last), progress, imported);
    };
    let plan = plan.with_rows(rows);
    let named = match plan.metadata.get(NAMED) {
        Some(path) => committed(writer, path, &plan.datatype)?,
        None => None,
    };
    let (dataset, note) = plan.create(writer, parent, last.as_bytes(), named)?;
    imported.notes.extend(note.map(|note| format!("{name}: {note}")));
    if !is_from_hdf5 {
        store_type(writer, dataset.id(), &DataType::Struct(schema.fields().clone()))?;
    }
    imported.attributes += attributes_from_metadata(&plan.metadata, writer, dataset.id(), &[])?;
    imported.rows += values(path, &plan, &dataset, progress)?;
    imported.datasets += 1;
    Ok(())
}

/// Returns the parent group of a path, creating groups as needed, and the last name.
fn parents(writer: &Writer, path: &str, imported: &mut ImportSummary) -> Result<(NodeId, String)> {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let last = names.pop().ok_or_else(|| Error::invalid("a table needs a name"))?;
    let mut group = NodeId::ROOT;
    for name in names {
        group = match writer.find(group, name.as_bytes())? {
            Some(NewLink::Hard(node)) => node,
            _ => {
                imported.groups += 1;
                writer.create_group(group, name.as_bytes(), false)?
            }
        };
    }
    Ok((group, last.to_owned()))
}

/// A column that is imported as a dataset of its own.
struct Column {
    dataset: DatasetWriter,
    field: Field,
    valid: Option<DatasetWriter>,
}

/// Imports a table that did not come from HDF5: a group, with a dataset for each column.
fn columns(
    path: &Path,
    schema: &Schema,
    rows: u64,
    (writer, parent, name): (&Writer, NodeId, &str),
    progress: &dyn Fn(u64),
    imported: &mut ImportSummary,
) -> Result<()> {
    let group = writer.create_group(parent, name.as_bytes(), true)?;
    imported.groups += 1;
    let metadata = schema.metadata().clone().into();
    imported.attributes +=
        attributes_from_metadata(&metadata, writer, group, &[ARROW_TYPE, VALID, "h5.table"])?;
    let mut made = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let (datatype, cell) = datatype_from_field(field)?;
        let wrong = |why: &str| Error::unsupported(format!("column {}: {why}", field.name()));
        if field.name().is_empty() || field.name().contains(['/', '\0']) || field.name() == "." {
            return Err(wrong("HDF5 cannot have this name: rename it"));
        }
        let dataspace = simple(&[&[rows], &cell[..]].concat());
        let options = DatasetOptions::new(datatype, dataspace);
        let dataset = writer.create_dataset(group, field.name().as_bytes(), options)?;
        store_type(writer, dataset.id(), field.data_type())?;
        // The type and the nulls of a table that was imported before may be others now.
        let metadata = field.metadata().clone().into();
        imported.attributes +=
            attributes_from_metadata(&metadata, writer, dataset.id(), &[ARROW_TYPE, VALID])?;
        made.push(Column { dataset, field: (**field).clone(), valid: None });
        imported.datasets += 1;
    }
    let mut done = 0_u64;
    for batch in TableFile::open(path)? {
        let batch = batch?;
        for (column, array) in made.iter_mut().zip(batch.columns()) {
            column.write(writer, group, done, rows, array, imported)?;
        }
        done += batch.num_rows() as u64;
        progress(batch.get_array_memory_size() as u64);
    }
    imported.rows += done;
    for column in made.iter().filter(|column| column.valid.is_some()) {
        imported.notes.push(format!(
            "column {} has nulls, which HDF5 does not have: other programs see zeros, and the dataset {}, which marks the \
             valid rows",
            column.field.name(),
            column.valid_name()
        ));
    }
    let names: Vec<&str> = made.iter().map(|column| column.field.name().as_str()).collect();
    if !names.is_empty() {
        text_attribute(writer, group, "h5.table", &names)?;
    }
    Ok(())
}

impl Column {
    /// Returns the name of the dataset that marks the rows which are not null.
    fn valid_name(&self) -> String {
        format!("{}{VALID_SUFFIX}", self.field.name())
    }

    fn write(
        &mut self,
        writer: &Writer,
        group: NodeId,
        from: u64,
        rows: u64,
        array: &ArrayRef,
        imported: &mut ImportSummary,
    ) -> Result<()> {
        if array.is_empty() {
            return Ok(());
        }
        write_column(&self.dataset, from, &self.field, array)?;
        // These types have a value for null in HDF5.
        let is_text = matches!(self.dataset.datatype().class, Class::VlenString { .. });
        let own = (is_text && self.dataset.dims().len() == 1)
            || matches!(array.data_type(), DataType::Timestamp(_, None) | DataType::Duration(_));
        let Some(nulls) = array.logical_nulls().filter(|nulls| !own && nulls.null_count() > 0) else {
            return Ok(());
        };
        let name = self.valid_name();
        let valid = match self.valid.take() {
            Some(valid) => valid,
            None => {
                // Rows that are not written are valid.
                let mut options = DatasetOptions::new(boolean(), simple(&[rows]));
                options.fill.value = FillWhen::User(vec![1]);
                imported.datasets += 1;
                text_attribute(writer, self.dataset.id(), VALID, &[&name])?;
                writer.create_dataset(group, name.as_bytes(), options)?
            }
        };
        let values: BooleanBuffer = nulls.inner().clone();
        let field = Field::new(&name, DataType::Boolean, false);
        write_column(&valid, from, &field, &BooleanArray::new(values, None))?;
        self.valid = Some(valid);
        Ok(())
    }
}
