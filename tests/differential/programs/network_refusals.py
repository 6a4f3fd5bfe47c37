import socket, urllib.request, errno
def attempt(name, function):
    try:
        print(name, function())
    except Exception as error:
        print(name, type(error).__name__)
attempt('socket', lambda: socket.create_connection(('127.0.0.1', 9), timeout=1))
attempt('address', lambda: socket.inet_aton('127.0.0.1'))
attempt('bytes', lambda: (socket.htons(80), socket.ntohl(1), socket.AF_INET))
