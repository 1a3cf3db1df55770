# cython: language_level=3
"""A generator and a method that call C functions; test_native.py compiles it with Cython."""


cdef double burn(int rounds) noexcept nogil:
    cdef double total = 0
    cdef int i
    for i in range(rounds):
        total += i * 0.5 + total / 3  # BURN
    return total


def many_sums(int rounds):
    while True:
        yield burn(rounds)  # YIELD


class Shop:
    def work(self, int rounds):
        for total in many_sums(rounds):  # LOOP
            if self.is_over():
                return total

    def is_over(self):
        return False
