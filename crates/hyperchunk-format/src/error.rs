//! The one error of the format and the engine: a stable kind, and where in which file it happened.

use crate::printable::Printable;
use std::fmt;
use std::ops::Range;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file has no HDF5 signature.
    NotHdf5,
    /// The file ends before what it declares.
    Truncated,
    /// The bytes contradict the specification or themselves.
    Corrupt,
    /// Valid, but not supported here.
    Unsupported,
    /// A filter that this build does not have.
    MissingFilter,
    /// A filter could not undo what it did: its input is damaged.
    Filter,
    /// The file is marked as open for writing.
    Locked,
    /// One of [`crate::Limits`] is reached.
    Limit,
    /// No object, attribute or file of that name.
    NotFound,
    /// An object, link or file of that name is there already.
    Exists,
    /// The caller asked for something that makes no sense for this object.
    Invalid,
    /// No conversion between two datatypes.
    Conversion,
    /// The operating system or an object store refused.
    Io,
    /// The file is not the one that was opened: it was written in between.
    Changed,
    /// A live dataset's function is not trusted with what it would do, or tried what it may not.
    Refused,
    /// A live dataset's function failed.
    Function,
    /// Bytes that the parser has not been given yet; never leaves [`crate::step`].
    Need,
}

/// An error of the format or the engine. One word large, cheap to pass on.
#[derive(Clone)]
pub struct Error(Box<Inner>);

/// What parsers return.
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
}

impl Error {
    /// An error with a message; the builder methods say where.
    #[must_use]
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            structure: None,
            offset: None,
            object: None,
            file: None,
            needs: Vec::new(),
            os_code: None,
        }))
    }

    /// The bytes of a structure contradict the specification.
    #[must_use]
    #[cold]
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// Something valid that is not supported.
    #[must_use]
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A limit is reached.
    #[must_use]
    #[cold]
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// The caller's request makes no sense.
    #[must_use]
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Bytes that a parser needs and has not been given, as absolute ranges of the file.
    #[must_use]
    #[cold]
    pub fn need(ranges: Vec<Range<u64>>) -> Self {
        let mut error = Self::new(ErrorKind::Need, "more bytes are needed");
        error.0.needs = ranges;
        error
    }

    /// Adds to the message what the user can do.
    #[must_use]
    pub fn followed_by(mut self, text: &str) -> Self {
        self.0.message.push_str(text);
        self
    }

    /// Names the structure it happened in, unless an inner one is named already.
    #[must_use]
    pub fn within(mut self, structure: &'static str) -> Self {
        self.0.structure.get_or_insert(structure);
        self
    }

    /// Names the offset in the file, unless an inner one is named already.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the object (its path), unless an inner one is named already.
    #[must_use]
    pub fn object(mut self, path: impl fmt::Display) -> Self {
        if self.0.object.is_none() {
            self.0.object = Some(path.to_string());
        }
        self
    }

    /// Names the file, unless an inner one is named already.
    #[must_use]
    pub fn file(mut self, path: impl fmt::Display) -> Self {
        if self.0.file.is_none() {
            self.0.file = Some(path.to_string());
        }
        self
    }

    /// Keeps the number of the system's error (`errno`) that is the cause, for programs.
    #[must_use]
    pub fn caused_by(mut self, error: &std::io::Error) -> Self {
        self.0.os_code = error.raw_os_error();
        self
    }

    /// Keeps a number of a system's error, where the cause is found without asking the system.
    #[must_use]
    pub fn with_os_code(mut self, code: i32) -> Self {
        self.0.os_code = Some(code);
        self
    }

    /// Says what to do about it, behind the message.
    #[must_use]
    pub fn advise(mut self, advice: impl fmt::Display) -> Self {
        self.0.message = format!("{}; {advice}", self.0.message);
        self
    }

    /// The number of the system's error that is the cause.
    #[must_use]
    pub fn os_code(&self) -> Option<i32> {
        self.0.os_code
    }

    /// The file that it happened in, as it was named.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// What went wrong, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without its place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same error at the same place, with another message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// The offset in the file, in bytes from its start.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The ranges of an error of kind [`ErrorKind::Need`].
    #[must_use]
    pub fn needs(&self) -> &[Range<u64>] {
        &self.0.needs
    }

    /// Whether it only asks for bytes; such an error must be passed on, never be interpreted.
    #[must_use]
    pub fn is_need(&self) -> bool {
        self.0.kind == ErrorKind::Need
    }

    /// Whether it says nothing of what the file holds: its bytes could not be had. Such an error must be passed on, never
    /// be taken for what is stored.
    #[must_use]
    pub fn is_of_reading(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io | ErrorKind::Changed | ErrorKind::Need)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        Printable::lines(&inner.message).fmt(f)?;
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
