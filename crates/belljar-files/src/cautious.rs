//! Reading maps and vectors that may say that they are larger than anything: nothing is allocated by what they say.

use std::fmt;
use std::marker::PhantomData;

use imbl::{OrdMap, Vector};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with)]`.
pub(crate) fn map<'de, D, K, V>(deserializer: D) -> Result<OrdMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    deserializer.deserialize_map(MapVisitor(PhantomData))
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn vector<'de, D, T>(deserializer: D) -> Result<Vector<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Clone,
{
    deserializer.deserialize_seq(VectorVisitor(PhantomData))
}

struct MapVisitor<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for MapVisitor<K, V>
where
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    type Value = OrdMap<K, V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = OrdMap::new();
        while let Some((key, value)) = access.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

struct VectorVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for VectorVisitor<T> {
    type Value = Vector<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut vector = Vector::new();
        while let Some(value) = access.next_element()? {
            vector.push_back(value);
        }
        Ok(vector)
    }
}
