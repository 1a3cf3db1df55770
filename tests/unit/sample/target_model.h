// SPDX-License-Identifier: Apache-2.0
//
// A little interpreter that calls and returns, and writes to a FakeMemory what CPython of that version
// writes, one store after the other: popped frames stay or are cleared, callers are marked as waiting or
// not, generators lose their caller, chunks come and go. It knows at any moment which stack is real, and
// keeps every path that ever was. Readers that run between two of its stores see what a profiler sees.
//
// The order of the stores follows Python/ceval.c (bytecodes.c from 3.12 on), Python/frame.c,
// Objects/genobject.c and Objects/frameobject.c of each version; facts only.
#pragma once

#include "support/fake_target.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace pyprof::test {

// From `opcode.opmap` of each interpreter; those that are specialised, of 3.11 and 3.12, from
// Include/internal/pycore_opcode.h. `loop` is FOR_ITER, of a generator from 3.12 on FOR_ITER_GEN.
struct OpcodeNumbers {
    int call, python_call, leave, yield, loop;
    int cache_units;  // behind a call; a loop has one
};
const OpcodeNumbers& opcode_numbers(int minor);

struct ModelOptions {
    int functions = 6;
    int colours = 3;     // what the outermost call was made with: it alone decides who calls whom
    int max_depth = 8;   // frames
    int words_apart = 3; // frames differ in size by up to so many words
    bool small_chunks = false;
    bool through_c = true;
    bool generators = true;
    bool recursion = true;
    bool exceptions = true;
};

class TargetModel {
public:
    using Path = std::vector<int>;  // functions, root first

    TargetModel(FakePython& python, const ModelOptions& options, std::uint64_t seed);

    // The next `count` stores.
    void run(std::size_t count);
    // Until the thread stands in a function's body, no call or return under way.
    void settle();

    [[nodiscard]] Path stack() const;  // now
    [[nodiscard]] Address thread() const { return thread_; }
    [[nodiscard]] bool was_real(const Path& path) const { return real_.count(path) != 0; }
    [[nodiscard]] std::size_t real_paths() const { return real_.size(); }
    // -1 for no function of this program.
    [[nodiscard]] int function_of(std::string_view name) const;
    [[nodiscard]] static std::string text(const Path& path);

private:
    enum class How { kNothing, kCall, kThroughC, kCOnly, kResume };
    struct Choice {
        How how = How::kNothing;
        int callee = 0;
    };
    struct Function {
        std::string name;
        Address code{};
        std::uint32_t version = 0;
        int words = 0;          // of its frame
        int locals = 0;
        std::vector<int> sites; // code units of its calls
        std::vector<bool> loops;  // ... which are a `for` over a generator
        int leave = 0;          // code unit of its return or yield
        Address zombie{};       // up to 3.10: the frame that its code keeps
        Address generator_frame{};  // its one generator
        bool is_resumed = false;    // ... is on the stack
        std::vector<std::vector<Choice>> choices;  // by site and colour
    };
    struct Live {
        int function = 0;
        Address frame{};
        int colour = 0;
        int site = 0;
        int calls_left = 0;
        bool by_c = false;
        bool is_generator = false;
        bool in_c = false;  // C code that it called runs
        bool opened_chunk = false;
    };
    using Store = std::function<void()>;

    void make_functions();
    Function make_function(int number);
    Choice make_choice(int function, bool is_loop);
    void start();
    void plan();
    void plan_call(const Choice& choice);
    void plan_push(int callee, bool by_c);
    void plan_resume(int callee);
    void plan_return();
    void plan_enter_c();
    void plan_leave_c();

    // Stores, put off until run() comes to them.
    void later(Store store) { pending_.push_back(std::move(store)); }
    void later_field(Address base, Offset field, std::uint64_t value, std::size_t bytes = 8);
    void later_instruction(Address frame, int function, int unit);
    void later_state(Address frame, int function, bool waits);
    void later_leaf(Address frame);
    void later_enter_eval(Address frame);
    void later_leave_eval(Address caller);

    [[nodiscard]] int waiting_unit(const Live& caller) const;
    [[nodiscard]] int site_unit(const Live& caller) const;
    [[nodiscard]] Address shim_at(std::size_t depth) const;
    [[nodiscard]] Address cframe_at(std::size_t depth) const;
    Address reserve(int function, Live& live);
    void release(const Live& live);
    Address frame_object(int function);
    void note_call_site(const Live& caller, int callee);
    void remember(int callee);
    std::uint64_t random(std::uint64_t below) { return random_() % below; }
    bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

    FakePython& python_;
    ProcessBuilder& builder_;
    const Layout& layout_;
    ModelOptions options_;
    std::mt19937_64 random_;
    bool has_data_stack_ = false;
    bool has_cframes_ = false;
    bool has_shims_ = false;

    std::vector<Function> functions_;
    std::map<std::string, int, std::less<>> by_name_;
    std::vector<Live> stack_;
    std::deque<Store> pending_;
    std::set<Path> real_;

    Address thread_{};
    Address c_stack_{};          // of the fake C stack's top; it grows down
    std::size_t evals_ = 0;      // eval loops that are entered
    struct Chunk {
        Address at{};
        Address top{};
    };
    std::vector<Chunk> chunks_;
    std::vector<Address> chunk_pool_;
    std::uint64_t chunk_bytes_ = 16 * 1024;
    std::vector<Address> free_frames_;  // up to 3.10
    int call_opcode_ = 0;
    int python_call_opcode_ = 0;
    int return_opcode_ = 0;
    int yield_opcode_ = 0;
    int loop_opcode_ = 0;         // FOR_ITER, of generators from 3.12 on FOR_ITER_GEN
    int cache_units_ = 0;
};

}  // namespace pyprof::test
