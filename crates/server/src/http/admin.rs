//! The admin listener: liveness, the progress of the start, readiness and metrics. It answers while the store is opened. It runs on
//! the main runtime, so it answers while the workers are busy.

use super::admission::bounds::ADMIN_CONNECTIONS;
use super::admission::connections::Connections;
use super::metrics::WorkerGauges;
use super::page_headers::{HTML, page_headers};
use super::process_metrics;
use super::worker::http_date;
use crate::access::Access;
use crate::backend::Backend;
use crate::clock_watch::ClockWatch;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, DATE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use stockhold_api::problem::{self, ADMIN_PATHS, Problem, Reason, page_html};
use stockhold_domain::{EventId, RequestId};
use stockhold_store::clock::{Clock, WallClock};
use stockhold_store::ids::IdSource;
use stockhold_store::{StartProgress, StartStatus};
use tokio::net::TcpListener;

/// Longest wait for a request's headers, and longest rest between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// The exposition format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often old samples of histograms are dropped.
const UPKEEP: Duration = Duration::from_secs(5);

/// The admin listener.
#[derive(Clone)]
pub(crate) struct Admin {
    metrics: PrometheusHandle,
    ids: Arc<Mutex<IdSource>>,
    progress: StartProgress,
    access: Arc<Access>,
    /// Empty until the start has ended.
    started: Arc<OnceLock<StartedServer>>,
}

/// What there is once the start has ended.
struct StartedServer {
    store: Backend,
    /// Of the embedded store.
    clocks: Option<Arc<ClockWatch>>,
    gauges: WorkerGauges,
}

impl Admin {
    pub(crate) fn new(
        metrics: PrometheusHandle,
        progress: StartProgress,
        access: Arc<Access>,
    ) -> io::Result<Self> {
        let ids = IdSource::from_system().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { metrics, ids: Arc::new(Mutex::new(ids)), progress, access, started: Arc::default() })
    }

    /// The store is open and the workers take requests.
    pub(crate) fn start_ended(&self, store: Backend, clocks: Option<Arc<ClockWatch>>, gauges: WorkerGauges) {
        // A start ends once.
        let _ = self.started.set(StartedServer { store, clocks, gauges });
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let upkeep = self.metrics.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        let connections = Connections::new(ADMIN_CONNECTIONS);
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "an admin connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // Without a place for it, the connection is closed.
            let Some(place) = connections.admit(self.access.counted_network(address.ip())) else { continue };
            let (admin, place) = (self.clone(), Arc::new(place));
            let served = Arc::clone(&place);
            let task = tokio::spawn(async move {
                let service = service_fn(|request| {
                    // It is never in use for long, also if its client does not read.
                    served.rest(Instant::now());
                    let mut response = admin.answer(&request);
                    if let Ok(date) = HeaderValue::try_from(http_date(WallClock.now())) {
                        response.headers_mut().insert(DATE, date);
                    }
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "an admin connection ended early");
                }
            });
            place.served_by(task.abort_handle());
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let page = path.strip_prefix("/problems/").and_then(Reason::from_name);
        if !ADMIN_PATHS.contains(&path) && page.is_none() {
            return self.problem(&Problem::unknown_admin_route(path));
        }
        if *request.method() != Method::GET && *request.method() != Method::HEAD {
            let allow = "GET, HEAD";
            let mut response = self.problem(&Problem::method_not_allowed(request.method().as_str(), allow));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
            return response;
        }
        match (page, path) {
            (Some(reason), _) => {
                let mut page = body(StatusCode::OK, HTML, page_html(reason));
                for (name, value) in page_headers(HTML) {
                    if let Ok(value) = HeaderValue::from_str(&value) {
                        page.headers_mut().insert(name, value);
                    }
                }
                page
            }
            (None, "/readyz") => self.readiness(),
            (None, "/startupz") => self.startup(),
            (None, "/metrics") => body(StatusCode::OK, METRICS, self.scrape()),
            (None, _) => body(StatusCode::OK, TEXT, "ok\n"),
        }
    }

    fn problem(&self, problem: &Problem) -> Response<Full<Bytes>> {
        let random = self.ids.lock().unwrap_or_else(PoisonError::into_inner).random();
        let request_id = RequestId::Made(EventId::new(WallClock.now(), random).as_u128());
        let mut json = Vec::new();
        problem.write(&mut json, &request_id);
        let status = StatusCode::from_u16(problem.reason().status()).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = body(status, problem::CONTENT_TYPE, json);
        if let Ok(request_id) = HeaderValue::try_from(request_id.to_string()) {
            response.headers_mut().insert("x-request-id", request_id);
        }
        response
    }

    fn readiness(&self) -> Response<Full<Bytes>> {
        let not_ready =
            |why: &str| body(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {why}\n"));
        let Some(StartedServer { store, clocks, gauges }) = self.started.get() else {
            return not_ready("the server is starting; /startupz says how far it is");
        };
        if gauges.draining() {
            return not_ready("the server is stopping");
        }
        if let Some(why) = store.fatal_error() {
            return not_ready(&why);
        }
        let clocks = clocks.as_ref().and_then(|clocks| clocks.text());
        let texts: Vec<_> = store.store().degraded_reason().into_iter().chain(clocks).collect();
        let text = if texts.is_empty() {
            "ready\n".to_owned()
        } else {
            format!("ready, but {}\n", texts.join("; "))
        };
        body(StatusCode::OK, TEXT, text)
    }

    fn startup(&self) -> Response<Full<Bytes>> {
        if self.started.get().is_some() {
            return body(StatusCode::OK, JSON, json!({ "started": true }).to_string());
        }
        let StartStatus { step, done, total } = self.progress.status();
        let mut status = json!({ "started": false, "step": step.name(), "done": done });
        if let Some(total) = total {
            status["total"] = total.into();
        }
        body(StatusCode::SERVICE_UNAVAILABLE, JSON, status.to_string())
    }

    fn scrape(&self) -> String {
        if let Some(StartedServer { store, clocks, gauges }) = self.started.get() {
            store.gauge();
            if let Some(clocks) = clocks {
                clocks.gauge();
            }
            gauges.set();
        }
        process_metrics::set();
        self.metrics.render()
    }
}

fn body(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
