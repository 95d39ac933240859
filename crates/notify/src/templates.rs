//! The texts of notifications. There is one template for each kind and language: built in, or a file of the operator.

use crate::kind::NotificationKind;
use crate::money::money;
use crate::sample::sample;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The language of a buyer whose own has no templates.
pub const FALLBACK_LOCALE: &str = "en";
/// The end of the name of a template's file.
const EXTENSION: &str = "txt";
/// What the first line of a template begins with.
const SUBJECT: &str = "Subject:";

macro_rules! built_in {
    ($($locale:literal: $($kind:literal)*;)*) => {
        [$($((concat!($locale, "/", $kind), include_str!(concat!("../templates/", $locale, "/", $kind, ".txt"))),)*)*]
    };
}

/// The templates that are built in, by language and kind.
const BUILT_IN: [(&str, &str); 14] = built_in! {
    "en": "order_confirmed" "order_cancelled" "order_refunded" "reservation_cancelled" "reservation_expired" "payment_failed"
        "payment_action_required";
    "de": "order_confirmed" "order_cancelled" "order_refunded" "reservation_cancelled" "reservation_expired" "payment_failed"
        "payment_action_required";
};

/// The texts of notifications.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    /// The languages, in lower case.
    locales: Vec<String>,
}

/// A notification as its buyer reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedText {
    /// The subject of the mail and title of the push message: one line.
    pub subject: String,
    /// The text.
    pub text: String,
}

impl Templates {
    /// The built-in templates, and in place of them the files of a directory: `LOCALE/KIND.txt`. Each is rendered once with the
    /// [`sample`], so a template that is wrong is an error here.
    pub fn load(directory: Option<&Path>) -> Result<Self, String> {
        let mut sources: BTreeMap<String, (String, String)> = BUILT_IN
            .iter()
            .map(|(name, source)| ((*name).to_owned(), ((*name).to_owned(), (*source).to_owned())))
            .collect();
        if let Some(directory) = directory {
            read_directory(directory, &mut sources)?;
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| explained(&error))?);
        environment.add_filter("money", |amount: u64, currency: &str| money(amount, currency));
        let mut locales: Vec<String> = Vec::new();
        for (name, (place, source)) in sources {
            let (locale, kind) = name.split_once('/').unwrap_or((FALLBACK_LOCALE, &name));
            let kind = NotificationKind::from_name(kind).ok_or_else(|| format!("{place}: no kind"))?;
            if !locales.iter().any(|known| known == locale) {
                locales.push(locale.to_owned());
            }
            environment
                .add_template_owned(name.clone(), source)
                .map_err(|error| format!("{place}: {}", explained(&error)))?;
            render(&environment, &name, &sample(kind)).map_err(|error| format!("{place}: {error}"))?;
        }
        Ok(Self { environment, locales })
    }

    /// The text of a notification in the language that fits best: `de-at`, then `de`, then [`FALLBACK_LOCALE`].
    pub fn render(
        &self,
        kind: NotificationKind,
        locale: Option<&str>,
        data: &serde_json::Value,
    ) -> Result<RenderedText, String> {
        let wanted = locale.unwrap_or(FALLBACK_LOCALE).to_lowercase().replace('_', "-");
        let language = wanted.split('-').next().unwrap_or_default();
        let name = [wanted.as_str(), language, FALLBACK_LOCALE]
            .into_iter()
            .map(|locale| format!("{locale}/{}", kind.name()))
            .find(|name| self.environment.get_template(name).is_ok())
            .unwrap_or_else(|| format!("{FALLBACK_LOCALE}/{}", kind.name()));
        render(&self.environment, &name, data)
    }

    /// The languages that have templates.
    pub fn locales(&self) -> &[String] {
        &self.locales
    }
}

/// Adds the files of a directory to the sources: their places and texts, by language and kind.
fn read_directory(directory: &Path, sources: &mut BTreeMap<String, (String, String)>) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for locale in fs::read_dir(directory).map_err(|error| failed(directory, error))? {
        let locale = locale.map_err(|error| failed(directory, error))?.path();
        if !locale.is_dir() {
            return Err(format!(
                "{}: is no directory. A template is the file LOCALE/KIND.{EXTENSION}, such as en/order_confirmed.{EXTENSION}",
                locale.display()
            ));
        }
        let name = locale.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        for file in fs::read_dir(&locale).map_err(|error| failed(&locale, error))? {
            let file = file.map_err(|error| failed(&locale, error))?.path();
            let kind = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let fits = file.extension().is_some_and(|found| found == EXTENSION);
            if !fits || NotificationKind::from_name(&kind).is_none() {
                let kinds = NotificationKind::ALL.map(NotificationKind::name).join(", ");
                return Err(format!(
                    "{}: is no template. Their names are KIND.{EXTENSION}, and the kinds are {kinds}",
                    file.display()
                ));
            }
            let text = fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
            sources.insert(format!("{name}/{kind}"), (file.display().to_string(), text));
        }
    }
    Ok(())
}

fn render(
    environment: &Environment<'_>,
    name: &str,
    data: &serde_json::Value,
) -> Result<RenderedText, String> {
    let template = environment.get_template(name).map_err(|error| explained(&error))?;
    let text = template.render(Serde(data)).map_err(|error| explained(&error))?;
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let subject = first.strip_prefix(SUBJECT).map(str::trim).unwrap_or_default();
    if subject.is_empty() {
        return Err(format!("line 1: must be \"{SUBJECT}\" and the subject"));
    }
    // A value with a line break must not become a header.
    let subject = subject.replace(char::is_control, " ");
    Ok(RenderedText { subject, text: format!("{}\n", rest.trim()) })
}

/// What is wrong with a template, with the line.
fn explained(error: &minijinja::Error) -> String {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    match error.line() {
        Some(line) => format!("line {line}: {}{detail}", error.kind()),
        None => format!("{}{detail}", error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(kind: NotificationKind, locale: &str) -> RenderedText {
        Templates::load(None).unwrap().render(kind, Some(locale), &sample(kind)).unwrap()
    }

    #[test]
    fn built_in_templates_have_every_kind_in_every_language() {
        for locale in ["en", "de"] {
            for kind in NotificationKind::ALL {
                let file = format!("{locale}/{}", kind.name());
                assert!(BUILT_IN.iter().any(|(name, _)| *name == file), "{file}");
                let text = text_of(kind, locale);
                assert!(!text.text.contains("{{") && text.text.trim().len() > 20, "{text:?}");
                assert!(!text.text.contains("\n\n\n"), "{text:?}");
            }
        }
        let confirmed = text_of(NotificationKind::OrderConfirmed, "en");
        assert_eq!(confirmed.subject, "Your order order-1002");
        assert!(confirmed.text.contains("2 x shirt  15.00 EUR\n"), "{}", confirmed.text);
        assert!(confirmed.text.ends_with("Total: 19.90 EUR\n"), "{}", confirmed.text);
    }

    #[test]
    fn the_language_that_fits_best_is_used() {
        let subject = |locale| text_of(NotificationKind::PaymentFailed, locale).subject;
        assert_eq!(subject("de-AT"), "Ihre Zahlung wurde abgelehnt");
        assert_eq!(subject("DE_ch"), "Ihre Zahlung wurde abgelehnt");
        assert_eq!(subject("fr"), "Your payment was declined");
    }

    #[test]
    fn a_file_replaces_a_template_and_a_wrong_one_is_named_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let load = || Templates::load(Some(directory.path()));
        write("de-AT/payment_failed.txt", "Subject: Servus, {{ order_id }}\n\nLeider.\n");
        let templates = load().unwrap();
        let kind = NotificationKind::PaymentFailed;
        let subject = |locale| templates.render(kind, Some(locale), &sample(kind)).unwrap().subject;
        assert_eq!(subject("de-at"), "Servus, order-1002");
        assert_eq!(subject("de-CH"), "Ihre Zahlung wurde abgelehnt");
        for (text, wrong) in [
            ("Hello\n", "line 1: must be \"Subject:\""),
            ("Subject: a\n\n{{ order }}\n", "line 3: undefined value"),
            ("Subject: a\n\n\n{% if %}\n", "line 4: syntax error"),
        ] {
            write("en/payment_failed.txt", text);
            let error = load().unwrap_err();
            assert!(error.contains("en/payment_failed.txt: ") && error.contains(wrong), "{error}");
        }
        write("en/payment_failed.txt", "Subject: a\n");
        write("en/order_made.txt", "Subject: a\n");
        assert!(load().unwrap_err().contains("order_made.txt: is no template"));
        fs::remove_file(directory.path().join("en/order_made.txt")).unwrap();
        write("readme.txt", "");
        assert!(load().unwrap_err().contains("is no directory"));
    }

    #[test]
    fn a_line_break_in_a_value_does_not_leave_the_subject() {
        let kind = NotificationKind::PaymentFailed;
        let mut data = sample(kind);
        data["order_id"] = "a\u{2028}b\rc".into();
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("en")).unwrap();
        fs::write(directory.path().join("en/payment_failed.txt"), "Subject: {{ order_id }}\n\ntext\n")
            .unwrap();
        let text = Templates::load(Some(directory.path())).unwrap().render(kind, None, &data).unwrap();
        assert_eq!(text.subject, "a\u{2028}b c");
    }
}
