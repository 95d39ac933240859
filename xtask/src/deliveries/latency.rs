//! The time from the decision of an event until a consumer has it, at a steady rate of reserves.

use super::rates::{launch, ready_system, webhook, webhook_variables};
use super::system::{Kind, System};
use super::{Options, nats, receiver, stock};
use crate::bench::{HOT, TTL_SECONDS};
use crate::load::histogram;
use crate::load::http::{Reserves, sku};
use crate::load::open::open;
use crate::rng::Rng;
use crate::spawn::Server;
use crate::{Outcome, fail};
use hdrhistogram::Histogram;
use lapin::ConnectionProperties;
use lapin::message::DeliveryResult;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Reserves a second.
const PER_SECOND: u32 = 1_000;
const CONNECTIONS: usize = 64;
/// What is not measured at the beginning.
const WARM_UP: Duration = Duration::from_secs(2);
/// What may still be on its way at the end.
const TAIL: Duration = Duration::from_secs(2);

/// Times that a consumer has seen, in microseconds.
#[derive(Clone)]
struct Times {
    seen: Arc<Mutex<Histogram<u64>>>,
    counts: Arc<AtomicBool>,
}

impl Times {
    fn new() -> Outcome<Self> {
        Ok(Self { seen: Arc::new(Mutex::new(histogram()?)), counts: Arc::new(AtomicBool::new(false)) })
    }

    /// Records an event of a reserve.
    fn record(&self, event: &Value) {
        let is_reserve = event["type"] == "stockhold.reservation.created";
        let at = event["time"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        if let Some(at) = at.filter(|_| is_reserve && self.counts.load(Ordering::Relaxed)) {
            let micros = jiff::Timestamp::now().as_microsecond() - at.as_microsecond();
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            // The range of the histogram ends far above any time here.
            seen.record(u64::try_from(micros).unwrap_or(0).max(1)).ok();
        }
    }

    fn shown(&self, name: &str) -> Outcome<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_empty() {
            return fail(format!("{name}: no event came"));
        }
        let millis = |quantile| seen.value_at_quantile(quantile) as f64 / 1e3;
        Ok(format!(
            "| {name} | {} | {:.1} | {:.1} | {:.1} |",
            seen.len(),
            millis(0.5),
            millis(0.99),
            millis(1.0)
        ))
    }
}

/// Measures them.
pub(super) fn measure(options: &Options, folder: &Path, binary: &Path) -> Outcome<()> {
    println!(
        "\nFrom the decision to the consumer, at {PER_SECOND} reserves/s, in ms:\n\n| consumer | events | p50 | p99 | longest |\n|---|---:|---:|---:|---:|"
    );
    for kind in [Kind::Nats, Kind::Rabbitmq] {
        let here = folder.join(format!("latency-{}", kind.name()));
        std::fs::create_dir_all(&here)?;
        let system = ready_system(kind, &here, binary)?;
        let times = Times::new()?;
        let server = Server::start(&launch(binary, &here.join("data"), system.variables()))?;
        let takes = times.clone();
        if kind == Kind::Nats {
            nats::subscribe(&system.url, move |event| takes.record(event))?;
        } else {
            consume(&system, takes);
        }
        drive(options, &server, &times)?;
        server.stop()?;
        println!("{}", times.shown(kind.name())?);
    }
    let times = Times::new()?;
    let server = Server::start(&launch(binary, &folder.join("latency-webhook"), webhook_variables()))?;
    let takes = times.clone();
    let receiver = receiver::listen(move |event| takes.record(event))?;
    webhook(&server, &format!("http://{receiver}/"))?;
    drive(options, &server, &times)?;
    server.stop()?;
    println!("{}", times.shown("webhook")?);
    Ok(())
}

/// Reserves at a steady rate.
fn drive(options: &Options, server: &Server, times: &Times) -> Outcome<()> {
    stock(server.address, &sku(HOT, 0), 1_000_000_000)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(3));
            open(server.address, CONNECTIONS, PER_SECOND, &stop, &mut reserves)
        });
        std::thread::sleep(WARM_UP);
        times.counts.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(options.seconds));
        stop.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| fail("the steady load panicked"))
    })?;
    std::thread::sleep(TAIL);
    Ok(())
}

/// Takes events out of the queue on a thread of its own, until the connection ends.
fn consume(system: &System, times: Times) {
    let url = system.url.clone();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let consumed: Outcome<()> = runtime.block_on(async {
            let connection = lapin::Connection::connect(&url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            channel.basic_qos(1_000, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let consumer =
                channel.basic_consume("all".into(), "latency".into(), options, FieldTable::default()).await?;
            consumer.set_delegate(move |delivery: DeliveryResult| {
                let event =
                    delivery.ok().flatten().and_then(|delivery| serde_json::from_slice(&delivery.data).ok());
                if let Some(event) = event {
                    times.record(&event);
                }
                std::future::ready(())
            });
            std::future::pending::<()>().await;
            Ok(())
        });
        if let Err(error) = consumed {
            println!("the consumer of RabbitMQ: {error}");
        }
    });
}
