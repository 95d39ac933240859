//! Addresses that lead nowhere, whatever the dialect.

use stockhold_sql::{OpenError, Options, open};

/// Why a database is not opened.
pub(crate) fn refused(url: &str) -> OpenError {
    open(url, Options::default()).err().unwrap_or_else(|| panic!("{url} was opened"))
}

#[test]
fn an_address_that_is_none_says_what_one_looks_like_and_nothing_of_what_was_in_it() {
    for url in [
        "",
        "hunter2",
        "ftp://stockhold:hunter2@localhost/x",
        "postgres://stockhold:hunter2@localhost:port/x",
        "postgres://stockhold:hunter2@localhost/x?hunter2=1",
        "postgres://stockhold:hunter2@localhost/x?connect_timeout=hunter2",
        "postgres://stockhold:hunter2@localhost/x?sslmode=hunter2",
        "postgres://stockhold:hunter2@localhost/x?sslmode=verify-full&sslrootcert=/nowhere",
        "mysql://stockhold:hunter2@localhost:port/x",
        "mysql://stockhold:hun?ter2@localhost/x",
        "mysql://stockhold:hunter2@localhost/x?hunter2=1",
        "mysql://stockhold:hunter2@localhost/x?sslmode=hunter2",
        "mysql://stockhold:hunter2@localhost/",
        "mariadb://stockhold:hunter2@localhost",
        "mysql://stockhold:hunter2@localhost/x?sslmode=verify-full&sslrootcert=/nowhere",
    ] {
        let error = refused(url);
        assert!(matches!(error, OpenError::Address(_)), "{url}: {error:?}");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter2") && !said.contains("ter2@"), "{url}: {said}");
    }
}

#[test]
fn nobody_there_is_unreachable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for scheme in ["postgres", "mysql"] {
        let error = refused(&format!("{scheme}://stockhold:hunter2@127.0.0.1:{closed}/x"));
        assert!(matches!(&error, OpenError::Unreachable(why) if why.contains("refused")), "{error:?}");
        let error = refused(&format!("{scheme}://stockhold:hunter2@no-such-host.invalid/x"));
        assert!(matches!(error, OpenError::Unreachable(_)), "{error:?}");
        assert!(!error.to_string().contains("hunter2"));
    }
}
