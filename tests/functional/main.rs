//! What Belljar does, shown from outside.
#[test]
fn x() { assert_eq!(belljar_tests::run("1+1").value.unwrap().text, "2"); }
