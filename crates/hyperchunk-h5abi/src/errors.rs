//! HDF5's error stack: reading the reasons of failed calls, and reporting our own.

use crate::library::Library;
use crate::symbols::{ErrorRow, Hid, WALK_UPWARD};
use crate::{Error, ErrorKind};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::PoisonError;

type Push = unsafe extern "C" fn(
    Hid,
    *const c_char,
    *const c_char,
    c_uint,
    Hid,
    Hid,
    Hid,
    *const c_char,
    ...
) -> c_int;

/// Guard that turns off libhdf5's printing of errors that we expect or report ourselves, and makes them
/// readable: HDF5 2 pauses its error stack around filters, and a call that fails then leaves no message. Drop
/// restores both settings.
pub(crate) struct ErrorStackGuard {
    library: &'static Library,
    function: *mut c_void,
    data: *mut c_void,
    resumed: bool,
}

/// Prefix of messages about live datasets.
pub(crate) const PREFIX: &str = "hyperchunk udf: ";

/// The component that an error on HDF5's stack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The filter plugin.
    Live,
    /// The Snappy filter plugin.
    Snappy,
    /// The VOL connector.
    Store,
    /// The VOL connector, for remote files.
    Remote,
}

/// HDF5 identifiers of our error class and messages, registered in one library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    class: Hid,
    major: Hid,
    minor: Hid,
}

impl Area {
    /// Returns the prefix of its messages.
    fn prefix(self) -> &'static str {
        match self {
            Area::Live => PREFIX,
            Area::Snappy | Area::Store | Area::Remote => "hyperchunk: ",
        }
    }

    /// Returns the function name and the two messages of the error class.
    fn labels(self) -> [&'static CStr; 3] {
        match self {
            Area::Live => [c"live dataset", c"Live dataset", c"Not evaluated"],
            Area::Snappy => [c"snappy", c"Filter Snappy", c"Not filtered"],
            Area::Store => [c"store", c"Sharded store", c"Not done"],
            Area::Remote => [c"remote file", c"File over a network", c"Not read"],
        }
    }
}

type OnStack = unsafe extern "C" fn(Hid) -> c_int;
type IsPaused = unsafe extern "C" fn(Hid, *mut bool) -> c_int;

/// Calls a function of HDF5 2 on the default error stack. Returns whether it exists and succeeded.
fn on_default_stack(library: &Library, name: &CStr) -> bool {
    let symbol = library.optional(name);
    // SAFETY: H5Epause_stack and H5Eresume_stack take a stack; 0 is the default one.
    !symbol.is_null() && unsafe { std::mem::transmute::<*mut c_void, OnStack>(symbol)(0) } >= 0
}

/// Returns whether HDF5 has paused its default error stack, which means that failures are expected and not
/// reported.
pub(crate) fn is_paused(library: &Library) -> bool {
    let symbol = library.optional(c"H5Eis_paused");
    let mut paused = false;
    if !symbol.is_null() {
        // SAFETY: H5Eis_paused takes a stack and a pointer to its answer.
        unsafe { std::mem::transmute::<*mut c_void, IsPaused>(symbol)(0, &raw mut paused) };
    }
    paused
}

impl ErrorStackGuard {
    pub(crate) fn new(library: &'static Library) -> Self {
        let resumed = is_paused(library) && on_default_stack(library, c"H5Eresume_stack");
        let mut quiet =
            ErrorStackGuard { library, function: std::ptr::null_mut(), data: std::ptr::null_mut(), resumed };
        // SAFETY: 0 is the default stack; both pointers are live.
        unsafe {
            (library.f.error_get_auto)(0, &raw mut quiet.function, &raw mut quiet.data);
            (library.f.error_set_auto)(0, std::ptr::null_mut(), std::ptr::null_mut());
        }
        quiet
    }
}

impl Drop for ErrorStackGuard {
    fn drop(&mut self) {
        // SAFETY: the values are from error_get_auto.
        unsafe { (self.library.f.error_set_auto)(0, self.function, self.data) };
        if self.resumed {
            on_default_stack(self.library, c"H5Epause_stack");
        }
    }
}

/// Returns the innermost reason on the library's error stack, as an error about `what`.
pub(crate) fn failure(library: &Library, what: impl std::fmt::Display) -> Error {
    unsafe extern "C" fn collect(_: c_uint, row: *const ErrorRow, list: *mut c_void) -> c_int {
        // SAFETY: HDF5 passes a live row, and the list is ours.
        unsafe {
            let list = &mut *list.cast::<Vec<String>>();
            let text = (*row).description;
            if !text.is_null() && list.len() < 4 {
                list.push(CStr::from_ptr(text).to_string_lossy().into_owned());
            }
        }
        0
    }
    let mut list: Vec<String> = Vec::new();
    // SAFETY: the visitor gets the list that outlives the call; 0 is the default stack.
    unsafe {
        (library.f.error_walk)(0, WALK_UPWARD, collect, (&raw mut list).cast());
        (library.f.error_clear)(0);
    }
    // The innermost reason is the most specific. If an input is a live dataset, our reason for its failure is
    // always innermost.
    let reason = list
        .first()
        .map_or_else(|| "libhdf5 gives no reason".to_owned(), |r| hyperchunk_udf::escape::escape(r, 600));
    Error::new(ErrorKind::Io, format!("{what}: {reason}"))
}

/// Pushes `message` on the error stack as the innermost reason of the failure that the caller will report.
///
/// The message goes to a new stack, which then becomes the current one, because a paused stack ignores
/// messages. This must therefore be the last call before the filter returns.
pub(crate) fn push(library: &Library, area: Area, message: impl std::fmt::Display) {
    // SAFETY: no pointers. The new stack is closed by becoming the current one.
    let stack = unsafe { (library.f.error_create_stack)() };
    if stack >= 0 {
        push_on(library, stack, area, message);
        // SAFETY: the stack from above.
        unsafe { (library.f.error_set_current)(stack) };
    }
}

/// Like [`push`], for calls that HDF5 makes while it tries alternatives: if it has paused its error stack,
/// the message is dropped.
pub(crate) fn add(library: &Library, area: Area, message: impl std::fmt::Display) {
    push_on(library, 0, area, message);
}

/// Pushes a message on a stack; 0 is the default one.
pub(crate) fn push_on(library: &Library, stack: Hid, area: Area, message: impl std::fmt::Display) {
    let symbol = library.optional(c"H5Epush2");
    let (Some(Ids { class, major, minor }), false) = (error_ids(library, area), symbol.is_null()) else {
        return;
    };
    let Ok(text) = CString::new(format!("{}{message}", area.prefix()).replace('\0', "\\0")) else { return };
    let [function, ..] = area.labels();
    // SAFETY: H5Epush2 takes a printf format; ours has one %s for one live string.
    unsafe {
        let push = std::mem::transmute::<*mut c_void, Push>(symbol);
        push(
            stack,
            c"hyperchunk".as_ptr(),
            function.as_ptr(),
            0,
            class,
            major,
            minor,
            c"%s".as_ptr(),
            text.as_ptr(),
        );
    }
}

/// Returns our error class and messages in this library, registered on first use.
fn error_ids(library: &Library, area: Area) -> Option<Ids> {
    const MAJOR: c_int = 0;
    const MINOR: c_int = 1;
    let mut known = library.error_ids.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, ids)) = known.iter().find(|(of, _)| *of == area) {
        return Some(*ids);
    }
    let [_, major, minor] = area.labels();
    // SAFETY: constant NUL-terminated strings.
    let ids = unsafe {
        let version = concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast();
        let class = (library.f.error_register_class)(c"hyperchunk".as_ptr(), c"hyperchunk".as_ptr(), version);
        let major = (library.f.error_create_message)(class, MAJOR, major.as_ptr());
        let minor = (library.f.error_create_message)(class, MINOR, minor.as_ptr());
        Ids { class, major, minor }
    };
    if ids.class < 0 || ids.major < 0 || ids.minor < 0 {
        return None;
    }
    known.push((area, ids));
    Some(ids)
}

/// Forgets the registered identifiers when the library closes, which invalidates them.
pub(crate) fn forget(library: &Library) {
    library.error_ids.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
