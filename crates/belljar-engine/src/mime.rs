//! A value in several forms, by MIME type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One value in one or more forms. `text/plain` is always among them; binary forms are base64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MimeBundle(pub BTreeMap<String, Value>);

impl MimeBundle {
    /// The plain text form.
    pub fn text(&self) -> &str {
        self.get_str("text/plain").unwrap_or_default()
    }

    /// Bytes of all forms that are strings: nearly all that it takes.
    pub fn bytes(&self) -> usize {
        self.0.values().filter_map(Value::as_str).map(str::len).sum()
    }

    /// A form that is a string: text itself, or base64 for binary types.
    pub fn get_str(&self, mime: &str) -> Option<&str> {
        self.0.get(mime).and_then(Value::as_str)
    }
}
