// SPDX-License-Identifier: Apache-2.0
//
// Thread names out of a fake interpreter of every layout, and what asking for unknown ones costs.
#include "python/thread_names.h"

#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct NamedThread {
    std::uint64_t ident = 0;
    std::u32string name;
};

// An interpreter whose `threading` knows these threads.
class FakeInterpreter {
public:
    FakeInterpreter(const Layout& layout, const std::vector<NamedThread>& threads)
        : builder(memory, layout), interpreter(builder.interpreter()) {
        set_active(threads);
    }

    void set_active(const std::vector<NamedThread>& threads) {
        ObjectBuilder::Entries active;
        for (const NamedThread& thread : threads) {
            const Address object = builder.instance(
                "Thread", {{"_target", builder.none()}, {"_name", builder.str(thread.name)}});
            active.emplace_back(builder.big_integer(thread.ident), object);
        }
        const Address table = builder.dict(active, ObjectBuilder::Table::kGeneral);
        const Address threading =
            builder.module(builder.dict({{"Lock", builder.none()}, {"_active", table}}));
        builder.set_modules(interpreter, builder.dict({{"sys", builder.none()}, {"threading", threading}}));
    }

    FakeMemory memory;
    ProcessBuilder builder;
    Address interpreter;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        FakeInterpreter fake(known.layout, {{0x7f0000001000, U"MainThread"}, {0x7f0000002000, U"caf\u00e9"}});
        ThreadNames names(known.layout, fake.interpreter);
        test(fake, names);
    }
}

std::string find(FakeInterpreter& fake, ThreadNames& names, std::uint64_t ident) {
    const std::string* name = names.find(fake.memory, ident);
    return name != nullptr ? *name : "(none)";
}

}  // namespace

TEST_CASE("thread names: each thread has the name that threading gives it") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
        CHECK(find(fake, names, 0x7f0000002000) == "caf\xc3\xa9");
        CHECK(find(fake, names, 0x7f0000003000) == "(none)");
    });
}

TEST_CASE("thread names: what is known costs no read") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        (void)find(fake, names, 0x7f0000001000);
        fake.memory.reset_counts();
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
        CHECK(find(fake, names, 0x7f0000002000) == "caf\xc3\xa9");
        CHECK(fake.memory.reads() == 0);
    });
}

TEST_CASE("thread names: a miss is remembered, and tried again ever more rarely") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        std::size_t tries = 0;
        for (int i = 0; i < 1000; ++i) {
            fake.memory.reset_counts();
            CHECK(find(fake, names, 0x7f0000009000) == "(none)");
            if (fake.memory.reads() > 0) ++tries;
        }
        CHECK(tries <= 10);
        CHECK(tries >= 8);
    });
}

TEST_CASE("thread names: a thread that appears later is found at a later try") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        CHECK(find(fake, names, 0x7f0000009000) == "(none)");
        fake.set_active({{0x7f0000009000, U"late"}});
        CHECK(find(fake, names, 0x7f0000009000) == "(none)");
        CHECK(find(fake, names, 0x7f0000009000) == "late");
    });
}

TEST_CASE("thread names: a renamed thread keeps its name until a refresh") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
        fake.set_active({{0x7f0000001000, U"renamed"}});
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
        CHECK(names.refresh(fake.memory));
        CHECK(find(fake, names, 0x7f0000001000) == "renamed");
    });
}

TEST_CASE("thread names: an ident that was forgotten is read anew") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        CHECK(find(fake, names, 0x7f0000002000) == "caf\xc3\xa9");
        fake.set_active({{0x7f0000002000, U"another thread"}});
        names.forget(0x7f0000002000);
        CHECK(find(fake, names, 0x7f0000002000) == "another thread");
    });
}

TEST_CASE("thread names: without threading there are none") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        fake.builder.set_modules(fake.interpreter, fake.builder.dict({{"sys", fake.builder.none()}}));
        CHECK(find(fake, names, 0x7f0000001000) == "(none)");
        CHECK_FALSE(names.refresh(fake.memory));
        fake.builder.set_modules(fake.interpreter, kNullAddress);
        CHECK_FALSE(names.refresh(fake.memory));
    });
}

TEST_CASE("thread names: a failed refresh loses nothing that was known") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
        fake.memory.end_process();
        CHECK_FALSE(names.refresh(fake.memory));
        CHECK(find(fake, names, 0x7f0000001000) == "MainThread");
    });
}

TEST_CASE("thread names: any read may fail, and nothing worse follows") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        fake.memory.reset_counts();
        CHECK(names.refresh(fake.memory));
        const std::size_t reads = fake.memory.reads();
        for (std::size_t i = 1; i <= reads; ++i) {
            ThreadNames fresh = names;
            fake.memory.fail_at(i);
            (void)fresh.refresh(fake.memory);
            CHECK(find(fake, fresh, 0x7f0000001000) == "MainThread");
        }
    });
}

TEST_CASE("thread names: a thread whose name can't be read does not spoil the others") {
    for_each_layout([](FakeInterpreter& fake, ThreadNames& names) {
        const Address sound = fake.builder.instance("Thread", {{"_name", fake.builder.str("sound")}});
        const Address odd = fake.builder.instance("Thread", {{"_name", Address{0x123}}});
        const Address nameless = fake.builder.instance("Thread", {{"other", fake.builder.none()}});
        const Address table = fake.builder.dict({{fake.builder.integer(1), odd},
                                                 {fake.builder.integer(2), Address{0x77}},
                                                 {fake.builder.integer(3), nameless},
                                                 {Address{0x88}, sound},
                                                 {fake.builder.integer(4), sound}},
                                                ObjectBuilder::Table::kGeneral);
        const Address threading = fake.builder.module(fake.builder.dict({{"_active", table}}));
        fake.builder.set_modules(fake.interpreter, fake.builder.dict({{"threading", threading}}));
        CHECK(find(fake, names, 4) == "sound");
        for (const std::uint64_t ident : {1U, 2U, 3U}) CHECK(find(fake, names, ident) == "(none)");
    });
}
