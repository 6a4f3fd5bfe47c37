use belljar_packages::{PackageError, Spec};

use crate::fixture::Fixture;

#[test]
fn requirements_and_paths_are_told_apart() {
    let fixture = Fixture::new();
    let base = fixture.directory.path();
    let parse = |text: &str| Spec::parse(text, base).unwrap_or_else(|error| panic!("{text}: {error}"));
    for text in [
        "jinja2",
        "jinja2>=3,<4",
        "requests[socks] ; python_version > '3.9'",
        "a @ https://h/a-1-py3-none-any.whl",
    ] {
        assert_eq!(parse(text), Spec::Requirement(text.into()));
    }
    let address = parse("https://h/My_Thing-1-py3-none-any.whl");
    assert_eq!(address, Spec::Requirement("my-thing @ https://h/My_Thing-1-py3-none-any.whl".into()));
    for name in
        ["a-1-py3-none-any.whl", "a.tar.gz", "a.tgz", "a.tar.zst", "requirements.txt", "pyproject.toml"]
    {
        fixture.write(name, "");
    }
    fixture.write("package/__init__.py", "");
    fixture.write("venv/site/a-1.dist-info/METADATA", "");
    let path = |name| fixture.path(name);
    assert_eq!(parse("a-1-py3-none-any.whl"), Spec::Wheel(path("a-1-py3-none-any.whl")));
    assert_eq!(parse("a.tar.gz"), Spec::Archive(path("a.tar.gz")));
    assert_eq!(parse("a.tgz"), Spec::Archive(path("a.tgz")));
    assert_eq!(parse("a.tar.zst"), Spec::Archive(path("a.tar.zst")));
    assert_eq!(parse("requirements.txt"), Spec::Requirements(path("requirements.txt")));
    assert_eq!(parse("pyproject.toml"), Spec::Project(path("pyproject.toml")));
    assert_eq!(parse("./package"), Spec::Directory(path("./package")));
    assert_eq!(parse("venv/site"), Spec::SitePackages(path("venv/site")));
    // A directory of that name doesn't hide the package.
    assert_eq!(parse("package"), Spec::Requirement("package".into()));
}

#[test]
fn what_is_neither_is_explained() {
    let fixture = Fixture::new();
    for (text, at) in [("jinja2 => 3", 8), ("", 1), ("ü", 1), ("a b", 3), ("jinja2 ;", 9)] {
        match Spec::parse(text, fixture.directory.path()) {
            Err(PackageError::Spec { position, .. }) => assert_eq!(position, at, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["missing.whl", "./missing", "missing.tar.gz", "requirements-dev.txt"] {
        let error = Spec::parse(text, fixture.directory.path()).expect_err(text);
        assert!(matches!(error, PackageError::Unreadable { .. }), "{error:?}");
    }
    fixture.write("notes.md", "");
    assert!(
        Spec::parse("./notes.md", fixture.directory.path())
            .expect_err("unknown")
            .to_string()
            .contains(".whl")
    );
}
