//! The methods of Flight.

use super::frames::{FrameBody, FrameBodySlot};
use super::listen::Peer;
use super::memory::Memory;
use super::opened::OpenFiles;
use super::{Log, ServerOptions, actions, follow, put, tables};
use crate::flight::query::{self, Query};
use crate::flight::status;
use crate::flight::token::Token;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use hyperchunk::io::{Ask, with_interrupt};
use hyperchunk::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::transport::server::TlsConnectInfo;
use tonic::{Code, Request, Response, Status, Streaming};

/// Time limit for a request to wait for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of messages queued for the client.
const QUEUED_MESSAGES: usize = 1;
/// Maximum number of concurrent writing clients.
const MAX_WRITERS: usize = 4;

type Answers<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;
/// An item for a client; `None` at a successful end.
pub(super) type StreamItem<T> = std::result::Result<Option<T>, Status>;

/// The state shared by all requests.
pub(super) struct Flight {
    pub(super) files: Arc<OpenFiles>,
    token: Option<Token>,
    pub(super) writable: bool,
    turns: Arc<Semaphore>,
    memory: Memory,
    writers: Arc<Semaphore>,
    stall_timeout: Duration,
    log: Option<Log>,
    /// True if columns may be sent from mapped files. With TLS this process reads the data to encrypt them,
    /// and a file that is truncated meanwhile would kill it.
    mapped: bool,
}

/// Sends items to a client that may be slow, or may have disconnected.
pub(super) struct BatchSender<T> {
    to: mpsc::Sender<StreamItem<T>>,
    stall_timeout: Duration,
    runtime: Handle,
    memory: Memory,
}

impl<T> BatchSender<T> {
    /// Sends an item; waits until there is room in the client's queue.
    pub(super) fn send(&self, value: T) -> Result<()> {
        let sent =
            self.runtime.block_on(tokio::time::timeout(self.stall_timeout, self.to.send(Ok(Some(value)))));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Error::new(ErrorKind::Io, "the client did not receive the response in time")),
        }
    }

    /// Returns whether the client has disconnected.
    pub(super) fn is_gone(&self) -> bool {
        self.to.is_closed()
    }

    /// Reserves memory for a response that reads `bytes` at once.
    pub(super) fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        self.memory.reserve(bytes, &self.runtime, self.stall_timeout)
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Io, "the client has disconnected")
}

fn aborted() -> Status {
    Status::internal("the request was aborted")
}

/// Returns whether a client is on this machine.
fn is_local<T>(request: &Request<T>) -> bool {
    match request
        .extensions()
        .get::<Peer>()
        .or_else(|| request.extensions().get::<TlsConnectInfo<Peer>>().map(TlsConnectInfo::get_ref))
    {
        // A Unix socket has no address.
        Some(peer) => peer.address.is_none_or(|address| address.ip().is_loopback()),
        None => false,
    }
}

impl Flight {
    pub(super) fn new(files: OpenFiles, options: &ServerOptions, tls: bool) -> Self {
        Self {
            files: Arc::new(files),
            token: options.token.clone(),
            writable: options.writable,
            turns: Arc::new(Semaphore::new(options.streams.max(1))),
            memory: Memory::new(),
            writers: Arc::new(Semaphore::new(MAX_WRITERS)),
            stall_timeout: options.stall_timeout,
            log: options.log.clone(),
            mapped: !tls,
        }
    }

    async fn turn(turns: &Arc<Semaphore>) -> std::result::Result<OwnedSemaphorePermit, Status> {
        match tokio::time::timeout(TURN_TIMEOUT, Arc::clone(turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) => Err(aborted()),
            Err(_) => Err(Status::unavailable("too many requests at once: try again")),
        }
    }

    /// Runs blocking work on a thread.
    async fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&OpenFiles) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Status> {
        let turn = Self::turn(&self.turns).await?;
        let files = Arc::clone(&self.files);
        // Dropped with this future, which interrupts work whose result is not needed any more.
        let wanted = Arc::new(());
        let waited_for = Arc::downgrade(&wanted);
        let ask: Ask = Arc::new(move || waited_for.strong_count() == 0);
        let done = tokio::task::spawn_blocking(move || {
            let done = with_interrupt(Some(ask), || work(&files))
                .map_err(|error| status::status(&files.without_paths(&error)));
            drop(turn);
            done
        });
        let done = done.await.map_err(|_| aborted())?;
        drop(wanted);
        done
    }

    /// Runs blocking work that sends a stream of items.
    async fn stream<T: Send + 'static>(
        &self,
        what: String,
        work: impl FnOnce(&OpenFiles, &BatchSender<T>) -> Result<()> + Send + 'static,
    ) -> std::result::Result<mpsc::Receiver<StreamItem<T>>, Status> {
        let turn = Self::turn(&self.turns).await?;
        let (to, from) = mpsc::channel(QUEUED_MESSAGES);
        let files = Arc::clone(&self.files);
        let memory = self.memory.clone();
        let sender =
            BatchSender { to, stall_timeout: self.stall_timeout, runtime: Handle::current(), memory };
        let log = self.log.clone();
        tokio::task::spawn_blocking(move || {
            let to = sender.to.clone();
            let ask: Ask = Arc::new(move || to.is_closed());
            let done = catch_unwind(AssertUnwindSafe(|| with_interrupt(Some(ask), || work(&files, &sender))));
            let end = match done {
                Ok(Ok(())) => Ok(None),
                Ok(Err(error)) => Err(status::status(&files.without_paths(&error))),
                Err(_) => Err(aborted()),
            };
            if let (Some(log), Err(status)) = (&log, &end) {
                log(&format!("{what} failed: {}", status.message()));
            }
            let last =
                sender.runtime.block_on(tokio::time::timeout(sender.stall_timeout, sender.to.send(end)));
            // An error means that the receiver was dropped.
            drop(last);
            drop(turn);
        });
        Ok(from)
    }
}

/// Returns the items as a stream that ends in an error unless it was complete.
fn answers<T: Send + 'static>(from: mpsc::Receiver<StreamItem<T>>) -> Answers<T> {
    Box::pin(unfold(Some(from), |from| async move {
        let mut from = from?;
        match from.recv().await {
            Some(Ok(Some(value))) => Some((Ok(value), Some(from))),
            Some(Ok(None)) => None,
            Some(Err(status)) => Some((Err(status), None)),
            None => Some((Err(aborted()), None)),
        }
    }))
}

fn no_such(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not supported"))
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> std::result::Result<Response<Self::HandshakeStream>, Status> {
        // The client has presented the token already, or needs none.
        let answer = HandshakeResponse::default();
        let mut response: Response<Self::HandshakeStream> =
            Response::new(Box::pin(futures_util::stream::iter([Ok(answer)])));
        if let Some(header) = self.token.as_ref().and_then(|token| token.header().parse().ok()) {
            response.metadata_mut().insert("authorization", header);
        }
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> std::result::Result<Response<Self::ListFlightsStream>, Status> {
        let expression = request.into_inner().expression;
        let listed = self.stream("ListFlights".into(), move |files, sender| {
            tables::list(files, &expression, &mut |info| sender.send(info))
        });
        Ok(Response::new(answers(listed.await?)))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> std::result::Result<Response<FlightInfo>, Status> {
        let local = is_local(&request);
        let descriptor = request.into_inner();
        let info = self.answer(move |files| {
            let query = Query::from_descriptor(&descriptor)?;
            tables::info(files, &query, Some(descriptor), local)
        });
        Ok(Response::new(info.await?))
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> std::result::Result<Response<PollInfo>, Status> {
        Err(no_such("PollFlightInfo"))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> std::result::Result<Response<SchemaResult>, Status> {
        let descriptor = request.into_inner();
        let schema = self.answer(move |files| tables::schema(files, &Query::from_descriptor(&descriptor)?));
        Ok(Response::new(SchemaResult { schema: schema.await? }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> std::result::Result<Response<Self::DoGetStream>, Status> {
        let ticket = request.into_inner().ticket;
        let mapped = self.mapped;
        let sent = self.stream("DoGet".into(), move |files, sender| {
            let query = Query::parse(&ticket)?;
            tables::get(files, &query, mapped, sender)
        });
        let body = FrameBody::new(sent.await?);
        let mut response: Response<Self::DoGetStream> =
            Response::new(Box::pin(futures_util::stream::empty()));
        response.extensions_mut().insert(FrameBodySlot::new(body));
        Ok(response)
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoPutStream>, Status> {
        if !self.writable {
            return Err(Status::new(Code::PermissionDenied, "the server is read-only (see --writable)"));
        }
        let turn = Self::turn(&self.writers).await?;
        let sent = put::put(Arc::clone(&self.files), request.into_inner(), turn).await?;
        Ok(Response::new(answers(sent)))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoExchangeStream>, Status> {
        let mut messages = request.into_inner();
        let first = messages.message().await?;
        let descriptor = first.and_then(|first| first.flight_descriptor);
        let descriptor =
            descriptor.ok_or_else(|| Status::invalid_argument("the first message has no descriptor"))?;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        // The client ends the exchange by closing its own half.
        tokio::spawn(async move {
            while let Ok(Some(_)) = messages.message().await {}
            stop.send_replace(true);
        });
        let sent = self.stream("DoExchange".into(), move |files, sender| {
            follow::follow(files, &descriptor, sender, &stopped)
        });
        let body = FrameBody::new(sent.await?);
        let mut response: Response<Self::DoExchangeStream> =
            Response::new(Box::pin(futures_util::stream::empty()));
        response.extensions_mut().insert(FrameBodySlot::new(body));
        Ok(response)
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> std::result::Result<Response<Self::DoActionStream>, Status> {
        let action = request.into_inner();
        let done = self.stream("DoAction".into(), move |files, sender| {
            actions::run(files, &action.r#type, &action.body, &mut |body| sender.send(ActionResult { body }))
        });
        Ok(Response::new(answers(done.await?)))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> std::result::Result<Response<Self::ListActionsStream>, Status> {
        let known = actions::ACTIONS.map(|(name, description)| {
            Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() })
        });
        Ok(Response::new(Box::pin(futures_util::stream::iter(known))))
    }
}

/// Parses a JSON object, which may be empty.
pub(super) fn criteria(bytes: &[u8]) -> Result<serde_json::Map<String, serde_json::Value>> {
    query::object(if bytes.is_empty() { b"{}" } else { bytes })
}
