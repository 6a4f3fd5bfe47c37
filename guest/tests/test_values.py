from fake_host import SessionTest

RICH = """
class Rich:
    def __repr__(self): return 'rich'
    def _repr_html_(self): return '<b>'
    def _repr_markdown_(self): return '**b**'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return 'aGVsbG8=', {'width': 3}
    def _repr_svg_(self): return None
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_latex_(self): raise ValueError('no latex')
"""


class Values(SessionTest):
    def test_bundle(self):
        self.s.run(RICH)
        value = self.s.run("Rich()")["value"]
        self.assertEqual(value, {
            "text/plain": "rich", "text/html": "<b>", "text/markdown": "**b**", "image/png": "iVBORw==",
            "image/jpeg": "aGVsbG8=", "application/json": {"a": [1, None]},
        })
        self.assertIn("_repr_latex_ of Rich raised ValueError: no latex", self.s.stderr)

    def test_mimebundle(self):
        self.s.run("class M:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                   "        return {'text/html': 'h', 'application/vnd.x+json': {'k': 1}}, {'text/html': {'m': 1}}\n")
        value = self.s.run("M()")["value"]
        self.assertEqual((value["text/html"], value["application/vnd.x+json"]), ("h", {"k": 1}))
        self.assertIn("M object", value["text/plain"])
        self.s.run("display(M())")
        self.assertEqual(self.s.host.displays[0]["metadata"], {"text/html": {"m": 1}})

    def test_broken_reprs(self):
        self.s.run("class B:\n    def __repr__(self): raise ValueError('no')\n")
        self.assertIn("repr raised ValueError: no", self.s.text("B()"))
        self.s.run("class B:\n    def __repr__(self): return 5\n")
        self.assertIn("TypeError", self.s.text("B()"))
        self.s.run("class B:\n    def __getattr__(self, name): return lambda *a, **k: 'trick'\n")
        self.assertEqual(list(self.s.run("B()")["value"]), ["text/plain"])
        self.s.run("class S(str):\n    def encode(self, *a): raise ValueError\nclass B:\n    def __repr__(self): return S('s')\n")
        self.assertEqual(self.s.text("B()"), "s")
        self.s.run("a = []\nfor i in range(100000): a = [a]")
        self.assertIn("RecursionError", self.s.text("a"))
        self.s.run("while a: a = a[0]")
        self.s.run("class X:\n    def __repr__(self): raise SystemExit(4)")
        self.assertEqual(self.s.run("X()")["status"], "exited")
        self.assertEqual(self.s.text("1"), "1")

    def test_bad_bundles(self):
        for made in ("5", "{5: 1}", "{'text/html': 5}", "{'application/json': float('nan')}",
                     "{'application/json': {object()}}", "{'text/plain': 5}", "(1, 2, 3)", "({'a': 1}, 5)"):
            with self.subTest(made=made):
                self.s.run(f"class M:\n    def _repr_mimebundle_(self, **k): return {made}\n")
                outcome = self.s.run("M()")
                self.assertEqual(outcome["status"], "ok")
                self.assertIsInstance(outcome["value"]["text/plain"], str)
        self.s.run("deep = 1\nfor _i in range(500): deep = [deep]\n"
                   "class M:\n    def _repr_json_(self): return deep\n")
        self.assertIn("application/json left out", self.s.text("M()"))

    def test_size(self):
        s = self.session(max_value_bytes=1000)
        text = s.text("'é' * 5000")
        self.assertLess(len(text), 1100)
        self.assertIn("cut: 4000 more of 5000 characters", text)
        self.assertIn("cut:", s.text("list(range(5000))"))
        s.run("class H:\n    def _repr_html_(self): return 'h' * 5000\n    def _repr_svg_(self): return 's'\n")
        value = s.run("H()")["value"]
        self.assertNotIn("text/html", value)
        self.assertEqual(value["image/svg+xml"], "s")
        self.assertIn("[text/html left out: 5011 bytes", value["text/plain"])

    def test_lone_surrogates(self):
        self.s.run("class U:\n    def __repr__(self): return '\\udc80\"'\n")
        self.assertEqual(self.s.text("U()"), '\\udc80"')
        self.s.run("display({'text/html': '\\ud800'}, raw=True)")
        self.assertEqual(self.s.host.displays[0]["data"]["text/html"], "\\ud800")

    def test_display(self):
        self.s.run(RICH + "print('before', end='')\ndisplay(Rich(), 5)\ndisplay({'text/html': 'x'}, raw=True, metadata={'a': 1})")
        rich, five, raw = self.s.host.displays
        self.assertEqual(rich["data"]["text/html"], "<b>")
        self.assertEqual(rich["metadata"], {"image/jpeg": {"width": 3}})
        self.assertEqual(five["data"], {"text/plain": "5"})
        self.assertEqual(raw, {"data": {"text/plain": "", "text/html": "x"}, "metadata": {"a": 1}})
        self.assertEqual(self.s.error("display(5, raw=True)")["type"], "TypeError")
        self.s.run("display(Rich(), include=['text/html'])")
        self.assertEqual(set(self.s.host.displays[-1]["data"]), {"text/plain", "text/html"})
