//! Checks the machine: version, processors, limit of open files.

use super::{Finding, look, ok};
use rustix::process::{Resource, getrlimit};
use stockhold_config::Config;

/// Fewer open files than this refuse connections early: each connection takes one.
const OPEN_FILES: u64 = 4_096;

pub(super) fn version() -> Finding {
    let (version, arch, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    ok("version", format!("stockhold {version} on {os}, {arch}"))
}

pub(super) fn processors(config: &Config) -> Finding {
    let there = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = config.workers();
    if workers > there {
        let advice = "fewer threads are faster: leave `threads` out, or set it to the number of processors";
        return look("processors", format!("{workers} threads serve on {there} processors"), advice);
    }
    ok("processors", format!("{there}; {workers} threads serve"))
}

pub(super) fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    match limit.maximum {
        Some(most) if most < OPEN_FILES => {
            let advice = format!(
                "`ulimit -Hn {OPEN_FILES}` in the shell that starts it, LimitNOFILE=65536 in a systemd unit, --ulimit for a \
                 container"
            );
            look("open files", format!("at most {most}; every connection takes one"), advice)
        }
        Some(most) => ok("open files", format!("up to {most} (the server raises its own limit to that)")),
        None => ok("open files", "no limit"),
    }
}
