//! gRPC on the API's port, over TLS: the protocol is negotiated.

use super::caller::Caller;
use crate::tls_support::TlsServer;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;
use tonic::Code;
use tonic::transport::{Endpoint, Uri};
use tower_service::Service;

/// Makes connections with HTTP/2 negotiated.
#[derive(Clone)]
struct Connector(Arc<TlsServer>);

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            let config = server.client_config(rustls::ALL_VERSIONS, None, &["h2"]);
            Ok(TokioIo::new(server.handshake(&config).await?))
        })
    }
}

#[tokio::test]
async fn the_port_of_the_api_takes_calls_and_requests_over_tls() {
    let server = Arc::new(TlsServer::start());
    let endpoint = Endpoint::from_shared(server.url().replace("https", "http")).unwrap();
    let channel = endpoint.connect_with_connector(Connector(Arc::clone(&server))).await.unwrap();
    let caller = Caller::on(channel);
    caller.call("SetStock", json!({ "sku": "tea", "total_units": 2 })).await.unwrap();
    let beyond = json!({ "owner_id": "o", "lines": [{ "sku": "tea", "quantity": 3 }] });
    assert_eq!(caller.call("Reserve", beyond).await.unwrap_err().code(), Code::FailedPrecondition);
    let mut http = server.client().await;
    let (status, _, body) = http.ask("GET", "/v1/inventory/tea", &[], None).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}
