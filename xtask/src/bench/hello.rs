//! The baseline of reads: a bare JSON route on hyper, the framework that the server hands what is not plain to. One thread
//! on the server's core, and nothing is done.

use crate::load::{Plan, Run, SERVER_CPU, Traffic, closed, pin};
use crate::{Outcome, fail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[derive(Serialize)]
struct Hello {
    message: &'static str,
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = serde_json::to_vec(&Hello { message: "Hello, World!" }).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Drives it.
pub(super) fn measure(connections: usize, plan: Plan, traffic: &mut dyn Traffic) -> Outcome<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = std::thread::spawn(move || -> Outcome<()> {
        pin(SERVER_CPU)?;
        runtime.block_on(async {
            tokio::select! {
                served = serve(listener) => served,
                _ = stopped => Ok(()),
            }
        })
    });
    let run = closed(address, connections, plan, None, traffic);
    // A server that failed is gone already, and says so below.
    let _ = stop.send(());
    server.join().unwrap_or_else(|_| fail("the baseline of reads panicked"))?;
    run
}

async fn serve(listener: TcpListener) -> Outcome<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A connection ends when the load closes it.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::reads::Constant;
    use std::time::Duration;

    #[test]
    fn it_answers() {
        let plan = Plan { warm_up: Duration::ZERO, measure: Duration::from_millis(20) };
        let run = measure(2, plan, &mut Constant::get("/")).unwrap();
        assert!(run.answered > 0);
    }
}
