# SPDX-License-Identifier: Apache-2.0
"""Writes seeds for the fuzz targets of line tables, debug offsets, objects, asyncio, gevent, call frame information,
the commands of watch, and walks.

    python3 tests/fuzz/make_seeds.py DIRECTORY

Line tables come from tests/layouts/lines/*.txt, debug offsets from tests/layouts/debug_offsets/*.bin,
objects from small memories written here: sys.modules down to a thread's name, on each kind of layout.
Files of native code are a perf map, a jitdump and a small ELF file with a debug link, a build-id and a search table, or
with debug information;
Cython's are a C file and symbols.
Walks are a thread with a stack of two functions, by the fields of tests/layouts/expected.
"""
import os
import struct
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUTS = os.path.join(HERE, "..", "layouts")
BASE = 0x10000


def save(subject, name, content):
    directory = os.path.join(sys.argv[1], subject)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)


def line_tables():
    for name in sorted(os.listdir(LAYOUTS + "/lines")):
        minor = int(name.split(".")[1])
        kind = 0 if minor <= 9 else 1 if minor == 10 else 2
        with open(os.path.join(LAYOUTS, "lines", name)) as file:
            codes = sorted((line.split() for line in file), key=lambda words: len(words[4]))
        for number, words in enumerate([codes[-4], codes[len(codes) // 2]]):
            head = struct.pack("<BiH", kind, int(words[2]), int(words[3]) % 65536)
            save("line_table", "%s-%d" % (name[: -len(".txt")], number), head + bytes.fromhex(words[4]))


def debug_offsets():
    sizes = {"3.13": 584, "3.14": 760, "3.15": 888}
    for name in sorted(os.listdir(LAYOUTS + "/debug_offsets")):
        with open(os.path.join(LAYOUTS, "debug_offsets", name), "rb") as file:
            content = file.read()
        save("debug_offsets", name[: -len(".bin")], content[: sizes[name[:4]]])


class Memory:
    """A growing memory at BASE; the first word is left for sys.modules."""

    def __init__(self, choice):
        self.bytes = bytearray(64)
        self.choice = choice
        self.minor = 8 + choice % 5
        self.typed = self.minor >= 11
        self.tagged = self.minor >= 12

    def add(self, content, before=32):
        self.bytes += bytes(before)
        self.bytes += bytes(-len(self.bytes) % 16)
        at = BASE + len(self.bytes)
        self.bytes += content
        return at

    def str(self, text):
        data = 40 if self.minor >= 12 else 48
        state = 0x1900 if self.choice % 8 == 7 else 0xE4
        head = struct.pack("<QQQqI", 1, 0, len(text), -1, state).ljust(data, b"\0")
        return self.add(head + text.encode() + b"\0")

    def int(self, value):
        digits = []
        while value:
            digits.append(value & 0x3FFFFFFF)
            value >>= 30
        count = len(digits) << 3 if self.tagged else len(digits)
        return self.add(struct.pack("<QQQ", 1, 0, count) + b"".join(struct.pack("<I", d) for d in digits) + bytes(8))

    def keys(self, entries, general):
        indices = bytes(range(len(entries))).ljust(8, b"\xff")
        if self.typed:
            head = struct.pack("<QBBBBIqq", 1, 3, 3, 0 if general else 1, 0, 0, 5 - len(entries), len(entries))
        else:
            head = struct.pack("<QQQqq", 1, 8, 0, 5 - len(entries), len(entries))
        pair = "<QQ" if self.typed and not general else "<QQQ"
        fields = (lambda k, v: (k, v)) if pair == "<QQ" else (lambda k, v: (0, k, v))
        return self.add(head + indices + b"".join(struct.pack(pair, *fields(*entry)) for entry in entries))

    def dict(self, entries, general=False):
        return self.add(struct.pack("<QQQQQQ", 1, 0, len(entries), 0, self.keys(entries, general), 0))

    def instance(self, name):
        """A Thread with a dict or with values, as the layout has them."""
        kind = "inline" if self.choice % 8 >= 5 else {11: "before", 12: "tagged"}.get(self.minor, "dict")
        flags = 1 << 9 | (0 if kind == "dict" else 1 << 4) | (1 << 2 if kind == "inline" else 0)
        if kind == "inline" and self.minor < 11:
            kind = "dict"
            flags = 1 << 9
        type_ = bytearray(900)
        struct.pack_into("<Q", type_, 24, self.add(b"Thread\0"))
        struct.pack_into("<Q", type_, 32, 32 if kind == "dict" else 16)
        struct.pack_into("<Q", type_, 168, flags)
        struct.pack_into("<q", type_, 288, 16 if kind == "dict" else -1)
        cached = {8: 872, 9: 864, 10: 872, 11: 872, 12: 880}[self.minor]
        struct.pack_into("<Q", type_, cached, self.keys([(self.str("_name"), 0)], general=False))
        type_at = self.add(bytes(type_))
        if kind == "dict":
            return self.add(struct.pack("<QQQQ", 1, type_at, self.dict([(self.str("_name"), name)]), 0))
        values = struct.pack("<BBBBI", 1, 1, 1, 1, 0) + struct.pack("<Q", name)
        if kind == "inline":
            return self.add(struct.pack("<QQ", 1, type_at) + values)
        at = self.add(values[8:])
        words = (at, 0) if kind == "before" else (0, at - 1)
        return self.add(struct.pack("<QQQQ", *words, 0, 0) + struct.pack("<QQ", 1, type_at)) + 32


def objects():
    for choice in range(5, 15):
        memory = Memory(choice)
        thread = memory.instance(memory.str("worker"))
        active = memory.dict([(memory.int(0x7F0000001000), thread)], general=True)
        module = memory.add(struct.pack("<QQQQ", 1, 0, memory.dict([(memory.str("_active"), active)]), 0))
        modules = memory.dict([(memory.str("sys"), 0x1234), (memory.str("threading"), module)])
        struct.pack_into("<Q", memory.bytes, 0, modules)
        save("objects", "names-%d" % choice, bytes([choice]) + bytes(memory.bytes))


def cfi():
    """Programs of each kind behind one common part, for functions at 0x2000 and on; with a search table, too."""
    programs = {
        "frame": "41 0e10 8602 43 0d06 02 40 c6 0c0708",
        "states": "0e10 8302 0a 44 c3 0e08 41 0b",
        "plt": "0f0b 7708 800f 1a 3b 2a 33 24 22",
        "signal": "0f03 7710 06 1010 02 7708 1006 02 7718",
        "registers": "0710 0806 0910 02 1407 02 1507 7e 050c 03 110c 7d 2f0c 03 160c 01 30",
        "moves": "0240 0e10 038000 0e18 0490000000 0e20 2e10",
        "drap": "0c0a00 1006 02 7600 0f03 7678 06",
    }
    for number, (name, text) in enumerate(programs.items()):
        program = bytes.fromhex(text)
        for debug in (False, True):
            common = bytes([4]) + b"\0" + bytes([8, 0]) if debug else bytes([1]) + b"zRS\0"[: 3 + (name == "signal")]
            common += b"" if debug or name == "signal" else b"\0"
            common += bytes([1, 0x78, 16]) + (b"" if debug else bytes([1, 0x1B])) + bytes.fromhex("0c0708 9001")
            body = struct.pack("<I", 0xFFFFFFFF if debug else 0) + common
            body += bytes(-len(body) % 4)
            section = struct.pack("<I", len(body)) + body
            at = len(section)
            if debug:
                entry = struct.pack("<IQQ", 0, 0x2000, 0x80) + program
            else:
                entry = struct.pack("<Iii", at + 4, 0x2000 - (0x1000 + at + 8), 0x80) + b"\0" + program
            entry += bytes(-len(entry) % 4)
            section += struct.pack("<I", len(entry)) + entry
            table = struct.pack("<BBBBiIii", 1, 0x1B, 3, 0x3B, 0x1000 - 0x804, 1, 0x2000 - 0x800, 0x1000 + at - 0x800)
            kind = int(debug) | (2 if number % 2 and not debug else 0)
            save("cfi", "%s-%s" % (name, "debug" if debug else "eh"), struct.pack("<BH", kind, len(table)) + table + section)


def watch():
    for number, line in enumerate(["add Page.* 'json.*:[a-z]?'\nPage.median", "add a\\ b \"c\"\nb", "add ***a[!b-\naab", "start -f x # y\n\xe9"]):
        save("watch", "line-%d" % number, b"\0" + line.encode())
    save("watch", "config", b"\1functions = ['a', \"B.*\"]\nrate = \"1k\"\nthreads = 'all'\nnonblocking = true\n")
    save("watch", "config-broken", b"\1functions = [\nrate = -1e999\n")


def changes_of(subject, words, choices=5):
    """Changes of single words of the target's own small program: five bytes each, see tests/support/damage.h."""
    for choice in range(choices):
        save(subject, "whole-%d" % choice, bytes([choice]))
        for step in (1, 7, 31):
            changes = b"".join(struct.pack("<HBH", place, kind, place * 3 + kind)
                               for place, kind in zip(range(0, words, step * 3), [0, 1, 1, 2, 3] * 50))
            save(subject, "changed-%d-%d" % (choice, step), bytes([choice]) + changes[: 5 * 60])


def asyncio():
    changes_of("asyncio", 800, choices=15)  # see fuzz_layouts.h


def gevent():
    changes_of("gevent", 9000)


def known_layouts():
    """(name, fields) in the order of tests/support/known_layouts.h."""
    described = sorted(name[: -len(".bin")] for name in os.listdir(LAYOUTS + "/debug_offsets"))
    stored = sorted(os.listdir(LAYOUTS + "/expected"))
    for name in ["3.%d" % minor for minor in range(8, 13)] + described:
        build = name.replace("-headers", "")
        (file_name,) = [file for file in stored if file == build + ".txt" or name.count(".") == 1 and file.startswith(name + ".")]
        with open(os.path.join(LAYOUTS, "expected", file_name)) as file:
            words = [line.split() for line in file]
        yield name, {key: int(value) for key, value in words if key != "version"}


class Image:
    """Memory whose words of 0xf00d.... are pointers into it."""

    def __init__(self, fields):
        self.fields = fields
        self.bytes = bytearray()

    def add(self, size):
        self.bytes += bytes(-len(self.bytes) % 16)
        at = len(self.bytes)
        self.bytes += bytes(size)
        return at

    def put(self, base, field, value, form="<Q"):
        offset = self.fields[field]
        if offset >= 0:
            struct.pack_into(form, self.bytes, base + offset, value)

    def point(self, base, field, to, more=0):
        self.put(base, field, 0xF00D << 48 | to + more)

    def str(self, text):
        f = self.fields
        at = self.add(f["unicode.ascii_data"] + len(text) + 8)
        self.put(at, "unicode.length", len(text), "<q")
        state = 1 << 8 | 1 << 13 | 1 << 14 if f["unicode.wide_interned"] > 0 else 0xE4
        self.put(at, "unicode.state", state, "<I")
        data = at + f["unicode.ascii_data"]
        self.bytes[data: data + len(text)] = text.encode()
        return at

    def string_of_bytes(self, content):
        at = self.add(self.fields["bytes.data"] + len(content) + 8)
        self.put(at, "bytes.size", len(content), "<q")
        data = at + self.fields["bytes.data"]
        self.bytes[data: data + len(content)] = content
        return at

    def code(self, name, table):
        f = self.fields
        inside = f["code.unit_count"] >= 0
        at = self.add((f["code.bytecode"] if inside else f["code.size"]) + 96)
        self.point(at, "code.name", self.str(name))
        self.point(at, "code.qualname", self.str("C." + name))
        self.point(at, "code.filename", self.str("file.py"))
        self.point(at, "code.line_table", self.string_of_bytes(table))
        self.put(at, "code.first_line", 7, "<i")
        self.put(at, "code.version", 3, "<I")
        self.put(at, "code.frame_size", 12, "<i")
        if inside:
            self.put(at, "code.unit_count", 40, "<q")
        else:
            self.point(at, "code.bytecode", self.string_of_bytes(bytes(80)))
        return at

    def frame(self, at, code, back, minor, leaf):
        self.point(at, "frame.code", code)
        if back is not None:
            self.point(at, "frame.back", back)
        if minor >= 11:
            self.point(at, "frame.instruction", code, self.fields["code.bytecode"] + 16)
        else:
            self.put(at, "frame.instruction", 16 if minor < 10 else 8, "<i")
            self.put(at, "frame.executing", 1 if minor < 10 else 0, "<b")
        self.put(at, "frame.stacktop", -1 if leaf else 1, "<i")
        if not leaf:
            self.point(at, "frame.stackpointer", at)
        if back is None:
            self.put(at, "frame.is_entry", 1, "<B")


def walks():
    tables = {0: bytes([2, 1, 4, 2]), 1: bytes([4, 1, 76, 2]), 2: bytes([0xF0, 0, 0xE7, 2, 1, 2])}
    for number, (name, fields) in enumerate(known_layouts()):
        minor = int(name.split(".")[1].split("-")[0].rstrip("dt"))
        image = Image(fields)
        thread = image.add(1024)
        interpreter = image.add(64)
        table = tables[0 if minor <= 9 else 1 if minor == 10 else 2]
        outer, inner = image.code("outer", table), image.code("inner", table)
        size = fields["frame.size"] + 32
        if minor >= 11:
            chunk = image.add(32)
            at = image.add(8 * size)
            image.put(chunk, "chunk.size", 32 + 8 * size)
            image.point(thread, "thread.datastack_chunk", chunk)
        else:
            at = image.add(8 * size)
        shim = None
        if fields["frame.owner_cstack"] >= 0 or fields["frame.owner_interpreter"] >= 0:
            shim = image.add(size)
            image.point(shim, "frame.code", outer)
            image.put(shim, "frame.owner", max(fields["frame.owner_cstack"], fields["frame.owner_interpreter"]), "<B")
        image.frame(at, outer, None, minor, leaf=False)
        if shim is not None:
            image.point(at, "frame.back", shim)
        leaf = at
        for _ in range(3):
            image.frame(leaf, outer if leaf == at else inner, None if leaf == at else leaf - size, minor, leaf=False)
            if leaf == at and shim is not None:
                image.point(at, "frame.back", shim)
            leaf += size
        image.frame(leaf, inner, leaf - size, minor, leaf=True)
        image.point(thread, "thread.interp", interpreter)
        image.put(thread, "thread.thread_id", 0x1234)
        image.put(thread, "thread.native_thread_id", 100)
        image.point(thread, "thread.frame", leaf)
        image.point(thread, "thread.current_frame", leaf)
        cell = image.add(32)
        image.point(thread, "thread.cframe", cell)
        if fields["cframe.current_frame"] >= 0:
            image.point(cell, "cframe.current_frame", leaf)
        changes = bytes([leaf % 256, leaf // 256, 0xF0, 0, 0, 1])
        save("walk", "still-" + name, bytes([number, 0, 0]) + bytes(image.bytes))
        save("walk", "moves-" + name, bytes([number, 6, 2]) + changes + bytes(image.bytes))


def made_code():
    text = b"1000 20 first\n0x1000 20 second one\n7f0000001000 ffffffff big\nzz 1 x\n3000 0 empty\nffffffffffffffff 2 wraps\n4000 10 cut"
    for cut in (0, 20, 60):
        save("made_code", "map-%d" % cut, struct.pack("<BH", 0, cut) + text)
    header = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 1, 1, 0)

    def load(address, name, size):
        body = struct.pack("<IIQQQQ", 1, 1, address, address, size, 7) + name + b"\0" + b"\x90" * size
        return struct.pack("<IIQ", 0, 16 + len(body), 2) + body

    records = load(0x1000, b"first", 16) + struct.pack("<IIQI", 2, 20, 3, 0) + load(0x7F0000001000, b"second function", 4)
    save("made_code", "dump", struct.pack("<BH", 1, 40) + header + records + struct.pack("<IIQ", 3, 16, 9))
    save("made_code", "dump-short", struct.pack("<BH", 1, 41) + header + records[:70])
    save("made_code", "dump-record-too-small", struct.pack("<BH", 1, 40) + header + struct.pack("<IIQ", 0, 3, 9) + records)


def elf_file(contents):
    """Sections of (name, type, flags, address, content, link, entry size) in one loaded segment at 0x1000."""
    names = b"\0" + b"\0".join(entry[0] for entry in contents) + b"\0.shstrtab\0"
    contents = [*contents, (b".shstrtab", 3, 0, 0, names, 0, 0)]
    body, headers = b"", bytes(64)
    for name, kind, flags, address, content, link, entry in contents:
        headers += struct.pack("<IIQQQQIIQQ", names.index(name), kind, flags, address, 0x1000 + len(body), len(content), link, 0, 1, entry)
        body += content + bytes(-len(content) % 16)
    program = struct.pack("<IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0x1000, len(body), len(body), 0x1000)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0x1000 + len(body), 0, 64, 56, 1, 64,
                                                      len(contents) + 1, len(contents))
    return (head + program).ljust(0x1000, b"\0") + body + headers, 0x1000 + len(body)


def function_named(name):
    """The sections of debug information of one function; its name is packed."""
    abbreviations = bytes([1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0]) + bytes([2, 0x2E, 0, 0x6E, 0x0E, 0x11, 1, 0x12, 7, 0, 0, 0])
    unit = struct.pack("<HIBBQQBIQQB", 4, 0, 8, 1, 0x1000, 128, 2, 0, 0x1000, 128, 0)
    packed = struct.pack("<IIQQ", 1, 0, len(name) + 1, 1) + zlib.compress(name + b"\0", 9)
    return [
        (b".debug_info", 1, 0, 0, struct.pack("<I", len(unit)) + unit, 0, 0),
        (b".debug_abbrev", 1, 0, 0, abbreviations, 0, 0),
        (b".debug_str", 1, 0x800, 0, packed, 0, 0),
    ]


def native_file():
    table = struct.pack("<BBBBiI", 1, 0x1B, 3, 0x3B, -16, 3) + struct.pack("<6i", 0, 0, 0x40, 16, 0x1000, 32)
    save("native_file", "starts", b"\1" + table)
    save("native_file", "starts-lie", b"\1" + table[:8] + b"\xff\xff\xff\xff" + table[12:])
    strings = b"\0run\0inner\0_ZN4shop4workEv.part.0\0"
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", strings.index(name), 0x12, 0, 1, value, size)
        for name, value, size in ((b"run", 0x1000, 32), (b"inner", 0x1020, 0), (b"_ZN4shop4work", 0x1040, 16)))
    contents = [
        (b".text", 1, 6, 0x1000, bytes(128), 0, 0),
        (b".symtab", 2, 0, 0, symbols, 3, 24),
        (b".strtab", 3, 0, 0, strings, 0, 0),
        (b".gnu_debuglink", 1, 0, 0, b"x.debug\0" + struct.pack("<I", 0x12345678), 0, 0),
        (b".note.gnu.build-id", 7, 2, 0x1200, struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(range(20)), 0, 0),
        (b".eh_frame_hdr", 1, 2, 0x1300, table, 0, 0),
    ]
    whole, end = elf_file(contents)
    save("native_file", "elf", b"\0" + whole)
    save("native_file", "elf-cut", b"\0" + whole[: (0x1000 + end) // 2])
    save("native_file", "link-without-end", b"\0" + whole.replace(b"x.debug\0", b"x.debugx"))
    # Stripped of one suffix after the other by calls in calls, such a name would overflow the stack.
    save("native_file", "name-of-stubs", b"\0" + elf_file([contents[0], *function_named(b"@plt" * 100000)])[0])


def cython():
    source = (b'/* Generated by Cython 3.3.1 */\n\n/* "pkg/mod.pyx":2\n * cdef inner(n):  # <<<\n*/\nstatic double __pyx_f_3mod_inner(int n) {\n'
              b'  /* "mod.pyx":4\n * total = 0  # <<<\n */\n  __pyx_v_total = 0.0;\n}\n/* "(tree fragment)":1\n */\nint x(void) {\n}\n')
    save("cython", "source", b"\0" + source)
    save("cython", "source-cut", b"\0" + source[:-70])
    save("cython", "line-too-large", b"\0" + source.replace(b'":4', b'":99999999999'))
    for name, function, body in (
            ("generator", b"__pyx_pw_3mod_5Plain_3steps", b"__pyx_gb_3mod_5Plain_4generator1"),
            ("lambda", b"__pyx_pw_3lam_5outer___pyx_lambda_funcdef_lambda", b"__pyx_gb_3lam_5outer_1generator"),
            ("lambda-without-name", b"__pyx_pf_3mod_15__pyx_lambda_funcdef_", b""),
            ("fused", b"__pyx_pw_3mod_24__pyx_fuse_0__pyx_f_3mod_twice", b"__pyx_gb_"),
            ("number-too-large", b"__pyx_pf_3mod_99999999999999999999x", b"__pyx_gb_3mod_18446744073709551615generator")):
        save("cython", name, b"\1" + function + b"\0" + body)


line_tables()
debug_offsets()
cfi()
made_code()
native_file()
cython()
objects()
watch()
asyncio()
gevent()
walks()
