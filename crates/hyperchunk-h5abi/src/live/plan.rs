//! Plan for computing the chunks of one open live dataset: checked once, used for each chunk.

use super::attributes;
use super::cycle_check::{self, LiveDataset};
use super::external_inputs::ExternalInputs;
use super::readahead::Engine;
use super::record::VerifiedRecord;
use super::sources;
use super::stored::StorageForm;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::{ACC_RDWR, ACC_SWMR_READ, ADDRESS_UNDEFINED, Hid, LAYOUT_CHUNKED, LAYOUT_CONTIGUOUS};
use crate::virtual_sources::VIRTUAL;
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_expression::{Kind, Program};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::expression::compile;
use hyperchunk_udf::host::results::Results;
use hyperchunk_udf::host::{Job, JobSlot, Pool, Programs, Session, SessionKey, Source, cache, compiled_form};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::Slot;
use hyperchunk_udf::trust;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// Plan for a live dataset in one open file.
pub(crate) struct Plan {
    /// HDF5's serial number of the open file.
    pub(crate) instance: u64,
    /// The [version stamp](trust::stamp) of the trust configuration when the plan was made.
    pub(crate) trust: u64,
    /// True if none of the data that the plan reads can change while the file is open.
    pub(crate) read_only: bool,
    /// True if inputs that are read whole cannot change: the file is read-only and contains all of their
    /// data.
    pub(crate) constant: bool,
    pub(crate) verified: Arc<VerifiedRecord>,
    pub(crate) profile: Profile,
    /// The path of the dataset, for messages.
    pub(crate) name: String,
    /// The path of the file, for messages.
    pub(crate) file_path: String,
    /// The source of each slot's data, in the order of
    /// [`Record::slots`](hyperchunk_udf::record::Record::slots).
    pub(crate) key: Arc<SessionKey>,
    /// The record's expression, if it has one.
    pub(crate) program: Option<Program>,
    /// The cache of results, if enabled.
    pub(crate) results: Option<Results>,
    /// The live datasets that each input is computed from, by the input's name; filled only if they cannot
    /// change.
    made_of: Mutex<BTreeMap<String, Arc<[LiveDataset]>>>,
    /// True if there may be inputs that the engine can read.
    chunked: bool,
    engine: OnceLock<Option<Engine>>,
}

impl Plan {
    /// Fills `to` with a part of an input, without libhdf5. Returns `false` if libhdf5 has to read it.
    pub(super) fn read_by_engine(
        &self,
        library: &'static Library,
        live: Hid,
        slot: &Slot,
        part: (&[u64], &[u64]),
        to: &mut [u8],
    ) -> bool {
        let record = &self.verified.record;
        let state = (self.key.file, self.key.version);
        let disk = || {
            let disk = on_disk(library, &library.object_file(live).ok()?)?;
            ((disk.identity, disk.version) == state).then_some(disk)
        };
        let engine =
            || self.engine.get_or_init(|| Engine::new(record, (state, self.verified.digest), disk()?));
        self.chunked && engine().as_ref().is_some_and(|engine| engine.read(record, slot, part, to, disk))
    }

    /// Returns the check for files from which inputs are allowed; `file` contains the live dataset.
    pub(super) fn outside(&self, library: &'static Library, file: &Handle) -> Result<ExternalInputs> {
        ExternalInputs::new(library, file, self.profile.inputs)
    }

    /// Returns the live datasets that an open input is computed from. Fails if it comes from files from which
    /// inputs are not allowed.
    pub(super) fn live_in(
        &self,
        library: &'static Library,
        file: &Handle,
        (input, name): (Hid, &str),
    ) -> Result<Arc<[LiveDataset]>> {
        if let Some(known) = cache(&self.made_of).and_then(|made_of| made_of.get(name).map(Arc::clone)) {
            return Ok(known);
        }
        let found: Arc<[LiveDataset]> =
            cycle_check::live_in(library, input, &self.outside(library, file)?)?.into();
        if self.read_only
            && let Some(mut made_of) = cache(&self.made_of)
        {
            made_of.insert(name.to_owned(), Arc::clone(&found));
        }
        Ok(found)
    }

    /// Checks the dataset against its record, and looks up the inputs.
    pub(crate) fn new(
        library: &'static Library,
        dataset: Hid,
        file: &Handle,
        instance: u64,
        verified: Arc<VerifiedRecord>,
    ) -> Result<Self> {
        let trusted = trust::stamp();
        let name = library.object_name(dataset, library.f.id_name);
        let file_path = library.object_name(file.id, library.f.file_name);
        let profile = verified.profile().map_err(|e| {
            verified.note(&file_path, &name, None, Some(&e));
            let text = format!("({}): {e}", verified.describe(None));
            Error::new(e.kind(), text).about(format!("{file_path}:{name}"))
        })?;
        let about = |e: Error| {
            Error::new(e.kind(), format!("({}): {}", verified.describe(Some(&profile)), e))
                .about(format!("{file_path}:{name}"))
        };
        profile.allow(verified.record.backend, verified.signer).map_err(|e| {
            verified.note(&file_path, &name, Some(&profile.name), Some(&e));
            about(e)
        })?;
        let mut inputs = Inputs {
            library,
            file,
            instance,
            mappable: None,
            storable: false,
            elsewhere: false,
            made_elsewhere: false,
            chunked: false,
            kinds: Vec::new(),
        };
        let on_disk = on_disk(library, file);
        // A file that is opened for SWMR reading may change.
        let read_only = library.intent(file) & (ACC_RDWR | ACC_SWMR_READ) == 0;
        // The cache key of a result contains the bytes of its inputs, so these are read and not mapped.
        let results = Results::for_record(&verified.record, &profile);
        inputs.mappable = on_disk.as_ref().filter(|_| read_only && results.is_none()).map(|d| d.version.0);
        inputs.storable = results.is_none();
        let slots = inputs.job_slots(&verified).map_err(about)?;
        let program = match verified.record.backend {
            Backend::Expression => Some(compile(&verified.record, &inputs.kinds).map_err(about)?),
            _ => None,
        };
        let key = Arc::new(SessionKey {
            // A file that is not on disk is identified by the library and its serial number there.
            file: on_disk.as_ref().map_or((u64::MAX - library.base() as u64, instance), |d| d.identity),
            version: on_disk.as_ref().map_or((0, 0, 0), |d| d.version),
            record: verified.digest,
            profile: profile.clone(),
            file_path: match &on_disk {
                Some(_) => absolute_path(&file_path),
                None => file_path.clone(),
            },
            slots,
        });
        Ok(Plan {
            instance,
            trust: trusted,
            // Another file that contains an input may be open for writing.
            read_only: read_only && !inputs.elsewhere,
            constant: read_only && !inputs.elsewhere && !inputs.made_elsewhere,
            verified,
            profile,
            name,
            file_path,
            key,
            program,
            results,
            made_of: Mutex::default(),
            chunked: read_only && !inputs.elsewhere && on_disk.is_some() && inputs.chunked,
            engine: OnceLock::new(),
        })
    }

    /// Returns a worker for this plan, from the pool or newly started.
    ///
    /// A descriptor of the file is opened only to start a worker: a permanent one would keep open a file that
    /// the application has closed.
    ///
    /// `key` is the plan's own, or a copy with room for the strings of one call.
    pub(crate) fn session(
        &self,
        library: &'static Library,
        dataset: Hid,
        key: &Arc<SessionKey>,
    ) -> Result<Session> {
        if let Some(session) = Pool::global().take(key) {
            return Ok(session);
        }
        let record = &self.verified.record;
        let programs = Programs::find()?;
        let compiled = match record.backend {
            Backend::Cpp | Backend::Wasm | Backend::Cuda => Some(compiled_form(record, &programs)?),
            // Bytecode: only HDF5-UDF stored it.
            _ => self
                .verified
                .legacy
                .as_ref()
                .and(record.compiled.as_ref())
                .map(|c| Arc::new(c.object.clone())),
        };
        let mapped = self.key.slots.iter().any(|s| matches!(s.source, Source::Mapped { .. }));
        let disk = if mapped { on_disk(library, &library.object_file(dataset)?) } else { None };
        if mapped && disk.as_ref().map(|d| d.identity) != Some(self.key.file) {
            fail!(Io, "the file on disk is not the one that was opened")
        }
        let fd: Vec<BorrowedFd<'_>> = disk.iter().map(|d| d.file.as_fd()).collect();
        let job = Job {
            backend: record.backend,
            source: &record.source,
            compiled: compiled.as_deref().map(Vec::as_slice),
            profile: &self.profile,
            file_path: &key.file_path,
            slots: key.slots.clone(),
            files: fd,
            needs: record.needs,
        };
        Session::start(&job, &programs)
    }

    /// Returns `error` with the file, the dataset, the language, the key and the profile.
    pub(crate) fn explain(&self, error: &Error) -> Error {
        // An error of a live dataset that is an input already names its dataset.
        if error.object().is_some() {
            return error.clone();
        }
        let text = format!("({}): {error}", self.verified.describe(Some(&self.profile)));
        Error::new(error.kind(), text).about(format!("{}:{}", self.file_path, self.name))
    }
}

/// Checks the dataset's shape, type and chunks against its record.
pub(crate) fn check_shape(library: &'static Library, dataset: Hid, verified: &VerifiedRecord) -> Result<()> {
    let record = &verified.record;
    let dims = library.dims(library.dataset_space(dataset)?.id)?;
    let file_type = library.dataset_type(dataset)?;
    let (_, datatype) = library.memory_type(file_type.id)?;
    let chunk = library.chunk_shape(library.create_plist(dataset)?.id).unwrap_or_default();
    let told = (&record.output.dims, &record.output.datatype, &record.chunk);
    // For types that functions do not see, and for strings, compare the file type.
    let wanted = library.output_type(told.1, file_type.id)?;
    // SAFETY: open identifiers.
    let equal = unsafe { (library.f.type_equal)(wanted.id, file_type.id) } > 0;
    let datatype = match told.1.has_stored() {
        true if equal => told.1.clone(),
        true => library.stored_type(file_type.id).unwrap_or(datatype),
        false => datatype,
    };
    if told != (&dims, &datatype, &chunk) {
        fail!(
            Invalid,
            "the dataset is {} {dims:?} in chunks of {chunk:?} and its record says {} {:?} in chunks of {:?}",
            shown(&datatype),
            shown(told.1),
            told.0,
            told.2
        )
    }
    if verified.legacy.is_some() {
        return super::legacy::check_layout(library, file_type.id);
    }
    // The function's result is copied into the chunk without conversion.
    if !equal {
        fail!(Invalid, "the dataset is stored in another byte order or layout than its function computes")
    }
    Ok(())
}

/// A file on disk, opened a second time for reading only.
pub(super) struct DiskFile {
    pub(super) file: File,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// Size and time of the last change.
    pub(super) version: (u64, i64, i64),
}

impl DiskFile {
    /// Returns its path, if it has a name.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()?;
        path.exists().then_some(path)
    }
}

/// Opens the file that `file` refers to, for reading only; `None` unless it is a single regular file on disk.
pub(super) fn on_disk(library: &'static Library, file: &Handle) -> Option<DiskFile> {
    let plist = library.access_plist(file.id).ok()?;
    // SAFETY: an open list that is ours; setting the plain driver on this copy gives its identifier.
    let plain = unsafe {
        let driver = (library.f.plist_driver)(plist.id);
        (library.f.plist_set_sec2)(plist.id) >= 0 && driver == (library.f.plist_driver)(plist.id)
    };
    let mut pointer: *mut c_void = std::ptr::null_mut();
    // SAFETY: one live pointer; 0 is the default list.
    if !plain || unsafe { (library.f.file_handle)(file.id, 0, &raw mut pointer) } < 0 {
        return None;
    }
    // SAFETY: the plain driver's handle is a pointer to its descriptor.
    let fd = *unsafe { pointer.cast::<i32>().as_ref() }?;
    // A descriptor that is passed to a worker keeps its access mode, so the file is opened again, for reading
    // only.
    let own = File::open(format!("/proc/self/fd/{fd}")).ok()?;
    let meta = own.metadata().ok()?;
    // SAFETY: fstat of the library's own descriptor into a live buffer.
    let same = unsafe {
        let mut theirs: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut theirs) == 0 && (theirs.st_dev, theirs.st_ino) == (meta.dev(), meta.ino())
    };
    let version = (meta.len(), meta.mtime(), meta.mtime_nsec());
    (same && meta.is_file()).then(|| DiskFile { file: own, identity: (meta.dev(), meta.ino()), version })
}

/// Lookup of a plan's inputs.
struct Inputs<'a> {
    library: &'static Library,
    file: &'a Handle,
    instance: u64,
    /// The size of the file, if a worker may map it.
    mappable: Option<u64>,
    /// True if a worker may get chunks in their stored form.
    storable: bool,
    /// True if an input is in another file, reached through an external link or a mount.
    elsewhere: bool,
    /// True if an input that is read whole may have its data in other files: it is virtual, external or live.
    made_elsewhere: bool,
    /// True if an input is stored in chunks.
    chunked: bool,
    /// The kinds of an expression's inputs.
    kinds: Vec<Kind>,
}

impl Inputs<'_> {
    fn job_slots(&mut self, verified: &VerifiedRecord) -> Result<Vec<JobSlot>> {
        let record = &verified.record;
        let mut slots = Vec::new();
        let output = |s: &Slot| JobSlot {
            name: s.name.clone(),
            datatype: s.datatype.clone(),
            source: Source::Output(record.part_bytes(s, false)),
        };
        slots.push(output(&record.output));
        for input in &record.inputs {
            let source = self
                .source(verified, input)
                .map_err(|e| Error::new(e.kind(), format!("input {:?}: {}", escape(&input.name, 80), e)))?;
            let source = source.unwrap_or(Source::Copied(record.part_bytes(input, true)));
            slots.push(JobSlot { name: input.name.clone(), datatype: input.datatype.clone(), source });
        }
        slots.extend(record.scratch.iter().map(output));
        Ok(slots)
    }

    /// Checks an input. Returns how a worker can read it itself, mapped or in stored form; `None` if it gets
    /// a copy.
    fn source(&mut self, verified: &VerifiedRecord, input: &Slot) -> Result<Option<Source>> {
        let library = self.library;
        sources::check(library, self.file.id, &verified.record, input)?;
        if verified.record.find_attribute(input).is_some() {
            self.kinds.extend(attributes::check(library, &verified.record, self.file.id, input)?);
            return Ok(None);
        }
        let name = c_name(&absolute(&input.name))?;
        let dataset = library
            .open_dataset(self.file.id, &name)
            .map_err(|e| Error::new(ErrorKind::NotFound, e.message().to_owned()))?;
        let dims = library.dims(library.dataset_space(dataset.id)?.id)?;
        let file_type = library.dataset_type(dataset.id)?;
        let (native, datatype, kind) = library.input_type(verified.record.backend, file_type.id)?;
        self.kinds.extend(kind);
        if !verified.record.fits(input, &dims) || datatype != input.datatype {
            fail!(
                Invalid,
                "it is {} {dims:?} now, and was {} {:?} when the function was attached; attach it again",
                shown(&datatype),
                shown(&input.datatype),
                input.dims
            )
        }
        // An offset in another file is meaningless in this one.
        if library.instance(&library.object_file(dataset.id)?)? != self.instance {
            self.elsewhere = true;
            return Ok(None);
        }
        let record = &verified.record;
        let plist = library.create_plist(dataset.id)?;
        // SAFETY: an open list.
        let layout = unsafe { (library.f.plist_layout)(plist.id) };
        self.chunked |= layout == LAYOUT_CHUNKED;
        // SAFETY: an open list.
        let external = unsafe { (library.f.plist_external_count)(plist.id) };
        let is_made = layout == VIRTUAL || external != 0 || library.live_filter(plist.id).is_some();
        self.made_elsewhere |= is_made && !record.is_cut(input);
        let stored = || {
            let may = record.backend == Backend::Cuda && self.storable && !datatype.has_pointers();
            let form = if may { StorageForm::from_dataset(library, &dataset)? } else { None };
            Ok(form.map(|_| Source::Stored(record.part_bytes(input, true))))
        };
        let Some(size) = self.mappable else { return stored() };
        // SAFETY: open identifiers.
        let (same, offset) = unsafe {
            ((library.f.type_equal)(native.id, file_type.id), (library.f.dataset_offset)(dataset.id))
        };
        let bytes = input.bytes();
        let inside = offset != ADDRESS_UNDEFINED && offset.checked_add(bytes).is_some_and(|end| end <= size);
        let aligned = offset % input.datatype.align() as u64 == 0;
        let whole_pieces = !record.is_cut(input) || record.blocks_are_pieces();
        if !datatype.has_pointers()
            && dims == input.dims
            && layout == LAYOUT_CONTIGUOUS
            && external == 0
            && same > 0
            && inside
            && aligned
            && whole_pieces
        {
            return Ok(Some(Source::Mapped { file: 0, offset, bytes }));
        }
        stored()
    }
}

/// Returns the escaped name of a type, for messages: names of members come from the file.
fn shown(datatype: &Datatype) -> String {
    escape(&datatype.name(), 200)
}

/// Returns the absolute path of a file.
fn absolute_path(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Returns the absolute path, within the HDF5 file, for a name in a record.
pub(crate) fn absolute(name: &str) -> String {
    format!("/{}", name.trim_start_matches('/'))
}
