//! Seeded bugs are patches and stay out of the product.

use crate::tree::{check, files, root, sources};
use std::process::Command;

#[test]
fn every_patch_applies_and_names_crates_that_exist() {
    let patches = files(&root().join("xtask/bugs"), ".patch");
    assert!(!patches.is_empty());
    for patch in patches {
        let output = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .env_remove("GIT_DIR")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} no longer applies: {stderr}", patch.display());
        let text = std::fs::read_to_string(&patch).unwrap();
        let crates = text.lines().find_map(|line| line.strip_prefix("Caught-by: ")).unwrap_or_default();
        assert!(!crates.is_empty(), "{}: no line `Caught-by: `", patch.display());
        for name in crates.split_whitespace() {
            let folder = root().join("crates").join(name.trim_start_matches("stockhold-"));
            assert!(folder.is_dir(), "{}: no crate {name}", patch.display());
        }
    }
}

#[test]
fn no_product_file_knows_of_a_seeded_bug() {
    let seeds = |text: &str| {
        text.match_indices(concat!("bug", "!(")).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
    };
    let found = sources().into_iter().filter(|source| seeds(&source.text));
    check("seeded bug", &found.map(|source| source.place().display().to_string()).collect());
}
