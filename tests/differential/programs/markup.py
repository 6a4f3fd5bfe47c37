import xml.etree.ElementTree as E, xml.dom.minidom, xml.sax, html.parser
root = E.fromstring('<?xml version="1.0"?><r xmlns:n="urn:x" a="1&amp;2"><i id="1">ü &lt; x</i><n:i id="2"/><!-- c --><i>tail</i> after</r>')
print(E.tostring(root), [(e.tag, e.attrib, e.text, e.tail) for e in root.iter()], root.find("i[@id='1']").text, [e.text for e in root.findall('.//i')])
E.indent(root)
print(E.tostring(root, 'unicode'), E.canonicalize('<b z="1" a="2"></b>'), xml.dom.minidom.parseString('<a><b c="d">t</b></a>').toprettyxml(indent=' '))
class Page(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs): print('start', tag, attrs)
    def handle_data(self, data): print('data', repr(data))
    def handle_endtag(self, tag): print('end', tag)
Page().feed('<p class=x>Hi &amp; <b>bye</b><br/>')
class Names(xml.sax.ContentHandler):
    def startElement(self, name, attrs): print(name, dict(attrs))
xml.sax.parseString(b'<a x="1"><b/></a>', Names())
# %% raises xml.etree.ElementTree.ParseError
E.fromstring('<a><b></a>')
