//! What goes into cells.

use std::net::TcpListener;
use std::thread;

use super::artifacts::Home;
use super::*;

const SALES: &str = "month,eur\n1,10\n";
/// Of that.
const HASH: &str = "314d2da582edfc7232203ed859c6278df2140e889ef3756ac0b520de9b6f366c";

fn names(document: &Value) -> Vec<String> {
    let all = document["datasets"].as_array().unwrap();
    all.iter()
        .map(|one| format!("{}@{}", one["name"].as_str().unwrap(), one["version"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_dataset_is_added_fetched_staged_and_forgotten() {
    let home = Home::new();
    home.write("sales.csv", SALES);
    assert!(home.told(&["dataset", "ls"]).contains("no datasets"));
    let added = home.told(&[
        "dataset",
        "add",
        "sales",
        "sales.csv",
        "--sha256",
        HASH,
        "--description",
        "of all shops",
    ]);
    assert!(added.starts_with("sales@latest: data/sales.csv, from /"), "{added}");
    assert_eq!(home.json(&["dataset", "add", "sales", "sales.csv", "--version", "2024"])["version"], "2024");
    assert_eq!(names(&home.json(&["dataset", "ls"])), ["sales@latest", "sales@2024"]);
    let listed = home.told(&["dataset", "ls"]);
    assert!(listed.contains("never") && listed.contains("sales.csv"), "{listed}");
    let shown = home.told(&["dataset", "show", "sales@latest"]);
    assert!(shown.contains("of all shops") && shown.contains(HASH), "{shown}");
    let first = home.told(&["dataset", "fetch", "sales@latest"]);
    assert_eq!(first, format!("sales@latest: fetched, 15 B, sha256 {HASH}\n"));
    assert!(home.told(&["dataset", "fetch", "sales@latest"]).contains("here already"));
    assert_eq!(home.json(&["dataset", "fetch", "sales@latest"])["fetched"][0]["was_cached"], true);
    // Into a session that may have it.
    home.told(&["session", "create", "work", "--dataset-access", "api"]);
    assert_eq!(
        home.told(&["dataset", "stage", "sales@2024", "--session", "work"]),
        "sales@2024: data/sales.csv, 15 B\n"
    );
    assert_eq!(
        home.json(&["dataset", "stage", "sales@2024", "--session", "work"])["staged"][0]["sha256"],
        HASH
    );
    assert_eq!(
        home.told(&["run", "--session", "work", "-c", "print(open('data/sales.csv').readline())"]),
        "month,eur\n\n"
    );
    let code = "print([one['id'] for one in datasets.list() if one['staged']], datasets.path('sales'))";
    let told = home.told(&["run", "--session", "work", "-c", code]);
    assert!(told.starts_with("['sales']") && told.contains("sales.csv"), "{told}");
    // What is in the cache is checked.
    assert_eq!(home.told(&["dataset", "verify", "sales@2024"]), "sales@2024: intact\n");
    assert_eq!(home.json(&["dataset", "verify"])["datasets"].as_array().unwrap().len(), 2);
    // Forgotten, but not by the session that has it.
    assert_eq!(home.told(&["dataset", "rm", "sales", "--version", "latest"]), "sales@latest: removed\n");
    assert_eq!(home.json(&["dataset", "rm", "sales"])["removed"], "sales");
    assert_eq!(home.json(&["dataset", "gc"])["contents"], 0);
    assert_eq!(
        home.told(&["run", "--session", "work", "-c", "print(open('data/sales.csv').readline())"]),
        "month,eur\n\n"
    );
    home.told(&["session", "close", "work"]);
    assert_eq!(home.json(&["dataset", "gc", "--dry-run"])["contents"], 1);
    assert!(home.told(&["dataset", "gc"]).ends_with("freed 15 B\n"));
}

#[test]
fn a_run_names_what_it_needs() {
    let home = Home::new();
    home.write("sales.csv", SALES);
    home.write("input/prices.csv", "1,2\n");
    home.told(&["dataset", "add", "sales", "sales.csv", "--version", "2023"]);
    home.write("newer.csv", "newer\n");
    home.told(&["dataset", "add", "sales", "newer.csv", "--version", "2024"]);
    let read = "print(open('data/sales.csv').readline())";
    assert_eq!(home.told(&["run", "--dataset", "sales", "-c", read]), "newer\n\n");
    assert_eq!(home.told(&["run", "--dataset", "sales@2023", "-c", read]), "month,eur\n\n");
    let outcome = home.json(&["run", "--dataset", "sales", "-c", ""]);
    assert_eq!(
        (&outcome["datasets"][0]["name"], &outcome["datasets"][0]["version"]),
        (&"sales".into(), &"2024".into())
    );
    // A directory of the host.
    let local = "print(open('/data/prices.csv').read(), [one['id'] for one in datasets.list()])";
    assert_eq!(home.told(&["run", "--datasets", "input", "-c", local]), "1,2\n ['prices']\n");
    let written = home.belljar(&["run", "--datasets", "input", "-c", "open('/data/x', 'w')"]);
    assert!(written.status == 1 && !home.has("input/x"), "{written:?}");
    let both = format!("{read}\n{local}");
    let told = home.told(&["run", "--datasets", "input", "--dataset", "sales", "-c", &both]);
    assert_eq!(told, "newer\n\n1,2\n ['prices', 'sales', 'sales']\n");
    // On the native engine's files, and on disk.
    assert_eq!(home.told(&["run", "--storage", "disk", "--dataset", "sales", "-c", read]), "newer\n\n");
    // What a session may not have.
    home.told(&["session", "create", "none"]);
    home.refused(
        &["dataset", "stage", "sales", "--session", "none"],
        2,
        &["not staged", "--dataset-access api"],
    );
    let none = home.belljar(&["run", "-c", "datasets"]);
    assert!(none.status == 1 && none.stderr.contains("NameError"), "{none:?}");
    home.refused(
        &["run", "--dataset", "nothing", "-c", "print(1)"],
        1,
        &["there is no dataset", "belljar dataset ls"],
    );
    home.refused(&["run", "--datasets", "missing", "-c", "print(1)"], 2, &["missing"]);
    home.refused(&["run", "--dataset-access", "local-ro", "-c", "print(1)"], 2, &["--datasets DIR"]);
}

#[test]
fn a_file_says_how_datasets_come() {
    let home = Home::new();
    home.write("input/prices.csv", "1,2\n");
    home.write("belljar.toml", "[datasets]\naccess = 'local-ro'\ndirectory = './input'\n");
    assert_eq!(home.told(&["run", "-c", "print(open('/data/prices.csv').read())"]), "1,2\n\n");
    home.write("belljar.toml", "[datasets]\naccess = 'api'\n");
    home.refused(&["run", "-c", ""], 2, &["your datasets", "--config"]);
    home.write("sales.csv", SALES);
    home.told(&["dataset", "add", "sales", "sales.csv", "--no-config"]);
    let code = "print(open(datasets.path('sales')).readline())";
    assert_eq!(home.told(&["run", "--config", "belljar.toml", "-c", code]), "month,eur\n\n");
    home.write("belljar.toml", "[datasets]\nmax_size = 3\n");
    let ended = home.belljar(&["dataset", "fetch", "sales", "--refresh"]);
    assert!(ended.status == 125 && ended.stderr.contains("more than 3 bytes"), "{ended:?}");
}

#[test]
fn a_function_in_python_gives_the_bytes() {
    let home = Home::new();
    home.write(
        "fetcher.py",
        "def fetch_dataset(ds_id: str) -> bytes:\n    return b'PAR1 ' + ds_id.encode() + b' PAR1'\n\n\
         def broken(ds_id):\n    raise ValueError('the API is down')\n",
    );
    let added = home.told(&["dataset", "add", "trips", "./fetcher.py:fetch_dataset"]);
    assert!(added.starts_with("trips@latest: data/trips.parquet, from /"), "{added}");
    let code = "print(open('/session/data/trips.parquet', 'rb').read())";
    assert_eq!(home.told(&["run", "--dataset", "trips", "-c", code]), "b'PAR1 trips PAR1'\n");
    home.told(&["dataset", "add", "down", "fetcher.py:broken"]);
    home.write("belljar.toml", "[datasets]\nattempts = 1\n");
    let ended = home.belljar(&["dataset", "fetch", "down"]);
    assert!(ended.status == 125 && ended.stderr.contains("the API is down"), "{ended:?}");
    home.told(&["dataset", "add", "missing", "fetcher.py:no_such"]);
    assert_eq!(home.belljar(&["dataset", "fetch", "missing"]).status, 125);
}

/// Answers each request with the same, and says what was asked.
fn serve(body: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut request).unwrap_or(0) > 2 {}
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
            let _ = sender.send(request);
        }
    });
    (address, asked)
}

#[test]
fn a_server_is_asked_with_headers_that_nobody_sees() {
    let home = Home::new();
    let (address, asked) = serve(SALES);
    let url = format!("{address}/d/7");
    home.told(&[
        "dataset",
        "add",
        "api",
        &url,
        "--format",
        "csv",
        "--sha256",
        HASH,
        "--header",
        "Authorization=Bearer hush-hush",
    ]);
    for told in [
        home.told(&["dataset", "show", "api", "--json"]),
        home.told(&["dataset", "ls"]),
        home.told(&["dataset", "show", "api"]),
    ] {
        assert!(!told.contains("hush-hush"), "{told}");
    }
    // Addresses of this machine aren't asked unless somebody says so.
    let ended = home.belljar(&["dataset", "fetch", "api"]);
    assert!(
        ended.status == 125 && ended.stderr.contains("private") && ended.stderr.contains("--allow-private"),
        "{ended:?}"
    );
    assert!(asked.try_recv().is_err());
    assert!(home.told(&["dataset", "fetch", "api", "--allow-private"]).contains("fetched, 15 B"));
    assert!(asked.recv().unwrap().to_lowercase().contains("authorization: bearer hush-hush"));
    // It is here now, and nobody need be asked.
    let code = "print(open('data/api.csv').readline())";
    assert_eq!(home.told(&["run", "--dataset", "api", "-c", code]), "month,eur\n\n");
    // One that isn't what was promised is refused, and nothing of it is kept.
    let wrong = "0".repeat(64);
    home.told(&["dataset", "add", "lies", &url, "--sha256", &wrong]);
    let ended = home.belljar(&["dataset", "fetch", "lies", "--allow-private"]);
    assert!(ended.status == 125 && ended.stderr.contains("isn't what was promised"), "{ended:?}");
    assert_eq!(home.json(&["dataset", "verify", "lies"])["datasets"][0]["state"], "never fetched");
}

#[test]
fn damage_is_found() {
    let home = Home::new();
    home.write("sales.csv", SALES);
    home.told(&["dataset", "add", "sales", "sales.csv"]);
    assert_eq!(home.told(&["dataset", "verify"]), "sales@latest: never fetched\n");
    home.told(&["dataset", "fetch", "sales"]);
    let blob = Command::new("find")
        .arg(home.path("state/datasets"))
        .args(["-type", "f", "-size", "15c"])
        .output()
        .unwrap();
    let blob = String::from_utf8(blob.stdout).unwrap();
    fs::remove_file(blob.trim()).unwrap();
    fs::write(blob.trim(), "month,eur\n1,99\n").unwrap();
    let ended = home.belljar(&["dataset", "verify", "sales"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (1, "sales@latest: damaged\n"), "{ended:?}");
    // The next one who needs it has it right.
    assert_eq!(
        home.told(&["run", "--dataset", "sales", "-c", "print(open('data/sales.csv').read())"]),
        format!("{SALES}\n")
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    home.write("a.csv", "1");
    home.write("b.csv", "2");
    for (wrong, message) in [
        (&["add", "../x", "a.csv"][..], "\"../x\""),
        (&["add", "x", "missing.csv"], "there is no file"),
        (&["add", "x", "missing.py:f"], "there is no file"),
        (&["add", "x", "ftp://host/x"], "ftp"),
        (&["add", "x", "s3://bucket"], "s3://bucket"),
        (&["add", "x", "http://"], "address"),
        (&["add", "x", "a.csv", "--sha256", "abc"], "abc"),
        (&["add", "x", "a.csv", "--header", "A=b"], "headers"),
        (&["add", "x", "a.csv", "--version", "a/b"], "a/b"),
        (&["add", "x", "http://host/x", "--header", "Host=y"], "header"),
    ] {
        home.refused(&[&["dataset"], wrong].concat(), 2, &[message]);
    }
    assert_eq!(names(&home.json(&["dataset", "ls"])), [""; 0]);
    home.told(&["dataset", "add", "x", "a.csv"]);
    // The same again is fine.
    home.told(&["dataset", "add", "x", "a.csv"]);
    home.refused(&["dataset", "add", "x", "b.csv"], 2, &["already", "--replace"]);
    home.told(&["dataset", "add", "x", "b.csv", "--replace"]);
    for wrong in [&["show", "y"][..], &["fetch", "y"], &["rm", "y"], &["verify", "y"], &["show", "x@9"]] {
        home.refused(&[&["dataset"], wrong].concat(), 1, &["there is no dataset", "belljar dataset add"]);
    }
    for wrong in [
        &["dataset", "stage", "x"][..],
        &["dataset", "fetch"],
        &["dataset", "show", "@"],
        &["run", "--dataset", "", "-c", ""],
    ] {
        assert_eq!(home.belljar(wrong).status, 2, "{wrong:?}");
    }
}

#[test]
fn every_subcommand_has_examples() {
    for name in ["add", "ls", "show", "fetch", "stage", "rm", "gc", "verify"] {
        let help = belljar(&["dataset", name, "--help"]).stdout;
        for expected in ["--json", "--state-dir", "--env-file", "Example"] {
            assert!(help.contains(expected), "{name} {expected}: {help}");
        }
    }
}
