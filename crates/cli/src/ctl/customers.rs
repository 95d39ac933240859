//! `stockhold ctl customers`: personal data of customers, and the keys that it is encrypted with.
//!
//! Personal data is read from a file or from standard input, and never from the command line, which others on the machine can see.

use super::{ApiRequest, CallArgs, show};
use crate::client::{RetryClient, encoded, push_query};
use crate::plural::counted;
use crate::server;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use stockhold_config::exit;

/// The path of the customers.
const CUSTOMERS: &str = "/v1/customers";
/// The path at which the keys of customers are wrapped again.
const REWRAP: &str = "/v1/customer-keys/rewrap";
/// Customers of one request of a rewrap.
const REWRAPPED_AT_ONCE: &str = "100";
/// Customers that can't be read, of those that an error names.
const UNREADABLE_SHOWN: usize = 10;
/// Stands for standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Subcommand)]
pub(super) enum CustomersCommand {
    /// Create a customer, or replace all personal data of it, from a JSON file
    ///
    ///   stockhold ctl customers put anna --file anna.json
    ///   echo '{"email": "anna@example.com"}' | stockhold ctl customers put anna --file -
    #[command(verbatim_doc_comment)]
    Put(PutCustomerArgs),
    /// Show the personal data of a customer
    Get(CustomerIdArgs),
    /// Erase a customer: its personal data and the key that it was encrypted with
    Delete(DeleteCustomerArgs),
    /// Wrap the keys of all customers with the first key of customers.encryption_keys. It may be
    /// repeated, and may be killed
    Rewrap,
}

#[derive(Args)]
pub(super) struct PutCustomerArgs {
    #[command(flatten)]
    id: CustomerIdArgs,
    /// A JSON object with provider_refs, email, push_token and locale. - reads standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Only if the customer still has this version (`customers get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

#[derive(Args)]
pub(super) struct CustomerIdArgs {
    /// The customer's id
    #[arg(value_name = "CUSTOMER")]
    id: String,
}

#[derive(Args)]
pub(super) struct DeleteCustomerArgs {
    #[command(flatten)]
    id: CustomerIdArgs,
    /// Only if the customer still has this version (`customers get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

impl CustomersCommand {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        match self {
            Self::Put(put) => put.request(),
            Self::Get(id) => Ok(ApiRequest::get(id.path(), customer)),
            Self::Delete(delete) => {
                let request = ApiRequest::get(delete.id.path(), |_| "erased\n".to_owned());
                Ok(ApiRequest { method: "DELETE", if_match: delete.if_version, ..request })
            }
            Self::Rewrap => Err("a rewrap is not a single request".to_owned()),
        }
    }
}

impl PutCustomerArgs {
    fn request(&self) -> Result<ApiRequest, String> {
        let mut text = String::new();
        let read = if self.file.as_os_str() == STANDARD_INPUT {
            std::io::stdin().read_to_string(&mut text)
        } else {
            std::fs::File::open(&self.file).and_then(|mut file| file.read_to_string(&mut text))
        };
        read.map_err(|error| format!("{}: {error}", self.file.display()))?;
        // The parser's message could repeat a part of the text.
        let body = serde_json::from_str(&text)
            .map_err(|error| format!("{}: line {} is not JSON", self.file.display(), error.line()))?;
        let request = ApiRequest::post(self.id.path(), body, customer);
        Ok(ApiRequest { method: "PUT", if_match: self.if_version, ..request })
    }
}

impl CustomerIdArgs {
    fn path(&self) -> String {
        format!("{CUSTOMERS}/{}", encoded(&self.id))
    }
}

/// Wraps the keys of all customers, page by page.
pub(super) fn rewrap(call: &CallArgs) -> ExitCode {
    match call.connect() {
        Ok((url, caller)) => server::block_on(rewrap_all(call.json, &url, &caller)),
        Err(code) => code,
    }
}

async fn rewrap_all(json: bool, url: &str, caller: &RetryClient) -> ExitCode {
    let (mut customers, mut rewrapped) = (0, 0);
    let mut unreadable = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut path = REWRAP.to_owned();
        push_query(&mut path, "limit", REWRAPPED_AT_ONCE);
        if let Some(after) = &after {
            push_query(&mut path, "starting_after", after);
        }
        let raw = match caller.send("POST", &path, b"").await {
            Ok(raw) => raw,
            Err(failed) => {
                let why = server::explain(url, &failed);
                let why =
                    format!("{why}\n{rewrapped} keys were wrapped before. Run the command again to go on.");
                return exit::because(server::exit_code(&failed), why);
            }
        };
        let page: Value = match serde_json::from_slice(&raw.body) {
            Ok(page) => page,
            Err(error) => return exit::because(exit::FAILED, format!("the answer is not JSON: {error}")),
        };
        customers += page["customers"].as_u64().unwrap_or(0);
        rewrapped += page["rewrapped"].as_u64().unwrap_or(0);
        unreadable.extend(show::entries(&page["unreadable"]).into_iter().cloned());
        after = page["next_cursor"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if json {
        println!("{}", json!({ "customers": customers, "rewrapped": rewrapped, "unreadable": unreadable }));
    } else {
        println!(
            "{}. The keys of {rewrapped} were wrapped with the first key.",
            counted(customers, "customer", "customers")
        );
    }
    if unreadable.is_empty() {
        return ExitCode::from(exit::DONE);
    }
    let ids: Vec<String> = unreadable.iter().take(UNREADABLE_SHOWN).map(show::text).collect();
    let why = format!(
        "{} can't be read, such as {}: their key is not configured, or their data is damaged. Put the key back into \
         customers.encryption_keys and run the command again, or erase them.",
        counted(unreadable.len() as u64, "customer", "customers"),
        ids.join(", ")
    );
    exit::because(exit::FAILED, why)
}

const FIELDS: [(&str, &str); 5] = [
    ("email", "email"),
    ("push token", "push_token"),
    ("locale", "locale"),
    ("payment methods", "methods"),
    ("version", "version"),
];

fn customer(value: &Value) -> String {
    let mut shown = value.clone();
    let methods = value["provider_refs"].as_object().into_iter().flatten();
    let method = |(provider, method): (&String, &Value)| {
        let of =
            method["customer_ref"].as_str().map(|customer| format!(" of {customer}")).unwrap_or_default();
        format!("{provider} {}{of}", show::text(&method["method_ref"]))
    };
    let methods: Vec<String> = methods.map(method).collect();
    if !methods.is_empty() {
        shown["methods"] = methods.join(", ").into();
    }
    format!("customer {}\n{}", show::text(&value["customer_id"]), show::fields(&shown, &FIELDS))
}
