import base64, binascii, codecs, quopri, uuid, html
data = bytes(range(0, 256, 7))
print(base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b32encode(data), base64.a85encode(data), base64.b85encode(data))
print(uuid.uuid5(uuid.NAMESPACE_URL, 'https://example.org/ü'), uuid.uuid3(uuid.NAMESPACE_DNS, 'x'), uuid.UUID(int=5), uuid.uuid4().version)
print(html.escape('<a href="x">&\'</a>'), html.unescape('&lt;&eacute;&#x1F389;&nope;&amp'), quopri.encodestring('ü=x'.encode()))
binascii.b2a_uu(b'hello'), codecs.encode(b'ab', 'hex'), codecs.decode('Uryyb', 'rot13'), base64.b64decode('YWJj\nZA==')
# %% raises binascii.Error
base64.b64decode('abc')
# %% raises ValueError
uuid.UUID('nope')
