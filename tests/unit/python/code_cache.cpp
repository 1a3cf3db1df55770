// SPDX-License-Identifier: Apache-2.0
//
// Code objects of every layout: what is read of them, what is refused, and that one which becomes another
// behind our back is found out.
#include "python/code_cache.h"

#include "support/known_layouts.h"
#include "support/process_builder.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace pyprof;
using namespace pyprof::test;

namespace {

struct Codes {
    explicit Codes(const Layout& layout) : builder(memory, layout), cache(memory, builder.layout(), stacks) {}

    Address make(std::u32string name, std::uint32_t version = 0, int first_line = 10) {
        ObjectBuilder::CodeSpec spec;
        spec.name = std::move(name);
        spec.version = version;
        spec.first_line = first_line;
        spec.bytecode = std::vector<std::byte>(40);
        return builder.code(spec);
    }
    std::string name_of(CodeIndex index) { return std::string(stacks.string(cache.entry(index).name)); }
    std::vector<CodeIndex> verify(std::vector<CodeIndex> used) {
        std::vector<CodeIndex> stale;
        REQUIRE(cache.verify(used, stale));
        return stale;
    }
    // The value of a frame's instruction field for this index.
    std::uint64_t instruction(Address code, std::int64_t index) const {
        const Layout& layout = builder.layout();
        if (!has(layout.code.unit_count)) return static_cast<std::uint64_t>(index);
        return raw(code) + static_cast<std::uint64_t>(layout.code.bytecode) + static_cast<std::uint64_t>(index * 2);
    }

    FakeMemory memory;
    ObjectBuilder builder;
    StackTable stacks;
    CodeCache cache;
};

template <class Test>
void for_each_layout(Test test) {
    for (const KnownLayout& known : known_layouts(PYPROF_TEST_DIR)) {
        INFO("layout of " << known.name);
        Codes codes(known.layout);
        test(codes);
    }
}

}  // namespace

TEST_CASE("code cache: name, file and first line as the object has them") {
    for_each_layout([](Codes& codes) {
        ObjectBuilder::CodeSpec spec;
        spec.name = U"method";
        spec.qualname = U"Kl\u00e4sse.method";
        spec.filename = U"/srv/\u4f60\u597d.py";
        spec.first_line = 321;
        const Address address = codes.builder.code(spec);
        CHECK(codes.cache.find(address) == kNoCode);
        const CodeIndex code = codes.cache.load_code(address);
        REQUIRE(code != kNoCode);
        CHECK(codes.cache.find(address) == code);
        const CodeCache::Entry& entry = codes.cache.entry(code);
        const bool qualified = has(codes.builder.layout().code.qualname);
        CHECK(codes.name_of(code) == (qualified ? "Kl\xc3\xa4sse.method" : "method"));
        CHECK(codes.stacks.string(entry.file) == "/srv/\xe4\xbd\xa0\xe5\xa5\xbd.py");
        CHECK(entry.first_line == 321);
        CHECK(entry.is_alive);
        CHECK_FALSE(entry.is_hidden);
    });
}

TEST_CASE("code cache: an instruction belongs to its code from one unit before its first to its last") {
    for_each_layout([](Codes& codes) {
        const Address address = codes.make(U"f");
        const CodeIndex code = codes.cache.load_code(address);
        REQUIRE(code != kNoCode);
        const bool in_bytes = codes.builder.layout().instruction_kind == InstructionKind::kByteIndex;
        const std::int64_t count = in_bytes ? 40 : 20;
        CHECK(codes.cache.entry(code).unit_count == static_cast<std::uint32_t>(count));
        for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7}, count - 1}) {
            CHECK(codes.cache.instruction_index(code, codes.instruction(address, index)) == std::optional<std::int32_t>(index));
        }
        for (const std::int64_t index : {std::int64_t{-2}, count, std::int64_t{1} << 40}) {
            CHECK_FALSE(codes.cache.instruction_index(code, codes.instruction(address, index)));
        }
        if (!has(codes.builder.layout().code.unit_count)) return;
        CHECK_FALSE(codes.cache.instruction_index(code, codes.instruction(address, 3) + 1));
        CHECK_FALSE(codes.cache.instruction_index(code, 0));
    });
}

TEST_CASE("code cache: what yields is known by its flags") {
    for_each_layout([](Codes& codes) {
        for (const std::uint32_t flag : {0x20U, 0x80U, 0x200U, 0x43U}) {  // generator, coroutine, asynchronous generator
            const Address address = codes.make(U"g");
            codes.builder.put_field(address, codes.builder.layout().code.flags, flag, 4);
            const CodeIndex code = codes.cache.load_code(address);
            REQUIRE(code != kNoCode);
            CHECK(codes.cache.entry(code).is_generator == (flag != 0x43U));
        }
    });
}

TEST_CASE("code cache: code that can't be traced is the interpreter's own") {
    for_each_layout([](Codes& codes) {
        const Layout& layout = codes.builder.layout();
        if (!has(layout.code.first_traceable)) return;
        const Address address = codes.make(U"<init>");
        codes.builder.put_field(address, layout.code.first_traceable, 4, 4);
        CHECK_FALSE(codes.cache.entry(codes.cache.load_code(address)).is_hidden);
        const Address hidden = codes.make(U"<init>");
        codes.builder.put_field(hidden, layout.code.first_traceable, 20, 4);
        CHECK(codes.cache.entry(codes.cache.load_code(hidden)).is_hidden);
    });
}

TEST_CASE("code cache: equal name, file and first line are one identity") {
    for_each_layout([](Codes& codes) {
        const auto identity = [&](Address address) { return codes.cache.entry(codes.cache.load_code(address)).identity; };
        const std::uint32_t f = identity(codes.make(U"f"));
        CHECK(identity(codes.make(U"f")) == f);
        CHECK(identity(codes.make(U"g")) != f);
        CHECK(identity(codes.make(U"f", 0, 11)) != f);
    });
}

TEST_CASE("code cache: a code object that stays is not stale") {
    for_each_layout([](Codes& codes) {
        std::vector<CodeIndex> used;
        for (int i = 0; i < 700; ++i) used.push_back(codes.cache.load_code(codes.make(U"f", static_cast<std::uint32_t>(i))));
        codes.memory.reset_counts();
        CHECK(codes.verify(used).empty());
        CHECK(codes.memory.reads() <= 12);  // in batches
    });
}

TEST_CASE("code cache: many objects are read together, each as if alone") {
    for_each_layout([](Codes& codes) {
        std::vector<Address> addresses;
        for (int i = 0; i < 100; ++i) addresses.push_back(codes.make(U"f" + std::u32string(1, U'a' + static_cast<char32_t>(i % 26)), 0, i));
        addresses.insert(addresses.begin() + 50, {kNullAddress, Address{0x600000000000}, addresses.front()});
        codes.memory.reset_counts();
        codes.cache.load_codes(addresses);
        CHECK(codes.memory.reads() <= 40);  // alone they take some 800
        CHECK(codes.cache.size() == 100);
        CodeCache alone(codes.memory, codes.builder.layout(), codes.stacks);
        for (const Address address : addresses) {
            const CodeIndex together = codes.cache.find(address);
            const CodeIndex single = alone.load_code(address);
            REQUIRE((together == kNoCode) == (single == kNoCode));
            if (single == kNoCode) continue;
            CHECK(codes.cache.entry(together).name == alone.entry(single).name);
            CHECK(codes.cache.entry(together).first_line == alone.entry(single).first_line);
            CHECK(codes.cache.entry(together).unit_count == alone.entry(single).unit_count);
        }
    });
}

TEST_CASE("code cache: another object at the same address is found out, and read anew") {
    using Change = std::function<void(Codes&, Address)>;
    const std::vector<std::pair<std::string, Change>> changes{
        {"name",
         [](Codes& codes, Address code) {
             const std::uint64_t name = raw(codes.builder.str(U"new"));
             codes.builder.put_field(code, codes.builder.layout().code.name, name);
             codes.builder.put_field(code, codes.builder.layout().code.qualname, name);
         }},
        {"file",
         [](Codes& codes, Address code) {
             codes.builder.put_field(code, codes.builder.layout().code.filename, raw(codes.builder.str(U"/new.py")));
         }},
        {"first line",
         [](Codes& codes, Address code) { codes.builder.put_field(code, codes.builder.layout().code.first_line, 99, 4); }},
        {"line table",
         [](Codes& codes, Address code) {
             const Address table = codes.builder.bytes(std::vector<std::byte>(2));
             codes.builder.put_field(code, codes.builder.layout().code.line_table, raw(table));
         }},
        {"version",
         [](Codes& codes, Address code) {
             const Layout::Code& fields = codes.builder.layout().code;
             codes.builder.put_field(code, has(fields.version) ? fields.version : fields.first_line, 9, 4);
         }},
        {"nothing is left",
         [](Codes& codes, Address code) { codes.memory.unmap(code, codes.builder.layout().code.size); }},
    };
    for (const auto& [what, change] : changes) {
        INFO("changed: " << what);
        for_each_layout([&change = change](Codes& codes) {
            const Address address = codes.make(U"old", 7);
            const Address stays = codes.make(U"stays", 8);
            const std::vector<CodeIndex> used{codes.cache.load_code(stays), codes.cache.load_code(address)};
            change(codes, address);
            CHECK(codes.verify(used) == std::vector{used[1]});
            CHECK(codes.cache.find(address) == kNoCode);
            CHECK(codes.cache.find(stays) == used[0]);
            CHECK_FALSE(codes.cache.entry(used[1]).is_alive);
        });
    }
}

TEST_CASE("code cache: a name that changes under the same pointer is found out where no version tells") {
    for_each_layout([](Codes& codes) {
        const Layout& layout = codes.builder.layout();
        const Address address = codes.make(U"f1");
        const CodeIndex code = codes.cache.load_code(address);
        REQUIRE(codes.verify({code}).empty());
        // The allocator gives the same places again: all pointers stay, the text is another.
        const Offset name = has(layout.code.qualname) ? layout.code.qualname : layout.code.name;
        const auto string = read_pointer(codes.memory, address + static_cast<std::uint64_t>(name));
        REQUIRE(string);
        codes.builder.put_field(*string, layout.unicode.ascii_data + 1, '2', 1);
        CHECK(codes.verify({code}) == std::vector{code});
        CHECK(codes.name_of(codes.cache.load_code(address)) == "f2");
    });
}

TEST_CASE("code cache: an index is given again only after nobody can hold it") {
    for_each_layout([](Codes& codes) {
        const CodeIndex old = codes.cache.load_code(codes.make(U"old"));
        const std::uint32_t serial = codes.cache.entry(old).serial;
        codes.memory.unmap(codes.cache.entry(old).address, codes.builder.layout().code.size);
        REQUIRE(codes.verify({old}) == std::vector{old});
        CHECK(codes.cache.load_code(codes.make(U"next")) != old);
        codes.cache.reuse_retired();
        const CodeIndex reused = codes.cache.load_code(codes.make(U"reused"));
        CHECK(reused == old);
        CHECK(codes.cache.entry(reused).serial != serial);
    });
}

TEST_CASE("code cache: an object that changes while it is read is not taken") {
    for_each_layout([](Codes& codes) {
        const Layout::Code& fields = codes.builder.layout().code;
        const Address address = codes.make(U"old", 5);
        codes.memory.reset_counts();
        (void)CodeCache(codes.memory, codes.builder.layout(), codes.stacks).load_code(address);
        const std::size_t ranges = codes.memory.ranges();
        for (std::size_t when = 1; when < ranges; ++when) {  // after the first range was copied, before the last
            Codes fresh(codes.builder.layout());
            const Address moving = fresh.make(U"old", 5);
            const std::uint64_t fresh_other = raw(fresh.builder.str(U"other"));
            std::size_t seen = 0;
            fresh.memory.before_range = [&](FakeMemory&, const ReadRange&) {
                if (seen++ != when) return;
                fresh.builder.put_field(moving, fields.name, fresh_other);
                fresh.builder.put_field(moving, fields.qualname, fresh_other);
            };
            const CodeIndex code = fresh.cache.load_code(moving);
            fresh.memory.before_range = nullptr;
            const bool has_changed = seen > when;  // else it was read in fewer ranges
            CHECK((!has_changed || code == kNoCode || fresh.verify({code}).size() == 1 || fresh.name_of(code) == "other"));
        }
    });
}

TEST_CASE("code cache: a freed object has no name, though all of it still stands there") {
    for_each_layout([](Codes& codes) {
        if (codes.builder.layout().object.type != 8) return;  // free-threaded builds
        const Address code = codes.make(U"gone");
        // The next free block of obmalloc or none, and what glibc's malloc puts in place of the type.
        const auto put = [&](std::uint64_t offset, std::uint64_t word) { codes.memory.write(code + offset, std::as_bytes(std::span(&word, 1))); };
        const auto type = read_value<std::uint64_t>(codes.memory, code + 8);
        REQUIRE(type);
        for (const std::uint64_t next : {std::uint64_t{0}, std::uint64_t{0x7F12'3456'7890}, std::uint64_t{0x5555'5555'6010}}) {
            put(0, next);
            CHECK(codes.cache.load_code(code) == kNoCode);
        }
        put(0, 0x1C00);
        put(8, 0x9D3F'61A2'55C0'7713);
        CHECK(codes.cache.load_code(code) == kNoCode);
        put(8, *type);

        // It is freed after it was copied.
        put(0, 1);
        std::size_t ranges = 0;
        codes.memory.before_range = [&](FakeMemory&, const ReadRange&) {
            if (++ranges == 2) put(0, 0x7F12'3456'7890);
        };
        CHECK(codes.cache.load_code(code) == kNoCode);
        codes.memory.before_range = nullptr;

        // The count of references: of 1, many, and of what is immortal in 3.12 and 3.14.
        for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{70'000}, std::uint64_t{0xFFFF'FFFF}, std::uint64_t{0x0005'0000'C000'0000}}) {
            put(0, count);
            const CodeIndex index = codes.cache.load_code(code);
            REQUIRE(index != kNoCode);
            CHECK(codes.name_of(index) == "gone");
            codes.cache.drop(index);
        }
    });
}

TEST_CASE("code cache: a freed object of a free-threaded build has no name") {
    for_each_layout([](Codes& codes) {
        if (codes.builder.layout().object.type == 8) return;
        const Address code = codes.make(U"gone");
        const auto has_name = [&](std::uint64_t local, std::uint64_t shared) {  // counts as in Include/object.h
            codes.builder.put_field(code, 12, local, 4);
            codes.builder.put_field(code, 16, shared, 8);
            const CodeIndex index = codes.cache.load_code(code);
            if (index != kNoCode) codes.cache.drop(index);
            return index != kNoCode;
        };
        CHECK_FALSE(has_name(0, 0));    // never shared
        CHECK_FALSE(has_name(0, 0x1));  // had weak references
        CHECK_FALSE(has_name(0, 0x3));  // merged
        CHECK(has_name(1, 0));
        CHECK(has_name(0xFFFF'FFFF, 0));                   // immortal
        CHECK(has_name(0, 0x3 + (1U << 2U)));              // merged, one reference
        CHECK(has_name(0, (INT64_MAX / 8 << 2) + 1));      // deferred
        CHECK(has_name(2, static_cast<std::uint64_t>(-4)));  // others gave back one of the owner's
    });
}

TEST_CASE("code cache: hostile sizes and pointers give nothing") {
    for_each_layout([](Codes& codes) {
        const Layout& layout = codes.builder.layout();
        const auto spoilt = [&](Offset field, std::uint64_t value, std::size_t bytes = 8) {
            const Address address = codes.make(U"f");
            codes.builder.put_field(address, field, value, bytes);
            return codes.cache.load_code(address);
        };
        for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x600000000000}, ~std::uint64_t{0}}) {
            CHECK(spoilt(has(layout.code.qualname) ? layout.code.qualname : layout.code.name, value) == kNoCode);
            CHECK(spoilt(layout.code.filename, value) == kNoCode);
            CHECK(spoilt(layout.code.line_table, value) == kNoCode);
        }
        for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{1} << 63}) {
            if (has(layout.code.unit_count)) CHECK(spoilt(layout.code.unit_count, count) == kNoCode);
        }
        if (!has(layout.code.unit_count)) CHECK(spoilt(layout.code.bytecode, 0x600000000000) == kNoCode);
        CHECK(codes.cache.load_code(Address{0x600000000000}) == kNoCode);
        CHECK(codes.cache.load_code(kNullAddress) == kNoCode);
        CHECK(codes.cache.size() == 0);
        CHECK(spoilt(layout.code.first_line, 0x80000000, 4) != kNoCode);  // odd, but what the object says
    });
}

TEST_CASE("code cache: a name without end is cut") {
    for_each_layout([](Codes& codes) {
        const CodeIndex code = codes.cache.load_code(codes.make(std::u32string(20'000, U'x')));
        REQUIRE(code != kNoCode);
        CHECK(codes.name_of(code).size() < 5'000);
    });
}

TEST_CASE("code cache: any read may fail, and nothing worse follows") {
    for_each_layout([](Codes& codes) {
        const Address address = codes.make(U"f");
        codes.memory.reset_counts();
        (void)CodeCache(codes.memory, codes.builder.layout(), codes.stacks).load_code(address);
        const std::size_t reads = codes.memory.reads();
        for (std::size_t bad = 1; bad <= reads; ++bad) {
            CodeCache cache(codes.memory, codes.builder.layout(), codes.stacks);
            codes.memory.fail_at(bad);
            const CodeIndex code = cache.load_code(address);
            if (code != kNoCode) CHECK(codes.stacks.string(cache.entry(code).name) == "f");
        }
    });
}

TEST_CASE("code cache: code is found by an instruction within it") {
    for_each_layout([](Codes& codes) {
        if (!has(codes.builder.layout().code.unit_count)) return;
        const Address first = codes.make(U"first");
        const Address second = codes.make(U"second");
        const CodeIndex a = codes.cache.load_code(first);
        const CodeIndex b = codes.cache.load_code(second);
        CHECK(codes.cache.find_by_instruction(Address{codes.instruction(first, 0)}) == a);
        CHECK(codes.cache.find_by_instruction(Address{codes.instruction(first, 19)}) == a);
        CHECK(codes.cache.find_by_instruction(Address{codes.instruction(first, 20)}) == kNoCode);
        CHECK(codes.cache.find_by_instruction(Address{codes.instruction(second, 5)}) == b);
        CHECK(codes.cache.find_by_instruction(kNullAddress) == kNoCode);
        codes.memory.unmap(first, codes.builder.layout().code.size);
        REQUIRE(codes.verify({a}).size() == 1);
        CHECK(codes.cache.find_by_instruction(Address{codes.instruction(first, 0)}) == kNoCode);
    });
}

TEST_CASE("code cache: a thread's own copy of the bytecode belongs to the code, however late it was made") {
    for_each_layout([](Codes& codes) {
        const Layout& layout = codes.builder.layout();
        if (!has(layout.code.tlbc)) return;
        const Address address = codes.make(U"f");
        const Address own = codes.builder.allocate(64);
        const Address copy = codes.builder.allocate(64);
        const Address array = codes.builder.allocate(64);
        codes.builder.put_field(array, 0, 1);
        codes.builder.put_field(array, 8, raw(own));
        codes.builder.put_field(address, layout.code.tlbc, raw(array));
        const CodeIndex code = codes.cache.load_code(address);
        REQUIRE(code != kNoCode);
        CHECK_FALSE(codes.cache.instruction_index(code, raw(copy) + 6));
        codes.builder.put_field(array, 0, 3);
        codes.builder.put_field(array, 16, 0);  // a thread without one
        codes.builder.put_field(array, 24, raw(copy));
        CHECK(codes.cache.instruction_index(code, raw(copy) + 6) == std::optional<std::int32_t>(3));
        CHECK(codes.cache.instruction_index(code, codes.instruction(address, 3)) == std::optional<std::int32_t>(3));
        codes.builder.put_field(array, 0, std::uint64_t{1} << 60);  // hostile
        CHECK_FALSE(codes.cache.instruction_index(code, raw(copy) + 4096));
    });
}
