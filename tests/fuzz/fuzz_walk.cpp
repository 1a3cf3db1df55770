// SPDX-License-Identifier: Apache-2.0
//
// A thread of any bytes: reader, walk, code cache, stacks, proof and mending end, stay in their bounds and
// allocate no more than they say, on every layout, while the memory changes under them.
// Input: layout (1), when it changes (1), changes (1), so many changes of {offset (2), value (1)}, then the
// memory at kBase. A word whose upper half is 0xf00d.... is a pointer into it, so that chains are found.
#include "fuzz_layouts.h"
#include "sample/epoch.h"
#include "sample/mend.h"
#include "sample/proof.h"
#include "support/fake_memory.h"

using namespace pyprof;

namespace {

constexpr Address kBase{0x7f1000000000};
constexpr std::size_t kMostBytes = 16 * 1024;

// Its words may be pointers: see above.
std::vector<std::byte> image_of(std::span<const std::uint8_t> input) {
    std::vector<std::byte> image((input.size() + 7) / 8 * 8);
    for (std::size_t i = 0; i < input.size(); ++i) image[i] = std::byte{input[i]};
    for (std::size_t at = 0; at < image.size(); at += 8) {
        auto word = load<std::uint64_t>(image.data(), at);
        if (word >> 48 != 0xf00d) continue;
        word = raw(kBase) + (word & 0xffff);
        std::memcpy(image.data() + at, &word, sizeof word);
    }
    return image;
}

struct Changes {
    std::span<const std::uint8_t> list;
    std::size_t image_size = 0;
    std::size_t at_range = 0;
    std::size_t seen = 0;
    void before_range(test::FakeMemory& memory) {
        if (seen++ != at_range) return;
        for (std::size_t i = 0; i + 3 <= list.size(); i += 3) {
            const std::size_t offset = (list[i] | static_cast<std::size_t>(list[i + 1]) << 8) % image_size;
            memory.put(kBase + offset, list[i + 2]);
        }
    }
};

void check_walk(const Walk& walk) {
    check(walk.steps <= kMaxSteps + 1, "a walk without an end");
    check(walk.frames.size() <= walk.steps && walk.off_stack.size() <= walk.steps, "more frames than steps");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 16 || size > kMostBytes) return 0;
    const Layout& layout = test::fuzz_layouts()[data[0] % test::fuzz_layouts().size()].layout;
    const std::size_t changes_bytes = std::size_t{3} * (data[2] % 32);
    if (size < 3 + changes_bytes + 8) return 0;
    const std::span<const std::uint8_t> input(data, size);
    const std::vector<std::byte> image = image_of(input.subspan(3 + changes_bytes));

    test::FakeMemory memory;
    memory.write(kBase, image);
    memory.unmap(kBase + image.size(), test::FakeMemory::kPageSize);
    Changes changes{input.subspan(3, changes_bytes), image.size(), data[1]};
    memory.before_range = [&](test::FakeMemory& changing, const ReadRange&) { changes.before_range(changing); };

    const FrameShape shape(layout);
    StackTable stacks;
    CodeCache codes(memory, layout, stacks);
    StackBuilder builder(codes, stacks, true);
    PathProver prover(memory, layout, shape, codes, stacks, builder);
    Mender mender(shape, codes, stacks);
    Epoch epoch(codes, stacks, builder);
    ThreadReader reader(layout, shape, kBase);
    const auto field = [&](Offset offset) {
        return read_value<std::uint64_t>(memory, kBase + static_cast<std::uint64_t>(offset)).value_or(0);
    };
    reader.set_identity(Address{field(layout.thread.interp)}, field(layout.thread.thread_id));
    StackBuilder::Chain chain;
    StackBuilder::Chain mended;
    for (int sample = 0; sample < 4; ++sample) {
        std::vector<ReadRange> ranges;
        using Copies = ThreadReader::Copies;
        constexpr Copies kInTurn[] = {Copies::kOne, Copies::kAround, Copies::kTwo, Copies::kTwo};
        reader.plan(ranges, kInTurn[sample]);
        std::vector<std::uint8_t> filled(ranges.size(), 0);
        for (std::size_t done = 0; done < ranges.size(); ++done) {
            const std::size_t complete = memory.read(std::span(ranges).subspan(done)).complete;
            std::fill_n(filled.begin() + static_cast<std::ptrdiff_t>(done), complete, std::uint8_t{1});
            done += complete;
        }
        if (reader.take(memory, filled) != ThreadReader::Status::kOk) continue;
        if (sample == 3 && reader.has_second_moment() && reader.take_second_moment(memory) != ThreadReader::Status::kOk) continue;
        check_walk(reader.walk());
        check_walk(reader.walk_other());
        (void)builder.build(reader.walk(), chain);
        check(chain.steps.size() <= kMaxFrames, "a stack that was not cut");
        epoch.mark_used(chain);
        epoch.add(0, builder.stack_of(chain), builder.path_of(chain), std::chrono::milliseconds(1), std::chrono::milliseconds(sample));
        for (const Walk* walk : {&reader.walk(), &reader.walk_other()}) {
            (void)builder.build(*walk, chain);
            (void)prover.prove(reader, *walk, chain);
            check(prover.standing().frames <= chain.steps.size(), "frames that stand nowhere");
        }
        if (const Walk* walk = mender.rebuild(reader)) (void)builder.build(*walk, mended);
        if (const Walk* walk = mender.mend(reader)) (void)builder.build(*walk, mended);
        if (!reader.walk().frames.empty()) (void)builder.unproved(&reader.walk().frames.front());
    }
    const auto& result = epoch.end(std::chrono::seconds(1), nullptr);
    check(result.records.size() <= 4, "samples from nowhere");
    return 0;
}
