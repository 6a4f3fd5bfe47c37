use belljar_packages::{Lock, PackageError, Spec};

use crate::fixture::{Fixture, sha256};

const HEAD: &str = "lock-version = '1.0'\ncreated-by = 'pip'\n";

fn parse(packages: &str) -> Result<Lock, PackageError> {
    Lock::parse(&format!("{HEAD}{packages}"))
}

fn wheel(name: &str, tags: &str, digit: &str) -> String {
    let hash = digit.repeat(64);
    format!("{{ url = 'https://h.example/{name}-1.0-{tags}.whl', hashes = {{ sha256 = '{hash}' }} }},")
}

fn package(name: &str, wheels: &[String]) -> String {
    format!("[[packages]]\nname = '{name}'\nversion = '1.0'\nwheels = [{}]\n", wheels.concat())
}

#[test]
fn markers_decide_and_other_platforms_do_not_count() {
    let pure = package("a", &[wheel("a", "py3-none-any", "1")]);
    let windows = package("b", &[wheel("b", "py3-none-any", "2")]) + "marker = \"sys_platform == 'win32'\"\n";
    let lock = parse(&format!("{pure}{windows}")).expect("a lock");
    assert_eq!(lock.packages().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(lock.id(), parse(&pure).expect("a lock").id());
    let other = package("a", &[wheel("a", "py3-none-any", "3")]);
    assert_ne!(lock.id(), parse(&other).expect("a lock").id());
    let odd = pure + "marker = 'nonsense'\n";
    assert!(parse(&odd).expect_err("no marker").to_string().contains("marker"));
}

#[test]
fn the_wheel_that_fits_best_is_taken() {
    let linux = wheel("markupsafe", "cp314-cp314-manylinux_2_17_x86_64", "1");
    let windows = wheel("markupsafe", "cp314-cp314-win_amd64", "2");
    let wasi = wheel("markupsafe", "cp314-cp314-wasi_0_0_wasm32", "3");
    let id = |wheels: &[String]| parse(&package("markupsafe", wheels)).expect("a lock").id();
    let native = id(&[linux.clone(), windows.clone(), wasi.clone()]);
    assert_eq!(native, id(&[wasi]));
    let lock = parse(&package("MarkupSafe", &[windows, linux])).expect("a lock");
    let package = lock.packages().next().expect("a package");
    assert!(package.without_native && package.name == "markupsafe");
}

#[test]
fn packages_that_the_guest_cannot_have() {
    let error = parse(&package("numpy", &[wheel("numpy", "cp314-cp314-manylinux_2_17_x86_64", "1")]))
        .expect_err("native");
    assert!(matches!(error, PackageError::Native { .. }), "{error:?}");
    assert!(error.to_string().contains("numpy 1.0") && error.to_string().contains("manylinux"), "{error}");
    assert!(error.hint().expect("a hint").contains("--engine native"));
    let digest = "1".repeat(64);
    for (source, word) in [
        (format!("sdist = {{ url = 'https://h/a.tar.gz', hashes = {{ sha256 = '{digest}' }} }}"), "source"),
        ("vcs = { type = 'git', url = 'https://h/a', commit-id = '1' }".to_owned(), "repository"),
        (format!("archive = {{ path = 'a-1.tar.gz', hashes = {{ sha256 = '{digest}' }} }}"), "archive"),
    ] {
        let error = parse(&format!("[[packages]]\nname = 'a'\nversion = '1.0'\n{source}\n")).expect_err(word);
        assert!(matches!(error, PackageError::Form { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn all_native_packages_are_named() {
    let linux = |name: &str| package(name, &[wheel(name, "cp314-cp314-manylinux2014_x86_64", "1")]);
    let windows = wheel("pandas", "cp314-cp314-win32", "1") + &wheel("pandas", "cp314-cp314-win_amd64", "2");
    let error = parse(&format!("{}{}", linux("numpy"), package("pandas", &[windows]))).expect_err("native");
    assert!(matches!(error, PackageError::Natives { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .ends_with("numpy 1.0 (its wheels are for manylinux); pandas 1.0 (its wheels are for windows)"),
        "{error}"
    );
    assert!(error.hint().expect("a hint").contains("`--engine native`"));
}

#[test]
fn wheels_for_other_versions_of_python() {
    for tags in ["cp312-cp312-win_amd64", "py2-none-any", "cp313-cp313-manylinux_2_17_x86_64"] {
        let error = parse(&package("a", &[wheel("a", tags, "1")])).expect_err(tags);
        assert!(matches!(error, PackageError::OtherPython { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("a 1.0") && message.ends_with("for other versions of Python"), "{message}");
    }
}

#[test]
fn what_a_lock_lacks() {
    let lock = parse(&package("six", &[wheel("six", "py3-none-any", "1")])).expect("a lock");
    let lacks = |text: &str| lock.lacks(&Spec::Requirement(text.into()));
    for text in [
        "six",
        "Six==1",
        "six[extra]>=0.9,<2",
        "six~=1.0",
        "six==2; sys_platform == 'win32'",
        "absent ; python_version < '3'",
        "six @ https://h.example/six-1.0.0-py3-none-any.whl",
    ] {
        assert_eq!(lacks(text), None, "{text}");
    }
    for (text, wanted) in [
        ("six==1.16", "six==1.16"),
        ("six>1 ; python_version > '3'", "six>1"),
        ("six @ https://h.example/six-2-py3-none-any.whl", "six @ https://h.example/six-2-py3-none-any.whl"),
    ] {
        let lacking = lacks(text).expect(text);
        assert_eq!((lacking.package.as_str(), lacking.found.as_deref()), ("six", Some("1.0")));
        assert_eq!(lacking.wanted, wanted);
    }
    let absent = lacks("Zope.Interface").expect("absent");
    assert_eq!((absent.package.as_str(), absent.found), ("zope-interface", None));
    assert_eq!(lock.lacks(&Spec::Wheel("x/six-1.0-py3-none-any.whl".into())), None);
    let other = lock.lacks(&Spec::Wheel("x/six-2.0-py3-none-any.whl".into())).expect("another");
    assert_eq!(other.wanted, "six==2.0");
}

#[test]
fn what_is_no_lock() {
    for (text, word) in [
        ("", "lock-version"),
        ("lock-version = '1.0'\n[[packages]\n", "line 2"),
        ("lock-version = '2.0'\n", "version"),
        ("lock-version = '1.0'\nrequires-python = '<3.14'\n", "3.14"),
        ("lock-version = '1.0'\n[[packages]]\nname = '../x'\nwheels = []\n", "name"),
        (
            "lock-version = '1.0'\n[[packages]]\nname = 'a'\nwheels = [{ url = 'https://h/a-1-py3-none-any.whl' }]\n",
            "SHA-256",
        ),
    ] {
        let error = Lock::parse(text).expect_err(text);
        assert!(matches!(error, PackageError::Lock { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{text}: {error}");
    }
    // The name can't make a wheel of something that would be built.
    let hidden = "[[packages]]\nname = 'a'\nwheels = [{ name = 'a-1-py3-none-any.whl', url = 'https://h/a.tar.gz' }]\n";
    assert!(matches!(parse(hidden), Err(PackageError::Native { .. })));
    let twice = package("a", &[wheel("a", "py3-none-any", "1")]).repeat(2);
    assert!(parse(&twice).expect_err("twice").to_string().contains("twice"));
    let address = "[[packages]]\nname = 'a'\nwheels = [{ url = \"https://h/\\n--index-url=https://evil/a-1-py3-none-any.whl\", \
        hashes = { sha256 = 'HASH' } }]\n";
    assert!(
        parse(&address.replace("HASH", &"1".repeat(64)))
            .expect_err("two lines")
            .to_string()
            .contains("address")
    );
}

#[test]
fn relative_paths_begin_where_the_lock_is() {
    let fixture = Fixture::new();
    let wheel = fixture.wheel("a", "1", &[("a.py", b"")]);
    fixture.write("project/pyproject.toml", "[project]\nname = 'p'\nversion = '1'\n");
    fixture.write("project/src/p.py", "");
    let hash = sha256(&std::fs::read(&wheel).expect("read"));
    let text = format!(
        "{HEAD}[[packages]]\nname = 'a'\nversion = '1'\n\
         wheels = [{{ path = 'wheels/a-1-py3-none-any.whl', hashes = {{ sha256 = '{hash}' }} }}]\n\
         [[packages]]\nname = 'p'\ndirectory = {{ path = 'project' }}\n"
    );
    let lock = Lock::parse_in(&text, fixture.directory.path()).expect("a lock");
    let site = fixture
        .resolver
        .install(&lock, &belljar_packages::NoBytecode, &belljar_runtime::Quiet)
        .expect("installed");
    assert!(site.directory.join("a.py").is_file() && site.directory.join("p.py").is_file());
    assert_eq!(lock.text(), text);
    // Written elsewhere, it leads back.
    let elsewhere = lock.text_in(&fixture.path("other"));
    let directory = fixture.directory.path().display();
    assert!(elsewhere.contains(&format!("\"{directory}/project\"")), "{elsewhere}");
    assert_eq!(Lock::parse_in(&elsewhere, &fixture.path("other")).expect("a lock").id(), lock.id());
}
