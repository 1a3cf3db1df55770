// SPDX-License-Identifier: Apache-2.0
//
// libev/corecext.pyx: loop, an object of Cython, refers to a CallbackFIFO of {head, tail}, and each callback
// is {callback, args, next}. _ffi/loop.py and callback.py (libuv, and libev by cffi): a class of Python,
// whose attribute _callbacks is a deque of objects with the slots callback and args. A hub keeps its loop
// among its own members.
#include "python/gevent_loop.h"

#include "python/objects.h"

#include <span>
#include <string_view>

namespace pyprof {

namespace {

constexpr std::uint64_t kMostBytes = 512;  // of a hub, a loop, a queue or a callback
constexpr std::size_t kMostCallbacks = 1U << 16;

// The words of an object behind its header, by the size that its type says.
std::vector<Address> words_of(Memory& memory, const Layout& layout, Address object) {
    const auto type = can_be_object(object) ? read_type(memory, layout, object) : std::nullopt;
    const auto size = type && can_be_object(*type)
                          ? read_value<std::uint64_t>(memory, *type + at(layout.type.basic_size))
                          : std::nullopt;
    const std::uint64_t header = layout.object.header_size;
    if (!size || *size < header || *size > kMostBytes) return {};
    std::vector<Address> words((*size - header) / 8);
    if (!read_bytes(memory, object + header, std::as_writable_bytes(std::span(words)))) return {};
    return words;
}

bool is_called(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address object,
               std::string_view name) {
    const auto type = can_be_object(object) ? read_type(memory, layout, object) : std::nullopt;
    return type && kinds.name_of_type(memory, *type) == name;
}

// The first word that is an object of a type of this name.
Address member_called(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address object,
                      std::string_view name) {
    for (const Address word : words_of(memory, layout, object)) {
        if (is_called(memory, layout, kinds, word, name)) return word;
    }
    return kNullAddress;
}

}  // namespace

Address find_callback_queue(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address hub) {
    const Address loop = member_called(memory, layout, kinds, hub, "loop");
    if (loop == kNullAddress) return kNullAddress;
    const Address fifo = member_called(memory, layout, kinds, loop, "CallbackFIFO");
    if (fifo != kNullAddress) return fifo;
    const Address deque = read_attribute(memory, layout, loop, "_callbacks").value_or(kNullAddress);
    return can_be_object(deque) && kinds.kind_of(memory, deque) == ObjectKind::kDeque ? deque : kNullAddress;
}

Address greenlet_of_callback(Memory& memory, const Layout& layout, ObjectKinds& kinds,
                             const GeventModule& gevent, Address callback) {
    if (!is_called(memory, layout, kinds, callback, "callback")) return kNullAddress;
    for (const Address word : words_of(memory, layout, callback)) {
        const ObjectKind kind = can_be_object(word) ? kinds.kind_of(memory, word) : ObjectKind::kUnreadable;
        if (kind != ObjectKind::kMethod && kind != ObjectKind::kBuiltinMethod) continue;
        const auto woken = woken_by(memory, layout, kinds, gevent, word);
        return woken ? woken->greenlet : kNullAddress;
    }
    return kNullAddress;
}

void find_due(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent,
              Address queue, std::vector<DueGreenlet>& due) {
    const auto take = [&](Address callback) {
        const Address greenlet = greenlet_of_callback(memory, layout, kinds, gevent, callback);
        if (greenlet != kNullAddress) due.push_back({greenlet, callback});
    };
    if (kinds.kind_of(memory, queue) == ObjectKind::kDeque) {
        for (const Address callback : read_deque(memory, layout, queue, kMostCallbacks)) take(callback);
        return;
    }
    if (!is_called(memory, layout, kinds, queue, "CallbackFIFO")) return;
    // Each refers to the next one by the one member that is of its own type. A circle comes back to where it
    // was at the last power of two.
    Address next = member_called(memory, layout, kinds, queue, "callback");
    Address mark{};
    for (std::size_t i = 1; i <= kMostCallbacks && next != kNullAddress && next != mark; ++i) {
        take(next);
        if ((i & (i - 1)) == 0) mark = next;
        next = member_called(memory, layout, kinds, next, "callback");
    }
}

}  // namespace pyprof
