//! Which server the tests run: the MariaDB that is installed, or the one whose programs are in the folder that a variable names. That one may
//! be MySQL. Tests of one of both alone run on that one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of the programs of another server.
const VARIABLE: &str = "STOCKHOLD_TEST_MYSQL";
/// Oldest version of MariaDB that is good enough.
const OLDEST: (u32, u32) = (10, 6);

/// The programs of a server.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) server: PathBuf,
    /// Whether they are MySQL's and not MariaDB's.
    pub(crate) is_mysql: bool,
    version: (u32, u32),
}

impl Programs {
    /// Those of the variable's folder if it is set, else those that are installed.
    pub(crate) fn chosen() -> Self {
        let Some(folder) = std::env::var_os(VARIABLE) else { return Self::installed() };
        let folder = PathBuf::from(folder);
        let server =
            ["mysqld", "mariadbd"].map(|name| folder.join(name)).into_iter().find(|file| file.exists());
        let found = server.and_then(|server| Self::of(&server.canonicalize().ok()?));
        found.unwrap_or_else(|| {
            panic!("{VARIABLE} names {}, which has no mysqld and no mariadbd that runs", folder.display())
        })
    }

    /// The MariaDB that is on the path, or where packages put it.
    pub(crate) fn installed() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/bin"].map(PathBuf::from);
        let mut files = std::env::split_paths(&path).chain(usual).map(|folder| folder.join("mariadbd"));
        let found = files.find(|file| file.exists()).and_then(|server| Self::of(&server));
        found.filter(|programs| programs.version >= OLDEST).unwrap_or_else(|| {
            panic!(
                "these tests need MariaDB {}.{} or newer and found no `mariadbd` of it on the PATH: install it, on Debian \
                 with `apt-get install mariadb-server`",
                OLDEST.0, OLDEST.1
            )
        })
    }

    fn of(server: &Path) -> Option<Self> {
        let said = Command::new(server).args(["--no-defaults", "--version"]).output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let number = said.split("Ver ").nth(1)?.split('-').next()?.to_owned();
        let mut parts = number.trim().split('.').map(|part| part.parse().ok());
        let version = (parts.next()??, parts.next()??);
        Some(Self { server: server.to_owned(), is_mysql: !said.contains("MariaDB"), version })
    }

    /// What the directory of its empty data is kept as.
    pub(crate) fn name(&self) -> String {
        let product = if self.is_mysql { "mysql" } else { "mariadb" };
        format!("{product}-{}.{}", self.version.0, self.version.1)
    }

    /// The program that makes a data directory, and its arguments but the directory.
    pub(crate) fn makes_data(&self) -> (PathBuf, &'static [&'static str]) {
        if self.is_mysql {
            let arguments = &["--no-defaults", "--initialize-insecure", "--innodb-redo-log-capacity=64M"];
            return (self.server.clone(), arguments);
        }
        let arguments = &[
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            "--innodb-log-file-size=48M",
            "--aria-log-file-size=8M",
        ];
        let name = "mariadb-install-db";
        let beside = self.server.with_file_name(name);
        let usual = || ["/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(name)).into_iter();
        let file = [beside].into_iter().chain(usual()).find(|file| file.exists());
        (file.unwrap_or_else(|| panic!("no {name} beside {}", self.server.display())), arguments)
    }

    /// Settings by which it starts quickly and takes little.
    pub(crate) fn small(&self) -> Vec<&'static str> {
        let own: &[&str] = if self.is_mysql {
            &["--innodb-redo-log-capacity=64M", "--mysqlx=OFF", "--secure-file-priv=NULL"]
        } else {
            // As it was made with.
            &["--innodb-log-file-size=48M", "--aria-pagecache-buffer-size=1M"]
        };
        [&SMALL, own].concat()
    }
}

const SMALL: [&str; 8] = [
    "--innodb-buffer-pool-size=64M",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--innodb-buffer-pool-load-at-startup=0",
    "--innodb-read-io-threads=2",
    "--innodb-write-io-threads=2",
    "--key-buffer-size=1M",
    "--max-connections=300",
    "--skip-name-resolve",
];
