//! Mail and push messages to buyers: the table `[notifications]`.

use crate::secret::SecretText;
use crate::values::Value;
use serde::Serialize;
use std::path::PathBuf;
use stockhold_notify::{NotifierOptions, PushOptions, SmtpOptions};

/// The members of `[notifications]`.
pub(crate) const NOTIFICATION_KEYS: [&str; 4] = ["template_dir", "expiry", "smtp", "push"];
/// The members of `[notifications.smtp]`.
pub(crate) const SMTP_KEYS: [&str; 3] = ["url", "from", "ehlo_name"];
/// The members of `[notifications.push]`.
pub(crate) const PUSH_KEYS: [&str; 2] = ["api_base", "service_account_file"];
/// The variable that sets `notifications.smtp.url`, which may have a password.
pub(crate) const SMTP_URL_VARIABLE: &str = "NOTIFICATIONS_SMTP_URL";

/// How buyers are notified.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NotificationSettings {
    /// The directory of templates that replace the built-in ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_dir: Option<PathBuf>,
    /// Whether buyers are notified that a reservation has expired.
    pub expiry: bool,
    /// How mail is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smtp: Option<SmtpSettings>,
    /// How push messages are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<PushSettings>,
}

/// How mail is sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SmtpSettings {
    /// The address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretText>,
    /// Who the mail comes from.
    pub from: String,
    /// The name that the server greets the mail server with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ehlo_name: Option<String>,
}

/// How push messages are sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PushSettings {
    /// The address of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_base: Option<String>,
    /// The file with the key of the service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_file: Option<PathBuf>,
}

/// Refuses what can't stand in a greeting.
fn checked_ehlo_name(name: String) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '[' | ']' | ':');
    let fits = (1..=255).contains(&name.len()) && name.chars().all(is_name);
    if fits { Ok(name) } else { Err("must be the name of a host, such as shop.example".to_owned()) }
}

impl NotificationSettings {
    /// Sets a member that is no table.
    pub(crate) fn set(&mut self, member: &str, value: &Value) -> Result<(), String> {
        match member {
            "template_dir" => self.template_dir = Some(value.text()?.into()),
            _ => self.expiry = value.flag()?,
        }
        Ok(())
    }

    /// Sets a member of `smtp`.
    pub(crate) fn set_smtp(&mut self, member: &str, value: &Value) -> Result<(), String> {
        let smtp = self.smtp.get_or_insert_default();
        match member {
            "url" => smtp.url = Some(SecretText::new(value.secret()?)),
            "ehlo_name" => smtp.ehlo_name = Some(checked_ehlo_name(value.text()?)?),
            _ => smtp.from = value.text()?,
        }
        Ok(())
    }

    /// Sets a member of `push`.
    pub(crate) fn set_push(&mut self, member: &str, value: &Value) -> Result<(), String> {
        let push = self.push.get_or_insert_default();
        match member {
            "api_base" => push.api_base = Some(value.text()?),
            _ => push.service_account_file = Some(value.text()?.into()),
        }
        Ok(())
    }

    /// What the server sends notifications with. `None` if there is no way to send any.
    pub(crate) fn options(&self) -> Result<Option<NotifierOptions>, String> {
        let smtp = self.smtp.as_ref().map(|smtp| {
            let needs = |what: &str| format!("notifications.smtp: needs {what}");
            let url = smtp.url.as_ref().ok_or_else(|| needs("url, or STOCKHOLD_NOTIFICATIONS_SMTP_URL"))?;
            if smtp.from.is_empty() {
                return Err(needs("from: who the mail comes from, such as \"Shop <orders@shop.example>\""));
            }
            Ok(SmtpOptions {
                url: url.expose().to_owned(),
                from: smtp.from.clone(),
                ehlo_name: smtp.ehlo_name.clone(),
            })
        });
        let push = self.push.as_ref().map(|push| {
            let file = push.service_account_file.clone();
            let file = file.ok_or("notifications.push: needs service_account_file")?;
            Ok::<_, String>(PushOptions { api_base: push.api_base.clone(), service_account_file: file })
        });
        let options = NotifierOptions {
            template_dir: self.template_dir.clone(),
            expiry: self.expiry,
            smtp: smtp.transpose()?,
            push: push.transpose()?,
        };
        Ok((options.smtp.is_some() || options.push.is_some()).then_some(options))
    }
}
