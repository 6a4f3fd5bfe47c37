//! `SESSION_STORAGE`, `DATASET_ACCESS` and what belongs to them.

use super::artifacts::Home;

/// What is in a session on one of the four paths: reads its data, writes a file and an artifact.
fn program(data: &str) -> String {
    format!(
        "from pathlib import Path\n\
         Path('/session/artifacts').mkdir(parents=True, exist_ok=True)\n\
         data = Path('{data}/prices.parquet').read_bytes()\n\
         Path('/session/notes.txt').write_text('seen')\n\
         Path('/session/artifacts/reversed.bin').write_bytes(data[::-1])\n\
         print(len(data), 'bytes')\n"
    )
}

const PRICES: &str = "PAR1 not really parquet PAR1";

fn on_path(storage: &str, access: &str, engine: &str) {
    let mut home = Home::new();
    home.set("SESSION_STORAGE", storage);
    home.set("DATASET_ACCESS", access);
    home.write("inputs/prices.parquet", PRICES);
    let about = format!("{storage} {access} {engine}");
    let staged = access == "API_TMPFS";
    let data = match staged {
        true => "/session/data",
        false => {
            home.set("DATASETS_HOST_RO", "./inputs");
            "/data"
        }
    };
    home.told(&["session", "create", "sid", "--engine", engine]);
    if staged {
        home.told(&["dataset", "add", "prices", "inputs/prices.parquet"]);
        home.told(&["dataset", "stage", "prices", "--session", "sid"]);
        home.told(&["dataset", "stage", "prices", "--session", "sid"]);
    }
    let ran = home.done(&["run", "--session", "sid", "-c", &program(data)]);
    assert_eq!(ran.stdout, format!("{} bytes\n", PRICES.len()), "{about}: {ran:?}");
    assert!(
        ran.stderr.contains(" reversed.bin ") && ran.stderr.starts_with("artifact art_"),
        "{about}: {ran:?}"
    );
    // State stays, and what was ingested is gone from the session.
    let code =
        "import os; print(len(data), open('/session/notes.txt').read(), os.listdir('/session/artifacts'))";
    let again = home.told(&["run", "--session", "sid", "-c", code]);
    assert_eq!(again, format!("{} seen []\n", PRICES.len()), "{about}");
    // Where things are on the host.
    assert_eq!(home.has("sessions/sid/notes.txt"), storage == "BIND", "{about}");
    assert_eq!(home.has("sessions/sid/cache_datasets.txt"), staged, "{about}");
    if staged {
        assert_eq!(home.read("sessions/sid/cache_datasets.txt"), "prices\n", "{about}");
    }
    assert!(home.has("artifacts.db") && home.has("blobstore"), "{about}");
    let found = home.json(&["artifact", "ls"])["artifacts"][0].clone();
    assert_eq!((&found["name"], &found["session"]), (&"reversed.bin".into(), &"sid".into()), "{about}");
    let contents = home.told(&["artifact", "get", found["id"].as_str().unwrap()]);
    assert_eq!(contents, PRICES.chars().rev().collect::<String>(), "{about}");
    // The data can't be changed.
    let write = format!("open('{data}/prices.parquet', 'a').write('x')");
    assert_eq!(home.belljar(&["run", "--session", "sid", "-c", &write]).status, 1, "{about}");
    assert_eq!(home.read("inputs/prices.parquet"), PRICES, "{about}");
    // One that nobody named.
    if !staged {
        assert_eq!(
            home.done(&["run", "--engine", engine, "-c", &program(data)]).stdout,
            ran.stdout,
            "{about}"
        );
    }
}

fn engines() -> &'static [&'static str] {
    if super::native::runs_here() { &["wasm", "native"] } else { &["wasm"] }
}

#[test]
fn bind_local() {
    for engine in engines() {
        on_path("BIND", "LOCAL_RO", engine);
    }
}

#[test]
fn tmpfs_local() {
    for engine in engines() {
        on_path("TMPFS", "LOCAL_RO", engine);
    }
}

#[test]
fn tmpfs_api() {
    for engine in engines() {
        on_path("TMPFS", "API_TMPFS", engine);
    }
}

#[test]
fn bind_api() {
    for engine in engines() {
        on_path("BIND", "API_TMPFS", engine);
    }
}

#[test]
fn a_file_of_variables_is_for_the_command_only() {
    let home = Home::new();
    home.write(
        "example.env",
        "# example.env\n\n# --- Core knobs ---\nSESSION_STORAGE=BIND        # TMPFS | BIND\n\
         DATASET_ACCESS=API_TMPFS     # API_TMPFS | LOCAL_RO\n\nSESSIONS_ROOT=./threads\nBLOBSTORE_DIR=./blobs\n\
         ARTIFACTS_DB=./meta.db\n# DATASETS_HOST_RO=./example_llm_data\nSANDBOX_IMAGE=sandbox:latest\n\
         TMPFS_SIZE_MB=1024\nAPI_TOKEN=hush-hush\n",
    );
    let file = ["--env-file", "example.env"];
    let code = "import os; open('artifacts/x', 'w').write('1'); open('y', 'w').write('2')\nprint(sorted(os.environ))";
    let ran = home.done(&[&["run", "--session", "sid", "-c", code][..], &file].concat());
    assert_eq!(ran.stdout, "['HOME', 'PWD']\n");
    assert!(
        home.has("threads/sid/y") && home.has("meta.db") && home.has("blobs") && !home.has("artifacts.db")
    );
    assert_eq!(
        home.json(&[&["artifact", "ls"][..], &file].concat())["artifacts"].as_array().unwrap().len(),
        1
    );
    assert_eq!(home.json(&["artifact", "ls"])["artifacts"].as_array().unwrap().len(), 0);
    // The session remembers where its files are.
    assert_eq!(home.told(&["files", "cat", "--session", "sid", "y"]), "2");
    assert_eq!(home.told(&["run", "--session", "sid", "-c", "print(open('y').read())"]), "2\n");
    // The environment beats the file, and the command line both.
    let mut other = Home::new();
    other.write("example.env", &home.read("example.env"));
    other.set("SESSION_STORAGE", "TMPFS");
    other.done(&[&["run", "--session", "a", "-c", code][..], &file].concat());
    assert!(!other.has("threads/a/y") && other.has("meta.db"));
    other.done(
        &[&["run", "--session", "b", "--storage", "disk", "--workspace-root", "root", "-c", code][..], &file]
            .concat(),
    );
    assert!(other.has("root/threads/b/y"));
    other.refused(&["run", "--env-file", "missing.env", "-c", ""], 2, &["missing.env", "--env-file names"]);
    other.write("bad.env", "A=1\nnot a variable\n");
    other.refused(&["run", "--env-file", "bad.env", "-c", ""], 2, &["bad.env", "line 2"]);
}

#[test]
fn values_that_make_no_sense_are_named() {
    for (name, value, hint) in [
        ("SESSION_STORAGE", "DISK", "SESSION_STORAGE=TMPFS or BIND"),
        ("SESSION_STORAGE", "bind", "SESSION_STORAGE=TMPFS or BIND"),
        ("DATASET_ACCESS", "API", "API_TMPFS, LOCAL_RO, HYBRID or NONE"),
        ("TMPFS_SIZE_MB", "much", "TMPFS_SIZE_MB=1024"),
        ("TMPFS_SIZE_MB", "0", "TMPFS_SIZE_MB=1024"),
        ("SANDBOX_IMAGE", "nobody-made-it", "belljar env ls"),
        ("SANDBOX_IMAGE", "registry/x:1.2", "belljar env ls"),
    ] {
        let mut home = Home::new();
        home.set("SESSION_STORAGE", "TMPFS");
        home.set(name, value);
        let named = value.split(':').next().unwrap();
        home.refused(&["run", "-c", "print(1)"], 2, &[named, hint]);
    }
    let mut home = Home::new();
    home.set("DATASET_ACCESS", "LOCAL_RO");
    home.refused(&["run", "-c", "print(1)"], 2, &["DATASETS_HOST_RO"]);
    home.write("here/x", "1");
    assert_eq!(home.told(&["run", "--datasets", "here", "-c", "print(open('/data/x').read())"]), "1\n");
    home.set("DATASETS_HOST_RO", "./missing");
    home.refused(&["run", "-c", "print(1)"], 2, &["missing"]);
}

#[test]
fn they_beat_the_file_and_are_beaten_by_the_command_line() {
    let mut home = Home::new();
    home.write(
        "belljar.toml",
        "[workspace]\nstorage = 'disk'\nquota = '5MiB'\n[artifacts]\ndatabase = 'f.db'\nblobs = 'f'\n",
    );
    home.set("SESSION_STORAGE", "TMPFS");
    home.set("TMPFS_SIZE_MB", "1");
    let code = "open('artifacts/x', 'w').write('1')\nopen('large', 'wb').write(bytes(2 << 20))";
    let ended = home.belljar(&["run", "--session", "s", "-c", code]);
    assert!(ended.status != 0 && ended.stderr.contains("--quota"), "{ended:?}");
    assert_eq!(home.belljar(&["run", "--session", "t", "--quota", "4MiB", "-c", code]).status, 0);
    assert!(home.has("artifacts.db") && !home.has("f.db"));
    assert_eq!(
        home.belljar(&["run", "--session", "u", "--dataset-access", "none", "-c", "datasets"]).status,
        1
    );
    assert_eq!(home.belljar(&["run", "--session", "v", "-c", "datasets"]).status, 0);
}

#[test]
fn an_image_is_an_environment() {
    let mut home = Home::new();
    home.done(&["env", "create", "py-sandbox", "--preload", "colorsys"]);
    home.set("DATASET_ACCESS", "NONE");
    let code = "import sys; print('colorsys' in sys.modules)";
    assert_eq!(home.told(&["run", "-c", code]), "False\n");
    home.set("SANDBOX_IMAGE", "py-sandbox:latest");
    assert_eq!(home.told(&["run", "-c", code]), "True\n");
    home.set("SANDBOX_IMAGE", "sandbox:latest");
    assert_eq!(home.told(&["run", "-c", code]), "False\n");
    home.done(&["env", "create", "sandbox", "--preload", "colorsys"]);
    assert_eq!(home.told(&["run", "-c", code]), "True\n");
}
