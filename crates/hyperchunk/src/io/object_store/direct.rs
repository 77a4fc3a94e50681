//! HTTP client for object stores. It follows redirects only within the same server: others would send the
//! request's signature to any host that the server names.

use super::proxies::with_proxy;
use super::redirects::{MAX_REDIRECTS, RedirectRefusal};
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey as Key, HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::Client;
use std::pin::Pin;
use std::time::Duration;
use url::Url;

/// Wrapper that follows the allowed redirects, around a client that follows none.
#[derive(Debug)]
pub(super) struct Direct(HttpClient);

impl Direct {
    pub(super) fn new(options: &ClientOptions) -> object_store::Result<Self> {
        let unfit = |error: reqwest::Error| object_store::Error::Generic {
            store: "client",
            source: Box::new(error.without_url()),
        };
        Ok(Self(HttpClient::new(client(options).map_err(unfit)?)))
    }

    async fn answer(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let refused = |refusal: RedirectRefusal| HttpError::new(HttpErrorKind::Request, refusal);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.0.execute(request.clone()).await?;
            let location = response.headers().get("location").filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok(response) };
            let from = Url::parse(&request.uri().to_string());
            let from = from.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            let next = location.to_str().ok().and_then(|location| from.join(location).ok());
            let next = next.ok_or_else(|| refused(RedirectRefusal::invalid("one to what is no URL")))?;
            let reads = matches!(request.method().as_str(), "GET" | "HEAD");
            if next.origin() != from.origin() || !reads {
                return Err(refused(RedirectRefusal::by_store(&next.origin().ascii_serialization())));
            }
            if next == from {
                return Err(refused(RedirectRefusal::invalid("one to where it came from")));
            }
            let uri = next.as_str().parse();
            *request.uri_mut() =
                uri.map_err(|_| refused(RedirectRefusal::invalid("one to what is no URL")))?;
        }
        Err(refused(RedirectRefusal::invalid("more than ten in a row")))
    }
}

impl HttpService for Direct {
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

/// Builds the client that `object_store` would build from its options, but without redirects.
fn client(options: &ClientOptions) -> reqwest::Result<Client> {
    let get = |key: Key| options.get_config_value(&key);
    let is_on =
        |key: Key| get(key).is_some_and(|text| matches!(text.as_str(), "true" | "1" | "on" | "yes" | "y"));
    let time = |key: Key| get(key).and_then(|text| duration(&text));
    let number = |key: Key| get(key).and_then(|text| text.parse().ok());
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .https_only(!is_on(Key::AllowHttp))
        .danger_accept_invalid_certs(is_on(Key::AllowInvalidCertificates));
    if let Some(agent) = get(Key::UserAgent) {
        builder = builder.user_agent(agent);
    }
    let (proxy, excluded) = (get(Key::ProxyUrl), get(Key::ProxyExcludes));
    let certificate = get(Key::ProxyCaCertificate);
    builder = with_proxy(builder, proxy.as_deref(), excluded.as_deref(), certificate.as_deref())?;
    if is_on(Key::NoSystemCertificates) {
        builder = builder.tls_certs_only([]);
    }
    if let Some(time) = time(Key::Timeout) {
        builder = builder.timeout(time);
    }
    if let Some(time) = time(Key::ConnectTimeout) {
        builder = builder.connect_timeout(time);
    }
    if let Some(time) = time(Key::ReadTimeout) {
        builder = builder.read_timeout(time);
    }
    if let Some(time) = time(Key::PoolIdleTimeout) {
        builder = builder.pool_idle_timeout(time);
    }
    if let Some(most) = number(Key::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(most);
    }
    // All requests go to one host, so HTTP/2 is not compiled in.
    builder.http1_only().build()
}

/// Parses a duration as `object_store` writes it (`1m 30s`, `200ms`) or in words (`30 seconds`).
fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut left = text.trim();
    while !left.is_empty() {
        let digits = left.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = left.split_at(digits);
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, rest) = behind.split_at(end);
        let number: u32 = number.parse().ok()?;
        let unit = match unit {
            "ns" | "nsec" => Duration::from_nanos(1),
            "us" | "usec" => Duration::from_micros(1),
            "ms" | "msec" | "millis" => Duration::from_millis(1),
            "s" | "sec" | "secs" | "second" | "seconds" => Duration::from_secs(1),
            "m" | "min" | "mins" | "minute" | "minutes" => Duration::from_secs(60),
            "h" | "hr" | "hrs" | "hour" | "hours" => Duration::from_secs(3600),
            "d" | "day" | "days" => Duration::from_secs(86400),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number)?)?;
        left = rest.trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_object_store() {
        let options = ClientOptions::new().with_read_timeout(Duration::from_millis(91_200));
        let told = options.get_config_value(&Key::ReadTimeout).unwrap();
        assert_eq!(duration(&told), Some(Duration::from_millis(91_200)), "{told}");
        assert_eq!(duration("30 seconds"), Some(Duration::from_secs(30)));
        assert_eq!(duration("30"), None);
        assert_eq!(duration("3 fortnights"), None);
    }
}
