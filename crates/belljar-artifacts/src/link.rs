//! Signed links: whoever has one may read one artifact, until it expires.
//!
//! A link is `{base}/artifacts/{id}?v=1&key=…&expires=…&disposition=…[&name=…][&audience=…]&sig=…`, in that order and
//! in that spelling only: what is checked is made again from what was read of it, and must be the same.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::keys::{KeyError, LinkKeys};
use crate::{ArtifactId, percent};

/// Longer ones are refused before anything is computed.
const LONGEST: usize = 64 << 10;
/// Goes first into what is signed, so that a signature is never one of something else under the same key.
const PURPOSE: &[u8] = b"belljar artifact link";
const VERSION: u8 = 1;

/// What a link allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The artifact that may be read.
    pub artifact: ArtifactId,
    /// By whom; by anybody, if there is nothing.
    pub audience: Option<String>,
    /// From then on it is refused, in milliseconds since 1970.
    pub expires_ms: u64,
    /// How browsers take it.
    pub disposition: Disposition,
    /// What it is called when it is saved.
    pub name: Option<String>,
}

/// How browsers take an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// Shown in the page.
    Inline,
    /// Saved as a file.
    #[default]
    Attachment,
}

impl Disposition {
    /// As it is in a header, and in a link.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Attachment => "attachment",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Inline, Self::Attachment].into_iter().find(|disposition| disposition.as_str() == text)
    }
}

/// Why a link is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Its time is over.
    #[error("the link has expired")]
    Expired {
        /// When, in milliseconds since 1970.
        expired_ms: u64,
    },
    /// It isn't as it was signed.
    #[error("the link's signature is wrong")]
    Forged,
    /// It was made for somebody else.
    #[error("the link was made for somebody else")]
    Audience,
    /// It isn't a link of the kind made here.
    #[error("that isn't a link to an artifact: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The key that it was signed with isn't known here, or not any more.
    #[error("the key that the link was signed with isn't known any more")]
    UnknownKey,
    /// The keys can't be read, so that nothing can be let through.
    #[error("the link can't be checked: {0}")]
    Keys(#[from] KeyError),
}

impl LinkError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Expired { .. } | Self::UnknownKey => "ask for a new link",
            Self::Forged | Self::Malformed { .. } => "use the link exactly as it was given",
            Self::Audience => "ask for a link of your own",
            Self::Keys(error) => return error.hint(),
        })
    }
}

/// Makes links, and checks them.
#[derive(Clone, Debug)]
pub struct LinkSigner {
    keys: Arc<LinkKeys>,
    base: Option<String>,
}

impl LinkSigner {
    /// Links begin with `base`, such as `https://host/prefix`; without one they are paths.
    #[must_use]
    pub fn new(keys: Arc<LinkKeys>, base: Option<String>) -> Self {
        let base = base.map(|base| base.trim_end_matches('/').to_owned()).filter(|base| !base.is_empty());
        Self { keys, base }
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &LinkKeys {
        &self.keys
    }

    /// A link that allows this.
    #[must_use]
    pub fn sign(&self, grant: &Grant) -> String {
        let key = self.keys.signing();
        let signature = mac(key.mac, &key.id, grant).finalize().into_bytes();
        let path = path(&key.id, grant, &URL_SAFE_NO_PAD.encode(signature));
        match &self.base {
            Some(base) => format!("{base}{path}"),
            None => path,
        }
    }

    /// What a link allows to `audience` at `now_ms`. Either the whole link is given, or its path and query. There is
    /// no tolerance for clocks that differ: a link is refused in the very millisecond that it expires in.
    ///
    /// # Errors
    /// If it isn't a link that was made here, for this audience, for a time that isn't over.
    pub fn check(&self, link: &str, audience: Option<&str>, now_ms: u64) -> Result<Grant, LinkError> {
        if link.len() > LONGEST {
            return Err(LinkError::Malformed { reason: "it is too long" });
        }
        let link = self.path_of(link);
        let parsed = Parsed::read(link)?;
        if path(parsed.key, &parsed.grant, parsed.signature) != link {
            return Err(LinkError::Malformed { reason: "it is spelt in another way than links are" });
        }
        let wrong = |_| LinkError::Malformed { reason: "its signature makes no sense" };
        let signature = URL_SAFE_NO_PAD.decode(parsed.signature).map_err(wrong)?;
        let key = self.keys.checking(parsed.key, now_ms)?.ok_or(LinkError::UnknownKey)?;
        mac(key.mac, &key.id, &parsed.grant).verify_slice(&signature).map_err(|_| LinkError::Forged)?;
        let grant = parsed.grant;
        if grant.audience.is_some() && grant.audience.as_deref() != audience {
            return Err(LinkError::Audience);
        }
        if grant.expires_ms <= now_ms {
            return Err(LinkError::Expired { expired_ms: grant.expires_ms });
        }
        Ok(grant)
    }

    /// Without the base, or without the path of the base: servers see no more than that.
    fn path_of<'a>(&self, link: &'a str) -> &'a str {
        let Some(base) = self.base.as_deref() else { return link };
        if let Some(rest) = link.strip_prefix(base) {
            return rest;
        }
        let host = base.find("://").map_or(0, |at| at + 3);
        let prefix = base[host..].find('/').map_or("", |at| &base[host + at..]);
        link.strip_prefix(prefix).filter(|rest| rest.starts_with('/')).unwrap_or(link)
    }
}

/// What is signed: each part with its length, so that no two links have the same.
fn mac(mut mac: Hmac<Sha256>, key: &str, grant: &Grant) -> Hmac<Sha256> {
    mac.update(PURPOSE);
    mac.update(&[VERSION]);
    let mut field = |bytes: &[u8]| {
        mac.update(&(bytes.len() as u64).to_be_bytes());
        mac.update(bytes);
    };
    field(key.as_bytes());
    field(grant.artifact.as_str().as_bytes());
    field(&grant.expires_ms.to_be_bytes());
    field(grant.disposition.as_str().as_bytes());
    for part in [&grant.name, &grant.audience] {
        field(&[u8::from(part.is_some())]);
        field(part.as_deref().unwrap_or_default().as_bytes());
    }
    mac
}

fn path(key: &str, grant: &Grant, signature: &str) -> String {
    let mut path = format!(
        "/artifacts/{}?v={VERSION}&key={key}&expires={}&disposition={}",
        grant.artifact,
        grant.expires_ms,
        grant.disposition.as_str()
    );
    for (name, value) in [("name", &grant.name), ("audience", &grant.audience)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", percent::encode(value)));
        }
    }
    path.push_str("&sig=");
    path.push_str(signature);
    path
}

/// What a link says, before anything of it is believed.
struct Parsed<'a> {
    key: &'a str,
    grant: Grant,
    signature: &'a str,
}

impl<'a> Parsed<'a> {
    fn read(link: &'a str) -> Result<Self, LinkError> {
        let malformed = |reason| LinkError::Malformed { reason };
        let rest = link.strip_prefix("/artifacts/").ok_or_else(|| malformed("it leads elsewhere"))?;
        let (id, query) = rest.split_once('?').ok_or_else(|| malformed("it isn't signed"))?;
        let artifact = ArtifactId::parse(id).map_err(|_| malformed("it names no artifact"))?;
        let mut found: [Option<&str>; 7] = [None; 7];
        let names = ["v", "key", "expires", "disposition", "name", "audience", "sig"];
        for parameter in query.split('&') {
            let (name, value) =
                parameter.split_once('=').ok_or_else(|| malformed("a parameter has no value"))?;
            let at = names.iter().position(|known| *known == name);
            let at = at.ok_or_else(|| malformed("it has a parameter that links don't have"))?;
            if found[at].replace(value).is_some() {
                return Err(malformed("a parameter is there twice"));
            }
        }
        let [version, Some(key), Some(expires), Some(disposition), name, audience, Some(signature)] = found
        else {
            return Err(malformed("a parameter is missing"));
        };
        if version != Some("1") {
            return Err(malformed("it is of another version"));
        }
        let text = |value: Option<&str>| match value {
            Some(value) => percent::decode(value).map(Some).ok_or_else(|| malformed("a text makes no sense")),
            None => Ok(None),
        };
        let grant = Grant {
            artifact,
            audience: text(audience)?,
            expires_ms: expires.parse().map_err(|_| malformed("its time makes no sense"))?,
            disposition: Disposition::parse(disposition)
                .ok_or_else(|| malformed("its disposition makes no sense"))?,
            name: text(name)?,
        };
        Ok(Self { key, grant, signature })
    }
}

/// The value of a `Content-Disposition` header, by RFC 6266: the last part of the name, for old readers in ASCII and
/// for others as it is. What could end the header, or show another ending than there is, is replaced.
#[must_use]
pub fn content_disposition(name: &str, disposition: Disposition) -> String {
    let name = file_name(name);
    let plain = |character: char| {
        let kept = character.is_ascii_graphic() && !"\"\\%".contains(character);
        if kept || character == ' ' { character } else { '_' }
    };
    let fallback: String = name.chars().map(plain).collect();
    let disposition = disposition.as_str();
    if fallback == name {
        return format!("{disposition}; filename=\"{fallback}\"");
    }
    format!("{disposition}; filename=\"{fallback}\"; filename*=UTF-8''{}", percent::encode(&name))
}

/// Names may be longer than a header should be.
const LONGEST_NAME: usize = 200;
const ENDING: usize = 20;

fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe = |character: char| {
        let turns = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}');
        if character.is_control() || turns { '_' } else { character }
    };
    let mut characters: Vec<char> = last.trim().chars().map(safe).collect();
    if characters.len() > LONGEST_NAME {
        characters.drain(LONGEST_NAME - ENDING..characters.len() - ENDING);
    }
    let name: String = characters.into_iter().collect();
    if name.chars().all(|character| character == '.' || character == ' ') {
        return "artifact".to_owned();
    }
    name
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const BASE: &str = "https://host.example/some/prefix";

    fn signer(base: Option<&str>) -> (TempDir, LinkSigner) {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let keys = LinkKeys::open(directory.path().join("keys.json")).expect("keys can be made");
        (directory, LinkSigner::new(Arc::new(keys), base.map(str::to_owned)))
    }

    /// One for all cases of a property.
    fn shared() -> &'static LinkSigner {
        static SHARED: std::sync::OnceLock<(TempDir, LinkSigner)> = std::sync::OnceLock::new();
        &SHARED.get_or_init(|| signer(Some(BASE))).1
    }

    fn id(text: &str) -> ArtifactId {
        ArtifactId::parse(text).expect("it is an id")
    }

    fn grant() -> Grant {
        Grant {
            artifact: id("art_0123456789abcdefghijklmnop"),
            audience: Some("tenant-7".to_owned()),
            expires_ms: 1_000,
            disposition: Disposition::Attachment,
            name: Some("plots/ä b.png".to_owned()),
        }
    }

    fn grants() -> impl Strategy<Value = Grant> {
        let text = || proptest::option::of(prop_oneof![any::<String>(), "[&=?%+ \n\"'/\\\\;#]{0,6}"]);
        let disposition = prop_oneof![Just(Disposition::Inline), Just(Disposition::Attachment)];
        ("art_[0-9a-z]{26}", text(), 1..u64::MAX, disposition, text()).prop_map(
            |(artifact, audience, expires_ms, disposition, name)| Grant {
                artifact: id(&artifact),
                audience,
                expires_ms,
                disposition,
                name,
            },
        )
    }

    #[test]
    fn a_link_reads_as_it_is_documented() {
        let (_directory, signer) = signer(None);
        let link = signer.sign(&grant());
        let key = signer.keys().list().expect("keys can be read").remove(0).id;
        let head = format!(
            "/artifacts/art_0123456789abcdefghijklmnop?v=1&key={key}&expires=1000&disposition=attachment\
             &name=plots%2F%C3%A4%20b.png&audience=tenant-7&sig="
        );
        assert_eq!(link.strip_prefix(&head).map(str::len), Some(43), "{link}");
        assert_eq!(signer.check(&link, Some("tenant-7"), 999).expect("it is good"), grant());
    }

    #[test]
    fn a_link_is_good_whole_or_as_a_server_sees_it_but_on_no_other_host() {
        let (_directory, signer) = signer(Some(&format!("{BASE}/")));
        let link = signer.sign(&grant());
        let path = link.strip_prefix(BASE).expect("it begins with the base");
        for given in [link.clone(), format!("/some/prefix{path}"), path.to_owned()] {
            assert_eq!(signer.check(&given, Some("tenant-7"), 0).expect("it is good"), grant());
        }
        for given in [
            format!("https://other.example/some/prefix{path}"),
            format!("/some{path}"),
            format!("x{path}"),
            format!("/some/prefix{BASE}{path}"),
        ] {
            let error = signer.check(&given, Some("tenant-7"), 0).expect_err(&given);
            assert!(matches!(error, LinkError::Malformed { .. }), "{error}");
        }
    }

    #[test]
    fn a_link_ends_in_the_millisecond_it_names() {
        let (_directory, signer) = signer(None);
        let link = signer.sign(&grant());
        assert!(signer.check(&link, Some("tenant-7"), 999).is_ok());
        for now in [1_000, 1_001, u64::MAX] {
            let error = signer.check(&link, Some("tenant-7"), now).expect_err("it has expired");
            assert!(matches!(error, LinkError::Expired { expired_ms: 1_000 }), "{error}");
        }
    }

    #[test]
    fn what_is_added_left_out_doubled_or_spelt_otherwise_is_refused() {
        let (_directory, signer) = signer(None);
        let link = signer.sign(&grant());
        let altered = [
            format!("{link}&"),
            format!("{link}&x=1"),
            format!("{link}="),
            format!("{link}#x"),
            format!("{link} "),
            format!(" {link}"),
            format!("{link}&expires=1000"),
            link.replace("?v=1&", "?"),
            link.replace("v=1&", "v=2&"),
            link.replace("expires=1000", "expires=01000"),
            link.replace("expires=1000", "expires=+1000"),
            link.replace("expires=1000", "expires=99999999999999999999999"),
            link.replace("&disposition=attachment", ""),
            link.replace("&disposition=attachment", "&disposition=inline"),
            link.replace("&audience=tenant-7", ""),
            link.replace("%C3%A4", "%c3%a4"),
            link.replace("%C3%A4", "ä"),
            link.replace("%20", "+"),
            link.replace("plots", "%70lots"),
            link.replace("&name=", "&NAME="),
            link.replace(
                "name=plots%2F%C3%A4%20b.png&audience=tenant-7",
                "audience=tenant-7&name=plots%2F%C3%A4%20b.png",
            ),
            link.replace("/artifacts/art_", "/artifacts//art_"),
            link.replace("/artifacts/art_", "/artifacts/../artifacts/art_"),
            link.replace("/artifacts/art_", "/artifacts/ART_"),
            link.replacen('?', "/?", 1),
            link[..link.len() - 1].to_owned(),
            link.split_once("&sig=").expect("it is signed").0.to_owned(),
            format!("{}&sig=", link.split_once("&sig=").expect("it is signed").0),
            String::new(),
            "/artifacts/".to_owned(),
            "?".to_owned(),
            "é".repeat(100_000),
        ];
        for link in altered {
            let error = signer.check(&link, Some("tenant-7"), 0).expect_err(&link);
            assert!(matches!(error, LinkError::Malformed { .. } | LinkError::Forged), "{link}: {error}");
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn links_of_a_key_end_with_it() {
        let (_directory, signer) = signer(None);
        let far = Grant { expires_ms: 1 << 50, audience: None, ..grant() };
        let old = signer.sign(&far);
        signer.keys().rotate(Duration::from_secs(10), 0).expect("keys rotate");
        let new = signer.sign(&far);
        assert!(signer.check(&old, None, 9_999).is_ok());
        assert!(matches!(signer.check(&old, None, 10_000), Err(LinkError::UnknownKey)));
        assert!(signer.check(&new, None, 10_000).is_ok());
        let id = signer.keys().list().expect("keys can be read").remove(0).id;
        signer.keys().revoke(&id).expect("it is there");
        assert!(matches!(signer.check(&new, None, 0), Err(LinkError::UnknownKey)));
    }

    #[test]
    fn what_a_link_costs_is_told() {
        let signer = shared();
        let grant = grant();
        let started = Instant::now();
        const ROUNDS: u32 = 2_000;
        for _ in 0..ROUNDS {
            let link = signer.sign(&grant);
            assert!(signer.check(&link, Some("tenant-7"), 0).is_ok());
        }
        let each = started.elapsed() / ROUNDS;
        let mut out = std::io::stderr();
        let _ = std::io::Write::write_fmt(&mut out, format_args!("a link made and checked: {each:?}\n"));
    }

    #[test]
    fn names_in_headers_are_safe() {
        let cases = [
            ("a.png", "attachment; filename=\"a.png\""),
            ("plots/a b.png", "attachment; filename=\"a b.png\""),
            ("ä.png", "attachment; filename=\"_.png\"; filename*=UTF-8''%C3%A4.png"),
            (
                "a\"; x=\"\r\nSet-Cookie: y",
                "attachment; filename=\"a_; x=___Set-Cookie: y\"; filename*=UTF-8''a%22%3B%20x%3D%22__Set-Cookie%3A%20y",
            ),
            ("..\\..\\x", "attachment; filename=\"x\""),
            ("..", "attachment; filename=\"artifact\""),
            ("", "attachment; filename=\"artifact\""),
            ("a/", "attachment; filename=\"artifact\""),
            ("100%41", "attachment; filename=\"100_41\"; filename*=UTF-8''100%2541"),
            ("a\u{202e}gnp.exe", "attachment; filename=\"a_gnp.exe\""),
        ];
        for (name, expected) in cases {
            assert_eq!(content_disposition(name, Disposition::Attachment), expected, "{name:?}");
        }
        let long = content_disposition(&format!("{}.parquet", "x".repeat(300)), Disposition::Inline);
        assert!(long.len() < 250 && long.starts_with("inline; ") && long.ends_with("x.parquet\""), "{long}");
    }

    proptest! {
        #[test]
        fn what_was_signed_is_what_is_checked(grant in grants(), base in any::<bool>()) {
            let signer = shared();
            let link = signer.sign(&grant);
            prop_assert!(link.bytes().all(|byte| byte.is_ascii_graphic()));
            let given = if base { &link } else { link.strip_prefix(BASE).expect("it begins with the base") };
            let checked = signer.check(given, grant.audience.as_deref(), grant.expires_ms - 1);
            prop_assert_eq!(checked.expect("it is good"), grant);
        }

        #[test]
        fn anything_else_is_refused(
            text in any::<String>(),
            query in "[?&=%0-9a-zäöv]{0,40}",
            id in "art_[0-9a-z]{26}|[./a-z]{0,8}",
        ) {
            for link in [text.clone(), format!("{BASE}{text}"), format!("/artifacts/{id}?v=1&{query}")] {
                prop_assert!(shared().check(&link, None, 0).is_err());
            }
        }

        #[test]
        fn any_altered_byte_is_noticed(grant in grants(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let signer = shared();
            let link = signer.sign(&grant);
            let mut bytes = link.clone().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            // A server has text; what isn't text never gets here.
            if let Ok(altered) = String::from_utf8(bytes) {
                prop_assert!(signer.check(&altered, grant.audience.as_deref(), 0).is_err(), "{}", altered);
            }
        }

        #[test]
        fn every_flipped_bit_of_every_byte_is_noticed(grant in grants(), bit in 0..8_u8) {
            let signer = shared();
            let link = signer.sign(&grant);
            for at in 0..link.len().min(400) {
                let mut bytes = link.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                if let Ok(altered) = String::from_utf8(bytes) {
                    prop_assert!(signer.check(&altered, grant.audience.as_deref(), 0).is_err(), "{}", altered);
                }
            }
        }

        #[test]
        fn a_signature_is_good_for_one_grant_only(one in grants(), two in grants()) {
            prop_assume!(one != two);
            let signer = shared();
            let of = |link: &str| link.rsplit_once("&sig=").map(|(head, sig)| (head.to_owned(), sig.to_owned()));
            let (head, _) = of(&signer.sign(&two)).expect("it is signed");
            let (_, signature) = of(&signer.sign(&one)).expect("it is signed");
            let mixed = signer.check(&format!("{head}&sig={signature}"), two.audience.as_deref(), 0);
            prop_assert!(matches!(mixed, Err(LinkError::Forged)));
        }

        #[test]
        fn nobody_else_may_use_it(grant in grants(), other in proptest::option::of(any::<String>())) {
            prop_assume!(grant.audience.is_some() && grant.audience != other);
            let link = shared().sign(&grant);
            prop_assert!(matches!(shared().check(&link, other.as_deref(), 0), Err(LinkError::Audience)));
        }

        #[test]
        fn it_ends_when_it_says(grant in grants(), late in 0..1_000_u64) {
            let link = shared().sign(&grant);
            let now = grant.expires_ms.saturating_add(late);
            let checked = shared().check(&link, grant.audience.as_deref(), now);
            let expired = matches!(checked, Err(LinkError::Expired { .. }));
            prop_assert!(expired);
        }

        #[test]
        fn headers_are_one_line_of_visible_ascii(name in prop_oneof![any::<String>(), "[\r\n\"\\\\;%a-c/ ]{0,12}"]) {
            for disposition in [Disposition::Inline, Disposition::Attachment] {
                let header = content_disposition(&name, disposition);
                prop_assert!(header.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{}", header);
                let quoted = header.split_once("filename=\"").and_then(|(_, rest)| rest.split_once('"'));
                let (fallback, rest) = quoted.expect("there is a fallback");
                prop_assert!(!fallback.contains(['\\', '/', '%']));
                prop_assert!(rest.is_empty() || rest.starts_with("; filename*=UTF-8''"), "{}", header);
                prop_assert_eq!(rest.matches(';').count(), usize::from(!rest.is_empty()));
            }
        }
    }

    #[test]
    fn links_of_other_keys_are_refused() {
        let (_one, ours) = signer(None);
        let (_two, theirs) = signer(None);
        let link = theirs.sign(&grant());
        assert!(matches!(ours.check(&link, Some("tenant-7"), 0), Err(LinkError::UnknownKey)));
        // Under the name of a key that is known here.
        let name = |signer: &LinkSigner| signer.keys().list().expect("keys can be read").remove(0).id;
        let renamed = link.replace(&name(&theirs), &name(&ours));
        assert!(matches!(ours.check(&renamed, Some("tenant-7"), 0), Err(LinkError::Forged)));
    }
}
