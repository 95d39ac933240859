//! Poolers between a connection and the server. Where PgBouncer has `pool_mode = transaction`, each transaction of a connection may
//! have another session of the server. What the connection has prepared and set is missing there, and other connections find it.
//!
//! A store looks for that when it is opened, with a second connection, and again after an error that only a change of the session
//! explains. Such a pooler will do if it prepares statements wherever they are needed, and if the role has the settings.

use super::connect::{PostgresTarget, SessionSetting};
use super::errors::open_error;
use crate::engine::{OpenError, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// The session that answers. Servers behind one address may have processes of the same number.
const SESSION: &str = "SELECT pg_backend_pid() || ' ' || pg_postmaster_start_time()";
/// A statement that nobody else prepares.
const SAMPLE: &str = "SELECT 'prepared by stockhold'";
/// The name that PgBouncer gives it, if it prepares statements itself.
const NAME_OF_SAMPLE: &str = "SELECT name FROM pg_prepared_statements
    WHERE statement = $$SELECT 'prepared by stockhold'$$ AND starts_with(name, 'PGBOUNCER_')";

/// How many checks a target needs: one, and one more after each error that shows a change of the session.
static CHECKS: AtomicU64 = AtomicU64::new(1);

/// The number of checks that were needed when a target passed its last one.
pub(super) type SessionCheck = Arc<AtomicU64>;

/// An error has shown that a connection has another session than before.
pub(super) fn session_changed(error: &str) {
    if CHECKS.fetch_add(1, Ordering::SeqCst) == 1 {
        tracing::error!(
            error,
            "connections to the database change their sessions: a pooler such as PgBouncer with pool_mode = transaction is \
             likely to be in between. Requests get 503 until that is undone (docs/operating.md, PgBouncer)"
        );
    }
}

/// A pooler that nothing can be prepared or set behind.
pub(super) fn unfit(why: &str) -> OpenError {
    OpenError::Unfit(format!(
        "a pooler is in front of it that gives each transaction another session, such as PgBouncer with pool_mode = \
         transaction, and {why}. Set pool_mode = session, or give the address of the database itself"
    ))
}

/// Refuses a pooler that connections share sessions behind, unless it will do. Returns whether sessions are shared, as far as it was
/// looked for now.
pub(super) async fn refuse_unfit(
    target: &PostgresTarget,
    client: &Client,
    options: &Options,
    settings: &[SessionSetting],
    has_citus: bool,
) -> Result<bool, OpenError> {
    let needed = CHECKS.load(Ordering::SeqCst);
    if target.session_check.load(Ordering::SeqCst) == needed {
        return Ok(false);
    }
    let another = async {
        let (other, _driver) = target.connect().await?;
        shares_session(client, &other).await.map_err(|error| open_error(&error))
    };
    // Without a second connection nothing is known, and the next connection looks.
    let Ok(Ok(shared)) = tokio::time::timeout(options.connect_timeout, another).await else {
        return Ok(false);
    };
    if shared {
        if has_citus {
            return Err(unfit("Citus needs settings of each session"));
        }
        // An error is PgBouncer's with pool_mode = statement, where no transaction can begin.
        if !matches!(keeps_statements(client).await, Ok(true)) {
            return Err(unfit(
                "it does not prepare statements in each of them, as PgBouncer does from version 1.21 on with \
                 max_prepared_statements above 0",
            ));
        }
        let missing = missing_settings(client, settings).await.map_err(|error| open_error(&error))?;
        if !missing.is_empty() {
            return Err(unfit(&format!("its role lacks settings (deploy/postgresql/pooler.sql): {missing}")));
        }
        tracing::info!("connections share sessions of the database behind PgBouncer");
    }
    target.session_check.store(needed, Ordering::SeqCst);
    Ok(shared)
}

/// Whether two open connections have one session, or one of them changes its own. A pooler gives a transaction the session that
/// was used last, which the other connection then has, or the one that has rested for the longest, which changes with each.
async fn shares_session(client: &Client, other: &Client) -> Result<bool, Error> {
    let session = first_text(client, SESSION).await?;
    if first_text(client, SESSION).await? != session || first_text(other, SESSION).await? == session {
        return Ok(true);
    }
    // While the other keeps a session, there is one less to be given the same again.
    let kept = first_text(other, &format!("BEGIN; {SESSION}")).await?;
    Ok(kept == session || first_text(client, SESSION).await? != session)
}

/// Whether the pooler prepares the statements of a connection in every session that it gives it.
async fn keeps_statements(client: &Client) -> Result<bool, Error> {
    client.batch_execute("BEGIN").await?;
    let _sample = client.prepare(SAMPLE).await?;
    let name = first_text(client, NAME_OF_SAMPLE).await?;
    client.batch_execute("ROLLBACK").await?;
    Ok(name.is_some())
}

/// Statements that give the role the settings that its sessions do not begin with.
async fn missing_settings(client: &Client, settings: &[SessionSetting]) -> Result<String, Error> {
    let wanted: Vec<String> = settings.iter().map(|(name, value)| format!("('{name}', '{value}')")).collect();
    let query = format!(
        "SELECT string_agg(format('ALTER ROLE %I SET %s = %L', current_user, name, value), '; ')
         FROM pg_settings JOIN (VALUES {}) AS wanted (name, value) USING (name) WHERE reset_val <> value",
        wanted.join(", ")
    );
    Ok(first_text(client, &query).await?.unwrap_or_default())
}

/// The first column of the first row, without a prepared statement.
async fn first_text(client: &Client, query: &str) -> Result<Option<String>, Error> {
    let messages = client.simple_query(query).await?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
