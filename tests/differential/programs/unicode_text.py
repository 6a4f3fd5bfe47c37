import unicodedata as u
text = 'Ünïcödé 漢字 🎉 e\u0301 \u200d ﬁ ǅ İ ß'
print(text, len(text), text.encode(), text.encode('utf-16-le')[:8], text.upper(), text.lower(), text.casefold(), ascii(text))
print([u.normalize(form, text) for form in ('NFC', 'NFD', 'NFKC', 'NFKD')], u.unidata_version)
print([(u.name(c, '?'), u.category(c), u.east_asian_width(c), u.bidirectional(c), u.combining(c)) for c in '漢🎉\u0301½Ⅷ'])
print(u.numeric('½'), u.decimal('٣'), u.lookup('SNOWMAN'), 'ж'.encode('ascii', 'namereplace'), 'ж漢'.encode('ascii', 'xmlcharrefreplace'))
for codec in 'latin-1 cp1252 utf-7 utf-8-sig utf-32 cp437 koi8-r shift_jis gb18030 big5 euc_kr idna punycode mbcs nope'.split():
    try:
        print(codec, 'Grün ж 漢'.encode(codec))
    except (UnicodeError, LookupError) as error:
        print(codec, type(error).__name__, error)
# %% raises UnicodeDecodeError
b'abc\xff'.decode()
# %% raises UnicodeEncodeError
'\ud800'.encode()
# %%
'a lone surrogate: \ud800'
# %%
print('printed: \udc80', b'a\xffb'.decode('utf-8', 'replace'))
