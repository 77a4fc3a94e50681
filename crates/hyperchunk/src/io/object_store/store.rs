//! Stores: wrappers of `object_store`'s stores.

use super::direct::Direct;
use super::location::{Kind, Location};
use super::process::Process;
use super::settings::Settings;
use super::web::Web;
use super::wire::Wire;
use crate::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, HeaderValue, ObjectStore, RetryConfig};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// User agent sent to servers.
pub(super) const USER_AGENT: &str = concat!("hyperchunk/", env!("CARGO_PKG_VERSION"));

/// Parameters of a store's connection; equal connections share a store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    pub(super) kind: Kind,
    /// The bucket; the whole URL on a web server.
    pub(super) container: String,
    pub(super) user: Option<(String, String)>,
    pub(super) settings: Settings,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
}

/// A store.
pub(super) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The store's interface for multipart uploads; web servers have none.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    /// Number of requests in flight, and the maximum so far, which is assumed to be the number of open
    /// connections.
    under_way: AtomicUsize,
    connections: AtomicUsize,
}

/// A request in flight.
pub(super) struct UnderWay<'a> {
    store: &'a Store,
    number: usize,
}

impl Connection {
    /// Returns the object's path in the store.
    pub(super) fn path(location: &Location) -> Result<Path> {
        match location.kind {
            // The store's base is the object's whole URL, so that the URL is sent unchanged.
            Kind::Http => Ok(Path::ROOT),
            // `Path::parse` would drop a slash at the start, so that another object would be read or written.
            _ if location.key.starts_with('/') => Err(unfit_key(location)),
            _ => Path::parse(&location.key).map_err(|_| unfit_key(location)),
        }
    }
}

/// Returns the error for a key that `object_store` cannot express.
fn unfit_key(location: &Location) -> Error {
    let message = "cannot use this key: expected one without empty parts, `.` and `..` as parts, and control \
                   characters; to read the object, use its https:// URL";
    Error::unsupported(message).file(location.shown())
}

/// A store as both of `object_store`'s traits.
type Both = (Arc<dyn ObjectStore>, Option<Arc<dyn MultipartStore>>);

fn both<S: ObjectStore + MultipartStore>(store: S) -> Both {
    let store = Arc::new(store);
    (Arc::<S>::clone(&store), Some(store))
}

impl Store {
    pub(super) fn new(connection: &Connection) -> Result<Self> {
        // If another part of the process has chosen a provider, that one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let settings = &connection.settings;
        let client = client_options(connection);
        let connector = Connector {
            connection: connection.clone(),
            settings: format!("{:?} {:?}", settings.iter().collect::<Vec<_>>(), connection.user),
        };
        let bucket = connection.container.as_str();
        let made: object_store::Result<Both> = match connection.kind {
            Kind::S3 => {
                let mut builder = AmazonS3Builder::new();
                for (name, value) in settings.iter() {
                    if let Ok(key) = AmazonS3ConfigKey::from_str(name) {
                        builder = builder.with_config(key, value);
                    }
                }
                if let Some(endpoint) = virtual_endpoint(settings, bucket) {
                    builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
                }
                let builder =
                    builder.with_bucket_name(bucket).with_client_options(client).with_retry(no_retry());
                // Some stores cannot delete several objects in one request.
                let builder = builder.with_disable_bulk_delete(true);
                builder.with_http_connector(connector).build().map(both)
            }
            Kind::Google => {
                let mut builder = GoogleCloudStorageBuilder::new();
                for (name, value) in settings.iter() {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder =
                    builder.with_bucket_name(bucket).with_client_options(client).with_retry(no_retry());
                builder.with_http_connector(connector).build().map(both)
            }
            Kind::Azure => {
                let mut builder = MicrosoftAzureBuilder::new();
                for (name, value) in settings.iter() {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder =
                    builder.with_container_name(bucket).with_client_options(client).with_retry(no_retry());
                builder.with_http_connector(connector).build().map(both)
            }
            Kind::Http => {
                let builder =
                    HttpBuilder::new().with_url(bucket).with_client_options(client).with_retry(no_retry());
                builder.with_http_connector(connector).build().map(|store| (Arc::new(store) as _, None))
            }
        };
        let (objects, parts) = made.map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("the store's settings are not consistent: {}", innermost(&error)),
            )
        })?;
        Ok(Self { objects, parts, under_way: AtomicUsize::new(0), connections: AtomicUsize::new(0) })
    }

    pub(super) fn enter(&self) -> UnderWay<'_> {
        UnderWay { store: self, number: self.under_way.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl UnderWay<'_> {
    /// Records that the response has arrived; returns whether the request needed a new connection.
    pub(super) fn connected(&self) -> bool {
        self.store.connections.fetch_max(self.number, Ordering::Relaxed) < self.number
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.store.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the custom endpoint with the bucket as a part of the host name.
fn virtual_endpoint(settings: &Settings, bucket: &str) -> Option<String> {
    let endpoint = settings.get("aws_endpoint_url_s3").or_else(|| settings.get("aws_endpoint"))?;
    let (scheme, host) = endpoint.split_once("://")?;
    let wanted = settings.is_on("aws_virtual_hosted_style_request");
    (wanted && !host.starts_with(&format!("{bucket}."))).then(|| format!("{scheme}://{bucket}.{host}"))
}

/// Returns the message of the innermost cause, without the URLs (and their secrets) that outer errors add.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Returns a configuration without `object_store`'s retries, since this crate retries itself.
fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::from_secs(10), backoff: BackoffConfig::default() }
}

fn client_options(connection: &Connection) -> ClientOptions {
    let mut options = ClientOptions::new()
        .with_user_agent(HeaderValue::from_static(USER_AGENT))
        .with_timeout_disabled()
        // For other requests than for objects, such as for credentials. Requests for objects have their own
        // time-outs.
        .with_read_timeout(connection.timeout.saturating_add(Duration::from_secs(1)))
        .with_connect_timeout(connection.connect_timeout);
    // Reading the machine's certificates takes 5 ms.
    options = options.with_no_system_certificates(never_encrypted(connection));
    for (name, value) in connection.settings.iter() {
        if let Ok(key) = ClientConfigKey::from_str(name) {
            options = options.with_config(key, value);
        }
    }
    options
}

/// Returns whether all requests, including those for credentials, go to an endpoint without TLS.
fn never_encrypted(connection: &Connection) -> bool {
    let settings = &connection.settings;
    let known = settings.get("aws_access_key_id").is_some() || settings.is_on("aws_skip_signature");
    let plain = settings.get("aws_endpoint").is_some_and(|endpoint| endpoint.starts_with("http://"));
    connection.kind == Kind::S3 && plain && known && settings.get("proxy_url").is_none()
}

/// Makes clients and shares them between stores with equal settings.
struct Connector {
    connection: Connection,
    /// The settings by which clients are distinguished.
    settings: String,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let process = Process::get();
        let make = || {
            let client = match self.connection.kind {
                Kind::Http => {
                    let hosts = process.as_ref().map_or_else(|_| Arc::default(), |it| Arc::clone(it.hosts()));
                    HttpClient::new(Web::new(&self.connection, hosts)?)
                }
                _ => HttpClient::new(Direct::new(options)?),
            };
            Ok(HttpClient::new(Wire(client)))
        };
        match &process {
            // Clients for credentials have other options, which are a part of the key.
            Ok(process) => process.client(format!("{} {options:?}", self.settings), make),
            Err(_) => make(),
        }
    }
}
