//! gRPC on the API's port, over TLS: the protocol is negotiated.

use super::caller::Caller;
use crate::support::free_port;
use crate::tls_support::TlsServer;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;
use tonic::Code;
use tonic::transport::{Endpoint, Uri};
use tower_service::Service;

/// Makes connections to a listener, with HTTP/2 negotiated.
#[derive(Clone)]
struct Connector(Arc<TlsServer>, SocketAddr);

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (server, address) = (Arc::clone(&self.0), self.1);
        Box::pin(async move {
            let config = server.client_config(rustls::ALL_VERSIONS, None, &["h2"]);
            Ok(TokioIo::new(server.handshake_at(address, &config).await?))
        })
    }
}

async fn caller(server: &Arc<TlsServer>, address: SocketAddr) -> Caller {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let connector = Connector(Arc::clone(server), address);
    Caller::on(endpoint.connect_with_connector(connector).await.unwrap())
}

#[tokio::test]
async fn the_port_of_the_api_takes_calls_and_requests_over_tls() {
    let server = Arc::new(TlsServer::start());
    let caller = caller(&server, server.server.address()).await;
    caller.call("SetStock", json!({ "sku": "tea", "total_units": 2 })).await.unwrap();
    let beyond = json!({ "owner_id": "o", "lines": [{ "sku": "tea", "quantity": 3 }] });
    assert_eq!(caller.call("Reserve", beyond).await.unwrap_err().code(), Code::FailedPrecondition);
    let mut http = server.client().await;
    let (status, _, body) = http.ask("GET", "/v1/inventory/tea", &[], None).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

#[tokio::test]
async fn the_listener_of_grpc_speaks_tls_too_and_that_of_a_profile_takes_no_calls() {
    let [grpc, hub] = [free_port(), free_port()];
    let flags = [format!("--grpc-listen=127.0.0.1:{grpc}"), format!("--hub-listen=127.0.0.1:{hub}")];
    let server = Arc::new(TlsServer::with_flags(None, &flags));
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let caller_of_grpc = caller(&server, at(grpc)).await;
    caller_of_grpc.call("ListItems", json!({})).await.unwrap();
    let caller_of_hub = caller(&server, at(hub)).await;
    let status = caller_of_hub.call("ListItems", json!({})).await.unwrap_err();
    assert!(status.message().contains("404 Not Found"), "{status:?}");
}
