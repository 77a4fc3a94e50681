//! Classification of failed requests: whether to retry, and the error for the caller.
//!
//! `object_store`'s messages are never passed on unchanged: they contain URLs, which may contain signatures.

use super::redirects::RedirectRefusal;
use super::store::innermost;
use super::wire::ResponseHead;
use crate::{Error, ErrorKind};
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;
use std::time::Duration;

/// Reason why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A permanent failure.
    Final(Error),
    /// A temporary failure, worth retrying.
    Passing {
        reason: String,
        /// The pause that the server requests.
        wait: Option<Duration>,
        /// Maximum number of retries.
        at_most: u32,
    },
}

impl Failure {
    pub(super) fn passing(reason: impl Into<String>) -> Self {
        Self::Passing { reason: reason.into(), wait: None, at_most: u32::MAX }
    }
}

/// Returns the error for an object that is not the opened version.
pub(super) fn changed() -> Error {
    let message = "the object was written since it was opened, so earlier and later reads would not be \
                   consistent; open it again";
    Error::new(ErrorKind::Changed, message)
}

/// Returns the error for an object that the server sends encoded, by the name of the encoding and the first
/// bytes. `None` if they are not: some files have the header although their bytes are plain.
pub(super) fn encoded(encoding: &str, first: &[u8]) -> Option<Error> {
    let is_encoded = match encoding.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => first.starts_with(b"\x1f\x8b"),
        "zstd" => first.starts_with(b"\x28\xb5\x2f\xfd"),
        "compress" | "x-compress" => first.starts_with(b"\x1f\x9d"),
        "deflate" => first.starts_with(b"\x78"),
        // Its bytes have no signature.
        "br" => !first.starts_with(b"\x89HDF"),
        _ => false,
    };
    let message = format!(
        "cannot read parts of the object: expected its own bytes, got compressed ones (Content-Encoding: \
         {encoding}); download and decompress the file, or let the server send it without an encoding"
    );
    is_encoded.then(|| Error::unsupported(message))
}

/// Returns the failure for a response without a valid range. `opened`: whether an earlier one had one, so that
/// this is not how the server always answers.
pub(super) fn no_range(seen: &ResponseHead, opened: bool) -> Failure {
    let few = |reason| Failure::Passing { reason, wait: None, at_most: if opened { u32::MAX } else { 2 } };
    let given = seen.content_range.as_ref().map(|given| given.chars().take(100).collect::<String>());
    match (seen.status, given) {
        (Some(206), Some(given)) if given.ends_with("/*") => {
            let message = format!(
                "cannot read the object: expected its size in the server's answer, got `Content-Range: {given}`; \
                 download the file, or use a server that tells the size"
            );
            Failure::Final(Error::new(ErrorKind::Io, message))
        }
        (Some(206), Some(given)) => {
            few(format!("the server sent an invalid range, `Content-Range: {given}`"))
        }
        (Some(206), None) => {
            few("the server sent a part of the object without its range (status 206 without Content-Range)"
                .into())
        }
        _ => Failure::passing("the server answered without a range"),
    }
}

pub(super) fn stalled(timeout: Duration) -> Failure {
    Failure::passing(format!("the server sent nothing for {:.1} s", timeout.as_secs_f64()))
}

/// Returns the failure for a body that ended early.
pub(super) fn body_failure(error: &object_store::Error) -> Failure {
    Failure::passing(format!("the connection broke: {}", innermost(error)))
}

/// Classifies a request without a valid response. `opened`: whether an earlier request had one.
pub(super) fn request_failure(error: &object_store::Error, seen: &ResponseHead, opened: bool) -> Failure {
    let io = |message: String| Failure::Final(Error::new(ErrorKind::Io, message));
    let Some(status) = seen.status else {
        return if seen.sent { transport_failure(error, seen) } else { credentials_failure(error) };
    };
    let said = said(error);
    let told = said.as_ref().map(|said| format!(": {said}")).unwrap_or_default();
    let code = said.unwrap_or_default();
    match status {
        404 | 410 if opened => Failure::Final(Error::new(
            ErrorKind::NotFound,
            format!("the object is no longer there: it was removed since it was opened{told}"),
        )),
        404 | 410 => {
            Failure::Final(Error::new(ErrorKind::NotFound, format!("there is no such object{told}")))
        }
        412 => Failure::Final(changed()),
        416 if opened => Failure::Final(changed()),
        400 | 401 | 403 if code.contains("Expired") => io(format!(
            "the store refused (status {status}){told}: the credentials have expired; get new ones and open the file again"
        )),
        301 | 307 | 308 | 400
            if status == 301 || seen.region.is_some() || code.contains("AuthorizationHeaderMalformed") =>
        {
            let region = seen.region.as_ref().map(|region| format!(" ({region})")).unwrap_or_default();
            io(format!("the bucket is in another region: set `region`{region}{told}"))
        }
        401 | 403 if !seen.is_signed => io(format!(
            "the store refused (status {status}){told}: the request had no credentials, and the object is not public, or \
             does not exist; give credentials, as options or in the environment, and leave `anonymous` out"
        )),
        401 | 403 => io(format!(
            "the store refused (status {status}){told}: for a public object set `anonymous` to true; for others check the \
             credentials and `region`; some stores also answer like this if the object does not exist"
        )),
        200 if opened => Failure::passing("the server answered with the whole object instead of a range"),
        200 => io("the server ignores ranges: it always sends the whole object, which is larger than the 8 MiB that \
                   are accepted; download the file, or use a server that serves ranges"
            .into()),
        400 if !code.starts_with("RequestTimeout") => {
            io(format!("the server answered with status {status}{told}"))
        }
        400 | 408 | 425 | 429 | 500 | 502..=504 | 509 | 520..=599 => Failure::Passing {
            reason: format!("the server is busy or broken (status {status}){told}"),
            wait: seen.retry_after,
            at_most: u32::MAX,
        },
        206 => Failure::passing(format!("the server's response is invalid: {}", innermost(error))),
        _ => io(format!("the server answered with status {status}{told}")),
    }
}

/// Classifies a failed writing request.
pub(super) fn write_failure(error: &object_store::Error, seen: &ResponseHead) -> Failure {
    let told = said(error);
    let code = told.clone().unwrap_or_default();
    let told = told.map(|said| format!(": {said}")).unwrap_or_default();
    let done = |kind, message: String| Failure::Final(Error::new(kind, message));
    match seen.status {
        Some(401 | 403) if !code.contains("Expired") => done(
            ErrorKind::Io,
            format!(
                "the store refused to write (status {}){told}: check credentials, permissions and `region`",
                seen.status.unwrap_or(0)
            ),
        ),
        Some(404 | 410) => done(
            ErrorKind::NotFound,
            format!("there is no such bucket, or another program ended the upload{told}"),
        ),
        // The body was damaged during the transfer, or the response is an error in spite of its status.
        Some(400)
            if ["XAmzContent", "BadDigest", "IncompleteBody"].iter().any(|start| code.starts_with(start)) =>
        {
            Failure::passing(format!("the server received damaged data{told}"))
        }
        Some(200..=299 | 409) => Failure::passing(format!("the server could not write{told}")),
        Some(405 | 501) => {
            done(ErrorKind::Unsupported, format!("the server does not support multipart uploads{told}"))
        }
        Some(412) => {
            done(ErrorKind::Io, format!("another program wrote an object of that name meanwhile{told}"))
        }
        _ => request_failure(error, seen, false),
    }
}

/// Classifies a request that got no response.
fn transport_failure(error: &object_store::Error, seen: &ResponseHead) -> Failure {
    let cause = innermost(error);
    if let Some(refused) = refused(error) {
        return Failure::Final(Error::invalid(refused.to_string()));
    }
    if cause.contains("certificate") {
        let message = format!(
            "the server's certificate is not trusted: {cause}; set the environment variable `SSL_CERT_FILE` to a file \
             with other certificates"
        );
        return Failure::Final(Error::new(ErrorKind::Io, message));
    }
    if cause.contains("URL scheme is not allowed") {
        let message = "http is not encrypted: to use it for this server, set `allow_http` to true";
        return Failure::Final(Error::new(ErrorKind::Io, message));
    }
    match kind(error) {
        // Few retries, since a wrong host name or port stays wrong.
        Some(HttpErrorKind::Connect) => Failure::Passing {
            reason: match &seen.server {
                Some(server) => format!("no connection to the server {server}: {cause}"),
                None => format!("no connection to the server: {cause}"),
            },
            wait: None,
            at_most: 4,
        },
        Some(HttpErrorKind::Timeout) => Failure::passing("the server did not answer in time"),
        _ => Failure::passing(format!("the connection broke: {cause}")),
    }
}

/// Returns the reason why a redirect was refused, if that caused the error.
fn refused(error: &object_store::Error) -> Option<&RedirectRefusal> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

/// Classifies a failure to get credentials, before any request was sent.
fn credentials_failure(error: &object_store::Error) -> Failure {
    let reason = format!(
        "no credentials were found for the store: for a public object set `anonymous` to true; for others give \
         credentials, as options or in the environment ({})",
        innermost(error)
    );
    match kind(error) {
        Some(_) => Failure::Passing { reason, wait: None, at_most: 1 },
        None => Failure::Final(Error::new(ErrorKind::Io, reason)),
    }
}

fn kind(error: &object_store::Error) -> Option<HttpErrorKind> {
    causes(error).find_map(|cause| cause.downcast_ref::<HttpError>().map(HttpError::kind))
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// Returns the code and message in the server's error document.
fn said(error: &object_store::Error) -> Option<String> {
    let document = innermost(error);
    let code = between(&document, "<Code>", "</Code>").or_else(|| between(&document, "\"code\":", ","));
    let message = between(&document, "<Message>", "</Message>")
        .or_else(|| between(&document, "\"message\": \"", "\""))
        .or_else(|| between(&document, "\"message\":\"", "\""));
    let text = [code, message].into_iter().flatten().map(str::trim).collect::<Vec<_>>().join(": ");
    let text =
        text.replace("&#34;", "\"").replace("&quot;", "\"").replace("&#39;", "'").replace("&apos;", "'");
    (!text.is_empty()).then(|| text.chars().take(300).collect())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        for (encoding, first, expected) in [
            ("gzip", b"\x1f\x8b\x08".as_slice(), true),
            ("X-GZIP", b"\x1f\x8b\x08", true),
            ("zstd", b"\x28\xb5\x2f\xfd", true),
            ("br", b"\x0b\x02", true),
            ("br", b"\x89HDF\r\n\x1a\n", false),
            ("gzip", b"\x89HDF\r\n\x1a\n", false),
            ("gzip", b"", false),
            ("identity", b"\x1f\x8b\x08", false),
            ("aws-chunked", b"abc", false),
        ] {
            let error = encoded(encoding, first);
            assert_eq!(error.is_some(), expected, "{encoding}");
            assert!(error.is_none_or(|error| error.message().contains(encoding)));
        }
    }
}
