// SPDX-License-Identifier: Apache-2.0
//
// A small gevent in a FakeMemory: a hub, a thread's main greenlet and greenlets, each in one list of the garbage
// collector, as greenlet 3.1.1 and gevent 24.2.1 keep them on 3.12.
#pragma once

#include "support/frame_holding.h"
#include "support/process_builder.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace pyprof::test {

class GeventBuilder {
public:
    static constexpr std::uint64_t kPthread = 0x7f0000001000;
    static constexpr std::uint64_t kHeapType = 1U << 9U;  // Py_TPFLAGS_HEAPTYPE

    // Where greenlet's own part of a greenlet refers to that: as 3.1 has it, or behind the frame.
    static constexpr std::uint64_t kSelf = 8, kSelfUpTo30 = 160;

    explicit GeventBuilder(ProcessBuilder& builder, std::uint64_t self_place = kSelf) : builder_(builder), self_place_(self_place) {
        greenlet_type_ = builder.type("greenlet.greenlet", {.basic_size = 40, .dict_offset = 24});
        own_type_ = builder.type("gevent._gevent_cgreenlet.Greenlet", {.basic_size = 144, .dict_offset = 24, .base = greenlet_type_});
        hub_type_ = builder.type("Hub", {.basic_size = 48, .dict_offset = 24, .flags = kHeapType, .base = greenlet_type_});
        frame_type_ = builder.type("frame");
        none_ = typed(builder.object(16), "NoneType");
        state_ = builder.allocate(64);
        main = object(greenlet_type_, {});
        builder.memory().put(state_, raw(main));
        suspend(main, ~0ULL, "main_function");
        hub = object(hub_type_, {{"thread_ident", typed(builder.big_integer(kPthread), "int")}});
        set_words(hub, 1, 4096, kNullAddress, main);
        set_running(hub);
    }

    // Suspended in a function of this name.
    Address greenlet(const std::string& name) {
        const Address function = typed(builder_.function(builder_.code({})), "function");
        builder_.put_field(function, builder_.layout().function.qualname, raw(typed(builder_.str(name), "str")));
        const Address made = object(own_type_, {{"_run", function}});
        builder_.memory().put(made + 48, raw(none_));
        builder_.memory().put(made + 56, raw(typed(builder_.tuple({}), "tuple")));
        builder_.memory().put(made + 64, raw(typed(builder_.dict(std::vector<std::pair<std::string, Address>>{}), "dict")));
        for (const std::uint64_t offset : {72, 80, 88, 104, 112, 120}) builder_.memory().put(made + offset, raw(none_));
        set_links(made, {});
        suspend(made, 4096, name);
        return made;
    }
    void set_links(Address greenlet, const std::vector<Address>& links) { builder_.memory().put(greenlet + 96, raw(list_of(builder_, links))); }
    void set_spawner(Address greenlet, Address spawner) {
        const Address reference = typed(builder_.object(64), "weakref.ReferenceType");
        builder_.memory().put(reference + header(), raw(spawner));
        builder_.memory().put(greenlet + 72, raw(reference));
    }
    // It was spawned in a function of this name; returns gevent's note of it.
    Address set_spawning_stack(Address greenlet, const std::string& function) {
        ObjectBuilder::CodeSpec code;
        code.name = std::u32string(function.begin(), function.end());
        const Address frame = typed(builder_.object(64), "gevent._gevent_cgreenlet._Frame");
        builder_.memory().put(frame + header(), std::array<std::uint64_t, 3>{raw(builder_.code(code)), 1, raw(none_)});
        set_spawning_stack(greenlet, frame);
        return frame;
    }
    void set_spawning_stack(Address greenlet, Address note) { builder_.memory().put(greenlet + 80, raw(note)); }
    // The method `switch` of a greenlet.
    Address switch_of(Address greenlet, const std::string& name = "switch") {
        const Address text = builder_.allocate(16);
        builder_.memory().write(text, std::as_bytes(std::span(name.data(), name.size())));
        const Address definition = builder_.allocate(32);
        builder_.memory().put(definition, raw(text));
        const Address method = typed(builder_.object(64), "builtin_function_or_method");
        builder_.memory().put(method + header(), raw(definition));
        builder_.memory().put(method + header() + 8, raw(greenlet));
        return method;
    }
    // The method `switch` of a Waiter at which a greenlet waits.
    Address switch_of_waiter(Address greenlet) {
        const Address waiter = typed(builder_.object(64), "gevent._gevent_c_waiter.MultipleWaiter");
        builder_.memory().put(waiter + header() + 8, raw(hub));
        builder_.memory().put(waiter + header() + 16, raw(greenlet));
        const Address method = typed(builder_.object(64), "method");
        builder_.memory().put(method + header() + 8, raw(waiter));
        return method;
    }
    // An event at which greenlets wait.
    Address event(const std::vector<Address>& links) {
        const Address made = builder_.object(72, builder_.type("gevent._gevent_cevent.Event", {.basic_size = 72}));
        builder_.memory().put(made + 48, raw(list_of(builder_, links)));
        return made;
    }
    // The hub's loop is to call these, in order: as the loop of libev keeps them, or that of libuv. Returns callbacks.
    enum class LoopOf { kLibev, kLibuv };
    std::vector<Address> set_callbacks(LoopOf kind, const std::vector<Address>& functions) {
        const bool is_libuv = kind == LoopOf::kLibuv;
        const Address type = is_libuv ? builder_.type("callback", {.basic_size = header() + 16, .flags = kHeapType})
                                      : builder_.type("gevent.libev.corecext.callback", {.basic_size = header() + 24});
        std::vector<Address> callbacks;
        (void)builder_.allocate(kPage);  // nothing else stands on their page
        for (const Address function : functions) {
            const Address made = builder_.object(64, type);
            const Address arguments = typed(builder_.tuple({}), "tuple");
            builder_.memory().put(made + header(), raw(is_libuv ? arguments : function));
            builder_.memory().put(made + header() + 8, raw(is_libuv ? function : arguments));
            builder_.memory().put(made + header() + 16, raw(none_));
            if (!callbacks.empty() && !is_libuv) builder_.memory().put(callbacks.back() + header() + 16, raw(made));
            callbacks.push_back(made);
        }
        (void)builder_.allocate(kPage);
        builder_.memory().put(hub + 40, raw(is_libuv ? loop_of_libuv(callbacks) : loop_of_libev(callbacks)));
        return callbacks;
    }
    // gevent has begun to call it.
    void call(LoopOf kind, Address callback) { set_function(kind, callback, none_); }
    void set_function(LoopOf kind, Address callback, Address function) {
        builder_.memory().put(callback + header() + (kind == LoopOf::kLibuv ? 8 : 0), raw(function));
    }
    // The words of the part that greenlet itself keeps.
    void set_words(Address greenlet, std::uint64_t start, std::uint64_t stop, Address frame, Address parent) {
        Address& pimpl = pimpls_[raw(greenlet)];
        if (pimpl == kNullAddress) pimpl = builder_.allocate(256);
        builder_.memory().put(pimpl + self_place_, raw(greenlet));
        builder_.memory().put(pimpl + 56, start);
        builder_.memory().put(pimpl + 64, stop);
        builder_.memory().put(pimpl + 104, raw(frame));
        if (stop != ~0ULL) {
            builder_.memory().put(pimpl + 176, raw(main));
            builder_.memory().put(pimpl + 192, raw(parent));
        }
        if (stop == ~0ULL) builder_.memory().put(pimpl + 168, raw(state_));
        builder_.memory().put(greenlet + header() + 16, raw(pimpl));
    }
    void set_running(Address greenlet) { builder_.memory().put(state_ + 8, raw(greenlet)); }
    // It runs, and its frames are those of the thread.
    void switch_to(Address greenlet, Address parent = kNullAddress) {
        set_words(greenlet, greenlet == main ? 4096 : 1, greenlet == main ? ~0ULL : 4096, kNullAddress, parent == kNullAddress ? hub : parent);
        set_running(greenlet);
    }
    // It has switched to the hub, and waits where it did when it was made.
    void switch_to_hub(Address greenlet) {
        set_words(greenlet, 4096, greenlet == main ? ~0ULL : 4096, frame_objects_.at(raw(greenlet)), hub);
        set_running(hub);
    }
    // It waits elsewhere: where another one did when that was made.
    void set_frames(Address greenlet, Address other) { set_words(greenlet, 4096, 4096, frame_objects_.at(raw(other)), hub); }
    // It is suspended in that frame.
    void set_top(Address greenlet, Address frame) {
        frame_objects_[raw(greenlet)] = frame_object(frame);
        set_words(greenlet, 4096, greenlet == main ? ~0ULL : 4096, frame_objects_[raw(greenlet)], hub);
    }
    // The outermost frame of a greenlet, which it keeps for as long as it lives.
    [[nodiscard]] RawFrame bottom_of(Address greenlet) const { return bottoms_.at(raw(greenlet)); }

    // sys.modules, and the objects in a list of the collector.
    void publish(Address interpreter, Address runtime, const std::vector<Address>& objects) {
        const auto module = [&](const char* name, Address type) { return builder_.module(builder_.dict({{name, type}, {"other", none_}})); };
        builder_.set_modules(interpreter, builder_.dict({{"gevent.hub", module("Hub", hub_type_)}, {"gevent.greenlet", module("Greenlet", own_type_)}}));
        const Layout& layout = builder_.layout();
        const bool is_runtimes = has(layout.runtime.gc_collecting);
        const Address end = is_runtimes ? runtime + at(layout.runtime.gc_collecting) : interpreter + at(layout.interpreter.gc_collecting);
        head = Address{raw(end) & ~std::uint64_t{7}} - 176;
        std::vector<Address> nodes{head};
        for (const Address one : objects) nodes.push_back(one - 16);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            const Address next = nodes[(i + 1) % nodes.size()];
            builder_.memory().put(nodes[i], raw(next));
            builder_.memory().put(next + 8, raw(nodes[i]));
        }
    }

    Address main{}, hub{}, head{};
    [[nodiscard]] Address type() const { return own_type_; }
    [[nodiscard]] Address hub_type() const { return hub_type_; }

private:
    static constexpr std::size_t kPage = 4096;
    [[nodiscard]] std::uint64_t header() const { return builder_.layout().object.header_size; }
    Address typed(Address object, std::string_view name) {
        builder_.put_field(object, builder_.layout().object.type, raw(builder_.type(name)));
        return object;
    }
    Address object(Address type, const std::vector<std::pair<std::string, Address>>& attributes) {
        const Address made = builder_.object(160, type);
        if (!attributes.empty()) builder_.memory().put(made + 24, raw(typed(builder_.dict(attributes), "dict")));
        return made;
    }
    // A CallbackFIFO: a table of methods, head, tail.
    Address loop_of_libev(const std::vector<Address>& callbacks) {
        const Address fifo = builder_.object(64, builder_.type("gevent.libev.corecext.CallbackFIFO", {.basic_size = header() + 24}));
        builder_.memory().put(fifo + header() + 8, raw(callbacks.empty() ? none_ : callbacks.front()));
        builder_.memory().put(fifo + header() + 16, raw(callbacks.size() < 2 ? none_ : callbacks.back()));
        const Address loop = builder_.object(256, builder_.type("gevent.libev.corecext.loop", {.basic_size = 224}));
        builder_.memory().put(loop + 192, raw(fifo));
        return loop;
    }
    Address loop_of_libuv(const std::vector<Address>& callbacks) {
        const Address block = builder_.allocate(8 * 66);
        const std::uint64_t first = 64 - callbacks.size();  // to the end of the block
        for (std::size_t i = 0; i < callbacks.size(); ++i) builder_.memory().put(block + 8 * (1 + first + i), raw(callbacks[i]));
        const Address deque = typed(builder_.object(96), "collections.deque");
        builder_.memory().put(deque + header(), std::array<std::uint64_t, 4>{callbacks.size(), raw(block), raw(block), first});
        return builder_.instance("loop", {{"_callbacks", deque}});
    }
    void suspend(Address greenlet, std::uint64_t stop, const std::string& name) {
        ObjectBuilder::CodeSpec code;
        code.name = std::u32string(name.begin(), name.end());
        ProcessBuilder::FrameSpec spec;
        spec.code = builder_.code(code);
        spec.stack = 1;
        const Address frame = builder_.heap_frame(spec);
        RawFrame& bottom = bottoms_[raw(greenlet)];
        bottom.address = frame;
        bottom.code = spec.code;
        const auto& kind = builder_.layout().instruction_kind;
        const bool is_index = kind == InstructionKind::kByteIndex || kind == InstructionKind::kCodeUnitIndex;
        if (!is_index) bottom.instruction = raw(spec.code + at(builder_.layout().code.bytecode));
        frame_objects_[raw(greenlet)] = frame_object(frame);
        set_words(greenlet, 4096, stop, frame_objects_[raw(greenlet)], hub);
    }
    // From 3.11 on it refers to the frame.
    Address frame_object(Address frame) {
        if (!has(builder_.layout().frame.owner)) {
            builder_.put_field(frame, builder_.layout().object.type, raw(frame_type_));
            return frame;
        }
        const Address holder = builder_.object(64, frame_type_);
        builder_.memory().put(holder + header() + 8, raw(frame));
        return holder;
    }

    ProcessBuilder& builder_;
    std::uint64_t self_place_;
    std::map<std::uint64_t, RawFrame> bottoms_;  // by greenlet, as the next two
    std::map<std::uint64_t, Address> frame_objects_;
    std::map<std::uint64_t, Address> pimpls_;
    Address state_{};  // ThreadState of greenlet
    Address greenlet_type_{}, own_type_{}, hub_type_{}, frame_type_{}, none_{};
};

}  // namespace pyprof::test
