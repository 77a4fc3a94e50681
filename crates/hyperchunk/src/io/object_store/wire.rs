//! HTTP client below `object_store` that records each response before `object_store` classifies it as an
//! error or a success.

use super::cost::Meter;
use crate::io::{Counters, percent};
use bytes::Bytes;
use http_body_util::BodyExt;
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::{HeaderMap, HeaderValue};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Maximum size in bytes of an object that is accepted whole from a server that ignores ranges.
const MAX_WHOLE_BYTES: u64 = 8 << 20;

/// One attempt of a request. It is attached to the request, and the response's head is recorded in it.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) start: u64,
    pub(super) end: u64,
    /// True if it is the first request for the object.
    pub(super) opening: bool,
    pub(super) tally: Arc<Tally>,
    seen: Arc<Mutex<ResponseHead>>,
}

/// Counters and measurements of one object.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) counters: Counters,
    pub(super) meter: Meter,
    /// The bucket's region, if a server reports another one than expected.
    pub(super) region: OnceLock<String>,
    /// The encoding of the object's bytes that the opening response names (`Content-Encoding`).
    pub(super) encoding: OnceLock<String>,
}

/// Recorded head of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseHead {
    /// True if the request was sent. A failure before that is a failure to get credentials.
    pub(super) sent: bool,
    /// Host and port of the server.
    pub(super) server: Option<String>,
    /// True if the request had credentials or a token.
    pub(super) is_signed: bool,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    pub(super) etag: Option<String>,
    pub(super) modified: Option<String>,
    /// The range in the response, and the object's size.
    pub(super) range: Option<(u64, u64, u64)>,
    /// The size of the whole object, if that came instead of a range.
    pub(super) whole: Option<u64>,
    /// The length of the body.
    pub(super) length: Option<u64>,
    /// The text of the header `Content-Range`.
    pub(super) content_range: Option<String>,
    /// Number of bytes that arrived of a whole object of unknown size.
    pub(super) received: u64,
    /// The bucket's actual region.
    pub(super) region: Option<String>,
    /// The time until the response's head arrived.
    pub(super) latency: Duration,
}

impl ResponseHead {
    /// Returns the head of a response that has not arrived.
    fn awaited(request: &HttpRequest) -> Self {
        let uri = request.uri();
        let authority = uri.authority().map(|authority| authority.as_str());
        // Without a user's name and password.
        let server = authority.map(|text| text.rsplit('@').next().unwrap_or_default().to_owned());
        let query = uri.query().unwrap_or_default();
        let is_signed = request.headers().contains_key("authorization")
            || query.split('&').any(|pair| {
                ["X-Amz-Signature=", "X-Goog-Signature=", "sig="].iter().any(|name| pair.starts_with(name))
            });
        Self { sent: true, server, is_signed, ..Self::default() }
    }
}

impl Exchange {
    pub(super) fn new(range: &Range<u64>, opening: bool, tally: Arc<Tally>) -> Self {
        Self { start: range.start, end: range.end, opening, tally, seen: Arc::default() }
    }

    pub(super) fn seen(&self) -> ResponseHead {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut ResponseHead)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns whether a response is a whole object without its size, from a server that ignores ranges.
    fn is_of_unknown_size(&self, response: &HttpResponse) -> bool {
        let is_whole = response.status().as_u16() == 200 && self.start == 0;
        self.opening && is_whole && !response.headers().contains_key("content-length")
    }

    /// Receives an object of unknown size, and adds its size to the response's head. If the object is too large,
    /// the head stays as it is, and the body is discarded.
    async fn receive(&self, response: HttpResponse) -> Result<HttpResponse, HttpError> {
        let most = MAX_WHOLE_BYTES.max(self.end);
        let (mut head, mut body) = response.into_parts();
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(frame) = body.frame().await {
            // Other frames have further headers.
            let Ok(piece) = frame?.into_data() else { continue };
            let received = bytes.len() as u64 + piece.len() as u64;
            if received > most {
                return Ok(HttpResponse::from_parts(head, Bytes::new().into()));
            }
            bytes.extend_from_slice(&piece);
            self.note(|seen| seen.received = received);
        }
        head.headers.insert("content-length", HeaderValue::from(bytes.len()));
        Ok(HttpResponse::from_parts(head, bytes.into()))
    }

    /// Records a response's head, and repairs headers because of which `object_store` would reject the
    /// response unnecessarily.
    fn look(&self, response: &mut HttpResponse, latency: Duration) {
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        let text = |headers: &HeaderMap, name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).map(|value| value.trim().to_owned())
        };
        let length: Option<u64> = text(headers, "content-length").and_then(|length| length.parse().ok());
        let given_range = text(headers, "content-range");
        let range = given_range.as_deref().and_then(content_range);
        if let Some(encoding) = text(headers, "content-encoding").filter(|_| self.opening) {
            drop(self.tally.encoding.set(encoding));
        }
        let whole = length.filter(|size| status == 200 && self.start == 0 && *size > 0);
        let taken = whole.filter(|size| self.opening && *size <= MAX_WHOLE_BYTES.max(self.end));
        self.note(|seen| {
            seen.status = Some(status);
            seen.latency = latency;
            seen.retry_after = text(headers, "retry-after")
                .and_then(|after| retry_after(&after, text(headers, "date").as_deref()));
            seen.etag = text(headers, "etag").filter(|etag| !etag.trim_matches('"').is_empty());
            seen.modified = text(headers, "last-modified");
            seen.region = text(headers, "x-amz-bucket-region");
            seen.range = range.filter(|_| status == 206);
            seen.content_range = given_range;
            seen.length = length;
            seen.whole = whole;
        });
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        if let Some(size) = taken {
            set("content-range", &format!("bytes 0-{}/{size}", self.end.min(size) - 1));
        }
        if let (Some((start, end, _)), None, 206) = (range, length, status) {
            set("content-length", &(end - start).to_string());
        }
        // Two of `object_store`'s stores require these headers.
        if !headers.contains_key("etag") {
            headers.insert("etag", HeaderValue::from_static("\"\""));
        }
        headers.insert("last-modified", HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
        if let (Some(_), Ok(partial)) = (taken, 206u16.try_into()) {
            *response.status_mut() = partial;
        }
    }
}

/// Parses `bytes 5-9/20` as 5, 10 and 20.
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    let start = first.parse().ok().filter(|start| *start < end)?;
    Some((start, end, size.parse().ok().filter(|size| end <= *size)?))
}

/// Parses the pause that a server requests: a number of seconds, or a date by the server's clock, of which
/// `date` is the current time. `None` for a date in the past.
fn retry_after(text: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(SystemTime::now);
    until.duration_since(now).ok().filter(|pause| !pause.is_zero())
}

tokio::task_local! {
    /// The running task's upload, whose requests have no [`Exchange`].
    pub(super) static OBJECT_REQUESTS: ObjectRequests;
}

/// Requests that write one object or list objects.
#[derive(Clone)]
pub(super) struct ObjectRequests {
    pub(super) key: Arc<str>,
    /// True if they list the objects below that name.
    pub(super) lists: bool,
    pub(super) tally: Arc<Tally>,
    pub(super) seen: Arc<Mutex<ResponseHead>>,
}

impl ObjectRequests {
    pub(super) fn seen(&self) -> ResponseHead {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether a request is for the object. Other requests are for credentials.
    fn is_meant(&self, request: &HttpRequest) -> bool {
        if self.lists {
            return request.uri().query().is_some_and(|query| query.contains("prefix="));
        }
        let path = request.uri().path();
        percent::decode(path).as_deref().unwrap_or(path).ends_with(&*self.key)
    }

    async fn execute(self, client: &HttpClient, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let note = |seen: ResponseHead| *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        let awaited = ResponseHead::awaited(&request);
        note(awaited.clone());
        self.tally.counters.requests.fetch_add(1, Ordering::Relaxed);
        let response = client.execute(request).await?;
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        note(ResponseHead {
            status: Some(response.status().as_u16()),
            retry_after: text("retry-after").and_then(|after| retry_after(after.trim(), text("date"))),
            region: text("x-amz-bucket-region").map(str::to_owned),
            ..awaited
        });
        Ok(response)
    }
}

/// Wrapper of the actual client that records responses.
#[derive(Debug)]
pub(super) struct Wire(pub(super) HttpClient);

impl HttpService for Wire {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            if let Ok(requests) = OBJECT_REQUESTS.try_with(ObjectRequests::clone)
                && requests.is_meant(&request)
            {
                return requests.execute(&self.0, request).await;
            }
            // Requests for credentials have no exchange.
            let Some(exchange) = request.extensions().get::<Exchange>().cloned() else {
                return self.0.execute(request).await;
            };
            let awaited = ResponseHead::awaited(&request);
            exchange.note(|seen| *seen = awaited);
            exchange.tally.counters.requests.fetch_add(1, Ordering::Relaxed);
            let started = Instant::now();
            let mut response = self.0.execute(request).await?;
            let latency = started.elapsed();
            if exchange.is_of_unknown_size(&response) {
                response = exchange.receive(response).await?;
            }
            exchange.look(&mut response, latency);
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        for (text, expected) in [
            ("bytes 5-9/20", Some((5, 10, 20))),
            ("bytes 0-0/1", Some((0, 1, 1))),
            ("bytes 5-4/20", None),
            ("bytes 5-20/20", None),
            ("bytes 5-9/*", None),
            ("bytes */20", None),
            ("bytes 0-18446744073709551615/20", None),
            ("items 5-9/20", None),
        ] {
            assert_eq!(content_range(text), expected, "{text}");
        }
    }
    #[test]
    fn test_retry_after_seconds_and_dates() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (text, date, expected) in [
            ("120", date, Some(120)),
            ("Sun, 06 Nov 1994 08:49:39 GMT", date, Some(2)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", date, Some(60)),
            ("Mon Nov  7 08:49:37 1994", date, Some(86_400)),
            // In the past, by the server's clock or by this machine's.
            ("Sun, 06 Nov 1994 08:49:37 GMT", date, None),
            ("Sun, 06 Nov 1994 08:49:36 GMT", date, None),
            ("Sun, 06 Nov 1994 08:49:39 GMT", Some("today"), None),
            ("Sun, 06 Nov 1994 08:49:39 CET", date, None),
            ("Sun, 32 Nov 1994 08:49:39 GMT", date, None),
            ("soon", date, None),
            ("", date, None),
        ] {
            assert_eq!(retry_after(text, date), expected.map(Duration::from_secs), "{text}");
        }
        let far = retry_after("Fri, 31 Dec 9999 23:59:59 GMT", None);
        assert!(far.is_some_and(|pause| pause > Duration::from_secs(1 << 32)));
    }
}
