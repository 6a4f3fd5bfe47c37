//! What stands between sessions of the native engine and this machine.

use belljar::Layer;

use super::check::Check;

/// One line for each layer. None of them is bad: without it the engine runs with one wall less, or `--require` keeps it
/// from running.
pub(crate) fn checks(layers: &[Layer]) -> Vec<Check> {
    if layers.is_empty() {
        let advice = "it needs Linux on x86-64 or ARM64; `--engine wasm`, the default, does not";
        return vec![Check::poor("native engine", "not on this machine", advice)];
    }
    layers.iter().map(check).collect()
}

fn check(layer: &Layer) -> Check {
    let Layer { name, stops, missing, hint } = layer.clone();
    match missing {
        None => Check::good(name, format!("active: {stops}")),
        Some(reason) => {
            let advice = hint.unwrap_or_else(|| "nothing can be done about it here".to_owned());
            Check::poor(name, format!("missing: {reason} ({stops})"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Health;
    use super::*;

    #[test]
    fn a_missing_layer_is_never_a_failure() {
        let layer = |name: &str, missing: Option<&str>| Layer {
            name: name.to_owned(),
            stops: "calls".to_owned(),
            missing: missing.map(str::to_owned),
            hint: missing.map(|_| "ask for it".to_owned()),
        };
        let found = checks(&[layer("seccomp", None), layer("landlock", Some("no kernel for it"))]);
        assert_eq!((found[0].health, found[1].health), (Health::Good, Health::Poor));
        let text = found[1].to_string();
        assert!(text.contains("missing: no kernel for it") && text.contains("ask for it"), "{text}");
        assert_eq!(checks(&[])[0].health, Health::Poor);
    }
}
