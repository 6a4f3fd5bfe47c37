"""An S3 service in memory, until standard input ends: serve.py

Prints its port. Whoever started it holds the other end of standard input, so that it never outlives them.
"""

import logging
import sys

from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").disabled = True
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
