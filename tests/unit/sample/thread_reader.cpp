// SPDX-License-Identifier: Apache-2.0
//
// The read plan of one thread: how many calls a sample takes, what joins the plan and what leaves it.
#include "reading.h"

using namespace pyprof;
using namespace pyprof::test;

TEST_CASE("thread reader: a still stack takes one call a sample once it is known") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        const Address leaf = reading.push_many(reading.root(), 29);
        for (int i = 0; i < 3; ++i) {
            CHECK(reading.sample(leaf) == Status::kOk);
            reading.check_whole(30);
        }
        const std::uint64_t misses = reading.reader->misses();
        using Copies = ThreadReader::Copies;
        constexpr Copies kInTurn[] = {Copies::kOne, Copies::kTwo, Copies::kAround};
        for (int i = 0; i < 200; ++i) {
            CHECK(reading.sample(leaf, kInTurn[i % 3]) == Status::kOk);
            CHECK(reading.calls == 1);
        }
        CHECK(reading.reader->misses() == misses);
        reading.check_whole(30);
    });
}

TEST_CASE("thread reader: a stack that moves within its chunk takes one call a sample") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;  // there each frame stands alone
        std::vector<Address> frames{reading.root()};
        while (frames.size() < 40) frames.push_back(reading.push(frames.back()));
        for (int i = 0; i < 3; ++i) (void)reading.sample(frames.back());
        std::size_t calls = 0;
        for (std::size_t i = 0; i < 400; ++i) {
            const std::size_t depth = 1 + (i * 7) % 40;
            CHECK(reading.sample(frames[depth - 1]) == Status::kOk);
            reading.check_whole(depth);
            calls += reading.calls;
        }
        CHECK(calls <= 400 + 400 / 50);
    });
}

TEST_CASE("thread reader: frames that stand alone are remembered, so that a moving stack takes few calls") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (reading.shape.on_data_stack()) return;
        std::vector<Address> frames{reading.root()};
        while (frames.size() < 30) frames.push_back(reading.push(frames.back()));
        for (int i = 0; i < 3; ++i) (void)reading.sample(frames.back());
        for (std::size_t i = 0; i < 100; ++i) {
            const std::size_t depth = 20 + i % 10;
            CHECK(reading.sample(frames[depth - 1]) == Status::kOk);
            reading.check_whole(depth);
            CHECK(reading.calls <= 2);
        }
    });
}

TEST_CASE("thread reader: deep stacks are read whole, in few calls") {
    for_each_layout([](const KnownLayout& known) {
        for (const std::size_t depth : {std::size_t{1'000}, std::size_t{10'000}}) {
            Reading reading(known.layout, depth * 160 + 4'096);
            const Address leaf = reading.push_many(reading.root(), depth - 1);
            for (int i = 0; i < 3; ++i) (void)reading.sample(leaf);
            CHECK(reading.sample(leaf) == Status::kOk);
            reading.check_whole(depth);
            CHECK(reading.calls <= (reading.shape.on_data_stack() ? 1 : 2 + depth / 900));
        }
    });
}

TEST_CASE("thread reader: a stack grows over several chunks and shrinks again") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout, 4'096);
        if (!reading.shape.on_data_stack()) return;
        std::vector<Address> frames{reading.root()};
        const auto add = [&](int count) {
            for (int i = 0; i < count; ++i) frames.push_back(reading.push(frames.back()));
        };
        const auto check = [&] {
            CHECK(reading.sample(frames.back()) == Status::kOk);
            reading.check_whole(frames.size());
        };
        add(9);
        check();
        std::vector<std::size_t> depths;
        for (int chunk = 0; chunk < 5; ++chunk) {
            depths.push_back(frames.size());
            reading.open_chunk(4'096);
            add(10);
            check();
            for (int i = 0; i < 3; ++i) check();
            CHECK(reading.calls == 1);
        }
        while (!depths.empty()) {
            reading.close_chunk();
            frames.resize(depths.back());
            depths.pop_back();
            check();
            for (int i = 0; i < 2; ++i) check();
            CHECK(reading.calls == 1);
        }
    });
}

namespace {

// A stack of 1,000 frames over `chunks` chunks, which the target unmaps as it leaves them, and maps again in their places.
struct DeepStack {
    DeepStack(const KnownLayout& known, std::size_t chunks) : reading(known.layout, 1'000 / chunks * 160 + 4'096) {
        const std::size_t frames_a_chunk = 1'000 / chunks;
        Address leaf = reading.root();
        leaves.push_back({leaf});
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
            if (chunk > 0) {
                reading.open_chunk(frames_a_chunk * 160 + 4'096);
                leaves.emplace_back();
            }
            while (leaves.back().size() < frames_a_chunk) leaves.back().push_back(leaf = reading.push(leaf));
            stacks.push_back(reading.stack);
        }
        for (const auto& stack : stacks) {
            bytes.emplace_back(distance(stack.chunk, stack.limit));
            REQUIRE(read_bytes(reading.memory, stack.chunk, bytes.back()));
        }
    }
    // Samples the stack with that frame of that chunk as its leaf, and says how many calls it took.
    std::size_t sample_at(std::size_t chunk, std::size_t frame) {
        for (std::size_t i = 0; i < stacks.size(); ++i) {
            if (i > chunk) {
                reading.memory.unmap(stacks[i].chunk, bytes[i].size());
            } else {
                reading.memory.map(stacks[i].chunk, bytes[i].size());
                reading.memory.write(stacks[i].chunk, bytes[i]);
            }
        }
        reading.builder.put_field(reading.thread, reading.layout().thread.datastack_chunk, raw(stacks[chunk].chunk));
        CHECK(reading.sample_ahead(leaves[chunk][frame], copies) == Status::kOk);
        std::size_t depth = frame + 1;
        for (std::size_t i = 0; i < chunk; ++i) depth += leaves[i].size();
        reading.check_whole(depth);
        return reading.calls;
    }

    Reading reading;
    ThreadReader::Copies copies = ThreadReader::Copies::kAround;
    std::vector<std::vector<Address>> leaves;  // by chunk
    std::vector<ProcessBuilder::DataStack> stacks;
    std::vector<std::vector<std::byte>> bytes;
};

}  // namespace

TEST_CASE("thread reader: a deep stack that moves within one chunk takes one call a sample") {
    for_each_layout([](const KnownLayout& known) {
        if (!Reading(known.layout).shape.on_data_stack()) return;
        DeepStack deep(known, 1);
        for (int i = 0; i < 3; ++i) (void)deep.sample_at(0, 999);
        std::size_t calls = 0;
        for (std::size_t i = 0; i < 100; ++i) calls += deep.sample_at(0, i * 7'919 % 1'000);
        CHECK(calls == 100);
    });
}

TEST_CASE("thread reader: a deep stack that grows back over chunks that it had left takes one call more at most") {
    for_each_layout([](const KnownLayout& known) {
        if (!Reading(known.layout).shape.on_data_stack()) return;
        for (const ThreadReader::Copies copies : {ThreadReader::Copies::kAround, ThreadReader::Copies::kOne, ThreadReader::Copies::kTwo}) {
            INFO("copies: " << static_cast<int>(copies));
            DeepStack deep(known, 8);
            deep.copies = copies;
            for (int i = 0; i < 3; ++i) (void)deep.sample_at(7, 124);
            std::size_t calls = 0;
            for (std::size_t i = 0; i < 200; ++i) {
                const std::size_t chunk = i % 4 == 0 ? i / 4 % 8 : 7;
                const std::size_t frame = i % 4 == 0 ? i * 31 % 125 : 124;
                const std::size_t taken = deep.sample_at(chunk, frame);
                CHECK(taken <= 2);
                if (chunk == 7) CHECK(taken == 1);
                if (copies != ThreadReader::Copies::kOne) CHECK(deep.reading.reader->walk_other().end == WalkEnd::kRoot);
                calls += taken;
            }
            CHECK(calls <= 250);
            // Where it is seldom deep, the chunks that are mostly gone cost nothing.
            for (int i = 0; i < 40; ++i) (void)deep.sample_at(1, 60);
            calls = 0;
            for (std::size_t i = 0; i < 100; ++i) calls += deep.sample_at(i % 10 == 0 ? 7 : 1, 60);
            CHECK(calls <= 105);
        }
    });
}

TEST_CASE("thread reader: a chunk that is begun before the pointer to the leaf is read takes one call") {
    for_each_layout([](const KnownLayout& known) {
        if (known.layout.frame_root != FrameRoot::kThreadCframe) return;  // 3.11 and 3.12
        DeepStack deep(known, 4);
        deep.copies = ThreadReader::Copies::kTwo;
        for (int i = 0; i < 3; ++i) (void)deep.sample_at(3, 200);
        Reading& reading = deep.reading;
        reading.memory.unmap(deep.stacks[3].chunk, deep.bytes[3].size());
        reading.builder.put_field(reading.thread, reading.layout().thread.datastack_chunk, raw(deep.stacks[2].chunk));
        reading.before_take = [&] {
            reading.memory.map(deep.stacks[3].chunk, deep.bytes[3].size());
            reading.memory.write(deep.stacks[3].chunk, deep.bytes[3]);
        };
        CHECK(reading.sample_ahead(deep.leaves[3][60], deep.copies) == Status::kOk);
        reading.check_whole(811);
        CHECK(reading.calls == 3);
    });
}

// 3.11 and 3.12. The chunk of the leaf was freed and begun anew between the copies: its frames stood there before, too, but in
// another life.
TEST_CASE("thread reader: a chunk that was not in use at the pointer has no earlier copy") {
    for_each_layout([](const KnownLayout& known) {
        if (known.layout.frame_root != FrameRoot::kThreadCframe) return;
        DeepStack deep(known, 4);
        for (int i = 0; i < 3; ++i) (void)deep.sample_at(3, 200);
        Reading& reading = deep.reading;
        const Address leaf = deep.leaves[3][60];
        const Address caller = deep.leaves[3][59];
        reading.builder.set_leaf(reading.thread, leaf);
        const auto& last = deep.stacks[3];
        const auto state_says = [&](Address chunk) { reading.builder.put_field(reading.thread, reading.layout().thread.datastack_chunk, raw(chunk)); };
        for (const bool is_freed : {false, true}) {
            INFO("freed between the copies: " << is_freed);
            reading.memory.before_range = [&](FakeMemory& memory, const ReadRange& range) {
                if (!is_freed || range.from != reading.thread) return;
                memory.unmap(last.chunk, deep.bytes[3].size());
                state_says(deep.stacks[2].chunk);
                memory.before_range = [&](FakeMemory& then, const ReadRange&) {  // at the pointer
                    then.before_range = nullptr;
                    then.map(last.chunk, deep.bytes[3].size());
                    then.write(last.chunk, deep.bytes[3]);
                };
            };
            CHECK(reading.sample_ahead(leaf) == Status::kOk);
            reading.memory.before_range = nullptr;
            reading.check_whole(811);
            CHECK(reading.reader->frame_in(leaf, caller, false).has_value());
            CHECK(reading.reader->frame_in(leaf, caller, true).has_value() == !is_freed);
            CHECK(reading.reader->frame_in(deep.leaves[2][200], deep.leaves[2][199], true).has_value());
            state_says(last.chunk);
        }
    });
}

TEST_CASE("thread reader: chunks that come back in another order are told by their links") {
    for_each_layout([](const KnownLayout& known) {
        if (!Reading(known.layout).shape.on_data_stack()) return;
        DeepStack deep(known, 4);
        Reading& reading = deep.reading;
        for (int i = 0; i < 3; ++i) (void)deep.sample_at(3, 200);
        // The last one now stands where the third stood, and calls back to the second; its frames say so, too.
        reading.memory.unmap(deep.stacks[2].chunk, deep.bytes[2].size());
        reading.builder.put_field(deep.stacks[3].chunk, reading.layout().chunk.previous, raw(deep.stacks[1].chunk));
        reading.builder.put_field(deep.leaves[3][0], reading.layout().frame.back, raw(deep.leaves[1].back()));
        CHECK(reading.sample_ahead(deep.leaves[3][200]) == Status::kOk);
        reading.check_whole(701);
        CHECK(reading.calls <= 3);
        CHECK(reading.reader->chunk_begin() == deep.stacks[3].chunk + static_cast<std::uint64_t>(reading.layout().chunk.data));
        CHECK_FALSE(reading.reader->is_chunk_start(deep.leaves[2][0]));
    });
}

TEST_CASE("thread reader: a chunk list that was read in part is completed with the next sample") {
    for_each_layout([](const KnownLayout& known) {
        if (!Reading(known.layout).shape.on_data_stack()) return;
        DeepStack deep(known, 4);
        // The second chunk can't be read when the list is followed for the first time.
        deep.reading.memory.unmap(deep.stacks[1].chunk, deep.bytes[1].size());
        deep.reading.builder.put_field(deep.reading.thread, deep.reading.layout().thread.datastack_chunk, raw(deep.stacks[3].chunk));
        (void)deep.reading.sample_ahead(deep.leaves[3][200]);
        CHECK(deep.reading.reader->walk().end == WalkEnd::kUnreadable);
        CHECK(deep.sample_at(3, 200) <= 6);
        CHECK(deep.sample_at(3, 200) <= 2);
        CHECK(deep.sample_at(3, 200) == 1);
        CHECK_FALSE(deep.reading.reader->is_chunk_start(deep.leaves[1][1]));
        CHECK(deep.reading.reader->is_chunk_start(deep.leaves[1][0]));
    });
}

TEST_CASE("thread reader: another chunk at the address of a freed one is no trap") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout, 4'096);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        const Address first = reading.stack.chunk;
        reading.open_chunk(2'048);
        const Address leaf = reading.push_many(root, 5);
        for (int i = 0; i < 3; ++i) (void)reading.sample(leaf);
        reading.check_whole(6);
        // It is freed, and a longer one comes back at the same place.
        reading.builder.put_field(reading.stack.chunk, reading.layout().chunk.size, 64 * 1024);
        reading.memory.map(reading.stack.chunk, 64 * 1024);
        reading.builder.put_field(reading.stack.chunk, reading.layout().chunk.previous, raw(first));
        reading.stack.top = reading.stack.chunk + 24;
        const Address deeper = reading.push_many(root, 100);
        CHECK(reading.sample(deeper) == Status::kOk);
        reading.check_whole(101);
    });
}

TEST_CASE("thread reader: a freed generator frame leaves the plan at once") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        reading.builder.allocate(8192);
        const Address generator = reading.generator(root);
        const Address leaf = reading.push(generator);
        for (int i = 0; i < 3; ++i) (void)reading.sample(leaf);
        reading.check_whole(3);
        const std::size_t planned = reading.planned;
        reading.memory.unmap(generator, known.layout.frame.size);
        CHECK(reading.sample(root) == Status::kOk);
        reading.check_whole(1);
        CHECK(reading.calls <= 2);  // the read ended early, and was resumed behind the bad range
        CHECK(reading.sample(root) == Status::kOk);
        CHECK(reading.calls == 1);
        CHECK(reading.planned < planned);
    });
}

TEST_CASE("thread reader: a generator's frame joins the plan, and leaves it when it is not needed any more") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        (void)reading.sample(root);
        (void)reading.sample(root);
        const std::size_t plain = reading.planned;
        reading.builder.allocate(8192);
        const Address leaf = reading.push(reading.generator(root));
        (void)reading.sample(leaf);
        CHECK(reading.calls > 1);
        (void)reading.sample(leaf);
        CHECK(reading.calls == 1);
        CHECK(reading.planned == plain + 1);
        for (int i = 0; i < 70; ++i) (void)reading.sample(root);
        CHECK(reading.planned == plain);
    });
}

TEST_CASE("thread reader: of many coroutines that take turns none is planned, and one call brings a whole chain") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        std::vector<Address> leaves;
        for (int task = 0; task < 100; ++task) {
            Address frame = root;
            for (int i = 0; i < 4; ++i) {
                reading.builder.allocate(8192);  // far from each other
                frame = reading.generator(frame);
            }
            leaves.push_back(frame);
        }
        for (const Address leaf : leaves) (void)reading.sample(leaf);
        const std::size_t plain = reading.planned;
        for (const Address leaf : leaves) {
            CHECK(reading.sample(leaf) == Status::kOk);
            CHECK(reading.planned <= plain);
            CHECK(reading.calls == 2);
            reading.check_whole(5);
        }
    });
}

TEST_CASE("thread reader: remembered callers that form a circle end, and one that is gone costs no frame above it") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        reading.builder.allocate(8192);
        const Address outer = reading.generator(root);
        reading.builder.allocate(8192);
        const Address inner = reading.generator(outer);
        const auto set_back = [&](Address frame, Address caller) { reading.builder.put_field(frame, known.layout.frame.back, raw(caller)); };
        (void)reading.sample(inner);
        set_back(inner, root);  // now the other way round
        set_back(outer, inner);
        (void)reading.sample(outer);
        for (int i = 0; i < 200; ++i) (void)reading.sample(root);
        CHECK(reading.sample(outer) == Status::kOk);
        reading.check_whole(3);
        for (int i = 0; i < 200; ++i) (void)reading.sample(root);
        reading.memory.unmap(inner, known.layout.frame.size);
        CHECK(reading.sample(outer) == Status::kOk);
        CHECK(reading.reader->walk().frames.size() == 1);
        CHECK(reading.reader->walk().frames.front().address == outer);
    });
}

TEST_CASE("thread reader: frames that lie close to each other are one range, and one that is freed is read around") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        reading.builder.allocate(8192);
        const Address outer = reading.generator(root);
        const Address inner = reading.generator(outer);
        (void)reading.sample(root);
        (void)reading.sample(root);
        const std::size_t plain = reading.planned;
        for (int i = 0; i < 3; ++i) (void)reading.sample(inner);
        CHECK(reading.planned == plain + 1);
        CHECK(reading.calls == 1);
        reading.check_whole(3);
        reading.memory.unmap(inner, known.layout.frame.size);
        CHECK(reading.sample(outer) == Status::kOk);
        reading.check_whole(2);
        CHECK(reading.sample(outer) == Status::kOk);
        CHECK(reading.calls == 1);
        reading.check_whole(2);
    });
}

TEST_CASE("thread reader: copies around the pointer hold each frame as it was before and after") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        const Address root = reading.root();
        const Address leaf = reading.push(root);
        for (int i = 0; i < 3; ++i) (void)reading.sample(leaf);
        const Address g = reading.code("g");
        bool passed_pointer = false;
        reading.memory.before_range = [&](FakeMemory&, const ReadRange& range) {
            if (raw(range.from) != raw(reading.thread)) return;
            passed_pointer = true;
            reading.builder.put_field(leaf, reading.layout().frame.code, raw(g));  // between the copies
        };
        CHECK(reading.sample(leaf, ThreadReader::Copies::kAround) == Status::kOk);
        reading.memory.before_range = nullptr;
        CHECK(passed_pointer);
        REQUIRE(reading.reader->walk().frames.size() == 2);
        REQUIRE(reading.reader->walk_other().frames.size() == 2);
        CHECK(reading.reader->walk().frames[0].code == g);
        CHECK(reading.reader->walk_other().frames[0].code == reading.f);
        const auto before = reading.reader->frame_in(leaf, root, true);
        REQUIRE(before);
        CHECK(before->code == reading.f);
        CHECK_FALSE(reading.reader->frame_in(leaf, leaf, true));  // another caller than it has there
        CHECK(reading.reader->frame_in(root, kNullAddress, true).has_value());
        CHECK_FALSE(reading.reader->frame_in(root, leaf, true));
    });
}

TEST_CASE("thread reader: the first reading dates a sample, and the second one may stand for it with the first as the earlier copy") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        const Address root = reading.root();
        const Address leaf = reading.push(root);
        const Address deeper = reading.push(leaf);
        for (int i = 0; i < 3; ++i) (void)reading.sample(i == 2 ? leaf : deeper);
        const Address g = reading.code("g");
        int readings = 0;
        reading.memory.before_range = [&](FakeMemory&, const ReadRange& range) {
            if (range.from != reading.thread || ++readings != 2) return;
            reading.builder.put_field(leaf, reading.layout().frame.code, raw(g));
            reading.builder.set_leaf(reading.thread, deeper);
        };
        CHECK(reading.sample(leaf, ThreadReader::Copies::kTwo) == Status::kOk);
        reading.memory.before_range = nullptr;
        CHECK(readings == 2);
        ThreadReader& reader = *reading.reader;
        CHECK(reader.leaf() == leaf);
        CHECK_FALSE(reader.is_other_earlier());
        REQUIRE(reader.walk().frames.size() == 2);
        CHECK(reader.walk().frames[0].code == reading.f);
        REQUIRE(reader.has_second_moment());
        REQUIRE(reader.take_second_moment(reading.memory) == Status::kOk);
        CHECK(reader.is_other_earlier());
        CHECK_FALSE(reader.has_second_moment());
        CHECK(reader.leaf() == deeper);
        REQUIRE(reader.walk().frames.size() == 3);
        CHECK(reader.walk().frames[1].code == g);
        const auto before = reader.frame_in(leaf, root, true);
        REQUIRE(before);
        CHECK(before->code == reading.f);
    });
}

TEST_CASE("thread reader: a generator that had ended is told from one that waits, where both keep their code") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Address root = reading.root();
        const auto generator = reading.builder.generator(reading.plain(root));
        const auto had_ended = [&](int state) {
            reading.builder.put_field(generator.object, known.layout.generator.frame_state, static_cast<std::uint8_t>(state), 1);
            (void)reading.sample(generator.frame, ThreadReader::Copies::kAround);
            return reading.reader->had_ended(generator.frame);
        };
        (void)had_ended(0);
        CHECK_FALSE(had_ended(0));   // executing
        CHECK_FALSE(had_ended(-1));  // suspended
        CHECK(had_ended(1) == !reading.shape.clears_popped_frames());
        CHECK(had_ended(4) == !reading.shape.clears_popped_frames());
        CHECK_FALSE(had_ended(77));
        CHECK_FALSE(reading.reader->had_ended(root));
    });
}

TEST_CASE("thread reader: a thread that is another's by now, or can't be read, is gone") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        const Address root = reading.root();
        CHECK(reading.sample(root) == Status::kOk);
        reading.builder.put_field(reading.thread, reading.layout().thread.thread_id, kPthread + 0x1000);
        CHECK(reading.sample(root) == Status::kGone);
        reading.builder.put_field(reading.thread, reading.layout().thread.thread_id, kPthread);
        CHECK(reading.sample(root) == Status::kOk);
        reading.builder.put_field(reading.thread, reading.layout().thread.interp, 0x1000);
        CHECK(reading.sample(root) == Status::kGone);
        reading.memory.unmap(reading.thread, known.layout.thread.size);
        CHECK(reading.sample() == Status::kGone);
    });
}

TEST_CASE("thread reader: a thread without a frame has none") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        CHECK(reading.sample(kNullAddress) == Status::kNoFrame);
        CHECK(reading.reader->walk().frames.empty());
        if (!has(known.layout.thread.base_frame)) return;
        const Address base = *read_pointer(reading.memory, reading.thread + static_cast<std::uint64_t>(known.layout.thread.base_frame));
        CHECK(reading.sample(base) == Status::kNoFrame);
    });
}

TEST_CASE("thread reader: what looks like an entry frame on the data stack is the rest of others") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.has_shims()) return;
        ProcessBuilder::FrameSpec spec;
        spec.code = reading.builder.none();
        spec.owner = has(known.layout.frame.owner_interpreter) ? known.layout.frame.owner_interpreter : known.layout.frame.owner_cstack;
        const Address false_shim = reading.builder.push_frame(reading.stack, spec);
        const Address leaf = reading.push(false_shim);
        CHECK(reading.sample(leaf) == Status::kOk);
        CHECK(reading.reader->walk().end == WalkEnd::kInvalid);
    });
}

TEST_CASE("thread reader: hostile chunks are bounded in memory and time") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.shape.on_data_stack()) return;
        const Layout::Chunk& chunk = reading.layout().chunk;
        const Address root = reading.root();
        for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{24}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
            reading.builder.put_field(reading.stack.chunk, chunk.size, size);
            reading.reader = std::make_unique<ThreadReader>(reading.layout(), reading.shape, reading.thread);
            reading.reader->set_identity(reading.interpreter, kPthread);
            CHECK(reading.sample(root) == Status::kOk);
            reading.check_whole(1);  // by its address, without the chunk
        }
        // A list of chunks that ends in itself, each of which claims to be full.
        reading.builder.put_field(reading.stack.chunk, chunk.size, 16 * 1024);
        reading.builder.put_field(reading.stack.chunk, chunk.top, ~std::uint64_t{0} >> 8);
        reading.builder.put_field(reading.stack.chunk, chunk.previous, raw(reading.stack.chunk));
        CHECK(reading.sample(root) == Status::kOk);
        CHECK(reading.sample(root) == Status::kOk);
    });
}

TEST_CASE("thread reader: a caller at the end of the address space is not there") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        const Address leaf = reading.push_many(reading.root(), 3);
        CHECK(reading.sample(leaf) == Status::kOk);
        for (const std::uint64_t distance_from_end : {1U, 8U, 64U, 4096U}) {
            reading.builder.put_field(leaf, known.layout.frame.back, ~std::uint64_t{0} - distance_from_end);
            CHECK(reading.sample(leaf, ThreadReader::Copies::kAround) == Status::kOk);
            CHECK(reading.reader->walk().end != WalkEnd::kRoot);
            CHECK(reading.reader->walk().frames.size() == 1);
        }
    });
}

TEST_CASE("thread reader: a pointer to the leaf that can't be read is no empty stack") {
    for_each_layout([](const KnownLayout& known) {
        if (known.layout.frame_root != FrameRoot::kThreadCframe) return;
        Reading reading(known.layout);
        CHECK(reading.sample(reading.push(reading.root())) == Status::kOk);
        CHECK(reading.sample(kNullAddress) == Status::kNoFrame);
        reading.builder.put_field(reading.thread, known.layout.thread.cframe, 0x123450);
        CHECK(reading.sample() == Status::kOk);
        CHECK(reading.reader->walk().end == WalkEnd::kUnreadable);
        CHECK(reading.reader->walk().frames.empty());
        reading.builder.put_field(reading.thread, known.layout.thread.cframe, 0);
        CHECK(reading.sample() == Status::kNoFrame);
    });
}

namespace {

constexpr std::uint64_t kCframeBytes = 32;

Address with_cframe(Reading& reading, Address frame, Address previous) {
    const Address cframe = reading.builder.allocate(kCframeBytes);
    reading.builder.put_field(cframe, reading.layout().cframe.current_frame, raw(frame));
    reading.builder.put_field(cframe, reading.layout().cframe.previous, raw(previous));
    return cframe;
}

}  // namespace

TEST_CASE("thread reader: where C code calls back again and again, the pointer of each loop is in the plan") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.thread.cframe) || known.layout.frame_root != FrameRoot::kThreadCframe) return;
        Reading reading(known.layout);
        const Address root = reading.root();
        const Address leaf = reading.push(root);
        const Address outer = with_cframe(reading, root, kNullAddress);
        const Address inner = with_cframe(reading, leaf, outer);
        const auto sample_in = [&](Address cframe) {
            reading.builder.put_field(reading.thread, known.layout.thread.cframe, raw(cframe));
            CHECK(reading.sample() == Status::kOk);
            return reading.reader->leaf();
        };
        for (int i = 0; i < 4; ++i) (void)sample_in(i % 2 == 0 ? inner : outer);
        for (int i = 0; i < 20; ++i) {
            CHECK(sample_in(outer) == root);
            CHECK(reading.calls == 1);
            CHECK(sample_in(inner) == leaf);
            CHECK(reading.calls == 1);
        }
        const std::size_t with_both = reading.planned;
        for (int i = 0; i < 300; ++i) (void)sample_in(inner);  // the other one is forgotten: what lies between costs a range's bytes
        CHECK(reading.planned == with_both);
        CHECK(sample_in(outer) == root);
        CHECK(reading.calls == 2);
    });
}

TEST_CASE("thread reader: what stands on a copied C stack needs no range and is no miss") {
    for_each_layout([](const KnownLayout& known) {
        Reading reading(known.layout);
        if (!reading.has_shims()) return;
        const Address root = reading.root();
        const Address first = reading.builder.allocate(8);
        for (int i = 0; i < 3; ++i) (void)reading.sample(root);
        for (int i = 0; i < 10; ++i) {  // each time another loop, whose entry frame was never seen
            const Address entry = reading.builder.shim(root);
            ProcessBuilder::FrameSpec spec = reading.plain(entry);
            spec.is_entry = true;
            const Address leaf = reading.builder.any_frame(reading.stack, spec);
            if (has(reading.layout().thread.cframe)) {
                const Address cframe = with_cframe(reading, leaf, kNullAddress);
                reading.builder.put_field(reading.thread, reading.layout().thread.cframe, raw(cframe));
            }
            reading.builder.set_leaf(reading.thread, leaf);
            reading.copy_c_stack(first, reading.builder.allocate(8));
            const std::uint64_t misses = reading.reader->misses();
            CHECK(reading.sample() == Status::kOk);
            reading.check_whole(2);
            if (i > 0) {
                CHECK(reading.reader->misses() == misses);
                CHECK(reading.calls == 1);
            }
        }
    });
}

TEST_CASE("thread reader: a loop that has put up its cframe, but no frame yet, is passed over") {
    for_each_layout([](const KnownLayout& known) {
        if (!has(known.layout.thread.cframe) || known.layout.frame_root != FrameRoot::kThreadCframe) return;
        Reading reading(known.layout);
        const Address leaf = reading.push_many(reading.root(), 4);
        const Address begun = with_cframe(reading, Address{0xdead0000}, kNullAddress);
        const Address running = with_cframe(reading, leaf, kNullAddress);
        reading.builder.put_field(begun, reading.layout().cframe.previous, raw(running));
        reading.builder.put_field(reading.thread, reading.layout().thread.cframe, raw(begun));
        reading.copy_c_stack(begun, running + kCframeBytes);
        CHECK(reading.sample() == Status::kOk);
        reading.check_whole(5);
        CHECK(reading.reader->leaf() == leaf);
        CHECK(reading.reader->leaf_cframe() == running);
    });
}

// In between, the pointer in a cframe is the rest of an earlier loop at the same place, and may lead to frames that look whole.
TEST_CASE("thread reader: where the thread stands, what an earlier loop left in the cframe is no leaf") {
    for_each_layout([](const KnownLayout& known) {
        if (known.layout.frame_root != FrameRoot::kThreadCframe) return;
        Reading reading(known.layout);
        auto waits = reading.plain(kNullAddress);
        waits.stack = 1;
        const Address root = reading.entered(waits);
        const Address leaf = reading.push(root);
        reading.builder.put_field(leaf, known.layout.frame.stacktop, static_cast<std::uint32_t>(-1), 4);  // it executes: C code runs
        // What it called last time has been left since: above the top of the stack.
        const Address top = reading.stack.top;
        auto left = reading.plain(leaf);
        left.stack = 1;
        const Address popped = reading.builder.any_frame(reading.stack, left);
        reading.builder.put_field(reading.thread, known.layout.thread.datastack_top, raw(top));
        const Address begun = with_cframe(reading, popped, kNullAddress);
        const Address running = with_cframe(reading, leaf, kNullAddress);
        reading.builder.put_field(begun, known.layout.cframe.previous, raw(running));
        reading.builder.put_field(reading.thread, known.layout.thread.cframe, raw(begun));
        reading.motion = ThreadReader::Motion::kStands;
        CHECK(reading.sample() == Status::kOk);
        CHECK(reading.reader->leaf() == leaf);
        // A call that is about to enter its loop has no caller yet: it would be the root of a stack of its own.
        reading.builder.put_field(reading.thread, known.layout.thread.datastack_top, raw(reading.stack.top));
        reading.builder.put_field(popped, known.layout.frame.back, 0);
        CHECK(reading.sample() == Status::kOk);
        CHECK(reading.reader->leaf() == leaf);
        // One that executes is what runs.
        reading.builder.put_field(popped, known.layout.frame.back, raw(leaf));
        reading.builder.put_field(popped, known.layout.frame.stacktop, static_cast<std::uint32_t>(-1), 4);
        CHECK(reading.sample() == Status::kOk);
        CHECK(reading.reader->leaf() == popped);
        // An entry frame is left, too, and so may be what it leads to, though it lies below the top.
        if (has(known.layout.frame.owner_cstack)) {
            const Address entry = reading.builder.shim(popped);
            reading.builder.set_leaf(reading.thread, entry);
            CHECK(reading.sample() == Status::kOk);
            CHECK(reading.reader->leaf() == leaf);
            reading.builder.set_leaf(reading.thread, popped);
        }
        // So is one that waits for a trace function in C.
        reading.builder.put_field(popped, known.layout.frame.stacktop, 1, 4);
        CHECK(reading.sample() == Status::kOk);
        CHECK(reading.reader->leaf() == popped);
    });
}
