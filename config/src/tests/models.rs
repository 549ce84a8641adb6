//! Which model is meant, and who says so.

use super::*;

/// A variable of the process precedes all settings; one in `env` counts where its file does, before the file's setting.
#[test]
fn variables_for_the_model_count_in_the_order_of_the_layers() {
    const USER: &str = ".ah/settings.json";
    const PROJECT: &str = "project/.ah/settings.json";
    let of_env =
        r#"{"env": {"ANTHROPIC_MODEL": "of-env", "MAX_THINKING_TOKENS": "5"}, "model": "m"}"#;
    let of_setting = r#"{"model": "of-setting", "maxThinkingTokens": 7}"#;
    let set = |name: &str| (name.to_owned(), format!("of-{name}"));
    for (files, variables, expected) in [
        (vec![], vec![], r#""opus" (built in)"#),
        (
            vec![],
            vec!["ANTHROPIC_MODEL"],
            r#""of-ANTHROPIC_MODEL" (ANTHROPIC_MODEL)"#,
        ),
        (
            vec![],
            vec!["ANTHROPIC_MODEL", "AH_MODEL"],
            r#""of-AH_MODEL" (AH_MODEL)"#,
        ),
        (
            vec![(USER, of_setting)],
            vec!["AH_MODEL"],
            r#""of-AH_MODEL" (AH_MODEL) 7"#,
        ),
        (
            vec![(USER, of_env)],
            vec![],
            r#""of-env" (~/.ah/settings.json) 5"#,
        ),
        (
            vec![(USER, of_env), (PROJECT, of_setting)],
            vec![],
            r#""of-setting" (~/project/.ah/settings.json) 7"#,
        ),
        (
            vec![(USER, of_setting), (PROJECT, of_env)],
            vec![],
            r#""of-env" (~/project/.ah/settings.json) 5"#,
        ),
    ] {
        let mut world = World::new(&files);
        world
            .variables
            .extend(variables.iter().map(|name| set(name)));
        let trusting = overrides(|overrides| overrides.trust = Some(Reason::Option));
        let config = world
            .resolve("project", &trusting, Interface::Native)
            .unwrap();
        let (model, thinking) = (&config.model, &config.requests.max_thinking_tokens);
        let home = format!("{}/", world.path("").display()).replace("//", "/");
        let origin = model.origin.to_string().replace(&home, "~/");
        let mut shown = format!("{:?} ({origin})", model.value);
        if let Some(thinking) = thinking {
            shown.push_str(&format!(" {}", thinking.value));
        }
        assert_eq!(shown, expected, "{files:?} {variables:?}");
    }
    let world = World::new(&[]).with("MAX_THINKING_TOKENS", "many");
    let error = world
        .resolve("project", &Overrides::default(), Interface::Native)
        .unwrap_err();
    assert_eq!(
        error.message,
        "MAX_THINKING_TOKENS is `many`, which is not a number of tokens"
    );
}

#[test]
fn variables_say_what_an_alias_stands_for() {
    let list = r#"{"models": {"litellm/team": {"context_window": 9}}}"#;
    let world = World::new(&[
        (
            ".ah/models.json",
            r#"{"aliases": {"opus": "mine", "sonnet": "mine"}}"#,
        ),
        (".ah/models/litellm.json", list),
    ])
    .with("ANTHROPIC_DEFAULT_OPUS_MODEL", "glm-5");
    let config = world
        .resolve("project", &Overrides::default(), Interface::Native)
        .unwrap();
    let catalog = config.catalog().unwrap();
    assert_eq!(catalog.resolve("opus"), "glm-5");
    assert_eq!(catalog.resolve("sonnet"), "mine");
    assert_eq!(
        config.alias_variable("opus"),
        Some("ANTHROPIC_DEFAULT_OPUS_MODEL")
    );
    assert_eq!(config.alias_variable("sonnet"), None);
    assert_eq!(catalog.entry("litellm", "team").context_window, 9);
}
