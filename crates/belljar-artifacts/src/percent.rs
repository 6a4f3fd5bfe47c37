//! Text in addresses and headers: everything but letters, digits and `-._~` as `%XX`.

use std::fmt::Write;

pub(crate) fn encode(text: &str) -> String {
    encode_but(text, b"-._~", " ")
}

/// As [`encode`], with these left as they are; a space becomes `space`, unless that is a space.
pub(crate) fn encode_but(text: &str, kept: &[u8], space: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte == b' ' && space != " " {
            encoded.push_str(space);
        } else if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Nothing if it isn't what [`encode`] makes of some text.
pub(crate) fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let [high, low, after @ ..] = rest else { return None };
            bytes.push(digit(*high)? << 4 | digit(*low)?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| encode(text) == encoded)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_is_one_way_to_write_a_text() {
        assert_eq!(encode("a b/ö\n\"%~"), "a%20b%2F%C3%B6%0A%22%25~");
        for wrong in ["%", "%2", "%2f", "%41", "a b", "+", "%FF", "ö", "%C3", "%G0"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }

        #[test]
        fn what_can_be_decoded_was_written_so(encoded in "[%0-9A-Fa-z._~ ]{0,12}") {
            if let Some(text) = decode(&encoded) {
                prop_assert_eq!(encode(&text), encoded);
            }
        }
    }
}
