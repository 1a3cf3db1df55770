// SPDX-License-Identifier: Apache-2.0
#include "python/object_kinds.h"

#include "python/objects.h"

#include <algorithm>
#include <string_view>

namespace pyprof {

namespace {

constexpr std::size_t kMostTypes = 1U << 16;
constexpr int kMostBases = 32;
constexpr std::uint64_t kHeapType = 1U << 9U;  // Py_TPFLAGS_HEAPTYPE
constexpr std::uint64_t kMostBasicSize = 1U << 20U;

struct Named {
    std::string_view name;  // tp_name
    ObjectKind kind;
};
// Names without a module belong to types of the interpreter itself, which are static; a class of a program
// may have any such name, but is a heap type. Names with a dot belong to heap types of C modules, too.
constexpr Named kNamed[] = {
    {"NoneType", ObjectKind::kNone},
    {"coroutine", ObjectKind::kCoroutine},
    {"generator", ObjectKind::kGenerator},
    {"async_generator", ObjectKind::kAsyncGenerator},
    {"async_generator_asend", ObjectKind::kAwaitWrapper},
    {"async_generator_athrow", ObjectKind::kAwaitWrapper},
    {"anext_awaitable", ObjectKind::kAwaitWrapper},
    {"coroutine_wrapper", ObjectKind::kAwaitWrapper},
    {"_asyncio.FutureIter", ObjectKind::kFutureIter},
    {"TaskWakeupMethWrapper", ObjectKind::kTaskWakeup},
    {"method", ObjectKind::kMethod},
    {"builtin_function_or_method", ObjectKind::kBuiltinMethod},
    {"function", ObjectKind::kFunction},
    {"functools.partial", ObjectKind::kPartial},
    {"list", ObjectKind::kList},
    {"tuple", ObjectKind::kTuple},
    {"cell", ObjectKind::kCell},
    {"set", ObjectKind::kSet},
    {"dict", ObjectKind::kDict},
    {"collections.deque", ObjectKind::kDeque},
    {"weakref", ObjectKind::kWeakref},
    {"weakref.ReferenceType", ObjectKind::kWeakref},
    {"str", ObjectKind::kStr},
    {"int", ObjectKind::kInt},
    {"frame", ObjectKind::kFrame},
};

bool can_be_name(std::string_view name) {
    return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20;
    });
}

}  // namespace

void ObjectKinds::set_asyncio_types(const AsyncioTypes& types) {
    types_ = types;
    judged_.clear();
}

ObjectKind ObjectKinds::kind_by_base(Memory& memory, Address type) const {
    for (int hop = 0; hop < kMostBases && type != kNullAddress; ++hop) {
        if (type == types_.task) return ObjectKind::kTask;
        if (type == types_.python_task) return ObjectKind::kPythonTask;
        if (type == types_.future) return ObjectKind::kFuture;
        if (type == types_.python_future) return ObjectKind::kPythonFuture;
        if (type == types_.trio_task) return ObjectKind::kTrioTask;
        const auto base = read_pointer(memory, type + at(layout_->type.base));
        if (!base || (*base != kNullAddress && !can_be_object(*base))) break;
        type = *base;
    }
    return ObjectKind::kOther;
}

// The module greenlet is no part of the interpreter: its type is known by name, and is no class of a program.
bool ObjectKinds::is_greenlet_type(Memory& memory, Address type) const {
    for (int hop = 0; hop < kMostBases && can_be_object(type); ++hop) {
        const auto flags = read_value<std::uint64_t>(memory, type + at(layout_->type.flags));
        if (!flags) return false;
        if ((*flags & kHeapType) == 0 && type_name(memory, *layout_, type) == "greenlet.greenlet") return true;
        type = read_pointer(memory, type + at(layout_->type.base)).value_or(kNullAddress);
    }
    return false;
}

const ObjectKinds::Judged* ObjectKinds::judge(Memory& memory, Address type) {
    const auto known = judged_.find(raw(type));
    if (known != judged_.end()) return &known->second;
    if (!can_be_object(type)) return nullptr;
    const auto flags = read_value<std::uint64_t>(memory, type + at(layout_->type.flags));
    const auto basic_size = read_value<std::uint64_t>(memory, type + at(layout_->type.basic_size));
    // Py_TPFLAGS_READY is no test: up to 3.9 nobody prepares async_generator_asend.
    if (!flags || !basic_size || *basic_size == 0 || *basic_size > kMostBasicSize) return nullptr;
    const auto full_name = type_name(memory, *layout_, type);
    if (!full_name || !can_be_name(*full_name)) return nullptr;

    Judged judged;
    judged.is_python_class = (*flags & kHeapType) != 0;
    judged.kind = kind_by_base(memory, type);
    for (const Named& named : kNamed) {
        if (judged.kind != ObjectKind::kOther || *full_name != named.name) continue;
        const bool has_module = named.name.find('.') != std::string_view::npos;
        if (has_module || !judged.is_python_class) judged.kind = named.kind;
    }
    if (judged.kind == ObjectKind::kOther && is_greenlet_type(memory, type)) judged.kind = ObjectKind::kGreenlet;
    judged.name = full_name->substr(full_name->rfind('.') + 1);
    if (judged_.size() >= kMostTypes) judged_.clear();
    return &(judged_[raw(type)] = std::move(judged));
}

ObjectKind ObjectKinds::kind_of_type(Memory& memory, Address type) {
    const Judged* judged = judge(memory, type);
    return judged == nullptr ? ObjectKind::kUnreadable : judged->kind;
}

ObjectKind ObjectKinds::kind_of(Memory& memory, Address object) {
    if (!can_be_object(object)) return ObjectKind::kUnreadable;
    const auto type = read_type(memory, *layout_, object);
    return type ? kind_of_type(memory, *type) : ObjectKind::kUnreadable;
}

std::string ObjectKinds::name_of_type(Memory& memory, Address type) {
    const Judged* judged = judge(memory, type);
    return judged == nullptr ? std::string() : judged->name;
}

void ObjectKinds::forget_python_classes() {
    for (auto entry = judged_.begin(); entry != judged_.end();) {
        entry = entry->second.is_python_class ? judged_.erase(entry) : std::next(entry);
    }
}

}  // namespace pyprof
