//! Mistakes put in on purpose, to see that the tests catch them: each stands beside the right code, under a name. Without
//! the feature `seeded-bugs` all of it is the word `false`, and what is shipped has neither a name nor a branch of it.

#[cfg(feature = "seeded-bugs")]
extern crate std;

/// Whether the mistake of this name is the one that the environment variable `SEEDED_BUG` asks for.
#[cfg(feature = "seeded-bugs")]
#[macro_export]
macro_rules! bug {
    ($name:literal) => {
        $crate::bug::is($name)
    };
}

/// No mistake: the feature `seeded-bugs` is off.
#[cfg(not(feature = "seeded-bugs"))]
#[macro_export]
macro_rules! bug {
    ($name:literal) => {
        false
    };
}

/// See [`crate::bug!`].
#[cfg(feature = "seeded-bugs")]
pub fn is(name: &str) -> bool {
    use std::string::String;
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("SEEDED_BUG").unwrap_or_default()) == name
}
