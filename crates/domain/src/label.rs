//! Names that callers give, checked once: behind this type none is empty, too long or has a control character in it.

use crate::limits::LABEL_BYTES;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;

/// A name that a caller gives to something: 1 to [`LABEL_BYTES`] bytes of UTF-8 without control characters,
/// compared byte by byte (`abc`, `ABC` and `abc ` are three). Cloning shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

/// Why a text is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// No byte at all.
    Empty,
    /// More than [`LABEL_BYTES`]; the length found.
    TooLong(usize),
    /// A control character; its byte offset.
    Control(usize),
}

impl Label {
    /// The location of an item when none is given.
    pub const DEFAULT_LOCATION: &'static str = "default";

    /// Checks and takes a text.
    pub fn new(text: &str) -> Result<Self, LabelError> {
        Self::check(text)?;
        Ok(Self(text.into()))
    }

    /// Checks a text without taking it.
    pub fn check(text: &str) -> Result<(), LabelError> {
        if text.is_empty() {
            return Err(LabelError::Empty);
        }
        if text.len() > LABEL_BYTES {
            return Err(LabelError::TooLong(text.len()));
        }
        match text.char_indices().find(|(_, c)| c.is_control()) {
            Some((at, _)) => Err(LabelError::Control(at)),
            None => Ok(()),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Label {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("must not be empty"),
            Self::TooLong(len) => write!(f, "is {len} bytes long, at most {LABEL_BYTES} are allowed"),
            Self::Control(at) => write!(f, "has a control character at byte {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn bounds_and_bytes() {
        assert_eq!(Label::new(""), Err(LabelError::Empty));
        assert!(Label::new(&"x".repeat(LABEL_BYTES)).is_ok());
        assert_eq!(Label::new(&"x".repeat(LABEL_BYTES + 1)), Err(LabelError::TooLong(LABEL_BYTES + 1)));
        assert_eq!(Label::new("a\nb"), Err(LabelError::Control(1)));
        assert_eq!(Label::new("é\u{85}"), Err(LabelError::Control(2)));
        assert_ne!(Label::new("abc"), Label::new("ABC"));
        assert_ne!(Label::new("abc"), Label::new("abc "));
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        assert_eq!(LabelError::Empty.to_string(), "must not be empty");
        assert_eq!(LabelError::TooLong(129).to_string(), "is 129 bytes long, at most 128 are allowed");
        assert_eq!(LabelError::Control(3).to_string(), "has a control character at byte 3");
    }
}
