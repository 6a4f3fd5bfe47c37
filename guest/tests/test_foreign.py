import sys
import unittest
from unittest import mock

from belljar_guest import foreign


class Foreign(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.dict(sys.modules)
        patch.start()
        self.addCleanup(patch.stop)
        foreign.install()
        self.ctypes = sys.modules["ctypes"]

    def test_types_have_sizes_and_values(self):
        c = self.ctypes
        self.assertEqual([c.sizeof(kind) for kind in (c.c_byte, c.c_int32, c.c_int64, c.c_double)], [1, 4, 8, 8])
        self.assertEqual(c.sizeof(c.c_int16 * 5), 10)
        self.assertEqual([c.c_ubyte(300).value, c.c_byte(200).value, c.c_int(-1).value], [44, -56, -1])
        self.assertEqual(repr(c.c_int(3)), "c_int(3)")

    def test_types_can_be_defined(self):
        c = self.ctypes

        class Point(c.Structure):
            _fields_ = [("x", c.c_int), ("y", c.POINTER(c.c_int))]

        self.assertRaises(OSError, Point)
        self.assertRaises(OSError, c.CFUNCTYPE(c.c_int, c.c_int), lambda x: x)

    def test_nothing_reaches_memory(self):
        for name in ("libc.so.6", None):
            self.assertRaisesRegex(OSError, "can't load C libraries", self.ctypes.CDLL, name)
        self.assertRaises(OSError, self.ctypes.string_at, 0)
        self.assertRaises(AttributeError, lambda: self.ctypes.pythonapi)


    def test_a_codec_raises_when_it_is_used(self):
        codec = sys.modules["_bz2"].BZ2Decompressor()
        for method in (codec.decompress, codec.compress, codec.flush):
            self.assertRaisesRegex(OSError, "lacks this compression", method, b"")


if __name__ == "__main__":
    unittest.main()
