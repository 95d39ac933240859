//! `stockhold ctl notify`: what buyers are notified. It asks no server.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use stockhold_config::exit;
use stockhold_notify::{FALLBACK_LOCALE, NotificationKind, Templates, sample};

#[derive(Subcommand)]
pub(super) enum NotifyCommand {
    /// Show notifications as buyers get them, with example values. Asks no server
    ///
    ///   stockhold ctl notify preview order_confirmed --locale de
    ///   stockhold ctl notify preview --template-dir /etc/stockhold/templates
    #[command(verbatim_doc_comment)]
    Preview(PreviewArgs),
}

#[derive(Args)]
pub(super) struct PreviewArgs {
    /// The kind of the notification [default: all]
    #[arg(value_parser = kind)]
    kind: Option<NotificationKind>,
    /// The buyer's language
    #[arg(long, value_name = "LOCALE", default_value = FALLBACK_LOCALE)]
    locale: String,
    /// The directory of your templates: the `template_dir` of `[notifications]`
    #[arg(long, value_name = "DIR")]
    template_dir: Option<PathBuf>,
}

fn kind(text: &str) -> Result<NotificationKind, String> {
    let kinds = || NotificationKind::ALL.map(NotificationKind::name).join(", ");
    NotificationKind::from_name(text).ok_or_else(|| format!("the kinds are {}", kinds()))
}

impl NotifyCommand {
    /// Shows what was asked for.
    pub(super) fn run(&self) -> ExitCode {
        let Self::Preview(PreviewArgs { kind, locale, template_dir }) = self;
        let shown = Templates::load(template_dir.as_deref()).and_then(|templates| {
            let kinds =
                NotificationKind::ALL.into_iter().filter(|known| kind.is_none_or(|kind| kind == *known));
            for known in kinds {
                let text = templates.render(known, Some(locale), &sample(known))?;
                println!("--- {}\nSubject: {}\n\n{}", known.name(), text.subject, text.text);
            }
            Ok(())
        });
        match shown {
            Ok(()) => ExitCode::from(exit::DONE),
            Err(why) => exit::because(exit::USAGE, why),
        }
    }
}
