// SPDX-License-Identifier: Apache-2.0
//
// src/gevent/greenlet.py, _waiter.py and their .pxd files: a Greenlet is greenlet.greenlet's 40 bytes, a table of
// methods, then value, args, kwargs, spawning_greenlet, spawning_stack, spawn_tree_locals, _links, _exc_info, _notifier,
// _start_event. A link that wakes who waits is the method `switch` of that greenlet, or of the Waiter that it waits at.
#include "python/gevent_greenlets.h"

#include "python/objects.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace pyprof {

namespace {

constexpr int kMostBases = 32;
constexpr std::size_t kMostLinks = 4096;
constexpr std::size_t kMostSpawningFrames = 64;
constexpr std::size_t kMostNameCharacters = 256;
constexpr int kMostPartials = 8;
constexpr std::uint64_t kMostWaitedBytes = 512;

constexpr std::uint64_t kMembers = 48;  // where `value` stands
enum Member : std::size_t { kValue, kArgs, kKwargs, kSpawningGreenlet, kSpawningStack, kTreeLocals, kLinks, kExcInfo, kNotifier, kStartEvent, kMemberCount };
using Members = std::array<std::uint64_t, kMemberCount>;

// After an object's header. A Waiter has a table of methods there, then its hub and who waits.
constexpr std::uint64_t kMethodSelf = 8;  // of bound methods, of Python and of C alike
constexpr std::size_t kWaiterWords = 6;

Address pointer(Memory& memory, Address from) {
    const Address found = read_pointer(memory, from).value_or(kNullAddress);
    return can_be_object(found) ? found : kNullAddress;
}

std::string name_of_type(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address object) {
    const auto type = can_be_object(object) ? read_type(memory, layout, object) : std::nullopt;
    return type ? kinds.name_of_type(memory, *type) : std::string();
}

Address module_member(Memory& memory, const Layout& layout, Address interpreter, std::string_view module, std::string_view member) {
    const Address found = find_module(memory, layout, interpreter, module);
    if (found == kNullAddress) return kNullAddress;
    const Address dict = read_module_dict(memory, layout, found).value_or(kNullAddress);
    if (!can_be_object(dict)) return kNullAddress;
    const Address value = find_in_dict(memory, layout, dict, member).value_or(kNullAddress);
    return can_be_object(value) ? value : kNullAddress;
}

// Who waits at a Waiter: its one member that is a greenlet and no hub.
Address waiting_at(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent, Address waiter) {
    const auto words = read_value<std::array<std::uint64_t, kWaiterWords>>(memory, waiter);
    if (!words) return kNullAddress;
    for (std::size_t i = layout.object.header_size / 8; i < words->size(); ++i) {
        const Address word{(*words)[i]};
        if (!can_be_object(word) || kinds.kind_of(memory, word) != ObjectKind::kGreenlet) continue;
        if (!is_instance(memory, layout, word, gevent.hub_type)) return word;
    }
    return kNullAddress;
}

// The name in a PyMethodDef.
bool is_switch(Memory& memory, const Layout& layout, Address builtin) {
    const Address definition = pointer(memory, builtin + layout.object.header_size);
    const auto name = definition == kNullAddress ? std::nullopt : read_pointer(memory, definition);
    if (!name || raw(*name) < 4096) return false;
    constexpr std::string_view kSwitch("switch\0", 7);
    std::array<char, kSwitch.size()> text{};
    return read_bytes(memory, *name, std::as_writable_bytes(std::span(text))) && std::string_view(text.data(), text.size()) == kSwitch;
}

std::vector<Address> items_of(Memory& memory, const Layout& layout, ObjectKind kind, Address object) {
    switch (kind) {
        case ObjectKind::kList:
            return read_list(memory, layout, object, kMostLinks).value_or(std::vector<Address>());
        case ObjectKind::kTuple:
            return read_tuple(memory, layout, object, kMostLinks).value_or(std::vector<Address>());
        case ObjectKind::kDeque:
            return read_deque(memory, layout, object, kMostLinks);
        default:
            return {object};
    }
}

}  // namespace

std::optional<WokenGreenlet> woken_by(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent, Address object) {
    const ObjectKind kind = kinds.kind_of(memory, object);
    Address self = object;
    if (kind == ObjectKind::kBuiltinMethod || kind == ObjectKind::kMethod) {
        self = pointer(memory, object + layout.object.header_size + kMethodSelf);
        if (self == kNullAddress) return std::nullopt;
        if (kinds.kind_of(memory, self) == ObjectKind::kGreenlet) {
            const bool wakes = kind == ObjectKind::kBuiltinMethod && is_switch(memory, layout, object);
            return wakes ? std::optional(WokenGreenlet{self, false}) : std::nullopt;
        }
    }
    if (!name_of_type(memory, layout, kinds, self).ends_with("Waiter")) return std::nullopt;
    const Address waiting = waiting_at(memory, layout, kinds, gevent, self);
    return waiting == kNullAddress ? std::nullopt : std::optional(WokenGreenlet{waiting, true});
}

std::optional<GeventModule> find_gevent(Memory& memory, const Layout& layout, Address interpreter) {
    GeventModule gevent;
    gevent.hub_type = module_member(memory, layout, interpreter, "gevent.hub", "Hub");
    if (gevent.hub_type == kNullAddress) return std::nullopt;
    gevent.greenlet_type = module_member(memory, layout, interpreter, "gevent.greenlet", "Greenlet");
    if (gevent.greenlet_type == kNullAddress) return std::nullopt;
    return gevent;
}

bool is_instance(Memory& memory, const Layout& layout, Address object, Address type) {
    Address own = can_be_object(object) ? read_type(memory, layout, object).value_or(kNullAddress) : kNullAddress;
    for (int hop = 0; hop < kMostBases && can_be_object(own); ++hop) {
        if (own == type) return true;
        own = pointer(memory, own + at(layout.type.base));
    }
    return false;
}

std::uint64_t thread_of_hub(Memory& memory, const Layout& layout, Address hub) {
    const Address ident = read_attribute(memory, layout, hub, "thread_ident").value_or(kNullAddress);
    if (!can_be_object(ident)) return 0;
    const auto type = read_type(memory, layout, ident);
    if (!type || !can_be_object(*type) || type_name(memory, layout, *type) != "int") return 0;
    return read_long(memory, layout, ident).value_or(0);
}

bool read_gevent_greenlet(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent,
                          Address greenlet, GeventGreenlet& found) {
    found = GeventGreenlet{};
    const auto members = read_value<Members>(memory, greenlet + kMembers);
    if (!members) return false;
    const auto member = [&](Member which) { return Address{(*members)[which]}; };
    const auto kind = [&](Member which) { return kinds.kind_of(memory, member(which)); };
    if (kind(kArgs) != ObjectKind::kTuple || kind(kKwargs) != ObjectKind::kDict) return false;
    const ObjectKind links = kind(kLinks);
    if (links != ObjectKind::kList && links != ObjectKind::kNone) return false;

    if (kind(kSpawningGreenlet) == ObjectKind::kWeakref) {
        const Address spawner = pointer(memory, member(kSpawningGreenlet) + layout.object.header_size);
        const bool is_greenlet = spawner != kNullAddress && kinds.kind_of(memory, spawner) == ObjectKind::kGreenlet;
        if (is_greenlet && !is_instance(memory, layout, spawner, gevent.hub_type)) found.spawner = spawner;
    }
    if (name_of_type(memory, layout, kinds, member(kSpawningStack)) == "_Frame") found.spawning_stack = member(kSpawningStack);
    const ObjectKind start = kind(kStartEvent);
    if (start != ObjectKind::kNone && start != ObjectKind::kUnreadable) found.start_event = member(kStartEvent);

    for (const Member own : {kArgs, kKwargs, kSpawningGreenlet, kSpawningStack, kLinks}) {
        found.identity = (found.identity ^ raw(member(own))) * 0x9E3779B97F4A7C15ULL;
    }
    if (links != ObjectKind::kList) return true;
    const auto items = read_list(memory, layout, member(kLinks), kMostLinks);
    if (!items) return false;
    for (const Address link : *items) {
        const auto joiner = woken_by(memory, layout, kinds, gevent, link);
        if (joiner) found.joiners.push_back(*joiner);
    }
    return true;
}

bool is_waited_at(Memory& memory, const Layout& layout, Address type) {
    const auto name = type_name(memory, layout, type);
    if (!name || !name->starts_with("gevent.")) return false;
    return !name->ends_with("Waiter") && !name->ends_with("._Frame") && !name->ends_with(".loop");
}

void find_waiting(Memory& memory, const Layout& layout, ObjectKinds& kinds, const GeventModule& gevent, Address object,
                  std::vector<Address>& greenlets) {
    const auto type = read_type(memory, layout, object);
    const auto size = type && can_be_object(*type) ? read_value<std::uint64_t>(memory, *type + at(layout.type.basic_size)) : std::nullopt;
    if (!size || *size > kMostWaitedBytes) return;
    std::vector<std::uint64_t> words(*size / 8);
    if (!read_bytes(memory, object, std::as_writable_bytes(std::span(words)))) return;
    for (std::size_t i = layout.object.header_size / 8; i < words.size(); ++i) {
        const Address word{words[i]};
        const ObjectKind kind = can_be_object(word) ? kinds.kind_of(memory, word) : ObjectKind::kUnreadable;
        if (kind == ObjectKind::kUnreadable || kind == ObjectKind::kNone) continue;
        for (const Address item : items_of(memory, layout, kind, word)) {
            if (!can_be_object(item)) continue;
            const auto waiting = woken_by(memory, layout, kinds, gevent, item);
            if (waiting) greenlets.push_back(waiting->greenlet);
        }
    }
}

Address run_name_of(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address greenlet) {
    Address run = read_attribute(memory, layout, greenlet, "_run").value_or(kNullAddress);
    for (int hop = 0; hop < kMostPartials && can_be_object(run); ++hop) {
        const ObjectKind kind = kinds.kind_of(memory, run);
        if (kind == ObjectKind::kFunction) {
            const Address name = pointer(memory, run + at(layout.function.qualname));
            return name != kNullAddress && kinds.kind_of(memory, name) == ObjectKind::kStr ? name : kNullAddress;
        }
        // Both begin with the function that they call.
        if (kind != ObjectKind::kMethod && kind != ObjectKind::kPartial) return kNullAddress;
        run = pointer(memory, run + layout.object.header_size);
    }
    return kNullAddress;
}

Address given_name_of(Memory& memory, const Layout& layout, ObjectKinds& kinds, Address greenlet) {
    constexpr std::string_view kDefault = "Greenlet-";
    const Address name = read_attribute(memory, layout, greenlet, "name").value_or(kNullAddress);
    if (!can_be_object(name) || kinds.kind_of(memory, name) != ObjectKind::kStr) return kNullAddress;
    const auto text = read_unicode(memory, layout, name, kMostNameCharacters);
    return text && !text->empty() && !text->starts_with(kDefault) ? name : kNullAddress;
}

// _Frame: its code, its line (an int of C) and the one that called it.
std::vector<OriginFrame> read_spawning_stack(Memory& memory, const Layout& layout, Address frame) {
    std::vector<OriginFrame> frames;
    while (can_be_object(frame) && frames.size() < kMostSpawningFrames) {
        const auto words = read_value<std::array<std::uint64_t, 3>>(memory, frame + layout.object.header_size);
        if (!words) break;
        const Address code{(*words)[0]};
        const auto type = can_be_object(code) ? read_type(memory, layout, code) : std::nullopt;
        if (!type || !can_be_object(*type) || type_name(memory, layout, *type) != "code") break;
        const Address file = pointer(memory, code + at(layout.code.filename));
        const Address name = pointer(memory, code + at(shown_name(layout.code)));
        const auto file_text = file == kNullAddress ? std::nullopt : read_unicode(memory, layout, file);
        const auto name_text = name == kNullAddress ? std::nullopt : read_unicode(memory, layout, name);
        if (!file_text || !name_text) break;
        frames.push_back({*file_text, *name_text, static_cast<std::int32_t>((*words)[1])});
        frame = Address{(*words)[2]};
        const auto next = can_be_object(frame) ? read_type(memory, layout, frame) : std::nullopt;
        if (!next || !can_be_object(*next)) break;
        const auto next_name = type_name(memory, layout, *next);
        if (!next_name || !next_name->ends_with("_Frame")) break;
    }
    return frames;
}

}  // namespace pyprof
