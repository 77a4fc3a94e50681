//! Files that are stores: creating, joining and reading them, and opening their datasets.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::file::{LowerAccess, ReopenArguments};
use super::super::object::Object;
use super::super::options::{Options, Segments, Sync};
use super::super::slot::{NO_REQUEST, PropertyList, Slot};
use super::describe::{self, GET_TYPE};
use super::peers::Peers;
use super::process_group::ProcessGroup;
use super::{Keeper, OpenStore, Store, StoreDataset, at_exit, finish, paths};
use crate::symbols::Hid;
use hyperchunk::internal::edits;
use hyperchunk::write;
use hyperchunk_live::observe;
use hyperchunk_store::commit::{self, CommitOptions, PendingLog};
use hyperchunk_store::{
    Definition, Log, LogEnd, LogWriter, Manifest, Marker, Mode, Session, WriterId, WriterOptions, hold_alone,
    launched, locks_are_off, log_path, store_folder,
};
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr, c_int, c_uint};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

/// `H5F_ACC_RDWR`, `H5F_ACC_TRUNC`, `H5F_ACC_EXCL`.
const WRITE: c_uint = 1;
const TRUNCATE: c_uint = 2;
const EXCLUSIVE: c_uint = 4;
/// `H5F_CLOSE_WEAK`.
const CLOSE_WEAK: c_int = 1;
/// `H5VL_FILE_REOPEN`.
const REOPEN: c_int = 1;
/// `H5VL_FILE_GET_NAME`, `H5I_DATASET`.
const GET_NAME: i64 = 5;
const DATASET: c_int = 5;

/// `H5VL_file_get_args_t` for a name. The fields after the operation are aligned to 8.
#[repr(C)]
struct NameArguments {
    operation: i64,
    kind: c_int,
    size: usize,
    buffer: *mut u8,
    length: *mut usize,
}

/// The arguments of a callback that opens a file.
#[derive(Clone, Copy)]
pub(in crate::vol) struct Call<'a> {
    pub(in crate::vol) name: &'a CStr,
    pub(in crate::vol) flags: c_uint,
    pub(in crate::vol) fcpl: Hid,
    pub(in crate::vol) dxpl: Hid,
}

/// Returns whether the list requests HDF5's default driver. Other drivers store files elsewhere, or share
/// them.
pub(in crate::vol) fn is_plain_driver(slot: &Slot, fapl: Hid) -> bool {
    // SAFETY: any identifier may be asked; the class and the list made here are closed.
    unsafe {
        let api = &slot.api;
        let class = (api.plist_class)(fapl);
        let plain = (api.plist_create)(class);
        let same = (api.plist_driver)(plain) == (api.plist_driver)(fapl);
        (api.plist_close)(plain);
        (api.plist_close_class)(class);
        same
    }
}

/// Returns whether the lists request properties that a store's file does not have: a user block, pages,
/// alignment.
fn asks_for_a_layout(slot: &Slot, fcpl: Hid, fapl: Hid) -> bool {
    let (mut block, mut threshold, mut alignment) = (0_u64, 0_u64, 1_u64);
    let (mut strategy, mut persist, mut smallest) = (0, false, 1_u64);
    // SAFETY: the pointers refer to live local variables.
    unsafe {
        let api = &slot.api;
        (api.plist_user_block)(fcpl, &raw mut block);
        (api.plist_space_strategy)(fcpl, &raw mut strategy, &raw mut persist, &raw mut smallest);
        (api.plist_alignment)(fapl, &raw mut threshold, &raw mut alignment);
    }
    block > 0 || strategy != 0 || persist || alignment > 1
}

/// Returns the file locking settings of an access list; they must be the same when a file is opened again.
fn locking(slot: &Slot, fapl: Hid) -> (bool, bool) {
    let (mut locks, mut ignores) = (false, false);
    // SAFETY: the pointers refer to live local variables.
    unsafe { (slot.api.plist_locking)(fapl, &raw mut locks, &raw mut ignores) };
    (locks, ignores)
}

/// Returns the session of this process. If only the number of writers is given, all children of this
/// process's parent form one session.
pub(super) fn session(options: &Options) -> Session {
    if let Some(name) = &options.session {
        return Session::named(name);
    }
    let session = Session::from_environment();
    match options.writers {
        Some(writers) if session.is_unknown() => {
            let parent = std::os::unix::process::parent_id();
            let started = fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
            let started = started.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
            Session::named(&format!("{writers} writers of process {parent} {started:?}"))
        }
        _ => session,
    }
}

fn writer(path: &Path, options: &Options, session: Session, mode: Mode) -> Outcome<LogWriter> {
    let mut wanted = WriterOptions::default();
    wanted.mode = mode;
    // Unless it truncates, `begin` opens a copy of the skeleton, so links missing from it count as deleted.
    wanted.edits_skeleton = mode != Mode::Truncate;
    wanted.session = session;
    wanted.writers = options.writers.or_else(launched).unwrap_or(0);
    wanted.checksum = options.checksum;
    wanted.statistics = options.statistics;
    wanted.memory = options.memory;
    wanted.segments = match options.segments {
        Segments::Log => hyperchunk_store::Segments::Log,
        Segments::Arrow => hyperchunk_store::Segments::Arrow,
    };
    wanted.sync = match options.sync {
        Sync::Never => write::Sync::Never,
        Sync::Epoch => write::Sync::Commit,
        Sync::Record => write::Sync::Write,
    };
    let writer = LogWriter::create(path, &wanted)?;
    // Attaches the store's observers, as every writer does.
    observe::attach(&writer, &[], true).map_err(|error| error.to_string())?;
    Ok(writer)
}

/// Creates a new file, if it is to be a store.
pub(in crate::vol) fn create(
    slot: &'static Slot,
    below: &LowerAccess,
    options: &Options,
    call: Call<'_>,
) -> Outcome<Option<P>> {
    let Some(path) = paths::absolute(call.name) else { return Ok(None) };
    let Some(processes) = ProcessGroup::from_access_list(slot, below.fapl.id)? else { return Ok(None) };
    let session = session(options);
    let becomes =
        || becomes_store(slot, below, (options, session), call, &path).map(|becomes| becomes.then_some(()));
    let Some(((), session)) = processes.decide(options, becomes, |()| 0, || Ok(()))? else { return Ok(None) };
    let options = &processes.options(options);
    let below = &processes.below(below)?;
    let writer = processes.all(|| writer(&path, options, session, Mode::Truncate), remove)?;
    let hidden = processes.all(
        || {
            let waiting = commit::waiting_of_others(&path, session, writer.id())?;
            // A commit leaves out stopped writers of an earlier file, and `recover` names them.
            let is_of_this_file = |log: &PendingLog| log.header.floor >= writer.header().floor;
            let ended = waiting.iter().filter(|log| {
                log.ending == LogEnd::Finished || (is_of_this_file(log) && finish::has_certainly_ended(log))
            });
            let hidden: Vec<_> = ended.map(|log| log.header.writer).collect();
            if !hidden.is_empty() {
                writer.hide(&hidden)?;
            }
            if processes.is_first() {
                paths::publish_placeholder(&path)?;
            }
            Ok(hidden)
        },
        drop,
    )?;
    let floor = writer.header().floor;
    let peers = Peers::new(path.clone(), writer.id(), session, &hidden, None).after_epoch(floor);
    let store = Store::new(slot, path, options, Some((writer, peers)), call.name);
    processes.begin(slot, below, store, call, None).map(Some)
}

/// Returns whether a new file is to be a store, and can be one.
fn becomes_store(
    slot: &'static Slot,
    below: &LowerAccess,
    (options, session): (&Options, Session),
    call: Call<'_>,
    path: &Path,
) -> Outcome<bool> {
    let there = fs::metadata(path).ok();
    let wanted = options.store || paths::is_store(path);
    // A file that cannot be created fails later in native HDF5, with its usual messages.
    let hopeless = match &there {
        Some(_) if call.flags & EXCLUSIVE != 0 => true,
        Some(file) => !file.is_file() || !may_write(path),
        None => !path.parent().is_some_and(may_write),
    };
    if !wanted || hopeless || asks_for_a_layout(slot, call.fcpl, below.fapl.id) {
        return Ok(false);
    }
    if paths::open_for_writing(slot, path).is_some() || paths::is_read(slot, path) {
        refuse!("unable to truncate a file which is already open")
    }
    if there.is_some() && !locks_are_off() && !paths::is_placeholder(path)? {
        // Writers of one session may truncate it together.
        let is_other = |log: &&PendingLog| session.is_unknown() || log.header.session != session;
        if let Some(log) = waiting(path)?.iter().filter(is_other).find(|log| finish::has_committed_open(log))
        {
            refuse!(
                "unable to truncate a file which is already open: process {} writes to {}",
                log.header.process,
                path.display()
            )
        }
        hold_alone(path)?;
    }
    edits::settle_to_replace(path)?;
    Ok(true)
}

/// Undoes [`writer`] when another rank fails: removes the new, empty log.
fn remove(writer: LogWriter) {
    drop(fs::remove_file(writer.log()));
}

fn may_write(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a NUL-terminated path.
    unsafe { libc::access(name.as_ptr(), libc::W_OK) == 0 }
}

/// State of the store at a path that a program opens.
enum StoreState {
    /// A store that this process writes to.
    Open(Arc<Store>),
    /// A store to be read at an epoch.
    Epoch(u64),
    /// A store without a commit that is opened for writing; at least one of its writers has not finished (it
    /// may still run or have been stopped).
    Uncommitted(Vec<PendingLog>),
    /// A committed store to be read.
    Read,
    /// A committed store to be written.
    Join,
}

impl StoreState {
    /// Returns the number of the variant, which ranks compare.
    fn number(&self) -> u8 {
        match self {
            StoreState::Open(_) => 0,
            StoreState::Epoch(_) => 1,
            StoreState::Uncommitted(_) => 2,
            StoreState::Read => 3,
            StoreState::Join => 4,
        }
    }
}

/// Opens an existing file, if it is a store.
pub(in crate::vol) fn open(
    slot: &'static Slot,
    below: &LowerAccess,
    options: &Options,
    call: Call<'_>,
) -> Outcome<Option<P>> {
    let Some(path) = paths::absolute(call.name) else { return Ok(None) };
    let Some(processes) = ProcessGroup::from_access_list(slot, below.fapl.id)? else { return Ok(None) };
    let find = || find(slot, options, call.flags, &path);
    let again = || match find()? {
        Some(found) => Ok(found),
        None => refuse!("the first rank sees a store at {}, but this one does not", path.display()),
    };
    let Some((found, session)) = processes.decide(options, find, StoreState::number, again)? else {
        return Ok(None);
    };
    let options = &processes.options(options);
    let below = &processes.below(below)?;
    let join = |mode| processes.all(|| writer(&path, options, session, mode), remove);
    match found {
        StoreState::Open(store) => processes.all(|| reopen(slot, below, &store, call), drop).map(Some),
        StoreState::Epoch(epoch) => {
            let manifest = processes.all(|| Ok(Manifest::epoch(&path, epoch)?), drop)?;
            let store = Store::new(slot, path, options, None, call.name);
            processes.begin(slot, below, store, call, Some(&manifest.image)).map(Some)
        }
        StoreState::Uncommitted(waiting) => {
            let others = published_logs(&path, &waiting);
            let image = others.iter().find_map(|log| log.read_image().ok().flatten());
            let writer = join(Mode::JoinAnew)?;
            let stopped = stopped_writers(&waiting);
            let peers = Peers::new(path.clone(), writer.id(), Session::default(), &stopped, None);
            let store = Store::new(slot, path, options, Some((writer, peers)), call.name);
            // If nothing was flushed, start with the empty file at the path.
            let image = processes.all(
                || match image {
                    Some(image) => Ok(image),
                    None => fs::read(&store.path).map_err(|error| error.to_string().into()),
                },
                drop,
            )?;
            processes.begin(slot, below, store, call, Some(&image)).map(Some)
        }
        StoreState::Read => {
            // The group of blocks (virtual datasets over pieces of logs) is not part of the application's
            // data: read a copy of the file without it.
            let has_room = path.parent().is_some_and(may_write);
            let copied =
                processes.all(|| Ok(paths::contents_with_marker(&path)?.filter(|_| has_room)), drop)?;
            let store = Store::new(slot, path, options, None, call.name);
            match copied {
                Some(image) => processes.begin(slot, below, store, call, Some(&image)).map(Some),
                None => processes.read(slot, below, store, call).map(Some),
            }
        }
        StoreState::Join => {
            let stopped = stopped_writers(&waiting(&path)?);
            let writer = join(Mode::Join)?;
            let base = processes.all(
                || match writer.base() {
                    Some(base) => Ok(Arc::clone(base)),
                    None => refuse!(
                        "all epochs of {} were deleted while it was being opened: open it again",
                        path.display()
                    ),
                },
                drop,
            )?;
            let session = writer.header().session;
            let peers = Peers::new(path.clone(), writer.id(), session, &stopped, Some(Arc::clone(&base)));
            let store = Store::new(slot, path, options, Some((writer, peers)), call.name);
            processes.begin(slot, below, store, call, Some(&base.image)).map(Some)
        }
    }
}

/// Returns the state of the store at a path; `None` if libhdf5 is to open the path itself. First commits
/// flushed data of stopped writers, the logs of a store whose writers have all finished, and, when opened for
/// writing, edits made without the connector.
fn find(slot: &'static Slot, options: &Options, flags: c_uint, path: &Path) -> Outcome<Option<StoreState>> {
    let writable = flags & WRITE != 0;
    if !paths::is_store(path) {
        if writable && paths::is_hard_link(path) {
            refuse!(
                "cannot open {} for writing: it is a hard link to the file of a sharded store; use the store's original file name",
                path.display()
            )
        }
        if writable && paths::is_skeleton(path) {
            refuse!(
                "cannot open {} for writing: it is the file of a sharded store without its folder of logs; copy or move both",
                path.display()
            )
        }
        return Ok(None);
    }
    if writable && !may_write(path) {
        return Ok(None);
    }
    if let Some(store) = paths::open_for_writing(slot, path) {
        return Ok(Some(StoreState::Open(store)));
    }
    if let Some(epoch) = options.epoch {
        if writable {
            refuse!("{} is opened at epoch {epoch}, which cannot be written to", path.display())
        }
        return Ok(Some(StoreState::Epoch(epoch)));
    }
    if may_write(&store_folder(path)) {
        finish::commit_flushed(path, options, writable)?;
    }
    let mut waiting = if paths::is_placeholder(path)? { waiting(path)? } else { Vec::new() };
    waiting.retain(|log| !(log.is_empty() && finish::was_stopped(log)));
    // A commit of an empty file looks the same, but has no uncommitted logs.
    if !waiting.is_empty() {
        let interrupted = finish::incomplete_session(path, &waiting)?;
        let is_finished = waiting.iter().all(|log| log.ending == LogEnd::Finished);
        if is_finished && interrupted.is_none() {
            // The responsible writer has not committed, but all are done.
            let outcome = commit::commit_all(path, &CommitOptions::default())?;
            if let (None, Some(aside)) = (&outcome.made, outcome.set_aside.first()) {
                return Err(aside.error().file(path.display()).into());
            }
        } else if writable {
            return Ok(Some(StoreState::Uncommitted(waiting)));
        } else if let Some(session) = interrupted.filter(|_| is_finished) {
            refuse!(
                "{} is a sharded store that is not committed yet: {} of the {} writers of its session have closed it; it can be read when all have, or after hyperchunk store commit",
                path.display(),
                session.done(),
                session.writers
            )
        } else {
            let working = waiting.iter().filter(|log| !finish::is_done(log)).count();
            if working == 0 {
                refuse!(
                    "{} is a sharded store whose writers ended without closing it: run hyperchunk store recover to restore their data",
                    path.display()
                )
            }
            refuse!(
                "{} is a sharded store that is not committed yet: {working} writers are at work; it can be read when they have closed it, or after hyperchunk store commit",
                path.display()
            )
        }
    }
    if !writable {
        // An ordinary file is read as such, unless it belongs to the folder of another store.
        if paths::is_skeleton(path) {
            commit::check_file(path, "open")?;
        }
        return Ok(Some(StoreState::Read));
    }
    // Without an epoch the folder is a leftover, and the file is an ordinary one.
    if Manifest::newest(path)?.is_none() {
        return Ok(None);
    }
    commit::check_file(path, "open")?;
    // Edits that programs without the connector made since the last epoch are included.
    commit::commit_edits(path)?;
    Ok(Some(StoreState::Join))
}

/// Returns the uncommitted logs that are visible.
fn waiting(path: &Path) -> Outcome<Vec<PendingLog>> {
    Ok(commit::waiting(path, Manifest::newest(path)?.as_deref())?)
}

/// Returns the writers that were stopped before: their flushed data were committed already, or need
/// `recover`.
fn stopped_writers(waiting: &[PendingLog]) -> Vec<WriterId> {
    waiting.iter().filter(|log| finish::was_stopped(log)).map(|log| log.header.writer).collect()
}

/// Returns the logs that others have finished or flushed, in the order in which their writers started; hidden
/// logs are left out.
fn published_logs(path: &Path, waiting: &[PendingLog]) -> Vec<Arc<Log>> {
    let mut waiting: Vec<&PendingLog> = waiting.iter().collect();
    waiting.sort_by_key(|log| (log.header.started, log.header.writer));
    let opened = waiting.iter().filter_map(|log| Log::open(&log_path(path, log.header.writer), None, 0).ok());
    let logs: Vec<_> = opened.map(Arc::new).collect();
    let hidden: HashSet<_> = logs.iter().flat_map(|log| log.hidden.iter().copied()).collect();
    logs.into_iter().filter(|log| !hidden.contains(&log.writer())).collect()
}

impl Store {
    fn new(
        slot: &'static Slot,
        path: PathBuf,
        options: &Options,
        writing: Option<(LogWriter, Peers)>,
        given: &CStr,
    ) -> Self {
        // HDF5 resolves links relative to the file itself.
        let named = Path::new(OsStr::from_bytes(given.to_bytes()));
        let named = if named.is_symlink() { &*path } else { named };
        let mut name = named.as_os_str().as_bytes().to_vec();
        let (writer, peers) = writing.unzip();
        if let Some(writer) = &writer {
            // In the same folder, so that relative links resolve; and with a name that no other skeleton has.
            name.extend_from_slice(format!(".{}", writer.id()).as_bytes());
        }
        Store {
            slot,
            path,
            name,
            options: options.clone(),
            writer,
            peers: peers.map(Arc::new),
            keeper: Mutex::default(),
            at_path: Mutex::default(),
            objects: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            manifests: Mutex::default(),
            logs: Mutex::default(),
            datasets: Mutex::default(),
            used: Mutex::default(),
            locking: (false, false),
            ranks: Mutex::default(),
            settled: AtomicBool::new(false),
        }
    }

    /// Creates a store for reading only, for a dataset that was reached through a link.
    fn reader(slot: &'static Slot, path: PathBuf, given: &CStr) -> Self {
        Store::new(slot, path, &Options::default(), None, given)
    }
}

/// Opens the file of a store to read it.
pub(super) fn read(below: &LowerAccess, slot: &'static Slot, store: Store, call: Call<'_>) -> Outcome<P> {
    let name = call.name.as_ptr();
    // SAFETY: the arguments are a callback's.
    let under = unsafe { (slot.api.file_open)(name, call.flags, below.fapl.id, call.dxpl, NO_REQUEST) };
    let store = Arc::new(store);
    paths::remember_reader(&store);
    let file = OpenStore { store, given: call.name.to_owned(), flags: call.flags };
    Ok(Object::wrap(under, below.vol, Some(&Arc::new(file)), None))
}

/// Opens a skeleton (the HDF5 file with everything but the datasets' values): creates an empty one, or opens
/// a copy of `image`. Its file is created in the folder of the store, so that links to neighbouring files
/// resolve, and its name is removed at once. (With HDF5's in-memory driver, the targets of external links
/// would also be opened in memory, and changes to them would be lost.)
pub(super) fn begin(
    slot: &'static Slot,
    below: &LowerAccess,
    mut store: Store,
    call: Call<'_>,
    image: Option<&[u8]>,
) -> Outcome<P> {
    if store.writer.is_none() {
        // For reading an epoch: no other skeleton has this name.
        store.name.extend_from_slice(format!(".{}", WriterId::new()).as_bytes());
    }
    let fapl = PropertyList::copy(slot, below.fapl.id)?;
    store.locking = locking(slot, fapl.id);
    let Ok(name) = CString::new(store.name.clone()) else { refuse!("a name contains a NUL byte") };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    if let Some(image) = image
        && let Err(error) = hyperchunk::output::create_new(&path).and_then(|mut file| file.write_all(image))
    {
        drop(fs::remove_file(&path));
        refuse!("cannot write to the folder of {}: {error}", store.path.display())
    }
    // Whatever the application requests, its objects keep the skeleton open until they are closed.
    // SAFETY: a list of our own.
    done(unsafe { (slot.api.plist_set_close_degree)(fapl.id, CLOSE_WEAK) })?;
    if image.is_some() && store.writer.is_none() {
        finish::hide_blocks_in_copy(slot, below.vol, &name, (fapl.id, call.dxpl))
            .inspect_err(|_| drop(fs::remove_file(&path)))?;
    }
    // SAFETY: a NUL-terminated name; the other arguments are a callback's.
    let under = unsafe {
        let api = &slot.api;
        match image {
            None => (api.file_create)(name.as_ptr(), TRUNCATE, call.fcpl, fapl.id, call.dxpl, NO_REQUEST),
            Some(_) => (api.file_open)(name.as_ptr(), call.flags & WRITE, fapl.id, call.dxpl, NO_REQUEST),
        }
    };
    drop(fs::remove_file(&path));
    if under.is_null() {
        return Err(ON_ERROR_STACK);
    }
    let writable = store.writer.is_some();
    if writable {
        at_exit::watch();
        let group = finish::open_root(slot, under, below.vol)?;
        finish::hide_blocks(slot, group, below.vol)?;
        let native = slot.native().is_ok_and(|native| native == below.vol);
        let file = native.then_some(under as usize);
        let keeper = Keeper { group: group as usize, file, vol: below.vol };
        *store.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
    }
    let store = Arc::new(store);
    match writable {
        true => paths::remember(&store),
        false => paths::remember_reader(&store),
    }
    let flags = call.flags | if writable { WRITE } else { 0 };
    let file = OpenStore { store, given: call.name.to_owned(), flags };
    Ok(Object::wrap(under, below.vol, Some(&Arc::new(file)), None))
}

/// Opens the same lower file once more.
fn reopen_lower(slot: &Slot, under: P, vol: Hid) -> Outcome<P> {
    let mut file = null_mut();
    let mut args = ReopenArguments { operation: REOPEN, file: &raw mut file };
    // SAFETY: a lower file, arguments of our own.
    done(unsafe { (slot.api.file_specific)(under, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    Ok(file)
}

/// Reopens a store that this process writes to.
fn reopen(slot: &'static Slot, below: &LowerAccess, store: &Arc<Store>, call: Call<'_>) -> Outcome<P> {
    if store.locking != locking(slot, below.fapl.id) {
        refuse!("file locking flag values don't match")
    }
    let Some(keeper) = store.keeper() else { refuse!("the store is being closed") };
    let vol = keeper.vol;
    let under = reopen_lower(slot, keeper.file(slot)?, vol)?;
    let file = OpenStore { store: Arc::clone(store), given: call.name.to_owned(), flags: call.flags };
    Ok(Object::wrap(under, vol, Some(&Arc::new(file)), None))
}

/// Returns the name of the file that contains an object of type `kind`, as the lower connector reports it.
pub(super) fn file_name(slot: &Slot, under: P, vol: Hid, kind: c_int) -> Outcome<Vec<u8>> {
    let mut length = 0;
    let mut buffer = vec![0_u8; 8192];
    let mut args = NameArguments {
        operation: GET_NAME,
        kind,
        size: buffer.len(),
        buffer: buffer.as_mut_ptr(),
        length: &raw mut length,
    };
    // SAFETY: a lower object; the pointers refer to live local variables.
    done(unsafe { (slot.api.file_get)(under, vol, (&raw mut args).cast(), 0, NO_REQUEST) })?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Returns the dataset of a store that a lower dataset (a stub) represents, and its file; `None` for an
/// ordinary dataset.
pub(in crate::vol) fn divert(
    slot: &'static Slot,
    under: P,
    vol: Hid,
    file: Option<&Arc<OpenStore>>,
) -> Outcome<Option<(Arc<OpenStore>, Box<StoreDataset>)>> {
    let Some(marker) = slot.keep_errors(|| describe::marker(slot, under, vol)) else {
        if slot.driver() >= 0 && describe::has_external_files(slot, under, vol)? {
            refuse_external_files(slot, under, vol)?;
        }
        return Ok(None);
    };
    let name = file_name(slot, under, vol, DATASET)?;
    let file = match file.filter(|file| file.store.name == name) {
        Some(file) => Arc::clone(file),
        None => {
            // The dataset was reached through a link to the file of another store.
            let Ok(given) = CString::new(name) else { refuse!("a name contains a NUL byte") };
            if let Some(url) = super::super::remote::url(&given) {
                refuse!(
                    "{} is a sharded store, whose data HDF5 cannot read over a network: read it with hyperchunk.open(), or pack it",
                    super::super::remote::redact(url)
                )
            }
            let path = PathBuf::from(OsStr::from_bytes(given.to_bytes()));
            let path = paths::absolute(&given).unwrap_or(path);
            if !paths::is_store(&path) {
                refuse!(
                    "{} is the file of a sharded store without its folder of logs: copy or move both",
                    path.display()
                )
            }
            let store = Arc::new(Store::reader(slot, path, &given));
            Arc::new(OpenStore { store, given, flags: 0 })
        }
    };
    let dataset = diverted(slot, under, vol, &file.store, marker)?;
    Ok(Some((file, Box::new(dataset))))
}

/// Fails for a dataset of a file over a network whose elements are in external files: libhdf5 would look for
/// them on this machine.
fn refuse_external_files(slot: &'static Slot, under: P, vol: Hid) -> Outcome<()> {
    let name = CString::new(file_name(slot, under, vol, DATASET)?).unwrap_or_default();
    match super::super::remote::url(&name) {
        Some(url) => refuse!(
            "the data of this dataset are in files beside {}, which HDF5 cannot read over a network",
            super::super::remote::redact(url)
        ),
        None => Ok(()),
    }
}

impl OpenStore {
    /// Returns whether a lower object belongs to the file itself, and not to the target of a link.
    pub(in crate::vol) fn contains_object(&self, under: P, vol: Hid, kind: c_int) -> bool {
        file_name(self.store.slot, under, vol, kind).is_ok_and(|name| self.store.name == name)
    }
}

fn diverted(slot: &'static Slot, under: P, vol: Hid, store: &Store, marker: Marker) -> Outcome<StoreDataset> {
    let shared = store.shared(marker.dataset, marker.epoch)?;
    let kind = describe::ask(slot, under, vol, GET_TYPE)?;
    let plist = match creation_list(slot, under, vol, &shared.definition) {
        Ok(plist) => plist.into_id(),
        Err(error) => {
            // SAFETY: the type from above.
            slot.keep_errors(|| unsafe { (slot.api.type_close)(kind) });
            return Err(error);
        }
    };
    Ok(StoreDataset { slot, shared, kind, plist })
}

/// Returns the creation list of a dataset: as libhdf5 encoded it, or made from the store's definition.
pub(super) fn creation_list(
    slot: &'static Slot,
    under: P,
    vol: Hid,
    definition: &Definition,
) -> Outcome<PropertyList> {
    if !definition.native.is_empty() {
        // SAFETY: an encoded list; HDF5 checks it.
        let id = unsafe { (slot.api.plist_decode)(definition.native.as_ptr().cast()) };
        return if id < 0 { Err(ON_ERROR_STACK) } else { Ok(PropertyList { slot, id }) };
    }
    describe::creation_list(slot, under, vol, definition)
}
