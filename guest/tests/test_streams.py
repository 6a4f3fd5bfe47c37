import io
import unittest

from belljar_guest.streams import open_frames
from fake_host import SessionTest


class Output(SessionTest):
    def test_order_and_flush(self):
        self.s.run("import sys\nprint('a', end='')\nprint('b', file=sys.stderr, end='')")
        self.assertEqual((self.s.stdout, self.s.stderr), ("a", "b"))

    def test_streams_while_running(self):
        self.s.kernel.host.exchange = lambda frame: b'{"ok":"' + bytes(self.s.written[1]).strip() + b'"}'
        self.s.handle(b'\x01{"tools":[{"name":"seen"}]}')
        self.assertEqual(self.s.text("print('line')\ntools.seen()"), "'line'")

    def test_any_character(self):
        self.s.run("print('\\udc80é')")
        self.assertEqual(self.s.stdout, "\\udc80é\n")

    def test_closed_replaced_deleted(self):
        for ruin in ("sys.stdout.close()", "sys.stdout = None", "del sys.stdout", "sys.stdout.detach()",
                     "sys.stdout = sys.__stdout__ = 5", "sys.stdout = open('/dev/null', 'w')\nsys.stdout.close()",
                     "sys.stdout.close()\nsys.stderr.close()", "import os\nsys.stdout.buffer.close()",
                     "class W:\n    def __getattr__(self, n): raise SystemExit\nsys.stdout = W()"):
            with self.subTest(ruin=ruin):
                self.s.run("import sys")
                self.s.run(ruin)
                self.s.written[1].clear()
                self.assertEqual(self.s.run("print('alive')")["status"], "ok")
                self.assertEqual(self.s.stdout, "alive\n")
                self.s.written[2].clear()
                self.s.run("sys.stderr.write('err')")
                self.assertEqual(self.s.stderr, "err")

    def test_a_users_own_stream_stays(self):
        self.s.run("import sys, io\nmine = sys.stdout = io.StringIO()")
        self.s.run("print('mine')")
        self.assertEqual(self.s.text("mine.getvalue()"), r"'mine\n'")
        self.s.run("sys.stdout = sys.__stdout__\nprint('yours')")
        self.assertEqual(self.s.stdout, "yours\n")

    def test_frames(self):
        frames = []
        stream = open_frames(frames.append)(2)
        stream.write("a\nb")
        stream.flush()
        self.assertEqual(frames, [b"\x24\x02a\nb"])
