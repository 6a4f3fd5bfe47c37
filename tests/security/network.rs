//! There is none.

use crate::cells::{hostile, raising};

hostile! {
    connect("import socket\nsocket.create_connection(('127.0.0.1', 80), timeout=1)") => [Error];
    connect_by_hand("import socket\ns = socket.socket()\ns.connect(('127.0.0.1', 80))") => [Error];
    bind("import socket\ns = socket.socket()\ns.bind(('0.0.0.0', 8080))\ns.listen()") => [Error];
    datagrams("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('127.0.0.1', 53))") => [Error];
    look_ups("import socket\nsocket.getaddrinfo('example.org', 80)") => [Error];
    look_ups_by_name("import socket\nsocket.gethostbyname('localhost')") => [Error];
    pairs("import socket\nsocket.socketpair()") => [Error];
    unix_sockets("import socket\nsocket.socket(socket.AF_UNIX)") => [Error];
    raw_sockets("import _socket\nfor family in range(0, 50):\n    for kind in range(0, 12):\n        try: _socket.socket(family, kind)\n        except OSError: pass\n        else: raise SystemError('a socket')") => [Ok];
    sockets_from_descriptors("import socket\nfor fd in range(0, 50):\n    try: s = socket.socket(fileno=fd); s.send(b'x')\n    except (OSError, ValueError): pass") => [Ok, Error];
    selecting("import select\nselect.select([0], [1], [2], 0.01)\n[select.poll().register(n) for n in range(3)]") => [Ok, Error];
    selecting_many("import select\nselect.select(list(range(5000)), [], [], 0)") => [Error];
    urls("import urllib.request\nurllib.request.urlopen('http://127.0.0.1/', timeout=1)") => [Error];
    file_urls("import urllib.request\nurllib.request.urlopen('file:///etc/passwd').read()") => [Error];
    http("import http.client\nhttp.client.HTTPConnection('127.0.0.1', timeout=1).request('GET', '/')") => [Error];
    servers("import http.server\nhttp.server.HTTPServer(('', 8000), http.server.BaseHTTPRequestHandler)") => [Error];
    asyncio_connections("import asyncio\nawait asyncio.open_connection('127.0.0.1', 80)") => [Error];
    asyncio_servers("import asyncio\nawait asyncio.start_server(print, '127.0.0.1', 80)") => [Error];
    host_names("import socket\nsocket.gethostname()") => [Ok, Error];
}

raising! {
    tls_is_absent("import ssl") => "ModuleNotFoundError";
}
