//! The first stage of each request: the token check, the limit on the size of requests, the log.

use super::Log;
use super::frames::FrameBodySlot;
use super::listen::Peer;
use super::service::Flight;
use crate::flight::token::Token;
use arrow_flight::flight_service_server::FlightServiceServer;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};

/// The service with the token check in front.
#[derive(Clone)]
pub(super) struct Front {
    /// For all methods except DoPut: their requests are small.
    pub(super) small: FlightServiceServer<Flight>,
    /// For DoPut, whose messages contain data.
    pub(super) large: FlightServiceServer<Flight>,
    pub(super) token: Option<Arc<Token>>,
    pub(super) log: Option<Log>,
}

impl Front {
    fn is_allowed(&self, headers: &http::HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let mut given = headers.get_all(http::header::AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(header), None) => token.is_in(header.as_bytes()),
            _ => false,
        }
    }
}

impl Service<http::Request<Body>> for Front {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.small, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let started = Instant::now();
        let logged = self.log.clone().map(|log| (log, describe_request(&request)));
        if !self.is_allowed(request.headers()) {
            if let Some((log, description)) = logged {
                log(&format!("{description} refused: no token, or a wrong one"));
            }
            let refused = Status::unauthenticated("the token is missing or wrong").into_http();
            return Box::pin(async { Ok(refused) });
        }
        if let Some(peer) = Peer::of(request.extensions()) {
            peer.state.allow();
        }
        let takes_data = request.uri().path().ends_with("/DoPut");
        let answer = if takes_data { self.large.call(request) } else { self.small.call(request) };
        Box::pin(async move {
            // In a task of its own, so that a panic becomes a response; aborted with this one.
            let mut task = JoinSet::new();
            task.spawn(answer);
            let mut response = match task.join_next().await {
                Some(Ok(Ok(response))) => response,
                _ => Status::internal("the request failed in an unknown way").into_http(),
            };
            if let Some(body) =
                response.extensions_mut().remove::<FrameBodySlot>().and_then(|carried| carried.take())
            {
                *response.body_mut() = Body::new(body);
            }
            if let Some((log, description)) = logged {
                let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
                let millis = started.elapsed().as_secs_f64() * 1e3;
                log(&format!("{description} status {} after {millis:.1} ms", status.unwrap_or("0")));
            }
            Ok(response)
        })
    }
}

/// Returns the client and the method, for the log.
fn describe_request(request: &http::Request<Body>) -> String {
    let peer = Peer::of(request.extensions()).and_then(|peer| peer.address);
    let method = request.uri().path().rsplit('/').next().unwrap_or_default();
    let peer = peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string());
    format!("{peer} {}", method.escape_debug())
}
