//! HDF5-UDF's interface for C; `include/hdf5-udf.h` documents each function. It stores live datasets of
//! Hyperchunk.

use crate::foreign;
use hyperchunk_live::edit;
use hyperchunk_udf::host::{Programs, set_package_dir};
use hyperchunk_udf::keys;
use hyperchunk_udf::spec::OutputSpec;
use std::ffi::{CString, OsStr, c_char};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// File, function and options of the program.
#[allow(missing_debug_implementations, reason = "the program has it as a pointer")]
pub struct Context {
    file: PathBuf,
    source: Option<PathBuf>,
    overwrite: bool,
    outputs: Vec<String>,
    /// The last error.
    error: CString,
}

type Reason = Box<dyn std::error::Error>;

/// Makes a context for a file, with a function or without one.
///
/// # Safety
/// Both are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_init(hdf5_file: *const c_char, udf_file: *const c_char) -> *mut Context {
    // SAFETY: the program's promise.
    let path = |text: *const c_char| unsafe { foreign::text(text, "the name") }.ok().map(path_from_bytes);
    match path(hdf5_file) {
        Some(file) => Box::into_raw(Box::new(Context {
            file,
            source: path(udf_file),
            overwrite: false,
            outputs: Vec::new(),
            error: CString::default(),
        })),
        None => std::ptr::null_mut(),
    }
}

fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Frees a context.
///
/// # Safety
/// `ctx` is NULL or from [`libudf_init`], and not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_destroy(ctx: *mut Context) {
    if !ctx.is_null() {
        // SAFETY: the program's promise.
        drop(unsafe { Box::from_raw(ctx) });
    }
}

/// Sets an option.
///
/// # Safety
/// `option` and `value` are NULL or strings, `ctx` NULL or from [`libudf_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_set_option(
    option: *const c_char,
    value: *const c_char,
    ctx: *mut Context,
) -> bool {
    // SAFETY: the program's promise.
    unsafe {
        guard(ctx, |ctx| {
            let (option, value) = (text(option, "the option")?, text(value, "the value")?);
            let value = match value {
                "true" => true,
                "false" => false,
                other => {
                    return Err(format!("invalid value {other:?}: expected \"true\" or \"false\"").into());
                }
            };
            match option {
                "overwrite" => ctx.overwrite = value,
                // The source is always saved.
                "save_sourcecode" => {}
                other => {
                    let known = "expected \"overwrite\" or \"save_sourcecode\"";
                    return Err(format!("unknown option {other:?}: {known}").into());
                }
            }
            Ok(())
        })
    }
}

/// Adds the description of an output.
///
/// # Safety
/// `description` is NULL or a string, `ctx` NULL or from [`libudf_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_push_dataset(description: *const c_char, ctx: *mut Context) -> bool {
    // SAFETY: the program's promise.
    unsafe {
        guard(ctx, |ctx| {
            let description = text(description, "the description")?;
            OutputSpec::parse(description)?;
            ctx.outputs.push(description.to_owned());
            Ok(())
        })
    }
}

/// Checks the function and loads it in the sandbox, without writing anything.
///
/// # Safety
/// `ctx` is NULL or from [`libudf_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_compile(ctx: *mut Context) -> bool {
    // SAFETY: the program's promise.
    unsafe { guard(ctx, |ctx| ctx.attach(true).map(drop)) }
}

/// Stores the function, and returns the headers of its outputs.
///
/// # Safety
/// `ctx` is NULL or from [`libudf_init`]; `size` is NULL or points to a value that can be replaced;
/// `metadata` is NULL or has room for that number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_store(metadata: *mut c_char, size: *mut usize, ctx: *mut Context) -> bool {
    // SAFETY: the program's promise.
    unsafe {
        guard(ctx, |ctx| {
            let headers: Vec<_> = ctx.attach(false)?.into_iter().map(|attached| attached.json).collect();
            let text = format!("[{}]", headers.join(","));
            let room = foreign::array(size.cast_const(), 1)?.and_then(|size| size.first().copied());
            if let Some(room) = room.filter(|&room| room > 0 && !metadata.is_null()) {
                write_text(metadata, room, &text);
                foreign::write_out(size, text.len());
            }
            Ok(())
        })
    }
}

/// Returns the header of a dataset.
///
/// # Safety
/// `dataset` is NULL or a string; the rest as for [`libudf_store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_get_metadata(
    dataset: *const c_char,
    metadata: *mut c_char,
    size: *mut usize,
    ctx: *mut Context,
) -> bool {
    // SAFETY: the program's promise.
    unsafe {
        guard(ctx, |ctx| {
            let dataset = text(dataset, "the dataset")?;
            let room = foreign::required_array(size.cast_const(), 1, "size")?.first().copied().unwrap_or(0);
            let path = format!("/{}", dataset.trim_start_matches('/'));
            let entry = edit::find(&ctx.file, &path)?;
            if let Some(error) = entry.error() {
                return Err(error.clone().into());
            }
            let needed = entry.json.len().saturating_add(1);
            if !metadata.is_null() {
                if room < needed {
                    let message = format!("buffer of {room} bytes is too small: the header has {needed}");
                    return Err(message.into());
                }
                write_text(metadata, room, &entry.json);
            }
            foreign::write_out(size, needed);
            Ok(())
        })
    }
}

/// Copies the last error to a buffer, and returns its length.
///
/// # Safety
/// `buf` is NULL or has room for `size` bytes; `ctx` is NULL or from [`libudf_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libudf_get_error(buf: *mut c_char, size: usize, ctx: *mut Context) -> usize {
    // SAFETY: the program's promise.
    let Some(ctx) = (unsafe { ctx.as_ref() }) else { return 0 };
    let text = ctx.error.to_string_lossy();
    if !buf.is_null() && size > 0 {
        // SAFETY: the program's promise.
        unsafe { write_text(buf, size, &text) };
    }
    text.len()
}

impl Context {
    fn attach(&self, dry_run: bool) -> Result<Vec<edit::AttachedDataset>, Reason> {
        let Some(source) = &self.source else { return Err("no function was named".into()) };
        find_package();
        make_key()?;
        let options = edit::Options { overwrite: self.overwrite, dry_run, ..edit::Options::default() };
        let program = edit::Program::File(source);
        Ok(edit::attach(&self.file, program, &self.outputs, &options)?)
    }
}

/// Creates the user's signing key if it is missing, as HDF5-UDF does, and reports it.
fn make_key() -> Result<(), Reason> {
    if let Some((fingerprint, path)) = keys::make_missing_key()? {
        let text = format!("hyperchunk: made your signing key {fingerprint} ({})\n", path.display());
        // If standard error is closed, the report is dropped.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}

/// Finds the package with the workers: beside this library, or through HDF5's plugin path.
fn find_package() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if Programs::find().is_ok_and(|programs| programs.package().is_some()) {
            return;
        }
        let folders = std::env::var_os("HDF5_PLUGIN_PATH").unwrap_or_default();
        let package = |folder: &[u8]| -> Option<PathBuf> {
            let package = Path::new(OsStr::from_bytes(folder)).parent()?.to_owned();
            package.join("libexec").join("hyperchunk-udf-worker").is_file().then_some(package)
        };
        if let Some(package) = folders.as_bytes().split(|&byte| byte == b':').find_map(package) {
            set_package_dir(package);
        }
    });
}

/// Returns a string of the program, which must be UTF-8.
///
/// # Safety
/// As [`foreign::text`].
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Reason> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { foreign::text(pointer, what) }?;
    std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8").into())
}

/// Writes a text and its NUL, truncated if it does not fit.
///
/// # Safety
/// `place` has room for `room` bytes; `room` is not 0.
unsafe fn write_text(place: *mut c_char, room: usize, text: &str) {
    let text = text.as_bytes();
    let kept = text.get(..room.saturating_sub(1)).unwrap_or(text);
    // SAFETY: the caller's promise; `kept` is shorter than `room`, so that the NUL fits.
    unsafe {
        foreign::write_all(place.cast(), kept);
        foreign::write_out(place.add(kept.len()), 0);
    }
}

/// Runs `body`; returns false, with the reason in the context, if it fails.
///
/// # Safety
/// `ctx` is NULL or from [`libudf_init`], and not used by another thread meanwhile.
unsafe fn guard(ctx: *mut Context, body: impl FnOnce(&mut Context) -> Result<(), Reason>) -> bool {
    // SAFETY: the caller's promise.
    let Some(ctx) = (unsafe { ctx.as_mut() }) else { return false };
    let message = match catch_unwind(AssertUnwindSafe(|| body(ctx))) {
        Ok(Ok(())) => return true,
        Ok(Err(reason)) => reason.to_string(),
        Err(_) => "a defect in hyperchunk, please report it".to_owned(),
    };
    let text = message.split('\0').next().unwrap_or_default();
    ctx.error = CString::new(text).unwrap_or_default();
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last_error(ctx: *mut Context) -> String {
        let mut text = [1 as c_char; 400];
        // SAFETY: room for that many bytes, which end with a NUL then.
        unsafe {
            let length = libudf_get_error(text.as_mut_ptr(), text.len(), ctx);
            let text = CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned();
            assert_eq!(text.len(), length);
            text
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let null = std::ptr::null();
        // SAFETY: strings, NULL, and one context.
        unsafe {
            assert!(libudf_init(null, null).is_null());
            assert!(!libudf_compile(std::ptr::null_mut()));
            let ctx = libudf_init(c"none.h5".as_ptr(), null);
            assert_eq!(last_error(ctx), "");
            assert!(!libudf_compile(ctx));
            assert_eq!(last_error(ctx), "no function was named");
            assert!(!libudf_set_option(c"colour".as_ptr(), c"true".as_ptr(), ctx));
            assert!(!libudf_set_option(c"overwrite".as_ptr(), c"yes".as_ptr(), ctx));
            assert!(libudf_set_option(c"overwrite".as_ptr(), c"true".as_ptr(), ctx));
            assert!(libudf_set_option(c"save_sourcecode".as_ptr(), c"true".as_ptr(), ctx));
            assert!(!libudf_push_dataset(c"x:0:float".as_ptr(), ctx));
            assert!(last_error(ctx).contains("x:0:float"));
            assert!(libudf_push_dataset(c"x:10:float".as_ptr(), ctx));
            let mut short = [1 as c_char; 4];
            assert!(libudf_get_error(short.as_mut_ptr(), short.len(), ctx) > 4);
            assert_eq!(short[3], 0);
            libudf_destroy(ctx);
            libudf_destroy(std::ptr::null_mut());
        }
    }
}
