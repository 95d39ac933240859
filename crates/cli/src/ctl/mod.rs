//! `stockhold ctl`: a server's commands and lists from a shell. Every command is one request to the HTTP API. The answer goes to
//! standard output, everything else to standard error.

mod changes;
mod checkouts;
mod customers;
mod events;
mod gate;
mod keys;
mod limits;
mod notify;
mod pools;
mod reconcile;
mod requests;
mod show;
mod sinks;
mod stock;
mod units;
mod webhooks;

pub(super) use keys::{KeysArgs, run as run_keys};

use super::client::{CallError, RetryClient};
use super::server::{self, ServerArgs};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use stockhold_api::client::Raw;
use stockhold_config::exit;

#[derive(Args)]
#[command(arg_required_else_help = true)]
pub(super) struct CtlArgs {
    #[command(flatten)]
    call: CallArgs,
    #[command(subcommand)]
    command: CtlCommand,
}

/// Which server a command asks, and how its answer is shown.
#[derive(Args)]
struct CallArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print the server's answer as JSON. If the server refuses, print the problem
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    /// How long to wait for a server that does not answer
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        global = true,
        help_heading = "Global options"
    )]
    patience: u64,
}

#[derive(Subcommand)]
enum CtlCommand {
    /// Hold units for an owner until they are confirmed or released, or the hold expires
    ///
    ///   stockhold ctl reserve shirt --quantity 2 --owner cart-1 --ttl 600
    ///   stockhold ctl reserve --line shirt=2 --line mug --owner cart-1 --partial
    ///   stockhold ctl reserve concert --quantity 4 --owner cart-1 --adjacent --section stalls
    #[command(verbatim_doc_comment)]
    Reserve(Box<requests::ReserveArgs>),
    /// Turn a hold into a sale
    ///
    ///   stockhold ctl confirm 0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e --order order-1
    #[command(verbatim_doc_comment)]
    Confirm(changes::ConfirmArgs),
    /// Release a hold: its units can be sold again
    Release(changes::ReleaseArgs),
    /// Move a hold's deadline to this many seconds from now, within the longest hold of its items
    Extend(changes::ExtendArgs),
    /// Change a hold: all lines that it has afterwards, its deadline, your own data
    ///
    ///   stockhold ctl amend RESERVATION --line shirt=1 --line mug=2
    ///   stockhold ctl amend RESERVATION --unit concert=A-12 --unit concert=A-13 --if-version 3
    #[command(verbatim_doc_comment)]
    Amend(changes::AmendArgs),
    /// Give a hold to another owner, customer or session
    ///
    ///   stockhold ctl transfer RESERVATION --customer customer-41 --unset session
    #[command(verbatim_doc_comment)]
    Transfer(changes::TransferArgs),
    /// Move units of a hold into a new one with the same deadline
    ///
    ///   stockhold ctl split RESERVATION --line shirt=1
    #[command(verbatim_doc_comment)]
    Split(changes::SplitArgs),
    /// Add the lines of other holds to a hold. The others end
    ///
    ///   stockhold ctl merge RESERVATION OTHER
    #[command(verbatim_doc_comment)]
    Merge(changes::MergeArgs),
    /// Keep a hold while its payment is under way
    ///
    ///   stockhold ctl open-payment RESERVATION --payment payment-55 --window 900
    #[command(verbatim_doc_comment)]
    OpenPayment(changes::OpenPaymentArgs),
    /// Close the payment window of a hold: the payment was declined or given up
    ClosePayment(changes::ClosePaymentArgs),
    /// Take the payment of a hold with a payment provider, show it, and give it up
    #[command(subcommand)]
    Checkout(checkouts::CheckoutCommand),
    /// Give back money of a reservation that was paid by a checkout: an amount, what units cost, or all that is left
    ///
    ///   stockhold ctl refund RESERVATION --reason broken --line shirt=1
    ///   stockhold ctl refund RESERVATION --reason late --amount 500
    ///   stockhold ctl refund RESERVATION --retry
    #[command(verbatim_doc_comment)]
    Refund(checkouts::RefundArgs),
    /// List and show orders: what reservations became by a checkout
    #[command(subcommand)]
    Orders(checkouts::OrdersCommand),
    /// Store, show and erase personal data of customers, and rotate its keys
    #[command(subcommand)]
    Customers(customers::CustomersCommand),
    /// Record that sold units have left the shelf: all of a reservation, or those of --line or --unit
    ///
    ///   stockhold ctl fulfil RESERVATION --line shirt=1
    #[command(verbatim_doc_comment)]
    Fulfil(changes::FulfilArgs),
    /// Return sold units to the stock: all of a reservation, or those of --line or --unit
    ///
    ///   stockhold ctl return RESERVATION --reason broken --line shirt=1
    ///   stockhold ctl return RESERVATION --reason ill --unit A-12
    ///   stockhold ctl return RESERVATION --reason broken --from fulfilled --write-off
    #[command(verbatim_doc_comment)]
    Return(changes::ReturnArgs),
    /// Show a reservation
    Get(requests::GetArgs),
    /// List reservations, the newest first
    ///
    ///   stockhold ctl list --owner cart-1 --status active
    ///   stockhold ctl list --order order-1
    ///   stockhold ctl list --created-after 2026-11-24T00:00:00Z --created-before 2026-11-25T00:00:00Z
    #[command(verbatim_doc_comment)]
    List(requests::ListArgs),
    /// Set, adjust, delete, show and list stock
    #[command(subcommand)]
    Stock(StockCommand),
    /// Add, list, show, draw and retire units with ids: seats, slots, serial numbers
    #[command(subcommand)]
    Units(units::UnitsCommand),
    /// Set units of an item aside in pools, list the pools, and delete them
    #[command(subcommand)]
    Pools(pools::PoolsCommand),
    /// Show how many units of some SKUs can be reserved
    Available(requests::AvailableArgs),
    /// Ask what a reserve would cost
    Quote(requests::QuoteArgs),
    /// Stop selling an item, a location or everything. Holds can still be confirmed
    ///
    ///   stockhold ctl pause shirt --reason "wrong price"
    ///   stockhold ctl pause --location hub-7
    ///   stockhold ctl pause --everything
    #[command(verbatim_doc_comment)]
    Pause(requests::PauseArgs),
    /// Resume the sale of an item, a location or everything
    Resume(requests::PauseArgs),
    /// Show which sales are paused: everything, or single locations. `stock get` shows the pause of an item
    ///
    ///   stockhold ctl sale
    ///   stockhold ctl sale --location hub-7
    #[command(verbatim_doc_comment)]
    Sale(requests::SaleStatusArgs),
    /// Set, list, show and delete limits: how many units a customer, an owner, a channel or all together may have
    #[command(subcommand)]
    Limits(limits::LimitsCommand),
    /// The Redis server in front of the store: show it, or write its counters anew
    #[command(subcommand)]
    Gate(gate::GateCommand),
    /// The systems that events are delivered to: list them, have one skip an event or get events again
    #[command(subcommand)]
    Sinks(sinks::SinksCommand),
    /// Compare stock with the system that owns it, or show the last comparisons
    ///
    ///   stockhold ctl reconcile erp --dry-run
    ///   stockhold ctl reconcile --last
    #[command(verbatim_doc_comment)]
    Reconcile(reconcile::ReconcileArgs),
    /// The endpoints that events are sent to: create, list, test and repair them
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    /// Mail and push messages to buyers: show them before anybody gets them
    #[command(subcommand)]
    Notify(notify::NotifyCommand),
    /// Show the newest events, or follow events as they happen
    ///
    ///   stockhold ctl events --reservation 0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e
    ///   stockhold ctl events --limit 3
    ///   stockhold ctl events --after 1000 --limit 50
    ///   stockhold ctl events --type reservation.confirmed,reservation.returned --tail 20
    ///   stockhold ctl events --follow --json
    #[command(verbatim_doc_comment)]
    Events(events::EventsArgs),
}

#[derive(Subcommand)]
enum StockCommand {
    /// Create an item, or change the given settings of an item
    ///
    ///   stockhold ctl stock set shirt --total 100 --safety-stock 5
    ///   stockhold ctl stock set shirt --unset default-ttl
    ///   stockhold ctl stock set concert --mode units
    ///   stockhold ctl stock set shirt --on-hand 97 --fulfilled-units-seen 3
    #[command(verbatim_doc_comment)]
    Set(Box<stock::SetStockArgs>),
    /// Change an item's total by a difference: deliveries up, losses down
    ///
    ///   stockhold ctl stock adjust shirt 24 --reason "delivery 4711"
    ///   stockhold ctl stock adjust shirt -3 --reason broken
    #[command(verbatim_doc_comment)]
    Adjust(stock::AdjustStockArgs),
    /// Delete an item that has no sales, no holds and no units with ids
    ///
    ///   stockhold ctl stock delete shrit
    #[command(verbatim_doc_comment)]
    Delete(stock::DeleteItemArgs),
    /// Show an item
    Get(stock::GetItemArgs),
    /// List items in order of location and SKU
    List(stock::ListItemsArgs),
}

/// Says what is wrong with an answer.
type CheckAnswer = fn(&Value) -> Result<(), String>;

/// A request, and how its answer is shown.
pub(super) struct ApiRequest {
    method: &'static str,
    path: String,
    body: Option<Value>,
    if_match: Option<u64>,
    key: Option<String>,
    show: fn(&Value) -> String,
    /// What is wrong with an answer that lacks what the command was run for.
    check: Option<CheckAnswer>,
}

impl ApiRequest {
    fn get(path: String, show: fn(&Value) -> String) -> Self {
        Self { method: "GET", path, body: None, if_match: None, key: None, show, check: None }
    }

    fn post(path: String, body: Value, show: fn(&Value) -> String) -> Self {
        Self { method: "POST", path, body: Some(body), if_match: None, key: None, show, check: None }
    }

    /// Adds the caller's idempotency key, or a new one.
    fn keyed(mut self, key: Option<&String>) -> Result<Self, String> {
        let key = match key {
            Some(key) => key.clone(),
            None => fresh_key()?,
        };
        if let Some(Value::Object(body)) = &mut self.body {
            body.insert("idempotency_key".to_owned(), json!(key));
        }
        self.key = Some(key);
        Ok(self)
    }
}

/// A new idempotency key with 128 random bits.
fn fresh_key() -> Result<String, String> {
    let ids = stockhold_store::ids::IdSource::from_system();
    let mut ids = ids.map_err(|error| format!("no random numbers for an idempotency key: {error}"))?;
    Ok(format!("ctl-{:032x}", ids.random()))
}

/// Runs one command.
pub(super) fn run(args: &CtlArgs) -> ExitCode {
    if let CtlCommand::Events(events) = &args.command {
        return match args.call.connect() {
            Ok((url, caller)) => server::block_on(events.run(&url, &caller, args.call.json)),
            Err(code) => code,
        };
    }
    if let CtlCommand::Notify(notify) = &args.command {
        return notify.run();
    }
    if let CtlCommand::Customers(customers::CustomersCommand::Rewrap) = &args.command {
        return customers::rewrap(&args.call);
    }
    args.call.ask(args.command.request())
}

impl CallArgs {
    /// The server's address and the client of a command.
    fn connect(&self) -> Result<(String, RetryClient), ExitCode> {
        let url = self.server.url().map_err(|why| exit::because(exit::USAGE, why))?;
        let tell = Box::new(|what: &str| eprintln!("stockhold: {what}"));
        let caller = RetryClient::new(&url, self.server.plain_http, Duration::from_secs(self.patience), tell);
        let caller = caller.map_err(|why| exit::because(exit::USAGE, why))?;
        Ok((url, caller))
    }

    /// Sends the request of a command and shows its answer.
    fn ask(&self, request: Result<ApiRequest, String>) -> ExitCode {
        let (url, caller) = match self.connect() {
            Ok(connected) => connected,
            Err(code) => return code,
        };
        match request {
            Ok(request) => server::block_on(ask(self.json, &url, &caller, request)),
            Err(why) => exit::because(exit::USAGE, why),
        }
    }
}

/// Sends a request and shows its answer.
async fn ask(json: bool, url: &str, caller: &RetryClient, request: ApiRequest) -> ExitCode {
    if let Some(key) = &request.key {
        eprintln!("idempotency key: {key}");
    }
    match send(caller, &request).await {
        Ok(raw) => show_answer(json, &request, &raw),
        Err(failed) => {
            if json && let CallError::Refused(problem) = &failed {
                println!("{}", server::problem_json(problem));
            }
            let mut why = server::explain(url, &failed);
            match (&failed, &request.key) {
                (CallError::TimedOut { nothing_done: true, .. }, _) => {
                    why.push_str("\nNothing was done.");
                }
                (CallError::TimedOut { .. }, Some(key)) => {
                    why.push_str("\nThe command may have taken effect. Repeat it with --key ");
                    why.push_str(key);
                    why.push_str(": it takes effect once.");
                }
                _ => {}
            }
            exit::because(server::exit_code(&failed), why)
        }
    }
}

fn show_answer(json: bool, request: &ApiRequest, raw: &Raw) -> ExitCode {
    if raw.headers.contains_key("idempotent-replayed") {
        eprintln!("this key was used before: this is the earlier answer, and nothing new was done");
    }
    if json {
        let body = if raw.body.is_empty() { "{}".into() } else { String::from_utf8_lossy(&raw.body) };
        println!("{body}");
        return ExitCode::from(exit::DONE);
    }
    let value = if raw.body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&raw.body) };
    match value {
        Ok(value) => {
            print!("{}", (request.show)(&value));
            match request.check.map_or(Ok(()), |check| check(&value)) {
                Ok(()) => ExitCode::from(exit::DONE),
                Err(why) => exit::because(exit::FAILED, why),
            }
        }
        Err(error) => exit::because(exit::FAILED, format!("the answer is not JSON: {error}")),
    }
}

async fn send(caller: &RetryClient, request: &ApiRequest) -> Result<Raw, CallError> {
    let body = match &request.body {
        Some(body) => body.to_string(),
        None => String::new(),
    };
    let tag = request.if_match.map(stockhold_api::encode::etag);
    // A request with a body has its key there.
    let key = request.key.as_ref().filter(|_| request.body.is_none());
    let key = key.map(|key| format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")));
    let tag = tag.iter().map(|tag| ("if-match", tag.as_str()));
    let headers: Vec<(&str, &str)> =
        tag.chain(key.iter().map(|key| ("idempotency-key", key.as_str()))).collect();
    caller.send_with(request.method, &request.path, &headers, body.as_bytes()).await
}

impl CtlCommand {
    fn request(&self) -> Result<ApiRequest, String> {
        match self {
            Self::Reserve(ask) => ask.request(),
            Self::Confirm(ask) => ask.request(),
            Self::Release(ask) => Ok(ask.request()),
            Self::Extend(ask) => ask.request(),
            Self::Amend(ask) => ask.request(),
            Self::Transfer(ask) => ask.request(),
            Self::Split(ask) => ask.request(),
            Self::Merge(ask) => ask.request(),
            Self::OpenPayment(ask) => ask.request(),
            Self::ClosePayment(ask) => Ok(ask.request()),
            Self::Checkout(ask) => ask.request(),
            Self::Refund(ask) => ask.request(),
            Self::Orders(ask) => Ok(ask.request()),
            Self::Customers(ask) => ask.request(),
            Self::Fulfil(ask) => ask.request(),
            Self::Return(ask) => ask.request(),
            Self::Get(ask) => Ok(ask.request()),
            Self::List(ask) => Ok(ask.request()),
            Self::Stock(StockCommand::Set(ask)) => ask.request(),
            Self::Stock(StockCommand::Adjust(ask)) => ask.request(),
            Self::Stock(StockCommand::Delete(ask)) => ask.request(),
            Self::Stock(StockCommand::Get(ask)) => Ok(ask.request()),
            Self::Stock(StockCommand::List(ask)) => Ok(ask.request()),
            Self::Units(ask) => ask.request(),
            Self::Pools(ask) => Ok(ask.request()),
            Self::Available(ask) => Ok(ask.request()),
            Self::Quote(ask) => Ok(ask.request()),
            Self::Pause(ask) => ask.request(true),
            Self::Resume(ask) => ask.request(false),
            Self::Sale(ask) => Ok(ask.request()),
            Self::Limits(ask) => ask.request(),
            Self::Gate(ask) => Ok(ask.request()),
            Self::Sinks(ask) => Ok(ask.request()),
            Self::Reconcile(ask) => Ok(ask.request()),
            Self::Webhooks(ask) => Ok(ask.request()),
            Self::Notify(_) => Err("a preview is no request".to_owned()),
            Self::Events(_) => Err("events are not a single request".to_owned()),
        }
    }
}
