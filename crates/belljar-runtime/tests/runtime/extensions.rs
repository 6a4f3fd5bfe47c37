use std::{
    fs,
    path::{Path, PathBuf},
};

use belljar_runtime::{Cache, LinkedExtension, MakeError, Maker, Quiet};
use tempfile::tempdir;
use wasm_encoder::{CustomSection, Module, TagKind, TagSection, TagType, TypeSection};

const NAME: &str = "thing.cpython-314-wasm32-wasi.so";

fn extension(path: &str, hash: &str) -> LinkedExtension {
    LinkedExtension { path: path.into(), file: PathBuf::new(), hash: hash.into() }
}

fn id(extensions: Vec<LinkedExtension>) -> String {
    Maker::new(Cache::open("/nowhere")).extensions(extensions).runtime_id().to_owned()
}

/// Writes `content` into a file and links that as `path`. There is no Python: what is wrong with a module comes
/// out first.
fn error(directory: &Path, path: &str, content: &[u8]) -> MakeError {
    let file = directory.join("file");
    fs::write(&file, content).expect("written");
    let hash = blake3::hash(content).to_hex().to_string();
    ensure(directory, vec![LinkedExtension { path: path.into(), file, hash }])
}

fn ensure(directory: &Path, extensions: Vec<LinkedExtension>) -> MakeError {
    let maker = Maker::new(Cache::open(directory.join("cache"))).extensions(extensions);
    maker.ensure(&Quiet).expect_err("it can't be made")
}

fn reason(error: &MakeError) -> &str {
    assert!(!error.hint().is_empty(), "{error}");
    match error {
        MakeError::Extension { reason, .. } => reason,
        other => panic!("another error: {other}"),
    }
}

/// A library without code. Its first section says that it is one.
fn library() -> Module {
    let mut module = Module::new();
    module.section(&CustomSection { name: "dylink.0".into(), data: (&[][..]).into() });
    module
}

#[test]
fn paths_and_contents_name_the_runtime() {
    let (one, two) = (extension("a/one.abi3.so", "1"), extension("two.abi3.so", "2"));
    let both = id(vec![one.clone(), two.clone()]);
    assert_eq!(both, id(vec![two.clone(), one.clone()]), "the order is nothing");
    let elsewhere = LinkedExtension { file: "/elsewhere".into(), ..two.clone() };
    assert_eq!(both, id(vec![one.clone(), elsewhere]), "where the files are is nothing");
    assert!(both.len() == 32 && both.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{both}");
    let others = [
        id(vec![]),
        id(vec![one.clone()]),
        id(vec![two.clone()]),
        id(vec![one.clone(), extension("two.abi3.so", "3")]),
        id(vec![one, extension("three.abi3.so", "2")]),
    ];
    assert!(!others.contains(&both));
    assert_eq!(others[0], Maker::id(), "without extensions it is the plain one");
}

#[test]
fn a_module_that_changed_is_refused() {
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, library().finish()).expect("written");
    let changed =
        LinkedExtension { path: NAME.into(), file, hash: blake3::hash(b"other").to_hex().to_string() };
    let error = ensure(directory.path(), vec![changed]);
    assert!(reason(&error).contains("BLAKE3"), "{error}");
    assert!(error.to_string().starts_with(NAME), "{error}");
}

#[test]
fn a_path_that_leads_outside_is_refused() {
    let directory = tempdir().expect("a directory");
    for path in ["/thing.abi3.so", "../thing.abi3.so", "a/../../thing.abi3.so", "a//thing.abi3.so", "", "a/"]
    {
        let error = error(directory.path(), path, &library().finish());
        assert_eq!(reason(&error), "its path is not below the packages", "{path}");
    }
}

#[test]
fn what_would_silently_not_be_linked_is_refused() {
    let directory = tempdir().expect("a directory");
    let library = library().finish();
    for path in ["thing.so", "libthing.so", "thing.cpython-313-wasm32-wasi.so", "componentize-py.toml"] {
        let error = error(directory.path(), path, &library);
        assert!(reason(&error).starts_with("its name doesn't end in"), "{error}");
    }
    for content in [&b""[..], b"\x7fELF", b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0"] {
        let error = error(directory.path(), NAME, content);
        assert_eq!(reason(&error), "it is not a WebAssembly library");
    }
}

#[test]
fn a_module_with_exceptions_is_named() {
    let directory = tempdir().expect("a directory");
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut tags = TagSection::new();
    tags.tag(TagType { kind: TagKind::Exception, func_type_idx: 0 });
    let mut module = library();
    module.section(&types).section(&tags);
    let error = error(directory.path(), NAME, &module.finish());
    assert!(reason(&error).contains("exceptions"), "{error}");
}

#[test]
fn the_same_module_twice_is_refused() {
    let directory = tempdir().expect("a directory");
    let file = directory.path().join("file");
    let content = library().finish();
    fs::write(&file, &content).expect("written");
    let hash = blake3::hash(&content).to_hex().to_string();
    let once = LinkedExtension { path: NAME.into(), file, hash };
    let error = ensure(directory.path(), vec![once.clone(), once.clone()]);
    assert_eq!(reason(&error), "it is there twice");
    let error = ensure(directory.path(), vec![once]);
    assert!(matches!(error, MakeError::NoPython { .. }), "nothing is wrong with it: {error}");
}
