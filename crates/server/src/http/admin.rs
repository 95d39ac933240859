//! The admin listener: is it alive, is it ready, what does it count. On the main runtime, so that it answers while the
//! workers are busy.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_embedded::EmbeddedStore;
use stockhold_store::Store;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Admin connections that are open at once.
const CONNECTIONS: usize = 64;
/// Longest wait for a request's headers, and longest rest between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often histograms are tidied up.
const UPKEEP: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) draining: Arc<AtomicBool>,
}

impl Admin {
    /// Serves until dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let upkeep = self.metrics.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "an admin connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let admin = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let response = admin.answer(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "an admin connection ended early");
                }
                drop(permit);
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let known = ["/livez", "/readyz", "/startupz", "/metrics"].contains(&request.uri().path());
        if known && *request.method() != Method::GET && *request.method() != Method::HEAD {
            let mut response =
                text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are possible here\n".to_owned());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/livez" | "/startupz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match self.not_ready() {
                None => text(StatusCode::OK, "ready\n".to_owned()),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            },
            "/metrics" => text(StatusCode::OK, self.scrape()),
            _ => text(StatusCode::NOT_FOUND, "here are /livez, /readyz, /startupz and /metrics\n".to_owned()),
        }
    }

    fn not_ready(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("the server is stopping".to_owned());
        }
        self.store.trouble()
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges")]
    fn scrape(&self) -> String {
        metrics::gauge!("stockhold_active_holds").set(self.store.active_holds() as f64);
        metrics::gauge!("stockhold_queue_depth").set(self.store.queue_len() as f64);
        self.metrics.render()
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
