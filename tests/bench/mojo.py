# SPDX-License-Identifier: Apache-2.0
"""Reads what Austin 4 writes, MOJO version 3, into collapsed stacks of function names.

The events and their fields are those of the format's description on Austin's documentation pages; each number
is a varint whose first byte carries a sign and six bits.
"""
import collections

METADATA, STACK, FRAME, FRAME_INVALID, FRAME_REFERENCE, FRAME_KERNEL, GC, IDLE, TIME, MEMORY, STRING, STRING_REFERENCE = range(1, 13)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        byte = self.byte()
        value, shift, negative = byte & 0x3F, 6, byte & 0x40
        while byte & 0x80:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
        return -value if negative else value

    def text(self):
        end = self.data.index(b"\0", self.at)
        text, self.at = self.data[self.at:end].decode(errors="replace"), end + 1
        return text


def collapsed(data):
    """{(names from the root on): samples}"""
    if data[:4] != b"MOJ\x03":
        raise ValueError("not MOJO version 3")
    reader = Reader(data)
    reader.at = 4
    strings, frames, stacks, stack = {1: "<unknown>"}, {}, collections.Counter(), None
    while reader.at < len(data):
        event = reader.byte()
        if event == METADATA:
            reader.text(), reader.text()
        elif event == STACK:
            if stack is not None:
                stacks[tuple(stack)] += 1
            reader.number(), reader.number(), reader.text()  # process, interpreter, thread
            stack = []
        elif event == FRAME:
            key, _, scope = reader.number(), reader.number(), reader.number()
            for _ in range(4):  # line, end of line, column, end of column
                reader.number()
            frames[key] = strings.get(scope, "?")
        elif event == FRAME_REFERENCE:
            stack.append(frames.get(reader.number(), "?"))
        elif event == FRAME_INVALID:
            stack.append("[invalid]")
        elif event == FRAME_KERNEL:
            stack.append(reader.text())
        elif event in (TIME, MEMORY):
            reader.number()
        elif event == STRING:
            key = reader.number()
            strings[key] = reader.text()
        elif event not in (GC, IDLE):
            raise ValueError("unknown MOJO event %d at %d" % (event, reader.at))
    if stack is not None:
        stacks[tuple(stack)] += 1
    return stacks
