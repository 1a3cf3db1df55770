# SPDX-License-Identifier: Apache-2.0
"""A process that lies about itself: it damages its own objects, says ready and waits in a system call.

Usage: hostile.py WHAT. It never comes back to what it damaged: it blocks, and is killed.
"""
import ctypes
import os
import sys
import threading

word = ctypes.c_uint64
HEAD = object.__basicsize__  # of every object; its type is its last word
wait_end, _ = os.pipe()


def put(address, value):
    word.from_address(address).value = value


def block():
    os.write(1, b"ready\n")
    os.read(wait_end, 1)


def victim():
    block()


def length_of_name():
    """co_name's length: 2 ** 60 characters."""
    put(id(victim.__code__.co_name) + HEAD, 1 << 60)
    if hasattr(victim.__code__, "co_qualname"):
        put(id(victim.__code__.co_qualname) + HEAD, 1 << 60)


def negative_length():
    put(id(victim.__code__.co_filename) + HEAD, (1 << 64) - 1)


def wrong_type():
    """co_filename's type is no type, and its state that of no text."""
    put(id(victim.__code__.co_filename) + HEAD - 8, 8)
    put(id(victim.__code__.co_filename) + HEAD + 16, (1 << 64) - 1)


def words_of_code(code):
    return range(id(code) + HEAD, id(code) + code.__sizeof__() - 8, 8)


def table_of_lines():
    """Whatever in the code object points to its table of lines now points to bytes that claim 2 ** 60 of them."""
    table = victim.__code__.co_linetable if hasattr(victim.__code__, "co_linetable") else victim.__code__.co_lnotab
    put(id(table) + HEAD, 1 << 60)


def name_in_the_void():
    """The code object's pointer to its name leads to nothing."""
    name = id(victim.__code__.co_name)
    for place in words_of_code(victim.__code__):
        if word.from_address(place).value == name:
            put(place, 0xdead0000)


def cyclic_frames():
    """The frame's link to its caller leads back to itself. From 3.11 on frames are no objects: those lead to them."""
    frame = sys._getframe()
    own, back, begin = id(frame), id(frame.f_back), id(frame) + HEAD
    if sys.version_info >= (3, 11):
        # PyFrameObject: its head, f_back, f_frame.
        own, back = (word.from_address(address + HEAD + 8).value for address in (own, back))
        begin = own
    places = [place for place in range(begin, begin + 96, 8) if word.from_address(place).value == back]
    for place in places:
        put(place, own)
    assert places
    block()


def cyclic_threads():
    """Each thread state's link to the next leads back to the first: a list without an end."""
    for _ in range(3):
        threading.Thread(target=os.read, args=(wait_end, 1), daemon=True).start()
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    following = ctypes.pythonapi.PyThreadState_Next
    following.restype, following.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    interpreter = ctypes.pythonapi.PyInterpreterState_Head
    interpreter.restype = ctypes.c_void_p
    head = ctypes.pythonapi.PyInterpreterState_ThreadHead
    head.restype, head.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    first = head(interpreter())
    last, second = first, following(first)
    while following(last):
        last = following(last)
    # Where the first keeps its link to the second, the last keeps its null.
    for offset in range(0, 256, 8):
        if word.from_address(first + offset).value == second and word.from_address(last + offset).value == 0:
            put(last + offset, first)
            break


threading.current_thread().name = "\x1b]0;owned\x07\x1b[2J"
globals()[sys.argv[1]]()
victim()
