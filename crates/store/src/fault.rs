//! Fault points: named steps at which a test injects a fault. [`fault!`](crate::fault!) marks each step. Without debug assertions
//! the macro expands to nothing, so that a released binary contains neither the names nor a branch.
//!
//! With them, two environment variables are read once:
//! - `FAULT_POINTS`: a comma-separated list of `name=action` or `name=action@n`. The action runs when the step is reached for
//!   the n-th time, or for the first time without `@n`. Actions: `kill` aborts the process, `panic` panics, `pause:ms`
//!   waits, `error` makes the step fail if it can fail.
//! - `FAULT_HITS`: a file. It gets a line `name` when a step is first reached in a process, and a line `name action` before
//!   an action runs.

/// Whether faults can be injected. Some limits are smaller then, so that tests reach the code behind them often.
pub const ENABLED: bool = cfg!(debug_assertions);

/// Marks a fault point: `fault!("commit.encoded")`, or `fault!("commit.encoded" => error)` if the step can fail. In the
/// second form, the action `error` makes the surrounding function return `Err(error)`. Each name is a literal and is used
/// in one place only.
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! fault {
    ($name:literal) => {
        let _ = $crate::fault::reached($name);
    };
    ($name:literal => $error:expr) => {
        if $crate::fault::reached($name) {
            return Err($error);
        }
    };
}

/// Expands to nothing, because this build has no debug assertions.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! fault {
    ($name:literal) => {};
    ($name:literal => $error:expr) => {};
}

#[cfg(debug_assertions)]
pub use armed::reached;

#[cfg(debug_assertions)]
mod armed {
    use std::collections::HashMap;
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Action {
        Kill,
        Panic,
        Pause(u64),
        Error,
    }

    #[derive(Debug)]
    struct Order {
        name: String,
        said: String,
        action: Action,
        at: u64,
    }

    struct Faults {
        orders: Vec<Order>,
        times: Mutex<HashMap<&'static str, u64>>,
        hits: Option<File>,
    }

    static FAULTS: LazyLock<Faults> = LazyLock::new(|| {
        let orders = std::env::var("FAULT_POINTS").unwrap_or_default();
        let orders = orders.split(',').filter(|order| !order.is_empty());
        let orders =
            orders.map(|text| order(text).unwrap_or_else(|| panic!("FAULT_POINTS: {text:?} is no order")));
        let hits = std::env::var_os("FAULT_HITS").map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.unwrap_or_else(|error| panic!("FAULT_HITS: {}: {error}", path.display()))
        });
        Faults { orders: orders.collect(), times: Mutex::default(), hits }
    });

    fn order(text: &str) -> Option<Order> {
        let (name, rest) = text.split_once('=')?;
        let (said, at) = match rest.split_once('@') {
            Some((said, at)) => (said, at.parse().ok()?),
            None => (rest, 1),
        };
        let action = match said.split_once(':') {
            None if said == "kill" => Action::Kill,
            None if said == "panic" => Action::Panic,
            None if said == "error" => Action::Error,
            Some(("pause", millis)) => Action::Pause(millis.parse().ok()?),
            _ => return None,
        };
        Some(Order { name: name.to_owned(), said: said.to_owned(), action, at })
    }

    /// Counts the step and runs its action, if it has one. `true` when the step has to fail.
    pub fn reached(name: &'static str) -> bool {
        let faults = &*FAULTS;
        if faults.orders.is_empty() && faults.hits.is_none() {
            return false;
        }
        let time = {
            let mut times = faults.times.lock().unwrap_or_else(PoisonError::into_inner);
            let time = times.entry(name).or_default();
            *time += 1;
            *time
        };
        if time == 1 {
            note(faults, format_args!("{name}\n"));
        }
        let Some(order) = faults.orders.iter().find(|order| order.name == name && order.at == time) else {
            return false;
        };
        note(faults, format_args!("{name} {}\n", order.said));
        match order.action {
            Action::Kill => std::process::abort(),
            Action::Panic => panic!("the fault point {name}"),
            Action::Pause(millis) => {
                std::thread::sleep(Duration::from_millis(millis));
                false
            }
            Action::Error => true,
        }
    }

    /// Writes the line at once, so that lines of several threads do not mix.
    fn note(faults: &Faults, line: std::fmt::Arguments<'_>) {
        if let Some(mut file) = faults.hits.as_ref() {
            file.write_all(line.to_string().as_bytes()).expect("a line in FAULT_HITS");
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn orders_are_read() {
            let read = |text| order(text).map(|order| (order.name, order.action, order.at));
            assert_eq!(read("a.b=kill"), Some(("a.b".to_owned(), Action::Kill, 1)));
            assert_eq!(read("a=pause:20@7"), Some(("a".to_owned(), Action::Pause(20), 7)));
            for wrong in ["a", "a=", "a=die", "a=pause", "a=kill@x", "a=pause:x"] {
                assert!(order(wrong).is_none(), "{wrong}");
            }
        }
    }
}
