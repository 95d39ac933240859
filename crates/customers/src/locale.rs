//! The form of language tags (BCP 47, RFC 5646): whether a text is well-formed, without the registry of subtags.

/// Longest language tag, in bytes. RFC 5646 asks for at least 35.
pub(crate) const TAG_BYTES: usize = 35;
/// Longest subtag.
const SUBTAG_BYTES: usize = 8;

/// Whether a text has the form of a language tag: a language of 2 to 8 letters, and then subtags of 1 to 8 letters and digits. A
/// subtag of one character announces others, so it is never the last.
pub(crate) fn is_language_tag(text: &str) -> bool {
    if text.len() > TAG_BYTES {
        return false;
    }
    let mut subtags = text.split('-');
    let language = subtags.next().unwrap_or_default();
    if !(2..=SUBTAG_BYTES).contains(&language.len())
        || !language.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        return false;
    }
    let mut last = language;
    for subtag in subtags {
        let fits = (1..=SUBTAG_BYTES).contains(&subtag.len());
        if !fits || !subtag.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return false;
        }
        last = subtag;
    }
    last.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_tag_has_the_form_of_bcp_47() {
        for good in ["en", "de-CH", "zh-Hant-TW", "sl-rozaj-biske", "de-1996", "en-x-shop", "es-419", "gsw"] {
            assert!(is_language_tag(good), "{good}");
        }
        let long = format!("en{}", "-abcdefgh".repeat(4));
        for bad in [
            "",
            "e",
            "en_US",
            "en-",
            "-en",
            "en--US",
            "e1",
            "en-US-x",
            "en US",
            "deutschland",
            "\u{e9}n",
            &long,
        ] {
            assert!(!is_language_tag(bad), "{bad}");
        }
    }
}
