//! State shared by all clients of a process: the async runtime and the connections. It does not survive a
//! fork: the child creates its own on first use.

use super::url::Server;
use crate::flight::status;
use crate::flight::token::Token;
use arrow_flight::flight_service_client::FlightServiceClient;
use hyperchunk::io::{PerProcess, RemoteOptions, is_interrupted};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

/// Maximum number of cached connections.
const MAX_CACHED_CONNECTIONS: usize = 64;
/// Interval at which a waiting caller is checked for interrupts.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Flow control window of a stream, in bytes.
const WINDOW_BYTES: u32 = 16 << 20;
/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;
/// The usual paths of the system's trusted certificates.
const CERTIFICATE_PATHS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The parameters of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    pub(super) server: Server,
    token: Option<String>,
    /// Trusted certificates, as PEM, and the expected name in the server's certificate.
    trusted: Option<Vec<u8>>,
    domain: Option<String>,
    connect_timeout: Duration,
    /// True to open files of a server on this machine directly.
    pub(super) local: bool,
}

impl Connection {
    pub(super) fn new(server: &Server, options: &RemoteOptions) -> Result<Self> {
        let mut connection = Self {
            server: server.clone(),
            token: Token::from_environment()?.map(|token| token.header()),
            trusted: None,
            domain: None,
            connect_timeout: options.connect_timeout,
            local: true,
        };
        let tls = matches!(server, Server::Tcp { tls: true, .. });
        let mut trusted = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
        for (name, value) in &options.store {
            match name.as_str() {
                "token" => connection.token = Some(Token::new(value)?.header()),
                "ca" => trusted = Some(value.into()),
                "domain" => connection.domain = Some(value.clone()),
                // For object stores this means no credentials; here it means no token.
                "anonymous" => connection.token = None,
                "local" => connection.local = parse_bool(name, value)?,
                other => {
                    let message = format!(
                        "unknown setting `{other}` of a Flight server: expected token, ca, domain or local"
                    );
                    return Err(Error::invalid(message));
                }
            }
        }
        if tls {
            let path = trusted.or_else(|| {
                CERTIFICATE_PATHS.iter().map(Into::into).find(|path: &std::path::PathBuf| path.exists())
            });
            let path = path.ok_or_else(|| Error::invalid("no trusted certificates were found: set `ca`"))?;
            let read = std::fs::read(&path).map_err(|error| {
                Error::new(ErrorKind::Io, format!("cannot read the certificates: {error}"))
                    .file(path.display())
            });
            connection.trusted = Some(read?);
        }
        Ok(connection)
    }

    /// Returns the authorization header.
    pub(super) fn header(&self) -> Option<MetadataValue<Ascii>> {
        let mut header: MetadataValue<Ascii> = self.token.as_ref()?.parse().ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    fn channel(&self) -> Result<Channel> {
        let wrong = |error: tonic::transport::Error| {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Error::invalid(format!("cannot reach {}: {error}{cause}", self.server.url()))
        };
        let mut endpoint = Endpoint::from_shared(self.server.endpoint())
            .map_err(wrong)?
            .connect_timeout(self.connect_timeout)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES * 2)
            .max_frame_size(1 << 20)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20))
            .tcp_nodelay(true);
        if let Some(trusted) = &self.trusted {
            let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted));
            if let Some(domain) = &self.domain {
                tls = tls.domain_name(domain);
            }
            endpoint = endpoint.tls_config(tls).map_err(wrong)?;
        }
        Ok(endpoint.connect_lazy())
    }
}

fn parse_bool(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(Error::invalid(format!("the setting `{name}` must be yes or no"))),
    }
}

/// The state shared by all clients of one process.
pub(super) struct Process {
    runtime: Runtime,
    channels: Mutex<HashMap<Connection, Channel>>,
}

static SHARED: PerProcess<Process> = PerProcess::new();

impl Process {
    /// Returns the state of this process.
    pub(super) fn get() -> Result<&'static Self> {
        SHARED.get(Self::new, |spare| spare.runtime.shutdown_background())
    }

    fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("hyperchunk-flight")
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start threads: {error}")))?;
        Ok(Self { runtime, channels: Mutex::default() })
    }

    /// Returns the handle of the runtime for tasks.
    pub(super) fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.handle()
    }

    /// Returns a client for a connection.
    pub(super) fn client(&self, connection: &Connection) -> Result<FlightServiceClient<Channel>> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match channels.get(connection) {
            Some(channel) => channel.clone(),
            None => {
                if channels.len() >= MAX_CACHED_CONNECTIONS {
                    channels.clear();
                }
                // A channel belongs to the runtime in which it is created.
                let _inside = self.runtime.enter();
                let channel = connection.channel()?;
                channels.insert(connection.clone(), channel.clone());
                channel
            }
        };
        Ok(FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Runs tasks, and passes their results to `take` on this thread, until all have ended, one has failed,
    /// or the caller is interrupted. Tasks still running then are aborted.
    pub(super) fn run<T: Send + 'static, F: Future<Output = Result<()>> + Send + 'static>(
        &self,
        start: impl FnOnce(std::sync::mpsc::SyncSender<Result<Option<T>>>) -> Vec<F>,
        ahead: usize,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let (to, from) = std::sync::mpsc::sync_channel::<Result<Option<T>>>(ahead);
        let mut tasks = JoinSet::new();
        let mut under_way = 0_usize;
        for task in start(to.clone()) {
            under_way += 1;
            let to = to.clone();
            tasks.spawn_on(
                async move {
                    let ended = task.await;
                    // The caller may have returned early.
                    drop(tokio::task::block_in_place(|| to.send(ended.map(|()| None))));
                },
                self.runtime.handle(),
            );
        }
        drop(to);
        while under_way > 0 {
            match from.recv_timeout(INTERRUPT_POLL_INTERVAL) {
                Ok(Ok(Some(value))) => take(value)?,
                Ok(Ok(None)) => under_way -= 1,
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) if is_interrupted() => {
                    return Err(Error::new(ErrorKind::Io, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Io, "the request was aborted"));
                }
            }
        }
        Ok(())
    }

    /// Blocks on a future.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (to, from) = channel();
        let mut tasks = JoinSet::new();
        tasks.spawn_on(async move { drop(to.send(work.await)) }, self.runtime.handle());
        loop {
            match from.recv_timeout(INTERRUPT_POLL_INTERVAL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) if is_interrupted() => {
                    return Err(Error::new(ErrorKind::Io, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Io, "the request was aborted"));
                }
            }
        }
    }
}

/// Makes a request on this connection.
pub(super) fn request<T>(
    connection: &Connection,
    message: T,
    timeout: Option<Duration>,
) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(header) = connection.header() {
        request.metadata_mut().insert("authorization", header);
    }
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    request
}

/// Converts a status to an error, and returns whether a retry may help.
pub(super) fn failed(connection: &Connection, error: &tonic::Status) -> (Error, bool) {
    let again = matches!(error.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded)
        || (error.code() == tonic::Code::Unknown && std::error::Error::source(error).is_some());
    let mut told = status::error(error);
    if told.message().is_empty() || again {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let message = format!("{} does not answer: {}{cause}", connection.server.url(), error.message());
        told = Error::new(told.kind(), message);
    }
    (told, again)
}
