//! Measures what a call costs the server over gRPC and over HTTP: processor time for each reserve, from the server's own metrics. So
//! the load may be slower than the server. Start a release build on one core, and run this on another one:
//!
//! ```text
//! taskset -c 0 stockhold serve --threads 1 --grpc-listen 127.0.0.1:8113
//! taskset -c 1 cargo run --release -p stockhold-grpc-client --example measure
//! ```

use std::error::Error;
use std::time::{Duration, Instant};
use stockhold_api::client::{At, Client};
use stockhold_api::wire::{Stock, Terms};
use stockhold_grpc_client::v1::command_request::Command;
use stockhold_grpc_client::v1::reservations_client::ReservationsClient;
use stockhold_grpc_client::v1::{CommandRequest, LineRequest, ReserveRequest};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

type Outcome<T> = Result<T, Box<dyn Error>>;

const API: &str = "http://127.0.0.1:8101";
const ADMIN: &str = "http://127.0.0.1:8102";
const GRPC: &str = "http://127.0.0.1:8113";
const SKU: &str = "measured";
const CALLERS: usize = 64;
/// Callers that send batches, or have a stream.
const STREAMS: usize = 4;
/// Commands of one batch: as many as a stream executes together at most.
const COMMANDS: usize = 256;
const TTL_SECONDS: u32 = 600;
const ROUNDS: usize = 5;
const MEASURE: Duration = Duration::from_secs(3);

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stock = Stock { total_units: Some(1_000_000_000), ..Stock::default() };
        Client::new(API)?.put_stock(At { sku: SKU, location: None }, &stock, None).await?;
        println!("microseconds of the server's processor for each reserve");
        for _ in 0..ROUNDS {
            let (http, grpc) = (measure(over_http).await?, measure(over_grpc).await?);
            let (batch, stream) = (measure(in_batches).await?, measure(in_a_stream).await?);
            println!(
                "HTTP {http:.1}, gRPC {grpc:.1}, ratio of rates {:.2}; batches {batch:.1}, stream {stream:.1}, ratio of rates {:.2}",
                http / grpc,
                batch / stream
            );
        }
        Ok(())
    })
}

/// Processor time of the server for each reserve, in microseconds.
async fn measure<F: Future<Output = Outcome<u32>> + 'static>(
    caller: impl Fn(usize, Instant) -> F,
) -> Outcome<f64> {
    let (before, ends) = (cpu_seconds().await?, Instant::now() + MEASURE);
    let callers = LocalSet::new();
    let running: Vec<_> = (0..CALLERS).map(|number| callers.spawn_local(caller(number, ends))).collect();
    callers.await;
    let mut made = 0;
    for caller in running {
        made += caller.await??;
    }
    Ok((cpu_seconds().await? - before) * 1e6 / f64::from(made))
}

async fn cpu_seconds() -> Outcome<f64> {
    let metrics = Client::new(ADMIN)?.send_raw("GET", "/metrics", b"").await?;
    let metrics = String::from_utf8(metrics.body.to_vec())?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
    Ok(line.ok_or("the server tells no processor time")?.trim().parse()?)
}

async fn over_http(number: usize, ends: Instant) -> Outcome<u32> {
    let client = Client::new(API)?;
    let terms =
        Terms { owner_id: format!("cart-{number}"), ttl_seconds: Some(TTL_SECONDS), ..Terms::default() };
    let mut made = 0;
    while Instant::now() < ends {
        client.reserve(At { sku: SKU, location: None }, 1, &terms, None).await?;
        made += 1;
    }
    Ok(made)
}

async fn over_grpc(number: usize, ends: Instant) -> Outcome<u32> {
    let mut client = ReservationsClient::new(Channel::from_static(GRPC).connect().await?);
    let mut made = 0;
    while Instant::now() < ends {
        // The client of HTTP sends a key too.
        client.reserve(reserve(number, Some(format!("{number}-{made}-{ends:?}")))).await?;
        made += 1;
    }
    Ok(made)
}

async fn in_batches(number: usize, ends: Instant) -> Outcome<u32> {
    if number >= STREAMS {
        return Ok(0);
    }
    let client = Client::new(API)?;
    let command = format!(
        r#"{{"op":"reserve","owner_id":"cart-{number}","ttl_seconds":{TTL_SECONDS},"lines":[{{"sku":"{SKU}"}}]}}"#
    );
    let body = format!(r#"{{"commands":[{}]}}"#, vec![command; COMMANDS].join(","));
    let mut made = 0;
    while Instant::now() < ends {
        let answer = client.send_raw("POST", "/v1/commands", body.as_bytes()).await?;
        if answer.status != 200 {
            return Err(format!("a batch was answered with {}", answer.status).into());
        }
        made += u32::try_from(COMMANDS)?;
    }
    Ok(made)
}

async fn in_a_stream(number: usize, ends: Instant) -> Outcome<u32> {
    if number >= STREAMS {
        return Ok(0);
    }
    let mut client = ReservationsClient::new(Channel::from_static(GRPC).connect().await?);
    let (sender, commands) = mpsc::channel(COMMANDS);
    let sent = tokio::task::spawn_local(async move {
        while Instant::now() < ends {
            let command = CommandRequest { command: Some(Command::Reserve(reserve(number, None))) };
            if sender.send(command).await.is_err() {
                return;
            }
        }
    });
    let mut results = client.commands(ReceiverStream::new(commands)).await?.into_inner();
    let mut made = 0;
    while results.message().await?.is_some() {
        made += 1;
    }
    sent.await?;
    Ok(made)
}

fn reserve(number: usize, idempotency_key: Option<String>) -> ReserveRequest {
    ReserveRequest {
        owner_id: format!("cart-{number}"),
        ttl_seconds: Some(TTL_SECONDS.into()),
        lines: vec![LineRequest { sku: SKU.to_owned(), ..LineRequest::default() }],
        idempotency_key,
        ..ReserveRequest::default()
    }
}
