//! Conversions between the engine's errors and gRPC statuses.

use hyperchunk::{Error, ErrorKind};
use tonic::{Code, Status};

/// The header with the kind of error: gRPC has fewer codes.
const KIND: &str = "hyperchunk-kind";
/// Maximum length of a message, in bytes: messages are sent in headers.
const MAX_MESSAGE_BYTES: usize = 2000;

const KINDS: [(ErrorKind, &str, Code); 16] = [
    (ErrorKind::NotFound, "not-found", Code::NotFound),
    (ErrorKind::Exists, "exists", Code::AlreadyExists),
    (ErrorKind::Invalid, "invalid", Code::InvalidArgument),
    (ErrorKind::Unsupported, "unsupported", Code::Unimplemented),
    (ErrorKind::Limit, "limit", Code::ResourceExhausted),
    (ErrorKind::Changed, "changed", Code::Aborted),
    (ErrorKind::NotHdf5, "not-hdf5", Code::FailedPrecondition),
    (ErrorKind::Locked, "locked", Code::FailedPrecondition),
    (ErrorKind::MissingFilter, "missing-filter", Code::FailedPrecondition),
    (ErrorKind::Truncated, "truncated", Code::DataLoss),
    (ErrorKind::Corrupt, "corrupt", Code::DataLoss),
    (ErrorKind::Filter, "filter", Code::DataLoss),
    (ErrorKind::Conversion, "conversion", Code::InvalidArgument),
    (ErrorKind::Refused, "refused", Code::PermissionDenied),
    (ErrorKind::Function, "function", Code::Unknown),
    (ErrorKind::Io, "io", Code::Internal),
];

/// Converts an error to a status.
pub(super) fn status(error: &Error) -> Status {
    let known = KINDS.iter().find(|(kind, _, _)| *kind == error.kind());
    let (name, code) = known.map_or(("io", Code::Internal), |(_, name, code)| (*name, *code));
    let mut message = error.to_string();
    if message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    let mut status = Status::new(code, message);
    if let Ok(name) = name.parse() {
        status.metadata_mut().insert(KIND, name);
    }
    status
}

/// Converts a status to an error.
pub(super) fn error(status: &Status) -> Error {
    let name = status.metadata().get(KIND).and_then(|name| name.to_str().ok());
    let known = KINDS.iter().find(|(_, known, _)| Some(*known) == name).map(|(kind, _, _)| *kind);
    let kind = known.unwrap_or(match status.code() {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::Exists,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::Invalid,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::ResourceExhausted => ErrorKind::Limit,
        Code::Aborted => ErrorKind::Changed,
        _ => ErrorKind::Io,
    });
    let message = match status.code() {
        Code::Unauthenticated => format!(
            "cannot authenticate: {}; pass storage_options={{\"token\": …}} (--option token=…), or set {}",
            status.message(),
            super::token::VARIABLE
        ),
        _ => status.message().to_owned(),
    };
    Error::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back() {
        // `Need` never leaves the parsers.
        for kind in ErrorKind::ALL.iter().copied().filter(|kind| *kind != ErrorKind::Need) {
            assert!(KINDS.iter().any(|(known, _, _)| *known == kind), "{kind:?}");
            let there = status(&Error::new(kind, "a\nb"));
            let back = error(&there);
            assert_eq!(back.kind(), kind);
            assert_eq!(back.message(), "a\\nb");
        }
        let long = status(&Error::invalid("ü".repeat(5000)));
        assert!(long.message().len() < 2100);
    }
}
