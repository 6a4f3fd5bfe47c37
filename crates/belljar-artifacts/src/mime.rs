//! What a file is.

pub(crate) fn sniff(name: &str, first_bytes: &[u8]) -> String {
    let png = first_bytes.starts_with(b"\x89PNG\r\n\x1a\n") || name.ends_with(".png");
    if png { "image/png".to_owned() } else { "application/octet-stream".to_owned() }
}
