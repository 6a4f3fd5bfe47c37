use std::fs;

use std::time::Duration;

use belljar_engine::{Clock, Entropy, MountAccess, Rollback};

use crate::{
    ArtifactPolicy, ArtifactScope, BlobPlace, Database, DatasetAccess, DatasetPolicy, StorageKind,
    WorkspacePolicy,
};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "/project")
}

fn policy(text: &str) -> Policy {
    let mut policy = Policy::default();
    parse(text).expect("it is right").change(&mut policy);
    policy
}

/// The message and the hint.
fn refused(text: &str) -> (String, String) {
    match parse(text) {
        Err(error) => (error.to_string(), error.hint().unwrap_or_default()),
        Ok(config) => panic!("{text}: {config:?}"),
    }
}

#[test]
fn nothing_changes_nothing() {
    for nothing in
        ["", "# nothing\n", "[environment]\n[policy]\n[mounts]\n", "[workspace]\n[artifacts]\n[datasets]\n"]
    {
        assert_eq!(policy(nothing), Policy::default());
        assert_eq!(parse(nothing).expect("it is right").packages(), [""; 0]);
    }
}

#[test]
fn a_policy() {
    let policy = policy(
        r#"
        [policy]
        timeout = 1.5
        memory = "1GiB"
        output = 4096
        files = "2MB"
        file_count = 7
        tool_calls = 8
        tool_timeout = "2s"
        tool_bytes = 9
        display_bytes = "1KiB"
        steps = 10
        rollback = "on-error"
        undo = 2
        seed = 42
        cpus = 1.5
        processes = 9
        cpu_time = "3s"
        require = ["seccomp"]
        spill_frames = "1MiB"
        spill_arrays = 2048
        install = true
        [policy.env]
        A = "b"

        [workspace]
        storage = "disk"
        path = "/mnt/threads/{id}"
        skills = ".solven/skills"
        user = "ada"
        ticket = "t-9"
        root = "agents"
        "#,
    );
    let expected = Policy {
        timeout: Some(Duration::from_millis(1500)),
        memory: 1 << 30,
        output: 4096,
        file_bytes: 2_000_000,
        file_count: 7,
        tool_calls: 8,
        tool_timeout: Duration::from_secs(2),
        tool_bytes: 9,
        display_bytes: 1024,
        steps: Some(10),
        rollback: Rollback::OnError,
        undo: 2,
        mounts: Vec::new(),
        env: [("A".to_owned(), "b".to_owned())].into(),
        clock: Clock::Fixed(1_577_836_800_000_000_000),
        entropy: Entropy::Seeded(42),
        inject_setup: true,
        cpus: 1.5,
        processes: 9,
        cpu_time: Some(Duration::from_secs(3)),
        require: ["seccomp".to_owned()].into(),
        spill: belljar_engine::Spill { frame_bytes: 1 << 20, array_bytes: 2048 },
        install: true,
        workspace: WorkspacePolicy {
            storage: StorageKind::Disk,
            path: "/mnt/threads/{id}".to_owned(),
            skills: Some(".solven/skills".to_owned()),
            user: Some("ada".to_owned()),
            ticket: Some("t-9".to_owned()),
            root: Some("/project/agents".into()),
            flat: false,
        },
        artifacts: ArtifactPolicy::default(),
        datasets: DatasetPolicy::default(),
    };
    assert_eq!(policy, expected);
}

#[test]
fn artifacts() {
    let text = r#"
        [artifacts]
        keep = true
        leave = true
        displays = true
        read = "tenant"
        seeded = false
        max_size = "10MiB"
        max_count = "none"
        allow = ["image/*", "text/csv"]
        deny = ["text/html"]
        database = "kept/artifacts.db"
        blobs = "kept/blobs"
        url_base = "https://files.example.com"
        link_life = "12h"
        session_quota = "1GiB"
        session_count = 5
        tenant_quota = "none"
        tenant_count = 6
        total_quota = 7
        total_count = 8
        max_age = "30d"
    "#;
    let expected = ArtifactPolicy {
        keep: true,
        leave: true,
        displays: true,
        read: ArtifactScope::Tenant,
        seeded: false,
        max_bytes: Some(10 << 20),
        max_count: None,
        allow: vec!["image/*".to_owned(), "text/csv".to_owned()],
        deny: vec!["text/html".to_owned()],
    };
    assert_eq!(policy(text).artifacts, expected);
    let mut settings = ArtifactSettings::in_directory("/state");
    let before = settings.clone();
    parse("").expect("it is right").change_artifacts(&mut settings);
    assert_eq!((&settings.limits, settings.link_life), (&before.limits, before.link_life));
    parse(text).expect("it is right").change_artifacts(&mut settings);
    assert_eq!(settings.database, Database::Sqlite("/project/kept/artifacts.db".into()));
    assert!(
        matches!(&settings.blobs, BlobPlace::Directory(path) if *path == Path::new("/project/kept/blobs"))
    );
    assert_eq!(settings.keys, before.keys);
    assert_eq!(settings.base.as_deref(), Some("https://files.example.com"));
    assert_eq!(settings.link_life, Duration::from_secs(12 * 3600));
    let limits = &settings.limits;
    assert_eq!((limits.session_bytes, limits.session_count), (Some(1 << 30), Some(5)));
    assert_eq!((limits.tenant_bytes, limits.tenant_count), (None, Some(6)));
    assert_eq!((limits.total_bytes, limits.total_count), (Some(7), Some(8)));
    assert_eq!(limits.max_age, Some(Duration::from_secs(30 * 86_400)));
    let servers = "[artifacts]\ndatabase = 'postgres://host/db'\nblobs = 's3://bucket/some/prefix'";
    parse(servers).expect("it is right").change_artifacts(&mut settings);
    assert!(matches!(settings.database, Database::Postgres(_)));
    assert!(matches!(&settings.blobs, BlobPlace::S3(place) if place.bucket == "bucket"));
}

#[test]
fn datasets() {
    let text = r#"
        [datasets]
        access = "hybrid"
        directory = "input"
        allow = ["sales"]
        cache_lists = "sessions"
        max_size = "2GiB"
        attempts = 3
        timeout = "10m"
        allow_private = true
    "#;
    let expected = DatasetPolicy {
        access: DatasetAccess::Hybrid,
        directory: Some("/project/input".into()),
        allow: Some(vec!["sales".to_owned()]),
        cache_lists: Some("/project/sessions".into()),
    };
    assert_eq!(policy(text).datasets, expected);
    let mut options = FetchOptions::default();
    parse(text).expect("it is right").change_fetching(&mut options);
    assert_eq!((options.max_bytes, options.attempts), (2 << 30, 3));
    assert_eq!((options.timeout, options.allow_private), (Duration::from_secs(600), true));
}

#[test]
fn a_found_file_gives_nobody_what_others_have() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(Config::NAME);
    for text in [
        "artifacts.read = 'tenant'",
        "artifacts.url_base = 'https://elsewhere.example.com'",
        "[artifacts]\ndatabase = 'postgres://elsewhere/db'\nblobs = './blobs'",
        "[artifacts]\ndatabase = './a.db'\nblobs = 's3://elsewhere/x'",
        "[artifacts]\ndatabase = '../a.db'\nblobs = './blobs'",
        "[artifacts]\ndatabase = 'sqlite:/srv/a.db'\nblobs = './blobs'",
        "[artifacts]\ndatabase = './a.db'\nblobs = '/srv/blobs'",
        "datasets.access = 'api'",
        "datasets.access = 'hybrid'",
        "datasets.directory = '/etc'",
        "datasets.cache_lists = '..'",
        "datasets.allow_private = true",
    ] {
        fs::write(&file, text).expect("written");
        let error = Config::find(directory.path()).expect_err(text);
        assert!(matches!(error, ConfigError::Untrusted { .. }), "{text}: {error}");
        assert!(Config::load(&file).is_ok(), "{text}");
    }
    for text in [
        "artifacts.read = 'session'",
        "[artifacts]\nkeep = false\ndatabase = './a.db'\nblobs = './blobs'",
        "[datasets]\naccess = 'local-ro'\ndirectory = './input'\nallow_private = false",
    ] {
        fs::write(&file, text).expect("written");
        assert!(Config::find(directory.path()).is_ok(), "{text}");
    }
}

#[test]
fn timeouts() {
    for (text, expected) in
        [("30", Some(30)), ("\"30s\"", Some(30)), ("\"30\"", Some(30)), ("\"none\"", None)]
    {
        assert_eq!(policy(&format!("policy.timeout = {text}")).timeout, expected.map(Duration::from_secs));
    }
}

#[test]
fn mounts_of_all_forms() {
    let text = r#"
        [mounts]
        "/a" = "a"
        "/b" = { host = "/b", access = "read-write" }
        "/c" = { host = "./c", access = "ro" }
        [mounts."/d"]
        host = "../d"
        access = "rw"
    "#;
    let found: Vec<_> =
        policy(text).mounts.into_iter().map(|mount| (mount.guest, mount.host, mount.access)).collect();
    let mount = |guest: &str, host: &str, access| (guest.to_owned(), PathBuf::from(host), access);
    assert_eq!(
        found,
        [
            mount("/a", "/project/a", MountAccess::ReadOnly),
            mount("/b", "/b", MountAccess::ReadWrite),
            mount("/c", "/project/./c", MountAccess::ReadOnly),
            mount("/d", "/project/../d", MountAccess::ReadWrite),
        ]
    );
}

#[test]
fn an_environment() {
    let text = r#"
        cache_dir = "cache"
        [environment]
        packages = ["jinja2>=3", "attrs"]
        preload = ["jinja2"]
        setup = "x = 1"
        stdlib = "lib"
        inject_setup = false
        lock = "pylock.toml"
    "#;
    let config = parse(text).expect("it is right");
    assert_eq!(config.cache_dir(), Some(Path::new("/project/cache")));
    assert_eq!(config.packages(), ["jinja2>=3", "attrs"]);
    assert_eq!(config.lock_file(), Some(Path::new("/project/pylock.toml")));
    let environment = config.unlocked_environment().expect("it has no name");
    assert_eq!(environment.packages.len(), 2);
    assert_eq!((environment.preload, environment.setup), (vec!["jinja2".to_owned()], "x = 1".to_owned()));
    assert_eq!(environment.stdlib, Some("/project/lib".into()));
    assert!(!policy(text).inject_setup);
}

#[test]
fn an_engine() {
    let engine = |text: &str| parse(text).expect("it is right").engine().expect("it is trusted");
    assert_eq!(engine(""), None);
    assert_eq!(engine("engine = 'wasm'"), Some(EngineKind::Wasm));
    assert_eq!(engine("engine = 'native'\npython_version = '3.12'"), Some(EngineKind::Native));
    let config = parse("engine = 'native'\n[environment]\npreload = ['json']").expect("it is right");
    assert_eq!(config.unlocked_environment().expect("it has no name").engine, EngineKind::Native);
    let config = config.with_engine(EngineKind::Wasm);
    assert_eq!(config.unlocked_environment().expect("it has no name").engine, EngineKind::Wasm);
    let config = parse("engine = 'native'\npython_version = '3.999'").expect("it is right");
    let error = config.python().expect_err("nobody has it");
    assert!(error.to_string().starts_with("/project/belljar.toml:2:18: there is no python3.999"), "{error}");
    assert!(config.with_engine(EngineKind::Wasm).python().is_ok_and(|python| python.is_none()));
}

#[test]
fn a_found_file_does_not_choose_the_walls() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(Config::NAME);
    fs::write(&file, "engine = 'native'\n").expect("written");
    let found = Config::find(directory.path()).expect("read").expect("it is there");
    let error = found.engine().expect_err("nobody named it");
    assert!(matches!(error, ConfigError::Untrusted { .. }) && error.to_string().contains("--engine native"));
    let said = found.with_engine(EngineKind::Native);
    assert_eq!(said.engine().ok(), Some(Some(EngineKind::Native)));
    let named = Config::load(&file).expect("read");
    assert_eq!(named.engine().ok(), Some(Some(EngineKind::Native)));
    fs::write(&file, "policy.install = true\n").expect("written");
    assert!(matches!(Config::find(directory.path()), Err(ConfigError::Untrusted { .. })));
    assert!(Config::load(&file).is_ok());
}

#[test]
fn set_up_code_in_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("setup.py"), "x = 2").expect("written");
    let text = "environment.setup_file = 'setup.py'";
    let config = Config::parse(text, directory.path()).expect("it is right");
    assert_eq!(config.unlocked_environment().expect("an environment").setup, "x = 2");
    assert!(Config::parse("environment.setup_file = 'other.py'", directory.path()).is_err());
}

#[test]
fn unknown_keys() {
    for (text, message, hint) in [
        ("[polcy]", "1:2: there is no key `polcy` outside of tables", "did you mean `policy`?"),
        (
            "packages = []",
            "1:1: there is no key `packages` outside of tables",
            "`packages` stands in [environment]",
        ),
        (
            "\n[environment]\npackage = []",
            "3:1: there is no key `package` in [environment]",
            "did you mean `packages`?",
        ),
        (
            "[policy]\n  time_out = 3",
            "2:3: there is no key `time_out` in [policy]",
            "did you mean `timeout`?",
        ),
        (
            "[mounts]\n\"/a\" = { hst = \"x\" }",
            "2:10: there is no key `hst` in [mounts./a]",
            "did you mean `host`?",
        ),
        (
            "[mounts.\"/a\"]\nhost = 'x'\nzzz = 1",
            "3:1: there is no key `zzz` in [mounts./a]",
            "known here: `host`, `access`",
        ),
    ] {
        assert_eq!(refused(text), (format!("/project/belljar.toml:{message}"), hint.to_owned()), "{text}");
    }
}

#[test]
fn wrong_values() {
    for (text, message) in [
        ("python_version = \"3.13\"", "1:18: there is no Python 3.13, only 3.14"),
        ("python_version = 3.14", "1:18: `python_version` is 3.14, and must be a text in quotes"),
        ("engine = 'jvm'", "1:10: `engine` is the text \"jvm\", and must be \"wasm\" or \"native\""),
        ("engine = 'native'\npython_version = '2.7'", "2:18: `python_version` is the text \"2.7\""),
        ("engine = 'native'\npython_version = '3.1/x'", "2:18: `python_version` is the text \"3.1/x\""),
        (
            "[policy]\ncpus = 'many'",
            "2:8: `cpus` is the text \"many\", and must be a number such as 0.5 or 2",
        ),
        ("[policy]\nrequire = 'seccomp'", "2:11: `require` is the text \"seccomp\", and must be an array"),
        ("cache_dir = 3", "1:13: `cache_dir` is 3, and must be a text in quotes"),
        ("environment = 3", "1:1: `environment` is an integer, and must be a table"),
        ("[[policy]]", "1:3: `policy` is an array of tables, and must be a table"),
        ("[policy.timeout]", "1:9: `timeout` is a table, and must be a value"),
        ("[policy]\ntimeout = true", "2:11: `timeout` is true, and must be a number of seconds"),
        (
            "[policy]\ntimeout = 'soon'",
            "2:11: `timeout` is the text \"soon\", and must be a number of seconds",
        ),
        ("[policy]\ntimeout = 0", "2:11: `timeout` must be more than 0 seconds"),
        ("[policy]\ntimeout = -1", "2:11: `timeout` must be more than 0 seconds"),
        ("[policy]\ntimeout = nan", "2:11: `timeout` must be more than 0 seconds"),
        ("[policy]\ntool_timeout = 'none'", "2:16: `tool_timeout` is the text \"none\""),
        ("[policy]\nmemory = 'lots'", "2:10: \"lots\" is not a size"),
        ("[policy]\nmemory = -1", "2:10: `memory` is -1, and must be a number of bytes"),
        ("[policy]\nmemory = 1.5", "2:10: `memory` is 1.5, and must be a number of bytes"),
        ("[policy]\nsteps = -1", "2:9: `steps` is -1, and must be a whole number"),
        ("[policy]\nrollback = 'always'", "2:12: `rollback` is the text \"always\", and must be \"on-kill\""),
        ("[policy]\nfiles = 1\nfile_bytes = 1", "3:1: `files` and `file_bytes` cannot both be given"),
        ("[policy]\nenv = { A = 1 }", "2:13: `A` is 1, and must be a text in quotes"),
        ("[environment]\npackages = 'x'", "2:12: `packages` is the text \"x\", and must be an array"),
        ("[environment]\npackages = ['x', 3]", "2:18: `an element of packages` is 3"),
        ("[environment]\npackages = [\n  'x',\n  '>>nonsense']", "4:3: "),
        ("[environment]\npackages = ['./no-such.whl']", "2:13: "),
        ("[environment]\nname = 'w'\npackages = []", "3:1: `name` and `packages` cannot both be given"),
        ("[environment]\npreload = []\nname = 'w'", "2:1: `name` and `preload` cannot both be given"),
        ("[environment]\nsetup = ''\nsetup_file = ''", "3:1: `setup` and `setup_file` cannot both be given"),
        (
            "[environment]\ninject_setup = 'no'",
            "2:16: `inject_setup` is the text \"no\", and must be true or false",
        ),
        ("[mounts]\ndata = 'x'", "2:1: \"data\" is no absolute path of the guest"),
        ("[mounts]\n'/a' = 3", "2:8: `/a` is 3, and must be a text in quotes"),
        ("[mounts]\n'/a' = { access = 'rw' }", "2:1: the mount /a has no `host`"),
        ("[mounts]\n'/a' = { host = 'x', access = 'all' }", "2:31: `access` is the text \"all\""),
        (
            "[artifacts]\nread = 'all'",
            "2:8: `read` is the text \"all\", and must be \"none\", \"session\" or",
        ),
        ("[artifacts]\nkeep = 'yes'", "2:8: `keep` is the text \"yes\", and must be true or false"),
        (
            "[artifacts]\nmax_age = '3 weeks'",
            "2:11: `max_age` is the text \"3 weeks\", and must be a number of",
        ),
        ("[artifacts]\nmax_age = 'ä'", "2:11: `max_age` is the text \"ä\""),
        ("[artifacts]\nlink_life = 'none'", "2:13: `link_life` is the text \"none\""),
        ("[artifacts]\ndatabase = 'a.db'", "2:1: `database` is given without `blobs`"),
        ("[artifacts]\nblobs = 'b'", "2:1: `blobs` is given without `database`"),
        ("[artifacts]\ndatabase = 'mysql://x/y'\nblobs = 'b'", "2:12: "),
        ("[artifacts]\ndatabase = 'a.db'\nblobs = 'ftp://x'", "3:9: `blobs` is the text \"ftp://x\""),
        ("[artifacts]\nallow = 'image/*'", "2:9: `allow` is the text \"image/*\", and must be an array"),
        (
            "[datasets]\naccess = 'API_TMPFS'",
            "2:10: `access` is the text \"API_TMPFS\", and must be \"none\"",
        ),
        ("[datasets]\nattempts = 0", "2:12: `attempts` is 0, and must be a whole number above 0"),
        ("x = ", "1:"),
        ("[policy]\ntimeout = 1\ntimeout = 2", "3:1: "),
        ("ä = 'ö' ß", "1:9: "),
    ] {
        let (found, _) = refused(text);
        let expected = format!("/project/belljar.toml:{message}");
        assert!(found.starts_with(&expected), "{text}:\n{found}\n{expected}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn a_found_file_stays_in_its_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(Config::NAME);
    fs::create_dir(directory.path().join("input")).expect("made");
    std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).expect("linked");
    let find = |text: &str| {
        fs::write(&file, text).expect("written");
        Config::find(directory.path())
    };
    for right in [
        "[mounts]\n'/a' = './input'",
        "[mounts]\n'/a' = './not-yet'",
        "[mounts]\n'/a' = './input/../input'",
        "environment.lock = 'pylock.toml'",
    ] {
        assert!(find(right).is_ok_and(|config| config.is_some()), "{right}");
    }
    let absolute = format!("[mounts]\n'/a' = '{}'", outside.path().display());
    for wrong in [
        absolute.as_str(),
        "[mounts]\n'/a' = '..'",
        "[mounts]\n'/a' = '~'",
        "[mounts]\n'/a' = 'link'",
        "[mounts]\n'/a' = 'link/x'",
        "[mounts]\n'/a' = 'not-yet/../../x'",
        "environment.packages = ['..']",
        "environment.stdlib = '/usr/lib/python3'",
        "environment.lock = '../pylock.toml'",
        "cache_dir = './cache'",
    ] {
        let error = find(wrong).expect_err(wrong);
        assert!(matches!(error, ConfigError::Untrusted { .. }), "{wrong}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--config")));
        assert!(Config::load(&file).is_ok(), "{wrong}");
    }
    fs::remove_file(&file).expect("removed");
    assert!(Config::find(directory.path()).is_ok_and(|config| config.is_none()));
    assert!(matches!(Config::load(&file), Err(ConfigError::Read { .. })));
}

#[test]
fn a_found_file_reads_no_lists_outside() {
    let (directory, secret) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
    fs::write(secret.path().join("secret.txt"), "the secret\n").expect("written");
    let list = format!("-r {}\n", secret.path().join("secret.txt").display());
    fs::write(directory.path().join("requirements.txt"), list).expect("written");
    let text = "[environment]\npackages = ['./requirements.txt']\n";
    fs::write(directory.path().join("belljar.toml"), text).expect("written");
    let error = Config::find(directory.path()).expect_err("it is outside");
    assert!(matches!(error, ConfigError::Untrusted { .. }), "{error}");
    assert!(!error.to_string().contains("the secret"), "{error}");
}
