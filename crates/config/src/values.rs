//! Values of settings as a file or a variable has them, and errors about their names.

use toml_edit::{Item, TableLike};

/// Smallest similarity of a name that is suggested instead of an unknown one, from 0 to 1.
const SIMILAR: f64 = 0.75;

/// A value as its source has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Text. In a variable everything is text.
    Text(String),
    /// A whole number of a file.
    Integer(i64),
    /// Texts in brackets.
    List(Vec<String>),
    /// Anything else of a file, as it is written there.
    Other(String),
}

impl Value {
    pub(crate) fn text(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Integer(number) => Err(format!("must be a text in quotation marks, found {number}")),
            Self::List(list) => Err(format!("must be a text in quotation marks, found {list:?}")),
            Self::Other(other) => Err(format!("must be a text in quotation marks, found {other}")),
        }
    }

    /// A secret. An error repeats nothing of it.
    pub(crate) fn secret(&self) -> Result<String, String> {
        self.text().map_err(|_| "must be a text in quotation marks".to_owned())
    }

    /// A list of texts. A variable has commas between them.
    pub(crate) fn list(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(list) => Ok(list.clone()),
            Self::Text(text) => Err(format!("must be a list like [{text:?}], found {text:?}")),
            Self::Integer(number) => Err(format!("must be a list of texts in brackets, found {number}")),
            Self::Other(other) => Err(format!("must be a list of texts in brackets, found {other}")),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self) -> Result<bool, String> {
        match self {
            Self::Text(text) | Self::Other(text) if text == "true" => Ok(true),
            Self::Text(text) | Self::Other(text) if text == "false" => Ok(false),
            Self::Text(text) => Err(format!("must be true or false, found {text:?}")),
            Self::Integer(number) => Err(format!("must be true or false, found {number}")),
            Self::List(list) => Err(format!("must be true or false, found {list:?}")),
            Self::Other(other) => Err(format!("must be true or false, found {other}")),
        }
    }

    /// A whole number. A file must write it without quotation marks.
    pub(crate) fn number<T: TryFrom<u64>>(&self, from_file: bool) -> Result<T, String> {
        let number = match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Text(text) if from_file => {
                return Err(format!("must be a whole number without quotation marks, found {text:?}"));
            }
            Self::Text(text) => text.parse().ok(),
            Self::List(_) | Self::Other(_) => None,
        };
        let found = || match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Integer(number) => number.to_string(),
            Self::List(list) => format!("{list:?}"),
            Self::Other(other) => other.clone(),
        };
        let number = number.ok_or_else(|| format!("must be a whole number, 0 or more, found {}", found()))?;
        T::try_from(number).map_err(|_| format!("{number} is too large"))
    }
}

pub(crate) fn unknown(name: &str, known: &[&str]) -> String {
    match closest(name, known) {
        Some(similar) => format!("{name} is not a setting; did you mean {similar}?"),
        None => format!("{name} is not a setting; there are {}", known.join(", ")),
    }
}

/// The most similar of the known names, if one is similar enough.
pub(crate) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let rated = known.iter().map(|known| (strsim::jaro_winkler(name, known), *known));
    rated
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

pub(crate) fn value_of(item: &Item) -> Value {
    match (item.as_str(), item.as_integer()) {
        (Some(text), _) => Value::Text(text.to_owned()),
        (_, Some(number)) => Value::Integer(number),
        _ if item.is_array() => list_of(item),
        _ => Value::Other(match item.as_value() {
            Some(value) => value.to_string().trim().to_owned(),
            None => format!("a {}", item.type_name()),
        }),
    }
}

/// An array, as a list if all its elements are texts.
fn list_of(item: &Item) -> Value {
    let elements = item.as_array().into_iter().flatten();
    let texts: Option<Vec<_>> = elements.map(|element| element.as_str().map(str::to_owned)).collect();
    let as_written = || item.as_value().map_or_else(String::new, |value| value.to_string().trim().to_owned());
    texts.map_or_else(|| Value::Other(as_written()), Value::List)
}

/// Where a key stands, in bytes from the beginning of the file.
pub(crate) fn span_of(table: &dyn TableLike, name: &str) -> usize {
    table.key(name).and_then(toml_edit::Key::span).map_or(0, |span| span.start)
}

/// A list in a variable: its elements with commas between them.
pub(crate) fn split_list(text: &str) -> Value {
    Value::List(text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect())
}
