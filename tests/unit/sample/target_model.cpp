// SPDX-License-Identifier: Apache-2.0
#include "target_model.h"

#include <algorithm>

namespace pyprof::test {

namespace {

constexpr int kFirstUnit = 2;       // of the body, behind RESUME
constexpr int kUnitsPerSite = 8;
constexpr int kSites = 2;
constexpr std::uint64_t kCFrame = 1024;  // bytes of C stack for each eval loop
constexpr int kMostCalls = 4;       // of one frame
constexpr std::size_t kChunks = 8;

constexpr OpcodeNumbers kNumbers[] = {{171, 23, 83, 86, 93, 4},
                                      {171, 23, 83, 150, 65, 3},
                                      {53, 177, 36, 118, 187, 3},
                                      {52, 161, 35, 120, 171, 3},
                                      {50, 164, 33, 119, 174, 3}};

std::uint64_t as_word(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

const OpcodeNumbers& opcode_numbers(int minor) { return kNumbers[minor - 11]; }

TargetModel::TargetModel(FakePython& python, const ModelOptions& options, std::uint64_t seed)
    : python_(python), builder_(python.builder), layout_(builder_.layout()), options_(options), random_(seed) {
    has_data_stack_ = layout_.frame_root != FrameRoot::kThreadFrame;
    has_cframes_ = layout_.frame_root == FrameRoot::kThreadCframe;
    has_shims_ = has(layout_.frame.owner_cstack) || has(layout_.frame.owner_interpreter);
    if (has_data_stack_) {
        const OpcodeNumbers& numbers = opcode_numbers(layout_.version.minor);
        call_opcode_ = numbers.call;
        python_call_opcode_ = numbers.python_call;
        return_opcode_ = numbers.leave;
        yield_opcode_ = numbers.yield;
        loop_opcode_ = numbers.loop;
        cache_units_ = numbers.cache_units;
    }
    if (options_.small_chunks) chunk_bytes_ = 1024;
    make_functions();
    start();
}

// A program: each function calls at its sites what its colour says. Function 0 is the module: it picks
// a colour and makes the first call.
void TargetModel::make_functions() {
    for (int f = 0; f < options_.functions; ++f) {
        functions_.push_back(make_function(f));
        by_name_[functions_.back().name] = f;
    }
    for (int f = 0; f < options_.functions; ++f) {
        Function& function = functions_[static_cast<std::size_t>(f)];
        for (int site = 0; site < kSites; ++site) {
            std::vector<Choice> by_colour;
            for (int colour = 0; colour < options_.colours; ++colour) {
                by_colour.push_back(make_choice(f, function.loops[static_cast<std::size_t>(site)]));
            }
            function.choices.push_back(std::move(by_colour));
        }
    }
}

TargetModel::Function TargetModel::make_function(int number) {
    Function function;
    function.name = "f" + std::to_string(number);
    function.version = static_cast<std::uint32_t>(100 + number);
    function.locals = 1 + static_cast<int>(random(static_cast<std::uint64_t>(options_.words_apart)));
    function.words = static_cast<int>(layout_.frame.size / 8) + function.locals;
    std::vector<std::byte> bytecode(static_cast<std::size_t>(kFirstUnit + kSites * kUnitsPerSite + 4) * 2);
    const auto put = [&](int unit, int opcode) { bytecode[static_cast<std::size_t>(unit) * 2] = static_cast<std::byte>(opcode); };
    for (int site = 0; site < kSites; ++site) {
        function.sites.push_back(kFirstUnit + site * kUnitsPerSite + 1);
        function.loops.push_back(options_.generators && options_.functions > 3 && number > 0 && chance(0.3));
        put(function.sites.back(), function.loops.back() ? loop_opcode_ : call_opcode_);
    }
    function.leave = kFirstUnit + kSites * kUnitsPerSite;
    const bool may_yield = options_.generators && number > 0 && number % 3 == 0;
    put(function.leave, may_yield ? yield_opcode_ : return_opcode_);
    ObjectBuilder::CodeSpec spec;
    spec.name = std::u32string(function.name.begin(), function.name.end());
    spec.bytecode = std::move(bytecode);
    spec.version = function.version;
    spec.frame_words = function.words;
    function.code = builder_.code(spec);
    if (may_yield) {
        builder_.put_field(function.code, layout_.code.flags, 0x20, 4);  // CO_GENERATOR
        ProcessBuilder::FrameSpec frame;
        frame.code = function.code;
        frame.index = -1;
        frame.is_executing = false;
        frame.stack = 1;
        function.generator_frame = builder_.generator(frame).frame;
    }
    if (!has_data_stack_) function.zombie = builder_.object(layout_.frame.size + 64);
    return function;
}

TargetModel::Choice TargetModel::make_choice(int function, bool is_loop) {
    const auto is_generator = [&](int f) { return functions_[static_cast<std::size_t>(f)].generator_frame != kNullAddress; };
    Choice choice;
    do {
        choice.callee = 1 + static_cast<int>(random(static_cast<std::uint64_t>(options_.functions - 1)));
    } while (is_generator(choice.callee) != is_loop);
    if (is_loop) {
        choice.how = How::kResume;
    } else {
        choice.how = How::kCall;
        if (options_.through_c && chance(0.2)) choice.how = How::kThroughC;
        if (options_.through_c && chance(0.15)) choice.how = How::kCOnly;
    }
    if (function == 0) return choice;
    const bool goes_back = choice.callee <= function && !options_.recursion;
    if (goes_back || chance(0.2)) choice.how = How::kNothing;
    return choice;
}

void TargetModel::start() {
    c_stack_ = builder_.allocate(64 * kCFrame) + 64 * kCFrame;
    FakePython::ThreadSpec spec;
    if (has_data_stack_) {
        for (std::size_t i = 0; i < kChunks; ++i) chunk_pool_.push_back(builder_.allocate(chunk_bytes_));
        spec.stack = {chunk_pool_.back(), chunk_pool_.back() + 24, chunk_pool_.back() + chunk_bytes_};
        builder_.put_field(spec.stack.chunk, layout_.chunk.previous, 0);
        builder_.put_field(spec.stack.chunk, layout_.chunk.size, chunk_bytes_);
        chunks_.push_back({chunk_pool_.back(), chunk_pool_.back() + 24 + 8});  // its first word stays free
        chunk_pool_.pop_back();
    }
    spec.holds_gil = true;
    thread_ = python_.add_thread(spec);
    Live root;
    root.frame = reserve(0, root);
    root.calls_left = 1;
    root.by_c = true;
    later_enter_eval(root.frame);
    later_state(root.frame, 0, false);
    later_instruction(root.frame, 0, kFirstUnit);
    stack_.push_back(root);
    real_.insert(stack());
    while (!pending_.empty()) run(1);
}

TargetModel::Path TargetModel::stack() const {
    Path path;
    for (const Live& live : stack_) path.push_back(live.function);
    return path;
}

void TargetModel::remember(int callee) {
    Path path = stack();
    path.push_back(callee);
    real_.insert(std::move(path));
}

int TargetModel::function_of(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? -1 : found->second;
}

std::string TargetModel::text(const Path& path) {
    std::string text;
    for (const int function : path) text += (text.empty() ? "f" : " f") + std::to_string(function);
    return text;
}

void TargetModel::run(std::size_t count) {
    for (; count > 0; --count) {
        while (pending_.empty()) plan();
        const Store store = std::move(pending_.front());
        pending_.pop_front();
        store();
    }
}

void TargetModel::settle() {
    while (!pending_.empty()) run(1);
}

// --- what to do next ----------------------------------------------------------------------------

void TargetModel::plan() {
    Live& leaf = stack_.back();
    if (leaf.in_c) {
        plan_leave_c();
        return;
    }
    const Function& function = functions_[static_cast<std::size_t>(leaf.function)];
    if (stack_.size() == 1) {
        leaf.calls_left = 1;
        leaf.colour = static_cast<int>(random(static_cast<std::uint64_t>(options_.colours)));
    }
    const bool may_call = leaf.calls_left > 0 && stack_.size() < static_cast<std::size_t>(options_.max_depth);
    if (may_call && chance(0.7)) {
        --leaf.calls_left;
        leaf.site = static_cast<int>(random(kSites));
        plan_call(function.choices[static_cast<std::size_t>(leaf.site)][static_cast<std::size_t>(leaf.colour)]);
    } else if (stack_.size() > 1 && chance(0.4)) {
        plan_return();
    } else {
        later_instruction(leaf.frame, leaf.function, kFirstUnit + static_cast<int>(random(kSites)) * kUnitsPerSite);
    }
}

void TargetModel::plan_call(const Choice& choice) {
    switch (choice.how) {
        case How::kNothing:
            break;
        case How::kCall:
            plan_push(choice.callee, false);
            break;
        case How::kThroughC:
        case How::kCOnly:
            plan_enter_c();
            if (choice.how == How::kThroughC) plan_push(choice.callee, true);
            break;
        case How::kResume:
            if (!functions_[static_cast<std::size_t>(choice.callee)].is_resumed) plan_resume(choice.callee);
            break;
    }
}

int TargetModel::site_unit(const Live& caller) const {
    return functions_[static_cast<std::size_t>(caller.function)].sites[static_cast<std::size_t>(caller.site)];
}

// Up to 3.12 a waiting frame's instruction is the last unit of the call's inline cache.
int TargetModel::waiting_unit(const Live& caller) const {
    if (layout_.instruction_kind != InstructionKind::kPreviousInstruction) return site_unit(caller);
    const bool is_loop = functions_[static_cast<std::size_t>(caller.function)].loops[static_cast<std::size_t>(caller.site)];
    return site_unit(caller) + (is_loop ? 1 : cache_units_);
}

void TargetModel::plan_enter_c() {
    Live& caller = stack_.back();
    caller.in_c = true;
    later_instruction(caller.frame, caller.function, site_unit(caller));
    if (has(layout_.frame.stackpointer)) later_state(caller.frame, caller.function, true);
}

void TargetModel::plan_leave_c() {
    Live& caller = stack_.back();
    caller.in_c = false;
    later_state(caller.frame, caller.function, false);
    later_instruction(caller.frame, caller.function, kFirstUnit);
}

// A site that was specialised for one callee calls another without being told so; now and then it is
// specialised anew, even while callers wait there.
void TargetModel::note_call_site(const Live& caller, int callee) {
    if (!has_data_stack_) return;
    const Function& function = functions_[static_cast<std::size_t>(caller.function)];
    const Address site = function.code + static_cast<std::uint64_t>(layout_.code.bytecode) +
                         static_cast<std::uint64_t>(site_unit(caller)) * 2;
    const bool specialise = chance(0.3);
    const std::uint32_t version = functions_[static_cast<std::size_t>(callee)].version;
    later([this, site, specialise, version] {
        if (!specialise) return;
        builder_.put_field(site, 0, static_cast<std::uint64_t>(python_call_opcode_), 1);
        builder_.put_field(site, 4, version, 4);
    });
}

void TargetModel::plan_push(int callee, bool by_c) {
    remember(callee);
    const Live caller = stack_.back();
    Live live;
    live.function = callee;
    live.colour = caller.colour;
    live.calls_left = static_cast<int>(random(kMostCalls));
    live.by_c = by_c || !has_data_stack_;
    const bool inline_call = has_data_stack_ && !by_c;
    if (inline_call) note_call_site(caller, callee);
    live.frame = reserve(callee, live);
    if (inline_call) {
        if (layout_.version.minor == 11 || layout_.version.minor == 12) {
            later_state(caller.frame, caller.function, true);
            later_instruction(caller.frame, caller.function, waiting_unit(caller));
        } else {
            later_instruction(caller.frame, caller.function, site_unit(caller));
            later_state(caller.frame, caller.function, true);
        }
        later_field(live.frame, layout_.frame.back, raw(caller.frame));
        later_leaf(live.frame);
    } else {
        if (!has_data_stack_) {
            later_instruction(caller.frame, caller.function, site_unit(caller));
        }
        later_enter_eval(live.frame);
    }
    later_state(live.frame, callee, false);
    later_instruction(live.frame, callee, kFirstUnit);
    stack_.push_back(live);
}

// for x in generator: from 3.12 on without C in between.
void TargetModel::plan_resume(int callee) {
    remember(callee);
    const Live caller = stack_.back();
    Function& function = functions_[static_cast<std::size_t>(callee)];
    function.is_resumed = true;
    Live live;
    live.function = callee;
    live.frame = function.generator_frame;
    live.colour = caller.colour;
    live.calls_left = static_cast<int>(random(kMostCalls));
    live.is_generator = true;
    live.by_c = layout_.version.minor <= 11 || chance(0.3);
    if (live.by_c) {
        later_instruction(caller.frame, caller.function, site_unit(caller));
        if (has(layout_.frame.stackpointer)) later_state(caller.frame, caller.function, true);
        if (has_data_stack_) later_field(live.frame, layout_.frame.is_entry, 1, 1);
        later_enter_eval(live.frame);
    } else {
        later_state(caller.frame, caller.function, true);
        later_instruction(caller.frame, caller.function, waiting_unit(caller));
        later_field(live.frame, layout_.frame.back, raw(caller.frame));
        later_leaf(live.frame);
    }
    later_state(live.frame, callee, false);
    later_instruction(live.frame, callee, kFirstUnit);
    stack_.push_back(live);
}

void TargetModel::plan_return() {
    const Live leaf = stack_.back();
    const Function& function = functions_[static_cast<std::size_t>(leaf.function)];
    stack_.pop_back();
    Live& caller = stack_.back();
    const bool raises = options_.exceptions && !leaf.is_generator && chance(0.1);
    // An exception leaves the frame where it was raised, its value stack empty: it looks as if it waited.
    if (raises) {
        later_instruction(leaf.frame, leaf.function, waiting_unit(leaf));
    } else {
        later_instruction(leaf.frame, leaf.function, function.leave);
    }
    later_state(leaf.frame, leaf.function, true);
    const bool clears = has(layout_.frame.stackpointer) && !leaf.is_generator;
    const auto clear = [&] {
        if (!clears) return;
        later_field(leaf.frame, layout_.frame.back, 0);
        later_field(leaf.frame, layout_.frame.code, 0);
    };
    if (leaf.by_c) {
        later_leave_eval(caller.frame);
    } else {
        later_leaf(caller.frame);
    }
    clear();
    if (leaf.is_generator) {
        later_field(leaf.frame, layout_.frame.back, 0);
        functions_[static_cast<std::size_t>(leaf.function)].is_resumed = false;
    }
    release(leaf);
    if (caller.in_c) {
        if (chance(0.5)) return;  // C code goes on; it may call again
        plan_leave_c();
        return;
    }
    later_state(caller.frame, caller.function, false);
    later_instruction(caller.frame, caller.function, kFirstUnit);
    // The same call once more, as in a loop.
    if (chance(0.3)) caller.calls_left = std::min(caller.calls_left + 1, kMostCalls);
}

// --- stores -------------------------------------------------------------------------------------

void TargetModel::later_field(Address base, Offset field, std::uint64_t value, std::size_t bytes) {
    if (!has(field)) return;
    later([this, base, field, value, bytes] { builder_.put_field(base, field, value, bytes); });
}

void TargetModel::later_instruction(Address frame, int function, int unit) {
    switch (layout_.instruction_kind) {
        case InstructionKind::kByteIndex:
            later_field(frame, layout_.frame.instruction, as_word(unit < 0 ? -1 : unit * 2), 4);
            break;
        case InstructionKind::kCodeUnitIndex:
            later_field(frame, layout_.frame.instruction, as_word(unit), 4);
            break;
        case InstructionKind::kPreviousInstruction:
        case InstructionKind::kInstructionPointer: {
            const Address start = functions_[static_cast<std::size_t>(function)].code + static_cast<std::uint64_t>(layout_.code.bytecode);
            later_field(frame, layout_.frame.instruction, raw(start) + as_word(unit * 2));
            break;
        }
    }
}

void TargetModel::later_state(Address frame, int function, bool waits) {
    const int locals = functions_[static_cast<std::size_t>(function)].locals;
    later_field(frame, layout_.frame.stacktop, as_word(waits ? locals : -1), 4);
    later_field(frame, layout_.frame.stackpointer,
                waits ? raw(frame) + static_cast<std::uint64_t>(layout_.frame.localsplus) + as_word(locals * 8) : 0);
    // Up to 3.10 a frame executes until it is left, whatever it calls.
    if (has(layout_.frame.executing)) {
        const bool is_state = layout_.instruction_kind == InstructionKind::kCodeUnitIndex;
        later_field(frame, layout_.frame.executing, (waits ? 0U : 1U) ^ (is_state ? 1U : 0U), 1);
    }
}

void TargetModel::later_leaf(Address frame) {
    if (!has_cframes_) {
        later([this, frame] { builder_.set_leaf(thread_, frame); });
        return;
    }
    later_field(cframe_at(evals_), layout_.cframe.current_frame, raw(frame));
}

Address TargetModel::shim_at(std::size_t depth) const { return c_stack_ - depth * kCFrame; }
Address TargetModel::cframe_at(std::size_t depth) const { return shim_at(depth) + 512; }

// C code runs the eval loop for `frame`.
void TargetModel::later_enter_eval(Address frame) {
    const Address caller = stack_.empty() ? kNullAddress : stack_.back().frame;
    ++evals_;
    if (has_cframes_) {
        later_field(cframe_at(evals_), layout_.cframe.previous, evals_ > 1 ? raw(cframe_at(evals_ - 1)) : 0);
        later_field(thread_, layout_.thread.cframe, raw(cframe_at(evals_)));
    }
    Address back = caller;
    if (has_shims_) {
        back = shim_at(evals_);
        const bool tagged = has(layout_.frame.owner_interpreter);
        const std::int32_t owner = tagged ? layout_.frame.owner_interpreter : layout_.frame.owner_cstack;
        Address below = caller;
        if (caller == kNullAddress && has(layout_.thread.base_frame)) {
            below = read_pointer(builder_.memory(), thread_ + static_cast<std::uint64_t>(layout_.thread.base_frame))
                        .value_or(kNullAddress);
        }
        later_field(back, layout_.frame.code, raw(builder_.none()) | (tagged ? 1U : 0U));
        later_field(back, layout_.frame.owner, static_cast<std::uint64_t>(owner), 1);
        later_field(back, layout_.frame.back, raw(below));
    } else {
        later_field(frame, layout_.frame.is_entry, 1, 1);
    }
    later_field(frame, layout_.frame.back, raw(back));
    later_leaf(frame);
}

void TargetModel::later_leave_eval(Address caller) {
    if (has_shims_) later_leaf(shim_at(evals_));  // for a moment the entry frame is the current one
    --evals_;
    if (has_cframes_) {
        later_field(thread_, layout_.thread.cframe, raw(cframe_at(evals_)));
    } else {
        later_leaf(caller);
    }
}

// A frame with its code, not begun; its caller is set when it is entered.
Address TargetModel::reserve(int function, Live& live) {
    const Function& called = functions_[static_cast<std::size_t>(function)];
    if (!has_data_stack_) {
        const Address frame = frame_object(function);
        const Address caller = stack_.empty() ? kNullAddress : stack_.back().frame;
        later_field(frame, layout_.frame.back, raw(caller));
        later_field(frame, layout_.frame.code, raw(called.code));
        later_instruction(frame, function, -1);
        return frame;
    }
    const auto bytes = static_cast<std::uint64_t>(called.words) * 8;
    if (raw(chunks_.back().top) + bytes > raw(chunks_.back().at) + chunk_bytes_) {
        const Chunk below = chunks_.back();
        const Address fresh = chunk_pool_.back();
        chunk_pool_.pop_back();
        live.opened_chunk = true;
        later_field(below.at, layout_.chunk.top, (raw(below.top) - raw(below.at) - 24) / 8);
        later([this, fresh] { builder_.memory().map(fresh, chunk_bytes_); });
        later_field(fresh, layout_.chunk.previous, raw(below.at));
        later_field(fresh, layout_.chunk.size, chunk_bytes_);
        later_field(fresh, layout_.chunk.top, 0);
        later_field(thread_, layout_.thread.datastack_chunk, raw(fresh));
        later_field(thread_, layout_.thread.datastack_limit, raw(fresh) + chunk_bytes_);
        chunks_.push_back({fresh, fresh + 24});
    }
    const Address frame = chunks_.back().top;
    chunks_.back().top = frame + bytes;
    later_field(thread_, layout_.thread.datastack_top, raw(chunks_.back().top));
    later_field(frame, layout_.frame.code, raw(called.code));
    later_instruction(frame, function, layout_.instruction_kind == InstructionKind::kPreviousInstruction ? -1 : 0);
    later_state(frame, function, true);
    later_field(frame, layout_.frame.owner, 0, 1);
    later_field(frame, layout_.frame.is_entry, 0, 1);
    return frame;
}

void TargetModel::release(const Live& live) {
    if (live.is_generator) return;
    if (!has_data_stack_) {
        const Address zombie = functions_[static_cast<std::size_t>(live.function)].zombie;
        if (live.frame == zombie) return;  // its code keeps it, f_code and f_back as they were
        const Address next = free_frames_.empty() ? kNullAddress : free_frames_.back();
        later_field(live.frame, layout_.frame.back, raw(next));
        free_frames_.push_back(live.frame);
        return;
    }
    if (live.opened_chunk) {
        const Address freed = chunks_.back().at;
        chunks_.pop_back();
        chunk_pool_.push_back(freed);
        later_field(thread_, layout_.thread.datastack_chunk, raw(chunks_.back().at));
        later_field(thread_, layout_.thread.datastack_limit, raw(chunks_.back().at) + chunk_bytes_);
        later([this, freed] { builder_.memory().unmap(freed, chunk_bytes_); });
    } else {
        chunks_.back().top = live.frame;
    }
    later_field(thread_, layout_.thread.datastack_top, raw(chunks_.back().top));
}

Address TargetModel::frame_object(int function) {
    const Address zombie = functions_[static_cast<std::size_t>(function)].zombie;
    const bool is_free = std::none_of(stack_.begin(), stack_.end(), [&](const Live& live) { return live.frame == zombie; });
    if (is_free) return zombie;
    if (free_frames_.empty()) return builder_.object(layout_.frame.size + 64);
    const Address frame = free_frames_.back();
    free_frames_.pop_back();
    return frame;
}

}  // namespace pyprof::test
