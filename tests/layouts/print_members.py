# SPDX-License-Identifier: Apache-2.0
"""The second oracle of the layouts: offsets that this interpreter's own types tell of their members.

Reads the tables of PyMemberDef behind code, frame, function, generator, module and type objects and
prints one "type.member offset" a line: python3.14 print_members.py >members/3.14.txt. Needs ctypes.
"""
import ctypes
import types


class MemberDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


# PyTypeObject.tp_members, 224 bytes after the object header.
MEMBERS = object.__basicsize__ + 224

TYPES = [
    types.CodeType,
    types.FrameType,
    types.FunctionType,
    types.GeneratorType,
    types.ModuleType,
    type,
]

for kind in TYPES:
    table = ctypes.c_void_p.from_address(id(kind) + MEMBERS).value
    while table:
        member = MemberDef.from_address(table)
        if not member.name:
            break
        print("%s.%s %d" % (kind.__name__, member.name.decode(), member.offset))
        table += ctypes.sizeof(MemberDef)
print("object.header %d" % object.__basicsize__)
