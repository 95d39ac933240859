//! What an error of MySQL or MariaDB means. Only this file classifies errors. The driver's texts show no password.

use super::script::Step;
use crate::engine::{DbError, OpenError};
use mysql_async::{DriverError, Error, IoError};

const DEADLOCK: u16 = 1213;
const LOCK_TIMEOUT: u16 = 1205;
const DUPLICATE: u16 = 1062;
const NO_SUCH_TABLE: u16 = 1146;
/// The group of servers did not let the transaction commit: one that was committed elsewhere is in its way, or the server leaves the
/// group. It is rolled back.
const ROLLED_BACK_BY_GROUP: u16 = 3101;
/// A duplicate of a row that another instance may insert, in a compound statement.
pub(super) const RACED: u16 = 1022;
/// COMMIT of a compound statement failed.
pub(super) const AT_COMMIT: u16 = 1180;

/// The server writes for nobody now: it is a replica, or set so.
const READ_ONLY: [u16; 4] = [1290, 1792, 1836, 1874];
/// This session is over: killed, or the server is stopping.
const KILLED: [u16; 6] = [1053, 1152, 1317, 1927, 3169, 4031];
/// The server can't work now: out of memory, disk, connections or files, a table or the log is full, too large a packet, not
/// part of its cluster; or a statement was stopped by somebody's limit, or COMMIT failed.
const UNABLE: [u16; 24] = [
    1021, 1030, 1037, 1038, 1040, 1041, 1047, 1114, 1129, 1135, 1153, 1158, 1159, 1160, 1161, 1180, 1184,
    1203, 1206, 1226, 1969, 3024, 3168, 1637,
];
/// This user is not let in, or not to this database, or there is none of that name.
const REFUSED: [u16; 12] = [1044, 1045, 1049, 1130, 1251, 1275, 1524, 1698, 1820, 1862, 3118, 4151];
/// This user may not do that here.
const NO_RIGHT: [u16; 6] = [1142, 1143, 1227, 1370, 1419, 4062];

/// What an error of a session means. Rows that two instances may make at once, there being none to lock, are `raced` for: the
/// second runs again and sees the first. Every other row is made under the lock of something that exists, or has an id that
/// nobody else has. In a cluster the error of a deadlock also says that a transaction of another node was committed first.
pub(super) fn db_error(error: &Error, raced: bool, in_cluster: bool) -> DbError {
    let text = text_of(error);
    // Without an answer from the server, it is the connection that failed.
    let Error::Server(said) = error else { return DbError::ConnectionLost(text) };
    match said.code {
        DEADLOCK if in_cluster => DbError::Conflict(text),
        ROLLED_BACK_BY_GROUP => DbError::Conflict(text),
        DEADLOCK => DbError::Deadlock(text),
        LOCK_TIMEOUT => DbError::LockTimeout(text),
        DUPLICATE | RACED if raced => DbError::Conflict(text),
        code if READ_ONLY.contains(&code) || KILLED.contains(&code) || UNABLE.contains(&code) => {
            DbError::ConnectionLost(text)
        }
        // An administrator may grant the right again.
        code if NO_RIGHT.contains(&code) => DbError::ConnectionLost(text),
        _ => DbError::InvariantViolated(text),
    }
}

/// What an error means that the server answered to COMMIT itself. A cluster or a group may find only then that somebody else was first;
/// of everything else nobody knows what became of it.
pub(super) fn db_error_at_commit(error: &Error, in_cluster: bool) -> DbError {
    match error {
        Error::Server(said) if matches!(said.code, DEADLOCK | ROLLED_BACK_BY_GROUP) => {
            db_error(error, false, in_cluster)
        }
        _ => DbError::ConnectionLost(text_of(error)),
    }
}

/// The kind of statement that failed in a compound statement with COMMIT. A session that was killed may have come that far.
pub(super) fn failed_step(error: &Error) -> Option<Step> {
    let Error::Server(said) = error else { return None };
    Some(match said.code {
        RACED => Step::Raced,
        code if code == AT_COMMIT || KILLED.contains(&code) => Step::Commit,
        _ => Step::Write,
    })
}

/// Whether another transaction was in the way, so that the same may be tried again.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Server(said) if matches!(said.code, DEADLOCK | LOCK_TIMEOUT | ROLLED_BACK_BY_GROUP))
}

/// Whether the session has ended without its having been asked for anything that took effect.
pub(super) fn is_gone(error: &Error) -> bool {
    match error {
        Error::Server(said) => KILLED.contains(&said.code),
        Error::Io(_) | Error::Driver(DriverError::ConnectionClosed) => true,
        _ => false,
    }
}

/// Whether a table that was asked for is not there.
pub(super) fn is_no_such_table(error: &Error) -> bool {
    matches!(error, Error::Server(said) if said.code == NO_SUCH_TABLE)
}

/// Why a connection could not be opened or readied.
pub(super) fn open_error(error: &Error) -> OpenError {
    let text = text_of(error);
    let said = match error {
        Error::Server(said) => said,
        Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled
            | DriverError::NoClientSslFlagFromServer,
        ) => return OpenError::Refused(text),
        Error::Io(_) if text.contains("peer certificate") => {
            return OpenError::Unreachable(format!(
                "{text}: sslmode=verify-full needs a certificate that is signed by a trusted root and has this host among its alternative \
                 names. Those that MySQL makes for itself name no host: give the server one of your own (ssl_cert, ssl_key), or \
                 use sslmode=require, which checks nothing"
            ));
        }
        _ => return OpenError::Unreachable(text),
    };
    match said.code {
        code if REFUSED.contains(&code) => OpenError::Refused(text),
        code if KILLED.contains(&code) || UNABLE.contains(&code) => OpenError::Unreachable(text),
        code if NO_RIGHT.contains(&code) => OpenError::Unfit(format!(
            "{text}: let this user make the tables, or run `stockhold migrate` as one who may and let this one use them"
        )),
        code if READ_ONLY.contains(&code) => OpenError::Unfit(format!("it is read-only: {text}")),
        _ => OpenError::Unfit(text),
    }
}

/// What the server said, or what is behind the driver's word.
pub(super) fn text_of(error: &Error) -> String {
    match error {
        Error::Server(said) => format!("{} ({})", said.message, said.code),
        Error::Io(IoError::Io(io)) => io.to_string(),
        Error::Io(IoError::Tls(tls)) => format!("TLS: {tls}"),
        Error::Driver(DriverError::ConnectionClosed) => "the connection is closed".to_owned(),
        Error::Driver(DriverError::NoClientSslFlagFromServer) => "the server does not speak TLS".to_owned(),
        // Parts of what was received, of an address: nothing that helps anybody, and perhaps a secret.
        Error::Driver(DriverError::FromValue { .. } | DriverError::FromRow { .. }) => {
            "a value makes no sense".to_owned()
        }
        Error::Driver(DriverError::UnexpectedPacket { .. }) => {
            "the server sent what is none of its protocol".to_owned()
        }
        Error::Url(_) => "the address is wrong".to_owned(),
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => format!(
            "there is no such user, or it has a password of the plugin {name}, which is not supported. MySQL asks for this plugin also where \
             the user's name or host is unknown to it. A user that exists needs caching_sha2_password, which is MySQL's default: \
             ALTER USER … IDENTIFIED WITH caching_sha2_password BY …"
        ),
        Error::Driver(driver) => driver.to_string(),
        Error::Other(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_async::ServerError;

    #[test]
    fn a_commit_that_the_group_has_rolled_back_is_known_and_any_other_error_is_not() {
        let at_commit = |code| {
            let error = ServerError { code, message: "said".to_owned(), state: "HY000".to_owned() };
            db_error_at_commit(&Error::Server(error), false)
        };
        assert!(matches!(at_commit(ROLLED_BACK_BY_GROUP), DbError::Conflict(_)));
        assert!(matches!(at_commit(DEADLOCK), DbError::Deadlock(_)));
        for code in [LOCK_TIMEOUT, AT_COMMIT, KILLED[0], UNABLE[0]] {
            assert!(matches!(at_commit(code), DbError::ConnectionLost(_)), "{code}");
        }
    }
}
