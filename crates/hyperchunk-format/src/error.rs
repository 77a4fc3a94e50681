//! Error type of the format and the engine: a stable kind, and the file, object, structure and offset it
//! concerns.

use crate::printable::Printable;
use std::fmt;
use std::ops::Range;

/// Category of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file has no HDF5 signature.
    NotHdf5,
    /// The file is shorter than its metadata declare.
    Truncated,
    /// The bytes contradict the specification or each other.
    Corrupt,
    /// Valid, but not supported here.
    Unsupported,
    /// A filter that this build lacks.
    MissingFilter,
    /// A filter failed to decode: its input is damaged.
    Filter,
    /// The file is marked as open for writing.
    Locked,
    /// One of [`crate::Limits`] is reached.
    Limit,
    /// No object, attribute or file of that name.
    NotFound,
    /// An object, link or file of that name exists already.
    Exists,
    /// The request does not fit the object.
    Invalid,
    /// No conversion between two datatypes.
    Conversion,
    /// The operating system or an object store reported an error.
    Io,
    /// The file was written to after it was opened.
    Changed,
    /// A live dataset's function lacks trust for its operation, or attempted a forbidden one.
    Refused,
    /// A live dataset's function failed.
    Function,
    /// The parser needs bytes that are not available yet. [`crate::step`] never returns this kind.
    Need,
}

impl ErrorKind {
    /// All kinds, for tables of them.
    pub const ALL: &[Self] = &[
        Self::NotHdf5,
        Self::Truncated,
        Self::Corrupt,
        Self::Unsupported,
        Self::MissingFilter,
        Self::Filter,
        Self::Locked,
        Self::Limit,
        Self::NotFound,
        Self::Exists,
        Self::Invalid,
        Self::Conversion,
        Self::Io,
        Self::Changed,
        Self::Refused,
        Self::Function,
        Self::Need,
    ];
}

/// Error of the format or the engine. It has the size of one pointer, so that a `Result` is cheap to return.
#[derive(Clone)]
pub struct Error(Box<Inner>);

/// Result of parsers and engine functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    structure: Option<&'static str>,
    offset: Option<u64>,
    object: Option<String>,
    file: Option<String>,
    needs: Vec<Range<u64>>,
    os_code: Option<i32>,
    /// Number of a system error in the message.
    told_code: Option<i32>,
}

impl Error {
    /// Creates an error with a message; other methods add the file, object, structure and offset.
    #[must_use]
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        let told_code = take_os_code(&mut message);
        Self(Box::new(Inner {
            kind,
            message,
            structure: None,
            offset: None,
            object: None,
            file: None,
            needs: Vec::new(),
            os_code: None,
            told_code,
        }))
    }

    /// Creates an error of kind Corrupt: the bytes contradict the specification.
    #[must_use]
    #[cold]
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// Creates an error of kind Unsupported: valid, but not supported here.
    #[must_use]
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Creates an error of kind Limit: one of [`crate::Limits`] is reached.
    #[must_use]
    #[cold]
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// Creates an error of kind Invalid: the request does not fit the object.
    #[must_use]
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an error of kind Need for the bytes that a parser lacks, as absolute ranges of the file.
    #[must_use]
    #[cold]
    pub fn need(ranges: Vec<Range<u64>>) -> Self {
        let mut error = Self::new(ErrorKind::Need, "more bytes are needed");
        error.0.needs = ranges;
        error
    }

    /// Appends text to the message, for example advice to the user.
    #[must_use]
    pub fn followed_by(mut self, text: &str) -> Self {
        self.0.message.push_str(text);
        self
    }

    /// Sets the structure, unless an inner one is set already.
    #[must_use]
    pub fn within(mut self, structure: &'static str) -> Self {
        self.0.structure.get_or_insert(structure);
        self
    }

    /// Sets the offset in the file, unless an inner one is set already.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the object's path, unless an inner one is set already.
    #[must_use]
    pub fn object(mut self, path: impl fmt::Display) -> Self {
        if self.0.object.is_none() {
            self.0.object = Some(path.to_string());
        }
        self
    }

    /// Sets the file, unless an inner one is set already.
    #[must_use]
    pub fn file(mut self, path: impl fmt::Display) -> Self {
        if self.0.file.is_none() {
            self.0.file = Some(path.to_string());
        }
        self
    }

    /// Stores the `errno` of the system error that is the cause, for programs.
    #[must_use]
    pub fn caused_by(mut self, error: &std::io::Error) -> Self {
        self.0.os_code = error.raw_os_error();
        self
    }

    /// Sets the `errno` of a cause that was detected without a system call.
    #[must_use]
    pub fn with_os_code(mut self, code: i32) -> Self {
        self.0.os_code = Some(code);
        self
    }

    /// Appends advice to the message, after a semicolon.
    #[must_use]
    pub fn advise(mut self, advice: impl fmt::Display) -> Self {
        self.0.message = format!("{}; {advice}", self.0.message);
        self
    }

    /// Returns the `errno` of the cause, if one is set.
    #[must_use]
    pub fn os_code(&self) -> Option<i32> {
        self.0.os_code
    }

    /// Returns the `errno` of the cause, or of the system error that the message describes.
    #[must_use]
    pub fn system_code(&self) -> Option<i32> {
        self.0.os_code.or(self.0.told_code)
    }

    /// Returns the name of the file in which the error occurred.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// Returns the path of the object in which the error occurred.
    #[must_use]
    pub fn object_path(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Returns the category, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without file, object, structure and offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Replaces the message and keeps all else: kind, file, object, structure, offset.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Returns the offset in bytes from the start of the file.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the ranges of an error of kind [`ErrorKind::Need`].
    #[must_use]
    pub fn needs(&self) -> &[Range<u64>] {
        &self.0.needs
    }

    /// True if the error only requests bytes. Pass such an error on; never interpret it.
    #[must_use]
    pub fn is_need(&self) -> bool {
        self.0.kind == ErrorKind::Need
    }

    /// True if the bytes could not be read, so that the error tells nothing about the file's contents. Pass
    /// such an error on; never treat it as a property of the file.
    #[must_use]
    pub fn is_of_reading(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io | ErrorKind::Changed | ErrorKind::Need)
    }
}

/// Removes the number that the standard library adds to texts of system errors, such as ` (os error 2)`, and returns it.
fn take_os_code(message: &mut String) -> Option<i32> {
    const START: &str = " (os error ";
    let (before, number) = message.split_once(START)?;
    let (digits, after) = number.split_once(')')?;
    let code = digits.parse().ok()?;
    *message = format!("{before}{after}");
    Some(code)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        Printable::new(&inner.message).fmt(f)?;
        let mut separator = " (";
        let mut place = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            f.write_str(separator)?;
            separator = ", ";
            f.write_fmt(text)
        };
        if let Some(file) = &inner.file {
            place(f, format_args!("file {}", Printable::new(file)))?;
        }
        if let Some(object) = &inner.object {
            place(f, format_args!("object {}", Printable::new(object)))?;
        }
        if let Some(structure) = inner.structure {
            place(f, format_args!("in {structure}"))?;
        }
        if let Some(offset) = inner.offset {
            place(f, format_args!("at offset {offset}"))?;
        }
        if separator == ", " { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

const _: () = assert!(size_of::<Error>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind};

    #[test]
    fn numbers_of_system_errors_are_kept_for_programs() {
        let check = |text: &str, message: &str, code: Option<i32>| {
            let error = Error::new(ErrorKind::Io, text);
            assert_eq!((error.message(), error.system_code()), (message, code), "{text}");
        };
        let missing = Error::new(ErrorKind::Io, std::io::Error::from_raw_os_error(2).to_string());
        assert!(!missing.message().is_empty() && !missing.message().contains('('), "{missing}");
        assert_eq!((missing.system_code(), missing.os_code()), (Some(2), None));
        check("cannot open a: Denied (os error 13); do b", "cannot open a: Denied; do b", Some(13));
        for text in ["", "a (os error ", "a (os error 2", "a (os error x)", "(os error 2)"] {
            check(text, text, None);
        }
    }

    #[test]
    fn all_kinds_are_listed() {
        // A match without a default: a new kind must be added here and to `ALL`, at the same place.
        let number = |kind: ErrorKind| match kind {
            ErrorKind::NotHdf5 => 0,
            ErrorKind::Truncated => 1,
            ErrorKind::Corrupt => 2,
            ErrorKind::Unsupported => 3,
            ErrorKind::MissingFilter => 4,
            ErrorKind::Filter => 5,
            ErrorKind::Locked => 6,
            ErrorKind::Limit => 7,
            ErrorKind::NotFound => 8,
            ErrorKind::Exists => 9,
            ErrorKind::Invalid => 10,
            ErrorKind::Conversion => 11,
            ErrorKind::Io => 12,
            ErrorKind::Changed => 13,
            ErrorKind::Refused => 14,
            ErrorKind::Function => 15,
            ErrorKind::Need => 16,
        };
        let numbers: Vec<usize> = ErrorKind::ALL.iter().map(|kind| number(*kind)).collect();
        assert_eq!(numbers, (0..=number(ErrorKind::Need)).collect::<Vec<_>>());
    }
}
