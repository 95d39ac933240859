//! `stockhold keys`: the API keys of a server. A new key is the only thing on standard output, so that a script can take it from
//! there. Everything about it goes to standard error.

use super::requests::{KeyArgs, PageArgs, named};
use super::show;
use super::{ApiRequest, CallArgs};
use crate::client::encoded;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The path of the API keys.
const KEYS: &str = "/v1/keys";

#[derive(Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    call: CallArgs,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Create a key. It is printed to standard output, this once
    ///
    ///   stockhold keys create "Shop, production" --principal shop --scope reservations:write --scope inventory:read
    ///   stockhold keys create "Store in Hamburg" --principal hamburg --scope inventory:write --location hub-9 \
    ///     --expires-at 2027-12-31T00:00:00Z --allow-cidr 192.0.2.0/24
    #[command(verbatim_doc_comment)]
    Create(Box<CreateArgs>),
    /// List keys. Ended ones are listed for 30 days
    List(PageArgs),
    /// Show what a key may do, and when it ends. The key itself is never shown
    Show(IdArgs),
    /// Replace a key by a new one with the same rights. The new one is printed to standard output, this once
    ///
    ///   stockhold keys roll key_5b0e7a40f2c94d1c8a6e3f7b91d2c4e8 --expire-old-in 3600
    #[command(verbatim_doc_comment)]
    Roll(RollArgs),
    /// End a key now: servers refuse it within 5 seconds
    Revoke(IdArgs),
}

#[derive(Args)]
struct CreateArgs {
    /// What people call the key
    name: String,
    /// The caller that the key stands for: it owns idempotency keys and reservations, and outlives the key
    #[arg(long, value_name = "NAME")]
    principal: String,
    /// What the key may do, for example reservations:write. Repeat it for more scopes; writing does not include reading
    #[arg(long, value_name = "SCOPE", required = true)]
    scope: Vec<String>,
    /// Only items at this location. Repeat it for more locations [default: all locations]
    #[arg(long)]
    location: Vec<String>,
    /// Only reservations of this sales channel. Repeat it for more channels [default: all channels]
    #[arg(long)]
    channel: Vec<String>,
    /// Only reservations that this principal made
    #[arg(long)]
    own_reservations_only: bool,
    /// When the key ends by itself, as RFC 3339: 2027-12-31T00:00:00Z [default: never]
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// A network that the key may be used from, like 192.0.2.0/24. Repeat it for more networks [default: every network]
    #[arg(long, value_name = "CIDR")]
    allow_cidr: Vec<String>,
    /// Requests a second over time, 1 to 1,000,000, on each instance unless they share limits [default: the server's limit]
    #[arg(long, value_name = "N", requires = "burst")]
    per_second: Option<u32>,
    /// Requests at once after a rest, 1 to 1,000,000
    #[arg(long, value_name = "N", requires = "per_second")]
    burst: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Args)]
struct IdArgs {
    /// The key's id, like key_5b0e7a40f2c94d1c8a6e3f7b91d2c4e8. Not the key itself
    #[arg(value_name = "KEY_ID")]
    id: String,
}

#[derive(Args)]
struct RollArgs {
    #[command(flatten)]
    id: IdArgs,
    /// How long the old key stays valid, 0 to 2,592,000 (30 days)
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    expire_old_in: u32,
    #[command(flatten)]
    key: KeyArgs,
}

/// Runs one command.
pub(crate) fn run(args: &KeysArgs) -> ExitCode {
    args.call.ask(args.command.request())
}

impl KeysCommand {
    fn request(&self) -> Result<ApiRequest, String> {
        match self {
            Self::Create(create) => create.request(),
            Self::List(page) => {
                let mut path = KEYS.to_owned();
                page.push(&mut path);
                Ok(ApiRequest::get(path, show::keys))
            }
            Self::Show(id) => Ok(ApiRequest::get(id.path(""), show::key)),
            Self::Roll(roll) => {
                let body = json!({ "expire_old_in_seconds": roll.expire_old_in });
                let request = ApiRequest::post(roll.id.path("/roll"), body, new_key);
                ApiRequest { check: Some(has_key), ..request }.keyed(roll.key.key.as_ref())
            }
            Self::Revoke(id) => {
                let revoked = |_: &Value| "revoked\n".to_owned();
                Ok(ApiRequest { method: "DELETE", ..ApiRequest::get(id.path(""), revoked) })
            }
        }
    }
}

impl CreateArgs {
    fn request(&self) -> Result<ApiRequest, String> {
        let some = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
        let rate_limit = self.per_second.zip(self.burst);
        let body = json!({
            "name": self.name,
            "principal": self.principal,
            "scopes": self.scope,
            "locations": some(&self.location),
            "channels": some(&self.channel),
            "own_reservations_only": self.own_reservations_only.then_some(true),
            "expires_at": self.expires_at,
            "allowed_cidrs": some(&self.allow_cidr),
            "rate_limit": rate_limit.map(|(per_second, burst)| json!({ "per_second": per_second, "burst": burst })),
        });
        let request = ApiRequest::post(KEYS.to_owned(), named(body), new_key);
        ApiRequest { check: Some(has_key), ..request }.keyed(self.key.key.as_ref())
    }
}

impl IdArgs {
    fn path(&self, tail: &str) -> String {
        format!("{KEYS}/{}{tail}", encoded(&self.id))
    }
}

/// The key alone, for standard output; everything about it goes to standard error.
fn new_key(value: &Value) -> String {
    eprint!("{}", show::key(value));
    match value["key"].as_str() {
        Some(key) => {
            eprintln!("the key follows on standard output. Keep it: it can not be shown again");
            format!("{key}\n")
        }
        None => String::new(),
    }
}

/// Fails when the answer has no key, so that a script does not go on with an empty one.
fn has_key(value: &Value) -> Result<(), String> {
    match value["key"].as_str() {
        Some(_) => Ok(()),
        None => Err("the key itself was in the first answer only. If you do not have it, revoke it and create another one"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_the_key_is_a_failure() {
        assert!(has_key(&json!({ "key_id": "key_1" })).unwrap_err().contains("revoke it"));
        assert_eq!(has_key(&json!({ "key_id": "key_1", "key": "sh_live_x" })), Ok(()));
    }
}
