use serde_json::Value;

/// What in `value` doesn't follow `schema`, each with its place. Knows the keywords that Belljar's schemas use
/// and reports any other, so that a schema can't say more than is checked.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        found.push(format!("{place}: the schema is not an object"));
        return;
    };
    for (keyword, rule) in keywords {
        let holds = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "type" => rule.as_str().is_some_and(|name| is_of_type(value, name)),
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
            "minimum" => match (value.as_f64(), rule.as_f64()) {
                (Some(value), Some(least)) => value >= least,
                _ => true,
            },
            "required" => rule.as_array().is_some_and(|names| {
                names.iter().all(|name| name.as_str().is_some_and(|name| value.get(name).is_some()))
            }),
            "properties" => {
                for (name, rule) in rule.as_object().into_iter().flatten() {
                    if let Some(value) = value.get(name) {
                        check(root, rule, value, &format!("{place}.{name}"), found);
                    }
                }
                true
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, value, &format!("{place}[{index}]"), found);
                }
                true
            }
            "anyOf" => rule.as_array().is_some_and(|rules| {
                rules.iter().any(|rule| {
                    let mut inner = Vec::new();
                    check(root, rule, value, place, &mut inner);
                    inner.is_empty()
                })
            }),
            "$ref" => {
                let target = rule.as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
                match target {
                    Some(target) => {
                        check(root, target, value, place, found);
                        true
                    }
                    None => false,
                }
            }
            _ => {
                found.push(format!("{place}: the keyword {keyword} is not known"));
                true
            }
        };
        if !holds {
            found.push(format!("{place}: {value} is against {keyword} {rule}"));
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}
