import urllib.parse as up
print(up.urlparse('https://user:pw@host:8080/p/a;x?q=1&q=2&z=%C3%BC#frag'), up.parse_qs('q=1&q=2&z=%C3%BC+x&e='), up.quote('a b/ü?&'))
print(up.quote_plus('a b&'), up.unquote('%41%zz%C3'), up.urlencode({'a': [1, 2], 'b': 'ü x'}, doseq=True), up.urljoin('http://a/b/c?d', '../x#y'))
import ipaddress
print(ipaddress.ip_network('10.0.0.0/29'), list(ipaddress.ip_network('10.0.0.0/30').hosts()), ipaddress.ip_address('2001:db8::1').exploded)
# %%
import socket
socket.inet_aton('127.0.0.1'), socket.htons(80), socket.ntohl(1), socket.AF_INET, socket.inet_pton(socket.AF_INET6, '::1')
# %% raises ValueError
up.urlsplit('http://[::1')
