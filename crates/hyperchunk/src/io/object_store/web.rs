//! HTTP client for web servers. Archives often redirect to a URL in an object store that is signed for an
//! hour. Its target is cached, so that it is not requested for every range. It is followed only if
//! [`Redirects`] allows it.

use super::hosts::{Host, HostResolver, Hosts};
use super::proxies::with_proxy;
use super::redirects::{self, MAX_REDIRECTS, PublicOnly, RedirectRefusal, Redirects};
use super::settings::{ANONYMOUS, BEARER};
use super::store::{Connection, USER_AGENT, innermost};
use http_body_util::BodyExt;
use object_store::HeaderValue;
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::{Client, ClientBuilder, Request, Response};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// Time for which the target of a redirect is cached.
const CACHE_TIME: Duration = Duration::from_secs(300);
/// Maximum number of cached redirects.
const MAX_CACHED_REDIRECTS: usize = 256;

pub(super) struct Web {
    /// Client for the server in the URL. Its resolver caches the addresses of the host name.
    client: Client,
    /// Client for servers other than the one in the URL. Its resolver refuses host names with addresses that
    /// are not public.
    elsewhere: Client,
    redirects: Redirects,
    hosts: Arc<Hosts>,
    /// Header that is sent only to the server in the caller's URL.
    authorization: Option<HeaderValue>,
    /// The URL of a file on another server (a collection) that names the files on this one.
    named_by: Option<Url>,
    ends: Mutex<HashMap<Url, (Url, Instant)>>,
}

impl Web {
    pub(super) fn new(connection: &Connection, hosts: Arc<Hosts>) -> object_store::Result<Self> {
        let unfit = |source: String| object_store::Error::Generic { store: "web", source: source.into() };
        let named_by = connection.settings.get(redirects::NAMED_BY).map(Url::parse).transpose();
        let named_by = named_by.map_err(|error| unfit(error.to_string()))?;
        let own = Url::parse(&connection.container).map_err(|error| unfit(error.to_string()))?;
        let named_by = named_by.filter(|named_by| named_by.origin() != own.origin());
        let authorization = match named_by {
            Some(_) => None,
            None => authorization(connection).map_err(unfit)?,
        };
        let redirects = Redirects::parse(connection.settings.get(redirects::OPTION)).map_err(unfit)?;
        let builder = || client(connection).map_err(unfit);
        let (own, elsewhere) = match redirects {
            Redirects::Any => (builder()?, builder()?),
            _ if named_by.is_some() => {
                let public = |builder: ClientBuilder| builder.dns_resolver(Arc::new(PublicOnly));
                (public(builder()?), public(builder()?))
            }
            _ => {
                let resolver = Arc::new(HostResolver(Arc::clone(&hosts)));
                (builder()?.dns_resolver(resolver), builder()?.dns_resolver(Arc::new(PublicOnly)))
            }
        };
        let build = |builder: ClientBuilder| builder.build().map_err(|error| unfit(said(error)));
        let (client, elsewhere) = (build(own)?, build(elsewhere)?);
        Ok(Self { client, elsewhere, redirects, hosts, authorization, named_by, ends: Mutex::default() })
    }

    /// Sends one request to `url`, which is on the server of `origin` or on one that it redirected to.
    async fn ask(
        &self,
        (origin, host): (&Url, Option<&Host>),
        url: &Url,
        request: &HttpRequest,
    ) -> Result<Response, HttpError> {
        let mut asked = Request::new(request.method().clone(), url.clone());
        *asked.headers_mut() = request.headers().clone();
        let own = origin.origin() == url.origin();
        if let Some(value) = self.authorization.as_ref().filter(|_| own) {
            asked.headers_mut().insert("authorization", value.clone());
        }
        let client = if own { &self.client } else { &self.elsewhere };
        let response = client.execute(asked).await.map_err(error)?;
        if let (true, Some(host), Some(by)) = (own, host, response.remote_addr()) {
            host.answered(by.ip());
        }
        Ok(response)
    }

    /// Requests `url`, which is `origin` or the cached target of its redirect, and follows redirects.
    async fn get(&self, origin: &Url, url: &Url, request: &HttpRequest) -> Result<Response, HttpError> {
        let refused = |refusal: RedirectRefusal| HttpError::new(HttpErrorKind::Request, refusal);
        let mut url = url.clone();
        let host = self.hosts.of(origin);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask((origin, host.as_deref()), &url, request).await?;
            let location = response.headers().get("location").filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok(response) };
            let next = location.to_str().ok().and_then(|location| url.join(location).ok());
            let mut next = next.ok_or_else(|| refused(RedirectRefusal::invalid("one to what is no URL")))?;
            // A user and password in the redirect would be sent as credentials that the caller never gave.
            let _ = next.set_username("");
            let _ = next.set_password(None);
            self.redirects.check(&url, &next).map_err(refused)?;
            if next == url {
                return Err(refused(RedirectRefusal::invalid("one to where it came from")));
            }
            url = next;
        }
        Err(refused(RedirectRefusal::invalid(&format!("one after {MAX_REDIRECTS} others"))))
    }

    /// Returns the cached target of a redirect from this URL.
    fn end(&self, url: &Url) -> Option<Url> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get(url).filter(|(_, when)| when.elapsed() < CACHE_TIME).map(|(end, _)| end.clone())
    }

    fn remember(&self, url: &Url, end: Option<&Url>) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => {
                if ends.len() >= MAX_CACHED_REDIRECTS {
                    ends.clear();
                }
                ends.insert(url.clone(), (end.clone(), Instant::now()));
            }
            None => drop(ends.remove(url)),
        }
    }

    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = Url::parse(&request.uri().to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        if let Some(from) = &self.named_by {
            let refused =
                |refusal: RedirectRefusal| HttpError::new(HttpErrorKind::Request, refusal.by_name());
            self.redirects.check(from, &url).map_err(refused)?;
        }
        if let Some(end) = self.end(&url) {
            let response = self.get(&url, &end, &request).await;
            // If a signature has expired or a server is unavailable, the first server may have a new target.
            let refused = |status: u16| (400..500).contains(&status) && !matches!(status, 412 | 416 | 429);
            match response {
                Ok(response) if !refused(response.status().as_u16()) => return Ok(answer(response)),
                _ => self.remember(&url, None),
            }
        }
        let response = self.get(&url, &url, &request).await?;
        if response.status().is_success() && *response.url() != url {
            self.remember(&url, Some(response.url()));
        }
        Ok(answer(response))
    }
}

impl HttpService for Web {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.answer(request))
    }
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Web")
    }
}

fn answer(mut response: Response) -> HttpResponse {
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    let body = reqwest::Body::from(response).map_err(error);
    let mut answer = HttpResponse::new(HttpResponseBody::new(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// Converts an error, without its URL.
fn error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}

fn said(error: reqwest::Error) -> String {
    innermost(&error.without_url())
}

fn client(connection: &Connection) -> Result<ClientBuilder, String> {
    let settings = &connection.settings;
    let builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(USER_AGENT)
        .connect_timeout(connection.connect_timeout)
        .http1_only()
        .https_only(!settings.is_on("allow_http"))
        .danger_accept_invalid_certs(settings.is_on("allow_invalid_certificates"));
    let [proxy, excluded, certificate] =
        ["proxy_url", "proxy_excludes", "proxy_ca_certificate"].map(|name| settings.get(name));
    with_proxy(builder, proxy, excluded, certificate).map_err(said)
}

/// Returns the header for the caller's token, or for the user and password in the URL.
fn authorization(connection: &Connection) -> Result<Option<HeaderValue>, String> {
    let settings = &connection.settings;
    let bearer = settings.get(BEARER).map(|token| format!("Bearer {token}"));
    let basic = connection
        .user
        .as_ref()
        .map(|(user, password)| format!("Basic {}", base64(format!("{user}:{password}").as_bytes())));
    let Some(text) = bearer.or(basic).filter(|_| !settings.is_on(ANONYMOUS)) else { return Ok(None) };
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| "the token has characters that are invalid in a header")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication() {
        for (text, expected) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("u:pä", "dTpww6Q=")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
