"""Fetches one of the named wheels where there is no pip: fetch.py DIRECTORY PROJECT WHEEL..."""

import html.parser
import os
import sys
import sysconfig
import urllib.parse
import urllib.request

directory, project, *wheels = sys.argv[1:]
platform = sysconfig.get_platform().split("-")
machine, system = platform[-1], {"linux": "manylinux", "macosx": "macosx", "win": "win"}.get(platform[0], "?")
index = next(filter(None, map(os.environ.get, ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"))), None)
if index is None:
    sys.exit("this Python has no pip, and PIP_INDEX_URL names no package index to fetch from without it")


class Links(html.parser.HTMLParser):
    found = {}

    def handle_starttag(self, tag, attributes):
        address = dict(attributes).get("href")
        if tag == "a" and address:
            address = urllib.parse.urljoin(page, address).split("#")[0]
            self.found[address.rsplit("/", 1)[-1]] = address


def fits(wheel):
    tag = wheel.removesuffix(".whl").rsplit("-", 1)[-1]
    return tag == "any" or (tag.startswith(system) and tag.endswith(machine))


page = f"{index.rstrip('/')}/{project}/"
with urllib.request.urlopen(urllib.request.Request(page, headers={"Accept": "text/html"}), timeout=60) as answer:
    Links().feed(answer.read().decode())
wheel = next((wheel for wheel in wheels if fits(wheel) and wheel in Links.found), None)
if wheel is None:
    sys.exit(f"no wheel for {'-'.join(platform)} at {page}")
with urllib.request.urlopen(Links.found[wheel], timeout=60) as answer:
    with open(os.path.join(directory, wheel), "wb") as file:
        file.write(answer.read())
